#include "support/expect.h"

#include "tensor/peak.h"

/* Any processor of the last fifteen years does more than one and less than a thousand operations a
 * cycle: what is tested is that something was counted and that time passed. */
static void every_instruction_here_has_a_rate(void **state)
{
    (void)state;
    assert_true(peak_runs(PEAK_SCALAR));
    for (int i = 0; i < PEAK_KINDS; i++) {
        enum peak_kind kind = (enum peak_kind)i;

        if (peak_runs(kind)) {
            double rate = peak_rate(kind, 1, 2);

            assert_true(rate > 1e7 && rate < 1e13);
        }
    }
}

static void families_have_the_rate_of_their_instructions(void **state)
{
    const struct kernels wide = { .family = "avx2", .real = DT_F32 },
                         twice = { .family = "scalar", .real = DT_F64 };

    (void)state;
    assert_string_equal(peak_name(PEAK_PAIRS), "avx512_bf16");
    assert_true(peak_rate_of(&twice, 1, 2) > 1e7);
    if (peak_runs(PEAK_AVX2)) {
        assert_true(peak_rate_of(&wide, 1, 3) > peak_rate_of(&twice, 1, 3));
    }
}

static void memory_has_a_rate(void **state)
{
    double rate[STREAM_KINDS];

    (void)state;
    EXPECT_OK(peak_streams(3 << 20, 2, 1, rate));
    for (int i = 0; i < STREAM_KINDS; i++) {
        assert_true(rate[i] > 1e6 && rate[i] < 1e13);
    }
    EXPECT_FAIL(ERR_MEMORY, "to measure memory with", peak_streams((int64_t)1 << 50, 1, 1, rate));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_here_has_a_rate),
        cmocka_unit_test(families_have_the_rate_of_their_instructions),
        cmocka_unit_test(memory_has_a_rate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
