/*
 * Inside the room: layers, and the one place of this room that asks whether an axis is longer than
 * one.
 */
#ifndef ROUX_MODEL_LAYER_H
#define ROUX_MODEL_LAYER_H

#include "model/model.h"

/* A segment's flat buffer as a layer uses it: entered over the replicas, gathered over the shard
 * group. */
struct weight_use {
    const struct weight_segment *segment;
    val flat;
};

/* The persistent buffer is declared once a program; a second use of it (tied embedding) enters
 * and gathers once more, so that each of the two gradients is reduced by itself. */
struct weight_use layer_weights(struct program *p, const struct model *m, int segment, bool trains);
bool layer_weights_direct(
    const struct program *p); /* whether a use is the buffer itself: nothing to enter or gather */

/* The part of that kind, [rows, columns] or [rows]; value 0 if the model has none. */
val layer_part(struct program *p, const struct weight_use *u, enum part_kind kind);
const struct weight_part *segment_part(const struct weight_segment *g, enum part_kind kind);

val layer_enter(struct program *p, axes over, val x);
val layer_leave(struct program *p, axes over, val x);

#endif
