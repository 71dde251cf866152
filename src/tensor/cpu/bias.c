#include "tensor/cpu/cpu.h"

void NAME(bias)(const struct bias_args *a, struct team t)
{
    const elem *b = a->b;
    int64_t from, to;

    team_share(t, a->B * a->S, &from, &to);
    for (int64_t row = from; row < to; row++) {
        const elem *x = (const elem *)a->x + row * a->ldx;
        elem *y = (elem *)a->y + row * a->ldy;
        int64_t n = 0, rest;

        for (; n + LANES <= a->N; n += LANES) {
            elem_store(y + n, elem_load(x + n) + elem_load(b + n));
        }
        rest = a->N - n;
        if (rest > 0) {
            elem_store_some(y + n, elem_load_some(x + n, rest) + elem_load_some(b + n, rest), rest);
        }
    }
}

struct strip {
    const struct bias_args *a;
    int64_t col, cols;
};

static void bias_leaf(const void *context, int64_t sequence, float *sum)
{
    const struct strip *strip = context;
    const struct bias_args *a = strip->a;
    const elem *dy = (const elem *)a->dy + sequence * a->S * a->lddy + strip->col;

    memset(sum, 0, (size_t)strip->cols * sizeof *sum);
    for (int64_t s = 0; s < a->S; s++) {
        add_elems(sum, dy + s * a->lddy, strip->cols);
    }
}

void NAME(bias_dw)(const struct bias_args *a, struct team t)
{
    float buffers[TREE_BUFFERS_MOST * STRIP], *db = a->db;
    struct strip strip = { .a = a };
    int64_t width, to;

    share_elements(t, a->N, &strip.col, &to);
    width = strip_width(to - strip.col);
    for (; strip.col < to; strip.col += width) {
        strip.cols = to - strip.col < width ? to - strip.col : width;
        NAME(tree_sum)(bias_leaf, &strip, a->B, strip.cols, buffers);
        add_floats(db + strip.col, buffers, strip.cols);
    }
}

/* The buffers of a strip fit the stack. */
size_t NAME(bias_scratch)(const struct bias_args *a, int threads)
{
    (void)a;
    (void)threads;
    return 0;
}
