/* Which family is taken, what the tables hold, and shapes as text. */
#include "kernel_case.h"
#include "tensor/shape.h"

static void every_table_is_full(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct kernels *all[8];
        size_t n = kernels_all(all_types[i], all);

        assert_true(n >= 1 && n <= 8);
        assert_string_equal(all[0]->family, "scalar");
        for (size_t f = 0; f < n; f++) {
            void *
                slots[(sizeof(struct kernels) - offsetof(struct kernels, linear)) / sizeof(void *)];

            assert_int_equal(all[f]->real, all_types[i]);
            assert_int_equal(all[f]->sum, kernels_sum(all_types[i]));
            memcpy(slots, (const char *)all[f] + offsetof(struct kernels, linear), sizeof slots);
            for (size_t s = 0; s < sizeof slots / sizeof slots[0]; s++) {
                assert_non_null(slots[s]);
            }
        }
    }
}

static void the_best_family_is_taken_unless_one_is_named(void **state)
{
    const struct kernels *all[8], *k = NULL;
    size_t n = kernels_all(DT_F64, all);

    (void)state;
    unsetenv("ROUX_ISA");
    EXPECT_OK(kernels_find(DT_F64, &k));
    assert_ptr_equal(k, all[n - 1]);
    setenv("ROUX_ISA", "", 1);
    EXPECT_OK(kernels_find(DT_F64, &k));
    assert_ptr_equal(k, all[n - 1]);
    setenv("ROUX_ISA", "scalar", 1);
    EXPECT_OK(kernels_find(DT_F64, &k));
    assert_ptr_equal(k, all[0]);
    unsetenv("ROUX_ISA");
}

static void an_unknown_family_is_refused_with_a_list(void **state)
{
    const struct kernels *all[8], *k = NULL;
    size_t n = kernels_all(DT_F32, all);

    (void)state;
    setenv("ROUX_ISA", "neon", 1);
    EXPECT_FAIL(ERR_RECIPE,
                "ROUX_ISA: 'neon' is no kernel family that this processor runs; choose scalar",
                kernels_find(DT_F32, &k));
    assert_null(k);
    for (size_t f = 0; f < n; f++) {
        assert_non_null(strstr(fail_text(), all[f]->family));
    }
    unsetenv("ROUX_ISA");
}

static void shapes_count_and_print(void **state)
{
    char text[96];
    struct shape scalar = { 0 }, s = shape_3(2, 3, 4), t = shape_2(2, 3),
                 u = { 4, { INT64_MAX, INT64_MAX, INT64_MAX, INT64_MIN } };

    (void)state;
    assert_int_equal(shape_count(&scalar), 1);
    assert_int_equal(shape_count(&s), 24);
    assert_int_equal(shape_rows(&s), 6);
    assert_int_equal(shape_last(&s), 4);
    assert_false(shape_same(&s, &t));
    assert_true(shape_same(&s, &s));
    assert_string_equal(shape_text(&scalar, text), "[]");
    assert_string_equal(shape_text(&s, text), "[2, 3, 4]");
    assert_string_equal(shape_text(&u, text),
                        "[9223372036854775807, 9223372036854775807, 9223372036854775807, "
                        "-9223372036854775808]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_table_is_full),
        cmocka_unit_test(the_best_family_is_taken_unless_one_is_named),
        cmocka_unit_test(an_unknown_family_is_refused_with_a_list),
        cmocka_unit_test(shapes_count_and_print),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
