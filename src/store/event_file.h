/*
 * TensorBoard event files: the writer.
 *
 *   file    = record, record, ...             the first one holds the version "brain.Event:2"
 *   record  = u64 length, u32 sum of these 8 bytes, payload, u32 sum of the payload
 *   payload = protobuf Event: 1 double wall_time, 2 int64 step, 3 string file_version,
 *             5 Summary { 1 Value { 1 string tag, 2 float simple_value } },
 *             7 SessionLog { 1 status }
 *
 * All little-endian; the sums are masked CRC-32C. Source: facts, training.md 11.3, and what
 * TensorBoard's own reader takes (tests/golden/tensorboard).
 *
 * A file only grows, and by whole records: what could not be written whole is cut off again, so a
 * reader never meets half a record unless the process dies within a write.
 */
#ifndef ROUX_STORE_EVENT_FILE_H
#define ROUX_STORE_EVENT_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

struct event_file {
    const char *path;
    int fd;
    uint64_t length;     /* bytes that stand in the file, all whole records */
    struct text pending; /* records since the last flush */
    bool has_older;      /* other event files lie in the folder */
};

/*
 * Makes the folder where it is not there, and in it a new file with the version record,
 *   events.out.tfevents.<seconds>.<host>.<process>.<n>
 * The seconds are now's, or one more than the latest name's there: files are read in the order of
 * their names. The path lies in `a`. ERR_IO; then nothing needs to be closed, nor does harm.
 */
MUST_USE status event_file_open(struct event_file *f, struct arena *a, const char *folder);
void event_file_close(struct event_file *f); /* drops what was not flushed; takes a zeroed one */

/* Values of older files from `step` on are void: a resumed run writes them again. */
void event_file_add_restart(struct event_file *f, int64_t step);

/* `tag` is UTF-8. The value is kept as a float: infinite beyond its range. */
void event_file_add_scalar(struct event_file *f, int64_t step, const char *tag, double value);

/* Writes what was added since the last flush. ERR_IO: none of it is in the file, and it is
 * forgotten; the next flush may do better. */
MUST_USE status event_file_flush(struct event_file *f);

#endif
