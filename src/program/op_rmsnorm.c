/* rmsnorm: y = x / rms(x) * w, with 1 / rms(x) of each row kept for the derivative. */
#include "program/op.h"

static status rmsnorm_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *x = value_of(p, n->in[0]), *w = value_of(p, n->in[1]);

    TRY(rule_type(p, n->in[0], p->real, 3));
    TRY(rule_type(p, n->in[1], p->real, 1));
    if (x->shape.d[2] != w->shape.d[0]) {
        return fail(ERR_PLAN, "%s of width %lld does not fit the gain %s of %lld", x->name,
                    (long long)x->shape.d[2], w->name, (long long)w->shape.d[0]);
    }
    sketch_like(p, n->in[0], &out[0]);
    sketch_like(p, n->in[0], &out[1]);
    out[1].dtype = p->sum;
    out[1].shape.rank = 2;
    TRY(rule_rows_and_weight(p, n->in[0], n->in[1], false, &out[0].place));
    out[1].place = out[0].place;
    return OK;
}

static struct rmsnorm_args rmsnorm_args(const struct call *c, val rows)
{
    return (struct rmsnorm_args){ .B = call_extent(c, rows, 0),
                                  .S = call_extent(c, rows, 1),
                                  .D = value_of(c->p, rows)->shape.d[2],
                                  .eps = c->n->arg.rmsnorm.eps };
}

static void rmsnorm_run(const struct call *c)
{
    struct rmsnorm_args a = rmsnorm_args(c, c->n->in[0]);

    a.x = call_bytes(c, c->n->in[0]);
    a.w = call_bytes(c, c->n->in[1]);
    a.y = call_bytes(c, c->n->out[0]);
    a.rstd = call_bytes(c, c->n->out[1]);
    c->d->kernels->rmsnorm(&a, c->team);
}

static void rmsnorm_diff(struct program *p, const struct node *n)
{
    val dy = program_grad(p, n->out[0]);

    /* The gain first: dx may take the bytes of dy. */
    if (program_trains(p, n->in[1])) {
        struct node dw = { .op = OP_RMSNORM_DW, .arg = n->arg };

        dw.in[0] = program_grad_into(p, n->in[1]);
        dw.in[1] = dy;
        dw.in[2] = n->in[0];
        dw.in[3] = n->out[1];
        program_append(p, &dw, "dw");
    }
    if (program_trains(p, n->in[0])) {
        struct node dx = { .op = OP_RMSNORM_DX,
                           .in = { dy, n->in[0], n->in[1], n->out[1] },
                           .arg = n->arg };

        program_append(p, &dx, "dx");
        program_add_grad(p, n->in[0], dx.out[0]);
    }
}

const struct op_def op_rmsnorm_def = {
    .name = "rmsnorm",
    .math = "y = x / rms(x) * w",
    .over = 1,
    .rule = rmsnorm_rule,
    .diff = rmsnorm_diff,
    .run = rmsnorm_run,
};

val op_rmsnorm(struct program *p, const char *name, val x, val w, double eps)
{
    struct node n = { .op = OP_RMSNORM, .in = { x, w }, .arg.rmsnorm = { eps } };

    program_append(p, &n, name);
    return n.out[0];
}

/* ---- dx ---- */

/* dy, x and rstd agree row by row; dy may be a partial sum (the derivative is linear in it). */
static status rows_alike(const struct program *p, val dy, val x)
{
    const struct value *a = value_of(p, dy), *b = value_of(p, x);

    if (!shape_same(&a->shape, &b->shape)) {
        return fail(ERR_PLAN, "%s and %s differ in shape", a->name, b->name);
    }
    FOR_AXES(p, i)
    {
        int8_t on = a->place.on[i], with = b->place.on[i];
        bool fits = place_is_split(with) ? on == with : with != PARTIAL && !place_is_split(on);

        if (!fits) {
            return fail(ERR_PLAN, "over %s %s is %s and %s is %s", axis_name((enum axis)i), a->name,
                        place_word(on), b->name, place_word(with));
        }
    }
    return OK;
}

static status rmsnorm_dx_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    TRY(rule_type(p, n->in[0], p->real, 3));
    TRY(rows_alike(p, n->in[0], n->in[1]));
    sketch_like(p, n->in[0], out);
    return OK;
}

static void rmsnorm_dx_run(const struct call *c)
{
    struct rmsnorm_args a = rmsnorm_args(c, c->n->in[0]);

    a.dy = call_bytes(c, c->n->in[0]);
    a.x = call_bytes(c, c->n->in[1]);
    a.w = call_bytes(c, c->n->in[2]);
    a.rstd = call_bytes(c, c->n->in[3]);
    a.dx = call_bytes(c, c->n->out[0]);
    c->d->kernels->rmsnorm_dx(&a, c->team);
}

const struct op_def op_rmsnorm_dx_def = {
    .name = "rmsnorm.dx",
    .math = "dx = rstd (w dy - x rstd^2 mean(w dy x))",
    .over = 1,
    .rule = rmsnorm_dx_rule,
    .run = rmsnorm_dx_run,
};

/* ---- dw ---- */

static status rmsnorm_dw_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    (void)out;
    TRY(rule_type(p, n->in[0], p->sum, 1));
    TRY(rows_alike(p, n->in[1], n->in[2]));
    return rule_weight_gradient(p, n->in[1], n->in[0], false);
}

static void rmsnorm_dw_run(const struct call *c)
{
    struct rmsnorm_args a = rmsnorm_args(c, c->n->in[1]);

    a.dw = call_bytes(c, c->n->in[0]);
    a.dy = call_bytes(c, c->n->in[1]);
    a.x = call_bytes(c, c->n->in[2]);
    a.rstd = call_bytes(c, c->n->in[3]);
    a.scratch = call_bytes(c, c->n->scratch);
    c->d->kernels->rmsnorm_dw(&a, c->team);
}

static size_t rmsnorm_dw_scratch(const struct program *p, const struct node *n,
                                 const struct kernels *k, int threads)
{
    const struct value *dy = value_of(p, n->in[1]);
    struct rmsnorm_args a = { .B = dy->shape.d[0], .S = dy->shape.d[1], .D = dy->shape.d[2] };

    return k->rmsnorm_scratch(&a, threads);
}

const struct op_def op_rmsnorm_dw_def = {
    .name = "rmsnorm.dw",
    .math = "dw += dy x rstd",
    .adds = 1,
    .rule = rmsnorm_dw_rule,
    .scratch = rmsnorm_dw_scratch,
    .run = rmsnorm_dw_run,
};
