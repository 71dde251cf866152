/*
 * linear: y = x w^T for up to three weights that share x, their outputs side by side.
 *
 *   over an axis    x            w          y              dx             dw
 *                   copies       split 0    split last     partial        split 0      column-split
 *                   split last   split 1    partial        split last     split 1      row-split
 *                   split rows   copies     split rows     split rows     partial      data
 *                   whole        whole      whole          whole          whole
 */
#include <string.h>

#include "program/op.h"

/* ---- forward ---- */

static status linear_axis(const struct program *p, const struct node *n, int a, int8_t *out)
{
    const struct value *x = value_of(p, n->in[0]), *w = value_of(p, n->in[1]);
    int8_t on = x->place.on[a], with = w->place.on[a], last = (int8_t)x->shape.rank;

    if (on == COPIES && with == 1) {
        *out = last;
    } else if (on == last && with == 2) {
        *out = PARTIAL;
    } else if (place_is_split(on) && on != last && with == COPIES) {
        *out = on;
    } else if (on == with && (on == WHOLE || on == COPIES)) {
        *out = on;
    } else {
        return fail(ERR_PLAN, "over %s %s is %s and %s is %s: they do not multiply",
                    axis_name((enum axis)a), x->name, place_word(on), w->name, place_word(with));
    }
    return OK;
}

static status linear_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *x = value_of(p, n->in[0]);
    int64_t outputs = 0;

    TRY(rule_real(p, n->in[0]));
    if (x->shape.rank != 3) {
        return fail(ERR_PLAN, "%s has %d dimensions, not 3", x->name, x->shape.rank);
    }
    for (int i = 1; i <= n->arg.linear.parts; i++) {
        const struct value *w = value_of(p, n->in[i]);

        TRY(rule_real(p, n->in[i]));
        if (w->shape.rank != 2 || w->shape.d[1] != x->shape.d[2]) {
            return fail(ERR_PLAN, "%s of width %lld does not multiply %s of width %lld", w->name,
                        (long long)shape_last(&w->shape), x->name, (long long)x->shape.d[2]);
        }
        if (i > 1) {
            TRY(rule_same_place(p, n->in[1], n->in[i]));
        }
        outputs += w->shape.d[0];
    }
    sketch_like(p, n->in[0], out);
    out->shape.d[2] = outputs;
    FOR_AXES(p, a)
    {
        TRY(linear_axis(p, n, a, &out->place.on[a]));
    }
    return OK;
}

static struct linear_args rows_of(const struct call *c, val x)
{
    return (struct linear_args){ .B = call_extent(c, x, 0),
                                 .S = call_extent(c, x, 1),
                                 .scale = c->n->arg.linear.scale,
                                 .scratch = call_bytes(c, c->n->scratch) };
}

/* Of the largest of the parts: they are multiplied one after the other. */
static size_t linear_scratch(const struct program *p, const struct node *n, const struct kernels *k,
                             int threads)
{
    const struct value *x = value_of(p, n->in[0]);
    size_t most = 0;

    for (int i = 1; i <= n->arg.linear.parts; i++) {
        const struct value *w = value_of(p, n->in[i]);
        struct linear_args a = {
            .B = x->shape.d[0], .S = x->shape.d[1], .N = w->shape.d[0], .K = w->shape.d[1]
        };
        size_t bytes = k->linear_scratch(&a, threads);

        most = bytes > most ? bytes : most;
    }
    return most;
}

static void *column(void *bytes, int64_t at, const struct value *like)
{
    return (char *)bytes + (size_t)at * dtype_bytes(like->dtype);
}

static void linear_run(const struct call *c)
{
    const struct value *x = value_of(c->p, c->n->in[0]), *y = value_of(c->p, c->n->out[0]);
    struct linear_args a = rows_of(c, c->n->in[0]);
    int64_t at = 0;

    a.x = call_bytes(c, c->n->in[0]);
    a.K = a.ldx = x->shape.d[2];
    a.ldy = y->shape.d[2];
    for (int i = 1; i <= c->n->arg.linear.parts; i++) {
        a.w = call_bytes(c, c->n->in[i]);
        a.N = value_of(c->p, c->n->in[i])->shape.d[0];
        a.y = column(call_bytes(c, c->n->out[0]), at, y);
        c->d->kernels->linear(&a, c->team);
        at += a.N;
    }
}

