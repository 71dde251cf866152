/* The kernels that go row by row: bias, rmsnorm, rope, swiglu, add. */
#include "kernel_case.h"

struct rows_case {
    int64_t B, S, D, heads, pad;
    enum dtype real;
};

static const struct rows_case cases[] = {
    { 1, 1, 1, 1, 0, DT_F32 },  { 2, 7, 3, 1, 2, DT_F32 },   { 3, 17, 8, 3, 0, DT_F32 },
    { 5, 7, 31, 2, 5, DT_F32 }, { 1, 17, 40, 1, 1, DT_F32 }, { 2, 1, 130, 1, 0, DT_F32 },
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
    out->of[1] = buffer_random(c->real, N, 3, 1);
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

static void bias_adds_and_sums(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * CASES; i++) {
        struct rows_case c = cases[i / 2];
        int64_t N = c.heads * c.D, ld = N + c.pad;
        struct buffer x, b, before;
        long double *y, *db;
        struct outputs out;

        c.real = both_types[i % 2];
        out = check_everywhere(c.real, run_bias, &c);
        x = buffer_random(c.real, count_of(&c), 1, 1);
        b = buffer_random(c.real, N, 2, 1);
        before = buffer_random(c.real, N, 3, 1);
        y = truth_make(count_of(&c));
        db = truth_make(N);
        for (int64_t e = 0; e < count_of(&c); e++) {
            y[e] = (long double)at(&x, e) + (is_pad(&c, e) ? 0 : (long double)at(&b, e % ld));
        }
        for (int64_t n = 0; n < N; n++) {
            db[n] = (long double)at(&before, n);
            for (int64_t t = 0; t < c.B * c.S; t++) {
                db[n] += (long double)at(&x, t * ld + n);
            }
        }
        assert_near(&out.of[0], y, tolerance_of(c.real));
        assert_near(&out.of[1], db, tolerance_of(c.real));
        free(y);
        free(db);
        buffer_free(&x);
        buffer_free(&b);
        buffer_free(&before);
        outputs_free(&out);
    }
}

/* ---- rmsnorm ---- */

static const double eps = 0.5; /* large: with a width of 1 and a small eps dx is all cancellation */

static void run_rmsnorm(const struct kernels *k, int threads, const void *options,
                        struct outputs *out)
{
    const struct rows_case *c = options;
    int64_t ld = c->pad == 0 ? 0 : c->heads * c->D + c->pad; /* 0: dense */
    struct buffer x = buffer_random(c->real, count_of(c), 1, 2),
                  dy = buffer_random(c->real, count_of(c), 2, 1);
    struct buffer w = buffer_random(c->real, c->D, 3, 1);
    struct rmsnorm_args a = { .x = x.data,
                              .w = w.data,
                              .dy = dy.data,
                              .B = c->B,
                              .S = c->S,
                              .D = c->D,
                              .eps = eps,
                              .heads = c->heads == 1 ? 0 : c->heads,
                              .ldx = ld,
                              .ldy = ld,
                              .lddy = ld,
                              .lddx = ld };
    struct buffer scratch = buffer_make(DT_U8, (int64_t)k->rmsnorm_scratch(&a, threads));

