/*
 * What one source becomes a family by: vectors of floats in the width of the instruction set, and
 * loads and stores of the type that tensors are stored in.
 *
 *   ROUX_FAMILY   scalar, avx2, avx512, avx512_bf16    NAME(linear) = linear_avx2_f32, ...
 *   ROUX_STORE    f32 or bf16                          elem: what activations and weights are kept in
 *   ROUX_VECTOR   bytes of a vector: 16, 32, 64
 *
 * All come from the build, with the flags of the instruction set. Arithmetic is in float; bf16 is
 * widened on load and rounded to nearest even on store, with gradual underflow; NaN stays NaN. The
 * compiler may contract a * b + c here (unlike in ref/), so families with FMA differ from the
 * scalar one in rounding; what the source adds in order stays in order.
 */
#ifndef ROUX_TENSOR_CPU_VEC_H
#define ROUX_TENSOR_CPU_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "base/dtype.h"

/* Whether a vec is a register, so that instructions can be named where gcc 12 finds worse ones;
 * else the compiler takes vectors apart, and the results are the same. */
#if defined(__AVX512F__) && ROUX_VECTOR == 64
#define ROUX_NATIVE 64
#elif defined(__AVX2__) && ROUX_VECTOR == 32
#define ROUX_NATIVE 32
#else
#define ROUX_NATIVE 0
#endif

#define NAME_JOIN(x, family, store) x##_##family##_##store
#define NAME_OF(x, family, store) NAME_JOIN(x, family, store)
#define NAME(x) NAME_OF(x, ROUX_FAMILY, ROUX_STORE)

enum { LANES = ROUX_VECTOR / (int)sizeof(float) };

/* In memory vectors need no alignment beyond their elements'. */
typedef float vec __attribute__((vector_size(ROUX_VECTOR)));
typedef int32_t ivec __attribute__((vector_size(ROUX_VECTOR)));
typedef uint32_t uvec __attribute__((vector_size(ROUX_VECTOR)));
typedef double dvec __attribute__((vector_size(ROUX_VECTOR)));
typedef uint16_t hvec __attribute__((vector_size(ROUX_VECTOR / 2)));
typedef float vec_at __attribute__((vector_size(ROUX_VECTOR), aligned(4), may_alias));
typedef float half_at __attribute__((vector_size(ROUX_VECTOR / 2), aligned(4), may_alias));
typedef uint32_t uvec_at __attribute__((vector_size(ROUX_VECTOR), aligned(4), may_alias));
typedef uint16_t hvec_at __attribute__((vector_size(ROUX_VECTOR / 2), aligned(2), may_alias));

static inline vec vec_of(float x)
{
    return x - (vec){ 0 };
}

static inline vec vec_load(const float *at)
{
    return *(const vec_at *)at;
}

static inline void vec_store(float *at, vec x)
{
    *(vec_at *)at = x;
}

/* The first n < LANES, zeros behind. */
static inline vec vec_load_some(const float *at, int64_t n)
{
#if ROUX_NATIVE == 64
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), at);
#else
    vec x = { 0 };

    memcpy(&x, at, (size_t)n * sizeof *at);
    return x;
#endif
}

static inline void vec_store_some(float *at, vec x, int64_t n)
{
#if ROUX_NATIVE == 64
    _mm512_mask_storeu_ps(at, (__mmask16)((1u << n) - 1), x);
#else
    memcpy(at, &x, (size_t)n * sizeof *at);
#endif
}

/* LANES / 2 floats as doubles. */
static inline dvec dvec_load(const float *at)
{
#if ROUX_NATIVE == 64
    return _mm512_cvtps_pd(_mm256_loadu_ps(at));
#else
    return __builtin_convertvector(*(const half_at *)at, dvec);
#endif
}

enum { FETCH_AHEAD = 8192 }; /* bytes: two pages */

