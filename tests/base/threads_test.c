#include "support/expect.h"

#include <pthread.h>
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
        thread_pin(i, before);
        assert_int_equal(cores_now(), 1);
        assert_int_equal(cores_allowed(), before); /* of the process, whatever this thread has */
    }
    thread_pin(before, before); /* there is none: nothing happens */
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
    assert_false(threads_take_turns(cores));
    assert_true(threads_take_turns(cores + 1));
}

/* Ranks that share all cores take theirs by number; bound ones have cores of their own. */
static void ranks_of_a_machine_do_not_meet_on_a_core(void **state)
{
    int cores = cores_allowed();
    char first[128], second[128];

    (void)state;
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    assert_int_equal(threads_default(0), cores / 2 > 0 ? cores / 2 : 1);
    assert_false(threads_pinned(cores));
    assert_true(threads_take_turns(cores));
    if (cores > 1) {
        assert_true(threads_pinned(cores / 2));
        setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
        cores_text(first, 1);
        setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
        cores_text(second, 1);
        assert_string_not_equal(first, second);
        thread_pin(0, 1);
        assert_int_equal(cores_now(), 1);
        thread_unpin();
    }
    setenv("OMPI_MCA_orte_bound_at_launch", "1", 1);
    assert_int_equal(threads_default(0), cores);
    assert_true(threads_pinned(cores));
    assert_false(threads_take_turns(cores));
    unsetenv("OMPI_MCA_orte_bound_at_launch");
    unsetenv("OMPI_COMM_WORLD_LOCAL_RANK");
    unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
}

enum { ROUNDS = 2000, TEAM = 3 };

struct team_mate {
    struct meeting *meeting;
    int number, looks;
    int *counts; /* [TEAM] */
    bool late;   /* some mate was not where it had to be */
};

static void *meet_again_and_again(void *user)
{
    struct team_mate *m = user;

    for (int i = 0; i < ROUNDS; i++) {
        m->counts[m->number]++;
        meeting_wait(m->meeting, TEAM, m->looks);
        for (int k = 0; k < TEAM; k++) {
            m->late = m->late || m->counts[k] != i + 1;
        }
        meeting_wait(m->meeting, TEAM, m->looks);
    }
    return NULL;
}

/* With more threads than cores, and whether they sleep at once or look for long. */
static void nobody_passes_a_meeting_alone(void **state)
{
    static const int looks[] = { 0, 16, 1000 };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct meeting meeting = { 0 };
        int counts[TEAM] = { 0 };
        struct team_mate mates[TEAM];
        pthread_t threads[TEAM];

        for (int k = 0; k < TEAM; k++) {
            mates[k] = (struct team_mate){ &meeting, k, looks[i], counts, false };
            assert_int_equal(pthread_create(&threads[k], NULL, meet_again_and_again, &mates[k]), 0);
        }
        for (int k = 0; k < TEAM; k++) {
            pthread_join(threads[k], NULL);
            assert_false(mates[k].late);
        }
    }
    unsetenv("OMP_WAIT_POLICY");
    assert_true(meeting_looks(cores_allowed() + 1) < meeting_looks(1));
    setenv("OMP_WAIT_POLICY", "PASSIVE", 1);
    assert_true(meeting_looks(1) == meeting_looks(cores_allowed() + 1));
    unsetenv("OMP_WAIT_POLICY");
}

static void tiny_numbers_are_zero_only_where_that_is_asked(void **state)
{
    volatile float least = 1e-38f, product;
    unsigned before;

    (void)state;
    product = least * 0.1f;
    assert_true(product > 0);
    before = thread_tiny_off();
    product = least * 0.1f;
    thread_tiny_restore(before);
#if defined(__x86_64__)
    assert_true(product == 0);
#endif
    product = least * 0.1f;
    assert_true(product > 0);
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
        cmocka_unit_test(ranks_of_a_machine_do_not_meet_on_a_core),
        cmocka_unit_test(nobody_passes_a_meeting_alone),
        cmocka_unit_test(tiny_numbers_are_zero_only_where_that_is_asked),
        cmocka_unit_test(threads_are_as_many_as_asked),
        cmocka_unit_test(cores_are_named_in_ranges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
