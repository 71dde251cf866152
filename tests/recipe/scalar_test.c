/* What a plain scalar is: the table of YAML 1.1 with the float rule and without dates. */
#include <math.h>
#include "support/expect.h"
#include "recipe/tree.h"

static void integers_have_their_values(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        { "0", 0 },
        { "-0", 0 },
        { "1", 1 },
        { "+3", 3 },
        { "-42", -42 },
        { "1_000", 1000 },
        { "1__000", 1000 },
        { "1_", 1 },
        { "010", 8 },
        { "00", 0 },
        { "-017", -15 },
        { "0_7", 7 },
        { "0x1F", 31 },
        { "-0xff", -255 },
        { "0b101", 5 },
        { "0b1_0", 2 },
        { "12:30", 750 },
        { "1:02:03", 3723 },
        { "-1:30", -90 },
        { "9223372036854775807", INT64_MAX },
        { "-9223372036854775808", INT64_MIN },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tree t = { 0 };

        assert_true(tree_scalar(&t, cases[i].text));
        if (t.kind != TREE_INT || t.whole != cases[i].value) {
            print_error("%s\n", cases[i].text);
        }
        assert_int_equal(t.kind, TREE_INT);
        assert_true(t.whole == cases[i].value);
        assert_string_equal(t.text, cases[i].text);
    }
}

static void integers_beyond_64_bits_are_told(void **state)
{
    static const char *const cases[] = { "9223372036854775808", "-9223372036854775809",
                                         "0x8000000000000000", "99999999999999999999999:00" };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tree t = { 0 };

        assert_false(tree_scalar(&t, cases[i]));
        assert_int_equal(t.kind, TREE_TEXT);
    }
}

static void floats_have_their_values(void **state)
{
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        { "1.", 1.0 },        { "1.5e3", 1500 },      { "1.e3", 1000 },      { "1e5", 1e5 },
        { "1e-5", 1e-5 },     { "2E+4", 2e4 },        { "12e03", 12000 },    { ".5", 0.5 },
        { ".5e+3", 500 },     { "-0.0", -0.0 },       { "1_000.5", 1000.5 }, { "1._5", 1.5 },
        { "1_0e5", 1e6 },     { "+1.5", 1.5 },        { "1e400", INFINITY }, { "1e-400", 0 },
        { ".inf", INFINITY }, { "-.INF", -INFINITY }, { "+.Inf", INFINITY }, { "08.5", 8.5 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tree t = { 0 };

        assert_true(tree_scalar(&t, cases[i].text));
        if (t.kind != TREE_FLOAT || memcmp(&t.number, &cases[i].value, sizeof t.number) != 0) {
            print_error("%s\n", cases[i].text);
        }
        assert_int_equal(t.kind, TREE_FLOAT);
        assert_memory_equal(&t.number, &cases[i].value, sizeof t.number);
    }
}

static void nan_is_a_float(void **state)
{
    struct tree t = { 0 };

    (void)state;
    assert_true(tree_scalar(&t, ".NaN"));
    assert_int_equal(t.kind, TREE_FLOAT);
    assert_true(isnan(t.number));
}

static void words_are_null_or_bool(void **state)
{
    static const char *const nulls[] = { "", "~", "null", "Null", "NULL" };
    static const char *const trues[] = { "true", "True", "TRUE", "yes", "Yes",
                                         "YES",  "on",   "On",   "ON" };
    static const char *const falses[] = { "false", "False", "FALSE", "no", "No",
                                          "NO",    "off",   "Off",   "OFF" };
    struct tree t = { 0 };

    (void)state;
    for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++) {
        assert_true(tree_scalar(&t, nulls[i]));
        assert_int_equal(t.kind, TREE_NULL);
    }
    for (size_t i = 0; i < sizeof trues / sizeof trues[0]; i++) {
        assert_true(tree_scalar(&t, trues[i]));
        assert_int_equal(t.kind, TREE_BOOL);
        assert_true(t.truth);
        assert_true(tree_scalar(&t, falses[i]));
        assert_int_equal(t.kind, TREE_BOOL);
        assert_false(t.truth);
    }
}

static void everything_else_is_text(void **state)
{
    static const char *const cases[] = {
        "y",     "Y",    "n",       "N",          "t",          "None", "none",
        "nULL",  "tRUE", "yEs",     "inf",        "-inf",       "nan",  "08",
        "09",    "0o17", "0x",      "0b",         "1e",         "1e+",  "1.2.3",
        "2.1.1", "0:30", "1:60",    "1:",         "a",          "-",    ".",
        "..",    "_1",   "-_1",     "6-00:00:00", "2001-12-14", "-.5",  "+.5",
        ".5e3",  "._5",  "1_0e1_0", "-.nan",      "+-1",        "1 2",  "2001-12-14 21:59:43",
        "1e5x",  "0b12",
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tree t = { 0 };

        assert_true(tree_scalar(&t, cases[i]));
        if (t.kind != TREE_TEXT) {
            print_error("%s is no text\n", cases[i]);
        }
        assert_int_equal(t.kind, TREE_TEXT);
        assert_string_equal(t.text, cases[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_have_their_values),
        cmocka_unit_test(integers_beyond_64_bits_are_told),
        cmocka_unit_test(floats_have_their_values),
        cmocka_unit_test(nan_is_a_float),
        cmocka_unit_test(words_are_null_or_bool),
        cmocka_unit_test(everything_else_is_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
