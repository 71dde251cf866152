/*
 * The program: a flat list of coarse nodes over values, written once by the model, completed by
 * passes, run by a loop.
 *
 *   program_init, program_segment, program_weight/input/state, op_...   write the forward part
 *   program_backward                                                    adds the derivative, cloning what is recomputed
 *   program_plan                                                        checks every place, removes what nobody needs,
 *                                                                       lays all values out in one arena
 *   program_run                                                         walks the list with a team of threads
 *
 * Errors while writing stop the program, not the process: the first broken rule is remembered with
 * the path of the value, later calls return value 0, and program_backward or program_plan reports
 * it.
 *
 * How the parts fit together: ARCHITECTURE.md.
 */
#ifndef ROUX_PROGRAM_PROGRAM_H
#define ROUX_PROGRAM_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/arena.h"
#include "base/exact.h"
#include "base/map.h"
#include "base/status.h"
#include "comm/mesh.h"
#include "program/place.h"
#include "tensor/kernels.h"
#include "tensor/shape.h"

typedef struct val {
    int32_t id; /* 0 = none */
} val;

enum role {
    ROLE_TEMP,   /* made by a node, dies after its last use */
    ROLE_VIEW,   /* bytes of another value */
    ROLE_INPUT,  /* written by the host before a run */
    ROLE_WEIGHT, /* trained or frozen; lives as long as the run */
    ROLE_GRAD,   /* sums over micro-batches */
    ROLE_STATE   /* moments, counters, tables */
};

enum op {
    OP_NONE,
    OP_VIEW,
    OP_ENTER,
    OP_LEAVE,
    OP_GATHER,
    OP_SCATTER,
    OP_ZERO,
    OP_ACCUMULATE,
    OP_ADD,
    OP_LINEAR,
    OP_LINEAR_DX,
    OP_LINEAR_DW,
    OP_BIAS,
    OP_BIAS_DW,
    OP_EMBED,
    OP_EMBED_DW,
    OP_RMSNORM,
    OP_RMSNORM_DX,
    OP_RMSNORM_DW,
    OP_ROPE_ANGLES,
    OP_ROPE,
    OP_ATTENTION,
    OP_ATTENTION_D,
    OP_SWIGLU,
    OP_SWIGLU_D,
    OP_HEAD_STATS,
    OP_HEAD_LOSS,
    OP_HEAD_GRAD,
    OP_HEAD_LEARN,
    OP_HEAD_LOGITS,
    OP_EXACT_SUM,
    OP_NORM,
    OP_REDUCE,
    OP_CLIP,
    OP_ADAMW,
    OP_CAST,
    OP_COUNT
};

struct value {
    const char *name; /* path: "layers.0.qkv" */
    enum dtype dtype;
    enum role role;
    enum op made_by;    /* OP_NONE for persistent values */
    struct shape shape; /* on this rank: bounds */
    /* a count at most the bound, held in an I64 value; 0 = the bound itself */
    val live[SHAPE_DIMS];
    struct place place;
    val base;       /* of a view */
    int64_t offset; /* of a view: elements into base */
    val original;   /* of a clone: what it repeats */
    val grad;       /* its gradient, or where its gradient is added to */
    /* a weight, or a weight gathered, entered or viewed: its gradient is added in place */
    bool weight;
    bool trains;     /* a gradient is wanted */
    bool keep;       /* read by the host after the run */
    int first, last; /* nodes between which the bytes live; set by the plan */
    int64_t at;      /* bytes into the state or the temporary part of the arena; set by the plan */
    bool temporary;  /* which part; set by the plan */
};

enum { OP_IN = 7, OP_OUT = 3, LINEAR_PARTS = 3 };

struct block_range {
    int64_t from, to; /* of 1,024 elements */
};

union op_arg {
    struct {
        int64_t offset;
        struct shape shape;
        int8_t tp; /* this part's place on TP, where the flat buffer is mixed */
    } view;
    struct {
        axes over;
        int dim;
        bool copies; /* gather: the result is about to meet split rows, its gradient is partial */
    } move;
    struct {
        enum dtype dtype;
        struct shape shape;
        struct place place;
    } zero;
    struct {
        int parts;
        int64_t column; /* dw: first column of dy that belongs to this part */
        double scale;
    } linear;
    struct {
        int64_t first, pad;
    } embed;
    struct {
        double eps;
    } rmsnorm;
    struct {
        const double *inv_freq; /* [d/2], lives as long as the program */
        int64_t heads, d;
        bool inverse;
    } rope;
    struct {
        int64_t heads, groups, d, window;
        double scale;
    } attention;
    struct {
        int64_t first, valid;
    } head;
    struct {
        const struct block_range *ranges; /* blocks of this buffer that count */
        int count;
    } norm;
    struct {
        int64_t offset; /* words into the scalars */
    } exact;
};

