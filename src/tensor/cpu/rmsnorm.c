#include "tensor/cpu/cpu.h"

/* A row of width D: a head of a position. */
struct row {
    int64_t position, head;
};

static int64_t heads_of(const struct rmsnorm_args *a)
{
    return a->heads == 0 ? 1 : a->heads;
}

static struct row row_of(const struct rmsnorm_args *a, int64_t index)
{
    return (struct row){ index / heads_of(a), index % heads_of(a) };
}

static void row_next(const struct rmsnorm_args *a, struct row *row)
{
    if (++row->head == heads_of(a)) {
        row->head = 0;
        row->position++;
    }
}

static int64_t row_at(const struct rmsnorm_args *a, int64_t ld, struct row row)
{
    return row.position * (ld == 0 ? heads_of(a) * a->D : ld) + row.head * a->D;
}

static float sum_squares(const elem *x, int64_t n)
{
    vec a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
    int64_t i = 0;

    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        vec p = elem_stream(x + i), q = elem_stream(x + i + LANES);
        vec r = elem_stream(x + i + 2 * LANES), s = elem_stream(x + i + 3 * LANES);

        a += p * p;
        b += q * q;
        c += r * r;
        d += s * s;
    }
    for (; i + LANES <= n; i += LANES) {
        vec p = elem_load(x + i);

        a += p * p;
    }
    if (i < n) {
        vec p = elem_load_some(x + i, n - i);

        b += p * p;
    }
    return vec_sum((a + b) + (c + d));
}

static inline vec three(const elem *w, const elem *dy, const elem *x, int64_t i)
{
    return elem_load(w + i) * elem_stream(dy + i) * elem_stream(x + i);
}

/* The sum of w dy x. */
static float sum_pull(const elem *w, const elem *dy, const elem *x, int64_t n)
{
    vec a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
    int64_t i = 0;

    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        a += three(w, dy, x, i);
        b += three(w, dy, x, i + LANES);
        c += three(w, dy, x, i + 2 * LANES);
        d += three(w, dy, x, i + 3 * LANES);
    }
    for (; i + LANES <= n; i += LANES) {
        a += three(w, dy, x, i);
    }
    if (i < n) {
        b += elem_load_some(w + i, n - i) * elem_load_some(dy + i, n - i) *
             elem_load_some(x + i, n - i);
    }
    return vec_sum((a + b) + (c + d));
}

static void scale_row(elem *y, const elem *x, const elem *w, float inverse, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        fetch_ahead(y + i);
        elem_store(y + i, elem_load(x + i) * inverse * elem_load(w + i));
    }
    if (i < n) {
        elem_store_some(
            y + i, elem_load_some(x + i, n - i) * inverse * elem_load_some(w + i, n - i), n - i);
    }
}

void NAME(rmsnorm)(const struct rmsnorm_args *a, struct team t)
{
    const elem *x = a->x;
    elem *y = a->y;
    float *rstd = a->rstd;
    int64_t from, to;
    struct row row;

    team_share(t, a->B * a->S * heads_of(a), &from, &to);
    row = row_of(a, from);
    for (int64_t i = from; i < to; i++, row_next(a, &row)) {
        const elem *in = x + row_at(a, a->ldx, row);
        float square = sum_squares(in, a->D) / (float)a->D + (float)a->eps;

        /* Squares that overflow would give a row of zeros and nobody would know: NaN is seen. */
        rstd[i] = square < INFINITY ? 1 / sqrtf(square) : NAN;
        scale_row(y + row_at(a, a->ldy, row), in, a->w, rstd[i], a->D);
    }
}

static void pull_row(elem *dx, const elem *dy, const elem *x, const elem *w, float inverse,
                     float pull, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        elem_store(dx + i,
                   inverse * (elem_load(w + i) * elem_load(dy + i) - elem_load(x + i) * pull));
    }
    if (i < n) {
        vec slope = elem_load_some(w + i, n - i) * elem_load_some(dy + i, n - i);

        elem_store_some(dx + i, inverse * (slope - elem_load_some(x + i, n - i) * pull), n - i);
    }
}

