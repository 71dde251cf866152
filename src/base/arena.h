/*
 * Memory by lifetime: who keeps memory takes an arena, and the arena is released as a whole.
 *
 * An arena hands out zeroed, 16-byte aligned pieces from blocks that double in size. Running out of
 * memory is check()ed: the large tensor memory is planned and refused elsewhere (program/device.h),
 * arenas hold descriptions. A zeroed struct arena is an empty arena. Not thread-safe: one arena
 * belongs to one thread at a time.
 */
#ifndef ROUX_BASE_ARENA_H
#define ROUX_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include "base/status.h"

struct arena {
    struct arena_block *last;
};

void arena_release(struct arena *a);

/* Empties the arena and keeps memory for as much again: whoever clears one over and over, for about
 * the same, asks the system for nothing after a few rounds. */
void arena_clear(struct arena *a);

/* `bytes` zeroed bytes, never NULL (also for 0). */
void *arena_take(struct arena *a, size_t bytes);

/* count * size zeroed bytes; the product is checked against overflow. */
void *arena_take_array(struct arena *a, size_t count, size_t size);

char *arena_text(struct arena *a, const char *text);
char *arena_text_n(struct arena *a, const char *text, size_t length); /* adds the final zero */
char *arena_format(struct arena *a, const char *format, ...) FORMAT(2, 3);
char *arena_format_list(struct arena *a, const char *format, va_list list) FORMAT(2, 0);

/* The number of bytes handed out so far. */
size_t arena_bytes(const struct arena *a);

#endif
