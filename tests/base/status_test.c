#include <pthread.h>
#include "support/expect.h"

static void a_failure_keeps_code_and_text(void **state)
{
    (void)state;
    assert_string_equal(fail_text(), "");
    assert_int_equal(fail(ERR_FORMAT, "%s: %d rows, at most %d", "a.bin", 7, 5), ERR_FORMAT);
    assert_string_equal(fail_text(), "a.bin: 7 rows, at most 5");
}

static void context_is_added_behind(void **state)
{
    (void)state;
    assert_int_equal(fail(ERR_IO, "disk full"), ERR_IO);
    assert_int_equal(fail_while(ERR_IO, "writing %s", "x"), ERR_IO);
    assert_int_equal(fail_while(ERR_IO, "saving step %d", 3), ERR_IO);
    assert_string_equal(fail_text(), "disk full (while writing x) (while saving step 3)");
}

static void success_passes_through(void **state)
{
    (void)state;
    assert_int_equal(fail(ERR_IO, "old"), ERR_IO);
    assert_int_equal(fail_while(OK, "nothing"), OK);
    assert_string_equal(fail_text(), "old");
}

static void the_old_text_may_be_an_argument(void **state)
{
    (void)state;
    assert_int_equal(fail(ERR_IO, "inner"), ERR_IO);
    assert_int_equal(fail(ERR_PEER, "rank 3: %s", fail_text()), ERR_PEER);
    assert_string_equal(fail_text(), "rank 3: inner");
    assert_int_equal(fail_while(ERR_PEER, "after %s", fail_text()), ERR_PEER);
    assert_string_equal(fail_text(), "rank 3: inner (while after rank 3: inner)");
}

static void a_text_too_long_is_cut_visibly(void **state)
{
    char text[10001];

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(fail(ERR_IO, "%s", text), ERR_IO);
    assert_int_equal(strlen(fail_text()), 4095);
    assert_string_equal(fail_text() + 4095 - 4, "x...");
    assert_int_equal(fail_while(ERR_IO, "reading"), ERR_IO);
    assert_int_equal(strlen(fail_text()), 4095);
    assert_string_equal(fail_text() + 4095 - 3, "...");
}

static void *fail_elsewhere(void *unused)
{
    (void)unused;
    assert_string_equal(fail_text(), "");
    assert_int_equal(fail(ERR_IO, "theirs"), ERR_IO);
    return NULL;
}

static void each_thread_has_its_own_text(void **state)
{
    pthread_t other;

    (void)state;
    assert_int_equal(fail(ERR_IO, "mine"), ERR_IO);
    assert_int_equal(pthread_create(&other, NULL, fail_elsewhere, NULL), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_string_equal(fail_text(), "mine");
}

static void exit_codes_are_those_of_the_documentation(void **state)
{
    static const struct {
        status code;
        int exit;
    } rows[] = {
        { OK, 0 },           { ERR_RECIPE, 2 }, { ERR_UNSUPPORTED, 2 }, { ERR_MEMORY, 3 },
        { ERR_MISSING, 4 },  { ERR_FORMAT, 4 }, { ERR_IO, 5 },          { ERR_PEER, 6 },
        { ERR_DIVERGED, 7 }, { ERR_PLAN, 70 },  { ERR_STOPPED, 75 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(status_exit_code(rows[i].code), rows[i].exit);
    }
    assert_int_equal(status_exit_code((status)1000), 70);
}

static status first_or_second(status first, status second, int *reached)
{
    *reached = 1;
    TRY(first);
    *reached = 2;
    TRY(second);
    *reached = 3;
    return OK;
}

static void try_returns_the_first_failure(void **state)
{
    int reached;

    (void)state;
    assert_int_equal(first_or_second(OK, OK, &reached), OK);
    assert_int_equal(reached, 3);
    assert_int_equal(first_or_second(OK, ERR_IO, &reached), ERR_IO);
    assert_int_equal(reached, 2);
    assert_int_equal(first_or_second(ERR_PLAN, ERR_IO, &reached), ERR_PLAN);
    assert_int_equal(reached, 1);
}

static void break_a_check(void)
{
    int rows = 3;

    check(rows == 3, "not reached");
    check(rows == 4, "%d rows", rows);
}

static void a_broken_check_ends_the_process_with_70(void **state)
{
    (void)state;
    expect_broken_check(break_a_check, "status_test.c:");
    expect_broken_check(break_a_check, ": internal error: 3 rows\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_keeps_code_and_text),
        cmocka_unit_test(context_is_added_behind),
        cmocka_unit_test(success_passes_through),
        cmocka_unit_test(the_old_text_may_be_an_argument),
        cmocka_unit_test(a_text_too_long_is_cut_visibly),
        cmocka_unit_test(each_thread_has_its_own_text),
        cmocka_unit_test(exit_codes_are_those_of_the_documentation),
        cmocka_unit_test(try_returns_the_first_failure),
        cmocka_unit_test(a_broken_check_ends_the_process_with_70),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
