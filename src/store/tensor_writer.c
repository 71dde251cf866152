/*
 * Writing one file: declare, begin, append, finish.
 *
 *   path.partial-PID-N   while it is written; `path` only appears whole, by the rename in finish
 *
 * The life of a writer: open (the temporary file is there) -> metadata, declare ... -> begin (the
 * header is written) -> append ... -> finish (renamed) or abandon (removed).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/text.h"
#include "store/tensor_header.h"

enum { HEADER_LIMIT = 100000000 };

status tensor_writer_open(struct tensor_writer *w, struct arena *a, const char *path)
{
    *w = (struct tensor_writer){ .fd = -1 };
    TRY(file_check_target(path));
    *w = (struct tensor_writer){ .path = arena_text(a, path), .fd = -1, .arena = a };
    /* A name that is taken belongs to another writer or to a run that was stopped: leave it and
     * take the next. */
    for (int number = 0; w->fd < 0; number++) {
        w->temporary = arena_format(a, "%s.partial-%ld-%d", path, (long)getpid(), number);
        w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd < 0 && errno != EEXIST) {
            status s = fail(errno == ENOENT ? ERR_MISSING : ERR_IO,
                            "%s: no file can be made in its folder: %s", path, strerror(errno));

            *w = (struct tensor_writer){ .fd = -1 };
            return s;
        }
    }
    return OK;
}

void tensor_writer_metadata(struct tensor_writer *w, const char *key, const char *value)
{
    check(w->data_begin == 0, "%s: metadata behind begin", w->path);
    for (size_t i = 0; i < w->metadata_count; i++) {
        check(strcmp(w->metadata[2 * i], key) != 0, "%s: metadata %s twice", w->path, key);
    }
    if (w->metadata_count == w->metadata_room) {
        const char **more;

        w->metadata_room = w->metadata_room == 0 ? 8 : 2 * w->metadata_room;
        more = arena_take_array(w->arena, 2 * w->metadata_room, sizeof *more);
        if (w->metadata_count > 0) {
            memcpy(more, w->metadata, 2 * w->metadata_count * sizeof *more);
        }
        w->metadata = more;
    }
    w->metadata[2 * w->metadata_count] = arena_text(w->arena, key);
    w->metadata[2 * w->metadata_count + 1] = arena_text(w->arena, value);
    w->metadata_count++;
}

void tensor_writer_declare(struct tensor_writer *w, const char *name, enum dtype dtype, int rank,
                           const int64_t *shape)
{
    struct tensor_entry *e;
    int64_t *extents = arena_take_array(w->arena, (size_t)rank, sizeof *extents);
    int64_t count = 1;
    uint64_t bits;

    check(w->data_begin == 0, "%s: %s is declared behind begin", w->path, name);
    check(strcmp(name, "__metadata__") != 0, "%s: a tensor may not be called __metadata__",
          w->path);
    for (int i = 0; i < rank; i++) {
        check(shape[i] >= 0 && !__builtin_mul_overflow(count, shape[i], &count),
              "%s: %s is too large", w->path, name);
        extents[i] = shape[i];
    }
    check(!__builtin_mul_overflow((uint64_t)count, (uint64_t)dtype_bits(dtype), &bits) &&
              bits % 8 == 0,
          "%s: %s is too large or no whole number of bytes", w->path, name);
    if (w->count == w->room) {
        struct tensor_entry *more;

        w->room = w->room == 0 ? 16 : 2 * w->room;
        more = arena_take_array(w->arena, w->room, sizeof *more);
        if (w->count > 0) {
            memcpy(more, w->entries, w->count * sizeof *more);
        }
        w->entries = more;
    }
    e = &w->entries[w->count++];
    *e = (struct tensor_entry){
        .name = arena_text(w->arena, name), .dtype = dtype, .rank = rank, .shape = extents
    };
    e->count = count;
    e->begin = w->total;
    e->end = w->total + bits / 8;
    check(e->end >= e->begin, "%s: the file would be beyond 2^64 bytes", w->path);
    w->total = e->end;
}

/* A text in quotes, as JSON has it. */
static void add_quoted(struct text *t, const char *text)
{
    size_t length = strlen(text);

    check(text_utf8_valid(text, length) == length, "\"%s\" is no UTF-8", text);
    text_add_char(t, '"');
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\') {
            text_add_char(t, '\\');
            text_add_char(t, *p);
        } else if ((unsigned char)*p < 0x20) {
            text_add_format(t, "\\u%04x", (unsigned)*p);
        } else {
            text_add_char(t, *p);
        }
    }
    text_add_char(t, '"');
}

