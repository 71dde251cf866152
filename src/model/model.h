/*
 * Models as programs: layers write nodes. No function here contains a backward or knows a degree
 * beyond the axes it names.
 */
#ifndef ROUX_MODEL_MODEL_H
#define ROUX_MODEL_MODEL_H

#include "model/family.h"
#include "model/spec.h"
#include "model/weights.h"
#include "program/program.h"

struct model {
    const struct model_spec *spec;
    const struct weights *weights;
    const double *inv_freq; /* [head_dim / 2] */
};

/* Batch inputs of a program, each [B, S] I32: see data/batch.h. */
struct model_inputs {
    val ids, targets, positions, starts;
};

enum model_flags {
    MODEL_TRAINS = 1 << 0,    /* weights want gradients */
    MODEL_RECOMPUTE = 1 << 1, /* layers are repeated in the backward pass */
    MODEL_REGATHER = 1 << 2   /* gathered weights are dropped between forward and backward */
};

MUST_USE status model_make(struct model *m, struct arena *a, const struct model_spec *s,
                           const struct mesh *mesh);

struct model_inputs model_inputs(struct program *p, int64_t B, int64_t S);

/* Up to the last norm: [B, S, D], entered for the head. `head` receives the head's weight. */
val model_hidden(struct program *p, const struct model *m, const struct model_inputs *in,
                 unsigned flags, val *head);

/* Sums of token losses, one a sequence: [B] F64. */
val model_loss(struct program *p, const struct model *m, const struct model_inputs *in,
               unsigned flags);

/* [B, S, V], split on the last dimension where the vocabulary is. */
val model_logits(struct program *p, const struct model *m, const struct model_inputs *in);

#endif
