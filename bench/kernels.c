/*
 * GFLOP/s of the kernels that a step spends its time in, for every family of this processor, on one
 * thread and on all.
 *
 *   kernels [T K N]      default: 2048 rows; 128 and 512 wide
 *
 * Link with the rooms base and tensor, the kernels as cmake/kernels.cmake has them, and -fopenmp.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tensor/kernels.h"

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Values like those of a model at its start: small, so that exp meets no extremes. */
static void *filled(size_t count, enum dtype real)
{
    void *bytes = aligned_alloc(64, (count * dtype_bytes(real) + 63) / 64 * 64);
    uint64_t state = count;

    check(bytes != NULL, "no memory for %zu elements", count);
    for (size_t i = 0; i < count; i++) {
        double x;

        state = state * 6364136223846793005u + 1442695040888963407u;
        x = (double)(state >> 40) * 0x1p-24 - 0.5;
        if (real == DT_F32) {
            ((float *)bytes)[i] = (float)x;
        } else {
            ((double *)bytes)[i] = x;
        }
    }
    return bytes;
}

typedef void run_fn(const struct kernels *k, const void *args, struct team t);

/* The best of a few runs, by a team that meets after each. */
static double best_seconds(run_fn *run, const struct kernels *k, const void *args, int threads)
{
    double best = 1e9;

    for (int repeat = 0; repeat < 5; repeat++) {
        double start = seconds(), took;

#pragma omp parallel num_threads(threads)
        run(k, args, (struct team){ omp_get_thread_num(), omp_get_num_threads() });
        took = seconds() - start;
        best = took < best ? took : best;
    }
    return best;
}

static void report(const char *what, double flops, run_fn *run, const struct kernels *k,
                   const void *args)
{
    double one = best_seconds(run, k, args, 1),
           all = best_seconds(run, k, args, omp_get_max_threads());

    printf("  %-22s %8.1f GFLOP/s one thread, %8.1f on %d (%.2f times)\n", what, flops / one / 1e9,
           flops / all / 1e9, omp_get_max_threads(), one / all);
}

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

static void run_attention(const struct kernels *k, const void *args, struct team t)
{
    k->attention(args, t);
}

static void run_attention_d(const struct kernels *k, const void *args, struct team t)
{
    k->attention_d(args, t);
}

static void run_swiglu(const struct kernels *k, const void *args, struct team t)
{
    k->swiglu(args, t);
}

static void bench_linear(const struct kernels *k, int64_t T, int64_t K, int64_t N)
{
    struct linear_args a = {
        .B = 8, .S = T / 8, .K = K, .N = N, .ldx = K, .ldy = N, .lddx = K, .lddy = N, .scale = 1
    };
    double flops = 2.0 * (double)(8 * a.S) * (double)K * (double)N;
    void *x = filled((size_t)(T * K), k->real), *w = filled((size_t)(N * K), k->real);
    void *y = filled((size_t)(T * N), k->real), *dw = filled((size_t)(N * K), k->real);
    void *scratch = malloc(k->linear_scratch(&a, omp_get_max_threads()));

    a.x = x;
    a.w = w;
    a.y = y;
    printf(" linear T %lld K %lld N %lld\n", (long long)T, (long long)K, (long long)N);
    report("forward", flops, run_linear, k, &a);
    a.dy = y;
    a.dw = dw;
    a.scratch = scratch;
    report("dw", flops, run_linear_dw, k, &a);
    a.dx = x;
    report("dx", flops, run_linear_dx, k, &a);
    free(x);
    free(w);
    free(y);
    free(dw);
    free(scratch);
}

