/*
 * Saving. Every step that one rank may fail alone is followed by an agreement of all:
 *
 *   rank 0      folder.writing is made, space is looked at
 *   writers     state file, then table           (replica 0)
 *   rank 0      sizes are verified, the manifest is written, the folder gets its name
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/table.h"
#include "store/safetensors.h"

/* What a rank tells of its files: crosses ranks as 64-bit words. */
struct report {
    uint64_t writes; /* 1: this rank is a writer */
    uint64_t state_bytes, table_bytes, digest_high, digest_low;
};

enum { REPORT_WORDS = sizeof(struct report) / sizeof(uint64_t) };

struct save {
    const char *folder, *writing;
    const struct mesh *mesh;
    const struct checkpoint_content *content;
    struct arena *arena;
    struct cell cell;
    bool writes;
    char *tail; /* [DIGEST_BLOCK]: the last block of a buffer with its zeros */
};

static uint64_t padded(uint64_t bytes)
{
    return (bytes + LAYOUT_ALIGN - 1) / LAYOUT_ALIGN * LAYOUT_ALIGN;
}

static uint64_t buffer_bytes(const struct checkpoint_buffer *b)
{
    return (uint64_t)b->count * dtype_bytes(b->dtype);
}

static void content_check(const struct checkpoint_content *c)
{
    check(c->step >= 0 && c->family && c->recipe && c->state,
          "a checkpoint without step, family, recipe or state");
    for (int i = 0; i < c->buffer_count; i++) {
        const struct checkpoint_buffer *b = &c->buffers[i];

        check(b->count >= 0 && (b->bytes || b->count == 0), "buffer %s has no bytes", b->name);
        for (int j = 0; j < b->slice_count; j++) {
            const struct slice *s = &b->slices[j];

            check(s->rank >= 0 && s->rank <= 4 && s->first >= 0 && s->count >= 0 && s->at >= 0,
                  "a slice of %s in buffer %s", s->tensor, b->name);
            check(s->first + s->count <= slice_volume(s) && s->at + s->count <= b->count,
                  "a slice of %s goes beyond its rectangle or buffer %s", s->tensor, b->name);
        }
    }
}

/* The file's tensors: one per buffer, as long as its padding makes it. */
static void declare_buffers(struct tensor_writer *w, const struct checkpoint_content *c)
{
    for (int i = 0; i < c->buffer_count; i++) {
        const struct checkpoint_buffer *b = &c->buffers[i];
        int64_t elements = (int64_t)(padded(buffer_bytes(b)) / dtype_bytes(b->dtype));

        tensor_writer_declare(w, b->name, b->dtype, 1, &elements);
    }
}

/* One block of a buffer: from the caller's memory where that reaches, else with zeros behind it. */
static const char *block_bytes(struct save *s, const struct checkpoint_buffer *b, uint64_t from,
                               size_t length)
{
    uint64_t have = buffer_bytes(b) - from;

    if (have >= length) {
        return (const char *)b->bytes + from;
    }
    if (!s->tail) {
        s->tail = malloc(DIGEST_BLOCK);
        check(s->tail, "no memory for a block of %d bytes", DIGEST_BLOCK);
    }
    memcpy(s->tail, (const char *)b->bytes + from, (size_t)have);
    memset(s->tail + have, 0, length - (size_t)have);
    return s->tail;
}

static status buffer_write(struct save *s, struct tensor_writer *w,
                           const struct checkpoint_buffer *b, struct stored_buffer *out)
{
    uint64_t bytes = padded(buffer_bytes(b));

    *out = (struct stored_buffer){ .name = b->name,
                                   .dtype = b->dtype,
                                   .begin = w->data_begin + w->at,
                                   .bytes = bytes,
                                   .block_count = block_total(bytes),
                                   .slices = b->slices,
                                   .slice_count = b->slice_count };
    out->blocks = arena_take_array(s->arena, out->block_count, sizeof *out->blocks);
    for (size_t i = 0; i < out->block_count; i++) {
        uint64_t from = (uint64_t)i * DIGEST_BLOCK;
        size_t length = (size_t)(bytes - from < DIGEST_BLOCK ? bytes - from : DIGEST_BLOCK);
        const char *block = block_bytes(s, b, from, length);

        out->blocks[i] = digest_of(block, length);
        TRY(tensor_writer_append(w, block, length));
    }
    return OK;
}

