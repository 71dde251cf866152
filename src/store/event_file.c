#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "store/crc32c.h"
#include "store/event_file.h"

static const char name_head[] = "events.out.tfevents.";

/* ---- bytes ---- */

static void add_little_endian(struct text *t, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        text_add_char(t, (char)(x >> (8 * i) & 255));
    }
}

static void add_varint(struct text *t, uint64_t x)
{
    for (; x >= 128; x >>= 7) {
        text_add_char(t, (char)((x & 127) | 128));
    }
    text_add_char(t, (char)x);
}

/* Kinds of a field on the wire. */
enum { WIRE_VARINT = 0, WIRE_EIGHT = 1, WIRE_BYTES = 2, WIRE_FOUR = 5 };

static void add_key(struct text *t, int field, int wire)
{
    add_varint(t, (uint64_t)(field << 3 | wire));
}

static void add_bytes(struct text *t, int field, const void *bytes, size_t length)
{
    add_key(t, field, WIRE_BYTES);
    add_varint(t, length);
    text_add_n(t, bytes, length);
}

/* ---- records ---- */

/* What every event begins with. A step of 0 is the field's default and left out. */
static void event_begin(struct text *event, int64_t step)
{
    double now = clock_wall_seconds();
    uint64_t bits;

    memcpy(&bits, &now, sizeof bits);
    add_key(event, 1, WIRE_EIGHT);
    add_little_endian(event, bits, 8);
    if (step != 0) {
        add_key(event, 2, WIRE_VARINT);
        add_varint(event, (uint64_t)step);
    }
}

static void event_end(struct event_file *f, struct text *event)
{
    struct text head = { 0 };

    add_little_endian(&head, event->length, 8);
    add_little_endian(&head, crc32c_masked(head.data, 8), 4);
    text_add_n(&f->pending, head.data, head.length);
    text_add_n(&f->pending, event->data, event->length);
    add_little_endian(&f->pending, crc32c_masked(event->data, event->length), 4);
    text_release(&head);
    text_release(event);
}

static void add_version(struct event_file *f)
{
    static const char version[] = "brain.Event:2";
    struct text event = { 0 };

    event_begin(&event, 0);
    add_bytes(&event, 3, version, sizeof version - 1);
    event_end(f, &event);
}

void event_file_add_restart(struct event_file *f, int64_t step)
{
    static const char start[] = { 1 << 3 | WIRE_VARINT, 1 }; /* status: START */
    struct text event = { 0 };

    event_begin(&event, step);
    add_bytes(&event, 7, start, sizeof start);
    event_end(f, &event);
}

void event_file_add_scalar(struct event_file *f, int64_t step, const char *tag, double value)
{
    struct text pair = { 0 }, summary = { 0 }, event = { 0 };
    float kept = (float)value;
    uint32_t bits;

    memcpy(&bits, &kept, sizeof bits);
    add_bytes(&pair, 1, tag, strlen(tag));
    add_key(&pair, 2, WIRE_FOUR);
    add_little_endian(&pair, bits, 4);
    add_bytes(&summary, 1, pair.data, pair.length);
    event_begin(&event, step);
    add_bytes(&event, 5, summary.data, summary.length);
    event_end(f, &event);
    text_release(&pair);
    text_release(&summary);
}

/* ---- the file ---- */

/* The second in an event file's name; -1 if it is none of ours to order. */
static int64_t second_of(const char *name)
{
    const char *digits;
    char *end;
    long long second;

    if (!text_starts(name, name_head)) {
        return -1;
    }
    digits = name + sizeof name_head - 1;
    second = strtoll(digits, &end, 10);
    /* Ten digits last for 260 years; a longer number is no time. */
    return end == digits || end - digits > 10 || second < 0 ? -1 : second;
}

static status choose_second(struct event_file *f, struct arena *a, const char *folder, int64_t *out)
{
    char **names;
    size_t count;

    *out = (int64_t)clock_wall_seconds();
    TRY(folder_list(a, folder, &names, &count));
    for (size_t i = 0; i < count; i++) {
        int64_t second = second_of(names[i]);

        f->has_older = f->has_older || second >= 0;
        *out = second >= *out ? second + 1 : *out;
    }
    return OK;
}

/* A host may be called anything; a file may not. */
static void host_of(char out[256])
{
    if (gethostname(out, 256) != 0) {
        strcpy(out, "localhost");
    }
    out[255] = 0;
    for (char *c = out; *c != 0; c++) {
        if (!isalnum((unsigned char)*c) && strchr("-_.", *c) == NULL) {
            *c = '-';
        }
    }
}

static status file_make(struct event_file *f, struct arena *a, const char *folder)
{
    char host[256];
    int64_t second;

    TRY(choose_second(f, a, folder, &second));
    host_of(host);
    for (int n = 0; n < 1000; n++) {
        f->path = path_join(a, folder,
                            arena_format(a, "%s%010lld.%s.%ld.%d", name_head, (long long)second,
                                         host, (long)getpid(), n));
        f->fd = open(f->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (f->fd >= 0 || errno != EEXIST) {
            break;
        }
    }
    return f->fd >= 0 ? OK : fail(ERR_IO, "%s: cannot be made: %s", f->path, strerror(errno));
}

status event_file_open(struct event_file *f, struct arena *a, const char *folder)
{
    status s;

    *f = (struct event_file){ .fd = -1 };
    TRY(folder_make(folder));
    TRY(file_make(f, a, folder));
    add_version(f);
    s = event_file_flush(f);
    if (s != OK) {
        unlink(f->path); /* it is ours and holds nothing */
        event_file_close(f);
    }
    return s;
}

void event_file_close(struct event_file *f)
{
    if (f->path != NULL && f->fd >= 0) {
        close(f->fd);
    }
    text_release(&f->pending);
    *f = (struct event_file){ .fd = -1 };
}

status event_file_flush(struct event_file *f)
{
    status s = file_write_at(f->fd, f->path, f->pending.data, f->pending.length, f->length);

    if (s == OK) {
        f->length += f->pending.length;
    } else if (ftruncate(f->fd, (off_t)f->length) != 0) {
        s = fail_while(s, "writing events; the last record is torn until the next one is written");
    }
    text_clear(&f->pending);
    return s;
}