void NAME(rmsnorm_dx)(const struct rmsnorm_args *a, struct team t)
{
    const float *rstd = a->rstd;
    int64_t from, to;
    struct row row;

    team_share(t, a->B * a->S * heads_of(a), &from, &to);
    row = row_of(a, from);
    for (int64_t i = from; i < to; i++, row_next(a, &row)) {
        const elem *x = (const elem *)a->x + row_at(a, a->ldx, row);
        const elem *dy = (const elem *)a->dy + row_at(a, a->lddy, row);
        elem *dx = (elem *)a->dx + row_at(a, a->lddx, row);
        float pull = sum_pull(a->w, dy, x, a->D) / (float)a->D * rstd[i] * rstd[i];

        pull_row(dx, dy, x, a->w, rstd[i], pull, a->D);
    }
}

struct strip {
    const struct rmsnorm_args *a;
    int64_t col, cols;
};

/* How far ahead of a column of x the same column of a later position lies, beyond what the
 * processor fetches by itself: a strip may be less than a row, and the rest is another thread's. */
static int64_t positions_ahead(const struct rmsnorm_args *a, int64_t ld)
{
    int64_t width = ld == 0 ? heads_of(a) * a->D : ld, ahead = FETCH_AHEAD / (int64_t)sizeof(elem);

    return (ahead + width - 1) / width * width;
}

struct streams {
    const elem *dy, *x;
    int64_t dy_ahead, x_ahead; /* elements */
};

/* sum += dy * x * inverse */
static void add_row(float *sum, const struct streams *s, float inverse, int64_t n)
{
    const elem *dy = s->dy, *x = s->x;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        __builtin_prefetch(dy + i + s->dy_ahead);
        __builtin_prefetch(x + i + s->x_ahead);
        vec_store(sum + i, vec_load(sum + i) + elem_load(dy + i) * (elem_load(x + i) * inverse));
    }
    if (i < n) {
        vec slope = elem_load_some(dy + i, n - i) * (elem_load_some(x + i, n - i) * inverse);

        vec_store_some(sum + i, vec_load_some(sum + i, n - i) + slope, n - i);
    }
}

static void rmsnorm_leaf(const void *context, int64_t sequence, float *sum)
{
    const struct strip *strip = context;
    const struct rmsnorm_args *a = strip->a;
    int64_t from = sequence * a->S * heads_of(a), to = from + a->S * heads_of(a);
    struct row row = row_of(a, from);
    struct streams s = { .dy_ahead = positions_ahead(a, a->lddy),
                         .x_ahead = positions_ahead(a, a->ldx) };

    memset(sum, 0, (size_t)strip->cols * sizeof *sum);
    for (int64_t i = from; i < to; i++, row_next(a, &row)) {
        s.dy = (const elem *)a->dy + row_at(a, a->lddy, row) + strip->col;
        s.x = (const elem *)a->x + row_at(a, a->ldx, row) + strip->col;
        add_row(sum, &s, ((const float *)a->rstd)[i], strip->cols);
    }
}

void NAME(rmsnorm_dw)(const struct rmsnorm_args *a, struct team t)
{
    float buffers[TREE_BUFFERS_MOST * STRIP], *dw = a->dw;
    struct strip strip = { .a = a };
    int64_t width, to;

    share_elements(t, a->D, &strip.col, &to);
    width = strip_width(to - strip.col);
    for (; strip.col < to; strip.col += width) {
        strip.cols = to - strip.col < width ? to - strip.col : width;
        NAME(tree_sum)(rmsnorm_leaf, &strip, a->B, strip.cols, buffers);
        add_floats(dw + strip.col, buffers, strip.cols);
    }
}

/* The buffers of a strip fit the stack. */
size_t NAME(rmsnorm_scratch)(const struct rmsnorm_args *a, int threads)
{
    (void)a;
    (void)threads;
    return 0;
}
