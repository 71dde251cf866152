/* One file: opening it, finding a tensor, reading ranges of elements in bounded pieces. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "store/tensor_header.h"

enum { PIECE = 1 << 16 }; /* elements converted at a time */

/* Opens a regular file for reading, without waiting for the other end of a pipe. */
static status open_regular(const char *path, int *fd, uint64_t *size)
{
    struct stat st;

    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) {
        return fail(errno == ENOENT ? ERR_MISSING : ERR_IO, "%s: %s", path, strerror(errno));
    }
    if (fstat(*fd, &st) != 0) {
        int code = errno;

        close(*fd);
        return fail(ERR_IO, "%s: %s", path, strerror(code));
    }
    if (!S_ISREG(st.st_mode)) {
        close(*fd);
        return fail(ERR_FORMAT, "%s: is no regular file", path);
    }
    *size = (uint64_t)st.st_size;
    return OK;
}

static status read_header(struct tensor_file *f, struct arena *a, const char *path, int fd,
                          uint64_t size)
{
    unsigned char field[8];
    uint64_t length = 0;
    char *header;
    status s;

    if (size < 8) {
        return fail(ERR_FORMAT, "%s: %llu bytes are too few for a safetensors file", path,
                    (unsigned long long)size);
    }
    TRY(file_read_at(fd, path, field, sizeof field, 0));
    for (int i = 7; i >= 0; i--) {
        length = length << 8 | field[i];
    }
    TRY(tensor_header_check_length(path, length, size));
    header = malloc((size_t)length + 1);
    check(header != NULL, "%s: no memory for a header of %llu bytes", path,
          (unsigned long long)length);
    s = file_read_at(fd, path, header, (size_t)length, 8);
    if (s == OK) {
        s = tensor_header_parse(f, a, path, header, (size_t)length, size);
    }
    free(header);
    return s;
}

status tensor_file_open(struct tensor_file *f, struct arena *a, const char *path)
{
    uint64_t size = 0;
    status s;
    int fd;

    *f = (struct tensor_file){ .fd = -1 };
    TRY(open_regular(path, &fd, &size));
    s = read_header(f, a, path, fd, size);
    if (s != OK) {
        close(fd);
        *f = (struct tensor_file){ .fd = -1 };
        return s;
    }
    f->fd = fd;
    return OK;
}

void tensor_file_close(struct tensor_file *f)
{
    if (f->path != NULL && f->fd >= 0) {
        close(f->fd);
    }
    map_release(&f->by_name);
    *f = (struct tensor_file){ .fd = -1 };
}

const struct tensor_entry *tensor_file_find(const struct tensor_file *f, const char *name)
{
    void *entry = NULL;

    return map_find(&f->by_name, name, &entry) ? entry : NULL;
}

/* As they stand in the file: elements below a byte too, where the range begins and ends on
 * bytes. */
static status read_bytes(const struct tensor_file *f, const struct tensor_entry *e, int64_t from,
                         int64_t count, void *out)
{
    uint64_t bits = (uint64_t)dtype_bits(e->dtype);
    uint64_t begin = (uint64_t)from * bits, length = (uint64_t)count * bits;

    if (begin % 8 != 0 || length % 8 != 0) {
        char name[SHOWN_NAME];

        return fail(ERR_FORMAT,
                    "%s: tensor \"%s\": elements [%lld, %lld) of %s do not begin and end on bytes",
                    f->path, tensor_name_shown(e->name, name), (long long)from,
                    (long long)(from + count), dtype_name(e->dtype));
    }
    return file_read_at(f->fd, f->path, out, (size_t)(length / 8), e->begin + begin / 8);
}

status tensor_file_read(const struct tensor_file *f, const struct tensor_entry *e, int64_t from,
                        int64_t count, enum dtype to, void *out)
{
    char name[SHOWN_NAME];
    unsigned char *piece, *next = out;
    status s = OK;

    if (from < 0 || count < 0 || from > e->count || count > e->count - from) {
        return fail(ERR_FORMAT, "%s: tensor \"%s\" has %lld elements, asked for %lld from %lld",
                    f->path, tensor_name_shown(e->name, name), (long long)e->count,
                    (long long)count, (long long)from);
    }
    if (to == e->dtype) {
        return read_bytes(f, e, from, count, out);
    }
    if (dtype_bits(e->dtype) % 8 != 0 || dtype_bits(to) % 8 != 0) {
        return fail(ERR_FORMAT, "%s: tensor \"%s\": %s does not convert to %s", f->path,
                    tensor_name_shown(e->name, name), dtype_name(e->dtype), dtype_name(to));
    }
    piece = malloc(PIECE * dtype_bytes(e->dtype));
    check(piece != NULL, "no memory for a piece of %d elements", PIECE);
    for (int64_t done = 0; done < count && s == OK; done += PIECE) {
        int64_t now = count - done < PIECE ? count - done : PIECE;

        s = read_bytes(f, e, from + done, now, piece);
        if (s == OK && !dtype_convert(to, next, e->dtype, piece, (size_t)now)) {
            s = fail(
                ERR_FORMAT, "%s: tensor \"%s\": %s does not convert to %s, or a value does not fit",
                f->path, tensor_name_shown(e->name, name), dtype_name(e->dtype), dtype_name(to));
        }
        next += (size_t)now * dtype_bytes(to);
    }
    free(piece);
    return s;
}
