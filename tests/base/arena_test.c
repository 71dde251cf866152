#include "base/arena.h"
#include "support/expect.h"

static bool all_zero(const unsigned char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static void pieces_are_zeroed_aligned_and_apart(void **state)
{
    static const size_t sizes[] = { 0, 1, 15, 16, 17, 4000, 4096, 5000, 100000, 3, 40 << 20, 7 };
    enum { ROUNDS = 50, SIZES = sizeof sizes / sizeof sizes[0] };
    unsigned char *pieces[SIZES * ROUNDS];
    struct arena a = { 0 };
    size_t count = 0, total = 0;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < SIZES; i++) {
            size_t size = round > 0 && sizes[i] > 100000 ? 64 : sizes[i];

            pieces[count] = arena_take(&a, size);
            assert_non_null(pieces[count]);
            assert_int_equal((uintptr_t)pieces[count] % 16, 0);
            assert_true(all_zero(pieces[count], size));
            memset(pieces[count], (int)(count % 255) + 1, size);
            total += size;
            count++;
        }
    }
    assert_int_equal(arena_bytes(&a), total);
    for (size_t i = 0; i < count; i++) { /* nobody wrote over a neighbour */
        size_t size = i >= SIZES && sizes[i % SIZES] > 100000 ? 64 : sizes[i % SIZES];

        if (size > 0) {
            assert_int_equal(pieces[i][0], i % 255 + 1);
            assert_int_equal(pieces[i][size - 1], i % 255 + 1);
        }
    }
    arena_release(&a);
    assert_int_equal(arena_bytes(&a), 0);
    arena_release(&a);
}

static void texts_are_copied_and_end_in_zero(void **state)
{
    struct arena a = { 0 };
    char source[] = "abc";
    char *copy = arena_text(&a, source);
    char *part = arena_text_n(&a, "abcdef", 4);
    char *empty = arena_text_n(&a, NULL, 0);

    (void)state;
    source[0] = 'x';
    assert_string_equal(copy, "abc");
    assert_string_equal(part, "abcd");
    assert_string_equal(empty, "");
    assert_string_equal(arena_format(&a, "%s-%05d", "n", 42), "n-00042");
    arena_release(&a);
}

static void a_long_format_fits(void **state)
{
    struct arena a = { 0 };
    char *text = arena_format(&a, "%100000d", 7);

    (void)state;
    assert_int_equal(strlen(text), 100000);
    assert_int_equal(text[99999], '7');
    arena_release(&a);
}

static void take_a_product_that_overflows(void)
{
    struct arena a = { 0 };

    arena_take_array(&a, SIZE_MAX / 8 + 2, 8);
}

static void take_more_than_there_is(void)
{
    struct arena a = { 0 };

    arena_take(&a, SIZE_MAX - 5);
}

static void sizes_that_overflow_are_our_mistake(void **state)
{
    struct arena a = { 0 };
    int64_t *numbers = arena_take_array(&a, 3, sizeof *numbers);

    (void)state;
    numbers[2] = 1;
    assert_int_equal(arena_bytes(&a), 24);
    arena_release(&a);
    expect_broken_check(take_a_product_that_overflows, "times 8 bytes");
    expect_broken_check(take_more_than_there_is, "an arena was asked for");
}

/* Rounds of about the same size: after the first ones the same memory, zeroed. */
static void a_cleared_arena_keeps_its_memory(void **state)
{
    struct arena a = { 0 };
    char *before = NULL;

    (void)state;
    arena_clear(&a); /* of nothing */
    for (int round = 0; round < 5; round++) {
        char *first, *piece;

        arena_clear(&a);
        assert_int_equal(arena_bytes(&a), 0);
        first = arena_take(&a, 100);
        for (int i = 0; i < 20; i++) {
            piece = arena_take(&a, 3000);
            for (int k = 0; k < 3000; k++) {
                assert_int_equal(piece[k], 0);
            }
            memset(piece, 7, 3000);
        }
        assert_int_equal(arena_bytes(&a), 100 + 20 * 3000);
        if (round >= 2) {
            assert_ptr_equal(first, before);
        }
        before = first;
    }
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cleared_arena_keeps_its_memory),
        cmocka_unit_test(pieces_are_zeroed_aligned_and_apart),
        cmocka_unit_test(texts_are_copied_and_end_in_zero),
        cmocka_unit_test(a_long_format_fits),
        cmocka_unit_test(sizes_that_overflow_are_our_mistake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