static void linear_diff(struct program *p, const struct node *n)
{
    val dy = program_grad(p, n->out[0]);
    int64_t at = 0;

    if (program_trains(p, n->in[0])) {
        struct node dx = { .op = OP_LINEAR_DX, .arg.linear = n->arg.linear };

        dx.in[0] = dy;
        memcpy(&dx.in[1], &n->in[1], LINEAR_PARTS * sizeof(val));
        program_append(p, &dx, "dx");
        program_add_grad(p, n->in[0], dx.out[0]);
    }
    for (int i = 1; i <= n->arg.linear.parts; i++) {
        if (program_trains(p, n->in[i])) {
            struct node dw = { .op = OP_LINEAR_DW, .arg.linear = n->arg.linear };

            dw.arg.linear.column = at;
            dw.in[0] = program_grad_into(p, n->in[i]);
            dw.in[1] = dy;
            dw.in[2] = n->in[0];
            program_append(p, &dw, "dw");
        }
        at += value_of(p, n->in[i])->shape.d[0];
    }
}

static int64_t linear_flops(const struct program *p, const struct node *n)
{
    const struct value *x = value_of(p, n->in[0]), *y = value_of(p, n->out[0]);

    return 2 * shape_rows(&x->shape) * shape_last(&x->shape) * shape_last(&y->shape);
}

const struct op_def op_linear_def = {
    .name = "linear",
    .math = "y = x w^T",
    .rule = linear_rule,
    .diff = linear_diff,
    .flops = linear_flops,
    .scratch = linear_scratch,
    .run = linear_run,
};

val op_linear(struct program *p, const char *name, val x, const val *w, int parts)
{
    struct node n = { .op = OP_LINEAR, .in = { x }, .arg.linear = { .parts = parts, .scale = 1 } };

    memcpy(&n.in[1], w, (size_t)parts * sizeof *w);
    program_append(p, &n, name);
    return n.out[0];
}

/* ---- dx = dy w ---- */

static status dx_axis(const struct program *p, const struct node *n, int a, int8_t *out)
{
    const struct value *dy = value_of(p, n->in[0]), *w = value_of(p, n->in[1]);
    int8_t on = dy->place.on[a], with = w->place.on[a], last = (int8_t)dy->shape.rank;

    if (on == last && with == 1) {
        *out = PARTIAL;
    } else if (on == WHOLE && with == 2) {
        *out = last;
    } else if (place_is_split(on) && on != last && with == COPIES) {
        *out = on;
    } else if (on == WHOLE && with == WHOLE) {
        *out = WHOLE;
    } else if (on == PARTIAL && (with == WHOLE || with == COPIES)) {
        *out = PARTIAL;
    } else {
        return fail(ERR_PLAN, "over %s %s is %s and %s is %s: they do not multiply",
                    axis_name((enum axis)a), dy->name, place_word(on), w->name, place_word(with));
    }
    return OK;
}

static status dx_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *dy = value_of(p, n->in[0]);
    int64_t outputs = 0;

    TRY(rule_real(p, n->in[0]));
    for (int i = 1; i <= n->arg.linear.parts; i++) {
        TRY(rule_real(p, n->in[i]));
        outputs += value_of(p, n->in[i])->shape.d[0];
    }
    if (dy->shape.rank != 3 || dy->shape.d[2] != outputs) {
        return fail(ERR_PLAN, "%s of width %lld does not fit %lld outputs", dy->name,
                    (long long)shape_last(&dy->shape), (long long)outputs);
    }
    sketch_like(p, n->in[0], out);
    out->shape.d[2] = value_of(p, n->in[1])->shape.d[1];
    FOR_AXES(p, a)
    {
        TRY(dx_axis(p, n, a, &out->place.on[a]));
    }
    return OK;
}

static void dx_run(const struct call *c)
{
    const struct value *dy = value_of(c->p, c->n->in[0]), *dx = value_of(c->p, c->n->out[0]);
    struct linear_args a = rows_of(c, c->n->in[0]);
    int64_t at = 0;

    a.dx = call_bytes(c, c->n->out[0]);
    a.K = a.lddx = dx->shape.d[2];
    a.lddy = a.ldy = dy->shape.d[2];
    for (int i = 1; i <= c->n->arg.linear.parts; i++) {
        a.w = call_bytes(c, c->n->in[i]);
        a.N = value_of(c->p, c->n->in[i])->shape.d[0];
        a.dy = column(call_bytes(c, c->n->in[0]), at, dy);
        a.add = i > 1;
        c->d->kernels->linear_dx(&a, c->team);
        at += a.N;
    }
}