struct node {
    enum op op;
    val in[OP_IN], out[OP_OUT];
    union op_arg arg;
    int segment;
    /* a collective's messages start before node `begin` runs; set by the plan, at most its own
     * index */
    int begin;
    bool alone;    /* nobody touches a collective's input between its begin and itself */
    val scratch;   /* bytes only this node uses; made by the plan */
    bool backward; /* part of the derivative */
    bool barrier;  /* all threads meet before it; set by the plan */
};

enum segment_flags {
    SEGMENT_RECOMPUTE = 1 << 0, /* its nodes are repeated in the backward pass instead of kept */
    /* its gathered weights are dropped after the forward pass and gathered again */
    SEGMENT_REGATHER = 1 << 1
};

struct segment {
    const char *name;
    unsigned flags;
};

struct program {
    const char *name; /* "learn", "update", "judge" */
    struct arena *arena;
    const struct mesh *mesh;
    enum dtype real, sum; /* of activations and weights; of what is added up: tensor/kernels.h */
    struct value *values; /* [value_count]; value 0 is none */
    int value_count, value_room;
    int *persistent; /* [persistent_count] ids of the values that outlive a run */
    int persistent_count, persistent_room;
    struct node *nodes;
    int node_count, node_room;
    struct segment *segments;
    int segment_count, segment_room, segment; /* the one that nodes are written to; -1: none yet */
    bool in_backward;
    /* in the backward pass: path of the value whose derivative is being written */
    const char *prefix;
    /* gathers of weights begin with the segment before their own; set before the plan */
    bool prefetch;
    int *begins,
        /* [node_count] list of the collectives that begin at a node: index + 1, 0 = end; by the
         * plan */
        *begins_next;
    struct ticket *tickets; /* [node_count] of messages under way; made by the plan */
    status failed;          /* the first broken rule ... */
    char *failure;          /* ... and its text */
};

/* ---- writing ---- */

/* `real` is DT_F64, DT_F32 or DT_BF16: the type of activations and weights. Gradients of weights are
 * then F64, F32 or F32. The mesh is borrowed. */
void program_init(struct program *p, const char *name, struct arena *arena, const struct mesh *mesh,
                  enum dtype real);

/* Nodes written from now on belong to this segment; value names begin with its name. */
void program_segment(struct program *p, const char *name, unsigned flags);

val program_input(struct program *p, const char *name, enum dtype dtype, struct shape shape,
                  struct place place);
/* Persistent values are shared between programs of one residents table by name. */
val program_state(struct program *p, const char *name, enum dtype dtype, struct shape shape,
                  struct place place);
val program_grad_state(struct program *p, const char *name, enum dtype dtype, struct shape shape,
                       struct place place);
/* A flat weight buffer; its gradient is added to program_grad_state "grad.<name>" where it
 * trains. */
val program_weight(struct program *p, const char *name, enum dtype dtype, struct shape shape,
                   struct place place, bool trains);
/* A temporary that the host reads after a run; before the next run of any program of the same
 * residents. */
void program_keep(struct program *p, val v);
/* The live count of dimension `dim` is the I64 at value `count`; it is passed on along rows by
 * the rules. */
void program_live(struct program *p, val v, int dim, val count);

val op_view(struct program *p, const char *name, val flat, int64_t offset, struct shape shape,
            int8_t tp);
val op_enter(struct program *p, axes over, val x);
val op_leave(struct program *p, axes over, val x);
val op_gather(struct program *p, axes over, int dim, bool copies, val x);
val op_scatter(struct program *p, axes over, int dim, val x);
val op_add(struct program *p, const char *name, val a, val b);
/* [B, S, K] by up to three weights [N_i, K] -> [B, S, sum N_i] */
val op_linear(struct program *p, const char *name, val x, const val *w, int parts);
val op_bias(struct program *p, const char *name, val x, const val *b, int parts);
/* ids [B, S] I32; w [rows, D] is the slice of the vocabulary that begins at `first`; id `pad`
 * (-1: none) has no gradient */
val op_embed(struct program *p, const char *name, val ids, val w, int64_t first, int64_t pad);
val op_rmsnorm(struct program *p, const char *name, val x, val w, double eps);
/* positions [B, S] I32 -> [B, S, d] */
val op_rope_angles(struct program *p, const char *name, val positions, const double *inv_freq,
                   int64_t d);
val op_rope(struct program *p, const char *name, val x, val angles, int64_t heads, int64_t d);
/* qkv [B, S, (H + 2 G) d] -> [B, S, H d]; starts [B, S] I32; heads and groups are this rank's */
val op_attention(struct program *p, const char *name, val qkv, val starts, int64_t heads,
                 int64_t groups, int64_t d, int64_t window);
