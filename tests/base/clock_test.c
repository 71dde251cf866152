#include <time.h>
#include "base/clock.h"
#include "support/expect.h"

static void the_monotonic_clock_goes_forward(void **state)
{
    double start = clock_seconds(), now = start;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        double next = clock_seconds();

        assert_true(next >= now);
        now = next;
    }
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    now = clock_seconds();
    assert_true(now - start >= 0.0199 && now - start < 60);
}

static void the_wall_clock_is_the_system_s(void **state)
{
    double now = clock_wall_seconds(), system = (double)time(NULL);

    (void)state;
    assert_true(now > system - 5 && now < system + 5);
}

static void a_stamp_is_the_local_time(void **state)
{
    char out[32];
    struct tm read = { .tm_isdst = -1 };
    double stamped;

    (void)state;
    assert_int_equal(strlen(clock_stamp(out)), 19);
    assert_ptr_equal(strptime(out, "%Y-%m-%d_%H-%M-%S", &read), out + 19);
    stamped = (double)mktime(&read);
    assert_true(stamped > clock_wall_seconds() - 5 && stamped < clock_wall_seconds() + 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_monotonic_clock_goes_forward),
        cmocka_unit_test(the_wall_clock_is_the_system_s),
        cmocka_unit_test(a_stamp_is_the_local_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
