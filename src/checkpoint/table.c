#include "checkpoint/table.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "checkpoint/field.h"

#define TABLE_FORMAT "roux table 1"

enum { TABLE_LIMIT = 1 << 30 };

int64_t slice_volume(const struct slice *s)
{
    int64_t whole = 1, volume = 1;

    for (int d = 0; d < s->rank; d++) {
        if (s->from[d] < 0 || s->to[d] < s->from[d] || s->shape[d] < s->to[d] ||
            __builtin_mul_overflow(whole, s->shape[d], &whole) || whole > INT64_MAX / 2) {
            return -1;
        }
        volume *= s->to[d] - s->from[d];
    }
    return volume;
}

/* Over the header's digest and all blocks', in the order of the file. */
static struct digest file_digest(const struct table *t)
{
    size_t count = 1;
    struct digest *all, result;

    for (int i = 0; i < t->buffer_count; i++) {
        count += t->buffers[i].block_count;
    }
    all = malloc(count * sizeof *all);
    check(all, "no memory for %zu digests", count);
    all[0] = t->header;
    count = 1;
    for (int i = 0; i < t->buffer_count; i++) {
        for (size_t b = 0; b < t->buffers[i].block_count; b++) {
            all[count++] = t->buffers[i].blocks[b];
        }
    }
    result = digest_of_blocks(all, count);
    free(all);
    return result;
}

/* Writing. */

static json_t *json_digest(struct digest d)
{
    char text[DIGEST_TEXT];

    return json_string(digest_text(d, text));
}

static json_t *json_extents(const int64_t *extents, int count)
{
    json_t *array = json_array();

    for (int i = 0; i < count; i++) {
        json_array_append_new(array, json_integer(extents[i]));
    }
    return array;
}

static json_t *json_slice(const struct slice *s)
{
    json_t *object = json_object();

    field_put(object, "tensor", json_string(s->tensor));
    field_put(object, "kind", json_string(s->kind));
    field_put(object, "shape", json_extents(s->shape, s->rank));
    field_put(object, "from", json_extents(s->from, s->rank));
    field_put(object, "to", json_extents(s->to, s->rank));
    field_put(object, "first", json_integer(s->first));
    field_put(object, "count", json_integer(s->count));
    field_put(object, "at", json_integer(s->at));
    return object;
}

static json_t *json_buffer(const struct stored_buffer *b)
{
    json_t *object = json_object();
    json_t *blocks = json_array();
    json_t *slices = json_array();

    for (size_t i = 0; i < b->block_count; i++) {
        json_array_append_new(blocks, json_digest(b->blocks[i]));
    }
    for (int i = 0; i < b->slice_count; i++) {
        json_array_append_new(slices, json_slice(&b->slices[i]));
    }
    field_put(object, "name", json_string(b->name));
    field_put(object, "dtype", json_string(dtype_name(b->dtype)));
    field_put(object, "begin", json_integer((json_int_t)b->begin));
    field_put(object, "bytes", json_integer((json_int_t)b->bytes));
    field_put(object, "blocks", blocks);
    field_put(object, "slices", slices);
    return object;
}

static json_t *json_table(const struct table *t)
{
    json_t *object = json_object();
    json_t *buffers = json_array();

    for (int i = 0; i < t->buffer_count; i++) {
        json_array_append_new(buffers, json_buffer(&t->buffers[i]));
    }
    field_put(object, "format", json_string(TABLE_FORMAT));
    field_put(object, "file", json_string(t->file));
    field_put(object, "bytes", json_integer((json_int_t)t->file_bytes));
    field_put(object, "digest", json_digest(file_digest(t)));
    field_put(object, "header_bytes", json_integer((json_int_t)t->header_bytes));
    field_put(object, "header", json_digest(t->header));
    field_put(object, "buffers", buffers);
    return object;
}

status table_write(const struct table *t, const char *path, struct stamp *out)
{
    json_t *object = json_table(t);
    char *text = json_dumps(object, JSON_COMPACT);
    size_t length;
    status s;

    check(text, "%s: no memory for the table", path);
    json_decref(object);
    length = strlen(text);
    *out = (struct stamp){ length, digest_of(text, length) };
    s = file_replace(path, text, length);
    free(text);
    return s;
}

/* Reading. */

