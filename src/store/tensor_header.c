/*
 * The header's rules.
 *
 *   0        8                 8 + N                                     size
 *   | N, u64 | JSON, N bytes   | tensor | tensor | ... without holes ... |
 *
 * The header is walked once by the strict scanner (store/json_scan.h); the rules that concern
 * several tensors are checked afterwards, on the entries sorted by offset.
 */
#include "store/tensor_header.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "store/json_scan.h"

enum { HEADER_LIMIT = 100000000 };

/* What the functions of one parse pass on. */
struct header {
    struct tensor_file *file;
    struct arena *arena;
    struct json_scan scan;
    size_t room, metadata_room;
    struct map metadata_keys;
    bool has_metadata;
};

const char *tensor_name_shown(const char *name, char out[SHOWN_NAME])
{
    size_t length = 0;

    for (; name[length] != '\0' && length < SHOWN_NAME - 4; length++) {
        unsigned char c = (unsigned char)name[length];

        out[length] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    memcpy(out + length, name[length] == '\0' ? "" : "...", name[length] == '\0' ? 1 : 4);
    return out;
}

/* The scanner's problem, with the place in the file and what stands there. */
static status header_wrong(const struct header *h, const char *what)
{
    char found[JSON_FOUND];

    return fail(ERR_FORMAT, "%s: header byte %zu%s%s: %s (found: %s)", h->file->path,
                (size_t)(h->scan.at - h->scan.begin), *what == '\0' ? "" : ", ", what,
                h->scan.problem, json_found(&h->scan, found));
}

static status tensor_wrong(const struct header *h, const char *name, const char *field)
{
    char name_shown[SHOWN_NAME], what[2 * SHOWN_NAME];

    snprintf(what, sizeof what, "tensor \"%s\", %s", tensor_name_shown(name, name_shown), field);
    return header_wrong(h, what);
}

static void push_metadata(struct header *h, const char *key, const char *value)
{
    struct tensor_file *f = h->file;

    if (f->metadata_count == h->metadata_room) {
        const char **more;

        h->metadata_room = h->metadata_room == 0 ? 8 : 2 * h->metadata_room;
        more = arena_take_array(h->arena, 2 * h->metadata_room, sizeof *more);
        if (f->metadata_count > 0) {
            memcpy(more, f->metadata, 2 * f->metadata_count * sizeof *more);
        }
        f->metadata = more;
    }
    f->metadata[2 * f->metadata_count] = key;
    f->metadata[2 * f->metadata_count + 1] = value;
    f->metadata_count++;
}

static status parse_metadata(struct header *h)
{
    struct json_scan *s = &h->scan;
    size_t seen = 0;

    if (h->has_metadata) {
        return fail(ERR_FORMAT, "%s: __metadata__ stands twice in the header", h->file->path);
    }
    h->has_metadata = true;
    if (!json_open(s, '{')) {
        return header_wrong(h, "__metadata__");
    }
    for (; json_more(s, '}', seen); seen++) {
        struct json_string key_text, value_text;
        const char *key, *value;
        char name[SHOWN_NAME];

        if (!json_key(s, &key_text) || !json_text(s, &value_text)) {
            return header_wrong(h, "__metadata__ (texts to texts)");
        }
        key = json_string_make(h->arena, &key_text);
        value = json_string_make(h->arena, &value_text);
        if (key == NULL || value == NULL) {
            return fail(ERR_FORMAT, "%s: __metadata__ holds the character U+0000", h->file->path);
        }
        if (map_find(&h->metadata_keys, key, NULL)) {
            return fail(ERR_FORMAT, "%s: __metadata__ has \"%s\" twice", h->file->path,
                        tensor_name_shown(key, name));
        }
        map_put(&h->metadata_keys, key, NULL);
        push_metadata(h, key, value);
    }
    return s->problem == NULL ? OK : header_wrong(h, "__metadata__");
}

static status parse_dtype(struct header *h, struct tensor_entry *e)
{
    struct json_string text;
    const char *name;

    if (!json_text(&h->scan, &text)) {
        return tensor_wrong(h, e->name, "dtype");
    }
    name = json_string_make(h->arena, &text);
    e->dtype = name == NULL ? DT_NONE : dtype_find(name);
    if (e->dtype == DT_NONE) {
        char tensor[SHOWN_NAME], dtype[SHOWN_NAME];

        return fail(
            ERR_FORMAT,
            "%s: tensor \"%s\": there is no dtype \"%s\" (known are F64, F32, F16, BF16, I64, ...)",
            h->file->path, tensor_name_shown(e->name, tensor),
            tensor_name_shown(name == NULL ? "" : name, dtype));
    }
    return OK;
}

static status parse_shape(struct header *h, struct tensor_entry *e)
{
    struct json_scan *s = &h->scan;
    int64_t *shape = NULL;
    int room = 0;

    if (!json_open(s, '[')) {
        return tensor_wrong(h, e->name, "shape");
    }
    for (e->rank = 0; json_more(s, ']', (size_t)e->rank); e->rank++) {
        if (e->rank == room) {
            int64_t *more;

            room = room == 0 ? 4 : 2 * room;
            more = arena_take_array(h->arena, (size_t)room, sizeof *more);
            if (shape != NULL) {
                memcpy(more, shape, (size_t)e->rank * sizeof *more);
            }
            shape = more;
        }
        if (!json_whole(s, &shape[e->rank])) {
            return tensor_wrong(h, e->name, "shape");
        }
        if (shape[e->rank] < 0) {
            char name[SHOWN_NAME];

            return fail(ERR_FORMAT, "%s: tensor \"%s\": dimension %d has the negative extent %lld",
                        h->file->path, tensor_name_shown(e->name, name), e->rank,
                        (long long)shape[e->rank]);
        }
    }
    e->shape = shape != NULL ? shape : arena_take(h->arena, sizeof *shape);
    return s->problem == NULL ? OK : tensor_wrong(h, e->name, "shape");
}

/* Leaves the offsets relative to the data, as the header has them. */
static status parse_offsets(struct header *h, struct tensor_entry *e)
{
    struct json_scan *s = &h->scan;
    int64_t offset[2] = { 0, 0 };
    size_t seen = 0;

    if (!json_open(s, '[')) {
        return tensor_wrong(h, e->name, "data_offsets");
    }
    for (; json_more(s, ']', seen); seen++) {
        if (seen == 2 || !json_whole(s, &offset[seen])) {
            (void)json_stop(s, "two offsets must stand here, begin and end");
            return tensor_wrong(h, e->name, "data_offsets");
        }
    }
    if (s->problem != NULL || seen != 2) {
        (void)json_stop(s, "two offsets must stand before this place, begin and end");
        return tensor_wrong(h, e->name, "data_offsets");
    }
    if (offset[0] < 0 || offset[1] < offset[0]) {
        char name[SHOWN_NAME];

        return fail(
            ERR_FORMAT,
            "%s: tensor \"%s\": data_offsets [%lld, %lld] must be 0 or more and must not fall",
            h->file->path, tensor_name_shown(e->name, name), (long long)offset[0],
            (long long)offset[1]);
    }
    e->begin = (uint64_t)offset[0];
    e->end = (uint64_t)offset[1];
    return OK;
}

/* The number of elements, and whether they fill the bytes of the tensor exactly. */
static status check_extent(const struct header *h, struct tensor_entry *e)
{
    char name[SHOWN_NAME];
    uint64_t count = 1, bits;
    bool empty = false;

    /* An extent of 0 does not excuse the others: whoever forms strides would overflow. */
    for (int i = 0; i < e->rank; i++) {
        empty = empty || e->shape[i] == 0;
        if (__builtin_mul_overflow(count, (uint64_t)(e->shape[i] == 0 ? 1 : e->shape[i]), &count) ||
            count > INT64_MAX) {
            return fail(ERR_FORMAT, "%s: tensor \"%s\": the product of its shape is beyond 2^63",
                        h->file->path, tensor_name_shown(e->name, name));
        }
    }
    count = empty ? 0 : count;
    if (__builtin_mul_overflow(count, (uint64_t)dtype_bits(e->dtype), &bits)) {
        return fail(ERR_FORMAT, "%s: tensor \"%s\": its size is beyond 2^64 bits", h->file->path,
                    tensor_name_shown(e->name, name));
    }
    if (bits % 8 != 0) {
        return fail(ERR_FORMAT,
                    "%s: tensor \"%s\": %llu elements of %s are no whole number of bytes",
                    h->file->path, tensor_name_shown(e->name, name), (unsigned long long)count,
                    dtype_name(e->dtype));
    }
    if (e->end - e->begin != bits / 8) {
        return fail(
            ERR_FORMAT,
            "%s: tensor \"%s\": data_offsets span %llu bytes, its shape and dtype %s ask for %llu",
            h->file->path, tensor_name_shown(e->name, name),
            (unsigned long long)(e->end - e->begin), dtype_name(e->dtype),
            (unsigned long long)(bits / 8));
    }
    e->count = (int64_t)count;
    return OK;
}

/* The fields of a tensor, in any order, each once. */
static status parse_tensor(struct header *h, struct tensor_entry *e)
{
    static const char *const fields[3] = { "dtype", "shape", "data_offsets" };
    static status (*const parse[3])(
        struct header *, struct tensor_entry *) = { parse_dtype, parse_shape, parse_offsets };
    struct json_scan *s = &h->scan;
    bool has[3] = { false, false, false };
    char name[SHOWN_NAME];
    size_t seen = 0;

    if (!json_open(s, '{')) {
        return tensor_wrong(h, e->name, "its description");
    }
    for (; json_more(s, '}', seen); seen++) {
        struct json_string key;
        int field = 0;

        if (!json_key(s, &key)) {
            return tensor_wrong(h, e->name, "its description");
        }
        while (field < 3 && !json_string_is(&key, fields[field])) {
            field++;
        }
        if (field == 3) {
            (void)json_stop(s, "a field other than dtype, shape and data_offsets");
            return tensor_wrong(h, e->name, "its description");
        }
        if (has[field]) {
            return fail(ERR_FORMAT, "%s: tensor \"%s\": %s stands twice", h->file->path,
                        tensor_name_shown(e->name, name), fields[field]);
        }
        has[field] = true;
        TRY(parse[field](h, e));
    }
    if (s->problem != NULL) {
        return tensor_wrong(h, e->name, "its description");
    }
    for (int field = 0; field < 3; field++) {
        if (!has[field]) {
            return fail(ERR_FORMAT, "%s: tensor \"%s\": %s is missing", h->file->path,
                        tensor_name_shown(e->name, name), fields[field]);
        }
    }
    return check_extent(h, e);
}

static struct tensor_entry *push_entry(struct header *h)
{
    struct tensor_file *f = h->file;

    if (f->count == h->room) {
        struct tensor_entry *more;

        h->room = h->room == 0 ? 16 : 2 * h->room;
        more = arena_take_array(h->arena, h->room, sizeof *more);
        if (f->count > 0) {
            memcpy(more, f->entries, f->count * sizeof *more);
        }
        f->entries = more;
    }
    return &f->entries[f->count++];
}

static status parse_object(struct header *h)
{
    struct json_scan *s = &h->scan;
    size_t seen = 0;

    if (s->at == s->end || *s->at != '{') {
        (void)json_stop(s, "the header must begin with {");
    }
    if (!json_open(s, '{')) {
        return header_wrong(h, "");
    }
    for (; json_more(s, '}', seen); seen++) {
        struct json_string key;
        struct tensor_entry *e;
        char name[SHOWN_NAME];

        if (!json_key(s, &key)) {
            return header_wrong(h, "a tensor's name");
        }
        if (json_string_is(&key, "__metadata__")) {
            TRY(parse_metadata(h));
            continue;
        }
        e = push_entry(h);
        e->name = json_string_make(h->arena, &key);
        if (e->name == NULL) {
            return fail(ERR_FORMAT, "%s: a tensor's name holds the character U+0000",
                        h->file->path);
        }
        if (map_find(&h->file->by_name, e->name, NULL)) {
            return fail(ERR_FORMAT, "%s: tensor \"%s\" stands twice in the header", h->file->path,
                        tensor_name_shown(e->name, name));
        }
        map_put(&h->file->by_name, e->name, NULL);
        TRY(parse_tensor(h, e));
    }
    if (s->problem != NULL) {
        return header_wrong(h, "");
    }
    while (s->at < s->end && *s->at == ' ') {
        s->at++;
    }
    if (s->at < s->end) {
        (void)json_stop(s, "only spaces may follow the object");
        return header_wrong(h, "");
    }
    return OK;
}

static int compare_places(const void *a, const void *b)
{
    const struct tensor_entry *x = a, *y = b;

    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    if (x->end != y->end) {
        return x->end < y->end ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

/* Sorts the tensors by place: they follow each other, and the last ends with the file. Offsets
 * become absolute. */
static status check_places(struct tensor_file *f)
{
    uint64_t at = 0, data_size = f->size - f->data_begin;
    char name[SHOWN_NAME];

    if (f->count > 0) {
        qsort(f->entries, f->count, sizeof *f->entries, compare_places);
    }
    for (size_t i = 0; i < f->count; i++) {
        struct tensor_entry *e = &f->entries[i];

        if (e->end > data_size) {
            return fail(ERR_FORMAT,
                        "%s: tensor \"%s\" ends at byte %llu of the data, the file at byte %llu: "
                        "it was cut off",
                        f->path, tensor_name_shown(e->name, name), (unsigned long long)e->end,
                        (unsigned long long)data_size);
        }
        if (e->begin != at) {
            return fail(ERR_FORMAT,
                        "%s: tensor \"%s\" begins at byte %llu of the data, the one before it ends "
                        "at %llu: %s",
                        f->path, tensor_name_shown(e->name, name), (unsigned long long)e->begin,
                        (unsigned long long)at,
                        e->begin > at ? "bytes between belong to none" : "they overlap");
        }
        at = e->end;
        e->begin += f->data_begin;
        e->end += f->data_begin;
        map_put(&f->by_name, e->name, e);
    }
    if (at != data_size) {
        return fail(ERR_FORMAT,
                    "%s: the last tensor ends at byte %llu of the data, the file at byte %llu",
                    f->path, (unsigned long long)at, (unsigned long long)data_size);
    }
    return OK;
}

status tensor_header_check_length(const char *path, uint64_t length, uint64_t file_size)
{
    if (length > HEADER_LIMIT) {
        return fail(ERR_FORMAT,
                    "%s: its first 8 bytes give a header of %llu bytes, the limit is 100,000,000: "
                    "no safetensors file",
                    path, (unsigned long long)length);
    }
    if (length > file_size - 8) {
        return fail(
            ERR_FORMAT,
            "%s: its first 8 bytes give a header of %llu bytes, only %llu follow: it was cut off",
            path, (unsigned long long)length, (unsigned long long)(file_size - 8));
    }
    return OK;
}

status tensor_header_parse(struct tensor_file *f, struct arena *a, const char *path,
                           const char *header, size_t header_length, uint64_t file_size)
{
    struct header h = { .file = f, .arena = a };
    status s = OK;

    check(file_size >= 8, "%s: a file of %llu bytes has no header", path,
          (unsigned long long)file_size);
    *f = (struct tensor_file){ .path = arena_text(a, path), .fd = -1, .size = file_size };
    TRY(tensor_header_check_length(path, header_length, file_size));
    f->data_begin = 8 + (uint64_t)header_length;
    json_scan_init(&h.scan, header, header_length);
    s = parse_object(&h);
    if (s == OK) {
        s = check_places(f);
    }
    map_release(&h.metadata_keys);
    if (s != OK) {
        map_release(&f->by_name);
    }
    return s;
}
