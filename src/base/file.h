/*
 * Files: whole reads with a limit, writes that are whole or absent, and folders.
 *
 * Every error text begins with the path and carries the system's reason. ENOENT is ERR_MISSING, the
 * rest ERR_IO.
 */
#ifndef ROUX_BASE_FILE_H
#define ROUX_BASE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/status.h"

/* Reads the whole regular file into `a`, with a zero byte behind it. More than `limit` bytes:
 * ERR_FORMAT. A folder, device or pipe: ERR_FORMAT naming what it is. */
MUST_USE status file_read(struct arena *a, const char *path, size_t limit, char **bytes,
                          size_t *length);

/* Replaces `path` atomically: a temporary name beside it, write, fsync, rename, fsync of the
 * folder. On failure the old file is untouched and the temporary one is gone. */
MUST_USE status file_replace(const char *path, const void *bytes, size_t length);

/* May a file be put there by a rename? ERR_IO where a folder, device or pipe stands: a device's name
 * would be taken from it. */
MUST_USE status file_check_target(const char *path);

/* All of `bytes`, at the offset; short and interrupted calls are continued. `path` is for the
 * message. */
MUST_USE status file_write_at(int fd, const char *path, const void *bytes, size_t length,
                              uint64_t offset);

/* Exactly `length` bytes; fewer: ERR_FORMAT that says where the file ends. */
MUST_USE status file_read_at(int fd, const char *path, void *bytes, size_t length, uint64_t offset);

MUST_USE status file_sync(int fd, const char *path);
MUST_USE status folder_sync(const char *path);

/* mkdir -p. Fine if it is there already; an ERR_IO if something else has the name. */
MUST_USE status folder_make(const char *path);

/* The names in a folder, sorted bytewise, without "." and "..". */
MUST_USE status folder_list(struct arena *a, const char *path, char ***names, size_t *count);

/* ERR_IO if no file can be made in the folder, which is there; leaves nothing behind. */
MUST_USE status folder_check_writable(const char *path);

/* Removes the folder and everything in it. Links are removed, not followed. Fine if it is not
 * there. */
MUST_USE status folder_remove(const char *path);

bool file_is_there(const char *path); /* of any kind; follows links */
bool file_is_folder(const char *path);
MUST_USE status file_size(const char *path, uint64_t *bytes);

/* "a/b" from "a" and "b"; an absolute `name` stands by itself. */
char *path_join(struct arena *a, const char *folder, const char *name);
/* What stands before and behind the last slash: "a/b" -> "a", "b"; "b" -> ".", "b". */
char *path_folder(struct arena *a, const char *path);
const char *path_name(const char *path);

/* Free bytes of the file system that holds `path` (or, where that is not there yet, its nearest
 * folder). */
MUST_USE status file_space(const char *path, uint64_t *free_bytes);

#endif
