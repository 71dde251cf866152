#include "base/file.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/system.h"
#include "base/text.h"

static const char *kind_of(mode_t mode)
{
    if (S_ISDIR(mode)) {
        return "a folder";
    }
    if (S_ISFIFO(mode)) {
        return "a pipe";
    }
    if (S_ISSOCK(mode)) {
        return "a socket";
    }
    return "a device";
}

static status too_long(const char *path, uint64_t length, size_t limit)
{
    return fail(ERR_FORMAT, "%s: has %" PRIu64 " bytes or more; at most %zu are read here", path,
                length, limit);
}

/* Files of /proc say that they are empty, and are not: read until the end comes. */
static status read_unsized(struct arena *a, const char *path, int fd, size_t limit, char **bytes,
                           size_t *length)
{
    struct text all = { 0 };
    char piece[4096];
    status s = OK;
    ssize_t got;

    do {
        got = read(fd, piece, sizeof piece);
        if (got > 0) {
            text_add_n(&all, piece, (size_t)got);
        } else if (got < 0 && errno != EINTR) {
            TRY_OR(release, s, fail_system(path, "cannot be read", errno));
        }
        if (all.length > limit) {
            TRY_OR(release, s, too_long(path, all.length, limit));
        }
    } while (got != 0);
    *bytes = arena_text_n(a, text_of(&all), all.length);
    *length = all.length;
release:
    text_release(&all);
    return s;
}

static status read_open(struct arena *a, const char *path, int fd, size_t limit, char **bytes,
                        size_t *length)
{
    struct stat about;

    if (fstat(fd, &about) != 0) {
        return fail_system(path, "cannot be read", errno);
    }
    if (!S_ISREG(about.st_mode)) {
        return fail(ERR_FORMAT, "%s: is %s; a regular file is needed", path,
                    kind_of(about.st_mode));
    }
    if ((uint64_t)about.st_size > limit) {
        return too_long(path, (uint64_t)about.st_size, limit);
    }
    if (about.st_size == 0) {
        return read_unsized(a, path, fd, limit, bytes, length);
    }
    *bytes = arena_take(a, (size_t)about.st_size + 1);
    *length = (size_t)about.st_size;
    return file_read_at(fd, path, *bytes, *length, 0);
}

/* Without waiting: opening a pipe would else block until somebody writes to it. */
status file_read(struct arena *a, const char *path, size_t limit, char **bytes, size_t *length)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    status s;

    if (fd < 0) {
        return fail_system(path, "cannot be opened", errno);
    }
    s = read_open(a, path, fd, limit, bytes, length);
    close(fd);
    return s;
}

/* A name beside `path` that nobody else has; O_EXCL settles it between hosts that share a disk. */
static status open_beside(struct arena *a, const char *path, char **name, int *fd)
{
    static atomic_uint counter;
    const char *folder = path_folder(a, path);

    do {
        *name =
            path_join(a, folder, arena_format(a, ".roux-new-%ld-%u", (long)getpid(), counter++));
        *fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666);
    } while (*fd < 0 && errno == EEXIST);
    if (*fd < 0) {
        return fail_system(path, "cannot be written: no file can be made beside it", errno);
    }
    return OK;
}

status folder_check_writable(const char *path)
{
    struct arena a = { 0 };
    char *name = NULL;
    int fd = -1;
    status s = open_beside(&a, path_join(&a, path, "x"), &name, &fd);

    if (s == OK) {
        close(fd);
        unlink(name);
    } else {
        s = fail(ERR_IO, "%s: no file can be made in it: %s", path, strerror(errno));
    }
    arena_release(&a);
    return s;
}

static status fill_beside(const char *path, int fd, const void *bytes, size_t length)
{
    struct stat old;

    if (stat(path, &old) == 0 && S_ISREG(old.st_mode) && fchmod(fd, old.st_mode & 07777) != 0) {
        return fail_system(path, "cannot be replaced: its mode cannot be kept", errno);
    }
    TRY(file_write_at(fd, path, bytes, length, 0));
    return file_sync(fd, path);
}

