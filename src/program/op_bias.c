/* bias: y = x + b, for up to three parts side by side. */
#include <string.h>

#include "program/op.h"

static status bias_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *x = value_of(p, n->in[0]);
    int64_t width = 0;

    TRY(rule_real(p, n->in[0]));
    sketch_like(p, n->in[0], out);
    for (int i = 1; i <= n->arg.linear.parts; i++) {
        TRY(rule_type(p, n->in[i], p->real, 1));
        TRY(rule_rows_and_weight(p, n->in[0], n->in[i], true, &out->place));
        width += value_of(p, n->in[i])->shape.d[0];
    }
    if (x->shape.rank != 3 || x->shape.d[2] != width) {
        return fail(ERR_PLAN, "%s of width %lld does not fit biases of %lld", x->name,
                    (long long)shape_last(&x->shape), (long long)width);
    }
    return OK;
}

static struct bias_args bias_args(const struct call *c, val rows, val b)
{
    const struct value *x = value_of(c->p, rows);

    return (struct bias_args){ .B = call_extent(c, rows, 0),
                               .S = call_extent(c, rows, 1),
                               .N = value_of(c->p, b)->shape.d[0],
                               .ldx = x->shape.d[2],
                               .ldy = x->shape.d[2],
                               .lddy = x->shape.d[2] };
}

static void bias_run(const struct call *c)
{
    size_t width = dtype_bytes(c->p->real);
    int64_t at = 0;

    for (int i = 1; i <= c->n->arg.linear.parts; i++) {
        struct bias_args a = bias_args(c, c->n->in[0], c->n->in[i]);

        a.x = (char *)call_bytes(c, c->n->in[0]) + (size_t)at * width;
        a.y = (char *)call_bytes(c, c->n->out[0]) + (size_t)at * width;
        a.b = call_bytes(c, c->n->in[i]);
        c->d->kernels->bias(&a, c->team);
        at += a.N;
    }
}

static void bias_diff(struct program *p, const struct node *n)
{
    val dy = program_grad(p, n->out[0]);
    int64_t at = 0;

    program_add_grad(p, n->in[0], dy);
    for (int i = 1; i <= n->arg.linear.parts; i++) {
        if (program_trains(p, n->in[i])) {
            struct node dw = { .op = OP_BIAS_DW, .arg.linear = { .column = at } };

            dw.in[0] = program_grad_into(p, n->in[i]);
            dw.in[1] = dy;
            program_append(p, &dw, "dw");
        }
        at += value_of(p, n->in[i])->shape.d[0];
    }
}

const struct op_def op_bias_def = {
    .name = "bias",
    .math = "y = x + b",
    .over = 1,
    .rule = bias_rule,
    .diff = bias_diff,
    .run = bias_run,
};

val op_bias(struct program *p, const char *name, val x, const val *b, int parts)
{
    struct node n = { .op = OP_BIAS, .in = { x }, .arg.linear = { .parts = parts } };

    memcpy(&n.in[1], b, (size_t)parts * sizeof *b);
    program_append(p, &n, name);
    return n.out[0];
}

/* ---- db += dy ---- */

static status bias_dw_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    (void)out;
    TRY(rule_type(p, n->in[0], p->sum, 1));
    TRY(rule_type(p, n->in[1], p->real, 3));
    return rule_weight_gradient(p, n->in[1], n->in[0], true);
}

static void bias_dw_run(const struct call *c)
{
    struct bias_args a = bias_args(c, c->n->in[1], c->n->in[0]);

    a.dy = (const char *)call_bytes(c, c->n->in[1]) +
           (size_t)c->n->arg.linear.column * dtype_bytes(c->p->real);
    a.db = call_bytes(c, c->n->in[0]);
    a.scratch = call_bytes(c, c->n->scratch);
    c->d->kernels->bias_dw(&a, c->team);
}

static size_t bias_dw_scratch(const struct program *p, const struct node *n,
                              const struct kernels *k, int threads)
{
    const struct value *dy = value_of(p, n->in[1]);
    struct bias_args a = { .B = dy->shape.d[0],
                           .S = dy->shape.d[1],
                           .N = value_of(p, n->in[0])->shape.d[0],
                           .lddy = dy->shape.d[2] };

    return k->bias_scratch(&a, threads);
}

const struct op_def op_bias_dw_def = {
    .name = "bias.dw",
    .math = "db += dy",
    .adds = 1,
    .rule = bias_dw_rule,
    .scratch = bias_dw_scratch,
    .run = bias_dw_run,
};
