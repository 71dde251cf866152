/*
 * Rows in .json files: where each lies is found once, a row is read and parsed when it is asked
 * for.
 *
 *   {"input_ids": ...}\n            lines: one object each; blank lines between are passed over
 *   [{...}, {...}]                  one array, if the first byte of the file that is not white space is its bracket
 *
 *   places   | begin, length, line | begin, length, line | ...     16 bytes a row, over all files in order
 *   files    | path, fd, first place | ...
 *
 * The search looks for line ends, or for brackets outside of strings; whether a row is right is for
 * row_parse to say. Files are read with pread and not mapped: a file that shrinks meanwhile is an
 * error and not a signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "data/corpus_source.h"
#include "data/row_json.h"

enum {
    PIECE = 1 << 20,     /* bytes read at a time in the search */
    ROW_LIMIT = 1 << 30, /* bytes of a row's text */
    KEPT_OPEN = 64       /* files of a source that stay open; the others are opened for each row */
};

struct row_place {
    uint64_t begin;  /* in the file; of the line, or of the element's bracket */
    uint32_t length; /* bytes */
    uint32_t line;   /* from 1; of an array the element */
};

struct json_file {
    char *path;
    int fd; /* -1: opened when needed */
    uint64_t size;
    size_t first; /* its first place */
    bool is_array;
};

struct json_source {
    struct json_file *files;
    size_t file_count;
    struct row_place *places;
    size_t count, room;
};

/* What the functions of one search pass on. */
struct search {
    struct json_source *own;
    const struct json_file *file;
    int fd;
    char *piece;     /* [PIECE] */
    uint64_t origin; /* behind a byte order mark */
};

/* Line and column of a byte of the file, both from 1, by counting line ends. Only for messages. */
static void place_of(int fd, const char *path, uint64_t offset, uint64_t *line, uint64_t *column)
{
    char *piece = malloc(PIECE);
    uint64_t begin = 0;

    check(piece != NULL, "no memory for a piece of a file");
    *line = 1;
    for (uint64_t at = 0; at < offset;) {
        size_t length = offset - at < PIECE ? (size_t)(offset - at) : PIECE;

        if (file_read_at(fd, path, piece, length, at) != OK) {
            break;
        }
        for (const char *p = piece; (p = memchr(p, '\n', (size_t)(piece + length - p))) != NULL;
             p++) {
            (*line)++;
            begin = at + (uint64_t)(p - piece) + 1;
        }
        at += length;
    }
    *column = offset - begin + 1;
    free(piece);
}

