#include "base/arena.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16, FIRST_BLOCK = 4096, LARGEST_BLOCK = 16 << 20 };

/*
 * A block is one calloc(), and what is free in it is zero:
 *
 *   | struct arena_block | piece | piece | ...   free   |
 *                        0               used           room
 */
struct arena_block {
    struct arena_block *before;
    size_t used, room;
    size_t taken; /* bytes asked for, in this block and all before it */
};

static size_t rounded_up(size_t bytes)
{
    check(bytes <= SIZE_MAX / 2, "an arena was asked for %zu bytes", bytes);
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Where the pieces of a block begin: calloc() aligns to 16, so a rounded header keeps that. */
static char *block_start(struct arena_block *block)
{
    return (char *)block + rounded_up(sizeof *block);
}

static void add_block(struct arena *a, size_t least)
{
    size_t room = FIRST_BLOCK;
    struct arena_block *block;

    if (a->last != NULL) {
        room = a->last->room < LARGEST_BLOCK / 2 ? a->last->room * 2 : LARGEST_BLOCK;
    }
    if (room < least) {
        room = least;
    }
    block = calloc(1, rounded_up(sizeof *block) + room);
    check(block != NULL, "out of memory: an arena needs %zu bytes more", room);
    block->before = a->last;
    block->room = room;
    block->taken = a->last != NULL ? a->last->taken : 0;
    a->last = block;
}

void arena_release(struct arena *a)
{
    struct arena_block *block = a->last;

    while (block != NULL) {
        struct arena_block *before = block->before;

        free(block);
        block = before;
    }
    a->last = NULL;
}

/* Several blocks become one that holds what they held. */
void arena_clear(struct arena *a)
{
    struct arena_block *last = a->last;
    size_t used = 0;

    if (last == NULL) {
        return;
    }
    for (const struct arena_block *block = last; block != NULL; block = block->before) {
        used += block->used;
    }
    if (last->before != NULL) {
        arena_release(a);
        add_block(a, used);
        return;
    }
    memset(block_start(last), 0, last->used);
    last->used = 0;
    last->taken = 0;
}

void *arena_take(struct arena *a, size_t bytes)
{
    size_t size = rounded_up(bytes > 0 ? bytes : 1);
    char *piece;

    if (a->last == NULL || a->last->room - a->last->used < size) {
        add_block(a, size);
    }
    piece = block_start(a->last) + a->last->used;
    a->last->used += size;
    a->last->taken += bytes;
    return piece;
}

void *arena_take_array(struct arena *a, size_t count, size_t size)
{
    size_t bytes;

    check(!__builtin_mul_overflow(count, size, &bytes),
          "an arena was asked for %zu times %zu bytes", count, size);
    return arena_take(a, bytes);
}

char *arena_text(struct arena *a, const char *text)
{
    return arena_text_n(a, text, strlen(text));
}

char *arena_text_n(struct arena *a, const char *text, size_t length)
{
    char *copy;

    check(length < SIZE_MAX, "a text of %zu bytes", length);
    copy = arena_take(a, length + 1);
    if (length > 0) {
        memcpy(copy, text, length);
    }
    return copy; /* the final zero is the arena's own */
}

char *arena_format(struct arena *a, const char *format, ...)
{
    va_list list;
    char *text;

    va_start(list, format);
    text = arena_format_list(a, format, list);
    va_end(list);
    return text;
}

char *arena_format_list(struct arena *a, const char *format, va_list list)
{
    va_list again;
    int length;
    char *text;

    va_copy(again, list);
    length = vsnprintf(NULL, 0, format, list);
    check(length >= 0, "cannot format \"%s\"", format);
    text = arena_take(a, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

size_t arena_bytes(const struct arena *a)
{
    return a->last != NULL ? a->last->taken : 0;
}
