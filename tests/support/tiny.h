/*
 * Tiny llamas for tests of whole programs: a spec, a mesh (real or imagined), learn with its
 * gradient, rows from a seed.
 */
#ifndef ROUX_TESTS_SUPPORT_TINY_H
#define ROUX_TESTS_SUPPORT_TINY_H

#include "base/philox.h"
#include "model/model.h"
#include "program/device.h"
#include "support/expect.h"

struct tiny {
    struct arena arena;
    struct mesh mesh;
    struct model_spec spec;
    struct model model;
    struct program p;
    struct model_inputs in;
    struct residents residents;
    struct memory_plan plan;
    struct device d;
    const struct kernels *kernels;
    val loss;
    int64_t B, S;
};

struct tiny_options {
    enum dtype real;
    int64_t B, S, layers;
    int size[AXIS_COUNT]; /* zeros mean 1 */
    unsigned flags;       /* of the model, besides MODEL_TRAINS */
    int threads;
    bool tied, biases;
    int64_t window;
};

/* The model and its forward pass; the backward pass and the plan come with tiny_finish. */
static inline void tiny_write(struct tiny *t, const struct tiny_options *o)
{
    int size[AXIS_COUNT];

    *t = (struct tiny){ .B = o->B, .S = o->S };
    for (int a = 0; a < AXIS_COUNT; a++) {
        size[a] = o->size[a] == 0 ? 1 : o->size[a];
    }
    EXPECT_OK(mesh_imagine(&t->mesh, 0, size));
    spec_default(&t->spec, family_find("llama"));
    t->spec.vocab = 37;
    t->spec.width = 24;
    t->spec.ffn = 40;
    t->spec.layers = o->layers;
    t->spec.heads = 4;
    t->spec.groups = 2;
    t->spec.head_dim = 8;
    t->spec.max_positions = o->S;
    t->spec.init_std = 0.3;
    t->spec.tied = o->tied;
    t->spec.attention_bias = t->spec.mlp_bias = o->biases;
    t->spec.window = o->window;
    EXPECT_OK(spec_finish(&t->spec, "tiny"));
    EXPECT_OK(kernels_find(o->real, &t->kernels));
    EXPECT_OK(model_make(&t->model, &t->arena, &t->spec, &t->mesh));
    program_init(&t->p, "learn", &t->arena, &t->mesh, o->real);
    t->in = model_inputs(&t->p, o->B, o->S);
    t->loss = model_loss(&t->p, &t->model, &t->in, o->flags | MODEL_TRAINS);
    program_keep(&t->p, t->loss);
    residents_init(&t->residents, &t->arena);
}

static inline status tiny_plan(struct tiny *t, int threads)
{
    TRY(program_backward(&t->p, t->loss));
    return program_plan(&t->p, &t->residents, t->kernels, threads, &t->plan);
}

static inline void tiny_open(struct tiny *t, const struct tiny_options *o)
{
    int threads = o->threads == 0 ? 2 : o->threads;

    tiny_write(t, o);
    EXPECT_OK(tiny_plan(t, threads));
    EXPECT_OK(device_open(&t->d, t->kernels, &t->mesh, threads, &t->residents));
    weights_init(t->model.weights, &t->d, &t->p, 11);
}

static inline void tiny_close(struct tiny *t)
{
    device_close(&t->d);
    residents_release(&t->residents);
    arena_release(&t->arena);
}

/* Row `row` of an endless set goes to slot `slot`: every third row has two documents, every
 * fourth is padded, every fifth has no target. */
static inline void tiny_row(struct tiny *t, int64_t slot, int64_t row)
{
    struct philox_stream s = philox_stream_make(5, "tiny rows");
    int64_t length = row % 4 == 3 ? t->S * 2 / 3 : t->S, cut = row % 3 == 2 ? t->S / 2 : 0;

    for (int64_t i = 0; i < t->S; i++) {
        int64_t at = slot * t->S + i;
        uint64_t index = (uint64_t)(row * t->S + i);
        int32_t id = i < length ? (int32_t)philox_below(&s, index, t->spec.vocab) : 0;
        int32_t next = i + 1 < length ? (int32_t)philox_below(&s, index + 1, t->spec.vocab) : -1;
        int32_t start = (int32_t)(i >= cut ? cut : 0), position = (int32_t)i - start;

        next = i + 1 == cut || row % 5 == 4 ? -1 : next;
        device_write(&t->d, &t->p, t->in.ids, at, 1, &id);
        device_write(&t->d, &t->p, t->in.targets, at, 1, &next);
        device_write(&t->d, &t->p, t->in.starts, at, 1, &start);
        device_write(&t->d, &t->p, t->in.positions, at, 1, &position);
    }
}

static inline void tiny_zero_gradients(struct tiny *t)
{
    for (int i = 1; i < t->p.value_count; i++) {
        if (t->p.values[i].role == ROLE_GRAD) {
            device_fill_zero(&t->d, &t->p, (val){ i });
        }
    }
}

/* Runs learn on rows first, first + 1, ... */
static inline void tiny_run(struct tiny *t, int64_t first)
{
    for (int64_t i = 0; i < t->B; i++) {
        tiny_row(t, i, first + i);
    }
    tiny_zero_gradients(t);
    EXPECT_OK(program_run(&t->p, &t->d, NULL));
}

static inline double tiny_loss(const struct tiny *t)
{
    double sum = 0, one;

    for (int64_t i = 0; i < t->B; i++) {
        device_read(&t->d, &t->p, t->loss, i, 1, &one);
        sum += one;
    }
    return sum;
}

/* Bytes of the gradient of a segment's flat buffer. */
static inline void *tiny_gradient(const struct tiny *t, int segment, int64_t *count)
{
    const struct weight_segment *g = &t->model.weights->segments[segment];
    char name[64];
    void *bytes;

    snprintf(name, sizeof name, "grad.weight.%s", g->name);
    *count = g->shard_blocks * WEIGHT_BLOCK;
    bytes = calloc((size_t)*count, sizeof(double));
    device_read(&t->d, &t->p, program_find(&t->p, name), 0, *count, bytes);
    return bytes;
}

/* Losses and all gradients of two runs are the same bits. */
static inline void tiny_expect_same(const struct tiny *a, const struct tiny *b)
{
    size_t width = dtype_bytes(a->p.real);

    for (int64_t i = 0; i < a->B && i < b->B; i++) {
        double x, y;

        device_read(&a->d, &a->p, a->loss, i, 1, &x);
        device_read(&b->d, &b->p, b->loss, i, 1, &y);
        assert_memory_equal(&x, &y, sizeof x);
    }
    for (int i = 0; i < a->model.weights->count; i++) {
        int64_t m, n;
        void *x = tiny_gradient(a, i, &m), *y = tiny_gradient(b, i, &n);

        assert_int_equal(m, n);
        assert_memory_equal(x, y, (size_t)n * width);
        free(x);
        free(y);
    }
}

#endif
