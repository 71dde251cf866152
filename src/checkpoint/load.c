/*
 * Loading. Every wanted slice is looked up among the stored slices of the same rectangle of the
 * same tensor; their ranges of elements are intersected, which gives copies; copies are carried out
 * block by block, each verified first.
 *
 *   stored    |--- shard 0 ---|--- shard 1 ---|--- shard 2 ---|      elements of one rectangle, in row-major order
 *   wanted          |------ this rank ------|
 *   copies          |  from 0 |   from 1    |
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/map.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "checkpoint/table.h"

/* Bytes [from, from + bytes) of a stored buffer go to `to`. */
struct copy {
    uint64_t from, bytes;
    char *to;
    struct copy *next;
};

/* A stored slice, and the others of the same tensor and kind. */
struct piece {
    const struct slice *slice;
    const struct stored_buffer *buffer;
    struct copy **copies; /* of that buffer */
    struct piece *next;
};

struct source {
    struct table table;
    struct copy **copies; /* [buffer_count] */
};

struct load {
    const char *folder;
    const struct mesh *mesh;
    struct manifest manifest;
    struct source *sources; /* [count]: the shards of this rank's tensor and expert place */
    int count;
    struct map pieces; /* kind and tensor -> struct piece */
    char *block;       /* [DIGEST_BLOCK] */
    struct arena *arena;
};

static char *piece_key(struct arena *a, const struct slice *s)
{
    return arena_format(a, "%zu %s %s", strlen(s->kind), s->kind, s->tensor);
}

static void pieces_add(struct load *l, struct source *src)
{
    for (int i = 0; i < src->table.buffer_count; i++) {
        const struct stored_buffer *b = &src->table.buffers[i];

        for (int j = 0; j < b->slice_count; j++) {
            struct piece *p = arena_take(l->arena, sizeof *p);
            char *key = piece_key(l->arena, &b->slices[j]);
            void *first = NULL;

            map_find(&l->pieces, key, &first);
            *p = (struct piece){
                .slice = &b->slices[j], .buffer = b, .copies = &src->copies[i], .next = first
            };
            map_put(&l->pieces, key, p);
        }
    }
}

static status sources_read(struct load *l)
{
    const int *size = l->mesh->size;
    int column = layout_writer(l->mesh) / layout_shards(size);

    l->count = layout_shards(l->manifest.size);
    l->sources = arena_take_array(l->arena, (size_t)l->count, sizeof *l->sources);
    for (int i = 0; i < l->count; i++) {
        int writer = column * l->count + i;
        struct cell cell = layout_cell(l->manifest.size, writer);
        struct source *src = &l->sources[i];

        TRY(table_read(&src->table, l->arena,
                       path_join(l->arena, l->folder, layout_table(l->arena, cell)),
                       &l->manifest.tables[writer], layout_state(l->arena, cell)));
        src->copies =
            arena_take_array(l->arena, (size_t)src->table.buffer_count, sizeof *src->copies);
        pieces_add(l, src);
    }
    return OK;
}

static bool extents_same(const int64_t *a, const int64_t *b, int rank)
{
    return memcmp(a, b, (size_t)rank * sizeof *a) == 0;
}

static bool rectangle_same(const struct slice *a, const struct slice *b)
{
    return a->rank == b->rank && extents_same(a->shape, b->shape, a->rank) &&
           extents_same(a->from, b->from, a->rank) && extents_same(a->to, b->to, a->rank);
}

static char *shape_text(struct arena *a, const int64_t *extents, int rank)
{
    struct text t = { 0 };
    char *out;

    text_add_char(&t, '[');
    for (int d = 0; d < rank; d++) {
        text_add_format(&t, d == 0 ? "%lld" : ", %lld", (long long)extents[d]);
    }
    text_add_char(&t, ']');
    out = arena_text(a, text_of(&t));
    text_release(&t);
    return out;
}

