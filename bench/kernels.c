/*
 * How near the kernels come to what the processor can do: for the kernels that a step spends its
 * time in, on one thread and on all, the share of a roof measured in the same process.
 *
 *   kernels [all] [FILTER]     the families that would be taken for 32 and bf16, or all of this
 *                              processor; only lines that contain FILTER
 *   kernels --peaks            "peak FMA 2 349.8": GFLOP/s of the best float family by so many
 *                              threads, and of bf16 dot products where there are any
 *
 * The roof of a line is the longer of two times: its floating-point operations at the family's peak
 * and the bytes that it must move at the memory's. Each line names the least share that is wanted of
 * it; one that falls short is measured again, up to TRIES times, and the exit status is 1 where it
 * stays so.
 */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "tensor/kernels.h"
#include "tensor/peak.h"

/* ---- memory: one mapping for all lines, so that every page is touched once ---- */

static struct {
    char *at;
    size_t used;
} pool;

static const size_t pool_bytes = (size_t)3 << 29;

static void pool_open(void)
{
    pool.at = mmap(NULL, pool_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(pool.at != MAP_FAILED, "no memory for %zu bytes", pool_bytes);
    madvise(pool.at, pool_bytes, MADV_HUGEPAGE);
}

static void *pool_take(size_t bytes)
{
    void *piece = pool.at + pool.used;

    pool.used += (bytes + 4095) / 4096 * 4096;
    check(pool.used <= pool_bytes, "a line of this benchmark needs more than %zu bytes",
          pool_bytes);
    return piece;
}

/* Values like those of a model at its start: small, so that exp meets no extremes. */
static void *filled(int64_t count, enum dtype real)
{
    enum { PATTERN = 4096 };
    void *bytes = pool_take((size_t)count * dtype_bytes(real));
    float values[PATTERN];
    uint64_t state = (uint64_t)count;

    for (int64_t at = 0; at < count; at += PATTERN) {
        int64_t n = count - at < PATTERN ? count - at : PATTERN;

        for (int64_t i = 0; i < n; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            values[i] = (float)(state >> 40) * 0x1p-24f - 0.5f;
        }
        check(dtype_convert(real, (char *)bytes + (size_t)at * dtype_bytes(real), DT_F32, values,
                            (size_t)n),
              "floats become no %s", dtype_name(real));
    }
    return bytes;
}

/* ---- a line ---- */

typedef void run_fn(const struct kernels *k, const void *args, struct team t);

/* What is measured, and against what. */
struct bench {
    const struct kernels *k;
    int threads;        /* all */
    double peak[2];     /* FLOP/s of the family, by one thread and by all */
    double memory[2];   /* bytes a second */
    const char *filter; /* NULL: every line */
    int passed, failed;
};

struct work {
    double flops, bytes, least; /* least: the share of the roof that is wanted */
    bool scales;                /* two threads are wanted to be 1.9 times as fast as one */
};

static double run_seconds(run_fn *run, const struct kernels *k, const void *args, int threads)
{
    double start = clock_seconds();

#pragma omp parallel num_threads(threads)
    run(k, args, (struct team){ omp_get_thread_num(), omp_get_num_threads() });
    return clock_seconds() - start;
}

/* The best of as many runs as fit half a second, at least three, on one thread and on all in turn:
 * other work on the machine then meets both alike. best: the least so far. */
static void best_seconds(run_fn *run, const struct bench *b, const void *args, double best[2])
{
    double began = clock_seconds();

    for (int i = 0; i < 3 || (i < 1000 && clock_seconds() - began < 0.5); i++) {
        for (int all = 0; all < 2; all++) {
            best[all] = fmin(best[all], run_seconds(run, b->k, args, all ? b->threads : 1));
        }
    }
}

static double share_of(const struct bench *b, const struct work *w, int all, double seconds)
{
    double compute = w->flops / b->peak[all], traffic = w->bytes / b->memory[all];

    return (compute > traffic ? compute : traffic) / seconds;
}

static bool skipped(const struct bench *b, const char *what)
{
    return b->filter != NULL && strstr(what, b->filter) == NULL;
}

/* Raises the roofs to what is measured now: other work on the machine can only lower them. */
static status measure_roofs(struct bench *b)
{
    for (int all = 0; all < 2; all++) {
        int threads = all ? b->threads : 1;
        double streams[STREAM_KINDS];

        b->peak[all] = fmax(b->peak[all], peak_rate_of(b->k, threads, 60));
        TRY(peak_streams((int64_t)1 << 28, threads, 8, streams));
        b->memory[all] = fmax(b->memory[all], streams[STREAM_TRIAD]);
    }
    return OK;
}

/* How often a line that falls short is measured, and how long to wait before each other time: other
 * work on the machine lasts for some seconds and can only lower a figure. */
enum { TRIES = 12, PAUSE_SECONDS = 2 };

static void report(struct bench *b, const char *what, const struct work *w, run_fn *run,
                   const void *args)
{
    double best[2] = { INFINITY, INFINITY }, share[2] = { 0, 0 };
    bool bound = w->bytes / b->memory[1] > w->flops / b->peak[1];
    bool good = false;
    char name[96];

    /* The best of all tries counts; a roof that something passes is measured again, too. */
    for (int i = 0; i < TRIES && !good; i++) {
        if (i > 0) {
            sleep(PAUSE_SECONDS);
        }
        if (i > 0 && fmax(share[0], share[1]) > 1.1) {
            check(measure_roofs(b) == OK, "%s", fail_text());
        }
        best_seconds(run, b, args, best);
        share[0] = share_of(b, w, 0, best[0]);
        share[1] = share_of(b, w, 1, best[1]);
        good = share[0] >= w->least && share[1] >= w->least &&
               (i + 1 == TRIES || fmax(share[0], share[1]) <= 1.1) &&
               (!w->scales || b->threads != 2 || best[0] / best[1] >= 1.9);
    }
    *(good ? &b->passed : &b->failed) += 1;
    snprintf(name, sizeof name, "%s %s %s:", precision_name(b->k->real), b->k->family, what);
    printf("%s  %-52s %6.1f %s one thread %3.0f %%, %6.1f on %d %3.0f %%, %.2f times (least %.0f "
           "%%%s)\n",
           good ? "pass" : "FAIL", name, (bound ? w->bytes : w->flops) / best[0] / 1e9,
           bound ? "GB/s" : "GFLOP/s", 100 * share[0],
           (bound ? w->bytes : w->flops) / best[1] / 1e9, b->threads, 100 * share[1],
           best[0] / best[1], 100 * w->least, w->scales && b->threads == 2 ? ", 1.9 times" : "");
    fflush(stdout);
}

/* ---- products ---- */

static void run_linear(const struct kernels *k, const void *args, struct team t)
{
    k->linear(args, t);
}

static void run_linear_dx(const struct kernels *k, const void *args, struct team t)
{
    k->linear_dx(args, t);
}

static void run_linear_dw(const struct kernels *k, const void *args, struct team t)
{
    k->linear_dw(args, t);
}

static void bench_linear(struct bench *b, int64_t B, int64_t S, int64_t K, int64_t N)
{
    static const struct {
        const char *form;
        run_fn *run;
    } forms[] = { { "forward", run_linear }, { "dX", run_linear_dx }, { "dW", run_linear_dw } };
    const struct kernels *k = b->k;
    struct linear_args a = {
        .B = B, .S = S, .K = K, .N = N, .ldx = K, .ldy = N, .lddx = K, .lddy = N, .scale = 1
    };
    struct work w = { .flops = 2.0 * (double)(B * S) * (double)K * (double)N,
                      .least = 0.7,
                      .scales = true };
    char what[64];

    pool.used = 0;
    a.x = filled(B * S * K, k->real);
    a.w = filled(N * K, k->real);
    a.dy = filled(B * S * N, k->real);
    a.y = pool_take((size_t)(B * S * N) * dtype_bytes(k->real));
    a.dx = pool_take((size_t)(B * S * K) * dtype_bytes(k->real));
    a.dw = filled(N * K, k->sum);
    a.scratch = pool_take(k->linear_scratch(&a, b->threads));
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        snprintf(what, sizeof what, "linear %lldx(%lld->%lld) %s", (long long)(B * S), (long long)K,
                 (long long)N, forms[i].form);
        if (!skipped(b, what)) {
            report(b, what, &w, forms[i].run, &a);
        }
    }
}

