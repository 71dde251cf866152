#include "support/expect.h"
#include "store/json_scan.h"

/* Is the text one value of JSON and nothing else? */
static bool takes_bytes(const char *text, size_t length)
{
    /* A copy of exactly this length, so that the sanitizer sees a read behind the end. */
    char *copy = malloc(length == 0 ? 1 : length);
    struct json_scan s;
    bool good;

    memcpy(copy, text, length);
    json_scan_init(&s, copy, length);
    good = json_skip(&s) && json_end(&s);
    assert_true(good == (s.problem == NULL));
    assert_true(s.at >= s.begin && s.at <= s.end);
    free(copy);
    return good;
}

static bool takes(const char *text)
{
    return takes_bytes(text, strlen(text));
}

static void values_of_every_kind_are_taken(void **state)
{
    static const char *const good[] = {
        "0",
        "-0",
        "10",
        "-1.5",
        "1e5",
        "1E-5",
        "0.0e+0",
        "true",
        "false",
        "null",
        "\"\"",
        "\"a\\n\\u00e9\"",
        "\"\\ud83d\\ude00\"",
        "\"\xc3\xa9\"",
        "[]",
        "{}",
        "[[],{}]",
        " [ 1 , 2 ] ",
        "{\"a\":{\"b\":[null]},\"a\":1}",
        "\t\r\n1\n",
        "\"\\\"\\\\\\/\\b\\f\\r\\t\"",
        "\"\x7f\"",
    };

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (!takes(good[i])) {
            print_error("refused: %s\n", good[i]);
            _fail(__FILE__, __LINE__);
        }
    }
}

static void everything_else_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        " ",
        "01",
        "-",
        "+1",
        ".5",
        "1.",
        "1e",
        "1e+",
        "0x10",
        "1_0",
        "5a",
        "1.2.3",
        "--1",
        "NaN",
        "Infinity",
        "-Infinity",
        "nul",
        "True",
        "tru",
        "'a'",
        "\"",
        "\"a",
        "\"\\",
        "\"\\q\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800\\n\"",
        "\"\n\"",
        "\"\x01\"",
        "\"\x80\"",
        "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1}",
        "{",
        "{]",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{a:1}",
        "{1:2}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "1 1",
        "[] x",
        "/**/1",
        "1//",
        "\xef\xbb\xbf"
        "1",
        "\v1",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (takes(bad[i])) {
            print_error("taken: %s\n", bad[i]);
            _fail(__FILE__, __LINE__);
        }
    }
    assert_false(takes_bytes("1\0", 2));
    assert_false(takes_bytes("\"\0\"", 3));
    assert_false(takes_bytes("[1\0]", 4));
    assert_false(takes_bytes("\"\\\0\"", 4));
}

static void nesting_has_a_limit_and_no_stack(void **state)
{
    enum { DEEP = 200000 };
    char *text = malloc(2 * DEEP + 1);

    (void)state;
    memset(text, '[', DEEP);
    memset(text + DEEP, ']', DEEP);
    assert_true(takes_bytes(text + DEEP - JSON_DEPTH, 2 * JSON_DEPTH));
    assert_false(takes_bytes(text + DEEP - JSON_DEPTH - 1, 2 * JSON_DEPTH + 2));
    assert_false(takes_bytes(text, 2 * DEEP));
    free(text);
}

static bool integer_of(const char *text, int64_t *value)
{
    struct json_scan s;

    json_scan_init(&s, text, strlen(text));
    return json_whole(&s, value);
}

static void integers_are_exact_or_refused(void **state)
{
    int64_t value = 0;

    (void)state;
    assert_true(integer_of("9223372036854775807", &value) && value == INT64_MAX);
    assert_true(integer_of("-9223372036854775808", &value) && value == INT64_MIN);
    assert_true(integer_of(" -0,", &value) && value == 0);
    assert_true(integer_of("42]", &value) && value == 42);
    assert_false(integer_of("9223372036854775808", &value));
    assert_false(integer_of("-9223372036854775809", &value));
    assert_false(integer_of("18446744073709551617", &value));
    assert_false(integer_of("1.0", &value));
    assert_false(integer_of("1e2", &value));
    assert_false(integer_of("\"1\"", &value));
    assert_false(integer_of("007", &value));
}

static void strings_compare_and_decode(void **state)
{
    static const char text[] =
        "\"in\\u0070ut\\u005fids\" \"\\ud83d\\ude00\\u00e9\\u20ac\\n\" \"a\\u0000b\" \"plain\"";
    struct arena a = { 0 };
    struct json_string string;
    struct json_scan s;

    (void)state;
    json_scan_init(&s, text, sizeof text - 1);
    assert_true(json_text(&s, &string));
    assert_true(json_string_is(&string, "input_ids"));
    assert_false(json_string_is(&string, "input_id"));
    assert_false(json_string_is(&string, "input_idss"));
    assert_string_equal(json_string_make(&a, &string), "input_ids");
    assert_true(json_text(&s, &string));
    assert_string_equal(json_string_make(&a, &string), "\xf0\x9f\x98\x80\xc3\xa9\xe2\x82\xac\n");
    assert_true(json_text(&s, &string));
    assert_null(json_string_make(&a, &string));
    assert_false(json_string_is(&string, "a"));
    assert_true(json_text(&s, &string));
    assert_true(json_string_is(&string, "plain"));
    assert_false(json_string_is(&string, "plai"));
    assert_true(json_end(&s));
    arena_release(&a);
}

static void the_first_problem_stays_where_it_is(void **state)
{
    static const char text[] = "{\"a\": 1.5, \"b\": 2}";
    char found[JSON_FOUND];
    struct json_string key;
    struct json_scan s;
    int64_t value = 7;

    (void)state;
    json_scan_init(&s, text, sizeof text - 1);
    assert_true(json_open(&s, '{') && json_more(&s, '}', 0) && json_key(&s, &key));
    assert_false(json_whole(&s, &value));
    assert_int_equal(value, 7);
    assert_string_equal(s.problem, "this is no integer");
    assert_string_equal(json_found(&s, found), "1.5");
    assert_int_equal(s.at - s.begin, 6);
    assert_false(json_more(&s, '}', 1));
    assert_false(json_skip(&s));
    assert_false(json_end(&s));
    assert_string_equal(s.problem, "this is no integer");
    assert_int_equal(s.at - s.begin, 6);
}

static void what_was_found_is_short_and_printable(void **state)
{
    char found[JSON_FOUND], text[300];
    struct json_scan s;

    (void)state;
    json_scan_init(&s, "\x01\xff\0x ", 5);
    assert_string_equal(json_found(&s, found), "???x");
    json_scan_init(&s, "", 0);
    assert_string_equal(json_found(&s, found), "the end");
    memset(text, 'y', sizeof text);
    json_scan_init(&s, text, sizeof text);
    assert_int_equal(strlen(json_found(&s, found)), JSON_FOUND - 1);
    assert_string_equal(found + JSON_FOUND - 4, "...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_every_kind_are_taken),
        cmocka_unit_test(everything_else_is_refused),
        cmocka_unit_test(nesting_has_a_limit_and_no_stack),
        cmocka_unit_test(integers_are_exact_or_refused),
        cmocka_unit_test(strings_compare_and_decode),
        cmocka_unit_test(the_first_problem_stays_where_it_is),
        cmocka_unit_test(what_was_found_is_short_and_printable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
