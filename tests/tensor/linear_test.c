#include "kernel_case.h"
#include "support/families.h"

struct linear_case {
    int64_t B, S, K, N, pad; /* pad: extra elements between rows */
    double scale;
    bool add;
    enum dtype real;
};

static const struct linear_case cases[] = {
    { 1, 1, 1, 1, 0, 1, false, DT_F32 },      { 2, 7, 3, 8, 2, 1, false, DT_F32 },
    { 3, 17, 31, 40, 0, 0.75, true, DT_F32 }, { 5, 7, 40, 31, 5, 3, false, DT_F32 },
    { 1, 7, 300, 33, 1, 1, true, DT_F32 },    { 2, 150, 9, 70, 3, 1, false, DT_F32 },
    { 1, 300, 5, 6, 0, 1, false, DT_F32 },    { 12, 1, 8, 300, 0, 1, true, DT_F32 },
    { 2, 60, 800, 81, 1, 2, true, DT_F32 },   { 1, 11, 70, 1601, 0, 1, false, DT_F32 },
};

enum { CASES = sizeof cases / sizeof cases[0] };

static struct buffer input(const struct linear_case *c, int64_t width, uint64_t seed)
{
    int64_t ld = width + c->pad;
    struct buffer b = buffer_random(c->real, c->B * c->S * ld, seed, 1);

    for (int64_t t = 0; t < c->B * c->S; t++) { /* what lies between the rows is not read */
        for (int64_t i = width; i < ld; i++) {
            put(&b, t * ld + i, NAN);
        }
    }
    return b;
}

static struct linear_args arguments(const struct linear_case *c)
{
    return (struct linear_args){ .B = c->B,
                                 .S = c->S,
                                 .K = c->K,
                                 .N = c->N,
                                 .ldx = c->K + c->pad,
                                 .lddx = c->K + c->pad,
                                 .ldy = c->N + c->pad,
                                 .lddy = c->N + c->pad,
                                 .scale = c->scale,
                                 .add = c->add };
}

static void run_linear(const struct kernels *k, int threads, const void *options,
                       struct outputs *out)
{
    const struct linear_case *c = options;
    struct linear_args a = arguments(c);
    struct buffer x = input(c, c->K, 1), dy = input(c, c->N, 3),
                  w = buffer_random(c->real, c->N * c->K, 2, 1);
    struct buffer scratch = buffer_make(DT_U8, (int64_t)k->linear_scratch(&a, threads));

    out->of[0] = buffer_random(c->real, c->B * c->S * a.ldy, 4, 1);
    out->of[1] = buffer_random(c->real, c->B * c->S * a.lddx, 5, 1);
    out->of[2] = buffer_random(k->sum, c->N * c->K, 6, 1);
    a.x = x.data;
    a.w = w.data;
    a.dy = dy.data;
    a.y = out->of[0].data;
    a.dx = out->of[1].data;
    a.dw = out->of[2].data;
    a.scratch = scratch.data;
    FOR_TEAM(t, threads)
    {
        k->linear(&a, t);
        k->linear_dx(&a, t);
        k->linear_dw(&a, t);
    }
    buffer_free(&x);
    buffer_free(&dy);
    buffer_free(&w);
    buffer_free(&scratch);
}

/* truth of y: what was there, plus or replaced by scale * sum; between the rows as it was. */
static void check_rows(const struct linear_case *c, const struct buffer *got, bool forward)
{
    int64_t width = forward ? c->N : c->K, inner = forward ? c->K : c->N, ld = width + c->pad;
    struct buffer a = input(c, inner, forward ? 1 : 3),
                  w = buffer_random(c->real, c->N * c->K, 2, 1);
    struct buffer before = buffer_random(c->real, c->B * c->S * ld, forward ? 4 : 5, 1);
    long double *truth = truth_make(c->B * c->S * ld);

    for (int64_t t = 0; t < c->B * c->S; t++) {
        for (int64_t i = 0; i < ld; i++) {
            long double sum = 0;

            for (int64_t r = 0; i < width && r < inner; r++) {
                sum += (long double)at(&a, t * (inner + c->pad) + r) *
                       (long double)at(&w, forward ? i * c->K + r : r * c->K + i);
            }
            truth[t * ld + i] = (long double)c->scale * sum;
            if (i >= width) {
                assert_true(at(got, t * ld + i) == at(&before, t * ld + i));
            }
            if (c->add || i >= width) {
                truth[t * ld + i] += (long double)at(&before, t * ld + i);
            }
        }
    }
    assert_near(got, truth, tolerance_of(c->real));
    free(truth);
    buffer_free(&a);
    buffer_free(&w);
    buffer_free(&before);
}

