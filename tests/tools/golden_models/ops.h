/* Single operations: what a row of ops.c's table works with. Inner to golden_models. */
#ifndef ROUX_TESTS_GOLDEN_MODELS_OPS_H
#define ROUX_TESTS_GOLDEN_MODELS_OPS_H

#include "tensor/kernels.h"
#include "tools/golden_models/golden.h"

struct op_case {
    struct arena arena;
    const struct tensor_file *file;
    const char *path, *name; /* of kernels.json; "attention_window" */
    const json_t *params;
    const struct kernels *kernels;
    double tolerance;
    struct worst worst;
};

enum { OP_THREADS = 2 };

/* Every thread of the team, one after the other: none reads what another writes. */
#define FOR_TEAM(t) for (struct team t = { 0, OP_THREADS }; (t).thread < OP_THREADS; (t).thread++)

/*
 * Tensor <operation>.<what> in the kernel's number type; `rank` pointers to extents follow: one
 * that is 0 is learned, another must be met.
 */
MUST_USE status op_read(struct op_case *o, const char *what, void **out, int rank, ...);
MUST_USE status op_doubles(struct op_case *o, const char *what, int64_t count,
                           double **out); /* -1: any number */
MUST_USE status op_integers(struct op_case *o, const char *what, int64_t count, int32_t **out);
bool op_has(struct op_case *o, const char *what);
MUST_USE status op_number(struct op_case *o, const char *key, double *out);
double op_number_or(const struct op_case *o, const char *key,
                    double otherwise); /* also where it is null */

void *op_out(struct op_case *o, int64_t count);    /* all NaN: a kernel must write it */
void *op_sum(struct op_case *o, int64_t count);    /* zeros: a kernel adds to it */
void *op_scratch(struct op_case *o, size_t bytes); /* aligned to 64 */

/* Compares with <operation>.<what>. */
MUST_USE status op_expect(struct op_case *o, const char *what, const void *found, int64_t count);

/* ops_layer.c */
status op_linear_case(struct op_case *o);
status op_rmsnorm_case(struct op_case *o);
status op_frequencies_case(struct op_case *o);
status op_rope_case(struct op_case *o);
status op_swiglu_case(struct op_case *o);
status op_attention_case(struct op_case *o);

/* ops_ends.c */
status op_embedding_case(struct op_case *o);
status op_cross_entropy_case(struct op_case *o);

/* ops_update.c */
status op_adamw_case(struct op_case *o);
status op_clip_case(struct op_case *o);

#endif
