/* The grid: small models whose nodes, run in the order of a step, stand for those of others. */
#include <omp.h>

#include "base/clock.h"
#include "base/threads.h"
#include "program/device.h"
#include "tensor/peak.h"
#include "train/bench.h"

/* Widths, rows, head widths and vocabularies of what is trained on machines like these; two layers
 * of each, so that weights of one are not still in the caches of the other. */
static const struct bench_shape grid[] = {
    { 64, 176, 2, 2, 256, 2, 64, 4 },      { 128, 384, 4, 2, 256, 2, 256, 8 },
    { 256, 688, 4, 4, 8192, 2, 256, 4 },   { 320, 896, 5, 5, 32768, 2, 256, 4 },
    { 512, 1408, 8, 4, 16384, 2, 512, 2 }, { 640, 1728, 10, 5, 32768, 2, 512, 2 },
    { 1024, 2816, 8, 2, 8192, 2, 512, 1 }, { 768, 2048, 12, 4, 4096, 1, 1024, 2 },
    { 512, 1536, 8, 8, 1024, 1, 2048, 1 },
};

enum { GRID = sizeof grid / sizeof grid[0], GRID_QUICK = 2 };

static double seconds_of_barrier(int threads)
{
    enum { TIMES = 2000 };
    double start = clock_seconds();

#pragma omp parallel num_threads(threads)
    for (int i = 0; i < TIMES; i++) {
#pragma omp barrier
    }
    return (clock_seconds() - start) / TIMES;
}

static status measure_machine(struct calibration *out, const struct kernels *k, int threads,
                              bool quick)
{
    double streams[STREAM_KINDS];
    int64_t bytes = quick ? 16 << 20 : 256 << 20, left = device_memory_left();

    if (left >= 0 && bytes > left / 8) {
        bytes = left / 8;
    }
    out->peak = peak_rate_of(k, threads, quick ? 5 : 50);
    TRY(peak_streams(bytes, threads, quick ? 2 : 4, streams));
    for (int i = 0; i < STREAM_KINDS; i++) {
        out->memory = streams[i] > out->memory ? streams[i] : out->memory;
    }
    out->barrier_seconds = seconds_of_barrier(threads);
    return OK;
}

/* About a second and a half of each, but two rounds at least; the whole stays below half a minute on
 * machines of a few cores. */
static int rounds_of(double step_seconds, double start, bool quick)
{
    double rounds = 1.5 / step_seconds;

    return quick || clock_seconds() - start > 20 || rounds < 2 ? 2 : rounds > 9 ? 9 : (int)rounds;
}

static status add_ops(struct calibration *out, const struct train_spec *spec, double start,
                      bool quick)
{
    struct arena a = { 0 };
    struct bench b = { 0 };
    struct bench_op *ops;
    int count;
    double seconds;
    status s;

    TRY_OR(close, s, bench_open(&b, spec));
    TRY_OR(close, s, bench_step(&b, &seconds));
    TRY_OR(close, s, bench_ops(&b, &a, rounds_of(seconds, start, quick), &ops, &count));
    for (int i = 0; i < count; i++) {
        struct calibration_point p = { .op = ops[i].op, .seconds = ops[i].seconds };

        p.work = ops[i].work.flops > 0 ? ops[i].work.flops : ops[i].work.bytes;
        for (int k = 0; k < 3; k++) {
            p.size[k] = ops[i].work.size[k];
        }
        calibration_add(out, &p);
    }
close:
    bench_close(&b);
    arena_release(&a);
    return s;
}

status calibrate(struct calibration *out, struct arena *a, enum dtype real,
                 const struct train_spec *const *specs, int spec_count, bool quick)
{
    int asked = spec_count > 0 ? specs[0]->threads : 0, threads = threads_default(asked);
    double start = clock_seconds();
    const struct kernels *kernels;

    TRY(kernels_find(real, &kernels));
    calibration_init(out, a);
    calibration_key_here(&out->key, kernels, threads);
    TRY(measure_machine(out, kernels, threads, quick));
    for (int i = 0; i < (quick ? GRID_QUICK : GRID); i++) {
        struct train_spec spec;

        TRY(bench_spec(&spec, &grid[i], real));
        spec.threads = asked;
        TRY(add_ops(out, &spec, start, quick));
    }
    for (int i = 0; i < spec_count; i++) {
        TRY(add_ops(out, specs[i], start, quick));
    }
    return OK;
}
