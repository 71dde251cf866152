/* Where the walk of a program needs barriers. */
#ifndef ROUX_PROGRAM_HAZARD_H
#define ROUX_PROGRAM_HAZARD_H

#include "program/program.h"

/* Bytes of the arena that a node reads, or writes. */
struct touch {
    bool temporary, writes;
    int64_t from, to;
};

enum { TOUCHES_MOST = 2 * (OP_IN + OP_OUT) + 1 };

/* What a node touches, a collective its message included; nothing for nodes that do nothing.
 * Returns how many. After the plan. */
int node_touches(const struct program *p, const struct node *n, struct touch out[TOUCHES_MOST]);

/*
 * Sets `barrier` of every node before which all threads must have met: where it, or a message that
 * begins with it, touches bytes that a node since the last barrier wrote, or writes bytes that one
 * touched. Between barriers threads may be at different nodes; within a node each keeps to its
 * share. Returns how many there are.
 */
int place_barriers(struct program *p);

#endif
