#include "support/expect.h"

#include <sched.h>
#include <stdlib.h>

#include "base/threads.h"

static int cores_now(void)
{
    cpu_set_t set;

    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    return CPU_COUNT(&set);
}

static void a_pinned_thread_has_one_core_until_it_is_let_go(void **state)
{
    int before = cores_now();

    (void)state;
    assert_int_equal(cores_allowed(), before);
    for (int i = 0; i < before && i < 4; i++) {
        thread_pin(i);
        assert_int_equal(cores_now(), 1);
        assert_int_equal(cores_allowed(), before); /* of the process, whatever this thread has */
    }
    thread_pin(before); /* there is none: nothing happens */
    assert_int_equal(cores_now(), 1);
    thread_unpin();
    assert_int_equal(cores_now(), before);
}

static void teams_are_pinned_only_where_that_helps(void **state)
{
    static const char *const names[] = { "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY" };
    int cores = cores_allowed();

    (void)state;
    for (int i = 0; i < 3; i++) {
        unsetenv(names[i]);
    }
    unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    assert_true(threads_pinned(cores));
    assert_false(threads_pinned(cores + 1));
    for (int i = 0; i < 3; i++) {
        setenv(names[i], "false", 1);
        assert_false(threads_pinned(1));
        unsetenv(names[i]);
    }
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    if (cores == cores_of_machine()) {
        assert_false(threads_pinned(1));
    }
    assert_int_equal(threads_default(0), cores / 2 > 0 ? cores / 2 : 1);
    unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
}

static void threads_are_as_many_as_asked(void **state)
{
    (void)state;
    unsetenv("OMP_NUM_THREADS");
    assert_int_equal(threads_default(0), cores_allowed());
    assert_int_equal(threads_default(7), 7);
    assert_int_equal(threads_default(1000000), 4096);
    setenv("OMP_NUM_THREADS", "3", 1);
    assert_int_equal(threads_default(0), 3);
    assert_int_equal(threads_default(5), 5);
    setenv("OMP_NUM_THREADS", "none", 1);
    assert_int_equal(threads_default(0), cores_allowed());
    unsetenv("OMP_NUM_THREADS");
}

static void cores_are_named_in_ranges(void **state)
{
    char text[128];

    (void)state;
    assert_ptr_equal(cores_text(text, 1), text);
    assert_true(text[0] >= '0' && text[0] <= '9');
    assert_null(strchr(text, ' '));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pinned_thread_has_one_core_until_it_is_let_go),
        cmocka_unit_test(teams_are_pinned_only_where_that_helps),
        cmocka_unit_test(threads_are_as_many_as_asked),
        cmocka_unit_test(cores_are_named_in_ranges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
