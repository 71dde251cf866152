/*
 * Scalars that cross ranks are exact integers: sums of doubles in struct exact, and plain counts,
 * all words of one I64 state value that a single message adds up.
 */
#include <string.h>

#include "base/exact.h"
#include "program/op.h"

static int64_t *words(const struct call *c, val scalars, int64_t offset)
{
    return (int64_t *)call_bytes(c, scalars) + offset;
}

static struct exact *exact_at(const struct call *c, val scalars, int64_t offset)
{
    return (struct exact *)words(c, scalars, offset);
}

_Static_assert(sizeof(struct exact) == EXACT_WORDS * sizeof(int64_t),
               "a struct exact is words of an I64 value");

static status scalars_rule(const struct program *p, val scalars)
{
    TRY(rule_type(p, scalars, DT_I64, 1));
    if (value_of(p, scalars)->shape.d[0] < SCALAR_WORDS) {
        return fail(ERR_PLAN, "%s is too short", value_of(p, scalars)->name);
    }
    return OK;
}

/* ---- exact.sum: adds F64 rows. On TP every member has the same rows, and only the first adds
 * them. ---- */

static status sum_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    (void)out;
    TRY(scalars_rule(p, n->in[0]));
    TRY(rule_type(p, n->in[1], DT_F64, 1));
    FOR_AXES(p, a)
    {
        int8_t on = value_of(p, n->in[1])->place.on[a];

        if (a == AXIS_TP ? on != WHOLE : on != 1 && on != PARTIAL) {
            return rule_misplaced(p, n->in[1], a,
                                  a == AXIS_TP ? "its members must agree"
                                               : "its members must differ");
        }
    }
    return OK;
}

static void sum_run(const struct call *c)
{
    const double *rows = call_bytes(c, c->n->in[1]);
    struct exact *e = exact_at(c, c->n->in[0], c->n->arg.exact.offset);
    int64_t count = call_extent(c, c->n->in[1], 0);

    if (c->team.thread != 0 || c->p->mesh->at[AXIS_TP] != 0) {
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        exact_add(e, rows[i]);
    }
    exact_carry(e);
}

const struct op_def op_exact_sum_def = {
    .name = "exact.sum",
    .math = "sum += rows, exactly",
    .adds = 1,
    .rule = sum_rule,
    .run = sum_run,
};

void op_exact_sum(struct program *p, val rows, val scalars, int offset)
{
    struct node n = { .op = OP_EXACT_SUM, .in = { scalars, rows }, .arg.exact = { offset } };

    program_append(p, &n, "sum");
}

/*
 * ---- norm: squares of a flat gradient, by blocks of 1,024 ----
 *
 * Each distinct element counts once over all ranks: the ranges leave out parts that other TP
 * members hold as well, and only the first replica counts.
 */

static status norm_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    int64_t blocks;

    (void)out;
    TRY(scalars_rule(p, n->in[0]));
    TRY(rule_type(p, n->in[1], p->sum, 1));
    blocks = value_of(p, n->in[1])->shape.d[0] / 1024;
    TRY(rule_not_partial(p, n->in[1]));
    for (int i = 0; i < n->arg.norm.count; i++) {
        const struct block_range *r = &n->arg.norm.ranges[i];

        if (r->from < 0 || r->to < r->from || r->to > blocks) {
            return fail(ERR_PLAN, "blocks %lld to %lld are not in %s of %lld", (long long)r->from,
                        (long long)r->to, value_of(p, n->in[1])->name, (long long)blocks);
        }
    }
    return OK;
}

static bool norm_counts(const struct mesh *m)
{
    return mesh_index(m, AXES_SPREAD) == 0;
}

static void norm_run(const struct call *c)
{
    const struct value *g = value_of(c->p, c->n->in[1]);
    double *sums = call_bytes(c, c->n->scratch);
    struct norm_args a = { .g = call_bytes(c, c->n->in[1]),
                           .sums = sums,
                           .blocks = g->shape.d[0] / 1024 };
    struct exact *e = exact_at(c, c->n->in[0], SCALAR_NORM);

    c->d->kernels->norm(&a, c->team);
    call_barrier(c);
    if (c->team.thread != 0 || !norm_counts(c->p->mesh)) {
        return;
    }
    for (int i = 0; i < c->n->arg.norm.count; i++) {
        for (int64_t b = c->n->arg.norm.ranges[i].from; b < c->n->arg.norm.ranges[i].to; b++) {
            exact_add(e, sums[b]);
        }
    }
    exact_carry(e);
}

static size_t norm_scratch(const struct program *p, const struct node *n, const struct kernels *k,
                           int threads)
{
    (void)k;
    (void)threads;
    return (size_t)(value_of(p, n->in[1])->shape.d[0] / 1024) * sizeof(double);
}

const struct op_def op_norm_def = {
    .name = "norm",
    .math = "sum += |g|^2, exactly",
    .adds = 1,
    .rule = norm_rule,
    .scratch = norm_scratch,
    .run = norm_run,
};

void op_norm(struct program *p, val grad, val scalars, const struct block_range *ranges, int count)
{
    struct node n = { .op = OP_NORM, .in = { scalars, grad }, .arg.norm = { ranges, count } };

    program_append(p, &n, "norm");
}

/* ---- reduce: the words of all ranks, added as integers ---- */

static status reduce_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    (void)out;
    return scalars_rule(p, n->in[0]);
}

static struct collective reduce_collective(const struct program *p, const struct node *n)
{
    return (struct collective){ .kind = COMM_ALL_REDUCE,
                                .dtype = DT_I64,
                                .n = value_of(p, n->in[0])->shape.d[0] };
}

static void reduce_run(const struct call *c)
{
    struct collective what = reduce_collective(c->p, c->n);

    if (c->team.thread != 0 || mesh_length(c->p->mesh, AXES_ALL) == 1) {
        return;
    }
    what.in = what.out = call_bytes(c, c->n->in[0]);
    what.scratch = call_bytes(c, c->n->scratch);
    atomic_store(c->failed, (int)comm_run(c->p->mesh->world, &what));
}

static size_t reduce_scratch(const struct program *p, const struct node *n, const struct kernels *k,
                             int threads)
{
    struct collective what = reduce_collective(p, n);

    (void)k;
    (void)threads;
    return p->mesh->world == NULL ? 2 * (size_t)what.n * sizeof(int64_t)
                                  : comm_scratch(p->mesh->world, &what);
}

const struct op_def op_reduce_def = {
    .name = "reduce",
    .math = "words of all ranks, added",
    .adds = 1,
    .rule = reduce_rule,
    .scratch = reduce_scratch,
    .run = reduce_run,
};

void op_reduce(struct program *p, val scalars)
{
    struct node n = { .op = OP_REDUCE, .in = { scalars } };

    program_append(p, &n, "reduce");
}
