#include "tensor/peak.h"

#include <omp.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 400, BLOCK = 250 };

/* Twelve sums at once hide the latency of the instructions; all registers hold zeros, so that no
 * value is ever slow. What stays in vector registers is nobody's. */

static void scalar_round(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        __asm__ volatile(".irp r,0,1,2,3,4,5\n\t"
                         "mulps %%xmm14, %%xmm\\r\n\t"
                         ".endr\n\t"
                         ".irp r,6,7,8,9,10,11\n\t"
                         "addps %%xmm15, %%xmm\\r\n\t"
                         ".endr" ::
                             : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                               "xmm8", "xmm9", "xmm10", "xmm11");
    }
}

static void scalar_clear(void)
{
    __asm__ volatile(".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
                     "xorps %%xmm\\r, %%xmm\\r\n\t"
                     ".endr" ::
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                           "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

static void vector_clear(void)
{
    __asm__ volatile("vzeroall" ::
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                           "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

static void avx2_round(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        __asm__ volatile(".irp r,0,1,2,3,4,5,6,7,8,9,10,11\n\t"
                         "vfmadd231ps %%ymm14, %%ymm15, %%ymm\\r\n\t"
                         ".endr" ::
                             : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                               "xmm8", "xmm9", "xmm10", "xmm11");
    }
}

static void avx512_round(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        __asm__ volatile(".irp r,0,1,2,3,4,5,6,7,8,9,10,11\n\t"
                         "vfmadd231ps %%zmm14, %%zmm15, %%zmm\\r\n\t"
                         ".endr" ::
                             : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                               "xmm8", "xmm9", "xmm10", "xmm11");
    }
}

static void pairs_round(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        __asm__ volatile(".irp r,0,1,2,3,4,5,6,7,8,9,10,11\n\t"
                         "vdpbf16ps %%zmm14, %%zmm15, %%zmm\\r\n\t"
                         ".endr" ::
                             : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                               "xmm8", "xmm9", "xmm10", "xmm11");
    }
}

static bool has_scalar(void)
{
    return true;
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}

static bool has_pairs(void)
{
    return __builtin_cpu_supports("avx512bf16");
}

static const struct peak {
    const char *family;
    bool (*runs)(void);
    void (*clear)(void);
    void (*round)(void);
    double flops; /* of an instruction */
} peaks[PEAK_KINDS] = {
    [PEAK_SCALAR] = { "scalar", has_scalar, scalar_clear, scalar_round, 4 },
    [PEAK_AVX2] = { "avx2", has_avx2, vector_clear, avx2_round, 16 },
    [PEAK_AVX512] = { "avx512", has_avx512, vector_clear, avx512_round, 32 },
    [PEAK_PAIRS] = { "avx512_bf16", has_pairs, vector_clear, pairs_round, 64 },
};

static double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *peak_name(enum peak_kind kind)
{
    return peaks[kind].family;
}

bool peak_runs(enum peak_kind kind)
{
    __builtin_cpu_init();
    return peaks[kind].runs();
}

/* Between two calls of the clock the compiler may use no vector register that the rounds count on
 * being zero; a value that is not zero would only be slow, never wrong. */
static double rounds_seconds(const struct peak *p, int rounds)
{
    double start, took;

    p->clear();
    start = seconds_now();
    for (int i = 0; i < rounds; i++) {
        p->round();
    }
    took = seconds_now() - start;
    p->clear(); /* no upper halves are left, which slow others down */
    return took;
}

double peak_rate(enum peak_kind kind, int threads, int tries)
{
    const struct peak *p = &peaks[kind];
    double work = 12.0 * ROUNDS * BLOCK * p->flops, best = 0;

    for (int i = 0; i < tries; i++) {
        double rate = 0;

#pragma omp parallel num_threads(threads) reduction(+ : rate)
        {
#pragma omp barrier
            rate = work / rounds_seconds(p, BLOCK);
        }
        best = rate > best ? rate : best;
    }
    return best;
}

double peak_rate_of(const struct kernels *k, int threads, int tries)
{
    enum peak_kind kind = PEAK_SCALAR;

    for (int i = 0; i < PEAK_KINDS; i++) {
        kind = strcmp(k->family, peaks[i].family) == 0 ? (enum peak_kind)i : kind;
    }
    return peak_rate(kind, threads, tries) / (k->real == DT_F64 ? 2 : 1);
}

static double least_seconds(enum peak_kind kind)
{
    double least = 1;

    for (int i = 0; i < 5; i++) {
        double took = rounds_seconds(&peaks[kind], 1);

        least = took < least ? took : least;
    }
    return least;
}

bool peak_pairs_pay(void)
{
    static int known; /* 0 not measured, 1 no, 2 yes */

    if (known == 0) {
        known = least_seconds(PEAK_PAIRS) < 2 * least_seconds(PEAK_AVX512) ? 2 : 1;
    }
    return known == 2;
}
