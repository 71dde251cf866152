/* swiglu: y = silu(gate) up, gate and up side by side in one value. */
#include "program/op.h"

static status swiglu_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    TRY(rule_type(p, n->in[0], p->real, 3));
    TRY(rule_not_partial(p, n->in[0]));
    sketch_like(p, n->in[0], out);
    if (out->shape.d[2] % 2 != 0) {
        return fail(ERR_PLAN, "%s is not a gate and an up of one width",
                    value_of(p, n->in[0])->name);
    }
    out->shape.d[2] /= 2;
    return OK;
}

static void swiglu_run(const struct call *c)
{
    struct swiglu_args a = { .h = call_bytes(c, c->n->in[0]),
                             .y = call_bytes(c, c->n->out[0]),
                             .T = call_rows(c, c->n->out[0]),
                             .F = value_of(c->p, c->n->out[0])->shape.d[2] };

    c->d->kernels->swiglu(&a, c->team);
}

static void swiglu_diff(struct program *p, const struct node *n)
{
    struct node back = { .op = OP_SWIGLU_D, .in = { n->in[0], program_grad(p, n->out[0]) } };

    program_append(p, &back, "dx");
    program_add_grad(p, n->in[0], back.out[0]);
}

const struct op_def op_swiglu_def = {
    .name = "swiglu",
    .math = "y = silu(gate) up",
    .rule = swiglu_rule,
    .diff = swiglu_diff,
    .run = swiglu_run,
};

val op_swiglu(struct program *p, const char *name, val x)
{
    struct node n = { .op = OP_SWIGLU, .in = { x } };

    program_append(p, &n, name);
    return n.out[0];
}

/* ---- derivative: h is needed, so it may give its bytes to dh ---- */

static status swiglu_d_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *h = value_of(p, n->in[0]), *dy = value_of(p, n->in[1]);

    TRY(rule_type(p, n->in[1], p->real, 3));
    if (h->shape.d[2] != 2 * dy->shape.d[2]) {
        return fail(ERR_PLAN, "%s does not fit %s", dy->name, h->name);
    }
    sketch_like(p, n->in[0], out);
    FOR_AXES(p, a)
    {
        int8_t on = dy->place.on[a], with = h->place.on[a];

        if (place_is_split(with) ? on != with : place_is_split(on)) {
            return fail(ERR_PLAN, "over %s %s is %s and %s is %s", axis_name((enum axis)a),
                        dy->name, place_word(on), h->name, place_word(with));
        }
        out->place.on[a] = on;
    }
    return OK;
}

static void swiglu_d_run(const struct call *c)
{
    struct swiglu_args a = { .h = call_bytes(c, c->n->in[0]),
                             .dy = call_bytes(c, c->n->in[1]),
                             .dh = call_bytes(c, c->n->out[0]),
                             .T = call_rows(c, c->n->in[1]),
                             .F = value_of(c->p, c->n->in[1])->shape.d[2] };

    c->d->kernels->swiglu_d(&a, c->team);
}

const struct op_def op_swiglu_d_def = {
    .name = "swiglu.d",
    .math = "dgate, dup",
    .over = 1,
    .rule = swiglu_d_rule,
    .run = swiglu_d_run,
};