/* ---- attention: 9 heads of 64 in 3 groups, causal ---- */

static void run_attention(const struct kernels *k, const void *args, struct team t)
{
    k->attention(args, t);
}

static void run_attention_d(const struct kernels *k, const void *args, struct team t)
{
    k->attention_d(args, t);
}

static void bench_attention(struct bench *b, int64_t B, int64_t S)
{
    const struct kernels *k = b->k;
    int64_t H = 9, G = 3, d = 64, T = B * S;
    struct attention_args a = { .B = B,
                                .S = S,
                                .H = H,
                                .G = G,
                                .d = d,
                                .scale = 0.125,
                                .ldq = H * d,
                                .ldk = G * d,
                                .ldv = G * d,
                                .ldo = H * d,
                                .lddq = H * d,
                                .lddk = G * d,
                                .lddv = G * d,
                                .lddo = H * d };
    /* Two products forward, five backward, over the keys that are seen. */
    double product = 2.0 * (double)(B * S * (S + 1) / 2) * (double)(H * d);
    char what[64];

    pool.used = 0;
    a.q = filled(T * H * d, k->real);
    a.k = filled(T * G * d, k->real);
    a.v = filled(T * G * d, k->real);
    a.dout = filled(T * H * d, k->real);
    a.o = filled(T * H * d, k->real);
    a.lse = filled(T * H, k->sum);
    a.dq = filled(T * H * d, k->real);
    a.dk = filled(T * G * d, k->real);
    a.dv = filled(T * G * d, k->real);
    a.scratch = pool_take(k->attention_scratch(&a, b->threads));
    snprintf(what, sizeof what, "attention S %lld forward", (long long)S);
    if (!skipped(b, what)) {
        report(b, what, &(struct work){ .flops = 2 * product, .least = 0.5 }, run_attention, &a);
    }
    snprintf(what, sizeof what, "attention S %lld backward", (long long)S);
    if (!skipped(b, what)) {
        report(b, what, &(struct work){ .flops = 5 * product, .least = 0.4 }, run_attention_d, &a);
    }
}