/* Asks for what will be read or written FETCH_AHEAD from here: at an address beyond the memory it
 * does nothing. The processor's own prefetching ends at each page, which costs a stream from memory
 * up to a third of its rate. */
static inline void fetch_ahead(const void *at)
{
    __builtin_prefetch((const char *)at + FETCH_AHEAD);
}

static inline vec vec_select(ivec mask, vec yes, vec no)
{
    return (vec)((mask & (ivec)yes) | (~mask & (ivec)no));
}

static inline vec vec_sqrt(vec x)
{
#if ROUX_NATIVE == 64
    return _mm512_sqrt_ps(x);
#elif ROUX_NATIVE == 32
    return _mm256_sqrt_ps(x);
#else
    for (int i = 0; i < LANES; i++) {
        x[i] = sqrtf(x[i]);
    }
    return x;
#endif
}

/* The larger, the smaller; b where either is NaN. */
static inline vec vec_max(vec a, vec b)
{
#if ROUX_NATIVE == 64
    return _mm512_max_ps(a, b);
#elif ROUX_NATIVE == 32
    return _mm256_max_ps(a, b);
#else
    return vec_select(a > b, a, b);
#endif
}

static inline vec vec_min(vec a, vec b)
{
#if ROUX_NATIVE == 64
    return _mm512_min_ps(a, b);
#elif ROUX_NATIVE == 32
    return _mm256_min_ps(a, b);
#else
    return vec_select(a < b, a, b);
#endif
}

/* Pairwise, by halves: an order that does not depend on anything but LANES. */
static inline float vec_sum(vec x)
{
#if ROUX_NATIVE != 0
#if ROUX_NATIVE == 64
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
#else
    __m256 eight = x;
#endif
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));

    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
#else
    float v[LANES];

    memcpy(v, &x, sizeof v);
    for (int half = LANES / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) {
            v[i] += v[i + half];
        }
    }
    return v[0];
#endif
}

static inline float vec_largest(vec x)
{
    float v[LANES], most;

    memcpy(v, &x, sizeof v);
    most = v[0];
    for (int i = 1; i < LANES; i++) {
        most = v[i] > most ? v[i] : most;
    }
    return most;
}

/*
 * exp: x = n ln 2 + r, exp(x) = 2^n (1 + r + r^2 q(r)); at most 2 ulp off where the result is a
 * normal number, exactly 0 below about -87.7 and for minus infinity, that of 88 above it; NaN stays
 * NaN. As tensor/ref/exp.h, by vectors.
 */
static inline vec vec_exp(vec x)
{
    const vec rounder = vec_of(0x1.8p23f);
    vec bound = vec_min(vec_of(88.0f), vec_max(vec_of(-88.0f), x));
    vec shifted = bound * 0x1.715476p0f + rounder;
    vec n = shifted - rounder;
    vec r = (bound - n * 0x1.63p-1f) + n * 0x1.bd0106p-13f;
    vec q = vec_of(1.0f / 5040);

    q = q * r + 1.0f / 720;
    q = q * r + 1.0f / 120;
    q = q * r + 1.0f / 24;
    q = q * r + 1.0f / 6;
    q = q * r + 1.0f / 2;
    return (vec)(((uvec)shifted + 127) << 23) * (1 + (r + r * r * q));
}

/* ---- bf16 ---- */

/* In 512 bits one permutation of words does the work of a conversion and a shift. */
static inline vec vec_widen(hvec h)
{
#if ROUX_NATIVE == 64
    const ivec upper = { 0,        1 << 16,  2 << 16,  3 << 16, 4 << 16,  5 << 16,
                         6 << 16,  7 << 16,  8 << 16,  9 << 16, 10 << 16, 11 << 16,
                         12 << 16, 13 << 16, 14 << 16, 15 << 16 };

    return (vec)_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, (__m512i)upper,
                                               _mm512_castsi256_si512((__m256i)h));
