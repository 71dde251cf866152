/*
 * Every rule once more against the finished list, derivative and clones included: what stands there
 * must be what the rules say. So a pass that forgets a collective, or takes one away, is refused
 * while planning, with the path of the value.
 */
#include <string.h>

#include "program/op.h"

static status node_fail(const struct program *p, const struct node *n)
{
    val v = n->out[0].id != 0 ? n->out[0] : n->in[0];
    char text[1024];

    snprintf(text, sizeof text, "%s", fail_text());
    return fail(ERR_PLAN, "%s: %s: %s: %s", p->name, value_of(p, v)->name, op_name(n->op), text);
}

static status output_agrees(const struct program *p, const struct node *n, const struct sketch *s,
                            val out)
{
    const struct value *v = value_of(p, out);
    char have[128], want[128];

    if (v->dtype != s->dtype || !shape_same(&v->shape, &s->shape)) {
        return fail(ERR_PLAN, "%s is %s %s, but the rule makes it %s %s", v->name,
                    dtype_name(v->dtype), shape_text(&v->shape, have), dtype_name(s->dtype),
                    shape_text(&s->shape, want));
    }
    if (!place_same(v->place, s->place)) {
        return fail(ERR_PLAN, "%s is %s, but the rule makes it %s", v->name,
                    place_text(v->place, have), place_text(s->place, want));
    }
    if (op_table[n->op]->alias && v->base.id != n->in[0].id) {
        return fail(ERR_PLAN, "%s does not look at %s", v->name, value_of(p, n->in[0])->name);
    }
    return OK;
}

static status node_verify(const struct program *p, const struct node *n)
{
    struct sketch out[OP_OUT] = { { .dtype = DT_NONE } };

    TRY(op_table[n->op]->rule(p, n, out));
    for (int k = 0; k < OP_OUT && out[k].dtype != DT_NONE; k++) {
        TRY(output_agrees(p, n, &out[k], n->out[k]));
    }
    return OK;
}

/* After a backward pass every weight that trains has a gradient in the place of the weight. */
static status weights_verify(const struct program *p)
{
    for (int i = 1; i < p->value_count; i++) {
        const struct value *w = &p->values[i];

        if (w->role != ROLE_WEIGHT || !w->trains) {
            continue;
        }
        if (w->grad.id == 0) {
            return fail(ERR_PLAN, "%s: %s trains, but no gradient arrives at it", p->name, w->name);
        }
        if (!place_same(value_of(p, w->grad)->place, place_gradient(w->place))) {
            return fail(ERR_PLAN, "%s: %s and its gradient are placed differently", p->name,
                        w->name);
        }
    }
    return OK;
}

status program_verify(const struct program *p)
{
    if (p->failed != OK) {
        return fail(p->failed, "%s", p->failure);
    }
    for (int i = 0; i < p->node_count; i++) {
        if (node_verify(p, &p->nodes[i]) != OK) {
            return node_fail(p, &p->nodes[i]);
        }
    }
    return p->in_backward ? weights_verify(p) : OK;
}