/* ---- rows and elements: sizes beyond the caches ---- */

static void run_adamw(const struct kernels *k, const void *args, struct team t)
{
    k->adamw(args, t);
}

static void bench_adamw(struct bench *b)
{
    const struct kernels *k = b->k;
    int64_t n = 1 << 24;
    size_t sum = dtype_bytes(k->sum), copy = k->real == k->sum ? 0 : dtype_bytes(k->real);
    struct adamw_args a = { .count = n,
                            .lr = 1e-3,
                            .decay = 0.1,
                            .beta1 = 0.9,
                            .beta2 = 0.95,
                            .eps = 1e-8,
                            .correction1 = 0.1,
                            .correction2 = 0.05,
                            .scale = 1 };

    if (skipped(b, "adamw")) {
        return;
    }
    pool.used = 0;
    a.w = filled(n, k->sum);
    a.m = filled(n, k->sum);
    a.v = pool_take((size_t)n * sum);
    memset(a.v, 0, (size_t)n * sum);
    a.g = filled(n, k->sum);
    a.copy = copy == 0 ? NULL : filled(n, k->real);
    report(b, "adamw",
           &(struct work){ .bytes = (double)n * (double)(8 * sum + copy), .least = 0.6 }, run_adamw,
           &a);
}

static void run_rmsnorm(const struct kernels *k, const void *args, struct team t)
{
    k->rmsnorm(args, t);
}

static void run_rmsnorm_dx(const struct kernels *k, const void *args, struct team t)
{
    k->rmsnorm_dx(args, t);
}

static void run_rmsnorm_dw(const struct kernels *k, const void *args, struct team t)
{
    k->rmsnorm_dw(args, t);
}

