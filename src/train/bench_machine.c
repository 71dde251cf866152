/* What lies under a run beside its processor: the disk, and messages between ranks. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "train/bench.h"

enum { PIECE = 8 << 20 };

/* ---- the disk ---- */

/* A file that is gone when the program is; past the cache where that can be. */
static status open_nameless(const char *folder, int *fd, bool *direct)
{
    struct arena a = { 0 };
    char *path = path_join(&a, folder, "roux-bench-XXXXXX");

    *direct = true;
    *fd = mkostemp(path, O_DIRECT | O_CLOEXEC);
    if (*fd < 0 && errno == EINVAL) {
        strcpy(path + strlen(path) - 6, "XXXXXX");
        *direct = false;
        *fd = mkostemp(path, O_CLOEXEC);
    }
    if (*fd < 0) {
        status s = fail(ERR_IO, "%s: no file can be made there to measure the disk: %s", folder,
                        strerror(errno));

        arena_release(&a);
        return s;
    }
    unlink(path);
    arena_release(&a);
    return OK;
}

static status write_pieces(int fd, const char *folder, const void *bytes, int64_t length)
{
    for (int64_t at = 0; at < length; at += PIECE) {
        TRY(file_write_at(fd, folder, bytes, PIECE, (uint64_t)at));
    }
    return file_sync(fd, folder);
}

static status read_pieces(int fd, const char *folder, void *bytes, int64_t length)
{
    for (int64_t at = 0; at < length; at += PIECE) {
        TRY(file_read_at(fd, folder, bytes, PIECE, (uint64_t)at));
    }
    return OK;
}

status bench_disk(const char *folder, int64_t bytes, struct bench_disk *out)
{
    int64_t length = (bytes + PIECE - 1) / PIECE * PIECE;
    void *piece = aligned_alloc(4096, PIECE);
    double start;
    int fd = -1;
    status s;

    check(piece != NULL, "out of memory");
    memset(piece, 1, PIECE);
    *out = (struct bench_disk){ .bytes = length };
    TRY_OR(release, s, open_nameless(folder, &fd, &out->direct));
    start = clock_seconds();
    TRY_OR(release, s, write_pieces(fd, folder, piece, length));
    out->write = (double)length / (clock_seconds() - start);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    start = clock_seconds();
    TRY_OR(release, s, read_pieces(fd, folder, piece, length));
    out->read = (double)length / (clock_seconds() - start);
release:
    if (fd >= 0) {
        close(fd);
    }
    free(piece);
    return s;
}

/* ---- messages ---- */

/* The best of a few; all ranks begin together. */
static status least_seconds(struct comm *world, struct collective *what, int tries, double *out)
{
    *out = 1e9;
    for (int i = 0; i < tries; i++) {
        double start, took;

        TRY(comm_barrier(world));
        start = clock_seconds();
        TRY(comm_run(world, what));
        took = clock_seconds() - start;
        *out = took < *out ? took : *out;
    }
    return OK;
}

static status run_messages(struct comm *world, float *in, float *all, struct bench_messages *out)
{
    struct collective what = {
        .kind = COMM_ALL_REDUCE, .dtype = DT_F32, .in = in, .out = in, .n = out->bytes / 4
    };
    size_t scratch = comm_scratch(world, &what) + 64;
    double seconds;
    status s;

    what.scratch = aligned_alloc(64, (scratch + 63) / 64 * 64);
    check(what.scratch != NULL, "out of memory");
    TRY_OR(release, s, least_seconds(world, &what, 3, &seconds));
    out->all_reduce = (double)out->bytes / seconds;
    what.n = 16;
    TRY_OR(release, s, least_seconds(world, &what, 20, &out->latency));
    what.kind = COMM_GATHER;
    what.n = out->bytes / 4 / world->size;
    what.out = all;
    TRY_OR(release, s, least_seconds(world, &what, 3, &seconds));
    out->gather = (double)out->bytes / seconds;
release:
    free(what.scratch);
    return s;
}

status bench_messages(struct comm *world, int64_t bytes, struct bench_messages *out)
{
    float *in = calloc((size_t)bytes / 4, sizeof *in),
          *all = calloc((size_t)bytes / 4, sizeof *all);
    status s;

    check(in != NULL && all != NULL, "out of memory");
    *out = (struct bench_messages){ .bytes = bytes };
    s = run_messages(world, in, all, out);
    free(in);
    free(all);
    return s;
}
