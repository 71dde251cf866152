/*
 * Checkpoints: logical tensors, their slices on ranks, one manifest; written whole or not at all.
 *
 * This room knows nothing of training. The caller brings buffers (a rank's flat pieces) and says
 * for each which slices of which logical tensors lie where in it; and a JSON text of whatever else
 * must come back (counters, position, recipe).
 *
 * On disk (see README.md for the picture):
 *
 *   <folder>/tp{t}_ep{e}/shard{s}.safetensors    one per writing rank: its buffers, padded with zeros to 4,096 bytes, data
 *                                                beginning at a multiple of 4,096
 *   <folder>/.roux/tp{t}_ep{e}_shard{s}.json     that rank's table: slices, file, offset, dtype, XXH3-128 per 16 MiB block
 *   <folder>/.roux/manifest.json                 format version, step, degrees, kernel family, recipe, state, the tables'
 *                                                names and digests; written last
 *
 * Everything is first written below "<folder>.writing", flushed, sizes verified, then renamed, then
 * the parent folder is flushed. A folder without a valid manifest is not a checkpoint. Manual
 * checkpoints are called sharded/<name>.
 */
#ifndef ROUX_CHECKPOINT_CHECKPOINT_H
#define ROUX_CHECKPOINT_CHECKPOINT_H

#include <stdint.h>
#include "base/arena.h"
#include "base/dtype.h"
#include "base/status.h"
#include "comm/mesh.h"

/*
 * A piece of a logical tensor: a rectangle [from, to) of the whole tensor, and of the rectangle's
 * elements in row-major order those with numbers [first, first + count). They lie in the buffer one
 * after another from element `at`.
 */
struct slice {
    const char *tensor; /* Hugging Face name */
    const char *kind;   /* "weight", "moment1", "moment2" */
    int rank;
    int64_t shape[4]; /* the whole tensor */
    int64_t from[4], to[4];
    int64_t first, count;
    int64_t at;
};

struct checkpoint_buffer {
    const char *name; /* "layers.0.weight": unique within the rank */
    enum dtype dtype;
    void *bytes;   /* read by save, written by load */
    int64_t count; /* elements, padding included */
    const struct slice *slices;
    int slice_count;
};

struct checkpoint_content {
    int64_t step;
    const char *family; /* kernel family */
    const char *recipe; /* resolved, YAML or JSON text */
    const char *state;  /* JSON object: counters, data position, random state; the caller's */
    struct checkpoint_buffer *buffers;
    int buffer_count;
};

/*
 * Writes a checkpoint. Collective over the mesh's world: replica 0 writes, the others take part in
 * the agreement. On return all ranks agree: published, or failed with nothing left behind that
 * looks whole. A folder that already holds this name is renamed aside until the new one stands,
 * then removed. ERR_IO names rank, path and the system's reason (no space: how much was needed and
 * how much there is).
 */
MUST_USE status checkpoint_save(const char *folder, const struct mesh *mesh,
                                const struct checkpoint_content *content);

/* What a manifest says, without reading tensors. */
struct checkpoint_info {
    const char *folder;
    int64_t step, written_ns;
    int size[AXIS_COUNT]; /* the degrees it was written under */
    const char *family, *recipe, *state;
};

/* ERR_MISSING if there is no manifest; ERR_FORMAT if it, or a table or file it names, is
 * missing, short or altered. */
MUST_USE status checkpoint_open(struct checkpoint_info *out, struct arena *a, const char *folder);

/* Is every tensor of the checkpoint one of the `names`? ERR_RECIPE naming one that is not: it would
 * be lost without a word. */
MUST_USE status checkpoint_check_tensors(const struct checkpoint_info *info,
                                         const char *const *names, int count);

/*
 * Fills the content's buffers from the checkpoint: every element that a slice names is found in
 * whatever slices were written (any shard degree to any; tensor degrees must agree until the issue
 * of resharding), padding is zeroed. ERR_RECIPE where a tensor has another shape or type here, or is
 * not in the checkpoint; ERR_FORMAT for damage. Each block read is verified by digest first. Collective over
 * the mesh's world: all ranks agree on success.
 */
MUST_USE status checkpoint_load(const struct checkpoint_info *info, const struct mesh *mesh,
                                struct checkpoint_content *content);

/*
 * The newest complete checkpoint (largest step; of equal ones the later written) at `path`: itself,
 * or below it in any depth up to three (…/checkpoints, …/sharded). Damaged ones are named in a
 * warning and passed over. ERR_MISSING if there is none; ERR_FORMAT if there are some and none is
 * usable. Leftovers "*.writing" are never candidates. With `older_than` only older ones are: for a
 * caller whom that one disappointed while it was loaded.
 */
MUST_USE status checkpoint_find(struct checkpoint_info *out, struct arena *a, const char *path,
                                const struct checkpoint_info *older_than);

/* Removes a checkpoint of ours: its manifest first, then the rest. Leaves files that we did not
 * write, and says so. */
MUST_USE status checkpoint_remove(const char *folder);

#endif