static void bench_rmsnorm(struct bench *b)
{
    static const struct {
        const char *what;
        run_fn *run;
        int tensors; /* how many of the size of x are read or written */
    } forms[] = { { "rmsnorm forward", run_rmsnorm, 2 },
                  { "rmsnorm dX", run_rmsnorm_dx, 3 },
                  { "rmsnorm dW", run_rmsnorm_dw, 2 } };
    const struct kernels *k = b->k;
    int64_t D = 576, B = 128, S = 512, T = B * S;
    struct rmsnorm_args a = { .B = B, .S = S, .D = D, .eps = 1e-5 };

    pool.used = 0;
    a.x = filled(T * D, k->real);
    a.dy = filled(T * D, k->real);
    a.w = filled(D, k->real);
    a.y = filled(T * D, k->real);
    a.dx = a.y;
    a.rstd = filled(T, k->sum);
    a.dw = filled(D, k->sum);
    a.scratch = pool_take(k->rmsnorm_scratch(&a, b->threads));
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct work w = { .bytes =
                              (double)(forms[i].tensors * T * D) * (double)dtype_bytes(k->real),
                          .least = 0.6 };

        if (!skipped(b, forms[i].what)) {
            report(b, forms[i].what, &w, forms[i].run, &a);
        }
    }
}

static void run_rope(const struct kernels *k, const void *args, struct team t)
{
    k->rope(args, t);
}

/* Queries, keys and values of a row as they lie together; the values are copied. */
static void bench_rope(struct bench *b)
{
    const struct kernels *k = b->k;
    int64_t d = 64, T = 65536, width = 15 * d;
    struct rope_args a = { .T = T, .width = width, .heads = 12, .d = d };
    struct work w = { .bytes = (double)T * (double)(2 * width) * (double)dtype_bytes(k->real) +
                               (double)(T * d) * (double)dtype_bytes(k->sum),
                      .least = 0.6 };

    if (skipped(b, "rope")) {
        return;
    }
    pool.used = 0;
    a.x = filled(T * width, k->real);
    a.angles = filled(T * d, k->sum);
    a.y = filled(T * width, k->real);
    report(b, "rope", &w, run_rope, &a);
}

static void run_swiglu(const struct kernels *k, const void *args, struct team t)
{
    k->swiglu(args, t);
}

static void run_swiglu_d(const struct kernels *k, const void *args, struct team t)
{
    k->swiglu_d(args, t);
}

/*
 * Operations of an element beside memory's, in units of the peak's (an instruction on a vector is
 * worth a product and a sum): 17 instructions for exp (range 6, reduction 3, polynomial 8), 3 or 9
 * for the rest, and a division, which takes the unit that multiplies for 16 of its cycles.
 */
enum { EXP_FLOPS = 34, DIVISION_FLOPS = 32, SWIGLU_FLOPS = 6, SWIGLU_D_FLOPS = 18 };

static void bench_swiglu(struct bench *b)
{
    const struct kernels *k = b->k;
    int64_t T = 16384, F = 1536;
    double n = (double)(T * F), width = (double)dtype_bytes(k->real);
    struct swiglu_args a = { .T = T, .F = F };

    pool.used = 0;
    a.h = filled(2 * T * F, k->real);
    a.dy = filled(T * F, k->real);
    a.y = filled(T * F, k->real);
    a.dh = filled(2 * T * F, k->real);
    if (!skipped(b, "swiglu forward")) {
        report(b, "swiglu forward",
               &(struct work){ .flops = n * (EXP_FLOPS + DIVISION_FLOPS + SWIGLU_FLOPS),
                               .bytes = n * 3 * width,
                               .least = 0.6 },
               run_swiglu, &a);
    }
    if (!skipped(b, "swiglu backward")) {
        report(b, "swiglu backward",
               &(struct work){ .flops = n * (EXP_FLOPS + DIVISION_FLOPS + SWIGLU_D_FLOPS),
                               .bytes = n * 5 * width,
                               .least = 0.6 },
               run_swiglu_d, &a);
    }
}

/* ---- cross-entropy: with the head's three products, for it has no pass of its own ---- */