static bool is_white(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static status push_place(struct search *w, uint64_t begin, uint64_t end, uint64_t line)
{
    struct json_source *own = w->own;

    if (end - begin > ROW_LIMIT) {
        return fail(ERR_FORMAT, "%s:%llu: row %zu has more than 1 GiB of text", w->file->path,
                    (unsigned long long)line, own->count);
    }
    if (line > UINT32_MAX) {
        return fail(ERR_FORMAT, "%s: has more than 2^32 lines; split it", w->file->path);
    }
    if (own->count == own->room) {
        own->room = own->room == 0 ? 1024 : 2 * own->room;
        own->places = reallocarray(own->places, own->room, sizeof *own->places);
        check(own->places != NULL, "no memory for the places of %zu rows", own->room);
    }
    own->places[own->count++] = (struct row_place){ .begin = begin,
                                                    .length = (uint32_t)(end - begin),
                                                    .line = (uint32_t)line };
    return OK;
}

/* What stands at the byte, for a message: printable or as a number. */
static const char *byte_shown(char c, char out[16])
{
    snprintf(out, 16, c > 0x20 && c < 0x7f ? "%c" : "byte 0x%02x", (unsigned char)c);
    return out;
}

static status search_lines(struct search *w)
{
    uint64_t line = 1, line_begin = w->origin;
    bool has_row = false; /* this line holds more than white space */

    for (uint64_t at = w->origin; at < w->file->size; at += PIECE) {
        uint64_t left = w->file->size - at;
        size_t length = left < PIECE ? (size_t)left : PIECE;
        const char *p = w->piece, *end = p + length;

        TRY(file_read_at(w->fd, w->file->path, w->piece, length, at));
        while (p < end) {
            const char *newline;

            if (!has_row && is_white(*p) && *p != '\n') {
                p++;
                continue;
            }
            if (!has_row && *p != '\n' && *p != '{') {
                char shown[16];

                return fail(ERR_FORMAT,
                            "%s:%llu:%llu: row %zu: every line must hold one object, { ... } "
                            "(found: %s); rows that "
                            "span lines belong into one array, [ ... ]",
                            w->file->path, (unsigned long long)line,
                            (unsigned long long)(at + (uint64_t)(p - w->piece) - line_begin + 1),
                            w->own->count, byte_shown(*p, shown));
            }
            has_row = has_row || *p == '{';
            newline = memchr(p, '\n', (size_t)(end - p));
            if (newline == NULL) {
                break;
            }
            p = newline + 1;
            if (has_row) {
                TRY(push_place(w, line_begin, at + (uint64_t)(newline - w->piece), line));
            }
            has_row = false;
            line++;
            line_begin = at + (uint64_t)(p - w->piece);
        }
    }
    return has_row ? push_place(w, line_begin, w->file->size, line) : OK;
}

/* The search in an array is a machine over bytes. */
enum array_state { FIRST, ELEMENT, STRING, ESCAPE, BEHIND, NEXT, CLOSED };

struct array_search {
    enum array_state state;
    uint64_t begin, depth, element;
};

static status array_wrong(struct search *w, uint64_t offset, const char *what, const char *found)
{
    uint64_t line, column;

    place_of(w->fd, w->file->path, offset, &line, &column);
    return fail(ERR_FORMAT, "%s:%llu:%llu: row %zu: %s (found: %s)", w->file->path,
                (unsigned long long)line, (unsigned long long)column, w->own->count, what, found);
}

/* One byte between elements. */
static status array_between(struct search *w, struct array_search *m, char c, uint64_t offset)
{
    char shown[16];

    if (is_white(c)) {
        return OK;
    }
    if (c == '{' && (m->state == FIRST || m->state == NEXT)) {
        m->state = ELEMENT;
        m->begin = offset;
        m->depth = 1;
        m->element++;
        return OK;
    }
    if (c == ']' && (m->state == FIRST || m->state == BEHIND)) {
        m->state = CLOSED;
        return OK;
    }
    if (c == ',' && m->state == BEHIND) {
        m->state = NEXT;
        return OK;
    }
    return array_wrong(w, offset,
                       m->state == CLOSED ? "nothing may follow the array"
                       : m->state == BEHIND
                           ? "a comma or ] must follow an element of the array"
                           : "every element of the array must be an object, { ... }",
                       byte_shown(c, shown));
}

/* One byte inside an element: strings hide brackets. */
static status array_inside(struct search *w, struct array_search *m, char c, uint64_t offset)
{
    if (m->state == STRING) {
        m->state = c == '"' ? ELEMENT : c == '\\' ? ESCAPE : STRING;
    } else if (m->state == ESCAPE) {
        m->state = STRING;
    } else if (c == '"') {
        m->state = STRING;
    } else if (c == '{' || c == '[') {
        m->depth++;
    } else if (c == '}' || c == ']') {
        m->depth--;
        if (m->depth == 0) {
            m->state = BEHIND;
            return push_place(w, m->begin, offset + 1, m->element);
        }
    }
    return OK;
}

static status search_array(struct search *w, uint64_t bracket)
{
    struct array_search m = { .state = FIRST };

    for (uint64_t at = bracket + 1; at < w->file->size; at += PIECE) {
        uint64_t left = w->file->size - at;
        size_t length = left < PIECE ? (size_t)left : PIECE;

        TRY(file_read_at(w->fd, w->file->path, w->piece, length, at));
        for (size_t i = 0; i < length; i++) {
            bool inside = m.state == ELEMENT || m.state == STRING || m.state == ESCAPE;

            TRY((inside ? array_inside : array_between)(w, &m, w->piece[i], at + i));
        }
    }
    return m.state == CLOSED
               ? OK
               : array_wrong(w, w->file->size, "the array is not closed", "the end of the file");
}

/* Finds the first byte that is not white space; `offset` is the file's size if there is none. */
static status find_first(struct search *w, uint64_t *offset, char *first)
{
    for (uint64_t at = 0; at < w->file->size; at += PIECE) {
        uint64_t left = w->file->size - at;
        size_t length = left < PIECE ? (size_t)left : PIECE, i = 0;

        TRY(file_read_at(w->fd, w->file->path, w->piece, length, at));
        if (at == 0 && length >= 3 && memcmp(w->piece, "\xef\xbb\xbf", 3) == 0) {
            w->origin = i = 3;
        }
        while (i < length && is_white(w->piece[i])) {
            i++;
        }
        if (i < length) {
            *offset = at + i;
            *first = w->piece[i];
            return OK;
        }
    }
    *offset = w->file->size;
    *first = '\0';
    return OK;
}

static status open_file(const char *path, int *fd, uint64_t *size)
{
    struct stat st;

    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) {
        return fail(errno == ENOENT ? ERR_MISSING : ERR_IO, "%s: %s", path, strerror(errno));
    }
    if (fstat(*fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(*fd);
        return fail(ERR_FORMAT, "%s: is no regular file", path);
    }
    *size = (uint64_t)st.st_size;
    return OK;
}

static status search_file(struct json_source *own, struct json_file *f, int fd)
{
    struct search w = { .own = own, .file = f, .fd = fd, .piece = malloc(PIECE) };
    uint64_t offset = 0;
    char first = '\0';
    status s = OK;

    check(w.piece != NULL, "no memory for a piece of a file");
    TRY_OR(done, s, find_first(&w, &offset, &first));
    f->is_array = first == '[';
    s = f->is_array ? search_array(&w, offset) : search_lines(&w);
done:
    free(w.piece);
    return s;
}

/* The file to which a row belongs: the last one whose first place is not behind it. */
static const struct json_file *file_of(const struct json_source *own, size_t row)
{
    size_t low = 0, high = own->file_count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (own->files[middle].first <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &own->files[low];
}

static status row_wrong(const struct json_file *f, int fd, const struct row_place *at, int64_t row,
                        const struct row_fault *fault)
{
    uint64_t line = at->line, column = fault->at + 1;

    if (f->is_array) {
        place_of(fd, f->path, at->begin + fault->at, &line, &column);
    }
    return fail(ERR_FORMAT, "%s:%llu:%llu: row %lld: %s", f->path, (unsigned long long)line,
                (unsigned long long)column, (long long)row, fault->text);
}

static status json_read(const struct corpus_source *s, int64_t row, int64_t vocab, struct arena *a,
                        struct row *out)
{
    const struct json_source *own = s->own;
    const struct json_file *f = file_of(own, (size_t)row);
    const struct row_place *at = &own->places[row];
    struct row_fault fault;
    uint64_t size;
    int fd = f->fd;
    char *text;
    status result;

    if (fd < 0) {
        TRY(open_file(f->path, &fd, &size));
    }
    text = arena_take(a, (size_t)at->length + 1);
    *out = (struct row){ .file = f->path, .line = at->line };
    result = file_read_at(fd, f->path, text, at->length, at->begin);
    if (result == OK && !row_parse(text, at->length, vocab, a, out, &fault)) {
        result = row_wrong(f, fd, at, row, &fault);
    }
    if (fd != f->fd) {
        close(fd);
    }
    return result;
}

static void json_close(struct corpus_source *s)
{
    struct json_source *own = s->own;

    for (size_t i = 0; i < own->file_count; i++) {
        if (own->files[i].fd >= 0) {
            close(own->files[i].fd);
        }
        free(own->files[i].path);
    }
    free(own->files);
    free(own->places);
    free(own);
    *s = (struct corpus_source){ 0 };
}

static const struct source_kind json_kind = {
    .read = json_read,
    .close = json_close,
};

/* The path in memory of the source, since the rows point to it. */
static char *path_make(const char *folder, const char *name)
{
    struct arena scratch = { 0 };
    char *path = strdup(path_join(&scratch, folder, name));

    check(path != NULL, "no memory for a path");
    arena_release(&scratch);
    return path;
}

status json_source_open(struct corpus_source *s, const char *folder, char *const *names,
                        size_t count)
{
    struct json_source *own = calloc(1, sizeof *own);
    status result = OK;

    check(own != NULL, "no memory for a source");
    own->files = calloc(count, sizeof *own->files);
    check(own->files != NULL, "no memory for %zu files", count);
    *s = (struct corpus_source){ .kind = &json_kind, .own = own };
    for (size_t i = 0; i < count && result == OK; i++) {
        struct json_file *f = &own->files[own->file_count++];
        int fd;

        *f = (struct json_file){ .path = path_make(folder, names[i]),
                                 .fd = -1,
                                 .first = own->count };
        result = open_file(f->path, &fd, &f->size);
        if (result != OK) {
            break;
        }
        result = search_file(own, f, fd);
        if (i < KEPT_OPEN) {
            f->fd = fd;
        } else {
            close(fd);
        }
    }
    s->rows = (int64_t)own->count;
    return result; /* corpus_open closes the source if this failed */
}
