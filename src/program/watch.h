/*
 * Looking inside a run: how long each node takes, what each thread does when, which nodes and
 * values there are by that name, and what a value holds.
 *
 *   watch_open(&w, threads, true)        once, before the first run; takes all its memory
 *   watch_program(&w, &learn)            each program that shall be watched
 *   program_run(..., { .watch = &w })    adds the times of one run
 *   watch_forget(&w)                     what came before was warming up
 *   watch_table(&w, runs, stderr)        by op; or watch_trace(&w, file, rank)
 *   watch_close(&w)
 */
#ifndef ROUX_PROGRAM_WATCH_H
#define ROUX_PROGRAM_WATCH_H

#include <stdint.h>
#include <stdio.h>
#include "program/device.h"

enum { WATCH_PROGRAMS = 8 };

/* One thread at one node. */
struct watch_event {
    int16_t program;
    int32_t node;
    double begin, end; /* clock_seconds */
};

struct watch_thread {
    struct watch_event
        *events; /* [room]; the first `count` are filled, later ones are counted only */
    int64_t count, lost;
};

struct watch {
    const struct program *programs[WATCH_PROGRAMS];
    double *seconds[WATCH_PROGRAMS]; /* [node_count] of thread 0, waiting for the others included */
    int64_t runs[WATCH_PROGRAMS];
    int program_count;
    struct watch_thread *threads;
    int thread_count;
    int64_t room; /* events a thread; 0: no trace */
    double start;
};

/* `room`: events kept a thread, 24 bytes each; 0 keeps none, only sums. */
void watch_open(struct watch *w, int threads, int64_t room);
void watch_close(struct watch *w);
/* The program is planned and outlives the watch. At most WATCH_PROGRAMS. */
void watch_program(struct watch *w, const struct program *p);
/* Sums begin anew; the trace goes on. */
void watch_forget(struct watch *w);

/* Op, calls, total and mean ms, share of all, GFLOP/s of ops that have flops; largest first, then
 * the sum. Divided by `steps`, the runs of all programs together that make one step. */
void watch_table(const struct watch *w, int64_t steps, FILE *to);

/* Chrome's trace form (a JSON object with traceEvents, microseconds), for chrome://tracing and
 * Perfetto: a complete event a node and thread. ERR_IO. */
MUST_USE status watch_trace_try(const char *path); /* before the run: can it be written? */
MUST_USE status watch_trace(const struct watch *w, const char *path, int rank);

/* For the runner: the place of a program among the watched, -1 if it is not; then per thread and
 * node an event, and by thread 0 the time until the next node began. */
int watch_index(const struct watch *w, const struct program *p);
void watch_note(struct watch *w, int program, int node, int thread, double begin, double end);

/* ---- names ---- */

/* A node of a planned program by its index or by the name of its first output. ERR_RECIPE with the
 * nearest name. */
MUST_USE status program_find_node(const struct program *p, const char *text, int *node);
/* Any value by name; of several the last. ERR_RECIPE with the nearest name. */
MUST_USE status program_find_value(const struct program *p, const char *text, val *out);

/* ---- contents ---- */

struct value_summary {
    int64_t count, not_finite;     /* elements; how many of them are NaN or infinite */
    double least, most, mean, rms; /* of the finite ones */
};

/* Elements from..from+count as doubles; F32, F64, BF16, I32, I64 (ERR_UNSUPPORTED). */
MUST_USE status device_read_doubles(const struct device *d, const struct program *p, val v,
                                    int64_t from, int64_t count, double *out);
MUST_USE status device_summary(const struct device *d, const struct program *p, val v,
                               struct value_summary *out);

/* What `run` of a node changes: its outputs, then the inputs it adds to. At most OP_IN + OP_OUT. */
int program_node_writes(const struct program *p, int node, val *out);

#endif