static status slice_parse(struct slice *s, struct arena *a, const char *path, const json_t *object,
                          const struct stored_buffer *b)
{
    int64_t room = (int64_t)(b->bytes / dtype_bytes(b->dtype));
    int64_t volume;
    int rank_from, rank_to;

    if (!json_is_object(object)) {
        return fail(ERR_FORMAT, "%s: a slice of buffer %s is no object", path, b->name);
    }
    TRY(field_text(path, object, "tensor", a, &s->tensor));
    TRY(field_text(path, object, "kind", a, &s->kind));
    TRY(field_extents(path, object, "shape", 4, s->shape, &s->rank));
    TRY(field_extents(path, object, "from", 4, s->from, &rank_from));
    TRY(field_extents(path, object, "to", 4, s->to, &rank_to));
    volume = rank_from == s->rank && rank_to == s->rank ? slice_volume(s) : -1;
    if (volume < 0) {
        return fail(ERR_FORMAT, "%s: tensor %s (%s) has a slice that is no rectangle of it", path,
                    s->tensor, s->kind);
    }
    TRY(field_integer(path, object, "first", 0, volume, &s->first));
    TRY(field_integer(path, object, "count", 0, volume - s->first, &s->count));
    TRY(field_integer(path, object, "at", 0, room, &s->at));
    if (s->count > room - s->at) {
        return fail(ERR_FORMAT, "%s: the slice of tensor %s (%s) does not fit into buffer %s", path,
                    s->tensor, s->kind, b->name);
    }
    return OK;
}

static status buffer_parse_lists(struct stored_buffer *b, struct arena *a, const char *path,
                                 const json_t *object)
{
    json_t *blocks, *slices;
    struct slice *list;
    size_t count;

    TRY(field_array(path, object, "blocks", &blocks, &b->block_count));
    if (b->block_count != block_total(b->bytes)) {
        return fail(ERR_FORMAT, "%s: buffer %s has %zu block digests; %zu are needed", path,
                    b->name, b->block_count, block_total(b->bytes));
    }
    b->blocks = arena_take_array(a, b->block_count, sizeof *b->blocks);
    for (size_t i = 0; i < b->block_count; i++) {
        TRY(field_digest_of(path, json_array_get(blocks, i), "blocks", &b->blocks[i]));
    }
    TRY(field_array(path, object, "slices", &slices, &count));
    if (count > INT32_MAX) {
        return fail(ERR_FORMAT, "%s: buffer %s has too many slices", path, b->name);
    }
    list = arena_take_array(a, count, sizeof *list);
    for (size_t i = 0; i < count; i++) {
        TRY(slice_parse(&list[i], a, path, json_array_get(slices, i), b));
    }
    b->slices = list;
    b->slice_count = (int)count;
    return OK;
}

/* Buffers follow each other without a hole from `begin`, which moves on. */
static status buffer_parse(struct stored_buffer *b, struct arena *a, const char *path,
                           const json_t *object, const struct table *t, uint64_t *begin)
{
    const char *type;
    int64_t number;

    if (!json_is_object(object)) {
        return fail(ERR_FORMAT, "%s: a buffer is no object", path);
    }
    TRY(field_text(path, object, "name", a, &b->name));
    TRY(field_text(path, object, "dtype", a, &type));
    b->dtype = dtype_find(type);
    if (b->dtype == DT_NONE || dtype_bits(b->dtype) % 8 != 0) {
        return fail(ERR_FORMAT, "%s: buffer %s has the unknown dtype %s", path, b->name, type);
    }
    TRY(field_integer(path, object, "begin", (int64_t)*begin, (int64_t)*begin, &number));
    b->begin = (uint64_t)number;
    TRY(field_integer(path, object, "bytes", 0, (int64_t)(t->file_bytes - *begin), &number));
    b->bytes = (uint64_t)number;
    if (b->bytes % LAYOUT_ALIGN != 0) {
        return fail(ERR_FORMAT, "%s: buffer %s has %lld bytes, no multiple of %d", path, b->name,
                    (long long)number, LAYOUT_ALIGN);
    }
    *begin += b->bytes;
    return buffer_parse_lists(b, a, path, object);
}

