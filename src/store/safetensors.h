/*
 * safetensors: reading any file safely, writing files that its library reads.
 *
 * Format: u64 little-endian header length N; N bytes of JSON (one object, spaces may follow); the
 * data. Rules in docs/formats.md; every one is checked before a byte of data is used: N <=
 * 100,000,000 and within the file, UTF-8, no duplicate names or fields, known dtypes, extents and
 * products without overflow, offsets that begin at 0, follow each other without hole or overlap and
 * end with the file.
 */
#ifndef ROUX_STORE_SAFETENSORS_H
#define ROUX_STORE_SAFETENSORS_H

#include <stdint.h>
#include "base/arena.h"
#include "base/dtype.h"
#include "base/map.h"
#include "base/status.h"

struct tensor_entry {
    const char *name;
    enum dtype dtype;
    int rank;
    const int64_t *shape; /* [rank] */
    uint64_t begin, end;  /* in the file, absolute */
    int64_t count;        /* elements */
    int file;             /* index into the folder's files; 0 for a single file */
};

struct tensor_file {
    const char *path;
    int fd; /* open for reading */
    uint64_t data_begin, size;
    struct tensor_entry *entries; /* in the order of their offsets */
    size_t count;
    struct map by_name;
    const char **metadata; /* key, value, key, value, ...; in the order of the file */
    size_t metadata_count; /* pairs */
};

/* Opens and checks a file. Texts live in `a`. ERR_MISSING, ERR_IO, or ERR_FORMAT naming path,
 * tensor and what is wrong. */
MUST_USE status tensor_file_open(struct tensor_file *f, struct arena *a, const char *path);
void tensor_file_close(struct tensor_file *f); /* also of a zeroed struct */

/* The header's rules alone, on bytes in memory: for tests and the fuzzer. `file_size` is the
 * whole file's. */
MUST_USE status tensor_header_parse(struct tensor_file *f, struct arena *a, const char *path,
                                    const char *header, size_t header_length, uint64_t file_size);

const struct tensor_entry *tensor_file_find(const struct tensor_file *f,
                                            const char *name); /* NULL if absent */

/*
 * Reads elements [from, from + count) of a tensor, in row-major order, converted to `to`.
 * ERR_FORMAT naming file and tensor if the types do not convert or the range is outside.
 */
MUST_USE status tensor_file_read(const struct tensor_file *f, const struct tensor_entry *e,
                                 int64_t from, int64_t count, enum dtype to, void *out);

/*
 * A model folder: model.safetensors, or model.safetensors.index.json with the files it names, seen
 * as one name space. Errors name the file, and for an index the tensor and where it should be.
 */
struct tensor_folder {
    struct tensor_file *files;
    size_t file_count;
    struct map by_name; /* -> struct tensor_entry */
};

MUST_USE status tensor_folder_open(struct tensor_folder *f, struct arena *a, const char *folder);
void tensor_folder_close(struct tensor_folder *f);
const struct tensor_entry *tensor_folder_find(const struct tensor_folder *f, const char *name);
MUST_USE status tensor_folder_read(const struct tensor_folder *f, const struct tensor_entry *e,
                                   int64_t from, int64_t count, enum dtype to, void *out);

/*
 * Writing. Declare every tensor first, then begin, then append the bytes of each in the order of
 * declaration (in as many pieces as wanted), then finish. The header is padded with spaces so that
 * the data begins at a multiple of `align` (8, or 4,096 for direct I/O). The file has a temporary
 * name until finish, which flushes it, renames it into place and flushes the folder; abandon
 * removes it.
 */
struct tensor_writer {
    const char *path, *temporary;
    int fd;
    struct tensor_entry *entries;
    size_t count, room;
    const char **metadata;
    size_t metadata_count, metadata_room;
    uint64_t at, data_begin, total;
    struct arena *arena;
};

MUST_USE status tensor_writer_open(struct tensor_writer *w, struct arena *a, const char *path);
void tensor_writer_metadata(struct tensor_writer *w, const char *key, const char *value);
void tensor_writer_declare(struct tensor_writer *w, const char *name, enum dtype dtype, int rank,
                           const int64_t *shape);
MUST_USE status tensor_writer_begin(struct tensor_writer *w, int align);
MUST_USE status tensor_writer_append(struct tensor_writer *w, const void *bytes, size_t length);
MUST_USE status tensor_writer_finish(struct tensor_writer *w);
void tensor_writer_abandon(struct tensor_writer *w); /* also after finish, and of a zeroed struct */

#endif
