#include "base/threads.h"

#include <sched.h>
#include <stdlib.h>

enum { THREADS_MOST = 4096 };

static int number_of(const char *variable)
{
    const char *text = getenv(variable);
    long n = text == NULL ? 0 : strtol(text, NULL, 10);

    return n < 1 ? 0 : n > THREADS_MOST ? THREADS_MOST : (int)n;
}

int ranks_here(void)
{
    int ranks = number_of("OMPI_COMM_WORLD_LOCAL_SIZE");

    return ranks > 0 ? ranks : 1;
}

int threads_default(int asked)
{
    int cores = 1;
    cpu_set_t set;

    if (asked > 0) {
        return asked < THREADS_MOST ? asked : THREADS_MOST;
    }
    if (number_of("OMP_NUM_THREADS") > 0) {
        return number_of("OMP_NUM_THREADS");
    }
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        cores = CPU_COUNT(&set) / ranks_here();
    }
    return cores < 1 ? 1 : cores;
}