static void check_dw(const struct linear_case *c, const struct buffer *got)
{
    struct buffer x = input(c, c->K, 1), dy = input(c, c->N, 3),
                  before = buffer_random(got->type, c->N * c->K, 6, 1);
    long double *truth = truth_make(c->N * c->K);

    for (int64_t i = 0; i < c->N * c->K; i++) {
        long double sum = 0;

        for (int64_t t = 0; t < c->B * c->S; t++) {
            sum += (long double)at(&dy, t * (c->N + c->pad) + i / c->K) *
                   (long double)at(&x, t * (c->K + c->pad) + i % c->K);
        }
        truth[i] = (long double)at(&before, i) + (long double)c->scale * sum;
    }
    assert_near(got, truth, tolerance_of(c->real));
    free(truth);
    buffer_free(&x);
    buffer_free(&dy);
    buffer_free(&before);
}

static void check_linear(const void *options, const struct outputs *out)
{
    const struct linear_case *c = options;

    check_rows(c, &out->of[0], true);
    check_rows(c, &out->of[1], false);
    check_dw(c, &out->of[2]);
}

static void linear_is_the_product_on_every_family_and_team(void **state)
{
    (void)state;
    for (int i = 0; i < 3 * CASES; i++) {
        struct linear_case c = cases[i / 3];

        c.real = all_types[i % 3];
        check_families(c.real, run_linear, check_linear, &c);
    }
}

/* A row of y and dx has the same bits alone as in the middle of a batch. */
static void check_rows_alone(enum dtype real, const struct kernels *k)
{
    struct linear_case all = { 3, 23, 900, 45, 0, 1, false, real }, one = all;
    struct buffer x = input(&all, all.K, 1), dy = input(&all, all.N, 3);
    struct buffer w = buffer_random(all.real, all.N * all.K, 2, 1);
    struct outputs out = check_teams(k, run_linear, &all);

    one.B = one.S = 1;
    for (int64_t t = 0; t < all.B * all.S; t += 5) {
        struct linear_args a = arguments(&one);
        struct buffer y = buffer_make(all.real, all.N), dx = buffer_make(all.real, all.K);
        struct buffer scratch = buffer_make(DT_U8, (int64_t)k->linear_scratch(&a, 1));

        a.x = from(&x, t * all.K);
        a.dy = from(&dy, t * all.N);
        a.w = w.data;
        a.y = y.data;
        a.dx = dx.data;
        a.scratch = scratch.data;
        k->linear(&a, (struct team){ 0, 1 });
        k->linear_dx(&a, (struct team){ 0, 1 });
        assert_memory_equal(y.data, from(&out.of[0], t * all.N), y.bytes);
        assert_memory_equal(dx.data, from(&out.of[1], t * all.K), dx.bytes);
        buffer_free(&y);
        buffer_free(&dx);
        buffer_free(&scratch);
    }
    outputs_free(&out);
    buffer_free(&x);
    buffer_free(&dy);
    buffer_free(&w);
}

static void linear_rows_do_not_know_their_neighbours(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct kernels *all[FAMILIES_MOST];
        size_t n = families_all(all_types[i], all);

        for (size_t f = 0; f < n; f++) {
            check_rows_alone(all_types[i], all[f]);
        }
    }
}

