#include "program/device.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/threads.h"
#include "program/op.h"

enum { HUGE_PAGE = 2 << 20 };

int64_t device_memory_left(void)
{
    return memory_left("");
}

bool device_has_huge_pages(void)
{
    return memory_has_huge_pages("");
}

/* What libraries take they keep: pages that go back to the system come back slowly. */
static void keep_heap(void)
{
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    mallopt(M_TOP_PAD, 16 << 20);
}

status device_open(struct device *d, const struct kernels *kernels, const struct mesh *mesh,
                   int threads, const struct residents *r)
{
    int64_t bytes = r->bytes + r->temp_bytes, left = device_memory_left();
    char want[32], have[32];
    void *memory;

    keep_heap();
    *d = (struct device){ .kernels = kernels,
                          .mesh = mesh,
                          .threads = threads,
                          .looks = meeting_looks(threads),
                          .state_bytes = r->bytes };
    if (left >= 0 && bytes > left) {
        return fail(
            ERR_MEMORY,
            "the run needs %s of memory, but only %s are free here; a smaller train_batch_size, "
            "max_context_width or activation_checkpointing need less",
            text_bytes(want, (uint64_t)bytes), text_bytes(have, (uint64_t)left));
    }
    d->bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    memory = mmap(NULL, (size_t)d->bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return fail(ERR_MEMORY, "cannot map %s of memory: %s", text_bytes(want, (uint64_t)bytes),
                    strerror(errno));
    }
    /* Aligned to a huge page; what lies before and behind stays untouched and costs nothing. */
    d->memory = (uint8_t *)(((uintptr_t)memory + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    if ((uint8_t *)memory != d->memory) {
        munmap(memory, (size_t)(d->memory - (uint8_t *)memory));
    }
    madvise(d->memory, (size_t)d->bytes, MADV_HUGEPAGE);
    madvise(d->memory, (size_t)d->bytes, MADV_DONTFORK);
#pragma omp parallel num_threads(threads)
    {
        struct team t = { omp_get_thread_num(), omp_get_num_threads() };
        int64_t from, to;

        if (threads_pinned(threads)) {
            thread_pin(t.thread, threads);
        }

        team_share(t, d->bytes / 4096, &from, &to);
        for (int64_t i = from; i < to; i++) {
            d->memory[i * 4096] = 0;
        }
    }
    return OK;
}

void device_close(struct device *d)
{
    if (d->memory != NULL) {
        munmap(d->memory, (size_t)d->bytes);
        d->memory = NULL;
        thread_unpin(); /* the calling thread; the others of the team only compute */
    }
}

void *device_bytes(const struct device *d, const struct program *p, val v)
{
    const struct value *x = value_of(p, v);

    return d->memory + (x->temporary ? d->state_bytes : 0) + x->at;
}

static uint8_t *range(const struct device *d, const struct program *p, val v, int64_t from,
                      int64_t count, size_t *bytes)
{
    const struct value *x = value_of(p, v);
    size_t width = dtype_bytes(x->dtype);

    check(from >= 0 && count >= 0 && from + count <= shape_count(&x->shape),
          "%s: elements %lld to %lld", x->name, (long long)from, (long long)(from + count));
    *bytes = (size_t)count * width;
    return (uint8_t *)device_bytes(d, p, v) + (size_t)from * width;
}

void device_write(struct device *d, const struct program *p, val v, int64_t from, int64_t count,
                  const void *bytes)
{
    size_t length;
    uint8_t *at = range(d, p, v, from, count, &length);

    memcpy(at, bytes, length);
}

void device_read(const struct device *d, const struct program *p, val v, int64_t from,
                 int64_t count, void *bytes)
{
    size_t length;
    const uint8_t *at = range(d, p, v, from, count, &length);

    memcpy(bytes, at, length);
}

void device_fill_zero(struct device *d, const struct program *p, val v)
{
    size_t length;
    uint8_t *at = range(d, p, v, 0, shape_count(&value_of(p, v)->shape), &length);

    memset(at, 0, length);
}
