#include "base/digest.h"
#include "support/expect.h"

/* The empty input's digest stands in the xxHash specification's test vectors. */
static void known_digests(void **state)
{
    char out[DIGEST_TEXT];

    (void)state;
    assert_string_equal(digest_text(digest_of("", 0), out), "99aa06d3014798d86001c324468d497f");
    assert_false(digest_same(digest_of("a", 1), digest_of("b", 1)));
    assert_true(digest_same(digest_of("a", 1), digest_of("a", 1)));
}

static void both_halves_count(void **state)
{
    struct digest d = { .low = 1, .high = 2 };

    (void)state;
    assert_false(digest_same(d, (struct digest){ .low = 1, .high = 3 }));
    assert_false(digest_same(d, (struct digest){ .low = 3, .high = 2 }));
}

static void blocks_are_digested_in_their_text_order(void **state)
{
    struct digest blocks[] = {
        { .low = 0x0807060504030201, .high = 0x100f0e0d0c0b0a09 },
        { .low = 0x1817161514131211, .high = 0x201f1e1d1c1b1a19 },
    };
    unsigned char bytes[32];

    (void)state;
    for (int i = 0; i < 16; i++) {
        bytes[i] = (unsigned char)(16 - i);
        bytes[16 + i] = (unsigned char)(32 - i);
    }
    assert_true(digest_same(digest_of_blocks(blocks, 2), digest_of(bytes, 32)));
    assert_true(digest_same(digest_of_blocks(blocks, 1), digest_of(bytes, 16)));
    assert_true(digest_same(digest_of_blocks(NULL, 0), digest_of("", 0)));
}

static void text_and_back(void **state)
{
    struct digest d = { .low = 0x0123456789abcdef, .high = 0x00000000fedcba98 }, back;
    char out[DIGEST_TEXT];

    (void)state;
    assert_string_equal(digest_text(d, out), "00000000fedcba980123456789abcdef");
    assert_true(digest_parse(out, &back));
    assert_true(digest_same(d, back));
    assert_true(digest_parse("00000000FEDCBA980123456789ABCDEF", &back));
    assert_true(digest_same(d, back));
}

static void other_texts_are_no_digests(void **state)
{
    static const char *const bad[] = {
        "",
        "0",
        "00000000fedcba980123456789abcde",
        "00000000fedcba980123456789abcdef0",
        "00000000fedcba980123456789abcdeg",
        " 0000000fedcba980123456789abcdef",
        "0x000000fedcba980123456789abcdef",
    };
    struct digest out = { .low = 7, .high = 8 };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(digest_parse(bad[i], &out));
    }
    assert_int_equal(out.low, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_digests),
        cmocka_unit_test(both_halves_count),
        cmocka_unit_test(blocks_are_digested_in_their_text_order),
        cmocka_unit_test(text_and_back),
        cmocka_unit_test(other_texts_are_no_digests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
