#include <math.h>
#include "base/philox.h"
#include "base/text.h"
#include "support/expect.h"

static void a_text_grows(void **state)
{
    struct text t = { 0 };

    (void)state;
    assert_string_equal(text_of(&t), "");
    text_add(&t, "one");
    text_add_char(&t, ' ');
    text_add_format(&t, "%d%s", 2, "nd");
    text_add_n(&t, "a\0b", 3);
    text_add_n(&t, NULL, 0);
    assert_int_equal(t.length, 10);
    assert_memory_equal(text_of(&t), "one 2nda\0b", 10);
    text_clear(&t);
    assert_string_equal(text_of(&t), "");
    for (int i = 0; i < 5000; i++) {
        text_add_format(&t, "%04d", i);
        assert_int_equal(t.data[t.length], '\0');
    }
    assert_int_equal(t.length, 20000);
    assert_memory_equal(t.data + 4 * 4321, "4321", 4);
    text_release(&t);
    assert_string_equal(text_of(&t), "");
    text_release(&t);
    text_clear(&t);
}

static void beginnings_and_ends(void **state)
{
    (void)state;
    assert_true(text_starts("model.data", "model."));
    assert_true(text_starts("a", ""));
    assert_false(text_starts("mod", "model"));
    assert_true(text_ends("a.json.gz", ".gz"));
    assert_true(text_ends("a", ""));
    assert_false(text_ends("gz", ".gz"));
}

/* Against a decoder written from the definition: the code point's length, range and class. */
static bool is_character(const unsigned char *s, size_t length)
{
    static const unsigned char marks[] = { 0, 0x00, 0xc0, 0xe0, 0xf0 };
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    uint32_t point = length == 1 ? s[0] : (uint32_t)(s[0] & (0x7f >> length));

    if ((length == 1 && s[0] >= 0x80) ||
        (length > 1 && (s[0] & (0xff80 >> length & 0xff)) != marks[length])) {
        return false;
    }
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return false;
        }
        point = point << 6 | (s[i] & 0x3f);
    }
    return point >= least[length] && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
}

static size_t valid_by_definition(const unsigned char *s, size_t length)
{
    size_t at = 0;

    while (at < length) {
        size_t step = 1;

        while (step <= 4 && (at + step > length || !is_character(s + at, step))) {
            step++;
        }
        if (step > 4) {
            break;
        }
        at += step;
    }
    return at;
}

static void utf8_is_what_the_definition_says(void **state)
{
    static const unsigned char edges[] = {
        0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf,
        0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf8, 0xff,
    };
    enum { EDGES = sizeof edges };

    (void)state;
    for (size_t i = 0; i < (size_t)EDGES * EDGES * EDGES * EDGES; i++) {
        unsigned char s[4];

        for (size_t j = 0, rest = i; j < 4; j++, rest /= EDGES) {
            s[j] = edges[rest % EDGES];
        }
        for (size_t length = 0; length <= 4; length++) {
            size_t found = text_utf8_valid((char *)s, length),
                   right = valid_by_definition(s, length);

            if (found != right) {
                assert_int_equal(found, right);
            }
        }
    }
}

static void utf8_offsets(void **state)
{
    (void)state;
    assert_int_equal(text_utf8_valid("", 0), 0);
    assert_int_equal(text_utf8_valid("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z", 11), 11);
    assert_int_equal(text_utf8_valid("abc\xed\xa0\x80", 6), 3); /* a surrogate */
    assert_int_equal(text_utf8_valid("ab\xf0\x9f\x98", 5), 2);  /* cut short */
}

static void distances(void **state)
{
    (void)state;
    assert_int_equal(text_distance("", ""), 0);
    assert_int_equal(text_distance("abc", ""), 3);
    assert_int_equal(text_distance("", "abcd"), 4);
    assert_int_equal(text_distance("kitten", "sitting"), 3);
    assert_int_equal(text_distance("train_dri", "train_dir"), 1);
    assert_int_equal(text_distance("ca", "abc"),
                     3); /* optimal string alignment; without the limit it were 2 */
    assert_int_equal(text_distance("abcdef", "badcfe"), 3);
}

