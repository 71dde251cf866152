/* zero, accumulate, add. */
#include <string.h>

#include "program/op.h"

/* ---- zero: y = 0, where a gradient of a gathered weight is collected ---- */

static status zero_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    (void)p;
    *out = (struct sketch){ .dtype = n->arg.zero.dtype,
                            .shape = n->arg.zero.shape,
                            .place = n->arg.zero.place };
    return OK;
}

static void zero_run(const struct call *c)
{
    const struct value *y = value_of(c->p, c->n->out[0]);
    int64_t from, to;
    size_t width = dtype_bytes(y->dtype);

    team_share(c->team, shape_count(&y->shape), &from, &to);
    memset((char *)call_bytes(c, c->n->out[0]) + (size_t)from * width, 0,
           (size_t)(to - from) * width);
}

const struct op_def op_zero_def = {
    .name = "zero", .math = "y = 0", .rule = zero_rule, .run = zero_run
};

/* ---- accumulate: sum += x ---- */

static status same_shape(const struct program *p, val a, val b)
{
    const struct value *x = value_of(p, a), *y = value_of(p, b);
    char sx[96], sy[96];

    if (!shape_same(&x->shape, &y->shape)) {
        return fail(ERR_PLAN, "%s is %s and %s is %s", x->name, shape_text(&x->shape, sx), y->name,
                    shape_text(&y->shape, sy));
    }
    return OK;
}

static status accumulate_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    (void)out;
    TRY(rule_type(p, n->in[0], p->sum, value_of(p, n->in[0])->shape.rank));
    TRY(rule_type(p, n->in[1], p->sum, value_of(p, n->in[1])->shape.rank));
    TRY(same_shape(p, n->in[0], n->in[1]));
    return rule_same_place(p, n->in[0], n->in[1]);
}

typedef void add_fn(const struct add_args *a, struct team t);

static void add_share(const struct call *c, add_fn *add, const void *a, const void *b, void *y,
                      const struct value *like)
{
    int64_t count = 1, from, to;
    size_t width = dtype_bytes(like->dtype);
    struct add_args part;

    for (int i = 0; i < like->shape.rank; i++) {
        count *= like->live[i].id != 0 ? *(const int64_t *)call_bytes(c, like->live[i])
                                       : like->shape.d[i];
    }
    team_share(c->team, count, &from, &to);
    part = (struct add_args){ .a = (const char *)a + (size_t)from * width,
                              .b = (const char *)b + (size_t)from * width,
                              .y = (char *)y + (size_t)from * width,
                              .count = to - from };
    add(&part, (struct team){ 0, 1 });
}

static void accumulate_run(const struct call *c)
{
    void *sum = call_bytes(c, c->n->in[0]);

    add_share(c, c->d->kernels->add_sums, sum, call_bytes(c, c->n->in[1]), sum,
              value_of(c->p, c->n->in[0]));
}

const struct op_def op_accumulate_def = {
    .name = "accumulate",
    .math = "sum += x",
    .adds = 1,
    .rule = accumulate_rule,
    .run = accumulate_run,
};

/* ---- add: y = a + b. Both sides are placed alike: a partial sum and a whole value do not add
 * up. ---- */

static status add_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    TRY(rule_real(p, n->in[0]));
    TRY(rule_real(p, n->in[1]));
    TRY(same_shape(p, n->in[0], n->in[1]));
    TRY(rule_same_place(p, n->in[0], n->in[1]));
    sketch_like(p, n->in[0], out);
    return OK;
}

static void add_diff(struct program *p, const struct node *n)
{
    val g = program_grad(p, n->out[0]);

    program_add_grad(p, n->in[0], g);
    program_add_grad(p, n->in[1], g);
}

static void add_run(const struct call *c)
{
    add_share(c, c->d->kernels->add, call_bytes(c, c->n->in[0]), call_bytes(c, c->n->in[1]),
              call_bytes(c, c->n->out[0]), value_of(c->p, c->n->out[0]));
}

const struct op_def op_add_def = {
    .name = "add",
    .math = "y = a + b",
    .over = 3,
    .rule = add_rule,
    .diff = add_diff,
    .run = add_run,
};

val op_add(struct program *p, const char *name, val a, val b)
{
    struct node n = { .op = OP_ADD, .in = { a, b } };

    program_append(p, &n, name);
    return n.out[0];
}
