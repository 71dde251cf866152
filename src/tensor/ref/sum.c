/* Sums over rows: the row tree, and dot products by lanes. */
#include <string.h>

#include "tensor/ref/ref.h"

void NAME(tree_sum)(leaf_fn *leaf, const void *context, int64_t B, int64_t width, real *buffers)
{
    int levels = row_tree_levels(B);
    int64_t apart = (int64_t)1 << levels, top = 0;

    for (int64_t c = 0; c < apart; c++) {
        real *sum = buffers + top * width, *next = sum + width;
        int64_t sequence = row_tree_residue(c, levels);

        leaf(context, sequence, sum);
        for (sequence += apart; sequence < B; sequence += apart) {
            leaf(context, sequence, next);
            for (int64_t i = 0; i < width; i++) {
                sum[i] += next[i];
            }
        }
        top++;
        for (int merges = row_tree_merges(c); merges > 0; merges--) {
            real *below;

            top--;
            sum = buffers + top * width;
            below = sum - width;
            for (int64_t i = 0; i < width; i++) {
                below[i] += sum[i];
            }
        }
    }
}

/* 64 bytes of lanes whatever the processor: the compiler splits them, and the order stays. */
typedef real wide __attribute__((vector_size(64), aligned(sizeof(real)), may_alias));

enum { WIDE = 64 / sizeof(real) };

static real sum_lanes(const wide *lanes)
{
    real v[WIDE];

    memcpy(v, lanes, sizeof v);
    for (int half = WIDE / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) {
            v[i] += v[i + half];
        }
    }
    return v[0];
}

real NAME(dot)(const real *a, const real *b, int64_t n)
{
    wide lanes = { 0 };
    int64_t i = 0;

    for (; i + WIDE <= n; i += WIDE) {
        lanes += *(const wide *)(a + i) * *(const wide *)(b + i);
    }
    if (i < n) {
        wide ta = { 0 }, tb = { 0 };

        memcpy(&ta, a + i, (size_t)(n - i) * sizeof(real));
        memcpy(&tb, b + i, (size_t)(n - i) * sizeof(real));
        lanes += ta * tb;
    }
    return sum_lanes(&lanes);
}

real NAME(dot3)(const real *a, const real *b, const real *c, int64_t n)
{
    wide lanes = { 0 };
    int64_t i = 0;

    for (; i + WIDE <= n; i += WIDE) {
        lanes += *(const wide *)(a + i) * *(const wide *)(b + i) * *(const wide *)(c + i);
    }
    if (i < n) {
        wide ta = { 0 }, tb = { 0 }, tc = { 0 };

        memcpy(&ta, a + i, (size_t)(n - i) * sizeof(real));
        memcpy(&tb, b + i, (size_t)(n - i) * sizeof(real));
        memcpy(&tc, c + i, (size_t)(n - i) * sizeof(real));
        lanes += ta * tb * tc;
    }
    return sum_lanes(&lanes);
}
