#include "base/philox.h"
#include <math.h>
#include <stdbool.h>
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

/* What the loops of philox_normals are made of: they are compiled for several processors, and have
 * to vanish into each. */
#define INLINE inline __attribute__((always_inline))
#ifdef __x86_64__
#define FOR_WIDER_VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_WIDER_VECTORS
#endif

static INLINE void rounds_of(uint32_t c[4], uint32_t key_0, uint32_t key_1)
{
    uint32_t k[2] = { key_0, key_1 };

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
}

struct philox_block philox4x32(const uint32_t counter[4], const uint32_t key[2])
{
    struct philox_block b = { { counter[0], counter[1], counter[2], counter[3] } };

    rounds_of(b.word, key[0], key[1]);
    return b;
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

/* ---- normal numbers ---- */

/*
 * All below is written without branches, for many numbers at once, and without functions of the C
 * library: its logarithm, sine and cosine differ in the last bit between processors (with and
 * without fused multiply-add), and initial weights must not.
 */

static INLINE uint64_t bits_of(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static INLINE double from_bits(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* An integer below 2^52 as a double: put where the last bit of 2^52 + n counts ones. */
static INLINE double whole(uint64_t n)
{
    return from_bits(n | bits_of(0x1p52)) - 0x1p52;
}

/* The upper 53 of the 64 bits of two words, as an integer. */
static INLINE double upper_53(uint32_t low, uint32_t high)
{
    return whole(high) * 0x1p21 + whole(low >> 11);
}

/*
 * The logarithm of u in [2^-53, 1], within two units of the last place: with u = m 2^e, m in
 * [sqrt 1/2, sqrt 2), and f = (m - 1) / (m + 1), log u = e log 2 + 2 (f + f^3/3 + f^5/5 + ...),
 * |f| <= 0.1716.
 */
static INLINE double log_of(double u)
{
    static const double odd_parts[] = {
        1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
        1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,
    };
    uint64_t bits = bits_of(u), fraction = (1ULL << 52) - 1;
    double e = whole(bits >> 52) - 1022, half = from_bits((bits & fraction) | bits_of(0.5));
    bool low = half < 0.70710678118654752;
    double m = half * (low ? 2 : 1);
    double f = (m - 1) / (m + 1), square = f * f, sum = 0;

    e -= low ? 1 : 0;
    for (size_t i = 0; i < sizeof odd_parts / sizeof odd_parts[0]; i++) {
        sum = (sum + odd_parts[i]) * square;
    }
    return e * 0.69314718055994531 + 2 * (f + f * sum);
}

/* Cosine and sine of 2 pi u, u in [0, 1): the exact remainder within an octant, then the power
 * series up to pi / 4, of which each term is the one before times square / (n (n + 1)). */
static INLINE void circle_of(double u, double *cosine, double *sine)
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
    bool upright = (octant + 1) % 4 >= 2; /* octants 1, 2, 5, 6 lie nearer to the vertical axis */
    double across = upright ? s : c, up = upright ? c : s;

    *cosine = octant >= 2 && octant <= 5 ? -across : across;
    *sine = octant >= 4 ? -up : up;
}

static INLINE void normal_words(const struct philox_stream *s, uint64_t pair, uint32_t c[4])
{
    c[0] = (uint32_t)pair;
    c[1] = (uint32_t)(pair >> 32);
    c[2] = DRAW_NORMAL;
    c[3] = s->salt;
    rounds_of(c, s->key[0], s->key[1]);
}

static INLINE double radius_of(uint32_t low, uint32_t high)
{
    return sqrt(-2 * log_of((upper_53(low, high) + 1) * 0x1p-53)); /* of (0, 1] */
}

double philox_normal(const struct philox_stream *s, uint64_t index)
{
    uint32_t c[4];
    double cosine, sine;

    normal_words(s, index / 2, c);
    circle_of(upper_53(c[2], c[3]) * 0x1p-53, &cosine, &sine);
    return radius_of(c[0], c[1]) * (index % 2 == 0 ? cosine : sine);
}

enum { TOGETHER = 64 }; /* pairs; all that is between the loops stays in the first cache */

/* Pairs of the given index and after it, TOGETHER of them, into out[2 TOGETHER]. Compiled for
 * processors with wider vectors, too: the operations are the same, and so are the bits. */
FOR_WIDER_VECTORS static void normal_pairs(const struct philox_stream *s, uint64_t pair,
                                           double *out)
{
    uint32_t word[4][TOGETHER];
    double radius[TOGETHER], cosine[TOGETHER], sine[TOGETHER];

    for (uint32_t i = 0; i < TOGETHER; i++) {
        uint32_t c[4];

        normal_words(s, pair + i, c);
        word[0][i] = c[0];
        word[1][i] = c[1];
        word[2][i] = c[2];
        word[3][i] = c[3];
    }
    for (int i = 0; i < TOGETHER; i++) {
        radius[i] = radius_of(word[0][i], word[1][i]);
    }
    for (int i = 0; i < TOGETHER; i++) {
        circle_of(upper_53(word[2][i], word[3][i]) * 0x1p-53, &cosine[i], &sine[i]);
    }
    for (int i = 0; i < TOGETHER; i++) {
        out[2 * i] = radius[i] * cosine[i];
        out[2 * i + 1] = radius[i] * sine[i];
    }
}

void philox_normals(const struct philox_stream *s, uint64_t first, size_t count, double *out)
{
    double drawn[2 * TOGETHER];

    while (count > 0) {
        size_t skip = first % 2, n = 2 * TOGETHER - skip;

        if (skip == 0 && count >= n) {
            normal_pairs(s, first / 2, out);
        } else {
            n = n < count ? n : count;
            normal_pairs(s, first / 2, drawn);
            memcpy(out, drawn + skip, n * sizeof *out);
        }
        first += n;
        out += n;
        count -= n;
    }
}
