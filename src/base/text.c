#include "base/text.h"
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Room for `more` bytes and the final zero. */
static void make_room(struct text *t, size_t more)
{
    size_t room = t->room > 0 ? t->room : 64;
    char *data;

    check(more < SIZE_MAX / 4 && t->length < SIZE_MAX / 4, "a text of %zu and %zu bytes", t->length,
          more);
    if (t->length + more < t->room) {
        return;
    }
    while (room <= t->length + more) {
        room *= 2;
    }
    data = realloc(t->data, room);
    check(data != NULL, "out of memory: a text of %zu bytes", room);
    t->data = data;
    t->room = room;
}

void text_release(struct text *t)
{
    free(t->data);
    *t = (struct text){ 0 };
}

void text_clear(struct text *t)
{
    t->length = 0;
    if (t->data != NULL) {
        t->data[0] = '\0';
    }
}

void text_add(struct text *t, const char *more)
{
    text_add_n(t, more, strlen(more));
}

void text_add_n(struct text *t, const void *bytes, size_t length)
{
    make_room(t, length);
    if (length > 0) {
        memcpy(t->data + t->length, bytes, length);
    }
    t->length += length;
    t->data[t->length] = '\0';
}

void text_add_char(struct text *t, char c)
{
    text_add_n(t, &c, 1);
}

void text_add_format(struct text *t, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    text_add_format_list(t, format, list);
    va_end(list);
}

void text_add_format_list(struct text *t, const char *format, va_list list)
{
    va_list again;
    int length;

    va_copy(again, list);
    length = vsnprintf(NULL, 0, format, list);
    check(length >= 0, "cannot format \"%s\"", format);
    make_room(t, (size_t)length);
    vsnprintf(t->data + t->length, (size_t)length + 1, format, again);
    t->length += (size_t)length;
    va_end(again);
}

const char *text_of(const struct text *t)
{
    return t->data != NULL ? t->data : "";
}

bool text_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool text_ends(const char *text, const char *suffix)
{
    size_t length = strlen(text), tail = strlen(suffix);

    return length >= tail && memcmp(text + length - tail, suffix, tail) == 0;
}

/* The length of the UTF-8 sequence at the start of `s`, 0 if it is none. Source: Unicode 15, table
 * 3-7. */
static size_t utf8_sequence(const unsigned char *s, size_t left)
{
    unsigned char low = 0x80, high = 0xbf; /* the bounds of the second byte */
    size_t length;

    if (s[0] < 0x80) {
        return 1;
    }
    if (s[0] < 0xc2 || s[0] > 0xf4) {
        return 0;
    }
    length = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (left < length) {
        return 0;
    }
    if (s[0] == 0xe0) {
        low = 0xa0; /* below: overlong */
    } else if (s[0] == 0xed) {
        high = 0x9f; /* above: surrogates */
    } else if (s[0] == 0xf0) {
        low = 0x90; /* below: overlong */
    } else if (s[0] == 0xf4) {
        high = 0x8f; /* above: more than U+10FFFF */
    }
    if (s[1] < low || s[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < length; i++) {
        if (s[i] < 0x80 || s[i] > 0xbf) {
            return 0;
        }
    }
    return length;
}

size_t text_utf8_valid(const char *bytes, size_t length)
{
    const unsigned char *s = (const unsigned char *)bytes;
    size_t at = 0;

    while (at < length) {
        size_t step = utf8_sequence(s + at, length - at);

        if (step == 0) {
            return at;
        }
        at += step;
    }
    return length;
}

static int least_of(int a, int b)
{
    return a < b ? a : b;
}

/* Three rows of the usual table: a swap looks two rows back. */
int text_distance(const char *a, const char *b)
{
    size_t rows = strlen(a), columns = strlen(b);
    int *memory, *before, *above, *row;
    int distance;

    check(rows < INT32_MAX / 2 && columns < INT32_MAX / 16, "texts of %zu and %zu bytes", rows,
          columns);
    memory = calloc(3 * (columns + 1), sizeof *memory);
    check(memory != NULL, "out of memory: comparing texts of %zu and %zu bytes", rows, columns);
    before = memory;
    above = before + columns + 1;
    row = above + columns + 1;
    for (size_t j = 0; j <= columns; j++) {
        above[j] = (int)j;
    }
    for (size_t i = 1; i <= rows; i++) {
        int *oldest = before;

        row[0] = (int)i;
        for (size_t j = 1; j <= columns; j++) {
            row[j] = least_of(above[j] + 1, row[j - 1] + 1);
            row[j] = least_of(row[j], above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = least_of(row[j], before[j - 2] + 1);
            }
        }
        before = above;
        above = row;
        row = oldest;
    }
    distance = above[columns];
    free(memory);
    return distance;
}

const char *text_nearest(const char *wrong, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    int least = 0;

    for (size_t i = 0; i < count; i++) {
        size_t longer = strlen(wrong) > strlen(names[i]) ? strlen(wrong) : strlen(names[i]);
        int distance = text_distance(wrong, names[i]);

        if ((size_t)distance * 3 <= longer && (nearest == NULL || distance < least)) {
            nearest = names[i];
            least = distance;
        }
    }
    return nearest;
}
