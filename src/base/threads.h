/* How many compute threads a process should have. */
#ifndef ROUX_BASE_THREADS_H
#define ROUX_BASE_THREADS_H

/* `asked`; if that is 0 OMP_NUM_THREADS; else the cores that this process may use, shared among
 * the ranks of this machine. At least 1, at most 4,096. */
int threads_default(int asked);

/* The job's ranks on this machine, as the launcher says; at least 1. */
int ranks_here(void);

#endif
