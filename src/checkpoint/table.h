/*
 * A writer's table: what lies where in its state file, and the digests that prove every byte of it.
 *
 *   | header | buffer 0, padded to 4,096 | buffer 1, padded | ... |
 *   |digest 0| digest | digest | digest  | digest | digest  |        one per 16 MiB of a buffer, counted from its begin
 *
 * The file's digest is that of all these digests in this order. Inner to this room.
 */
#ifndef ROUX_CHECKPOINT_TABLE_H
#define ROUX_CHECKPOINT_TABLE_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/layout.h"

struct stored_buffer {
    const char *name;
    enum dtype dtype;
    uint64_t begin, bytes; /* in the file; padding included */
    struct digest *blocks;
    size_t block_count;
    const struct slice *slices;
    int slice_count;
};

struct table {
    const char *file; /* below the checkpoint's folder */
    uint64_t file_bytes, header_bytes;
    struct digest header;
    struct stored_buffer *buffers;
    int buffer_count;
};

/* Elements of a slice's rectangle, or -1 if it is no rectangle of its tensor or has more than
 * 2^62 elements. */
int64_t slice_volume(const struct slice *s);

static inline size_t block_total(uint64_t bytes)
{
    return (size_t)((bytes + DIGEST_BLOCK - 1) / DIGEST_BLOCK);
}

/* Writes the table whole or not at all, and stamps it. */
MUST_USE status table_write(const struct table *t, const char *path, struct stamp *out);

/*
 * Reads and checks a table. ERR_FORMAT if it is missing, differs from its stamp, speaks of another
 * file than `file`, or says what cannot be.
 */
MUST_USE status table_read(struct table *out, struct arena *a, const char *path,
                           const struct stamp *stamp, const char *file);

/*
 * Opens the state file of a table below `folder`, and checks its length and its header; blocks are
 * the reader's to check. ERR_FORMAT if it is missing, short, long or altered.
 */
MUST_USE status table_open_state(const struct table *t, const char *folder, int *fd);

#endif