val op_swiglu(struct program *p, const char *name, val x);
/* The head with cross-entropy; targets [B, S] I32 -> loss [B] F64, one sum a sequence. `first`,
 * `valid`: tensor/kernels.h */
val op_head(struct program *p, val x, val w, val targets, int64_t first, int64_t valid);
val op_head_logits(struct program *p, val x, val w, int64_t valid);

/* The scalars of a step: words of an I64 state; see op_exact.c and op_update.c. */
enum {
    SCALAR_NORM = 0,                /* struct exact: sum of squares */
    SCALAR_LOSS = EXACT_WORDS,      /* struct exact: sum of token losses */
    SCALAR_COUNT = 2 * EXACT_WORDS, /* valid targets */
    SCALAR_STOP,                    /* ranks that were asked to stop */
    SCALAR_WORDS
};
void op_exact_sum(struct program *p, val rows, val scalars,
                  int offset); /* adds F64 rows to a struct exact */
void op_norm(struct program *p, val grad, val scalars, const struct block_range *ranges, int count);
void op_reduce(struct program *p, val scalars); /* sums the words over all ranks */
/* hyper [8] F64 and reduced scalars -> result [4] F64; words: enum hyper, enum clip_result */
val op_clip(struct program *p, val scalars, val hyper);
/* Also zeroes grad. `copy`, if it is not 0, is w in the type of weights, for a program that computes
 * in a narrower one. */
void op_adamw(struct program *p, val w, val grad, val m, val v, val clip, val hyper, val copy);
/* copy = w, in the type of weights. */
void op_cast(struct program *p, val w, val copy);

enum hyper {
    HYPER_LR,
    HYPER_DECAY,
    HYPER_BETA1,
    HYPER_BETA2,
    HYPER_EPS,
    HYPER_STEP,
    HYPER_CLIP,
    HYPER_WORDS
};
enum clip_result { CLIP_SCALE, CLIP_NORM, CLIP_LOSS, CLIP_SKIP, CLIP_WORDS };

/* ---- passes ---- */

/* A gradient that comes from outside: `g` is that of `v`. Before program_backward, whose loss
 * may then be value 0. */
void program_seed(struct program *p, val v, val g);

/* Appends the derivative of `loss` (the out of op_head), and of what was seeded. */
MUST_USE status program_backward(struct program *p, val loss);

/* Every rule again, against what stands in the list: shapes, types and places, gradients
 * included. */
MUST_USE status program_verify(const struct program *p);

/* Persistent values of several programs, by name, and the arena they share. */
struct residents {
    struct map by_name;
    struct arena *arena;
    int64_t bytes;                   /* the state part */
    int64_t by_role[ROLE_STATE + 1]; /* bytes of inputs, weights, gradients, states */
    int64_t temp_bytes;              /* the largest temporary part of the programs planned so far */
};

struct memory_plan {
    int64_t temp_bytes; /* peak of this program */
    int64_t temp_sum;   /* of all temporaries, as if none shared */
    int nodes, values, barriers;
};

void residents_init(struct residents *r, struct arena *arena);
void residents_release(struct residents *r);

/*
 * Verifies, removes nodes without use, gives every value its place in the arena: state values at
 * the offset of their name in `r`, temporaries by first fit over their lifetimes in O(n log n).
 * `kernels` and `threads` size the scratch.
 */
MUST_USE status program_plan(struct program *p, struct residents *r, const struct kernels *kernels,
                             int threads, struct memory_plan *out);

void program_print(const struct program *p, FILE *to);

/* Floating-point operations of one run on this rank, matrix products and attention counted as 2
 * a multiply-add. */
int64_t program_flops(const struct program *p);
/*
 * What one node computes and moves, for measuring and estimating. `bytes` are those of its inputs
 * and outputs, twice where it changes them in place; of an embedding's table only the rows used.
 * size: products rows, K, N (of the head rows, D, vocabulary); attention sequences x heads, keys a
 * position sees at most, head width; others elements of the largest value, 1, 1. `wire`: bytes sent.
 */
struct node_work {
    double flops, bytes, wire; /* flops 0: memory is what it waits for */
    double size[3];
};
struct node_work program_node_work(const struct program *p, int node);
/* "8x256x64 <- 8x256x64 64": outputs and inputs of a node; equal for nodes that do the same. */
const char *program_node_shapes(const struct program *p, int node, struct arena *a);

/* Bytes this rank sends in one run, over the given set of axes. */
int64_t program_wire_bytes(const struct program *p, axes over);

const struct value *program_value(const struct program *p, val v);
/* The persistent value of that name; 0 if there is none. */
val program_find(const struct program *p, const char *name);
const char *op_name(enum op op);
const char *op_math(enum op op);

#endif
