#include "tensor/ref/ref.h"

/* A call seen as rows of width D: position t, head h of the strided tensors. */
struct rows {
    int64_t heads, D;
};

static struct rows rows_of(const struct rmsnorm_args *a)
{
    return (struct rows){ a->heads == 0 ? 1 : a->heads, a->D };
}

static int64_t row_at(struct rows r, int64_t ld, int64_t row)
{
    return row / r.heads * (ld == 0 ? r.heads * r.D : ld) + row % r.heads * r.D;
}

void NAME(rmsnorm)(const struct rmsnorm_args *a, struct team t)
{
    struct rows r = rows_of(a);
    const real *w = a->w;
    real *rstd = a->rstd;
    int64_t from, to;

    team_share(t, a->B * a->S * r.heads, &from, &to);
    for (int64_t row = from; row < to; row++) {
        const real *x = (const real *)a->x + row_at(r, a->ldx, row);
        real *y = (real *)a->y + row_at(r, a->ldy, row);
        real square = NAME(dot)(x, x, a->D) / (real)a->D + (real)a->eps;
        /* Squares that overflow would give a row of zeros and nobody would know: NaN is seen. */
        real inverse = square < (real)INFINITY ? 1 / real_sqrt(square) : (real)NAN;

        rstd[row] = inverse;
        for (int64_t i = 0; i < a->D; i++) {
            y[i] = x[i] * inverse * w[i];
        }
    }
}

void NAME(rmsnorm_dx)(const struct rmsnorm_args *a, struct team t)
{
    struct rows r = rows_of(a);
    const real *w = a->w, *rstd = a->rstd;
    int64_t from, to;

    team_share(t, a->B * a->S * r.heads, &from, &to);
    for (int64_t row = from; row < to; row++) {
        const real *x = (const real *)a->x + row_at(r, a->ldx, row);
        const real *dy = (const real *)a->dy + row_at(r, a->lddy, row);
        real *dx = (real *)a->dx + row_at(r, a->lddx, row);
        real inverse = rstd[row];
        real pull = NAME(dot3)(w, dy, x, a->D) / (real)a->D * inverse * inverse;

        for (int64_t i = 0; i < a->D; i++) {
            dx[i] = inverse * (w[i] * dy[i] - x[i] * pull);
        }
    }
}

enum { STRIP = 64 }; /* columns of one walk through the tree */

struct strip {
    const struct rmsnorm_args *a;
    int64_t col, cols;
};

static void rmsnorm_leaf(const void *context, int64_t sequence, real *sum)
{
    const struct strip *strip = context;
    const struct rmsnorm_args *a = strip->a;
    struct rows r = rows_of(a);
    int64_t from = sequence * a->S * r.heads, to = from + a->S * r.heads;

    for (int64_t i = 0; i < strip->cols; i++) {
        sum[i] = 0;
    }
    for (int64_t row = from; row < to; row++) {
        const real *x = (const real *)a->x + row_at(r, a->ldx, row) + strip->col;
        const real *dy = (const real *)a->dy + row_at(r, a->lddy, row) + strip->col;
        real inverse = ((const real *)a->rstd)[row];

        for (int64_t i = 0; i < strip->cols; i++) {
            sum[i] += dy[i] * (x[i] * inverse);
        }
    }
}

void NAME(rmsnorm_dw)(const struct rmsnorm_args *a, struct team t)
{
    real buffers[TREE_BUFFERS_MOST * STRIP], *dw = a->dw;
    int64_t from, to;

    team_share(t, (a->D + STRIP - 1) / STRIP, &from, &to);
    for (int64_t i = from; i < to; i++) {
        struct strip strip = { a, i * STRIP, a->D - i * STRIP < STRIP ? a->D - i * STRIP : STRIP };

        NAME(tree_sum)(rmsnorm_leaf, &strip, a->B, strip.cols, buffers);
        for (int64_t n = 0; n < strip.cols; n++) {
            dw[strip.col + n] += buffers[n];
        }
    }
}

/* The buffers of a strip fit the stack. */
size_t NAME(rmsnorm_scratch)(const struct rmsnorm_args *a, int threads)
{
    (void)a;
    (void)threads;
    return 0;
}
