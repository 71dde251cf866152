/* The exponential of the kernels, against long double. */
#include "kernel_case.h"
#include "tensor/ref/exp.h"

static double worst_f32(float low, float high, int steps)
{
    double worst = 0;

    for (int i = 0; i <= steps; i++) {
        float x = low + (high - low) * (float)i / (float)steps;
        long double truth = expl((long double)x);
        double unit = ldexp(1, (int)floorl(log2l(truth)) - 23);
        double off = (double)fabsl((long double)exp_f32(x) - truth) / unit;

        worst = off > worst ? off : worst;
    }
    return worst;
}

static double worst_f64(double low, double high, int steps)
{
    double worst = 0;

    for (int i = 0; i <= steps; i++) {
        double x = low + (high - low) * (double)i / (double)steps;
        long double truth = expl((long double)x);
        long double unit = ldexpl(1, (int)floorl(log2l(truth)) - 52);
        double off = (double)(fabsl((long double)exp_f64(x) - truth) / unit);

        worst = off > worst ? off : worst;
    }
    return worst;
}

static void exp_is_within_two_units_in_the_last_place(void **state)
{
    (void)state;
    assert_true(worst_f32(-87.3f, 88, 200003) <= 2);
    assert_true(worst_f32(-1, 1, 100003) <= 2);
    assert_true(worst_f64(-708, 709, 200003) <= 2);
    assert_true(worst_f64(-1, 1, 100003) <= 2);
}

static void exp_of_the_extremes(void **state)
{
    (void)state;
    assert_true(exp_f32(0) == 1 && exp_f64(0) == 1);
    assert_true(exp_f32(-INFINITY) == 0 && exp_f64(-INFINITY) == 0);
    assert_true(exp_f32(-88) == 0 && exp_f32(-1e30f) == 0 && exp_f64(-709) == 0 &&
                exp_f64(-1e300) == 0);
    assert_true(isfinite(exp_f32(INFINITY)) && isfinite(exp_f64(INFINITY)));
    assert_true(exp_f32(1e30f) > 1e38f && exp_f64(1e300) > 1e307);
    assert_true(isnan(exp_f32(NAN)) && isnan(exp_f64(NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_two_units_in_the_last_place),
        cmocka_unit_test(exp_of_the_extremes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