/* The digest of the header that the writer made. */
static status header_digest(struct save *s, const char *path, uint64_t bytes, struct digest *out)
{
    char *header = arena_take(s->arena, (size_t)bytes);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    status result;

    if (fd < 0) {
        return fail(ERR_IO, "%s: %s", path, strerror(errno));
    }
    result = file_read_at(fd, path, header, (size_t)bytes, 0);
    close(fd);
    *out = digest_of(header, (size_t)bytes);
    return result;
}

static status state_fill(struct save *s, struct tensor_writer *w, struct table *t)
{
    const struct checkpoint_content *c = s->content;

    tensor_writer_metadata(w, "format", "roux state 1");
    declare_buffers(w, c);
    TRY(tensor_writer_begin(w, LAYOUT_ALIGN));
    t->header_bytes = w->data_begin;
    t->file_bytes = w->data_begin + w->total;
    t->buffer_count = c->buffer_count;
    t->buffers = arena_take_array(s->arena, (size_t)c->buffer_count, sizeof *t->buffers);
    for (int i = 0; i < c->buffer_count; i++) {
        TRY(buffer_write(s, w, &c->buffers[i], &t->buffers[i]));
    }
    return tensor_writer_finish(w);
}

static status state_write(struct save *s, struct table *t)
{
    const char *path = path_join(s->arena, s->writing, layout_state(s->arena, s->cell));
    struct tensor_writer w;
    status result;

    *t = (struct table){ .file = layout_state(s->arena, s->cell) };
    TRY(tensor_writer_open(&w, s->arena, path));
    result = state_fill(s, &w, t);
    tensor_writer_abandon(&w);
    TRY(result);
    return header_digest(s, path, t->header_bytes, &t->header);
}

static status rank_write(struct save *s, struct report *r)
{
    struct table t;
    struct stamp stamp;

    TRY(state_write(s, &t));
    TRY(table_write(&t, path_join(s->arena, s->writing, layout_table(s->arena, s->cell)), &stamp));
    *r = (struct report){ .writes = 1,
                          .state_bytes = t.file_bytes,
                          .table_bytes = stamp.bytes,
                          .digest_high = stamp.digest.high,
                          .digest_low = stamp.digest.low };
    return OK;
}

static uint64_t content_bytes(const struct checkpoint_content *c)
{
    uint64_t bytes = LAYOUT_ALIGN;

    for (int i = 0; i < c->buffer_count; i++) {
        bytes += padded(buffer_bytes(&c->buffers[i]));
    }
    return bytes;
}

static status space_check(const char *folder, uint64_t needed)
{
    char need[32], have[32];
    uint64_t free_bytes;

    TRY(file_space(folder, &free_bytes));
    if (free_bytes < needed) {
        return fail(ERR_IO, "%s: no space: the checkpoint needs %s, free are %s", folder,
                    text_bytes(need, needed), text_bytes(have, free_bytes));
    }
    return OK;
}

/* Trouble while writing is told with what was needed and what there is. */
static status with_space(const struct save *s, status result, uint64_t needed)
{
    char need[32], have[32] = "an unknown amount";
    char text[4096];
    uint64_t free_bytes;

    if (result != ERR_IO) {
        return result;
    }
    strncpy(text, fail_text(), sizeof text - 1);
    text[sizeof text - 1] = 0;
    if (file_space(s->folder, &free_bytes) == OK) {
        text_bytes(have, free_bytes);
    }
    return fail(ERR_IO, "%s (the checkpoint needs %s, free are %s)", text, text_bytes(need, needed),
                have);
}

/* Rank 0: each writer's files must be there as long as it said, seen from here. */
static status sizes_verify(struct save *s, const struct report *reports)
{
    const int *size = s->mesh->size;

    for (int w = 0; w < layout_writers(size); w++) {
        const char *path =
            path_join(s->arena, s->writing, layout_state(s->arena, layout_cell(size, w)));
        uint64_t bytes = 0;
        status result = file_size(path, &bytes);

        if (result == ERR_MISSING) {
            return fail(ERR_IO,
                        "%s: was written by another rank but is not there; do all ranks share this "
                        "storage?",
                        path);
        }
        TRY(result);
        if (bytes != reports[w].state_bytes) {
            return fail(ERR_IO, "%s: has %" PRIu64 " bytes after writing %" PRIu64, path, bytes,
                        reports[w].state_bytes);
        }
    }
    return OK;
}