/* Nothing stored fits: says why. */
static status explain(struct load *l, const struct slice *want, const struct piece *first,
                      int64_t at)
{
    int64_t until = want->first + want->count;
    bool found = false;

    if (!first) {
        return fail(ERR_RECIPE, "%s: tensor %s (%s) is not in the checkpoint", l->folder,
                    want->tensor, want->kind);
    }
    if (first->slice->rank != want->rank ||
        !extents_same(first->slice->shape, want->shape, want->rank)) {
        return fail(ERR_RECIPE,
                    "%s: tensor %s (%s) has the shape %s in the checkpoint; here it has %s",
                    l->folder, want->tensor, want->kind,
                    shape_text(l->arena, first->slice->shape, first->slice->rank),
                    shape_text(l->arena, want->shape, want->rank));
    }
    for (const struct piece *p = first; p; p = p->next) {
        if (rectangle_same(p->slice, want)) {
            found = true;
            if (p->slice->count > 0 && p->slice->first > at && p->slice->first < until) {
                until = p->slice->first;
            }
        }
    }
    if (!found) {
        return fail(
            ERR_FORMAT,
            "%s: tensor %s (%s) is not stored in the rectangle %s to %s that this rank holds",
            l->folder, want->tensor, want->kind, shape_text(l->arena, want->from, want->rank),
            shape_text(l->arena, want->to, want->rank));
    }
    return fail(ERR_FORMAT, "%s: elements %lld to %lld of tensor %s (%s) are in none of its files",
                l->folder, (long long)at, (long long)until, want->tensor, want->kind);
}

/* Of the pieces that hold element `at` of the wanted rectangle, the one that reaches farthest;
 * NULL if none does. */
static const struct piece *piece_at(const struct piece *first, const struct slice *want, int64_t at)
{
    const struct piece *best = NULL;

    for (const struct piece *p = first; p; p = p->next) {
        const struct slice *s = p->slice;

        if (rectangle_same(s, want) && s->first <= at && at - s->first < s->count &&
            (!best || s->first + s->count > best->slice->first + best->slice->count)) {
            best = p;
        }
    }
    return best;
}

static void copy_add(struct load *l, const struct piece *p, int64_t at, int64_t count, char *to)
{
    size_t width = dtype_bytes(p->buffer->dtype);
    struct copy *c = arena_take(l->arena, sizeof *c);

    *c = (struct copy){ .from = (uint64_t)(p->slice->at + at - p->slice->first) * width,
                        .bytes = (uint64_t)count * width,
                        .to = to,
                        .next = *p->copies };
    *p->copies = c;
}

static status slice_find(struct load *l, const struct checkpoint_buffer *b,
                         const struct slice *want)
{
    int64_t at = want->first, end = want->first + want->count;
    char *to = b->bytes;
    void *first = NULL;

    map_find(&l->pieces, piece_key(l->arena, want), &first);
    while (at < end) {
        const struct piece *p = piece_at(first, want, at);
        int64_t count;

        if (!p) {
            return explain(l, want, first, at);
        }
        if (p->buffer->dtype != b->dtype) {
            return fail(ERR_RECIPE, "%s: tensor %s (%s) is stored as %s; here it is %s", l->folder,
                        want->tensor, want->kind, dtype_name(p->buffer->dtype),
                        dtype_name(b->dtype));
        }
        count = p->slice->first + p->slice->count - at;
        count = count < end - at ? count : end - at;
        copy_add(l, p, at, count,
                 to + (size_t)(want->at + at - want->first) * dtype_bytes(b->dtype));
        at += count;
    }
    return OK;
}

static status slices_find(struct load *l, const struct checkpoint_content *content)
{
    for (int i = 0; i < content->buffer_count; i++) {
        const struct checkpoint_buffer *b = &content->buffers[i];

        for (int j = 0; j < b->slice_count; j++) {
            TRY(slice_find(l, b, &b->slices[j]));
        }
    }
    return OK;
}

/* Does a block hold nothing but padding? Nobody copies from such a one, but it may have been
 * altered all the same. */
static bool block_is_padding(const struct stored_buffer *b, uint64_t begin, uint64_t end)
{
    size_t width = dtype_bytes(b->dtype);

    for (int i = 0; i < b->slice_count; i++) {
        const struct slice *s = &b->slices[i];

        if (s->count > 0 && (uint64_t)s->at * width < end &&
            (uint64_t)(s->at + s->count) * width > begin) {
            return false;
        }
    }
    return true;
}

static bool copy_meets(const struct copy *c, uint64_t begin, uint64_t end)
{
    return c->from < end && c->from + c->bytes > begin;
}

static bool block_is_wanted(const struct copy *first, uint64_t begin, uint64_t end)
{
    for (const struct copy *c = first; c; c = c->next) {
        if (copy_meets(c, begin, end)) {
            return true;
        }
    }
    return false;
}

static void copies_make(const struct copy *first, const char *block, uint64_t begin, uint64_t end)
{
    for (const struct copy *c = first; c; c = c->next) {
        if (copy_meets(c, begin, end)) {
            uint64_t from = c->from > begin ? c->from : begin;
            uint64_t until = c->from + c->bytes < end ? c->from + c->bytes : end;

            memcpy(c->to + (from - c->from), block + (from - begin), (size_t)(until - from));
        }
    }
}

