/*
 * How long a step will take on this machine, from what was measured of its kernels.
 *
 * A node's rate is the mean of the rates of measured nodes of the same op, weighted by nearness: the
 * logarithms of the sizes are the coordinates. Work divided by it, and the barriers before nodes, add
 * up over the programs of a step. Messages between ranks are not in it.
 */
#ifndef ROUX_TRAIN_ESTIMATE_H
#define ROUX_TRAIN_ESTIMATE_H

#include "train/calibration.h"
#include "train/train.h"

enum estimate_kind {
    ESTIMATE_PRODUCTS, /* with the weights of layers, in all three forms */
    ESTIMATE_HEAD,     /* with cross-entropy */
    ESTIMATE_ATTENTION,
    ESTIMATE_ROWS,     /* norms, rotations, activations, embedding, sums */
    ESTIMATE_UPDATE,   /* norm of the gradient, clipping, AdamW */
    ESTIMATE_BARRIERS, /* where all threads meet */
    ESTIMATE_KINDS
};

struct estimate {
    double seconds; /* a step */
    double by_kind[ESTIMATE_KINDS];
};

const char *estimate_kind_name(enum estimate_kind kind);

/* Seconds of one node. An op that was never measured runs at memory bandwidth, or at half the peak. */
double estimate_node(const struct calibration *c, enum op op, const struct node_work *w);

/* Adds `times` runs of the program. */
void estimate_add(struct estimate *e, const struct calibration *c, const struct program *p,
                  double times);

/* Of rank `rank`'s step. */
MUST_USE status train_estimate(const struct train_spec *t, int rank, const struct calibration *c,
                               struct estimate *out);

#endif