    out->of[0] = buffer_copy(&x);
    out->of[1] = buffer_make(c->real, c->B * c->S * c->heads);
    out->of[2] = buffer_copy(&dy);
    out->of[3] = buffer_random(c->real, c->D, 4, 1);
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

static void check_rmsnorm(const struct rows_case *c, const struct outputs *out)
{
    int64_t rows = c->B * c->S * c->heads, n = count_of(c);
    struct buffer x = buffer_random(c->real, n, 1, 2), dy = buffer_random(c->real, n, 2, 1);
    struct buffer w = buffer_random(c->real, c->D, 3, 1),
                  before = buffer_random(c->real, c->D, 4, 1);
    long double *y = truth_make(n), *rstd = truth_make(rows), *dx = truth_make(n),
                *dw = truth_make(c->D);

    for (int64_t e = 0; e < n; e++) { /* between the rows everything stays */
        y[e] = (long double)at(&x, e);
        dx[e] = (long double)at(&dy, e);
    }
    for (int64_t i = 0; i < c->D; i++) {
        dw[i] = (long double)at(&before, i);
    }
    for (int64_t row = 0; row < rows; row++) {
        long double squares = 0, pull = 0;

        for (int64_t i = 0; i < c->D; i++) {
            int64_t e = place(c, row, i);

            squares += (long double)at(&x, e) * (long double)at(&x, e);
            pull += (long double)at(&w, i) * (long double)at(&dy, e) * (long double)at(&x, e);
        }
        rstd[row] = 1 / sqrtl(squares / (long double)c->D + (long double)eps);
        pull *= rstd[row] * rstd[row] / (long double)c->D;
        for (int64_t i = 0; i < c->D; i++) {
            int64_t e = place(c, row, i);

            y[e] = (long double)at(&x, e) * rstd[row] * (long double)at(&w, i);
            dx[e] = rstd[row] * ((long double)at(&w, i) * (long double)at(&dy, e) -
                                 (long double)at(&x, e) * pull);
            dw[i] += (long double)at(&dy, e) * (long double)at(&x, e) * rstd[row];
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
    for (int i = 0; i < 2 * CASES; i++) {
        struct rows_case c = cases[i / 2];
        struct outputs out;

        c.real = both_types[i % 2];
        out = check_everywhere(c.real, run_rmsnorm, &c);
        check_rmsnorm(&c, &out);
        outputs_free(&out);
    }
}

/* ---- the row tree ---- */

/* db and dw of sequences [b, b + B) of a batch. */
static void gains(const struct kernels *k, const struct rows_case *c, int64_t b, int64_t B,
                  struct buffer *db, struct buffer *dw)
{
    int64_t N = c->heads * c->D, all = 12 * c->S * N;
    struct buffer x = buffer_random(c->real, all, 1, 1), dy = buffer_random(c->real, all, 2, 1);
    struct buffer rstd = buffer_random(c->real, 12 * c->S * c->heads, 3, 1);
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

static void gradients_of_gains_are_row_trees(void **state)
{
    static const int64_t batches[] = { 1, 2, 3, 5, 6, 8, 12 };

    (void)state;
    for (int i = 0; i < 14; i++) {
        struct rows_case c = { .S = 5, .D = 70, .heads = 2, .real = both_types[i % 2] };
        int64_t B = batches[i / 2];
        struct buffer db = buffer_zero(c.real, 140), dw = buffer_zero(c.real, 70), each_db[12],
                      each_dw[12];
        const struct kernels *k;

        EXPECT_OK(kernels_find(c.real, &k));
        gains(k, &c, 0, B, &db, &dw);
        for (int64_t b = 0; b < B; b++) {
            each_db[b] = buffer_zero(c.real, 140);
            each_dw[b] = buffer_zero(c.real, 70);
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
    out->of[0] = buffer_make(c->real, c->T * c->d);
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

static void check_rope(const struct rope_case *c, const struct outputs *out)
{
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
    for (int i = 0; i < 8; i++) {
        struct rope_case c = rope_cases[i / 2];
        struct outputs out;

        c.real = both_types[i % 2];
        out = check_everywhere(c.real, run_rope, &c);
        check_rope(&c, &out);
        outputs_free(&out);
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

    out->of[0] = buffer_make(c->real, c->S * c->D);
    out->of[1] = buffer_make(c->real, 2 * c->S * c->D);
    out->of[2] = buffer_make(c->real, c->S * c->D);
    a.y = out->of[0].data;
    a.dh = out->of[1].data;
    add.y = out->of[2].data;
    FOR_TEAM(t, threads)
    {
        k->swiglu(&a, t);
        k->swiglu_d(&a, t);
        k->add(&add, t);
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
}

static void check_swiglu(const struct rows_case *c, const struct outputs *out)
{
    struct buffer h = gates(c), dy = buffer_random(c->real, c->S * c->D, 2, 1);

    for (int64_t t = 0; t < c->S; t++) {
        for (int64_t i = 0; i < c->D; i++) {
            int64_t e = 2 * t * c->D + i;
            double tolerance = 4 * tolerance_of(c->real), slope = at(&dy, t * c->D + i),
                   up = at(&h, e + c->D), z = at(&h, e);
            double s = z >= 0 ? 1 / (1 + exp(-z)) : exp(z) / (1 + exp(z)),
                   rest = z >= 0 ? exp(-z) / (1 + exp(-z)) : 1 / (1 + exp(z));
            double y = z * s * up, dgate = slope * up * s * (1 + z * rest), dup = slope * z * s;

            assert_true(fabs(at(&out->of[0], t * c->D + i) - y) <= tolerance * (fabs(y) + 1));
            assert_true(fabs(at(&out->of[1], e) - dgate) <= tolerance * (fabs(dgate) + 1));
            assert_true(fabs(at(&out->of[1], e + c->D) - dup) <= tolerance * (fabs(dup) + 1));
            assert_true(at(&out->of[2], t * c->D + i) ==
                        add_as(c->real, at(&h, t * c->D + i), slope));
        }
    }
    buffer_free(&h);
    buffer_free(&dy);
}

static void swiglu_and_add(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * CASES; i++) {
        struct rows_case c = cases[i / 2];
        struct outputs out;

        c.real = both_types[i % 2];
        out = check_everywhere(c.real, run_swiglu, &c);
        check_swiglu(&c, &out);
        outputs_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bias_adds_and_sums),
        cmocka_unit_test(rmsnorm_and_its_derivative),
        cmocka_unit_test(gradients_of_gains_are_row_trees),
        cmocka_unit_test(rope_turns_and_turns_back),
        cmocka_unit_test(swiglu_and_add),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