#elif ROUX_NATIVE == 32
    return (vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)h), 16);
#else
    return (vec)(__builtin_convertvector(h, uvec) << 16);
#endif
}

static inline hvec vec_narrow(vec x)
{
    uvec bits = (uvec)x, rounded = bits + 0x7fff + (bits >> 16 & 1);
#if ROUX_NATIVE == 64
    const uvec upper = {
        0x30001, 0x70005, 0xb0009, 0xf000d, 0x130011, 0x170015, 0x1b0019, 0x1f001d
    };
    __m512i narrow = _mm512_mask_or_epi32((__m512i)rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q),
                                          (__m512i)bits, _mm512_set1_epi32(0x400000));

    return (hvec)_mm512_castsi512_si256(_mm512_permutexvar_epi16((__m512i)upper, narrow));
#else
    uvec nan = (uvec)(x != x), narrow = ((nan & (bits | 0x400000)) | (~nan & rounded)) >> 16;

#if ROUX_NATIVE == 32
    return (hvec)_mm_packus_epi32(_mm256_castsi256_si128((__m256i)narrow),
                                  _mm256_extracti128_si256((__m256i)narrow, 1));
#else
    return __builtin_convertvector(narrow, hvec);
#endif
#endif
}

static inline vec bf16_load(const uint16_t *at)
{
    return vec_widen(*(const hvec_at *)at);
}

static inline vec bf16_load_some(const uint16_t *at, int64_t n)
{
#if ROUX_NATIVE == 64
    return vec_widen((hvec)_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), at));
#else
    hvec h = { 0 };

    memcpy(&h, at, (size_t)n * sizeof *at);
    return vec_widen(h);
#endif
}

static inline void bf16_store(uint16_t *at, vec x)
{
    *(hvec_at *)at = vec_narrow(x);
}

static inline void bf16_store_some(uint16_t *at, vec x, int64_t n)
{
    hvec h = vec_narrow(x);

#if ROUX_NATIVE == 64
    _mm256_mask_storeu_epi16(at, (__mmask16)((1u << n) - 1), (__m256i)h);
#else
    memcpy(at, &h, (size_t)n * sizeof *at);
#endif
}

/* ---- the storage type ---- */

#define ROUX_STORE_f32 1
#define ROUX_STORE_bf16 2
#define STORE_JOIN(store) ROUX_STORE_##store
#define STORE_OF(store) STORE_JOIN(store)

#if STORE_OF(ROUX_STORE) == ROUX_STORE_f32
typedef float elem;

enum { ELEM_WIDE = 1 }; /* elems are floats */

static inline vec elem_load(const elem *at)
{
    return vec_load(at);
}

static inline vec elem_load_some(const elem *at, int64_t n)
{
    return vec_load_some(at, n);
}

static inline void elem_store(elem *at, vec x)
{
    vec_store(at, x);
}

static inline void elem_store_some(elem *at, vec x, int64_t n)
{
    vec_store_some(at, x, n);
}

static inline float elem_get(elem x)
{
    return x;
}

static inline elem elem_of(float x)
{
    return x;
}
#else
typedef uint16_t elem;

enum { ELEM_WIDE = 0 };

static inline vec elem_load(const elem *at)
{
    return bf16_load(at);
}

static inline vec elem_load_some(const elem *at, int64_t n)
{
    return bf16_load_some(at, n);
}

static inline void elem_store(elem *at, vec x)
{
    bf16_store(at, x);
}

static inline void elem_store_some(elem *at, vec x, int64_t n)
{
    bf16_store_some(at, x, n);
}

static inline float elem_get(elem x)
{
    return bf16_to_float(x);
}

static inline elem elem_of(float x)
{
    return bf16_from_float(x);
}
#endif

/* elem_load, of a stream from memory. */
static inline vec elem_stream(const elem *at)
{
    fetch_ahead(at);
    return elem_load(at);
}

#endif