static void the_nearest_name_or_none(void **state)
{
    static const char *const names[] = { "train_dir", "val_dir", "train_batch_size" };

    (void)state;
    assert_string_equal(text_nearest("tran_dir", names, 3), "train_dir");
    assert_string_equal(text_nearest("vla_dir", names, 3), "val_dir");
    assert_string_equal(text_nearest("train_dir", names, 3), "train_dir");
    assert_null(text_nearest("zebra", names, 3));
    assert_null(text_nearest("tr", names, 3));
    assert_null(text_nearest("train_dir", names, 0));
}

static void sizes_for_people(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {
        { 0, "0 B" },
        { 312, "312 B" },
        { 1023, "1023 B" },
        { 1024, "1.0 KiB" },
        { 1536, "1.5 KiB" },
        { 1048575, "1.0 MiB" },
        { 3ULL << 29, "1.5 GiB" },
        { UINT64_MAX, "16.0 EiB" },
    };
    char out[32];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(text_bytes(out, rows[i].bytes), rows[i].text);
    }
}

static void counts_for_people(void **state)
{
    char out[32];

    (void)state;
    assert_string_equal(text_count(out, 0), "0");
    assert_string_equal(text_count(out, 999), "999");
    assert_string_equal(text_count(out, 1000), "1,000");
    assert_string_equal(text_count(out, 1234567), "1,234,567");
    assert_string_equal(text_count(out, -123), "-123");
    assert_string_equal(text_count(out, -123456), "-123,456");
    assert_string_equal(text_count(out, INT64_MIN), "-9,223,372,036,854,775,808");
}

static void times_for_people(void **state)
{
    static const struct {
        double seconds;
        const char *text;
    } rows[] = {
        { 0, "0.0 s" },           { 0.0123, "12.3 ms" },   { 3.21, "3.2 s" },
        { 59.94, "59.9 s" },      { 59.96, "1 min 00 s" }, { 125, "2 min 05 s" },
        { 3599.6, "1 h 00 min" }, { 7500, "2 h 05 min" },  { 360000, "100 h 00 min" },
        { -2, "-2.0 s" },         { INFINITY, "inf s" },   { 1e300, "1e+300 s" },
    };
    char out[32];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(text_seconds(out, rows[i].seconds), rows[i].text);
    }
}

static void doubles_with_the_fewest_digits(void **state)
{
    static const struct {
        double x;
        const char *text;
    } rows[] = {
        { 0.0, "0.0" },
        { -0.0, "-0.0" },
        { 1, "1.0" },
        { 0.1, "0.1" },
        { 1.0 / 3, "0.3333333333333333" },
        { 0.1 + 0.2, "0.30000000000000004" },
        { 1e15, "1e+15" },
        { 123456789012345.0, "123456789012345.0" },
        { 1e-5, "1e-05" },
        { 5e-324, "5e-324" },
        { 1.7976931348623157e308, "1.7976931348623157e+308" },
        { 2.2250738585072014e-308, "2.2250738585072014e-308" },
        { NAN, "nan" },
        { INFINITY, "inf" },
        { -INFINITY, "-inf" },
    };
    struct philox_stream s = philox_stream_make(1, "doubles");
    char out[32];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(text_double(out, rows[i].x), rows[i].text);
    }
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t bits = (uint64_t)philox_word(&s, 2 * i) << 32 | philox_word(&s, 2 * i + 1);
        double x, again;

        memcpy(&x, &bits, sizeof x);
        if (isfinite(x)) {
            again = strtod(text_double(out, x), NULL);
            assert_memory_equal(&again, &x, sizeof x);
            assert_non_null(strpbrk(out, ".e"));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_grows),
        cmocka_unit_test(beginnings_and_ends),
        cmocka_unit_test(utf8_is_what_the_definition_says),
        cmocka_unit_test(utf8_offsets),
        cmocka_unit_test(distances),
        cmocka_unit_test(the_nearest_name_or_none),
        cmocka_unit_test(sizes_for_people),
        cmocka_unit_test(counts_for_people),
        cmocka_unit_test(times_for_people),
        cmocka_unit_test(doubles_with_the_fewest_digits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