static status table_parse_buffers(struct table *t, struct arena *a, const char *path,
                                  const json_t *object)
{
    uint64_t begin = t->header_bytes;
    json_t *buffers;
    size_t count;

    TRY(field_array(path, object, "buffers", &buffers, &count));
    if (count > INT32_MAX) {
        return fail(ERR_FORMAT, "%s: too many buffers", path);
    }
    t->buffers = arena_take_array(a, count, sizeof *t->buffers);
    t->buffer_count = (int)count;
    for (size_t i = 0; i < count; i++) {
        TRY(buffer_parse(&t->buffers[i], a, path, json_array_get(buffers, i), t, &begin));
    }
    if (begin != t->file_bytes) {
        return fail(ERR_FORMAT, "%s: the buffers end at byte %llu, the file at %llu", path,
                    (unsigned long long)begin, (unsigned long long)t->file_bytes);
    }
    return OK;
}

static status table_parse(struct table *t, struct arena *a, const char *path, const json_t *object,
                          const char *file)
{
    struct digest stated;
    const char *format;
    int64_t number;

    TRY(field_text(path, object, "format", a, &format));
    if (strcmp(format, TABLE_FORMAT) != 0) {
        return fail(ERR_FORMAT, "%s: is \"%s\"; this program reads \"" TABLE_FORMAT "\"", path,
                    format);
    }
    TRY(field_text(path, object, "file", a, &t->file));
    if (strcmp(t->file, file) != 0) {
        return fail(ERR_FORMAT, "%s: speaks of the file %s; expected %s", path, t->file, file);
    }
    TRY(field_integer(path, object, "bytes", LAYOUT_ALIGN, INT64_MAX / 2, &number));
    t->file_bytes = (uint64_t)number;
    TRY(field_integer(path, object, "header_bytes", LAYOUT_ALIGN, number, &number));
    t->header_bytes = (uint64_t)number;
    if (number > 128 << 20 || number % LAYOUT_ALIGN != 0) {
        return fail(ERR_FORMAT, "%s: a header of %lld bytes", path, (long long)number);
    }
    TRY(field_digest(path, object, "header", &t->header));
    TRY(table_parse_buffers(t, a, path, object));
    TRY(field_digest(path, object, "digest", &stated));
    if (!digest_same(stated, file_digest(t))) {
        return fail(ERR_FORMAT, "%s: the file's digest is not that of its blocks", path);
    }
    return OK;
}

status table_read(struct table *out, struct arena *a, const char *path, const struct stamp *stamp,
                  const char *file)
{
    char *text;
    size_t length;
    json_t *object = NULL;
    status s = file_read(a, path, TABLE_LIMIT, &text, &length);

    *out = (struct table){ 0 };
    if (s == ERR_MISSING) {
        return fail(ERR_FORMAT, "%s: the manifest names this table, but it is not there", path);
    }
    TRY(s);
    if (length != stamp->bytes || !digest_same(digest_of(text, length), stamp->digest)) {
        return fail(ERR_FORMAT, "%s: was altered since it was written (its digest is another)",
                    path);
    }
    TRY(field_parse(path, text, length, &object));
    s = table_parse(out, a, path, object, file);
    json_decref(object);
    return s;
}

static status state_check(const struct table *t, struct arena *a, const char *path, int fd)
{
    struct stat about;
    char *header;

    if (fstat(fd, &about) != 0) {
        return fail(ERR_IO, "%s: %s", path, strerror(errno));
    }
    if (!S_ISREG(about.st_mode) || (uint64_t)about.st_size != t->file_bytes) {
        return fail(ERR_FORMAT, "%s: has %lld bytes; its table says %llu", path,
                    (long long)about.st_size, (unsigned long long)t->file_bytes);
    }
    header = arena_take(a, (size_t)t->header_bytes);
    TRY(file_read_at(fd, path, header, (size_t)t->header_bytes, 0));
    if (!digest_same(digest_of(header, (size_t)t->header_bytes), t->header)) {
        return fail(ERR_FORMAT,
                    "%s: its header (the first %llu bytes) was altered since it was written", path,
                    (unsigned long long)t->header_bytes);
    }
    return OK;
}

status table_open_state(const struct table *t, const char *folder, int *out)
{
    struct arena a = { 0 };
    const char *path = path_join(&a, folder, t->file);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    status s;

    if (fd < 0) {
        s = errno == ENOENT
                ? fail(ERR_FORMAT, "%s: the checkpoint needs this file, but it is not there", path)
                : fail(ERR_IO, "%s: %s", path, strerror(errno));
    } else {
        s = state_check(t, &a, path, fd);
        if (s != OK) {
            close(fd);
        }
    }
    arena_release(&a);
    *out = s == OK ? fd : -1;
    return s;
}
