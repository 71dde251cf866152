/*
 * Where the parts of a value lie: for each axis of the mesh whole, split on a dimension, or a
 * partial sum.
 *
 *   WHOLE    every member holds the same. Its gradient is whole too: every member computed all of it.
 *   COPIES   every member holds the same, and each uses it with other rows or other weights, so its gradient is a partial
 *            sum. `enter` and `gather` make it; only a COPIES value may meet a split one.
 *   split d  the members hold consecutive parts of dimension d; so is the gradient.
 *   PARTIAL  the value is the sum of the members'; its gradient is whole. `leave` and `scatter` end it.
 *   MIXED    a flat buffer on TP: each part in it has its own place, which a view states.
 *
 * Axes of length 1 are always WHOLE, so a program for one rank has nothing to check. A zeroed place
 * is whole everywhere.
 */
#ifndef ROUX_PROGRAM_PLACE_H
#define ROUX_PROGRAM_PLACE_H

#include <stdbool.h>
#include <stdint.h>
#include "comm/mesh.h"

enum { WHOLE = 0, PARTIAL = -1, COPIES = -2, MIXED = -3 }; /* else d + 1: split on dimension d */

struct place {
    int8_t on[AXIS_COUNT];
};

static inline bool place_is_split(int8_t on)
{
    return on > 0;
}

bool place_same(struct place a, struct place b);

/* The place of a value's gradient. */
struct place place_gradient(struct place p);

/* "whole", "split 0 on ds, copies on rep"; written into `out`, which is returned. */
char *place_text(struct place p, char out[128]);
const char *place_word(int8_t on); /* "whole", "split on dimension 0", ... */

/* Sets `on` for every axis of the set that is longer than 1. */
struct place place_on(const struct mesh *m, struct place p, axes over, int8_t on);

/* Batch rows [B, ...]: split on dimension 0 over the data axes. */
struct place place_rows(const struct mesh *m);

#endif
