#include "base/clock.h"
#include <time.h>
#include "base/status.h"

static double seconds_of(clockid_t clock)
{
    struct timespec now;

    check(clock_gettime(clock, &now) == 0, "the system has no clock %d", (int)clock);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double clock_seconds(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

double clock_wall_seconds(void)
{
    return seconds_of(CLOCK_REALTIME);
}

char *clock_stamp(char out[32])
{
    time_t now = time(NULL);
    struct tm local;

    check(localtime_r(&now, &local) != NULL, "the wall clock is out of range");
    check(strftime(out, 32, "%Y-%m-%d_%H-%M-%S", &local) > 0, "the date does not fit");
    return out;
}
