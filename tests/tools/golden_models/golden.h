/*
 * golden_models DIR: what the parts of the tool share. DIR's form is described in the README that
 * comes with such sets ("Golden model data").
 *
 *   main.c       the walk over the set, and the count
 *   check.c      a line a check; figures; tolerances; reading tensors and JSON
 *   rows.c       token rows of a set: as batches, and as a data folder
 *   model.c      one forward and backward pass of a model folder, built here with the model's own layers
 *   case.c       logits, loss, gradients; greedy tokens
 *   steps.c      20 optimizer steps of the real program
 *   ops.c        single operations through the kernel tables; what each does stands in ops_*.c
 *   schedule.c   learning rates
 */
#ifndef ROUX_TESTS_GOLDEN_MODELS_GOLDEN_H
#define ROUX_TESTS_GOLDEN_MODELS_GOLDEN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/dtype.h"
#include "base/map.h"
#include "base/status.h"
#include "data/batch.h"
#include "store/safetensors.h"

struct golden {
    const char *folder;    /* the set */
    const char *program;   /* roux itself, for the steps */
    const char *temporary; /* a folder of our own */
    int passed, failed, skipped;
};

/* ---- check.c ---- */

/* The README's table of tolerances, one column each; all relative but logits and the final
 * weights. */
struct tolerances {
    double logits, loss, gradient, step_loss, step_norm, final_rms, final_max;
    /* the larger of `kernel` and kernel_factor times the operation's own f32_error_rel */
    double kernel, kernel_factor;
    /* final_max likewise, with the tensor's entry in final_max_abs_by_tensor */
    double final_factor;
};

const struct tolerances *tolerances_of(enum dtype real);

/* The figure that comes nearest to its tolerance, or is farthest beyond. A zeroed struct has
 * seen none. */
struct worst {
    double figure, tolerance;
    const char *at; /* borrowed */
    int seen, beyond;
};

void worst_see(struct worst *w, double figure, double tolerance, const char *at);

FORMAT(3, 4) void check_worst(struct golden *g, const struct worst *w, const char *name, ...);
FORMAT(4, 5)
void check_figure(struct golden *g, double figure, double tolerance, const char *name, ...);
/* `s` is OK: true. Else the check failed with the text of the error. */
FORMAT(3, 4) bool check_ok(struct golden *g, status s, const char *name, ...);
FORMAT(3, 4) void check_true(struct golden *g, bool good, const char *name, ...);
FORMAT(3, 4) void check_skip(struct golden *g, const char *why, const char *name, ...);

double largest_magnitude(const double *x, int64_t count);
double largest_difference(const double *x, const double *y,
                          int64_t count);    /* infinite where one is no number */
double relative(double found, double truth); /* 0 if both are 0 */
const char *real_name(enum dtype real);      /* "32", "64", "bf16" */

/* A whole tensor as doubles. ERR_MISSING, or ERR_FORMAT if it has not `count` elements (-1: any
 * number). */
MUST_USE status tensor_take(const struct tensor_file *f, struct arena *a, const char *name,
                            int64_t count, double **out);

MUST_USE status json_take(struct arena *a, const char *path,
                          json_t **out); /* the caller's: json_decref */

/* A number anywhere below `j`: keys one after the other. ERR_FORMAT naming `path`. */
MUST_USE status json_number_at(const json_t *j, const char *path, const char *key, double *out);

/* ---- rows.c ---- */

struct rows {
    int64_t B, S;
    double *ids, *labels, *mask, *documents,
        *positions; /* [B, S]; the last two NULL where the rows are not packed */
};

/* Tensors <prefix>input_ids and so on. */
MUST_USE status rows_read(struct rows *out, struct arena *a, const struct tensor_file *f,
                          const char *prefix);

enum packing { PACKED_BY_DOCUMENTS, PACKED_BY_POSITIONS };

void rows_batch(const struct rows *r, struct arena *a, enum packing by, struct batch *out);

/* JSON lines, one a row. */
struct text;
void rows_print(const struct rows *r, enum packing by, struct text *out);

/* ---- model.c ---- */

struct pass {
    /* in */
    const char *folder;
    const struct batch *batch;
    enum dtype real;
    unsigned flags; /* enum model_flags */
    int threads;
    /* out, in the arena */
    int64_t vocab;
    double loss;          /* mean over the targets, 0 without any */
    double *logits;       /* [B, S, vocab] */
    struct map gradients; /* name -> struct gradient, of the mean; pass_release frees the map */
};

struct gradient {
    int64_t count;
    double *values;
};

MUST_USE status pass_run(struct pass *p, struct arena *a);
void pass_release(struct pass *p);
/* The first thing whose bits differ, or NULL. */
const char *pass_difference(const struct pass *a, const struct pass *b);

/* ---- the parts ---- */

struct golden_case {
    const char *name, *folder;
};

void golden_case_pass(struct golden *g, const struct golden_case *c);
void golden_case_generate(struct golden *g, const struct golden_case *c);
void golden_case_steps(struct golden *g, const struct golden_case *c);
void golden_ops(struct golden *g);
void golden_schedule(struct golden *g);

#endif
