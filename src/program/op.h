/*
 * Inside the room: what an op consists of. One file an op (or an op with its derivatives) holds
 * rule, derivative, cost and adapter, and defines its row; op_table.c lists the rows.
 */
#ifndef ROUX_PROGRAM_OP_H
#define ROUX_PROGRAM_OP_H

#include <stdatomic.h>
#include "base/threads.h"
#include "program/device.h"
#include "program/program.h"

/* What a rule says an output is. */
struct sketch {
    enum dtype dtype;
    struct shape shape;
    struct place place;
    val live[SHAPE_DIMS];
};

/* One thread's call of one node. */
struct call {
    const struct program *p;
    const struct node *n;
    struct device *d;
    struct team team;
    _Atomic int *failed; /* set by the thread that talks to other ranks */
    struct meeting *meeting;
};

typedef void op_run_fn(const struct call *c);

struct op_def {
    const char *name, *math;
    bool alias;      /* out[0] is the bytes of in[0] */
    bool collective; /* moves bytes between ranks */
    uint8_t adds;    /* bit i: in[i] is added to or overwritten; such a node is never removed */
    uint8_t over;    /* bit i: out[0] may take the bytes of in[i] if they die here */
    /* Checks shapes, types and places of the inputs; fills one sketch an output. The text needs
     * no path: the caller adds it. */
    status (*rule)(const struct program *p, const struct node *n, struct sketch *out);
    /* Writes further nodes; NULL for ops that only stand in derivatives and updates. */
    void (*diff)(struct program *p, const struct node *n);
    int64_t (*flops)(const struct program *p, const struct node *n); /* NULL: none */
    size_t (*scratch)(const struct program *p, const struct node *n, const struct kernels *k,
                      int threads);                                 /* NULL: none */
    int64_t (*wire)(const struct program *p, const struct node *n); /* NULL: none */
    op_run_fn *run; /* NULL: nothing to do (views) */
};

extern const struct op_def *const op_table[OP_COUNT];

extern const struct op_def op_view_def, op_enter_def, op_leave_def, op_gather_def, op_scatter_def,
    op_zero_def, op_accumulate_def, op_add_def, op_linear_def, op_linear_dx_def, op_linear_dw_def,
    op_bias_def, op_bias_dw_def, op_embed_def, op_embed_dw_def, op_rmsnorm_def, op_rmsnorm_dx_def,
    op_rmsnorm_dw_def, op_rope_angles_def, op_rope_def, op_attention_def, op_attention_d_def,
    op_swiglu_def, op_swiglu_d_def, op_head_stats_def, op_head_loss_def, op_head_grad_def,
    op_head_learn_def, op_head_logits_def, op_exact_sum_def, op_norm_def, op_reduce_def,
    op_clip_def, op_adamw_def, op_cast_def;

/* ---- writing nodes ---- */

/* Appends a node: its rule makes the outputs, named `name` within the segment. Does nothing once
 * the program failed. */
void program_append(struct program *p, struct node *n, const char *name);
val program_make(struct program *p, const char *name, const struct sketch *s, enum role role);
void program_fail(struct program *p, status s, const char *name);
struct value *value_of(const struct program *p, val v);

/* ---- gradients, for diff ---- */

bool program_trains(const struct program *p, val v);
/* The gradient that has arrived at `v`, 0 if none. */
val program_grad(const struct program *p, val v);
/* Adds `g` to the gradient of `v`; its place must be the gradient's place. Where `v` is a weight
 * it is accumulated. */
void program_add_grad(struct program *p, val v, val g);
/* Where nodes add the gradient of weight `v` to; made (and zeroed) on first use. */
val program_grad_into(struct program *p, val v);

/* ---- places, for rules: over the axes that are longer than 1 ---- */

#define FOR_AXES(p, a)                   \
    for (int a = 0; a < AXIS_COUNT; a++) \
        if ((p)->mesh->size[a] > 1)

status rule_misplaced(const struct program *p, val v, int axis, const char *want);

/* Row-wise ops: y has the place of x; a gain or bias must be whole where x is whole, copies
 * where x's rows are split. `last`: whether x may be split on its last dimension (then the weight
 * is split on its own dimension 0). */
status rule_rows_and_weight(const struct program *p, val x, val w, bool last, struct place *out);
/* The contribution of dy (and row values next to it) to a weight's gradient must have the
 * destination's place. */
status rule_weight_gradient(const struct program *p, val dy, val dest, bool last);
/* All of `values` must be placed alike. */
status rule_same_place(const struct program *p, val a, val b);
status rule_not_partial(const struct program *p, val v);
status rule_real(const struct program *p, val v);
status rule_type(const struct program *p, val v, enum dtype t, int rank);
void sketch_like(const struct program *p, val v, struct sketch *out);

/* ---- running, for adapters ---- */

void *call_bytes(const struct call *c, val v);             /* NULL for none */
int64_t call_extent(const struct call *c, val v, int dim); /* the live count where there is one */
int64_t call_rows(const struct call *c, val v);            /* product of all but the last */
void call_barrier(const struct call *c);

#endif
