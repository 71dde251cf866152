/*
 * A library to be preloaded: counts what a training run asks the system for while its steps go from
 * one number to another, by who asked, and how its resident memory grows meanwhile.
 *
 *   ALLOC_WINDOW_FROM, ALLOC_WINDOW_TO   the window opens with metrics.jsonl's line of step FROM and
 *                                        closes with that of TO
 *   ALLOC_WINDOW_REPORT                  a file that gets "N calls", "resident A KiB to B KiB", and a
 *                                        line a caller
 *
 * Callers are told by the return address: those in the program itself and in its own modules count
 * (roux, roux-*.so). What the C library and the OpenMP runtime ask for on behalf of a program's call
 * (getline, fopen, a team of threads, ...) cannot be told apart from their own needs, so it counts,
 * too. What other libraries ask for does not.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CALLERS = 64 };

struct caller {
    const void *address;
    const char *function;
    long calls;
};

static struct caller callers[CALLERS];
static int caller_count;
static long all_calls, resident_before, resident_after; /* KiB */
static atomic_flag counting = ATOMIC_FLAG_INIT;
static atomic_bool window_is_open;
static bool was_open;
static long from_step = -1, to_step = -1;

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void *(*real_memalign)(size_t, size_t);
static int (*real_posix_memalign)(void **, size_t, size_t);
static void *(*real_aligned_alloc)(size_t, size_t);
static void *(*real_mmap)(void *, size_t, int, int, int, off_t);
static void *(*real_mremap)(void *, size_t, size_t, int, ...);
static int (*real_fputs)(const char *, FILE *);

/* dlsym() itself may ask for memory before the real functions are known. */
static char early[4096];
static size_t early_used;

static void *early_take(size_t bytes)
{
    void *at = early + early_used;

    early_used += (bytes + 15) / 16 * 16;
    if (early_used > sizeof early) {
        abort();
    }
    return at;
}

static void *next(const char *name)
{
    void *at = dlsym(RTLD_NEXT, name);

    if (at == NULL) {
        abort();
    }
    return at;
}

__attribute__((constructor)) static void begin(void)
{
    const char *from = getenv("ALLOC_WINDOW_FROM"), *to = getenv("ALLOC_WINDOW_TO");

    *(void **)&real_calloc = next("calloc");
    *(void **)&real_malloc = next("malloc");
    *(void **)&real_realloc = next("realloc");
    *(void **)&real_memalign = next("memalign");
    *(void **)&real_posix_memalign = next("posix_memalign");
    *(void **)&real_aligned_alloc = next("aligned_alloc");
    *(void **)&real_mmap = next("mmap");
    *(void **)&real_mremap = next("mremap");
    *(void **)&real_fputs = next("fputs");
    from_step = from == NULL ? -1 : atol(from);
    to_step = to == NULL ? -1 : atol(to);
}

static bool is_ours(const void *address)
{
    static const char *const names[] = { "roux", "libc.so", "libgomp.so" };
    Dl_info at;
    const char *name;

    if (dladdr(address, &at) == 0 || at.dli_fname == NULL) {
        return true;
    }
    name = strrchr(at.dli_fname, '/');
    name = name == NULL ? at.dli_fname : name + 1;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strncmp(name, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

static void note(const char *function, const void *address)
{
    all_calls++;
    for (int i = 0; i < caller_count; i++) {
        if (callers[i].address == address) {
            callers[i].calls++;
            return;
        }
    }
    if (caller_count < CALLERS) {
        callers[caller_count++] = (struct caller){ address, function, 1 };
    }
}

static void count(const char *function, const void *address)
{
    if (!atomic_load(&window_is_open) || !is_ours(address)) {
        return;
    }
    while (atomic_flag_test_and_set(&counting)) {
    }
    note(function, address);
    atomic_flag_clear(&counting);
}

void *malloc(size_t bytes)
{
    if (real_malloc == NULL) {
        return early_take(bytes);
    }
    count("malloc", __builtin_return_address(0));
    return real_malloc(bytes);
}

void *calloc(size_t n, size_t size)
{
    if (real_calloc == NULL) {
        return early_take(n * size); /* zeros, as it is static */
    }
    count("calloc", __builtin_return_address(0));
    return real_calloc(n, size);
}

void *realloc(void *at, size_t bytes)
{
    count("realloc", __builtin_return_address(0));
    return real_realloc(at, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    count("memalign", __builtin_return_address(0));
    return real_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    count("posix_memalign", __builtin_return_address(0));
    return real_posix_memalign(out, alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    count("aligned_alloc", __builtin_return_address(0));
    return real_aligned_alloc(alignment, bytes);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    count("mmap", __builtin_return_address(0));
    return real_mmap(at, bytes, protection, flags, fd, offset);
}

void *mremap(void *at, size_t old, size_t bytes, int flags, ...)
{
    va_list list;
    void *to;

    va_start(list, flags);
    to = va_arg(list, void *);
    va_end(list);
    count("mremap", __builtin_return_address(0));
    return real_mremap(at, old, bytes, flags, to);
}

/* Without the C library's buffers, which are memory of their own. */
static long resident(void)
{
    char text[128] = { 0 };
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    char *second = length <= 0 ? NULL : strchr(text, ' ');

    if (fd >= 0) {
        close(fd);
    }
    return second == NULL ? -1 : strtol(second, NULL, 10) * (sysconf(_SC_PAGESIZE) / 1024);
}

static void report(void)
{
    const char *path = getenv("ALLOC_WINDOW_REPORT");
    FILE *f = path == NULL ? NULL : fopen(path, "w");

    if (f == NULL) {
        return;
    }
    fprintf(f, "%ld calls\nresident %ld KiB to %ld KiB\n", all_calls, resident_before,
            resident_after);
    for (int i = 0; i < caller_count; i++) {
        Dl_info at = { 0 };

        dladdr(callers[i].address, &at);
        fprintf(f, "%ld %s from %s+0x%lx (%s)\n", callers[i].calls, callers[i].function,
                at.dli_fname == NULL ? "?" : at.dli_fname,
                (unsigned long)((const char *)callers[i].address - (const char *)at.dli_fbase),
                at.dli_sname == NULL ? "?" : at.dli_sname);
    }
    fclose(f);
}

/* A line of metrics.jsonl begins with its step. */
static void look(const char *line)
{
    static const char head[] = "{\"step\":";
    long step;

    if (strncmp(line, head, sizeof head - 1) != 0) {
        return;
    }
    step = strtol(line + sizeof head - 1, NULL, 10);
    if (step == from_step && !was_open) {
        was_open = true;
        resident_before = resident();
        atomic_store(&window_is_open, true);
    } else if (step == to_step && atomic_load(&window_is_open)) {
        atomic_store(&window_is_open, false);
        resident_after = resident();
        report();
    }
}

int fputs(const char *text, FILE *file)
{
    int done = real_fputs(text, file);

    look(text);
    return done;
}
