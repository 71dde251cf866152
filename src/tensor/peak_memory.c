/* Memory bandwidth: three passes over buffers that no cache holds. */
#include <emmintrin.h>
#include <omp.h>
#include <sys/mman.h>
#include <time.h>

#include "tensor/peak.h"

enum { HUGE_PAGE = 2 << 20 };

struct stream {
    float *x, *y, *z;
    int64_t count; /* floats of each, a multiple of 16 for every thread */
};

static const struct {
    const char *name;
    int buffers; /* that the formula reads and writes */
} kinds[STREAM_KINDS] = { { "read", 1 }, { "copy", 2 }, { "triad", 3 } };

const char *peak_stream_name(enum peak_stream kind)
{
    return kinds[kind].name;
}

static void read_part(const struct stream *s, int64_t from, int64_t to)
{
    __m128 a = _mm_setzero_ps(), b = a, c = a, d = a;

    for (int64_t i = from; i < to; i += 16) {
        a = _mm_add_ps(a, _mm_load_ps(s->x + i));
        b = _mm_add_ps(b, _mm_load_ps(s->x + i + 4));
        c = _mm_add_ps(c, _mm_load_ps(s->x + i + 8));
        d = _mm_add_ps(d, _mm_load_ps(s->x + i + 12));
    }
    a = _mm_add_ps(_mm_add_ps(a, b), _mm_add_ps(c, d));
    __asm__ volatile("" ::"x"(a)); /* the sum is wanted */
}

/* Stores that pass by the caches, as everything that writes more than they hold should. */
static void copy_part(const struct stream *s, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i += 4) {
        _mm_stream_ps(s->y + i, _mm_load_ps(s->x + i));
    }
    _mm_sfence();
}

static void triad_part(const struct stream *s, int64_t from, int64_t to)
{
    __m128 three = _mm_set1_ps(3);

    for (int64_t i = from; i < to; i += 4) {
        _mm_stream_ps(s->y + i,
                      _mm_add_ps(_mm_load_ps(s->x + i), _mm_mul_ps(three, _mm_load_ps(s->z + i))));
    }
    _mm_sfence();
}

static void run_part(const struct stream *s, enum peak_stream kind, struct team t)
{
    int64_t from, to;

    team_share(t, s->count / 16, &from, &to);
    if (kind == STREAM_READ) {
        read_part(s, from * 16, to * 16);
    } else if (kind == STREAM_COPY) {
        copy_part(s, from * 16, to * 16);
    } else {
        triad_part(s, from * 16, to * 16);
    }
}

static double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double run_seconds(const struct stream *s, enum peak_stream kind, int threads)
{
    double start = seconds_now();

#pragma omp parallel num_threads(threads)
    run_part(s, kind, (struct team){ omp_get_thread_num(), omp_get_num_threads() });
    return seconds_now() - start;
}

static void touch(const struct stream *s, int threads)
{
#pragma omp parallel num_threads(threads)
    {
        int64_t from, to;

        team_share((struct team){ omp_get_thread_num(), omp_get_num_threads() }, s->count / 16,
                   &from, &to);
        for (int64_t i = from * 16; i < to * 16; i++) {
            s->x[i] = s->y[i] = s->z[i] = 0;
        }
    }
}

status peak_streams(int64_t bytes, int threads, int tries, double out[STREAM_KINDS])
{
    int64_t each = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    size_t all = (size_t)(3 * each);
    void *memory =
        mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct stream s;

    if (memory == MAP_FAILED) {
        return fail(ERR_MEMORY, "cannot map %zu bytes to measure memory with", all);
    }
    madvise(memory, all, MADV_HUGEPAGE);
    s = (struct stream){ .x = memory, .count = each / (int64_t)sizeof(float) };
    s.y = s.x + s.count;
    s.z = s.y + s.count;
    touch(&s, threads);
    for (int k = 0; k < STREAM_KINDS; k++) {
        out[k] = 0;
        for (int i = 0; i < tries; i++) {
            double rate =
                (double)(kinds[k].buffers * each) / run_seconds(&s, (enum peak_stream)k, threads);

            out[k] = rate > out[k] ? rate : out[k];
        }
    }
    munmap(memory, all);
    return OK;
}
