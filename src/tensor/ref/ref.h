/*
 * Between the files of a family: the kernels for the table, and the two pieces they are made of,
 * the product and the row tree.
 */
#ifndef ROUX_TENSOR_REF_REF_H
#define ROUX_TENSOR_REF_REF_H

#include "tensor/kernels.h"
#include "tensor/ref/real.h"
#include "tensor/row_tree.h"

/*
 * c [rows, cols, ldc] = sum over r < red of a(row, r) * b(r, col), where a(i, r) = a[i * a_row + r
 * * a_red] and b(r, j) = b[r * b_red + j * b_col].
 *
 * Each element is a sum over r in order, by one of two rules that do not depend on rows, cols or
 * the place in the tile: blocks of PRODUCT_BLOCK terms are summed from zero and the block sums
 * added in order (short error growth), or, with `chain`, one sum runs through all terms. `resume`
 * goes on from what c holds. At the end c = scale * sum, or c += scale * sum with `add` (neither
 * together with `resume`).
 */
struct product {
    const real *a, *b;
    real *c;
    int64_t rows, cols, red;
    int64_t a_row, a_red, b_red, b_col, ldc;
    real scale;
    bool add, chain, resume;
};

enum { PRODUCT_BLOCK = 256, PRODUCT_ROWS = 4 };

void NAME(product)(const struct product *p);
/* This thread's part of the product: rows where there are many, else columns. */
void NAME(product_share)(const struct product *p, struct team t);

/* Writes the sum of one sequence to sum [width]. */
typedef void leaf_fn(const void *context, int64_t sequence, real *sum);

enum { TREE_BUFFERS_MOST = 34 }; /* fewer than 2^32 sequences */

/* How many buffers of one width the walk over B sequences, or over fewer, needs: floor(log2 B) + 2.
 * */
static inline int64_t tree_buffers(int64_t B)
{
    return 65 - __builtin_clzll((unsigned long long)B);
}

/* The row tree over B sequences; the sum ends in buffers[0 .. width). buffers [tree_buffers(B),
 * width]. */
void NAME(tree_sum)(leaf_fn *leaf, const void *context, int64_t B, int64_t width, real *buffers);

/* sum of a[i] * b[i], and of a[i] * b[i] * c[i]: by lanes, in an order that depends on n alone. */
real NAME(dot)(const real *a, const real *b, int64_t n);
real NAME(dot3)(const real *a, const real *b, const real *c, int64_t n);

/* dw [N, K] += scale * row tree of dy^T x; what linear_dw does, also for the head. */
struct outer_sum {
    const real *dy, *x;
    real *dw;
    void *scratch; /* outer_scratch bytes */
    int64_t B, S, N, K, lddy, ldx;
    real scale;
};

void NAME(outer_sum)(const struct outer_sum *o, struct team t);
size_t NAME(outer_scratch)(int64_t B, int threads);

void NAME(linear)(const struct linear_args *a, struct team t);
void NAME(linear_dx)(const struct linear_args *a, struct team t);
void NAME(linear_dw)(const struct linear_args *a, struct team t);
size_t NAME(linear_scratch)(const struct linear_args *a, int threads);
void NAME(bias)(const struct bias_args *a, struct team t);
void NAME(bias_dw)(const struct bias_args *a, struct team t);
size_t NAME(bias_scratch)(const struct bias_args *a, int threads);
void NAME(embed)(const struct embed_args *a, struct team t);
void NAME(embed_dw)(const struct embed_args *a, struct team t);
size_t NAME(embed_scratch)(const struct embed_args *a, int threads);
void NAME(rmsnorm)(const struct rmsnorm_args *a, struct team t);
void NAME(rmsnorm_dx)(const struct rmsnorm_args *a, struct team t);
void NAME(rmsnorm_dw)(const struct rmsnorm_args *a, struct team t);
size_t NAME(rmsnorm_scratch)(const struct rmsnorm_args *a, int threads);
void NAME(rope_angles)(const struct rope_angles_args *a, struct team t);
void NAME(rope)(const struct rope_args *a, struct team t);
void NAME(attention)(const struct attention_args *a, struct team t);
void NAME(attention_d)(const struct attention_args *a, struct team t);
size_t NAME(attention_scratch)(const struct attention_args *a, int threads);
void NAME(swiglu)(const struct swiglu_args *a, struct team t);
void NAME(swiglu_d)(const struct swiglu_args *a, struct team t);
void NAME(add)(const struct add_args *a, struct team t);
void NAME(head_stats)(const struct head_args *a, struct team t);
void NAME(head_merge)(const struct head_args *a, struct team t);
void NAME(head_logits)(const struct head_args *a, struct team t);
void NAME(head_backward)(const struct head_args *a, bool learn, int64_t step, struct team t);
int64_t NAME(head_steps)(const struct head_args *a);
size_t NAME(head_scratch)(const struct head_args *a, int threads);
void NAME(adamw)(const struct adamw_args *a, struct team t);
void NAME(norm)(const struct norm_args *a, struct team t);
void NAME(cast)(const struct cast_args *a, struct team t);

#endif