/* Rank 0: the manifest, then the name. `reports` are by writer. */
static status finish(struct save *s, const struct report *reports)
{
    int writers = layout_writers(s->mesh->size);
    struct manifest m = { .step = s->content->step,
                          .written_ns = (int64_t)(clock_wall_seconds() * 1e9),
                          .family = s->content->family,
                          .recipe = s->content->recipe,
                          .state = s->content->state };

    TRY(sizes_verify(s, reports));
    memcpy(m.size, s->mesh->size, sizeof m.size);
    m.tables = arena_take_array(s->arena, (size_t)writers, sizeof *m.tables);
    for (int w = 0; w < writers; w++) {
        m.tables[w] =
            (struct stamp){ reports[w].table_bytes,
                            { .high = reports[w].digest_high, .low = reports[w].digest_low } };
    }
    TRY(manifest_write(&m, s->writing));
    return folder_publish(s->arena, s->folder, s->mesh->size);
}

/* Which number each world rank's report has among the writers: replica 0 has the world's first
 * ranks, in the order of the formula of comm/mesh.h. */
static struct report *reports_by_writer(struct save *s, const struct report *by_rank)
{
    const int *size = s->mesh->size;
    struct report *out = arena_take_array(s->arena, (size_t)layout_writers(size), sizeof *out);

    for (int rank = 0; rank < s->mesh->world->size; rank++) {
        struct mesh there;

        check(mesh_imagine(&there, rank, size) == OK, "rank %d is not on its own mesh", rank);
        if (by_rank[rank].writes) {
            out[layout_writer(&there)] = by_rank[rank];
        }
    }
    return out;
}

static status needed_sum(const struct save *s, uint64_t *needed)
{
    int64_t mine = s->writes ? (int64_t)content_bytes(s->content) : 0;
    int64_t sum;

    TRY(comm_run(s->mesh->world,
                 &(struct collective){
                     .kind = COMM_ALL_REDUCE, .dtype = DT_I64, .in = &mine, .out = &sum, .n = 1 }));
    *needed = (uint64_t)sum;
    return OK;
}

static status begin(struct save *s, uint64_t needed)
{
    TRY(space_check(s->folder, needed));
    return folder_begin(s->arena, s->folder, s->mesh->size);
}

static status save_steps(struct save *s)
{
    struct comm *world = s->mesh->world;
    struct report mine = { 0 };
    struct report *all = arena_take_array(s->arena, (size_t)world->size, sizeof *all);
    uint64_t needed = 0;
    status result = OK;

    TRY(needed_sum(s, &needed));
    TRY(comm_agree(world, world->rank == 0 ? begin(s, needed) : OK));
    if (s->writes) {
        result = with_space(s, rank_write(s, &mine), needed);
    }
    TRY(comm_agree(world, result));
    TRY(comm_run(
        world,
        &(struct collective){
            .kind = COMM_GATHER, .dtype = DT_U64, .in = &mine, .out = all, .n = REPORT_WORDS }));
    return comm_agree(world, world->rank == 0 ? finish(s, reports_by_writer(s, all)) : OK);
}

/* Keeps the error's text over the work of cleaning up. */
static status clean_up(struct save *s, status result)
{
    char *text = arena_text(s->arena, fail_text());

    if (s->mesh->world->rank == 0) {
        folder_abandon(s->arena, s->folder);
    }
    return fail(result, "%s", text);
}

status checkpoint_save(const char *folder, const struct mesh *mesh,
                       const struct checkpoint_content *content)
{
    struct arena a = { 0 };
    struct save s = { .folder = folder,
                      .writing = folder_writing(&a, folder),
                      .mesh = mesh,
                      .content = content,
                      .arena = &a,
                      .cell = layout_cell(mesh->size, layout_writer(mesh)),
                      .writes = mesh->at[AXIS_REPLICA] == 0 };
    status result;

    check(mesh->world, "a checkpoint is saved by an imagined rank");
    content_check(content);
    result = save_steps(&s);
    if (result != OK) {
        result = clean_up(&s, result);
    }
    free(s.tail);
    arena_release(&a);
    return result;
}