static void add_header(struct text *t, const struct tensor_writer *w)
{
    text_add_char(t, '{');
    if (w->metadata_count > 0) {
        text_add(t, "\"__metadata__\":{");
        for (size_t i = 0; i < w->metadata_count; i++) {
            text_add(t, i == 0 ? "" : ",");
            add_quoted(t, w->metadata[2 * i]);
            text_add_char(t, ':');
            add_quoted(t, w->metadata[2 * i + 1]);
        }
        text_add_char(t, '}');
    }
    for (size_t i = 0; i < w->count; i++) {
        const struct tensor_entry *e = &w->entries[i];

        text_add(t, i == 0 && w->metadata_count == 0 ? "" : ",");
        add_quoted(t, e->name);
        text_add_format(t, ":{\"dtype\":\"%s\",\"shape\":[", dtype_name(e->dtype));
        for (int d = 0; d < e->rank; d++) {
            text_add_format(t, d == 0 ? "%lld" : ",%lld", (long long)e->shape[d]);
        }
        text_add_format(t, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)e->begin,
                        (unsigned long long)e->end);
    }
    text_add_char(t, '}');
}

/* The reader would refuse a name that stands twice; here it is our own mistake. */
static void check_names(const struct tensor_writer *w)
{
    struct map names = { 0 };

    for (size_t i = 0; i < w->count; i++) {
        check(!map_find(&names, w->entries[i].name, NULL), "%s: %s is declared twice", w->path,
              w->entries[i].name);
        map_put(&names, w->entries[i].name, NULL);
    }
    map_release(&names);
}

status tensor_writer_begin(struct tensor_writer *w, int align)
{
    struct text header = { 0 };
    char field[8];
    status s;

    check(w->data_begin == 0, "%s: begin twice", w->path);
    check(align == 8 || align == 4096, "%s: alignment %d", w->path, align);
    check_names(w);
    text_add_n(&header, "\0\0\0\0\0\0\0\0", 8);
    add_header(&header, w);
    while (header.length % (size_t)align != 0) {
        text_add_char(&header, ' ');
    }
    if (header.length - 8 > HEADER_LIMIT) {
        s = fail(ERR_FORMAT,
                 "%s: %zu tensors ask for a header of %zu bytes, readers take 100,000,000", w->path,
                 w->count, header.length - 8);
        text_release(&header);
        return s;
    }
    for (int i = 0; i < 8; i++) {
        field[i] = (char)((header.length - 8) >> 8 * i & 0xff);
    }
    memcpy(header.data, field, sizeof field);
    w->data_begin = header.length;
    s = file_write_at(w->fd, w->temporary, header.data, header.length, 0);
    text_release(&header);
    return s;
}

status tensor_writer_append(struct tensor_writer *w, const void *bytes, size_t length)
{
    check(w->data_begin > 0, "%s: append before begin", w->path);
    check(length <= w->total - w->at, "%s: more bytes than declared", w->path);
    TRY(file_write_at(w->fd, w->temporary, bytes, length, w->data_begin + w->at));
    w->at += length;
    return OK;
}

status tensor_writer_finish(struct tensor_writer *w)
{
    check(w->data_begin > 0 && w->at == w->total, "%s: finish after %llu of %llu bytes", w->path,
          (unsigned long long)w->at, (unsigned long long)w->total);
    TRY(file_sync(w->fd, w->temporary));
    if (close(w->fd) != 0) {
        w->fd = -1;
        return fail(ERR_IO, "%s: %s", w->temporary, strerror(errno));
    }
    w->fd = -1;
    if (rename(w->temporary, w->path) != 0) {
        return fail(ERR_IO, "%s: renaming %s to it: %s", w->path, w->temporary, strerror(errno));
    }
    w->temporary = NULL;
    return folder_sync(path_folder(w->arena, w->path));
}

void tensor_writer_abandon(struct tensor_writer *w)
{
    if (w->temporary != NULL) {
        if (w->fd >= 0) {
            close(w->fd);
        }
        unlink(w->temporary);
    }
    *w = (struct tensor_writer){ .fd = -1 };
}