static status block_read(struct load *l, const struct table *t, int fd,
                         const struct stored_buffer *b, size_t index, size_t length)
{
    uint64_t offset = b->begin + (uint64_t)index * DIGEST_BLOCK;
    const char *path = path_join(l->arena, l->folder, t->file);

    TRY(file_read_at(fd, path, l->block, length, offset));
    if (!digest_same(digest_of(l->block, length), b->blocks[index])) {
        return fail(ERR_FORMAT,
                    "%s: bytes %llu to %llu (buffer %s) were altered since they were written", path,
                    (unsigned long long)offset, (unsigned long long)(offset + length), b->name);
    }
    return OK;
}

static status buffer_read(struct load *l, const struct source *src, int fd, int index, bool owner)
{
    const struct stored_buffer *b = &src->table.buffers[index];
    const struct copy *copies = src->copies[index];

    for (size_t i = 0; i < b->block_count; i++) {
        uint64_t begin = (uint64_t)i * DIGEST_BLOCK;
        uint64_t end = b->bytes - begin < DIGEST_BLOCK ? b->bytes : begin + DIGEST_BLOCK;

        if (block_is_wanted(copies, begin, end) || (owner && block_is_padding(b, begin, end))) {
            TRY(block_read(l, &src->table, fd, b, i, (size_t)(end - begin)));
            copies_make(copies, l->block, begin, end);
        }
    }
    return OK;
}

static status source_read(struct load *l, const struct source *src, bool owner)
{
    status s = OK;
    int fd;

    TRY(table_open_state(&src->table, l->folder, &fd));
    for (int i = 0; i < src->table.buffer_count && s == OK; i++) {
        s = buffer_read(l, src, fd, i, owner);
    }
    close(fd);
    return s;
}

/* Every stored file has one rank among those that read it which looks at what nobody copies. */
static status sources_load(struct load *l)
{
    int readers = layout_shards(l->mesh->size) * l->mesh->size[AXIS_REPLICA];
    int reader = mesh_index(l->mesh, (axes)(AXES_SHARD | AXES_REPLICA));

    for (int i = 0; i < l->count; i++) {
        bool owner = i % readers == reader;
        bool wanted = owner;

        for (int b = 0; b < l->sources[i].table.buffer_count; b++) {
            wanted = wanted || l->sources[i].copies[b];
        }
        if (wanted) {
            TRY(source_read(l, &l->sources[i], owner));
        }
    }
    return OK;
}

static status degrees_check(const struct load *l)
{
    static const enum axis fixed[] = { AXIS_TP, AXIS_EP };

    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        int then = l->manifest.size[fixed[i]], now = l->mesh->size[fixed[i]];

        if (then != now) {
            return fail(ERR_UNSUPPORTED,
                        "%s: was written with %s degree %d; here it is %d. Shard, context and "
                        "replication degree may "
                        "change, this one may not: set it to %d",
                        l->folder, fixed[i] == AXIS_TP ? "tensor" : "expert", then, now, then);
        }
    }
    return OK;
}

static status load_own(struct load *l, const struct checkpoint_info *info,
                       struct checkpoint_content *content)
{
    TRY(manifest_read(&l->manifest, l->arena, l->folder));
    if (l->manifest.step != info->step) {
        return fail(ERR_FORMAT, "%s: was replaced meanwhile: it held step %lld, now %lld",
                    l->folder, (long long)info->step, (long long)l->manifest.step);
    }
    TRY(degrees_check(l));
    TRY(sources_read(l));
    TRY(slices_find(l, content));
    for (int i = 0; i < content->buffer_count; i++) {
        const struct checkpoint_buffer *b = &content->buffers[i];

        if (b->count > 0) {
            memset(b->bytes, 0, (size_t)b->count * dtype_bytes(b->dtype));
        }
    }
    l->block = malloc(DIGEST_BLOCK);
    check(l->block, "no memory for a block of %d bytes", DIGEST_BLOCK);
    return sources_load(l);
}

status checkpoint_load(const struct checkpoint_info *info, const struct mesh *mesh,
                       struct checkpoint_content *content)
{
    struct arena a = { 0 };
    struct load l = { .folder = info->folder, .mesh = mesh, .arena = &a };
    status s;

    check(mesh->world, "a checkpoint is loaded by an imagined rank");
    s = load_own(&l, info, content);
    free(l.block);
    map_release(&l.pieces);
    arena_release(&a);
    return comm_agree(mesh->world, s);
}