static void bench_attention(const struct kernels *k, int64_t B, int64_t S, int64_t window)
{
    int64_t H = 6, G = 3, d = 64, T = B * S, keys = window > 0 ? window : (S + 1) / 2;
    struct attention_args a = { .B = B,
                                .S = S,
                                .H = H,
                                .G = G,
                                .d = d,
                                .window = window,
                                .scale = 0.125,
                                .ldq = H * d,
                                .ldk = G * d,
                                .ldv = G * d,
                                .ldo = H * d,
                                .lddq = H * d,
                                .lddk = G * d,
                                .lddv = G * d };
    double flops = 4.0 * (double)(T * keys * H * d);
    void *q = filled((size_t)(T * H * d), k->real), *o = filled((size_t)(T * H * d), k->real);
    void *kv = filled((size_t)(T * G * d), k->real), *lse = filled((size_t)(T * H), k->real);
    void *dq = filled((size_t)(T * H * d), k->real),
         *dkv = filled((size_t)(2 * T * G * d), k->real);
    void *scratch = malloc(k->attention_scratch(&a, omp_get_max_threads()));

    a.q = a.dout = q;
    a.k = a.v = kv;
    a.o = o;
    a.lse = lse;
    a.dq = dq;
    a.dk = dkv;
    a.dv = (char *)dkv + (size_t)(T * G * d) * dtype_bytes(k->real);
    a.scratch = scratch;
    printf(" attention B %lld S %lld window %lld, 6 heads of 64, 3 groups\n", (long long)B,
           (long long)S, (long long)window);
    report("forward", flops, run_attention, k, &a);
    report("derivative", 2.5 * flops, run_attention_d, k, &a);
    free(q);
    free(o);
    free(kv);
    free(lse);
    free(dq);
    free(dkv);
    free(scratch);
}

/* learn, with the barriers of its steps. */
static void run_head(const struct kernels *k, const void *args, struct team t)
{
    const struct head_args *a = args;

    for (int64_t step = 0; step < k->head_steps(a); step++) {
        k->head_backward(a, true, step, t);
#pragma omp barrier
    }
}

static void bench_head(const struct kernels *k, int64_t B, int64_t S, int64_t D, int64_t V)
{
    int64_t T = B * S;
    struct head_args a = { .B = B, .S = S, .D = D, .rows = V, .valid = V, .slices = 1 };
    void *x = filled((size_t)(T * D), k->real), *w = filled((size_t)(V * D), k->real);
    void *dx = filled((size_t)(T * D), k->real), *dw = filled((size_t)(V * D), k->real);
    void *scratch = malloc(k->head_scratch(&a, omp_get_max_threads()));
    double *lse = malloc((size_t)(T + B) * sizeof(double));
    int32_t *targets = calloc((size_t)T, sizeof(int32_t));

    a.x = x;
    a.w = w;
    a.dx = dx;
    a.dw = dw;
    a.lse = lse;
    a.loss = lse + T;
    a.targets = targets;
    a.scratch = scratch;
    printf(" head T %lld D %lld V %lld\n", (long long)T, (long long)D, (long long)V);
    report("learn", 6.0 * (double)T * (double)D * (double)V, run_head, k, &a);
    free(x);
    free(w);
    free(dx);
    free(dw);
    free(scratch);
    free(lse);
    free(targets);
}

static void bench_swiglu(const struct kernels *k, int64_t T, int64_t F)
{
    void *h = filled((size_t)(2 * T * F), k->real), *y = filled((size_t)(T * F), k->real);
    struct swiglu_args a = { .h = h, .y = y, .T = T, .F = F };

    printf(" swiglu T %lld F %lld: one flop an element\n", (long long)T, (long long)F);
    report("forward", (double)(T * F), run_swiglu, k, &a);
    free(h);
    free(y);
}

int main(int argc, char **argv)
{
    enum dtype types[2] = { DT_F32, DT_F64 };

    for (int i = 0; i < 2; i++) {
        const struct kernels *all[8];
        size_t n = kernels_all(types[i], all);

        for (size_t f = 0; f < n; f++) {
            printf("%s %s\n", all[f]->family, dtype_name(types[i]));
            if (argc == 4) {
                bench_linear(all[f], atoll(argv[1]), atoll(argv[2]), atoll(argv[3]));
                continue;
            }
            bench_linear(all[f], 2048, 128, 128);
            bench_linear(all[f], 2048, 512, 512);
            bench_attention(all[f], 8, 256, 0);
            bench_attention(all[f], 1, 1024, 128);
            bench_swiglu(all[f], 2048, 768);
            bench_head(all[f], 4, 128, 288, 8000);
        }
    }
    return 0;
}
