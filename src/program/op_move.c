/*
 * view, enter, leave, gather, scatter: values seen as parts, and the ops that all parallelism
 * consists of.
 *
 *   op         place before -> after      derivative
 *   enter      whole -> copies            leave (all-reduce)
 *   leave      partial -> whole           a copy
 *   gather     split d -> copies          scatter (reduce-scatter)
 *   scatter    partial -> split d         gather
 *
 * The bytes of a collective move between its `begin` node and itself; see run.c.
 */
#include "program/op.h"

/* ---- view ---- */

static status view_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *base = value_of(p, n->in[0]);
    int64_t count = shape_count(&n->arg.view.shape), offset = n->arg.view.offset;

    if (base->shape.rank != 1 || offset < 0 || offset > base->shape.d[0] ||
        count > base->shape.d[0] - offset) {
        return fail(ERR_PLAN, "elements %lld to %lld are not in the flat buffer %s of %lld",
                    (long long)offset, (long long)(offset + count), base->name,
                    (long long)base->shape.d[0]);
    }
    *out =
        (struct sketch){ .dtype = base->dtype, .shape = n->arg.view.shape, .place = base->place };
    FOR_AXES(p, a)
    {
        if (place_is_split(base->place.on[a])) {
            return rule_misplaced(p, n->in[0], a, "gather its shards before looking at a part");
        }
        if (base->place.on[a] == MIXED) {
            out->place.on[a] = n->arg.view.tp;
        }
    }
    return OK;
}

/* The gradient of a part of a weight is added straight into a view of the buffer's gradient: see
 * program_grad_into. */
static void view_diff(struct program *p, const struct node *n)
{
    if (!value_of(p, n->out[0])->weight) {
        program_fail(p, fail(ERR_PLAN, "a view of an activation has no derivative"),
                     value_of(p, n->out[0])->name);
    }
}

const struct op_def op_view_def = {
    .name = "view",
    .math = "y = part of x",
    .alias = true,
    .rule = view_rule,
    .diff = view_diff,
};

val op_view(struct program *p, const char *name, val flat, int64_t offset, struct shape shape,
            int8_t tp)
{
    struct node n = { .op = OP_VIEW, .in = { flat }, .arg.view = { offset, shape, tp } };

    program_append(p, &n, name);
    return n.out[0];
}

/* ---- what the four have in common ---- */

static status move_rule(const struct program *p, const struct node *n, struct sketch *out,
                        int8_t from, int8_t to, const char *want)
{
    sketch_like(p, n->in[0], out);
    FOR_AXES(p, a)
    {
        if ((n->arg.move.over >> a & 1) == 0) {
            continue;
        }
        if (out->place.on[a] != from) {
            return rule_misplaced(p, n->in[0], a, want);
        }
        out->place.on[a] = to;
    }
    return OK;
}

static struct collective move_collective(const struct program *p, const struct node *n,
                                         enum collective_kind kind)
{
    const struct value *x = value_of(p, n->in[0]);
    int64_t count = shape_count(&x->shape);

    if (kind == COMM_REDUCE_SCATTER) {
        count /= mesh_length(p->mesh, n->arg.move.over);
    }
    return (struct collective){ .kind = kind, .dtype = x->dtype, .n = count };
}

static enum collective_kind move_kind(enum op op)
{
    return op == OP_LEAVE ? COMM_ALL_REDUCE : op == OP_GATHER ? COMM_GATHER : COMM_REDUCE_SCATTER;
}

static size_t move_scratch(const struct program *p, const struct node *n, const struct kernels *k,
                           int threads)
{
    struct collective what = move_collective(p, n, move_kind(n->op));
    struct comm *c = p->mesh->over[n->arg.move.over];
    int64_t members = mesh_length(p->mesh, n->arg.move.over);

    (void)k;
    (void)threads;
    if (c != NULL) {
        return comm_scratch(c, &what);
    }
    /* An imagined mesh: one piece of every member where sums are formed. */
    if (what.kind == COMM_GATHER) {
        return 0;
    }
    return (size_t)(what.kind == COMM_ALL_REDUCE ? what.n + members : what.n * members) *
           dtype_bytes(what.dtype);
}

/* Bytes sent by this rank: each piece goes once to every other member. */
static int64_t move_wire(const struct program *p, const struct node *n)
{
    struct collective what = move_collective(p, n, move_kind(n->op));
    int64_t members = mesh_length(p->mesh, n->arg.move.over);
    int64_t bytes = what.n * (int64_t)dtype_bytes(what.dtype);

    switch (what.kind) {
    case COMM_ALL_REDUCE:
        return 2 * bytes * (members - 1) / members;
    default:
        return bytes * (members - 1);
    }
}

