/* The kernels that go row by row: bias, rmsnorm, rope, swiglu, add. */
#include "kernel_case.h"

struct rows_case {
    int64_t B, S, D, heads, pad;
    enum dtype real;
};

static const struct rows_case cases[] = {
    { 1, 1, 1, 1, 0, DT_F32 },    { 2, 7, 3, 1, 2, DT_F32 },   { 3, 17, 8, 3, 0, DT_F32 },
    { 5, 7, 31, 2, 5, DT_F32 },   { 1, 17, 40, 1, 1, DT_F32 }, { 2, 1, 130, 1, 0, DT_F32 },
    { 3, 2, 1300, 1, 0, DT_F32 },
};

enum { CASES = sizeof cases / sizeof cases[0] };

static int64_t count_of(const struct rows_case *c)
{
    return c->B * c->S * (c->heads * c->D + c->pad);
}

/* Element i of head h at row t of a strided tensor. */
static int64_t place(const struct rows_case *c, int64_t row, int64_t i)
{
    return row / c->heads * (c->heads * c->D + c->pad) + row % c->heads * c->D + i;
}

static bool is_pad(const struct rows_case *c, int64_t element)
{
    return element % (c->heads * c->D + c->pad) >= c->heads * c->D;
}

/* ---- bias ---- */

static void run_bias(const struct kernels *k, int threads, const void *options, struct outputs *out)
{
    const struct rows_case *c = options;
    int64_t N = c->heads * c->D, ld = N + c->pad;
    struct buffer x = buffer_random(c->real, count_of(c), 1, 1),
                  b = buffer_random(c->real, N, 2, 1);
    struct bias_args a = { .x = x.data,
                           .b = b.data,
                           .dy = x.data,
                           .B = c->B,
                           .S = c->S,
                           .N = N,
                           .ldx = ld,
                           .ldy = ld,
                           .lddy = ld };
    struct buffer scratch = buffer_make(DT_U8, (int64_t)k->bias_scratch(&a, threads));

    out->of[0] = buffer_copy(&x);
    out->of[1] = buffer_random(kernels_sum(c->real), N, 3, 1);
    a.y = out->of[0].data;
    a.db = out->of[1].data;
    a.scratch = scratch.data;
    FOR_TEAM(t, threads)
    {
        k->bias(&a, t);
        k->bias_dw(&a, t);
    }
    a.x = a.y = x.data; /* y may be x */
    FOR_TEAM(t, threads)
    {
        k->bias(&a, t);
    }
    assert_same_bits(&x, &out->of[0]);
    buffer_free(&x);
    buffer_free(&b);
    buffer_free(&scratch);
}

static void check_bias(const void *options, const struct outputs *out)
{
    const struct rows_case *c = options;
    int64_t N = c->heads * c->D, ld = N + c->pad;
    struct buffer x = buffer_random(c->real, count_of(c), 1, 1),
                  b = buffer_random(c->real, N, 2, 1),
                  before = buffer_random(kernels_sum(c->real), N, 3, 1);
    long double *y = truth_make(count_of(c)), *db = truth_make(N);

    for (int64_t e = 0; e < count_of(c); e++) {
        y[e] = (long double)at(&x, e) + (is_pad(c, e) ? 0 : (long double)at(&b, e % ld));
    }
    for (int64_t n = 0; n < N; n++) {
        db[n] = (long double)at(&before, n);
        for (int64_t t = 0; t < c->B * c->S; t++) {
            db[n] += (long double)at(&x, t * ld + n);
        }
    }
    assert_near(&out->of[0], y, tolerance_of(c->real));
    assert_near(&out->of[1], db, tolerance_of(c->real));
    free(y);
    free(db);
    buffer_free(&x);
    buffer_free(&b);
    buffer_free(&before);
}

/* Every case in every number type. */
static void check_cases(case_fn *run, oracle_fn *oracle)
{
    for (int i = 0; i < 3 * CASES; i++) {
        struct rows_case c = cases[i / 3];

        c.real = all_types[i % 3];
        check_families(c.real, run, oracle, &c);
    }
}

static void bias_adds_and_sums(void **state)
{
    (void)state;
    check_cases(run_bias, check_bias);
}

/* ---- rmsnorm ---- */