const struct op_def op_linear_dx_def = {
    .name = "linear.dx",
    .math = "dx = dy w",
    .rule = dx_rule,
    .flops = linear_flops,
    .scratch = linear_scratch,
    .run = dx_run,
};

/* ---- dw += dy^T x ---- */

static status dw_axis(const struct program *p, const struct node *n, int a)
{
    const struct value *dest = value_of(p, n->in[0]), *dy = value_of(p, n->in[1]),
                       *x = value_of(p, n->in[2]);
    int8_t on = dy->place.on[a], with = x->place.on[a], last = (int8_t)x->shape.rank, sum;

    if (on == last && (with == COPIES || with == WHOLE)) {
        sum = 1;
    } else if (on == WHOLE && with == last) {
        sum = 2;
    } else if (place_is_split(on) && on != last && with == on) {
        sum = PARTIAL;
    } else if ((on == WHOLE || on == PARTIAL) && (with == WHOLE || with == COPIES)) {
        sum = on;
    } else {
        return fail(ERR_PLAN, "over %s %s is %s and %s is %s: they do not multiply",
                    axis_name((enum axis)a), dy->name, place_word(on), x->name, place_word(with));
    }
    if (dest->place.on[a] != sum) {
        return fail(ERR_PLAN, "over %s the gradient from %s is %s, but %s is %s",
                    axis_name((enum axis)a), dy->name, place_word(sum), dest->name,
                    place_word(dest->place.on[a]));
    }
    return OK;
}

static status dw_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *dest = value_of(p, n->in[0]), *dy = value_of(p, n->in[1]),
                       *x = value_of(p, n->in[2]);

    (void)out;
    TRY(rule_type(p, n->in[0], p->sum, 2));
    TRY(rule_real(p, n->in[1]));
    TRY(rule_real(p, n->in[2]));
    if (dest->shape.rank != 2 || dy->shape.rank != 3 || x->shape.rank != 3 ||
        dest->shape.d[1] != x->shape.d[2] || n->arg.linear.column < 0 ||
        n->arg.linear.column > dy->shape.d[2] - dest->shape.d[0]) {
        return fail(ERR_PLAN, "%s does not fit %s and %s", dest->name, dy->name, x->name);
    }
    FOR_AXES(p, a)
    {
        TRY(dw_axis(p, n, a));
    }
    return OK;
}

static struct linear_args dw_args(const struct program *p, const struct node *n)
{
    const struct value *dest = value_of(p, n->in[0]), *dy = value_of(p, n->in[1]),
                       *x = value_of(p, n->in[2]);

    return (struct linear_args){ .B = x->shape.d[0],
                                 .S = x->shape.d[1],
                                 .K = dest->shape.d[1],
                                 .N = dest->shape.d[0],
                                 .ldx = x->shape.d[2],
                                 .lddy = dy->shape.d[2],
                                 .ldy = dy->shape.d[2],
                                 .scale = n->arg.linear.scale };
}

static void dw_run(const struct call *c)
{
    struct linear_args a = dw_args(c->p, c->n);

    a.x = call_bytes(c, c->n->in[2]);
    a.dy = column(call_bytes(c, c->n->in[1]), c->n->arg.linear.column, value_of(c->p, c->n->in[1]));
    a.dw = call_bytes(c, c->n->in[0]);
    a.scratch = call_bytes(c, c->n->scratch);
    c->d->kernels->linear_dw(&a, c->team);
}

static size_t dw_scratch(const struct program *p, const struct node *n, const struct kernels *k,
                         int threads)
{
    struct linear_args a = dw_args(p, n);

    return k->linear_scratch(&a, threads);
}

static int64_t dw_flops(const struct program *p, const struct node *n)
{
    struct linear_args a = dw_args(p, n);

    return 2 * a.B * a.S * a.K * a.N;
}

const struct op_def op_linear_dw_def = {
    .name = "linear.dw",
    .math = "dw += dy^T x",
    .adds = 1,
    .rule = dw_rule,
    .flops = dw_flops,
    .scratch = dw_scratch,
    .run = dw_run,
};
