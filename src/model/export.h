/*
 * One export on the rank that writes: a model folder, made beside its place and put there whole.
 * Inner to this room; the door is weights_export.
 *
 *   <folder>.writing     while it is made      -> renamed to <folder> when it has been read back
 *   <folder>.replaced    the older export, until the new one stands
 *
 *   <folder>/model.safetensors, or model-00001-of-0000N.safetensors ... and model.safetensors.index.json
 *   <folder>/config.json, generation_config.json
 *   <folder>/.roux/export.json     {"format", "version", "files"}: what is ours here, and so may be replaced later
 *
 * The life of an export: export_open -> export_tensor for every part, in the order of the segments
 * -> export_publish, or export_abandon. After a failure only export_abandon may follow.
 */
#ifndef ROUX_MODEL_EXPORT_H
#define ROUX_MODEL_EXPORT_H

#include "base/digest.h"
#include "model/weights.h"

struct export_file {
    const char *name;
    int first, count;      /* parts */
    uint64_t bytes;        /* of tensors */
    struct digest *blocks; /* of what was written, DIGEST_BLOCK bytes of tensors each */
};

struct export
{
    struct arena *arena;
    const struct model_spec *spec;
    enum dtype dtype;
    const char *target, *writing;
    const struct weight_part **parts; /* [part_count] */
    int part_count;
    struct export_file *files; /* [file_count] */
    int file_count;
    uint64_t bytes; /* of all tensors */

    int part, file;              /* the next to come */
    struct tensor_writer writer; /* of `file` */
    uint8_t *stage;              /* a block that is not yet full */
    size_t stage_size, staged;
    uint64_t flushed; /* bytes of `file` that were handed to the writer */
};

/*
 * Plans the files, looks whether the folder may be taken and whether the disk has room, makes the
 * temporary folder. ERR_RECIPE if the name is taken by something that is not ours; ERR_IO.
 */
MUST_USE status export_open(struct export *e, struct arena *a, const struct weights *w,
                            const struct model_spec *s, const char *folder, enum dtype dtype,
                            int64_t limit);

/* Converts the next part, whole, from `real` and writes it. A value that is not finite
 * afterwards is ERR_FORMAT. */
MUST_USE status export_tensor(struct export *e, const struct weight_part *part, enum dtype real,
                              const void *bytes);

/* Writes what else belongs there, reads everything back, puts the folder into its place. */
MUST_USE status export_publish(struct export *e);

void export_abandon(struct export *e); /* also after publish, and of a zeroed struct */

/* ---- the folder (export_folder.c) ---- */

/* The folder's name without links and closing slashes; makes the folder above it. */
MUST_USE status export_folder_name(struct arena *a, const char *folder, const char **target);

/* Is the name free, an empty folder, or an export of ours that holds no weights of others?
 * ERR_RECIPE if not. */
MUST_USE status export_folder_check(struct arena *a, const char *target);

/* Makes the temporary folder with its mark; one that an earlier run left behind is removed. */
MUST_USE status export_folder_make(struct arena *a, const char *writing, const char *const *files,
                                   int file_count);

/* Puts the temporary folder into its place. What others laid into the older export moves into
 * the new one. */
MUST_USE status export_folder_publish(struct arena *a, const char *writing, const char *target);

#endif
