/*
 * Between the files of a family: the kernels for the table, and the pieces they are made of, the
 * product and the row tree.
 */
#ifndef ROUX_TENSOR_CPU_CPU_H
#define ROUX_TENSOR_CPU_CPU_H

#include "tensor/cpu/vec.h"
#include "tensor/kernels.h"
#include "tensor/row_tree.h"

/* Element (i, r) of a factor is at[i * out + r * red]: `out` steps along rows (columns) of the
 * product, `red` along its terms; one of the two is 1. `wide`: floats; else elems. */
struct factor {
    const void *at;
    int64_t out, red;
    bool wide;
};

/*
 * c [rows, cols, ldc] = sum over r < red of a(row, r) b(col, r), times `scale`; added to c with
 * `add`. c holds floats if `wide`, else elems.
 *
 * Each element is a sum over r in order, by a rule that does not depend on rows, cols or the place
 * in a tile: blocks of PRODUCT_BLOCK terms are summed from zero and the block sums added in order
 * (short error growth), or, with `chain`, one sum runs through all terms, so that terms that are
 * zero leave no trace. `resume` goes on from what c holds (wide, scale 1, not with add). Families
 * with bf16 products round floats to bf16 first and take terms in pairs, (2 r, 2 r + 1).
 *
 * scratch: product_scratch bytes of this thread, aligned to 64.
 */
struct product {
    struct factor a, b;
    void *c;
    int64_t ldc, rows, cols, red;
    float scale;
    bool wide, add, chain, resume;
    void *scratch;
};

enum { PRODUCT_BLOCK = 768 };

void NAME(product)(const struct product *p);

/* Enough for any product of at most so many rows and terms; one thread's. A multiple of 64. */
size_t NAME(product_scratch)(int64_t rows, int64_t red);

/* This thread's part of the product: a block of a grid over rows and columns. p->scratch is the
 * team's. */
void NAME(product_share)(const struct product *p, struct team t);

/* Writes the sum of one sequence to sum [width]. */
typedef void leaf_fn(const void *context, int64_t sequence, float *sum);

/* How many buffers of one width the walk over B sequences, or over fewer, needs: floor(log2 B) + 2.
 */
static inline int64_t tree_buffers(int64_t B)
{
    return 65 - __builtin_clzll((unsigned long long)B);
}

enum { TREE_BUFFERS_MOST = 34 }; /* fewer than 2^32 sequences */

/* The row tree over B sequences; the sum ends in buffers[0 .. width). buffers [tree_buffers(B),
 * width]. */
void NAME(tree_sum)(leaf_fn *leaf, const void *context, int64_t B, int64_t width, float *buffers);

/* dw [N, K] += scale * row tree of dy^T x; what linear_dw does, also for the head. dy and x are
 * elems. */
struct outer_sum {
    const elem *dy, *x;
    float *dw;
    void *scratch; /* outer_scratch bytes */
    int64_t B, S, N, K, lddy, ldx;
    float scale;
};

void NAME(outer_sum)(const struct outer_sum *o, struct team t);
size_t NAME(outer_scratch)(int64_t B, int64_t S, int64_t N, int threads);

/* to += from */
static inline void add_floats(float *to, const float *from, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        vec_store(to + i, vec_load(to + i) + vec_load(from + i));
    }
    if (i < n) {
        vec_store_some(to + i, vec_load_some(to + i, n - i) + vec_load_some(from + i, n - i),
                       n - i);
    }
}

static inline void add_elems(float *to, const elem *from, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        vec_store(to + i, vec_load(to + i) + elem_load(from + i));
    }
    if (i < n) {
        vec_store_some(to + i, vec_load_some(to + i, n - i) + elem_load_some(from + i, n - i),
                       n - i);
    }
}

/* team_share in blocks, of which only the last is not whole: so threads do not move the places
 * where vectors begin. */
static inline void share_elements(struct team t, int64_t count, int64_t *from, int64_t *to)
{
    const int64_t block = 64;

    team_share(t, (count + block - 1) / block, from, to);
    *from *= block;
    *to = *to * block < count ? *to * block : count;
}

/* Columns of one walk through the row tree, at most: their sums stay in the first cache, their
 * buffers on the stack. */
enum { STRIP = 1024 };

/* How wide strips of n columns are, so that the last is no mere rest. */
static inline int64_t strip_width(int64_t n)
{
    int64_t strips = (n - 1) / STRIP + 1;

    return ((n + strips - 1) / strips + 63) / 64 * 64;
}

/* ---- the kernels ---- */

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
void NAME(add_sums)(const struct add_args *a, struct team t);
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