/* learn, with the barriers of its steps. */
static void run_head(const struct kernels *k, const void *args, struct team t)
{
    const struct head_args *a = args;

    for (int64_t step = 0; step < k->head_steps(a); step++) {
        k->head_backward(a, true, step, t);
#pragma omp barrier
    }
}

static void bench_head(struct bench *b)
{
    const struct kernels *k = b->k;
    int64_t B = 2, S = 512, D = 576, V = 49152, T = B * S;
    struct head_args a = { .B = B, .S = S, .D = D, .rows = V, .valid = V, .slices = 1 };
    struct work w = { .flops = (double)T * (double)V * (double)(6 * D + EXP_FLOPS), .least = 0.6 };
    int32_t *targets;

    if (skipped(b, "cross-entropy")) {
        return;
    }
    pool.used = 0;
    a.x = filled(T * D, k->real);
    a.w = filled(V * D, k->real);
    a.dx = filled(T * D, k->real);
    a.dw = filled(V * D, k->sum);
    a.lse = pool_take((size_t)T * sizeof(double));
    a.loss = pool_take((size_t)B * sizeof(double));
    targets = pool_take((size_t)T * sizeof(int32_t));
    for (int64_t i = 0; i < T; i++) {
        targets[i] = (int32_t)(i * 37 % V);
    }
    a.targets = targets;
    a.scratch = pool_take(k->head_scratch(&a, b->threads));
    report(b, "cross-entropy with head", &w, run_head, &a);
}

/* ---- all of it ---- */

static status bench_family(struct bench *b)
{
    TRY(measure_roofs(b));
    printf("%s %s: peak %.1f GFLOP/s one thread, %.1f on %d; memory %.1f and %.1f GB/s\n",
           precision_name(b->k->real), b->k->family, b->peak[0] / 1e9, b->peak[1] / 1e9, b->threads,
           b->memory[0] / 1e9, b->memory[1] / 1e9);
    bench_linear(b, 2, 512, 576, 1536);
    bench_linear(b, 8, 256, 288, 768);
    bench_linear(b, 2, 512, 576, 49152);
    bench_attention(b, 2, 512);
    bench_attention(b, 1, 2048);
    bench_adamw(b);
    bench_rmsnorm(b);
    bench_rope(b);
    bench_swiglu(b);
    bench_head(b);
    return OK;
}

/* The family that a run would take, or all of them; every one in turn. */
static status bench_type(struct bench *b, enum dtype type, bool every)
{
    const struct kernels *all[8];
    size_t n = kernels_all(type, all);

    if (!every) {
        n = 1;
        TRY(kernels_find(type, &all[0]));
    }
    for (size_t i = 0; i < n; i++) {
        b->k = all[i];
        b->peak[0] = b->peak[1] = 0;
        TRY(bench_family(b));
    }
    return OK;
}

static void print_peaks(int threads)
{
    enum peak_kind best = PEAK_SCALAR;

    for (enum peak_kind kind = PEAK_SCALAR; kind <= PEAK_AVX512; kind++) {
        best = peak_runs(kind) ? kind : best;
    }
    printf("peak FMA %d %.1f\n", threads, peak_rate(best, threads, 100) / 1e9);
    if (peak_runs(PEAK_PAIRS)) {
        printf("peak bf16 %d %.1f\n", threads, peak_rate(PEAK_PAIRS, threads, 100) / 1e9);
    }
}

int main(int count, char **arguments)
{
    static const enum dtype types[] = { DT_F32, DT_BF16 };
    bool every = count > 1 && strcmp(arguments[1], "all") == 0;
    struct bench b = { .threads = omp_get_max_threads(),
                       .filter = count > 1 + every ? arguments[1 + every] : NULL };

    if (count > 1 && strcmp(arguments[1], "--peaks") == 0) {
        print_peaks(b.threads);
        return 0;
    }
    pool_open();
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (bench_type(&b, types[i], every) != OK) {
            fprintf(stderr, "%s\n", fail_text());
            return 2;
        }
    }
    printf("%d lines passed, %d failed\n", b.passed, b.failed);
    return b.failed > 0;
}
