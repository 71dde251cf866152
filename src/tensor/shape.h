/* Shapes: up to four extents, row-major, the last dimension contiguous. */
#ifndef ROUX_TENSOR_SHAPE_H
#define ROUX_TENSOR_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

enum { SHAPE_DIMS = 4 };

struct shape {
    int rank; /* 0 = a scalar */
    int64_t d[SHAPE_DIMS];
};

static inline struct shape shape_1(int64_t a)
{
    return (struct shape){ 1, { a } };
}

static inline struct shape shape_2(int64_t a, int64_t b)
{
    return (struct shape){ 2, { a, b } };
}

static inline struct shape shape_3(int64_t a, int64_t b, int64_t c)
{
    return (struct shape){ 3, { a, b, c } };
}

static inline int64_t shape_count(const struct shape *s)
{
    int64_t n = 1;

    for (int i = 0; i < s->rank; i++) {
        n *= s->d[i];
    }
    return n;
}

static inline int64_t shape_last(const struct shape *s)
{
    return s->rank == 0 ? 1 : s->d[s->rank - 1];
}

/* The number of rows: the product of all but the last extent. */
static inline int64_t shape_rows(const struct shape *s)
{
    int64_t n = 1;

    for (int i = 0; i + 1 < s->rank; i++) {
        n *= s->d[i];
    }
    return n;
}

static inline bool shape_same(const struct shape *a, const struct shape *b)
{
    if (a->rank != b->rank) {
        return false;
    }
    for (int i = 0; i < a->rank; i++) {
        if (a->d[i] != b->d[i]) {
            return false;
        }
    }
    return true;
}

/* "[2, 3]"; written into `out`, which is returned. */
char *shape_text(const struct shape *s, char out[96]);

#endif
