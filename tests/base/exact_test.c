#include <float.h>
#include <math.h>
#include "base/exact.h"
#include "base/philox.h"
#include "support/expect.h"

static uint64_t bits_of(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double sum_of(const double *x, int count)
{
    struct exact e = { 0 };

    for (int i = 0; i < count; i++) {
        exact_add(&e, x[i]);
    }
    return exact_value(&e);
}

#define EXPECT_SUM(right, ...)                                                    \
    assert_int_equal(bits_of(sum_of((const double[]){ __VA_ARGS__ },              \
                                    (int)(sizeof(double[]){ __VA_ARGS__ } / 8))), \
                     bits_of(right))

/* Any finite double, each exponent equally likely: subnormal numbers and the largest ones too. */
static double random_double(const struct philox_stream *s, uint64_t index)
{
    uint64_t bits = (uint64_t)philox_word(s, 2 * index) << 32 | philox_word(s, 2 * index + 1);
    double x;

    memcpy(&x, &bits, sizeof x);
    return isfinite(x) ? x : 1.5;
}

static void one_double_is_itself(void **state)
{
    struct philox_stream s = philox_stream_make(7, "single");

    (void)state;
    for (uint64_t i = 0; i < 20000; i++) {
        double x = random_double(&s, i);

        assert_int_equal(bits_of(sum_of(&x, 1)), bits_of(x));
    }
    EXPECT_SUM(5e-324, 5e-324);
    EXPECT_SUM(-DBL_MIN, -DBL_MIN);
    EXPECT_SUM(DBL_MAX, DBL_MAX);
    EXPECT_SUM(0.0, -0.0);
}

/* Adding two doubles is rounded correctly by the processor already. */
static void two_doubles_round_as_the_processor_rounds(void **state)
{
    struct philox_stream s = philox_stream_make(7, "pairs");

    (void)state;
    for (uint64_t i = 0; i < 20000; i++) {
        double a = random_double(&s, 2 * i);
        double b = scalbn(a, (int)philox_below(&s, i, 120) - 60) * (1 + philox_uniform(&s, i));

        b = philox_word(&s, 4 * i) % 2 == 0 ? b : -b;
        if (isfinite(a) && isfinite(b)) {
            double pair[] = { a, b };

            assert_int_equal(bits_of(sum_of(pair, 2)), bits_of(a + b));
        }
    }
}

static void ties_go_to_even_and_dust_breaks_them(void **state)
{
    const double one = 1, even = 1 + 2 * DBL_EPSILON, half = DBL_EPSILON / 2;

    (void)state;
    EXPECT_SUM(one, one, half);
    EXPECT_SUM(one + DBL_EPSILON, one, half, 5e-324);
    EXPECT_SUM(one, one, half, -5e-324);
    EXPECT_SUM(even, one + DBL_EPSILON, half);
    EXPECT_SUM(one + DBL_EPSILON, one + DBL_EPSILON, half, -5e-324);
    EXPECT_SUM(-one, -one, -half);
    EXPECT_SUM(-one - DBL_EPSILON, -one, -half, -5e-324);
    EXPECT_SUM(2.0, 2 - DBL_EPSILON, half); /* all ones carry into the next power */
}

static void subnormal_sums_are_exact(void **state)
{
    (void)state;
    EXPECT_SUM(5e-324 * 3, 5e-324, 5e-324, 5e-324);
    EXPECT_SUM(DBL_MIN - 5e-324, DBL_MIN, -5e-324);
    EXPECT_SUM(DBL_MIN, DBL_MIN - 5e-324, 5e-324);
    EXPECT_SUM(5e-324, 1.0, 5e-324, -1.0);
}

static void the_end_of_the_range(void **state)
{
    const double last_half = 0x1p970; /* half a unit of DBL_MAX's last place */

    (void)state;
    EXPECT_SUM(INFINITY, DBL_MAX, DBL_MAX);
    EXPECT_SUM(-INFINITY, -DBL_MAX, -DBL_MAX);
    EXPECT_SUM(DBL_MAX, DBL_MAX, DBL_MAX, -DBL_MAX);
    EXPECT_SUM(INFINITY, DBL_MAX, last_half);
    EXPECT_SUM(DBL_MAX, DBL_MAX, last_half, -5e-324);
    EXPECT_SUM(1.0, DBL_MAX, 1.0, -DBL_MAX);
}

static void what_is_not_finite_is_counted(void **state)
{
    struct exact e = { 0 }, other = { 0 };

    (void)state;
    exact_add(&e, 1);
    exact_add(&e, NAN);
    exact_add(&e, INFINITY);
    exact_add(&e, -INFINITY);
    assert_int_equal(e.bad, 3);
    assert_true(isnan(exact_value(&e)));
    exact_add(&other, 2);
    exact_merge(&other, &e);
    assert_int_equal(other.bad, 3);
    assert_true(isnan(exact_value(&other)));
}

enum { MANY = 4000 };

static void shuffle(double *x, int count, uint64_t seed)
{
    struct philox_stream s = philox_stream_make(seed, "order");

    for (int i = count - 1; i > 0; i--) {
        int64_t j = philox_below(&s, (uint64_t)i, i + 1);
        double swap = x[i];

        x[i] = x[j];
        x[j] = swap;
    }
}

static void the_order_does_not_matter(void **state)
{
    struct philox_stream s = philox_stream_make(11, "many");
    double x[MANY];
    double first = 0;

    (void)state;
    for (int i = 0; i < MANY; i++) {
        x[i] = random_double(&s, (uint64_t)i) * (i % 5 == 0 ? 0x1p-300 : 1);
    }
    for (uint64_t order = 0; order < 20; order++) {
        double sum = sum_of(x, MANY);

        first = order == 0 ? sum : first;
        assert_int_equal(bits_of(sum), bits_of(first));
        shuffle(x, MANY, order);
    }
}

/* Pairs cancel to the last bit and leave what stands beside them. */
static void cancelling_pairs_leave_the_rest(void **state)
{
    struct philox_stream s = philox_stream_make(13, "cancel");
    double x[MANY + 1];

    (void)state;
    for (uint64_t round = 0; round < 20; round++) {
        double rest = random_double(&s, 1000000 + round);

        for (int i = 0; i < MANY; i += 2) {
            x[i] = random_double(&s, (uint64_t)i + MANY * round);
            x[i + 1] = -x[i];
        }
        x[MANY] = rest;
        shuffle(x, MANY + 1, round);
        assert_int_equal(bits_of(sum_of(x, MANY + 1)), bits_of(rest));
        assert_int_equal(bits_of(exact_value(&(struct exact){ 0 })), 0);
    }
}

static void integers_sum_to_their_formula(void **state)
{
    struct exact e = { 0 };

    (void)state;
    for (int i = 1; i <= 1000000; i++) {
        exact_add(&e, i * 0x1p-500);
    }
    assert_int_equal(bits_of(exact_value(&e)), bits_of(500000500000.0 * 0x1p-500));
}

/* How a sum was split between ranks, merged or added as plain integers, changes nothing. */
static void parts_merge_to_the_whole(void **state)
{
    enum { PARTS = 7 };
    struct philox_stream s = philox_stream_make(17, "parts");
    struct exact whole = { 0 }, part[PARTS] = { 0 }, merged = { 0 }, words = { 0 };

    (void)state;
    for (int i = 0; i < MANY; i++) {
        double x = random_double(&s, (uint64_t)i);

        exact_add(&whole, x);
        exact_add(&part[philox_below(&s, (uint64_t)i, PARTS)], x);
    }
    for (int p = 0; p < PARTS; p++) {
        exact_merge(&merged, &part[p]);
        exact_carry(&part[p]);
        for (int i = 0; i < EXACT_LIMBS; i++) {
            words.limb[i] += part[p].limb[i];
        }
        words.pending += part[p].pending;
    }
    assert_int_equal(bits_of(exact_value(&merged)), bits_of(exact_value(&whole)));
    assert_int_equal(bits_of(exact_value(&words)), bits_of(exact_value(&whole)));
}

/* A limb that is as full as the contract allows overflows nowhere, and a carry comes by itself. */
static void head_room_suffices(void **state)
{
    const double ones = 0x1.fffffffffffffp+10; /* 53 ones: they fill a limb */
    struct exact e = { 0 }, twice;

    (void)state;
    for (int i = 0; i < 4; i++) {
        exact_add(&e, ones);
    }
    for (int i = 2; i < 30; i++) { /* 2^i sums so far */
        for (int k = 0; k < EXACT_LIMBS; k++) {
            e.limb[k] *= 2;
        }
        e.pending *= 2;
    }
    assert_int_equal(e.pending, 1 << 30);
    assert_int_equal(bits_of(exact_value(&e)), bits_of(ones * 0x1p30));
    twice = e;
    exact_add(&e, 1);
    assert_int_equal(e.pending, 1);
    exact_add(&e, -1);
    assert_int_equal(bits_of(exact_value(&e)), bits_of(ones * 0x1p30));
    exact_merge(&twice, &twice);
    assert_true(twice.pending <= 1);
    assert_int_equal(bits_of(exact_value(&twice)), bits_of(ones * 0x1p31));
}

static void a_carry_keeps_the_value_and_the_form(void **state)
{
    struct philox_stream s = philox_stream_make(19, "carry");
    struct exact e = { 0 };
    double before;

    (void)state;
    for (int i = 0; i < MANY; i++) {
        exact_add(&e, -fabs(random_double(&s, (uint64_t)i) * 0x1p-40));
    }
    before = exact_value(&e);
    exact_carry(&e);
    for (int i = 0; i + 1 < EXACT_LIMBS; i++) {
        assert_true(e.limb[i] >= 0 && e.limb[i] < (int64_t)1 << 32);
    }
    assert_true(e.limb[EXACT_LIMBS - 1] < 0);
    assert_int_equal(e.pending, 0);
    assert_int_equal(bits_of(exact_value(&e)), bits_of(before));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_double_is_itself),
        cmocka_unit_test(two_doubles_round_as_the_processor_rounds),
        cmocka_unit_test(ties_go_to_even_and_dust_breaks_them),
        cmocka_unit_test(subnormal_sums_are_exact),
        cmocka_unit_test(the_end_of_the_range),
        cmocka_unit_test(what_is_not_finite_is_counted),
        cmocka_unit_test(the_order_does_not_matter),
        cmocka_unit_test(cancelling_pairs_leave_the_rest),
        cmocka_unit_test(integers_sum_to_their_formula),
        cmocka_unit_test(parts_merge_to_the_whole),
        cmocka_unit_test(head_room_suffices),
        cmocka_unit_test(a_carry_keeps_the_value_and_the_form),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
