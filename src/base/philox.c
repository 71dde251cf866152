#include "base/philox.h"
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <xxhash.h>
#include "base/status.h"

__extension__ typedef unsigned __int128 uint128;

/*
 * The counter of a draw is { block low, block high, kind, salt }: draws of different kinds never
 * share a block. The block is the element's index divided by the elements that one block serves.
 */
enum draw_kind { DRAW_WORD, DRAW_UNIFORM, DRAW_BELOW, DRAW_NORMAL };

/* Multipliers and key steps of the paper's table 2 and section 4.3 (golden ratio, square root of 3
 * less 1). */
static const uint32_t multiplier[2] = { 0xd2511f53, 0xcd9e8d57 };
static const uint32_t key_step[2] = { 0x9e3779b9, 0xbb67ae85 };

enum { ROUNDS = 10 };

struct philox_block philox4x32(const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c[4] = { counter[0], counter[1], counter[2], counter[3] };
    uint32_t k[2] = { key[0], key[1] };

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t first = (uint64_t)multiplier[0] * c[0];
        uint64_t second = (uint64_t)multiplier[1] * c[2];

        c[0] = (uint32_t)(second >> 32) ^ c[1] ^ k[0];
        c[1] = (uint32_t)second;
        c[2] = (uint32_t)(first >> 32) ^ c[3] ^ k[1];
        c[3] = (uint32_t)first;
        k[0] += key_step[0];
        k[1] += key_step[1];
    }
    return (struct philox_block){ { c[0], c[1], c[2], c[3] } };
}

struct philox_stream philox_stream_make(uint64_t seed, const char *name)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(name, strlen(name), seed);

    return (struct philox_stream){
        .key = { (uint32_t)hash.low64, (uint32_t)(hash.low64 >> 32) },
        .salt = (uint32_t)(hash.high64 >> 32),
    };
}

static struct philox_block block_of(const struct philox_stream *s, enum draw_kind kind,
                                    uint64_t block)
{
    uint32_t counter[4] = { (uint32_t)block, (uint32_t)(block >> 32), (uint32_t)kind, s->salt };

    return philox4x32(counter, s->key);
}

/* The first (0) or second (1) half of a block as one integer. */
static uint64_t half_of(const struct philox_block *b, int half)
{
    return (uint64_t)b->word[2 * half + 1] << 32 | b->word[2 * half];
}

uint32_t philox_word(const struct philox_stream *s, uint64_t index)
{
    struct philox_block b = block_of(s, DRAW_WORD, index / 4);

    return b.word[index % 4];
}

double philox_uniform(const struct philox_stream *s, uint64_t index)
{
    struct philox_block b = block_of(s, DRAW_UNIFORM, index / 2);

    return (double)(half_of(&b, (int)(index % 2)) >> 11) * 0x1p-53;
}

/* The upper half of word * bound: each value's share of the 2^64 words differs from the others' by
 * one at most. */
int64_t philox_below(const struct philox_stream *s, uint64_t index, int64_t bound)
{
    struct philox_block b = block_of(s, DRAW_BELOW, index / 2);
    uint64_t word = half_of(&b, (int)(index % 2));

    check(bound > 0, "a random number below %lld was asked for", (long long)bound);
    return (int64_t)(((uint128)word * (uint64_t)bound) >> 64);
}

/*
 * The logarithm of u in [2^-53, 1], within two units of the last place. Logarithm, sine and cosine
 * are our own, since the C library's differ in the last bit between processors (with and without
 * fused multiply-add), and initial weights must not: with u = m 2^e and f = (m - 1) / (m + 1), log
 * u = e log 2 + 2 (f + f^3/3 + f^5/5 + ...), |f| <= 0.1716.
 */
static double log_of(double u)
{
    static const double odd_parts[] = {
        1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
        1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,
    };
    int e;
    double m = frexp(u, &e);
    double f, square, sum = 0;

    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    f = (m - 1) / (m + 1);
    square = f * f;
    for (size_t i = 0; i < sizeof odd_parts / sizeof odd_parts[0]; i++) {
        sum = (sum + odd_parts[i]) * square;
    }
    return (double)e * 0.69314718055994531 + 2 * (f + f * sum);
}

/* Cosine and sine of 2 pi u, u in [0, 1): the exact remainder within an octant, then the power
 * series up to pi / 4, of which each term is the one before times square / (n (n + 1)). */
static void circle_of(double u, double *cosine, double *sine)
{
    static const double cosine_parts[] = {
        1.0 / (17 * 18), 1.0 / (15 * 16), 1.0 / (13 * 14), 1.0 / (11 * 12), 1.0 / (9 * 10),
        1.0 / (7 * 8),   1.0 / (5 * 6),   1.0 / (3 * 4),   1.0 / (1 * 2),
    };
    static const double sine_parts[] = {
        1.0 / (18 * 19), 1.0 / (16 * 17), 1.0 / (14 * 15), 1.0 / (12 * 13), 1.0 / (10 * 11),
        1.0 / (8 * 9),   1.0 / (6 * 7),   1.0 / (4 * 5),   1.0 / (2 * 3),
    };
    int octant = (int)(u * 8);
    double rest = u * 8 - octant;
    double angle = 0.78539816339744831 * (octant % 2 == 0 ? rest : 1 - rest);
    double square = angle * angle;
    double c = 1, s = 1;

    for (size_t i = 0; i < sizeof sine_parts / sizeof sine_parts[0]; i++) {
        c = 1 - c * (square * cosine_parts[i]);
        s = 1 - s * (square * sine_parts[i]);
    }
    s *= angle;
    if ((octant + 1) % 4 >= 2) { /* octants 1, 2, 5, 6 lie nearer to the vertical axis */
        double swap = c;

        c = s;
        s = swap;
    }
    *cosine = octant >= 2 && octant <= 5 ? -c : c;
    *sine = octant >= 4 ? -s : s;
}

void philox_normal_pair(const struct philox_stream *s, uint64_t pair, double out[2])
{
    struct philox_block b = block_of(s, DRAW_NORMAL, pair);
    double distance =
        (double)((half_of(&b, 0) >> 11) + 1) * 0x1p-53; /* in (0, 1], for the logarithm */
    double turn = (double)(half_of(&b, 1) >> 11) * 0x1p-53;
    double radius = sqrt(-2 * log_of(distance));
    double cosine, sine;

    circle_of(turn, &cosine, &sine);
    out[0] = radius * cosine;
    out[1] = radius * sine;
}

double philox_normal(const struct philox_stream *s, uint64_t index)
{
    double pair[2];

    philox_normal_pair(s, index / 2, pair);
    return pair[index % 2];
}
