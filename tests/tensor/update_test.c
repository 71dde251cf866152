/* The kernels of the update: AdamW, the cast, and sums of squares by blocks. */
#include "kernel_case.h"

struct update_case {
    int64_t count;
    enum dtype real;
};

static const struct adamw_args hyper = { .lr = 3e-3,
                                         .decay = 0.1,
                                         .beta1 = 0.9,
                                         .beta2 = 0.95,
                                         .eps = 1e-8,
                                         .correction1 = 1 - 0.9 * 0.9,
                                         .correction2 = 1 - 0.95 * 0.95,
                                         .scale = 0.125 };

static struct buffer positive(enum dtype real, int64_t count, uint64_t seed)
{
    struct buffer b = buffer_random(real, count, seed, 1);

    for (int64_t i = 0; i < count; i++) {
        put(&b, i, fabs(at(&b, i)));
    }
    return b;
}

static struct adamw_args arguments(const struct outputs *out, struct buffer *g)
{
    struct adamw_args a = hyper;

    a.w = out->of[0].data;
    a.m = out->of[1].data;
    a.v = out->of[2].data;
    a.copy = out->of[3].data;
    a.g = g->data;
    a.count = (int64_t)g->count;
    return a;
}

static void run_adamw(const struct kernels *k, int threads, const void *options,
                      struct outputs *out)
{
    const struct update_case *c = options;
    struct buffer g = buffer_random(k->sum, c->count, 4, 3), plain_g = buffer_copy(&g);
    struct outputs plain = { 0 };
    struct adamw_args a;

    out->of[0] = buffer_random(k->sum, c->count, 1, 1);
    out->of[1] = buffer_random(k->sum, c->count, 2, 1);
    out->of[2] = positive(k->sum, c->count, 3);
    out->of[3] = buffer_make(k->real, c->count);
    for (int o = 0; o < 3; o++) {
        plain.of[o] = buffer_copy(&out->of[o]);
    }
    a = arguments(out, &g);
    FOR_TEAM(t, threads)
    {
        k->adamw(&a, t);
    }
    a = arguments(&plain, &plain_g); /* without a copy */
    FOR_TEAM(t, threads)
    {
        k->adamw(&a, t);
    }
    for (int o = 0; o < 3; o++) {
        assert_same_bits(&plain.of[o], &out->of[o]);
    }
    for (int64_t e = 0; e < c->count; e++) {
        assert_true(at(&g, e) == 0 && at(&plain_g, e) == 0);
    }
    outputs_free(&plain);
    buffer_free(&plain_g);
    buffer_free(&g);
}

static void check_adamw(const void *options, const struct outputs *out)
{
    const struct update_case *c = options;
    enum dtype sum = kernels_sum(c->real);
    struct buffer w = buffer_random(sum, c->count, 1, 1), m = buffer_random(sum, c->count, 2, 1),
                  v = positive(sum, c->count, 3), g = buffer_random(sum, c->count, 4, 3),
                  copy = buffer_make(c->real, c->count);
    long double *truth[3] = { truth_make(c->count + 1), truth_make(c->count + 1),
                              truth_make(c->count + 1) };

    for (int64_t e = 0; e < c->count; e++) {
        long double slope = (long double)at(&g, e) * 0.125L, new_m, new_v;

        new_m = 0.9L * (long double)at(&m, e) + 0.1L * slope;
        new_v = 0.95L * (long double)at(&v, e) + 0.05L * slope * slope;
        truth[0][e] = (long double)at(&w, e) * (1 - 3e-3L * 0.1L) -
                      3e-3L / (1 - 0.81L) * new_m / (sqrtl(new_v) / sqrtl(1 - 0.9025L) + 1e-8L);
        truth[1][e] = new_m;
        truth[2][e] = new_v;
        put(&copy, e, at(&out->of[0], e));
    }
    for (int o = 0; o < 3; o++) {
        assert_near(&out->of[o], truth[o], tolerance_of(c->real));
        free(truth[o]);
    }
    assert_same_bits(&out->of[3], &copy);
    buffer_free(&w);
    buffer_free(&m);
    buffer_free(&v);
    buffer_free(&g);
    buffer_free(&copy);
}

