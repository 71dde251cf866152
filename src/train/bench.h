/*
 * Measuring: the machine under a run, a whole step, and every op of it.
 *
 *   bench_open     the programs of a recipe on this machine alone, on rows made up from its seed
 *   bench_step     one optimizer step of them
 *   bench_ops      every node of the step by itself, equal ones together
 *   bench_disk, bench_messages     what checkpoints and ranks have
 *   calibrate      ops over a grid of sizes, for estimates (train/calibration.h)
 */
#ifndef ROUX_TRAIN_BENCH_H
#define ROUX_TRAIN_BENCH_H

#include "base/arena.h"
#include "comm/comm.h"
#include "train/calibration.h"
#include "train/train.h"

/* A llama of these sizes, with tied embeddings and batches of B sequences of S. */
struct bench_shape {
    int64_t width, ffn, heads, groups, vocab, layers, S, B;
};

/* As train_spec_make, without a recipe. ERR_RECIPE if the sizes do not fit together. */
MUST_USE status bench_spec(struct train_spec *out, const struct bench_shape *s, enum dtype real);

/* A zeroed struct is closed. The spec is borrowed. */
struct bench {
    const struct train_spec *spec;
    struct trainer *t;
};

/* ERR_RECIPE for a job of more than one rank; ERR_MEMORY. */
MUST_USE status bench_open(struct bench *b, const struct train_spec *spec);
void bench_close(struct bench *b);

MUST_USE status bench_step(struct bench *b, double *seconds);

const struct kernels *bench_kernels(const struct bench *b);
int bench_threads(const struct bench *b);
double bench_flops(const struct bench *b); /* of a step: products and attention, as they are run */

struct bench_op {
    enum op op;
    const char *shapes;
    int count; /* nodes of a step that do this */
    double
        seconds; /* of one of them: the mean, but for the slowest round, without starting the team */
    struct node_work work;
};

/* Runs all nodes of a step in order, `rounds` times, each timed by itself. Most time first. The list
 * lives in `a`. */
MUST_USE status bench_ops(struct bench *b, struct arena *a, int rounds, struct bench_op **out,
                          int *count);

/* Bytes a second, written and read back in pieces of 8 MiB past the system's cache (`direct`; not
 * where the file system refuses that), in a file of `bytes` below `folder` that has no name. */
struct bench_disk {
    bool direct;
    int64_t bytes;
    double write, read;
};
MUST_USE status bench_disk(const char *folder, int64_t bytes, struct bench_disk *out);

/* All-reduce and gather of `bytes` (floats) over the world: bytes of one member's buffer a second,
 * and the seconds of a message of 64 bytes. Collective. */
struct bench_messages {
    int64_t bytes;
    double all_reduce, gather, latency;
};
MUST_USE status bench_messages(struct comm *world, int64_t bytes, struct bench_messages *out);

/* Measures the machine and the grid, and the ops of `specs`, which are of one precision and one
 * number of threads; `quick`: the smallest sizes alone. */
MUST_USE status calibrate(struct calibration *out, struct arena *a, enum dtype real,
                          const struct train_spec *const *specs, int spec_count, bool quick);

/* Floating-point operations a token that training the model takes, whatever is recomputed: 6 for
 * each parameter that multiplies (embeddings only as the head), and attention's scores and values,
 * forward once and backward twice, over the keys that a position may see. */
double model_flops_token(const struct model_spec *s, int64_t S);

#endif
