/* Inside the room: the batch of a probe, as infer.h describes its file. */
#ifndef ROUX_INFER_BATCH_FILE_H
#define ROUX_INFER_BATCH_FILE_H

#include <stdint.h>
#include "base/arena.h"
#include "base/status.h"

struct batch_file {
    int64_t B, S;
    int32_t *ids, *labels, *starts; /* [B, S]; labels not shifted, -100 = not scored */
};

/* Everything in the file that is used is checked. Memory is the arena's. */
MUST_USE status batch_file_read(struct batch_file *out, struct arena *a, const char *path,
                                int64_t vocabulary);

#endif
