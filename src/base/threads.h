/* How many compute threads a process should have, and on which cores they stay. */
#ifndef ROUX_BASE_THREADS_H
#define ROUX_BASE_THREADS_H

#include <stdbool.h>
#include <stdint.h>

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
 * (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY), nor where there are fewer cores than threads,
 * counting the ranks that share them. A launcher that binds gives each rank cores of its own; where
 * it does not, ranks take theirs by their number on the machine.
 */
bool threads_pinned(int threads);
/* Whether there are fewer cores than threads: who waits should sleep then. */
bool threads_take_turns(int threads);

/* Keeps the calling thread, number `thread` of such a team, on a core of its own. */
void thread_pin(int thread, int threads);
/* Lets the calling thread run on all cores that the process may use. */
void thread_unpin(void);

/* ---- waiting for each other ---- */

/* Where the threads of a team meet again and again. A zeroed struct is ready. */
struct meeting {
    _Atomic uint32_t here, turn, asleep;
};

/* Returns when all `threads` of the team have called it. What each wrote before, all see after.
 * Whoever waits looks `looks` times before it sleeps. */
void meeting_wait(struct meeting *m, int threads, int looks);
/* Enough looks where each has a core; few where threads take turns or OMP_WAIT_POLICY is passive.
 */
int meeting_looks(int threads);

/* ---- tiny numbers ---- */

/*
 * From now on the calling thread takes float numbers below the normal range for zero, and makes
 * zeros of them: they cost a hundred cycles each and mean nothing in sums of floats. Returns how it
 * was before, for thread_tiny_restore. Where the processor has no such switch nothing changes.
 */
unsigned thread_tiny_off(void);
void thread_tiny_restore(unsigned before);

/* "0-3,6": the cores of a pinned team, or all that are allowed. `out` of 128 bytes. */
char *cores_text(char out[128], int threads);

#endif
