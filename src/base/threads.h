/* How many compute threads a process should have, and on which cores they stay. */
#ifndef ROUX_BASE_THREADS_H
#define ROUX_BASE_THREADS_H

#include <stdbool.h>

/* `asked`; if that is 0 OMP_NUM_THREADS; else the cores that this process may use, shared among
 * the ranks of this machine. At least 1, at most 4,096. */
int threads_default(int asked);

/* The job's ranks on this machine, as the launcher says; at least 1. */
int ranks_here(void);

/* Cores that this process may use, and those of the machine; at least 1. The first is what it was
 * when it was first asked for, before any pinning. */
int cores_allowed(void);
int cores_of_machine(void);

/*
 * Whether a team of this size gets a core for each thread: not where the user has said otherwise
 * (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY), where there are fewer cores than threads, or
 * where several ranks share the same cores.
 */
bool threads_pinned(int threads);

/* Keeps the calling thread, number `thread` of such a team, on a core of its own. */
void thread_pin(int thread);
/* Lets the calling thread run on all cores that the process may use. */
void thread_unpin(void);

/* "0-3,6": the cores of a pinned team, or all that are allowed. `out` of 128 bytes. */
char *cores_text(char out[128], int threads);

#endif
