/*
 * A small model laid out as the trainer does it, for any place on any mesh: per kind one flat
 * buffer, every part at a multiple of 1,024 elements, shard s owning an equal number of such
 * blocks. Each element's bits are a function of kind, tensor and its index in the whole tensor, so
 * that a load can be checked without knowing how the save was laid out.
 */
#ifndef ROUX_TESTS_CHECKPOINT_CONTENT_H
#define ROUX_TESTS_CHECKPOINT_CONTENT_H

#include "comm/ranks.h"
#include "checkpoint/checkpoint.h"

enum { PART = 1024, TENSORS = 5, KINDS = 4 };

struct whole {
    const char *name;
    int rank;
    int64_t shape[4];
    int split; /* dimension that the tensor axis splits, or -1 */
};

static const struct whole wholes[TENSORS] = {
    { "model.embed_tokens.weight", 2, { 96, 40 }, 0 },
    { "model.layers.0.self_attn.q_proj.weight", 2, { 40, 36 }, 0 },
    { "model.layers.0.mlp.down_proj.weight", 2, { 24, 64 }, 1 },
    { "model.norm.weight", 1, { 37 }, -1 },
    { "scale", 0, { 0 }, -1 },
};

static const struct {
    const char *buffer, *kind;
    enum dtype dtype;
} kinds[KINDS] = {
    { "root.weight", "weight", DT_F32 },
    { "root.moment1", "moment1", DT_F32 },
    { "root.moment2", "moment2", DT_F64 },
    { "frozen.weight", "frozen", DT_BF16 },
};

struct model {
    struct arena arena;
    struct checkpoint_content content;
    uint64_t salt;
};

static inline uint64_t bits_at(uint64_t salt, int kind, int tensor, int64_t index)
{
    uint64_t x =
        salt * 1000003 + ((uint64_t)kind << 56) + ((uint64_t)tensor << 48) + (uint64_t)index + 1;

    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return (x ^ x >> 32) | 1;
}

static inline int64_t rectangle_volume(const struct slice *s)
{
    int64_t volume = 1;

    for (int d = 0; d < s->rank; d++) {
        volume *= s->to[d] - s->from[d];
    }
    return volume;
}

/* The index in the whole tensor of element e of the rectangle. */
static inline int64_t whole_index(const struct slice *s, int64_t e)
{
    int64_t index = 0, place[4];

    for (int d = s->rank - 1; d >= 0; d--) {
        int64_t extent = s->to[d] - s->from[d];

        place[d] = s->from[d] + e % extent;
        e /= extent;
    }
    for (int d = 0; d < s->rank; d++) {
        index = index * s->shape[d] + place[d];
    }
    return index;
}

static inline struct slice rectangle_of(const struct mesh *m, int kind, int tensor)
{
    const struct whole *w = &wholes[tensor];
    struct slice s = { .tensor = w->name, .kind = kinds[kind].kind, .rank = w->rank };

    for (int d = 0; d < w->rank; d++) {
        bool split = d == w->split;

        s.shape[d] = w->shape[d];
        s.from[d] = split ? w->shape[d] * m->at[AXIS_TP] / m->size[AXIS_TP] : 0;
        s.to[d] = split ? w->shape[d] * (m->at[AXIS_TP] + 1) / m->size[AXIS_TP] : w->shape[d];
    }
    return s;
}

static inline void buffer_make(struct model *model, const struct mesh *m, int kind,
                               struct checkpoint_buffer *b)
{
    int64_t shards = mesh_length(m, AXES_SHARD), shard = mesh_index(m, AXES_SHARD);
    int64_t start = 0, blocks = 0, each, begin, end;
    struct slice *slices = arena_take_array(&model->arena, TENSORS, sizeof *slices);
    int count = 0;

    for (int t = 0; t < TENSORS; t++) {
        struct slice s = rectangle_of(m, kind, t);

        blocks += (rectangle_volume(&s) + PART - 1) / PART;
    }
    each = (blocks + shards - 1) / shards;
    begin = each * shard < blocks ? each * shard : blocks;
    end = begin + each < blocks ? begin + each : blocks;
    begin *= PART;
    end *= PART;
    for (int t = 0; t < TENSORS; t++) {
        struct slice s = rectangle_of(m, kind, t);
        int64_t volume = rectangle_volume(&s);
        int64_t from = start > begin ? start : begin;
        int64_t until = start + volume < end ? start + volume : end;

        if (from < until) {
            s.first = from - start;
            s.count = until - from;
            s.at = from - begin;
            slices[count++] = s;
        }
        start += (volume + PART - 1) / PART * PART;
    }
    *b = (struct checkpoint_buffer){ .name = kinds[kind].buffer,
                                     .dtype = kinds[kind].dtype,
                                     .count = end - begin,
                                     .slices = slices,
                                     .slice_count = count };
    b->bytes = arena_take_array(&model->arena, (size_t)b->count, dtype_bytes(b->dtype));
}

static inline int kind_find(const char *kind)
{
    int k = 0;

    while (strcmp(kinds[k].kind, kind) != 0) {
        k++;
    }
    return k;
}

static inline int tensor_find(const char *name)
{
    int t = 0;

    while (strcmp(wholes[t].name, name) != 0) {
        t++;
    }
    return t;
}

static inline void buffer_fill(struct model *model, struct checkpoint_buffer *b)
{
    size_t width = dtype_bytes(b->dtype);

    for (int i = 0; i < b->slice_count; i++) {
        const struct slice *s = &b->slices[i];

        for (int64_t e = 0; e < s->count; e++) {
            uint64_t bits = bits_at(model->salt, kind_find(s->kind), tensor_find(s->tensor),
                                    whole_index(s, s->first + e));

            memcpy((char *)b->bytes + (size_t)(s->at + e) * width, &bits, width);
        }
    }
}

/* The buffers of this place on the mesh: filled, or (for loads) full of rubbish. */
static inline void model_make(struct model *model, const struct mesh *m, int64_t step, bool filled)
{
    *model = (struct model){ .salt = (uint64_t)step };
    model->content = (struct checkpoint_content){ .step = step,
                                                  .family = "cpu-avx512",
                                                  .recipe = "model:\n  \"width\": 40 # \xc3\xa4\n",
                                                  .state = "{\"rows\":[1,2,3],\"scale\":0.1}",
                                                  .buffer_count = KINDS };
    model->content.buffers = arena_take_array(&model->arena, KINDS, sizeof *model->content.buffers);
    for (int k = 0; k < KINDS; k++) {
        struct checkpoint_buffer *b = &model->content.buffers[k];

        buffer_make(model, m, k, b);
        if (filled) {
            buffer_fill(model, b);
        } else {
            memset(b->bytes, 0xa5, (size_t)b->count * dtype_bytes(b->dtype));
        }
    }
}

static inline void model_release(struct model *model)
{
    arena_release(&model->arena);
}

/* The buffers are, bit for bit, those of a filled model of that step at this place; padding is
 * zero. */
static inline void model_check(const struct model *model, const struct mesh *m, int64_t step)
{
    struct model expected;

    model_make(&expected, m, step, true);
    for (int k = 0; k < KINDS; k++) {
        const struct checkpoint_buffer *b = &model->content.buffers[k];
        size_t bytes = (size_t)b->count * dtype_bytes(b->dtype);

        assert_int_equal(b->count, expected.content.buffers[k].count);
        assert_int_equal(bytes > 0 ? memcmp(b->bytes, expected.content.buffers[k].bytes, bytes) : 0,
                         0);
    }
    model_release(&expected);
}

#endif