static void adamw_is_the_formula(void **state)
{
    static const int64_t counts[] = { 0, 1, 3, 8, 31, 1000 };

    (void)state;
    for (int i = 0; i < 18; i++) {
        struct update_case c = { counts[i / 3], all_types[i % 3] };

        check_families(c.real, run_adamw, check_adamw, &c);
    }
}

/* Ties, what becomes infinite, what becomes subnormal or zero, what is not a number. */
static struct buffer weights(enum dtype sum, int64_t count)
{
    static const double odd[] = { 1.00390625, 1.01171875, 3.4e38,   -3.4e38, 1e-39, -1e-40, 1e-45,
                                  0,          -0.0,       INFINITY, NAN,     9e-41, 4.7e-41 };
    struct buffer w = buffer_random(sum, count, 1, 1);

    for (int64_t i = 0; i < count; i += 2) {
        put(&w, i, odd[i / 2 % 13]);
    }
    return w;
}

static void run_cast(const struct kernels *k, int threads, const void *options, struct outputs *out)
{
    const struct update_case *c = options;
    struct buffer w = weights(k->sum, c->count);
    struct cast_args a = { .w = w.data, .count = c->count };

    out->of[0] = buffer_make(k->real, c->count);
    a.copy = out->of[0].data;
    FOR_TEAM(t, threads)
    {
        k->cast(&a, t);
    }
    buffer_free(&w);
}

static void check_cast(const void *options, const struct outputs *out)
{
    const struct update_case *c = options;
    struct buffer w = weights(kernels_sum(c->real), c->count),
                  copy = buffer_make(c->real, c->count);

    for (int64_t e = 0; e < c->count; e++) {
        put(&copy, e, at(&w, e));
    }
    assert_same_bits(&out->of[0], &copy);
    buffer_free(&w);
    buffer_free(&copy);
}

static void cast_rounds_to_nearest_even(void **state)
{
    static const int64_t counts[] = { 0, 1, 7, 64, 131, 1000 };

    (void)state;
    for (int i = 0; i < 18; i++) {
        struct update_case c = { counts[i / 3], all_types[i % 3] };

        check_families(c.real, run_cast, check_cast, &c);
    }
}

static void run_norm(const struct kernels *k, int threads, const void *options, struct outputs *out)
{
    const struct update_case *c = options;
    struct buffer g = buffer_random(k->sum, c->count * 1024, 4, 3);
    struct norm_args a = { .g = g.data, .blocks = c->count };

    out->of[0] = buffer_make(DT_F64, c->count);
    a.sums = out->of[0].data;
    FOR_TEAM(t, threads)
    {
        k->norm(&a, t);
    }
    buffer_free(&g);
}

static void check_norm(const void *options, const struct outputs *out)
{
    const struct update_case *c = options;
    struct buffer g = buffer_random(kernels_sum(c->real), c->count * 1024, 4, 3);
    long double *truth = truth_make(c->count + 1);

    for (int64_t e = 0; e < c->count * 1024; e++) {
        truth[e / 1024] += (long double)at(&g, e) * (long double)at(&g, e);
    }
    assert_near(&out->of[0], truth, 1e-15);
    free(truth);
    buffer_free(&g);
}

static void norm_sums_squares_by_blocks_in_double(void **state)
{
    (void)state;
    for (int i = 0; i < 9; i++) {
        struct update_case c = { (i / 3) * 3, all_types[i % 3] };

        check_families(c.real, run_norm, check_norm, &c);
    }
}

/* NaN and infinity must come through: `update` looks for them. */
static void norm_shows_what_is_not_finite(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct buffer g = buffer_zero(kernels_sum(all_types[i]), 2048);
        const struct kernels *all[FAMILIES_MOST];
        size_t n = families_all(all_types[i], all);

        put(&g, 1000, NAN);
        put(&g, 2047, -INFINITY);
        for (size_t f = 0; f < n; f++) {
            double sums[2];
            struct norm_args a = { .g = g.data, .sums = sums, .blocks = 2 };

            all[f]->norm(&a, (struct team){ 0, 1 });
            assert_true(isnan(sums[0]));
            assert_true(isinf(sums[1]));
        }
        buffer_free(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adamw_is_the_formula),
        cmocka_unit_test(cast_rounds_to_nearest_even),
        cmocka_unit_test(norm_sums_squares_by_blocks_in_double),
        cmocka_unit_test(norm_shows_what_is_not_finite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
