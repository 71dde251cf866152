/* Inside the room. */
#ifndef ROUX_INFER_THREADS_H
#define ROUX_INFER_THREADS_H

/* `asked`, else OMP_NUM_THREADS, else the cores of this process shared among the ranks of this machine. */
int infer_threads(int asked);

#endif
