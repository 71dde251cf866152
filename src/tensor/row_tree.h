/*
 * The order in which the sums of B = o * 2^k sequences (o odd) are added; see tensor/kernels.h.
 *
 * The tree is walked depth first with a small stack of buffers. For leaf c = 0 .. 2^k - 1, in this
 * order:
 *
 *     r = row_tree_residue(c, k); push a buffer; into it the sums of sequences r, r + 2^k, ..., r + (o-1) 2^k, in order
 *     row_tree_merges(c) times: pop the top buffer and add it to the one below
 *
 * After the last leaf one buffer is left. At most k + 1 buffers are alive.
 */
#ifndef ROUX_TENSOR_ROW_TREE_H
#define ROUX_TENSOR_ROW_TREE_H

#include <stdint.h>

/* n = o * 2^k; n >= 1. */
static inline int row_tree_levels(int64_t n)
{
    return __builtin_ctzll((unsigned long long)n);
}

static inline int64_t row_tree_residue(int64_t c, int levels)
{
    int64_t r = 0;

    for (int i = 0; i < levels; i++) {
        r |= (c >> i & 1) << (levels - 1 - i);
    }
    return r;
}

static inline int row_tree_merges(int64_t c)
{
    return __builtin_ctzll(~(unsigned long long)c);
}

#endif
