/* Inside the room: when messages between ranks begin, and when they are waited for. */
#ifndef ROUX_PROGRAM_MESSAGES_H
#define ROUX_PROGRAM_MESSAGES_H

#include "program/program.h"

/*
 * Sets `begin` of every node, and the program's lists of what begins where. Where `prefetch` is
 * asked for it first moves collectives that end in a weight's gradient, and what adds them there,
 * one segment down. The order is a function of the list alone: the same on all ranks. Nodes that
 * nobody needs must be gone; before the lifetimes.
 */
void place_messages(struct program *p);

#endif
