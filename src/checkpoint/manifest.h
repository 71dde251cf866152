/*
 * The manifest: what makes a folder a checkpoint. Inner to this room.
 *
 *   {"digest": "<32 digits>",\n        of every byte that follows this line's end
 *   "format": ..., "version": ..., ... }
 *
 * The first line is compared letter by letter, the rest by digest: so no byte of the file can
 * change unseen.
 */
#ifndef ROUX_CHECKPOINT_MANIFEST_H
#define ROUX_CHECKPOINT_MANIFEST_H

#include "checkpoint/layout.h"

struct manifest {
    int64_t step;
    int64_t written_ns; /* since 1970: the later of two with equal steps is the newer */
    int size[AXIS_COUNT];
    const char *family, *recipe, *state; /* state: a JSON object's text, kept as it is */
    struct stamp *tables;                /* [layout_writers(size)] */
};

/* ERR_RECIPE if a text is not UTF-8. check()s that the state is a JSON object. */
MUST_USE status manifest_write(const struct manifest *m, const char *folder);

/* ERR_MISSING if the folder has none; ERR_FORMAT if it has been altered or says what cannot be. */
MUST_USE status manifest_read(struct manifest *out, struct arena *a, const char *folder);

#endif