static const double eps = 0.5; /* large: with a width of 1 and a small eps dx is all cancellation */

static int64_t distance_of(const struct rows_case *c)
{
    return c->pad == 0 ? 0 : c->heads * c->D + c->pad; /* 0: dense */
}

/* dy and dx lie in rows of their own distance. */
static struct rows_case slopes_of(const struct rows_case *c)
{
    struct rows_case slopes = *c;

    slopes.pad = c->pad == 0 ? 0 : c->pad + 3;
    return slopes;
}

static void run_rmsnorm(const struct kernels *k, int threads, const void *options,
                        struct outputs *out)
{
    const struct rows_case *c = options, slopes = slopes_of(c);
    struct buffer x = buffer_random(c->real, count_of(c), 1, 2),
                  dy = buffer_random(c->real, count_of(&slopes), 2, 1);
    struct buffer w = buffer_random(c->real, c->D, 3, 1);
    struct rmsnorm_args a = { .x = x.data,
                              .w = w.data,
                              .dy = dy.data,
                              .B = c->B,
                              .S = c->S,
                              .D = c->D,
                              .eps = eps,
                              .heads = c->heads == 1 ? 0 : c->heads,
                              .ldx = distance_of(c),
                              .ldy = distance_of(c),
                              .lddy = distance_of(&slopes),
                              .lddx = distance_of(&slopes) };
    struct buffer scratch = buffer_make(DT_U8, (int64_t)k->rmsnorm_scratch(&a, threads));

    out->of[0] = buffer_copy(&x);
    out->of[1] = buffer_make(kernels_sum(c->real), c->B * c->S * c->heads);
    out->of[2] = buffer_copy(&dy);
    out->of[3] = buffer_random(kernels_sum(c->real), c->D, 4, 1);
    a.y = out->of[0].data;
    a.rstd = out->of[1].data;
    a.dx = out->of[2].data;
    a.dw = out->of[3].data;
    a.scratch = scratch.data;
    FOR_TEAM(t, threads)
    {
        k->rmsnorm(&a, t);
    }
    FOR_TEAM(t, threads)
    {
        k->rmsnorm_dx(&a, t);
        k->rmsnorm_dw(&a, t);
    }
    a.dx = dy.data; /* dx may be dy, y may be x */
    FOR_TEAM(t, threads)
    {
        k->rmsnorm_dx(&a, t);
    }
    a.y = x.data;
    FOR_TEAM(t, threads)
    {
        k->rmsnorm(&a, t);
    }
    assert_same_bits(&dy, &out->of[2]);
    assert_same_bits(&x, &out->of[0]);
    buffer_free(&x);
    buffer_free(&dy);
    buffer_free(&w);
    buffer_free(&scratch);
}

static void check_rmsnorm(const void *options, const struct outputs *out)
{
    const struct rows_case *c = options, slopes = slopes_of(c);
    int64_t rows = c->B * c->S * c->heads, n = count_of(c), m = count_of(&slopes);
    struct buffer x = buffer_random(c->real, n, 1, 2), dy = buffer_random(c->real, m, 2, 1);
    struct buffer w = buffer_random(c->real, c->D, 3, 1),
                  before = buffer_random(kernels_sum(c->real), c->D, 4, 1);
    long double *y = truth_make(n), *rstd = truth_make(rows), *dx = truth_make(m),
                *dw = truth_make(c->D);

    for (int64_t e = 0; e < n; e++) { /* between the rows everything stays */
        y[e] = (long double)at(&x, e);
    }
    for (int64_t e = 0; e < m; e++) {
        dx[e] = (long double)at(&dy, e);
    }
    for (int64_t i = 0; i < c->D; i++) {
        dw[i] = (long double)at(&before, i);
    }
    for (int64_t row = 0; row < rows; row++) {
        long double squares = 0, pull = 0;

        for (int64_t i = 0; i < c->D; i++) {
            int64_t e = place(c, row, i), f = place(&slopes, row, i);

            squares += (long double)at(&x, e) * (long double)at(&x, e);
            pull += (long double)at(&w, i) * (long double)at(&dy, f) * (long double)at(&x, e);
        }
        rstd[row] = 1 / sqrtl(squares / (long double)c->D + (long double)eps);
        pull *= rstd[row] * rstd[row] / (long double)c->D;
        for (int64_t i = 0; i < c->D; i++) {
            int64_t e = place(c, row, i), f = place(&slopes, row, i);

            y[e] = (long double)at(&x, e) * rstd[row] * (long double)at(&w, i);
            dx[f] = rstd[row] * ((long double)at(&w, i) * (long double)at(&dy, f) -
                                 (long double)at(&x, e) * pull);
            dw[i] += (long double)at(&dy, f) * (long double)at(&x, e) * rstd[row];
        }
    }
    assert_near(&out->of[0], y, tolerance_of(c->real));
    assert_near(&out->of[1], rstd, tolerance_of(c->real));
    assert_near(&out->of[2], dx, tolerance_of(c->real));
    assert_near(&out->of[3], dw, tolerance_of(c->real));
    free(y);
    free(rstd);
    free(dx);
    free(dw);
    buffer_free(&x);
    buffer_free(&dy);
    buffer_free(&w);
    buffer_free(&before);
}

