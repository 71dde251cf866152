/*
 * Inside the room: free spans of an address range, first fit in O(log n).
 *
 * A treap over the spans, ordered by address; each node knows the largest span below it. Freed
 * spans join their neighbours. The range has no end: the last span is as long as asked.
 */
#ifndef ROUX_PROGRAM_SPAN_H
#define ROUX_PROGRAM_SPAN_H

#include <stdint.h>
#include "base/arena.h"

struct span {
    int64_t at, size, largest;
    uint32_t rank;
    struct span *left, *right;
};

struct spans {
    struct span *root;
    struct span *spare;
    struct arena *arena;
    int64_t top; /* the highest end ever taken */
    uint32_t state;
};

void spans_init(struct spans *s, struct arena *arena);
int64_t spans_take(struct spans *s, int64_t size); /* lowest address that fits; size > 0 */
void spans_give(struct spans *s, int64_t at, int64_t size);

#endif
