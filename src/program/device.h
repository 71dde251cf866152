/*
 * Where programs run: one arena for all values, a team of threads, a kernel family, a mesh.
 *
 * Nothing outside kernels dereferences a value's bytes: the host writes inputs and reads results
 * through device_write and device_read, so that a device with its own memory changes nothing above.
 */
#ifndef ROUX_PROGRAM_DEVICE_H
#define ROUX_PROGRAM_DEVICE_H

#include "program/program.h"

/* What the kernel says is left of this machine's memory without pushing anything out, and of what
 * this process' control groups may take: the least of them; -1 if it says nothing. */
int64_t device_memory_left(void);

/* Whether the system gives huge pages to whoever asks for them. */
bool device_has_huge_pages(void);

struct device {
    const struct kernels *kernels;
    const struct mesh *mesh;
    int threads, looks; /* of a thread that waits: base/threads.h */
    uint8_t *memory;
    int64_t state_bytes, bytes;
};

/*
 * Maps the arena that `r` asks for (its state part, then the largest temporary part), zeroed, on
 * huge pages where the system has them, touched in parallel by the threads that will use it, which
 * stay on the cores they have then (base/threads.h).
 * ERR_MEMORY, before anything is touched, if this machine has not that much left; the text says how
 * much is asked and how much there is.
 */
MUST_USE status device_open(struct device *d, const struct kernels *kernels,
                            const struct mesh *mesh, int threads, const struct residents *r);
void device_close(struct device *d);

/* Copies `count` elements from element `from` on. The value must belong to a planned program of
 * this device. */
void device_write(struct device *d, const struct program *p, val v, int64_t from, int64_t count,
                  const void *bytes);
void device_read(const struct device *d, const struct program *p, val v, int64_t from,
                 int64_t count, void *bytes);
void device_fill_zero(struct device *d, const struct program *p, val v);

/* For writers and readers of state that must not copy (checkpoints go straight from the arena).
 * Borrowed. */
void *device_bytes(const struct device *d, const struct program *p, val v);

/* What a run is asked to watch for. A zeroed struct asks for nothing. */
struct run_options {
    bool test_finite;       /* after each node look for NaN and infinity in what it wrote */
    const char **bad_value; /* out: path of the first value with one; NULL if none */
    int until;              /* only this many nodes; 0: all */
    struct watch *watch;    /* adds the times of its nodes: program/watch.h */
};

/*
 * Runs all nodes in order. With a mesh longer than 1 this is collective over its world. ERR_PEER or
 * ERR_IO from messages; everything else was settled by the plan.
 */
MUST_USE status program_run(const struct program *p, struct device *d,
                            const struct run_options *options);

/* Runs one node with the whole team, for measuring; its inputs hold what earlier nodes left there.
 * Nodes run one after another in order are program_run. Errors as there. */
MUST_USE status program_run_node(const struct program *p, struct device *d, int node);

#endif