static void rmsnorm_and_its_derivative(void **state)
{
    (void)state;
    check_cases(run_rmsnorm, check_rmsnorm);
}

/* Squares that overflow must not pass for a row of zeros. */
static void rmsnorm_of_rows_too_large_is_not_a_number(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct kernels *all[FAMILIES_MOST];
        size_t n = families_all(all_types[i], all);
        double huge = all_types[i] == DT_F64 ? 1e160 : 1e20;

        for (size_t f = 0; f < n; f++) {
            struct buffer x = buffer_random(all_types[i], 2 * 31, 1, 1),
                          w = buffer_random(all_types[i], 31, 2, 1),
                          rstd = buffer_make(kernels_sum(all_types[i]), 2);
            struct rmsnorm_args a = { .x = x.data,
                                      .y = x.data,
                                      .w = w.data,
                                      .rstd = rstd.data,
                                      .B = 1,
                                      .S = 2,
                                      .D = 31,
                                      .eps = eps };

            put(&x, 40, huge);
            all[f]->rmsnorm(&a, (struct team){ 0, 1 });
            for (int64_t e = 0; e < 62; e++) {
                assert_true(isnan(at(&x, e)) == (e >= 31));
            }
            buffer_free(&x);
            buffer_free(&w);
            buffer_free(&rstd);
        }
    }
}

/* ---- the row tree ---- */

/* db and dw of sequences [b, b + B) of a batch. */
static void gains(const struct kernels *k, const struct rows_case *c, int64_t b, int64_t B,
                  struct buffer *db, struct buffer *dw)
{
    int64_t N = c->heads * c->D, all = 12 * c->S * N;
    struct buffer x = buffer_random(c->real, all, 1, 1), dy = buffer_random(c->real, all, 2, 1);
    struct buffer rstd = buffer_random(kernels_sum(c->real), 12 * c->S * c->heads, 3, 1);
    struct bias_args bias = {
        .dy = from(&dy, b * c->S * N), .db = db->data, .B = B, .S = c->S, .N = N, .lddy = N
    };
    struct rmsnorm_args norm = { .x = from(&x, b * c->S * N),
                                 .dy = from(&dy, b * c->S * N),
                                 .dw = dw->data,
                                 .rstd = from(&rstd, b * c->S * c->heads),
                                 .B = B,
                                 .S = c->S,
                                 .D = c->D,
                                 .heads = c->heads };

    FOR_TEAM(t, 2)
    {
        k->bias_dw(&bias, t);
        k->rmsnorm_dw(&norm, t);
    }
    buffer_free(&x);
    buffer_free(&dy);
    buffer_free(&rstd);
}

static void check_gains(const struct kernels *k, int64_t B)
{
    struct rows_case c = { .S = 5, .D = 70, .heads = 2, .real = k->real };
    struct buffer db = buffer_zero(k->sum, 140), dw = buffer_zero(k->sum, 70), each_db[12],
                  each_dw[12];

    gains(k, &c, 0, B, &db, &dw);
    for (int64_t b = 0; b < B; b++) {
        each_db[b] = buffer_zero(k->sum, 140);
        each_dw[b] = buffer_zero(k->sum, 70);
        gains(k, &c, b, 1, &each_db[b], &each_dw[b]);
    }
    tree_reduce(each_db, B);
    tree_reduce(each_dw, B);
    assert_same_bits(&db, &each_db[0]);
    assert_same_bits(&dw, &each_dw[0]);
    for (int64_t b = 0; b < B; b++) {
        buffer_free(&each_db[b]);
        buffer_free(&each_dw[b]);
    }
    buffer_free(&db);
    buffer_free(&dw);
}