status file_check_target(const char *path)
{
    struct stat about;

    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
        return fail(ERR_IO, "%s: is %s, whose place no file may take", path,
                    kind_of(about.st_mode));
    }
    return OK;
}

status file_replace(const char *path, const void *bytes, size_t length)
{
    struct arena a = { 0 };
    char *beside = NULL;
    int fd = -1;
    status s = OK;

    TRY(file_check_target(path));
    TRY_OR(release, s, open_beside(&a, path, &beside, &fd));
    s = fill_beside(path, fd, bytes, length);
    if (close(fd) != 0 && s == OK) {
        s = fail_system(path, "cannot be written", errno);
    }
    if (s == OK && rename(beside, path) != 0) {
        s = fail_system(path, "cannot be replaced", errno);
    }
    if (s != OK) {
        unlink(beside);
        goto release;
    }
    s = folder_sync(path_folder(&a, path));
release:
    arena_release(&a);
    return s;
}

/* The kernel counts offsets in signed 64 bits. */
static bool offset_fits(size_t length, uint64_t offset)
{
    return offset <= INT64_MAX && length <= INT64_MAX - offset;
}

status file_write_at(int fd, const char *path, const void *bytes, size_t length, uint64_t offset)
{
    const char *from = bytes;
    size_t done = 0;

    if (!offset_fits(length, offset)) {
        return fail(ERR_IO, "%s: no file holds %zu bytes at offset %" PRIu64, path, length, offset);
    }
    while (done < length) {
        ssize_t now = pwrite(fd, from + done, length - done, (off_t)(offset + done));

        if (now < 0 && errno == EINTR) {
            continue;
        }
        if (now <= 0) {
            return fail(ERR_IO,
                        "%s: cannot be written at offset %" PRIu64 ", %zu bytes are left: %s", path,
                        offset + done, length - done, strerror(now < 0 ? errno : EIO));
        }
        done += (size_t)now;
    }
    return OK;
}

status file_read_at(int fd, const char *path, void *bytes, size_t length, uint64_t offset)
{
    char *to = bytes;
    size_t done = 0;

    while (done < length) {
        ssize_t now = 0;

        if (offset_fits(length, offset)) {
            now = pread(fd, to + done, length - done, (off_t)(offset + done));
        }
        if (now < 0 && errno == EINTR) {
            continue;
        }
        if (now < 0) {
            return fail(ERR_IO, "%s: cannot be read at offset %" PRIu64 ": %s", path, offset + done,
                        strerror(errno));
        }
        if (now == 0) {
            struct stat about = { 0 };
            uint64_t end = fstat(fd, &about) == 0 ? (uint64_t)about.st_size : offset + done;

            return fail(ERR_FORMAT,
                        "%s: ends after %" PRIu64 " bytes, where %zu bytes from offset %" PRIu64
                        " are needed",
                        path, end, length, offset);
        }
        done += (size_t)now;
    }
    return OK;
}

/* Pipes and devices have nothing to flush and say EINVAL. */
status file_sync(int fd, const char *path)
{
    int result;

    do {
        result = fsync(fd);
    } while (result != 0 && errno == EINTR);
    if (result != 0 && errno != EINVAL) {
        return fail_system(path, "cannot be flushed to disk", errno);
    }
    return OK;
}

bool file_is_there(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0;
}

bool file_is_folder(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

status file_size(const char *path, uint64_t *bytes)
{
    struct stat about;

    if (stat(path, &about) != 0) {
        return fail_system(path, "its size cannot be read", errno);
    }
    if (!S_ISREG(about.st_mode)) {
        return fail(ERR_FORMAT, "%s: is %s; a regular file is needed", path,
                    kind_of(about.st_mode));
    }
    *bytes = (uint64_t)about.st_size;
    return OK;
}
