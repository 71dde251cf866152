#include "program/hazard.h"

#include "program/op.h"

/* Nodes between two barriers are compared with each other: so many at most. */
enum { PENDING_MOST = 64 * TOUCHES_MOST };

static int touch_value(const struct program *p, val v, bool writes, struct touch *out)
{
    const struct value *x = value_of(p, v);

    if (v.id == 0) {
        return 0;
    }
    *out = (struct touch){ x->temporary, writes, x->at,
                           x->at + shape_count(&x->shape) * (int64_t)dtype_bytes(x->dtype) };
    return 1;
}

int node_touches(const struct program *p, const struct node *n, struct touch out[TOUCHES_MOST])
{
    const struct op_def *def = op_table[n->op];
    int count = 0;

    if (def->run == NULL && !def->collective) {
        return 0;
    }
    for (int k = 0; k < OP_IN; k++) {
        count += touch_value(p, n->in[k], (def->adds >> k & 1) != 0, &out[count]);
    }
    for (int k = 0; k < OP_OUT; k++) {
        count += touch_value(p, n->out[k], true, &out[count]);
    }
    return count + touch_value(p, n->scratch, true, &out[count]);
}

static bool meet(const struct touch *a, const struct touch *b)
{
    return (a->writes || b->writes) && a->temporary == b->temporary && a->from < b->to &&
           b->from < a->to;
}

struct pending {
    struct touch touches[PENDING_MOST];
    int count;
};

static bool conflicts(const struct pending *w, const struct touch *with, int count)
{
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < w->count; k++) {
            if (meet(&with[i], &w->touches[k])) {
                return true;
            }
        }
    }
    return w->count + count > PENDING_MOST;
}

static void remember(struct pending *w, const struct touch *more, int count)
{
    for (int i = 0; i < count && w->count < PENDING_MOST; i++) {
        w->touches[w->count++] = more[i];
    }
}

/*
 * What thread 0 does about messages at a node: those that begin touch their bytes now; one that is
 * awaited has touched them all along, and only who comes behind it must meet thread 0.
 */
static bool node_needs(const struct program *p, int i, const struct pending *w)
{
    struct touch own[TOUCHES_MOST];
    const struct node *n = &p->nodes[i];

    for (int j = p->begins[i]; j != 0; j = p->begins_next[j - 1]) {
        const struct node *begun = &p->nodes[j - 1];

        if (op_table[begun->op]->collective && conflicts(w, own, node_touches(p, begun, own))) {
            return true;
        }
    }
    return !op_table[n->op]->collective && conflicts(w, own, node_touches(p, n, own));
}

static void node_remember(const struct program *p, int i, struct pending *w)
{
    struct touch own[TOUCHES_MOST];

    for (int j = p->begins[i]; j != 0; j = p->begins_next[j - 1]) {
        const struct node *begun = &p->nodes[j - 1];

        if (op_table[begun->op]->collective) {
            remember(w, own, node_touches(p, begun, own));
        }
    }
    remember(w, own, node_touches(p, &p->nodes[i], own));
}

int place_barriers(struct program *p)
{
    struct pending w = { .count = 0 };
    int barriers = 0;

    for (int i = 0; i < p->node_count; i++) {
        p->nodes[i].barrier = node_needs(p, i, &w);
        if (p->nodes[i].barrier) {
            w.count = 0;
            barriers++;
        }
        node_remember(p, i, &w);
    }
    return barriers;
}
