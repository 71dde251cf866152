#include "support/event_log.h"
#include <string.h>
#include "base/file.h"
#include "base/text.h"
#include "store/crc32c.h"

/* ---- protobuf ---- */

struct span {
    const unsigned char *at, *end;
};

/* A field: its number and kind, and its value as a number or as bytes. */
struct field {
    int number, wire;
    uint64_t value;
    struct span bytes;
};

static bool take_little_endian(struct span *s, int bytes, uint64_t *out)
{
    *out = 0;
    if (s->end - s->at < bytes) {
        return false;
    }
    for (int i = 0; i < bytes; i++) {
        *out |= (uint64_t)s->at[i] << (8 * i);
    }
    s->at += bytes;
    return true;
}

static bool take_varint(struct span *s, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 70 && s->at < s->end; shift += 7) {
        unsigned char b = *s->at++;

        *out |= shift < 64 ? (uint64_t)(b & 127) << shift : 0;
        if (b < 128) {
            return true;
        }
    }
    return false;
}

/* False at the end, and at what is no field (then *whole is false). */
static bool take_field(struct span *s, struct field *f, bool *whole)
{
    uint64_t key;

    if (s->at == s->end) {
        return false;
    }
    *f = (struct field){ 0 };
    *whole = take_varint(s, &key) && key >> 3 > 0 && key >> 3 < 1 << 29;
    f->number = (int)(key >> 3 & 0x1fffffff);
    f->wire = (int)(key & 7);
    if (*whole && f->wire == 0) {
        *whole = take_varint(s, &f->value);
    } else if (*whole && (f->wire == 1 || f->wire == 5)) {
        *whole = take_little_endian(s, f->wire == 1 ? 8 : 4, &f->value);
    } else if (*whole) {
        *whole =
            f->wire == 2 && take_varint(s, &f->value) && f->value <= (uint64_t)(s->end - s->at);
        if (*whole) {
            f->bytes = (struct span){ s->at, s->at + f->value };
            s->at += f->value;
        }
    }
    return *whole;
}

