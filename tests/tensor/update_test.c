/* The kernels of the update: AdamW, and sums of squares by blocks. */
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

static void run_adamw(const struct kernels *k, int threads, const void *options,
                      struct outputs *out)
{
    const struct update_case *c = options;
    struct buffer g = buffer_random(c->real, c->count, 4, 3);
    struct adamw_args a = hyper;

    out->of[0] = buffer_random(c->real, c->count, 1, 1);
    out->of[1] = buffer_random(c->real, c->count, 2, 1);
    out->of[2] = positive(c->real, c->count, 3);
    a.w = out->of[0].data;
    a.m = out->of[1].data;
    a.v = out->of[2].data;
    a.g = g.data;
    a.count = c->count;
    FOR_TEAM(t, threads)
    {
        k->adamw(&a, t);
    }
    buffer_free(&g);
}

static void adamw_is_the_formula(void **state)
{
    static const int64_t counts[] = { 0, 1, 3, 8, 31, 1000 };

    (void)state;
    for (int i = 0; i < 12; i++) {
        struct update_case c = { counts[i / 2], both_types[i % 2] };
        struct outputs out = check_everywhere(c.real, run_adamw, &c);
        struct buffer w = buffer_random(c.real, c.count, 1, 1),
                      m = buffer_random(c.real, c.count, 2, 1);
        struct buffer v = positive(c.real, c.count, 3), g = buffer_random(c.real, c.count, 4, 3);
        long double *truth[3] = { truth_make(c.count + 1), truth_make(c.count + 1),
                                  truth_make(c.count + 1) };

        for (int64_t e = 0; e < c.count; e++) {
            long double slope = (long double)at(&g, e) * 0.125L, new_m, new_v;

            new_m = 0.9L * (long double)at(&m, e) + 0.1L * slope;
            new_v = 0.95L * (long double)at(&v, e) + 0.05L * slope * slope;
            truth[0][e] = (long double)at(&w, e) * (1 - 3e-3L * 0.1L) -
                          3e-3L / (1 - 0.81L) * new_m / (sqrtl(new_v) / sqrtl(1 - 0.9025L) + 1e-8L);
            truth[1][e] = new_m;
            truth[2][e] = new_v;
        }
        for (int o = 0; o < 3; o++) {
            assert_near(&out.of[o], truth[o], tolerance_of(c.real));
            free(truth[o]);
        }
        buffer_free(&w);
        buffer_free(&m);
        buffer_free(&v);
        buffer_free(&g);
        outputs_free(&out);
    }
}

static void run_norm(const struct kernels *k, int threads, const void *options, struct outputs *out)
{
    const struct update_case *c = options;
    struct buffer g = buffer_random(c->real, c->count * 1024, 4, 3);
    struct norm_args a = { .g = g.data, .blocks = c->count };

    out->of[0] = buffer_make(DT_F64, c->count);
    a.sums = out->of[0].data;
    FOR_TEAM(t, threads)
    {
        k->norm(&a, t);
    }
    buffer_free(&g);
}

static void norm_sums_squares_by_blocks_in_double(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct update_case c = { (i / 2) * 3, both_types[i % 2] };
        struct outputs out = check_everywhere(c.real, run_norm, &c);
        struct buffer g = buffer_random(c.real, c.count * 1024, 4, 3);
        long double *truth = truth_make(c.count + 1);

        for (int64_t e = 0; e < c.count * 1024; e++) {
            truth[e / 1024] += (long double)at(&g, e) * (long double)at(&g, e);
        }
        assert_near(&out.of[0], truth, 1e-15);
        free(truth);
        buffer_free(&g);
        outputs_free(&out);
    }
}

/* NaN and infinity must come through: `update` looks for them. */
static void norm_shows_what_is_not_finite(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct buffer g = buffer_zero(both_types[i], 2048);
        double sums[2];
        struct norm_args a = { .g = g.data, .sums = sums, .blocks = 2 };
        const struct kernels *k;

        EXPECT_OK(kernels_find(both_types[i], &k));
        put(&g, 1000, NAN);
        put(&g, 2047, -INFINITY);
        k->norm(&a, (struct team){ 0, 1 });
        assert_true(isnan(sums[0]));
        assert_true(isinf(sums[1]));
        buffer_free(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adamw_is_the_formula),
        cmocka_unit_test(norm_sums_squares_by_blocks_in_double),
        cmocka_unit_test(norm_shows_what_is_not_finite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
