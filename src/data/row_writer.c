/* Rows are formatted into a buffer of about 1 MiB; a file ends with the row that takes it past
 * 64 MB. */
#include "data/row_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"

enum { BUFFER = 1 << 20, FILE_SIZE = 64000000, FILE_LIMIT = 99999 };

status row_writer_open(struct row_writer *w, const char *folder, int64_t width, bool documents)
{
    *w = (struct row_writer){
        .folder = strdup(folder), .width = width, .documents = documents, .fd = -1
    };
    w->bytes = malloc((size_t)width);
    w->documents_of = malloc((size_t)width * sizeof *w->documents_of);
    check(w->folder != NULL && w->bytes != NULL && w->documents_of != NULL,
          "no memory for a row of %lld tokens", (long long)width);
    return folder_make(folder);
}

static status open_next(struct row_writer *w)
{
    if (w->number > FILE_LIMIT) {
        return fail(ERR_UNSUPPORTED, "%s: more than %d files of 64 MB; give the inputs in parts",
                    w->folder, FILE_LIMIT + 1);
    }
    text_clear(&w->path);
    text_add_format(&w->path, "%s/rows-%05d.json", w->folder, w->number);
    w->fd = open(text_of(&w->path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        return fail(ERR_IO, "%s: %s", text_of(&w->path), strerror(errno));
    }
    w->number++;
    w->written = 0;
    return OK;
}

static status flush_buffer(struct row_writer *w)
{
    TRY(file_write_at(w->fd, text_of(&w->path), w->buffer.data, w->buffer.length, w->written));
    w->written += w->buffer.length;
    text_clear(&w->buffer);
    return OK;
}

static status close_file(struct row_writer *w)
{
    int fd = w->fd;

    if (fd < 0) {
        return OK;
    }
    if (w->buffer.length > 0) {
        TRY(flush_buffer(w));
    }
    TRY(file_sync(fd, text_of(&w->path)));
    w->fd = -1;
    return close(fd) == 0 ? OK : fail(ERR_IO, "%s: %s", text_of(&w->path), strerror(errno));
}

static void add_number(struct text *t, int64_t value, bool first)
{
    char digits[24];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    if (!first) {
        digits[--at] = ',';
    }
    text_add_n(t, digits + at, sizeof digits - at);
}

static void add_row(const struct row_writer *w, struct text *t)
{
    text_add(t, "{\"input_ids\":[");
    for (int64_t i = 0; i < w->filled; i++) {
        add_number(t, w->bytes[i], i == 0);
    }
    text_add(t, "],\"attention_mask\":[");
    for (int64_t i = 0; i < w->filled; i++) {
        add_number(t, 1, i == 0);
    }
    text_add(t, "],\"labels\":[");
    for (int64_t i = 0; i < w->filled; i++) {
        add_number(t, w->bytes[i], i == 0);
    }
    if (w->documents) {
        text_add(t, "],\"document_ids\":[");
        for (int64_t i = 0; i < w->filled; i++) {
            add_number(t, w->documents_of[i], i == 0);
        }
    }
    text_add(t, "]}\n");
}

status row_writer_end_row(struct row_writer *w)
{
    if (w->filled == 0) {
        return OK;
    }
    if (w->fd < 0) {
        TRY(open_next(w));
    }
    add_row(w, &w->buffer);
    w->rows++;
    w->tokens += w->filled;
    w->filled = 0;
    if (w->buffer.length >= BUFFER) {
        TRY(flush_buffer(w));
    }
    return w->written >= FILE_SIZE ? close_file(w) : OK;
}

status row_writer_bytes(struct row_writer *w, const unsigned char *bytes, size_t length,
                        int64_t document)
{
    for (size_t at = 0; at < length;) {
        size_t room = (size_t)(w->width - w->filled), now = length - at < room ? length - at : room;

        memcpy(w->bytes + w->filled, bytes + at, now);
        for (size_t i = 0; i < now; i++) {
            w->documents_of[(size_t)w->filled + i] = document;
        }
        w->filled += (int64_t)now;
        at += now;
        if (w->filled == w->width) {
            TRY(row_writer_end_row(w));
        }
    }
    return OK;
}

status row_writer_finish(struct row_writer *w)
{
    TRY(row_writer_end_row(w));
    TRY(close_file(w));
    return folder_sync(w->folder);
}

void row_writer_close(struct row_writer *w)
{
    if (w->folder != NULL && w->fd >= 0) {
        close(w->fd);
    }
    free(w->folder);
    free(w->bytes);
    free(w->documents_of);
    text_release(&w->path);
    text_release(&w->buffer);
    *w = (struct row_writer){ .fd = -1 };
}
