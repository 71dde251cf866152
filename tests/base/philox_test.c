#include <math.h>
#include <xxhash.h>
#include "base/philox.h"
#include "support/expect.h"

/* Known answers: kat_vectors of Random123 1.14 (philox4x32, 10 rounds). */
static void known_answers(void **state)
{
    static const struct {
        uint32_t counter[4], key[2], word[4];
    } rows[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct philox_block b = philox4x32(rows[i].counter, rows[i].key);

        assert_memory_equal(b.word, rows[i].word, sizeof b.word);
    }
}

/* Saved runs depend on these: a change of any is a change of the format. */
static void draws_stay_what_they_are(void **state)
{
    struct philox_stream s = philox_stream_make(1234, "model.embed_tokens.weight");

    (void)state;
    assert_int_equal(s.key[0], 0xfc855843);
    assert_int_equal(s.key[1], 0x4318525a);
    assert_int_equal(s.salt, 0x6267eecb);
    assert_int_equal(philox_word(&s, 5), 0x4137bebc);
    assert_true(philox_uniform(&s, 5) == 0x1.a64cbad0a2062p-1);
    assert_int_equal(philox_below(&s, 5, 1000000), 244154);
    assert_true(philox_normal(&s, 4) == -0x1.e02e5d09ed108p+0);
    assert_true(philox_normal(&s, 5) == -0x1.816e05e63b483p-2);
}

static void streams_differ_by_seed_and_name(void **state)
{
    struct philox_stream a = philox_stream_make(1, "x"), b = philox_stream_make(2, "x"),
                         c = philox_stream_make(1, "y");
    int same = 0;

    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        same += philox_word(&a, i) == philox_word(&b, i);
        same += philox_word(&a, i) == philox_word(&c, i);
        same += philox_word(&a, i) == philox_word(&a, i + ((uint64_t)1 << 34));
        same += philox_word(&a, i) == (uint32_t)(philox_uniform(&a, i) * 0x1p32);
    }
    assert_int_equal(same, 0);
}

static void uniform_numbers_are_uniform(void **state)
{
    enum { DRAWS = 1 << 18, CELLS = 64 };
    struct philox_stream s = philox_stream_make(3, "uniform");
    int cells[CELLS] = { 0 };
    double squares = 0;

    (void)state;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double x = philox_uniform(&s, i);

        assert_true(x >= 0 && x < 1);
        assert_true(x * 0x1p53 == floor(x * 0x1p53));
        cells[(int)(x * CELLS)]++;
    }
    for (int i = 0; i < CELLS; i++) {
        double expected = (double)DRAWS / CELLS;

        squares += (cells[i] - expected) * (cells[i] - expected) / expected;
    }
    assert_true(squares > 30 &&
                squares < 115); /* chi square with 63 degrees: one in 10,000 lies outside */
}

static void bounded_numbers_keep_their_bound(void **state)
{
    static const int64_t bounds[] = { 1, 2, 3, 7, 1000, (int64_t)1 << 40, INT64_MAX };
    struct philox_stream s = philox_stream_make(3, "below");
    int count[7] = { 0 };

    (void)state;
    for (size_t b = 0; b < sizeof bounds / sizeof bounds[0]; b++) {
        double sum = 0;

        for (uint64_t i = 0; i < 20000; i++) {
            int64_t x = philox_below(&s, i, bounds[b]);

            assert_true(x >= 0 && x < bounds[b]);
            sum += (double)x;
        }
        sum /= 20000;
        assert_true(fabs(sum - ((double)bounds[b] - 1) / 2) <= 0.01 * (double)bounds[b]);
    }
    for (uint64_t i = 0; i < 70000; i++) {
        count[philox_below(&s, i, 7)]++;
    }
    for (int i = 0; i < 7; i++) {
        assert_true(count[i] > 9600 && count[i] < 10400);
    }
}