/* ---- enter ---- */

static status enter_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    return move_rule(p, n, out, WHOLE, COPIES, "only a whole value can enter");
}

static void enter_diff(struct program *p, const struct node *n)
{
    val g = program_grad(p, n->out[0]);

    if (g.id != 0) {
        program_add_grad(p, n->in[0], op_leave(p, n->arg.move.over, g));
    }
}

const struct op_def op_enter_def = {
    .name = "enter",
    .math = "y = x, about to meet split values",
    .alias = true,
    .rule = enter_rule,
    .diff = enter_diff,
};

val op_enter(struct program *p, axes over, val x)
{
    struct node n = { .op = OP_ENTER, .in = { x }, .arg.move = { .over = over } };

    program_append(p, &n, "enter");
    return n.out[0];
}

/* ---- leave ---- */

static status leave_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    return move_rule(p, n, out, PARTIAL, WHOLE, "only a partial sum can leave");
}

static void leave_diff(struct program *p, const struct node *n)
{
    program_add_grad(p, n->in[0], program_grad(p, n->out[0]));
}

const struct op_def op_leave_def = {
    .name = "leave",
    .math = "y = sum of x over the group",
    .collective = true,
    .over = 1,
    .rule = leave_rule,
    .diff = leave_diff,
    .scratch = move_scratch,
    .wire = move_wire,
};

val op_leave(struct program *p, axes over, val x)
{
    struct node n = { .op = OP_LEAVE, .in = { x }, .arg.move = { .over = over } };

    program_append(p, &n, "leave");
    return n.out[0];
}

/* ---- gather ---- */

static status gather_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    int dim = n->arg.move.dim;

    TRY(move_rule(p, n, out, (int8_t)(dim + 1), n->arg.move.copies ? COPIES : WHOLE,
                  "it is not split there"));
    if (dim != 0) {
        return fail(ERR_PLAN, "gather works on dimension 0, not %d", dim);
    }
    out->shape.d[0] *= mesh_length(p->mesh, n->arg.move.over);
    return OK;
}

static void gather_diff(struct program *p, const struct node *n)
{
    val g = program_grad(p, n->out[0]);

    if (!n->arg.move.copies) {
        program_fail(p, fail(ERR_PLAN, "this gather has no derivative"),
                     value_of(p, n->out[0])->name);
    } else if (g.id != 0) {
        program_add_grad(p, n->in[0], op_scatter(p, n->arg.move.over, n->arg.move.dim, g));
    }
}

const struct op_def op_gather_def = {
    .name = "gather",
    .math = "y = x of all members, in order",
    .collective = true,
    .rule = gather_rule,
    .diff = gather_diff,
    .scratch = move_scratch,
    .wire = move_wire,
};

val op_gather(struct program *p, axes over, int dim, bool copies, val x)
{
    struct node n = { .op = OP_GATHER, .in = { x }, .arg.move = { over, dim, copies } };

    program_append(p, &n, "gather");
    return n.out[0];
}

/* ---- scatter ---- */

static status scatter_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    int dim = n->arg.move.dim;
    int64_t members = mesh_length(p->mesh, n->arg.move.over);

    TRY(move_rule(p, n, out, PARTIAL, (int8_t)(dim + 1), "only a partial sum can be scattered"));
    if (dim != 0 || out->shape.d[0] % members != 0) {
        return fail(ERR_PLAN, "%lld rows cannot be scattered over %lld members",
                    (long long)out->shape.d[0], (long long)members);
    }
    out->shape.d[0] /= members;
    return OK;
}

static void scatter_diff(struct program *p, const struct node *n)
{
    program_add_grad(
        p, n->in[0],
        op_gather(p, n->arg.move.over, n->arg.move.dim, false, program_grad(p, n->out[0])));
}

const struct op_def op_scatter_def = {
    .name = "scatter",
    .math = "y = this member's part of the sum of x",
    .collective = true,
    .rule = scatter_rule,
    .diff = scatter_diff,
    .scratch = move_scratch,
    .wire = move_wire,
};

val op_scatter(struct program *p, axes over, int dim, val x)
{
    struct node n = { .op = OP_SCATTER, .in = { x }, .arg.move = { .over = over, .dim = dim } };

    program_append(p, &n, "scatter");
    return n.out[0];
}