static double double_of(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static double float_of(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float x;

    memcpy(&x, &low, sizeof x);
    return (double)x;
}

static const char *text_in(struct arena *a, struct span s)
{
    return arena_text_n(a, (const char *)s.at, (size_t)(s.end - s.at));
}

/* ---- events ---- */

struct event {
    double wall_time;
    int64_t step;
    const char *version;
    bool restart;
    struct span summary;
};

static bool read_event(struct event *e, struct arena *a, struct span s)
{
    struct field f, in;
    bool whole = true, inner = true;

    *e = (struct event){ 0 };
    while (take_field(&s, &f, &whole)) {
        if (f.number == 1 && f.wire == 1) {
            e->wall_time = double_of(f.value);
        } else if (f.number == 2 && f.wire == 0) {
            e->step = (int64_t)f.value;
        } else if (f.number == 3 && f.wire == 2) {
            e->version = text_in(a, f.bytes);
        } else if (f.number == 5 && f.wire == 2) {
            e->summary = f.bytes;
        } else if (f.number == 7 && f.wire == 2) {
            while (take_field(&f.bytes, &in, &inner)) {
                e->restart = e->restart || (in.number == 1 && in.value == 1);
            }
        }
    }
    return whole && inner;
}

/* TensorProto: 1 type (1 float, 2 double), 4 the raw bytes, 5 floats, 6 doubles. */
static bool read_tensor(struct span s, double *out)
{
    struct field f;
    bool whole = true, found = false, is_double = false;

    while (take_field(&s, &f, &whole)) {
        uint64_t bits;

        if (f.number == 1) {
            is_double = f.value == 2;
        } else if (f.number >= 4 && f.number <= 6) {
            bool wide = f.number == 6 || (f.number == 4 && is_double);

            bits = f.value;
            found = f.wire != 2 || take_little_endian(&f.bytes, wide ? 8 : 4, &bits);
            *out = wide ? double_of(bits) : float_of(bits);
        }
    }
    return whole && found;
}

/* SummaryMetadata: 1 PluginData { 1 name }. */
static bool is_scalar_plugin(struct span s)
{
    struct field f, in;
    bool whole = true;

    while (take_field(&s, &f, &whole)) {
        while (f.number == 1 && f.wire == 2 && take_field(&f.bytes, &in, &whole)) {
            if (in.number == 1 && in.wire == 2 && in.bytes.end - in.bytes.at == 7 &&
                memcmp(in.bytes.at, "scalars", 7) == 0) {
                return true;
            }
        }
    }
    return false;
}

static void keep(struct event_log *l, struct arena *a, struct event_scalar scalar)
{
    if (l->count == l->room) {
        size_t room = 2 * l->room + 64;
        struct event_scalar *more = arena_take_array(a, room, sizeof *more);

        if (l->count > 0) {
            memcpy(more, l->scalars, l->count * sizeof *more);
        }
        l->scalars = more;
        l->room = room;
    }
    l->scalars[l->count++] = scalar;
}

/* Only a tag's first tensor carries the plugin's name. */
static void read_value(struct event_log *l, struct arena *a, const struct event *e, struct span s)
{
    struct event_scalar scalar = { .step = e->step, .wall_time = e->wall_time };
    struct field f;
    bool whole = true, found = false, known = false, tensor = false;

    while (take_field(&s, &f, &whole)) {
        if (f.number == 1 && f.wire == 2) {
            scalar.tag = text_in(a, f.bytes);
        } else if (f.number == 2 && f.wire == 5) {
            scalar.value = float_of(f.value);
            found = true;
        } else if (f.number == 8 && f.wire == 2) {
            tensor = read_tensor(f.bytes, &scalar.value);
        } else if (f.number == 9 && f.wire == 2) {
            known = is_scalar_plugin(f.bytes);
        }
    }
    if (!whole || scalar.tag == NULL) {
        return;
    }
    for (size_t i = 0; i < l->count && tensor && !known; i++) {
        known = strcmp(l->scalars[i].tag, scalar.tag) == 0;
    }
    if (found || (tensor && known)) {
        keep(l, a, scalar);
    }
}

static void restart(struct event_log *l, int64_t step)
{
    size_t left = 0;

    for (size_t i = 0; i < l->count; i++) {
        if (l->scalars[i].step < step) {
            l->scalars[left++] = l->scalars[i];
        }
    }
    l->count = left;
}

static bool take_event(struct event_log *l, struct event_log_file *file, struct arena *a,
                       struct span payload)
{
    struct event e;
    struct field f;
    bool whole = true;

    if (!read_event(&e, a, payload)) {
        return false;
    }
    if (file->records == 0) {
        file->version = e.version;
    }
    if (e.restart) {
        restart(l, e.step);
    }
    while (e.summary.at != NULL && take_field(&e.summary, &f, &whole)) {
        if (f.number == 1 && f.wire == 2) {
            read_value(l, a, &e, f.bytes);
        }
    }
    return whole;
}

/* ---- frames ---- */

static void read_file(struct event_log *l, struct event_log_file *file, struct arena *a,
                      const unsigned char *bytes, size_t size)
{
    struct span s = { bytes, bytes + size };

    while (s.at < s.end && file->damage == NULL) {
        const unsigned char *head = s.at;
        size_t at = (size_t)(head - bytes);
        uint64_t length, sum, body_sum;

        if (!take_little_endian(&s, 8, &length) || !take_little_endian(&s, 4, &sum)) {
            file->damage =
                arena_format(a, "%zu bytes at %zu, too few for a frame's head", size - at, at);
        } else if (sum != crc32c_masked(head, 8)) {
            file->damage = arena_format(a, "wrong check sum of the length at %zu", at);
        } else if ((size_t)(s.end - s.at) < 4 || length > (size_t)(s.end - s.at) - 4) {
            file->damage = arena_format(a, "record of %llu bytes at %zu reaches beyond the end",
                                        (unsigned long long)length, at);
        } else {
            struct span payload = { s.at, s.at + length };

            s.at += length;
            if (!take_little_endian(&s, 4, &body_sum) ||
                body_sum != crc32c_masked(payload.at, (size_t)length)) {
                file->damage = arena_format(a, "wrong check sum of the record at %zu", at);
            } else if (!take_event(l, file, a, payload)) {
                file->damage = arena_format(a, "the record at %zu is no event", at);
            } else {
                file->records++;
            }
        }
    }
}

status event_log_read(struct event_log *out, struct arena *a, const char *folder)
{
    char **names;
    size_t count;

    *out = (struct event_log){ 0 };
    TRY(folder_list(a, folder, &names, &count));
    out->files = arena_take_array(a, count + 1, sizeof *out->files);
    for (size_t i = 0; i < count; i++) {
        struct event_log_file *file = &out->files[out->file_count];
        char *bytes;

        if (strstr(names[i], "tfevents") == NULL) {
            continue;
        }
        *file = (struct event_log_file){ .name = names[i] };
        TRY(file_read(a, path_join(a, folder, names[i]), (size_t)1 << 30, &bytes, &file->bytes));
        read_file(out, file, a, (const unsigned char *)bytes, file->bytes);
        out->file_count++;
    }
    return OK;
}

const struct event_scalar *event_log_find(const struct event_log *l, const char *tag, int64_t step)
{
    for (size_t i = 0; i < l->count; i++) {
        if (l->scalars[i].step == step && strcmp(l->scalars[i].tag, tag) == 0) {
            return &l->scalars[i];
        }
    }
    return NULL;
}
