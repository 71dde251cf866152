/* A program of a few nodes on one rank: flat weights, inputs, a device, and runs with values
 * from a seed. */
#ifndef ROUX_TESTS_PROGRAM_BENCH_H
#define ROUX_TESTS_PROGRAM_BENCH_H

#include "base/philox.h"
#include "program/device.h"
#include "support/expect.h"

struct bench {
    struct arena arena;
    struct mesh mesh;
    struct program p;
    struct residents residents;
    struct device d;
    const struct kernels *kernels;
    int threads;
    val flat; /* all weights of the bench, one after another */
    int64_t used;
};

enum { BENCH_FLAT = 16384 };

static inline void bench_open(struct bench *b, enum dtype real, int threads)
{
    static const int one[AXIS_COUNT] = { 1, 1, 1, 1, 1 };

    *b = (struct bench){ .threads = threads };
    EXPECT_OK(mesh_imagine(&b->mesh, 0, one));
    EXPECT_OK(kernels_find(real, &b->kernels));
    program_init(&b->p, "bench", &b->arena, &b->mesh, real);
    residents_init(&b->residents, &b->arena);
    b->flat =
        program_weight(&b->p, "flat", real, shape_1(BENCH_FLAT), (struct place){ { 0 } }, true);
}

/* The next weight of the bench. */
static inline val bench_weight(struct bench *b, const char *name, struct shape s)
{
    val v = op_view(&b->p, name, b->flat, b->used, s, WHOLE);

    b->used += shape_count(&s);
    assert_true(b->used <= BENCH_FLAT);
    return v;
}

static inline void bench_plan(struct bench *b)
{
    struct memory_plan plan;

    EXPECT_OK(program_plan(&b->p, &b->residents, b->kernels, b->threads, &plan));
    EXPECT_OK(device_open(&b->d, b->kernels, &b->mesh, b->threads, &b->residents));
}

static inline void bench_close(struct bench *b)
{
    device_close(&b->d);
    residents_release(&b->residents);
    arena_release(&b->arena);
}

static inline void bench_random(struct bench *b, val v, const char *stream, double scale,
                                int64_t count)
{
    struct philox_stream s = philox_stream_make(7, stream);

    for (int64_t i = 0; i < count; i++) {
        double x = scale * philox_normal(&s, (uint64_t)i);
        float narrow = (float)x;

        device_write(&b->d, &b->p, v, i, 1, b->p.real == DT_F64 ? (void *)&x : (void *)&narrow);
    }
}

static inline double bench_read(const struct bench *b, val v, int64_t i)
{
    double x;
    float narrow;

    if (program_value(&b->p, v)->dtype == DT_F64) {
        device_read(&b->d, &b->p, v, i, 1, &x);
        return x;
    }
    device_read(&b->d, &b->p, v, i, 1, &narrow);
    return (double)narrow;
}

#endif
