/*
 * Weights: which logical tensors a model has, where each lies in the flat buffers, and which part
 * is this rank's.
 *
 *   segment   one flat buffer: root (embedding, last norm, head), then one a layer
 *   part      one logical tensor, by its Hugging Face name; begins at a multiple of 1,024 elements, zeros between
 *
 *   flat buffer of this TP member:   | part 0   ...0| part 1 ...0| ...                  blocks * 1,024 elements
 *   over S members of the shard group: member s owns blocks [s c, (s + 1) c), c = ceil(blocks / S), perhaps none
 *
 * Under TP a part is split on its outputs (1), its inputs (2), or whole; a split vocabulary is
 * padded to a multiple of T, the padding at the end of the last member's rows.
 */
#ifndef ROUX_MODEL_WEIGHTS_H
#define ROUX_MODEL_WEIGHTS_H

#include "comm/mesh.h"
#include "model/spec.h"
#include "program/device.h"
#include "store/safetensors.h"

enum weight_init { INIT_NORMAL, INIT_ZERO, INIT_ONE };
enum { WEIGHT_BLOCK = 1024 };

/* The parts of a segment by what they are for; a segment has those that the model needs. */
enum part_kind {
    PART_EMBED,
    PART_NORM,
    PART_HEAD,
    PART_NORM1,
    PART_Q,
    PART_K,
    PART_V,
    PART_Q_BIAS,
    PART_K_BIAS,
    PART_V_BIAS,
    PART_O,
    PART_O_BIAS,
    PART_NORM2,
    PART_GATE,
    PART_UP,
    PART_GATE_BIAS,
    PART_UP_BIAS,
    PART_DOWN,
    PART_DOWN_BIAS,
    PART_COUNT
};

struct weight_part {
    const char *name;
    enum part_kind kind;
    enum weight_init init;
    int rank;
    int64_t whole[2], local[2]; /* of the logical tensor; of this TP member, padding included */
    int64_t from[2], to[2];     /* the rectangle of the whole tensor that this TP member holds */
    int8_t tp;                  /* place on TP: WHOLE, 1 (outputs) or 2 (inputs) */
    int64_t at;                 /* first element in the flat buffer */
};

struct weight_segment {
    const char *name; /* "root", "layers.0" */
    struct weight_part *parts;
    int count;
    int64_t blocks, shard_blocks;
};

struct weights {
    struct weight_segment *segments;
    int count;
    const struct mesh *mesh;
    double init_std;
    int64_t pad;
    /* per segment: blocks of this rank's shard that count in the norm */
    struct block_range **norm_ranges;
    int *norm_counts;
};

/* ERR_RECIPE where heads, groups or the feed-forward width do not divide by T. Memory is the
 * arena's. */
MUST_USE status weights_make(struct weights *w, struct arena *a, const struct model_spec *s,
                             const struct mesh *mesh);

/*
 * A piece of a logical tensor on this rank: of the elements of the part's rectangle in row-major
 * order those with numbers [first, first + count), which lie in the rank's buffer from element
 * `at`. Empty pieces are left out.
 */
struct weight_piece {
    const struct weight_part *part;
    int64_t first, count, at;
};

/* Into `out` [segment->count]; returns how many. */
int weights_pieces(const struct weights *w, const struct weight_segment *g,
                   struct weight_piece *out);

/* Where a segment's weights are kept to the full: "master.<segment>" of the program if it has one
 * (its "weight.<segment>" is then a copy in a narrower type), else "weight.<segment>". */
val weights_master(const struct program *p, const struct weight_segment *g);

/* Initial weights as a function of (seed, name, element of the whole tensor), into the program's
 * masters. */
void weights_init(const struct weights *w, struct device *d, const struct program *p,
                  uint64_t seed);

/* From a model folder into the masters. ERR_MISSING for a tensor that is not there, ERR_FORMAT for one of another
 * shape. Unknown ones are ignored and counted in `extra`. Non-finite values are ERR_FORMAT naming
 * tensor and element. */
MUST_USE status weights_load(const struct weights *w, struct device *d, const struct program *p,
                             const struct tensor_folder *f, int *extra);

/*
 * Calls `each` for every logical tensor, whole, on every rank, in the order of the segments;
 * `prefix` is "master." for the masters, or "grad.weight." etc. Collective over the mesh's world.
 * The bytes are borrowed, of the type of the value that is collected.
 */
typedef status weights_each_fn(void *user, const struct weight_part *part, enum dtype type,
                               const void *bytes);
MUST_USE status weights_collect(const struct weights *w, const struct device *d,
                                const struct program *p, const char *prefix, weights_each_fn *each,
                                void *user);

/*
 * Writes a model folder under a temporary name, reads back what was written, renames it into place:
 * weights in `dtype` (DT_F32 or DT_BF16), config.json, generation_config.json; files of at most
 * `limit` bytes (0: 5,000,000,000). Collective over the mesh's world; rank 0 writes. An existing
 * folder of that name is replaced only if it is an export of ours.
 */
MUST_USE status weights_export(const struct weights *w, const struct model_spec *s,
                               const struct device *d, const struct program *p, const char *folder,
                               enum dtype dtype, int64_t limit);

/* Would an export to the folder fail now? For one rank, before the work: the name is taken, no file
 * can be made beside it, there is no room. Makes the folder above it. */
MUST_USE status weights_export_check(const struct weights *w, const char *folder, enum dtype dtype,
                                     int64_t limit);

#endif