static void draw_below_nothing(void)
{
    struct philox_stream s = philox_stream_make(3, "below");

    philox_below(&s, 0, 0);
}

static void a_bound_of_zero_is_our_mistake(void **state)
{
    (void)state;
    expect_broken_check(draw_below_nothing, "below 0 was asked for");
}

/* Box and Muller's formula by the C library, on the block that the door describes. */
static void normal_numbers_follow_the_formula(void **state)
{
    struct philox_stream s = philox_stream_make(5, "formula");
    const double pi = 3.14159265358979323846;

    (void)state;
    for (uint64_t i = 0; i < 50000; i++) {
        uint32_t counter[4] = { (uint32_t)i, 0, 3, s.salt };
        struct philox_block b = philox4x32(counter, s.key);
        uint64_t first = ((uint64_t)b.word[1] << 32 | b.word[0]) >> 11;
        uint64_t second = ((uint64_t)b.word[3] << 32 | b.word[2]) >> 11;
        double radius = sqrt(-2 * log((double)(first + 1) * 0x1p-53));
        double angle = 2 * pi * ((double)second * 0x1p-53);

        assert_true(fabs(philox_normal(&s, 2 * i) - radius * cos(angle)) <= 8e-15);
        assert_true(fabs(philox_normal(&s, 2 * i + 1) - radius * sin(angle)) <= 8e-15);
    }
}

/* Any beginning and end, and blocks whose index needs more than 32 bits. The digest says that each
 * processor's form of the loops has the same bits. */
static void normal_numbers_come_together(void **state)
{
    struct philox_stream s = philox_stream_make(5, "together");
    const uint64_t firsts[] = { 0, 1, 127, 300, 8589934500, 0xffffffffffffff00 };
    const size_t counts[] = { 0, 1, 2, 126, 127, 128, 129, 255, 1000 };
    static double all[1 << 16];

    (void)state;
    for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++) {
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
            size_t n = counts[k] < -firsts[i] || firsts[i] == 0 ? counts[k] : (size_t)-firsts[i];

            all[n] = -7;
            philox_normals(&s, firsts[i], n, all);
            assert_true(all[n] == -7);
            for (size_t j = 0; j < n; j++) {
                assert_true(all[j] == philox_normal(&s, firsts[i] + j));
            }
        }
    }
    philox_normals(&s, 0, 1 << 16, all);
    assert_int_equal(XXH3_64bits(all, sizeof all), 0x7c7ce2340fb86faaULL);
}

static void normal_numbers_are_normal(void **state)
{
    enum { DRAWS = 1 << 18 };
    struct philox_stream s = philox_stream_make(5, "moments");
    double sum[5] = { 0 }, pairs = 0;
    int within = 0;

    (void)state;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double x = philox_normal(&s, i), power = 1;

        assert_true(isfinite(x));
        for (int k = 1; k <= 4; k++) {
            power *= x;
            sum[k] += power / DRAWS;
        }
        within += fabs(x) < 1;
        pairs += x * philox_normal(&s, i + 1) / DRAWS;
    }
    assert_true(fabs(sum[1]) < 0.01);
    assert_true(fabs(sum[2] - 1) < 0.015);
    assert_true(fabs(sum[3]) < 0.03);
    assert_true(fabs(sum[4] - 3) < 0.1);
    assert_true(fabs(pairs) < 0.01);
    assert_true(fabs((double)within / DRAWS - 0.6826895) < 0.005);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(draws_stay_what_they_are),
        cmocka_unit_test(streams_differ_by_seed_and_name),
        cmocka_unit_test(uniform_numbers_are_uniform),
        cmocka_unit_test(bounded_numbers_keep_their_bound),
        cmocka_unit_test(a_bound_of_zero_is_our_mistake),
        cmocka_unit_test(normal_numbers_follow_the_formula),
        cmocka_unit_test(normal_numbers_come_together),
        cmocka_unit_test(normal_numbers_are_normal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
