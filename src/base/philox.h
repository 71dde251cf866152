/*
 * Philox4x32-10: four 32-bit random words as a pure function of a 128-bit counter and a 64-bit key.
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011; known
 * answers of its Random123 distribution stand in tests/base/philox_test.c.
 *
 * Whatever is random here (initial weights, dropout, synthetic rows, sampling) is drawn by index,
 * so that no layout of ranks or threads changes it.
 */
#ifndef ROUX_BASE_PHILOX_H
#define ROUX_BASE_PHILOX_H

#include <stddef.h>
#include <stdint.h>

struct philox_block {
    uint32_t word[4];
};

struct philox_block philox4x32(const uint32_t counter[4], const uint32_t key[2]);

/*
 * A stream: a key made from a seed and a name (any text, e.g. a tensor's), indexed by element. Key
 * and salt are XXH3-128 of the name under the seed. Words, uniform, bounded and normal numbers of
 * one stream are independent of each other: the counter is { block low, block high, kind of draw,
 * salt }.
 */
struct philox_stream {
    uint32_t key[2];
    uint32_t salt; /* the digest's highest 32 bits, the counter's last word */
};

struct philox_stream philox_stream_make(uint64_t seed, const char *name);

/* Uniform in [0, 2^32); in [0, 1) with 53 bits; in [0, bound), bound > 0, each value's probability
 * exact to 2^-64. */
uint32_t philox_word(const struct philox_stream *s, uint64_t index);
double philox_uniform(const struct philox_stream *s, uint64_t index);
int64_t philox_below(const struct philox_stream *s, uint64_t index, int64_t bound);

/* Standard normal by Box and Muller in double; elements 2i and 2i + 1 share a block, each is a pure
 * function of its own index. The same bits on every processor: no function of the C library that is
 * not correctly rounded takes part. */
double philox_normal(const struct philox_stream *s, uint64_t index);
/* Those of index first and after it, count of them: the same bits, many at once. */
void philox_normals(const struct philox_stream *s, uint64_t first, size_t count, double *out);
#endif
