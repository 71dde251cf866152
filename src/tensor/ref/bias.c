#include "tensor/ref/ref.h"

void NAME(bias)(const struct bias_args *a, struct team t)
{
    const real *b = a->b;
    int64_t from, to;

    team_share(t, a->B * a->S, &from, &to);
    for (int64_t row = from; row < to; row++) {
        const real *x = (const real *)a->x + row * a->ldx;
        real *y = (real *)a->y + row * a->ldy;

        for (int64_t n = 0; n < a->N; n++) {
            y[n] = x[n] + b[n];
        }
    }
}

enum { STRIP = 64 }; /* columns of one walk through the tree */

struct strip {
    const struct bias_args *a;
    int64_t col, cols;
};

static void bias_leaf(const void *context, int64_t sequence, real *sum)
{
    const struct strip *strip = context;
    const struct bias_args *a = strip->a;
    const real *dy = (const real *)a->dy + sequence * a->S * a->lddy + strip->col;

    for (int64_t n = 0; n < strip->cols; n++) {
        sum[n] = 0;
    }
    for (int64_t s = 0; s < a->S; s++) {
        for (int64_t n = 0; n < strip->cols; n++) {
            sum[n] += dy[s * a->lddy + n];
        }
    }
}

void NAME(bias_dw)(const struct bias_args *a, struct team t)
{
    real buffers[TREE_BUFFERS_MOST * STRIP], *db = a->db;
    int64_t from, to;

    team_share(t, (a->N + STRIP - 1) / STRIP, &from, &to);
    for (int64_t i = from; i < to; i++) {
        struct strip strip = { a, i * STRIP, a->N - i * STRIP < STRIP ? a->N - i * STRIP : STRIP };

        NAME(tree_sum)(bias_leaf, &strip, a->B, strip.cols, buffers);
        for (int64_t n = 0; n < strip.cols; n++) {
            db[strip.col + n] += buffers[n];
        }
    }
}

/* The buffers of a strip fit the stack. */
size_t NAME(bias_scratch)(const struct bias_args *a, int threads)
{
    (void)a;
    (void)threads;
    return 0;
}
