/*
 * Reads TensorBoard log folders as TensorBoard does: files in the order of their names, each up to
 * its first damage; a session_log START drops the older values from its step on. Scalars of the old
 * form (simple_value) and of the new one (a tensor of the plugin "scalars").
 */
#ifndef ROUX_TESTS_SUPPORT_EVENT_LOG_H
#define ROUX_TESTS_SUPPORT_EVENT_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/status.h"

struct event_scalar {
    const char *tag;
    int64_t step;
    double value, wall_time;
};

struct event_log_file {
    const char *name, *version; /* NULL: the first record has none */
    size_t records, bytes;
    const char *damage; /* NULL: all records are whole */
};

struct event_log {
    struct event_log_file *files;
    size_t file_count;
    struct event_scalar *scalars; /* in the order they were written */
    size_t count, room;
};

/* All memory lies in `a`. Damage is no failure; a folder that cannot be read is. */
MUST_USE status event_log_read(struct event_log *out, struct arena *a, const char *folder);

/* The value of a tag at a step; NULL if it is not there. */
const struct event_scalar *event_log_find(const struct event_log *l, const char *tag, int64_t step);

#endif