static void gradients_of_gains_are_row_trees(void **state)
{
    static const int64_t batches[] = { 1, 2, 3, 5, 6, 8, 12 };

    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct kernels *all[FAMILIES_MOST];
        size_t n = families_all(all_types[i], all);

        for (size_t f = 0; f < n; f++) {
            for (int b = 0; b < 7; b++) {
                check_gains(all[f], batches[b]);
            }
        }
    }
}

/* ---- rope ---- */

struct rope_case {
    int64_t T, width, heads, d;
    enum dtype real;
};

static void run_rope(const struct kernels *k, int threads, const void *options, struct outputs *out)
{
    const struct rope_case *c = options;
    struct buffer x = buffer_random(c->real, c->T * c->width, 1, 1);
    int32_t positions[40];
    double inv_freq[20];
    struct rope_angles_args angles = {
        .positions = positions, .inv_freq = inv_freq, .T = c->T, .d = c->d
    };
    struct rope_args a = {
        .x = x.data, .T = c->T, .width = c->width, .heads = c->heads, .d = c->d
    };

    for (int64_t t = 0; t < c->T; t++) {
        positions[t] = (int32_t)(t * t * 7 % 5000);
    }
    for (int64_t p = 0; p < c->d / 2; p++) {
        inv_freq[p] = pow(10000, -2 * (double)p / (double)c->d);
    }
    out->of[0] = buffer_make(kernels_sum(c->real), c->T * c->d);
    out->of[1] = buffer_make(c->real, c->T * c->width);
    out->of[2] = buffer_make(c->real, c->T * c->width);
    angles.out = out->of[0].data;
    FOR_TEAM(t, threads)
    {
        k->rope_angles(&angles, t);
    }
    a.angles = angles.out;
    a.y = out->of[1].data;
    FOR_TEAM(t, threads)
    {
        k->rope(&a, t);
    }
    a.inverse = true;
    a.y = out->of[2].data;
    FOR_TEAM(t, threads)
    {
        k->rope(&a, t);
    }
    a.y = x.data; /* y may be x */
    FOR_TEAM(t, threads)
    {
        k->rope(&a, t);
    }
    assert_same_bits(&x, &out->of[2]);
    buffer_free(&x);
}

static void check_rope(const void *options, const struct outputs *out)
{
    const struct rope_case *c = options;
    struct buffer x = buffer_random(c->real, c->T * c->width, 1, 1);
    long double *angles = truth_make(c->T * c->d), *y = truth_make(c->T * c->width),
                *back = truth_make(c->T * c->width);

    for (int64_t e = 0; e < c->T * c->width; e++) {
        y[e] = back[e] = (long double)at(&x, e);
    }
    for (int64_t t = 0; t < c->T; t++) {
        for (int64_t p = 0; p < c->d / 2; p++) {
            double angle = (double)(t * t * 7 % 5000) * pow(10000, -2 * (double)p / (double)c->d);
            long double co = cosl((long double)angle), si = sinl((long double)angle);

            angles[t * c->d + p] = co;
            angles[t * c->d + c->d / 2 + p] = si;
            for (int64_t h = 0; h < c->heads; h++) {
                int64_t e = t * c->width + h * c->d + p, f = e + c->d / 2;

                y[e] = (long double)at(&x, e) * co - (long double)at(&x, f) * si;
                y[f] = (long double)at(&x, f) * co + (long double)at(&x, e) * si;
                back[e] = (long double)at(&x, e) * co + (long double)at(&x, f) * si;
                back[f] = (long double)at(&x, f) * co - (long double)at(&x, e) * si;
            }
        }
    }
    assert_near(&out->of[0], angles, tolerance_of(c->real));
    assert_near(&out->of[1], y, tolerance_of(c->real));
    assert_near(&out->of[2], back, tolerance_of(c->real));
    free(angles);
    free(y);
    free(back);
    buffer_free(&x);
}

