#include "base/threads.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

/* This rank's number among them. */
static int rank_here(void)
{
    const char *text = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    long n = text == NULL ? 0 : strtol(text, NULL, 10);

    return n > 0 && n < ranks_here() ? (int)n : 0;
}

/* Whether the launcher gave each rank cores of its own. */
static bool ranks_bound(void)
{
    return number_of("OMPI_MCA_orte_bound_at_launch") > 0;
}

/* What the process was given, before threads were pinned. */
static const cpu_set_t *allowed(void)
{
    static cpu_set_t set;
    static bool known;

    if (!known) {
        if (sched_getaffinity(0, sizeof set, &set) != 0) {
            CPU_ZERO(&set);
        }
        known = true;
    }
    return &set;
}

int cores_allowed(void)
{
    int cores = CPU_COUNT(allowed());

    return cores < 1 ? 1 : cores;
}

int cores_of_machine(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    return cores < 1 ? 1 : cores > THREADS_MOST ? THREADS_MOST : (int)cores;
}

int threads_default(int asked)
{
    int cores = ranks_bound() ? cores_allowed() : cores_allowed() / ranks_here();

    if (asked > 0) {
        return asked < THREADS_MOST ? asked : THREADS_MOST;
    }
    if (number_of("OMP_NUM_THREADS") > 0) {
        return number_of("OMP_NUM_THREADS");
    }
    return cores < 1 ? 1 : cores;
}

/* ---- pinning ---- */

static bool user_decides(void)
{
    static const char *const names[] = { "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (getenv(names[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* The first of this rank's cores among those allowed; -1 where they do not suffice. */
static int first_core(int threads)
{
    int cores = cores_allowed();

    if (threads <= cores / ranks_here()) {
        return rank_here() * threads; /* also right where all of them may use all cores */
    }
    return threads <= cores && (ranks_bound() || ranks_here() == 1) ? 0 : -1;
}

bool threads_pinned(int threads)
{
    return !user_decides() && first_core(threads) >= 0;
}

bool threads_take_turns(int threads)
{
    return first_core(threads) < 0;
}

/* The core with that number among those allowed. */
static int core_at(int index)
{
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, allowed()) && index-- == 0) {
            return core;
        }
    }
    return -1;
}

void thread_pin(int thread, int threads)
{
    int core = core_at(first_core(threads) + thread);
    cpu_set_t one;

    if (core < 0) {
        return;
    }
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    (void)!sched_setaffinity(0, sizeof one, &one);
}

void thread_unpin(void)
{
    (void)!sched_setaffinity(0, sizeof *allowed(), allowed());
}

char *cores_text(char out[128], int threads)
{
    bool pinned = threads_pinned(threads);
    int from = pinned ? first_core(threads) : 0, at = 0;
    int to = pinned ? from + threads : CPU_COUNT(allowed());

    out[0] = 0;
    for (int i = from; i < to && at < 100;) {
        int first = core_at(i), last = first;

        while (++i < to && core_at(i) == last + 1) {
            last++;
        }
        at += snprintf(out + at, (size_t)(128 - at), first == last ? "%s%d" : "%s%d-%d",
                       at == 0 ? "" : ",", first, last);
    }
    return out;
}