static void check_tree(enum dtype real, const struct kernels *k, int64_t B)
{
    struct linear_case c = { B, 300, 70, 35, 0, 1, false, real };
    struct linear_args a = arguments(&c);
    struct buffer x = input(&c, c.K, 1), dy = input(&c, c.N, 3),
                  whole = buffer_zero(k->sum, c.N * c.K), each[12];
    struct buffer scratch = buffer_make(DT_U8, (int64_t)k->linear_scratch(&a, 1));

    a.scratch = scratch.data;
    a.x = x.data;
    a.dy = dy.data;
    a.dw = whole.data;
    k->linear_dw(&a, (struct team){ 0, 1 });
    a.B = 1;
    for (int64_t b = 0; b < B; b++) {
        each[b] = buffer_zero(k->sum, c.N * c.K);
        a.x = from(&x, b * c.S * c.K);
        a.dy = from(&dy, b * c.S * c.N);
        a.dw = each[b].data;
        k->linear_dw(&a, (struct team){ 0, 1 });
    }
    tree_reduce(each, B);
    assert_same_bits(&whole, &each[0]);
    for (int64_t b = 0; b < B; b++) {
        buffer_free(&each[b]);
    }
    buffer_free(&x);
    buffer_free(&dy);
    buffer_free(&whole);
    buffer_free(&scratch);
}

static void linear_dw_is_the_row_tree_of_single_sequences(void **state)
{
    static const int64_t batches[] = { 1, 2, 3, 4, 5, 6, 8, 12 };

    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct kernels *all[FAMILIES_MOST];
        size_t n = families_all(all_types[i], all);

        for (size_t f = 0; f < n; f++) {
            for (int b = 0; b < 8; b++) {
                check_tree(all_types[i], all[f], batches[b]);
            }
        }
    }
}

/* Within a sequence dw adds position by position: one running sum, no blocks. A term is multiplied and
 * added in one rounding or in two, as the family can, but all of them alike. */
static void check_chain(const struct kernels *k)
{
    struct buffer x = buffer_random(DT_F32, 1700, 1, 1), dy = buffer_random(DT_F32, 1700, 2, 1),
                  dw = buffer_zero(DT_F32, 1), scratch;
    struct linear_args a = { .x = x.data,
                             .dy = dy.data,
                             .dw = dw.data,
                             .B = 1,
                             .S = 1700,
                             .K = 1,
                             .N = 1,
                             .ldx = 1,
                             .lddy = 1,
                             .scale = 1 };
    volatile float sum = 0, fused = 0, term;

    scratch = buffer_make(DT_U8, (int64_t)k->linear_scratch(&a, 1));
    a.scratch = scratch.data;
    k->linear_dw(&a, (struct team){ 0, 1 });
    for (int64_t t = 0; t < 1700; t++) {
        term = (float)at(&dy, t) * (float)at(&x, t);
        sum = sum + term;
        fused = fmaf((float)at(&dy, t), (float)at(&x, t), fused);
    }
    assert_true(sum != fused);
    /* Processors of the AVX2 level and above multiply and add in one; a build that does not is slow. */
    assert_true(at(&dw, 0) ==
                (double)(strncmp(k->family, "avx", 3) == 0 && strstr(k->family, "emulated") == NULL
                             ? fused
                             : sum));
    buffer_free(&x);
    buffer_free(&dy);
    buffer_free(&dw);
    buffer_free(&scratch);
}

static void linear_dw_adds_positions_in_order(void **state)
{
    const struct kernels *all[FAMILIES_MOST];
    size_t n = families_all(DT_F32, all);

    (void)state;
    for (size_t f = 0; f < n; f++) {
        check_chain(all[f]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_is_the_product_on_every_family_and_team),
        cmocka_unit_test(linear_rows_do_not_know_their_neighbours),
        cmocka_unit_test(linear_dw_is_the_row_tree_of_single_sequences),
        cmocka_unit_test(linear_dw_adds_positions_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