static void rope_turns_and_turns_back(void **state)
{
    static const struct rope_case rope_cases[] = { { 1, 2, 1, 2, DT_F32 },
                                                   { 17, 50, 2, 16, DT_F32 },
                                                   { 7, 40, 1, 40, DT_F32 },
                                                   { 40, 21, 3, 6, DT_F32 } };

    (void)state;
    for (int i = 0; i < 12; i++) {
        struct rope_case c = rope_cases[i / 3];

        c.real = all_types[i % 3];
        check_families(c.real, run_rope, check_rope, &c);
    }
}

/* ---- swiglu and add ---- */

static struct buffer gates(const struct rows_case *c)
{
    struct buffer h = buffer_random(c->real, 2 * c->S * c->D, 1, 6);

    for (int64_t i = 0; i < c->D && c->S > 1; i++) { /* the second row has gates of any size */
        static const double sizes[] = { 0, -0.0, 30, -30, 88, -88, 1000, -1000, 1e30, -1e30 };

        put(&h, 2 * c->D + i, sizes[i % 10]);
    }
    return h;
}

static void run_swiglu(const struct kernels *k, int threads, const void *options,
                       struct outputs *out)
{
    const struct rows_case *c = options;
    struct buffer h = gates(c), dy = buffer_random(c->real, c->S * c->D, 2, 1);
    struct swiglu_args a = { .h = h.data, .dy = dy.data, .T = c->S, .F = c->D };
    struct add_args add = { .a = h.data, .count = c->S * c->D, .b = dy.data };
    struct buffer sums = buffer_random(kernels_sum(c->real), c->S * c->D, 3, 1);
    struct add_args add_sums = { .a = sums.data, .count = c->S * c->D };

    out->of[0] = buffer_make(c->real, c->S * c->D);
    out->of[1] = buffer_make(c->real, 2 * c->S * c->D);
    out->of[2] = buffer_make(c->real, c->S * c->D);
    a.y = out->of[0].data;
    a.dh = out->of[1].data;
    add.y = out->of[2].data;
    out->of[3] = buffer_random(kernels_sum(c->real), c->S * c->D, 4, 1);
    add_sums.b = add_sums.y = out->of[3].data;
    FOR_TEAM(t, threads)
    {
        k->swiglu(&a, t);
        k->swiglu_d(&a, t);
        k->add(&add, t);
        k->add_sums(&add_sums, t);
    }
    a.dh = h.data; /* dh may be h; y may be b */
    FOR_TEAM(t, threads)
    {
        k->swiglu_d(&a, t);
    }
    assert_same_bits(&h, &out->of[1]);
    buffer_free(&h);
    h = gates(c);
    add.a = h.data;
    add.y = dy.data;
    FOR_TEAM(t, threads)
    {
        k->add(&add, t);
    }
    assert_same_bits(&dy, &out->of[2]);
    buffer_free(&h);
    buffer_free(&dy);
    buffer_free(&sums);
}

static void check_swiglu(const void *options, const struct outputs *out)
{
    const struct rows_case *c = options;
    enum dtype sum = kernels_sum(c->real);
    struct buffer h = gates(c), dy = buffer_random(c->real, c->S * c->D, 2, 1),
                  a = buffer_random(sum, c->S * c->D, 3, 1),
                  b = buffer_random(sum, c->S * c->D, 4, 1);

    for (int64_t t = 0; t < c->S; t++) {
        for (int64_t i = 0; i < c->D; i++) {
            int64_t e = 2 * t * c->D + i;
            double tolerance = 4 * tolerance_of(c->real) + (double)rounding_of(c->real),
                   slope = at(&dy, t * c->D + i), up = at(&h, e + c->D), z = at(&h, e);
            double s = z >= 0 ? 1 / (1 + exp(-z)) : exp(z) / (1 + exp(z)),
                   rest = z >= 0 ? exp(-z) / (1 + exp(-z)) : 1 / (1 + exp(z));
            double y = z * s * up, dgate = slope * up * s * (1 + z * rest), dup = slope * z * s;

            assert_true(fabs(at(&out->of[0], t * c->D + i) - y) <= tolerance * (fabs(y) + 1));
            assert_true(fabs(at(&out->of[1], e) - dgate) <= tolerance * (fabs(dgate) + 1));
            assert_true(fabs(at(&out->of[1], e + c->D) - dup) <= tolerance * (fabs(dup) + 1));
            assert_true(at(&out->of[2], t * c->D + i) ==
                        add_as(c->real, at(&h, t * c->D + i), slope));
            assert_true(at(&out->of[3], t * c->D + i) ==
                        add_as(sum, at(&a, t * c->D + i), at(&b, t * c->D + i)));
        }
    }
    buffer_free(&h);
    buffer_free(&dy);
    buffer_free(&a);
    buffer_free(&b);
}

