/* A growing string, and small questions about strings. */
#ifndef ROUX_BASE_TEXT_H
#define ROUX_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

/* A zeroed struct text is the empty text. `data` is NULL or ends in a zero byte behind `length`
 * bytes. */
struct text {
    char *data;
    size_t length, room;
};

void text_release(struct text *t);
void text_clear(struct text *t); /* keeps the memory */
void text_add(struct text *t, const char *more);
void text_add_n(struct text *t, const void *bytes, size_t length);
void text_add_char(struct text *t, char c);
void text_add_format(struct text *t, const char *format, ...) FORMAT(2, 3);
void text_add_format_list(struct text *t, const char *format, va_list list) FORMAT(2, 0);
const char *text_of(const struct text *t); /* never NULL */

bool text_starts(const char *text, const char *prefix);
bool text_ends(const char *text, const char *suffix);

/* The offset of the first byte that is not part of well-formed UTF-8 (no surrogates, no overlong
 * forms, at most U+10FFFF); `length` if all of it is. */
size_t text_utf8_valid(const char *bytes, size_t length);

/* Optimal string alignment distance (insert, delete, replace, swap of neighbours), for "did you
 * mean". */
int text_distance(const char *a, const char *b);

/* The entry of names[0..count) nearest to `wrong`, or NULL if none is near enough to be meant (more
 * than a third of the characters differ). */
const char *text_nearest(const char *wrong, const char *const *names, size_t count);

/* "1.5 GiB", "312 B"; "1,234,567"; "2 h 05 min", "3.2 s". Written into `out`, which is returned. */
char *text_bytes(char out[32], uint64_t bytes);
char *text_count(char out[32], int64_t count);
char *text_seconds(char out[32], double seconds);

/* The shortest decimal that reads back as the same double; "nan", "inf", "-inf" otherwise. Always
 * with a point or an exponent if it is finite. */
char *text_double(char out[32], double x);

#endif