static void swiglu_and_add(void **state)
{
    (void)state;
    check_cases(run_swiglu, check_swiglu);
}

/* ---- rows alone ---- */

enum { ALONE_ROWS = 5, ALONE_D = 75 };

/* y [rows, 2 D]: of rows [from, from + rows), what rmsnorm and swiglu make of them. */
static struct buffer some_rows(const struct kernels *k, int64_t from_row, int64_t rows)
{
    struct buffer x = buffer_random(k->real, ALONE_ROWS * 2 * ALONE_D, 1, 1),
                  w = buffer_random(k->real, 2 * ALONE_D, 2, 1), rstd = buffer_make(k->sum, rows),
                  y = buffer_make(k->real, rows * 6 * ALONE_D);
    const void *in = from(&x, from_row * 2 * ALONE_D);
    struct rmsnorm_args norm = { .x = in,
                                 .dy = in,
                                 .w = w.data,
                                 .rstd = rstd.data,
                                 .y = y.data,
                                 .dx = from(&y, rows * 2 * ALONE_D),
                                 .B = 1,
                                 .S = rows,
                                 .D = 2 * ALONE_D,
                                 .eps = eps };
    struct swiglu_args swiglu = {
        .h = in, .y = from(&y, rows * 4 * ALONE_D), .T = rows, .F = ALONE_D
    };
    struct bias_args bias = { .x = in,
                              .b = w.data,
                              .y = from(&y, rows * 5 * ALONE_D),
                              .B = 1,
                              .S = rows,
                              .N = ALONE_D,
                              .ldx = 2 * ALONE_D,
                              .ldy = ALONE_D };

    FOR_TEAM(t, 2)
    {
        k->rmsnorm(&norm, t);
        k->swiglu(&swiglu, t);
        k->bias(&bias, t);
    }
    FOR_TEAM(t, 2)
    {
        k->rmsnorm_dx(&norm, t);
    }
    buffer_free(&x);
    buffer_free(&w);
    buffer_free(&rstd);
    return y;
}

static void check_alone(const struct kernels *k)
{
    static const int64_t begins[] = { 0, 2, 4, 5 }, widths[] = { 2, 2, 1, 1 }; /* in units of D */
    struct buffer all = some_rows(k, 0, ALONE_ROWS);
    size_t bytes = ALONE_D * dtype_bytes(k->real);

    for (int64_t row = 0; row < ALONE_ROWS; row++) {
        struct buffer one = some_rows(k, row, 1);

        for (int i = 0; i < 4; i++) {
            int64_t where = ALONE_ROWS * begins[i] + row * widths[i];

            assert_memory_equal(from(&one, begins[i] * ALONE_D), from(&all, where * ALONE_D),
                                (size_t)widths[i] * bytes);
        }
        buffer_free(&one);
    }
    buffer_free(&all);
}

static void rows_do_not_depend_on_their_neighbours(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct kernels *all[FAMILIES_MOST];
        size_t n = families_all(all_types[i], all);

        for (size_t f = 0; f < n; f++) {
            check_alone(all[f]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bias_adds_and_sums),
        cmocka_unit_test(rmsnorm_and_its_derivative),
        cmocka_unit_test(rmsnorm_of_rows_too_large_is_not_a_number),
        cmocka_unit_test(gradients_of_gains_are_row_trees),
        cmocka_unit_test(rope_turns_and_turns_back),
        cmocka_unit_test(swiglu_and_add),
        cmocka_unit_test(rows_do_not_depend_on_their_neighbours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
