/*
 * The backward pass. It walks the forward nodes from the last to the first, segment by segment. A
 * segment that is recomputed is first repeated: its nodes are cloned behind everything written so
 * far, and derivatives are taken of the clones, so that nothing of the forward pass has to be kept
 * but the segment's inputs. No op knows of it.
 *
 * Gradients belong to the original of a value, whichever clone a derivative speaks of. The gradient
 * of a weight is added in place: into its persistent gradient where the weight itself was used,
 * into a zeroed buffer of the gathered or entered copy otherwise, which the derivative of gather
 * and enter then reduce and accumulate.
 */
#include <string.h>

#include "program/op.h"

static struct value *original_of(const struct program *p, val v)
{
    struct value *x = value_of(p, v);

    return x->original.id != 0 ? value_of(p, x->original) : x;
}

bool program_trains(const struct program *p, val v)
{
    return v.id != 0 && value_of(p, v)->trains;
}

val program_grad(const struct program *p, val v)
{
    return original_of(p, v)->grad;
}

/* What is made for a weight is named after it, not after the node whose derivative is being
 * written. */
static val weight_gradient(struct program *p, const struct value *w)
{
    return program_grad_state(p, arena_format(p->arena, "grad.%s", w->name), p->sum, w->shape,
                              place_gradient(w->place));
}

static val zeroed_gradient(struct program *p, struct value *w)
{
    struct node n = { .op = OP_ZERO, .arg.zero = { p->sum, w->shape, place_gradient(w->place) } };

    program_append(p, &n, "gradient");
    return n.out[0];
}

val program_grad_into(struct program *p, val v)
{
    val id = value_of(p, v)->original.id != 0 ? value_of(p, v)->original : v, made;
    struct value *w = value_of(p, id);
    const char *prefix = p->prefix;

    check(w->weight, "%s is no weight", w->name);
    if (w->grad.id != 0) {
        return w->grad;
    }
    if (w->role == ROLE_WEIGHT) {
        made = weight_gradient(p, w);
    } else if (w->made_by == OP_VIEW) {
        val base = program_grad_into(p, w->base);

        w = value_of(p, id);
        p->prefix = w->name;
        made =
            op_view(p, "gradient", base, w->offset, w->shape, place_gradient(w->place).on[AXIS_TP]);
    } else {
        p->prefix = w->name;
        made = zeroed_gradient(p, w);
    }
    p->prefix = prefix;
    value_of(p, id)->grad = made;
    return made;
}

static void accumulate(struct program *p, val sum, val g)
{
    struct node n = { .op = OP_ACCUMULATE, .in = { sum, g } };

    program_append(p, &n, "accumulate");
}

static status gradient_place(const struct program *p, const struct value *x, const struct value *g)
{
    struct place want = place_gradient(x->place);

    FOR_AXES(p, a)
    {
        if (g->place.on[a] != want.on[a]) {
            return fail(ERR_PLAN, "over %s its gradient %s is %s, but must be %s",
                        axis_name((enum axis)a), g->name, place_word(g->place.on[a]),
                        place_word(want.on[a]));
        }
    }
    return OK;
}

void program_add_grad(struct program *p, val v, val g)
{
    val id = value_of(p, v)->original.id != 0 ? value_of(p, v)->original : v;
    struct value *x = value_of(p, id);
    status s;

    if (p->failed != OK || g.id == 0 || !x->trains) {
        return;
    }
    s = gradient_place(p, x, value_of(p, g));
    if (s != OK) {
        const char *prefix = p->prefix;

        p->prefix = NULL;
        p->failed = s;
        p->failure = arena_format(p->arena, "%s: %s: %s", p->name, x->name, fail_text());
        p->prefix = prefix;
    } else if (x->role == ROLE_WEIGHT || (x->weight && x->made_by == OP_VIEW)) {
        accumulate(p, program_grad_into(p, id), g);
    } else if (x->grad.id == 0) {
        x->grad = g;
    } else if (x->weight) {
        accumulate(p, x->grad, g);
    } else {
        val sum = op_add(p, "sum", x->grad, g);

        value_of(p, id)->grad = sum;
    }
}

/* ---- cloning ---- */

static val mapped(const int32_t *map, val v)
{
    return map[v.id] != 0 ? (val){ map[v.id] } : v;
}

static val clone_value(struct program *p, int32_t *map, val v)
{
    struct sketch s;
    struct value *from = value_of(p, v), *to;
    const char *name = from->name;
    val made;

    sketch_like(p, v, &s);
    p->prefix = name;
    made = program_make(p, "again", &s, from->role);
    p->prefix = NULL;
    from = value_of(p, v);
    to = value_of(p, made);
    to->made_by = from->made_by;
    to->base = mapped(map, from->base);
    to->offset = from->offset;
    to->original = from->original.id != 0 ? from->original : v;
    to->weight = from->weight;
    to->trains = from->trains;
    map[v.id] = made.id;
    return made;
}

/* Recomputing repeats every node; gathering again only what was gathered, and the views of it. */
static bool is_repeated(const struct program *p, const struct node *n, unsigned flags,
                        const int32_t *map)
{
    if ((flags & SEGMENT_RECOMPUTE) != 0) {
        return true;
    }
    if ((flags & SEGMENT_REGATHER) == 0 || !value_of(p, n->out[0])->weight) {
        return false;
    }
    return n->op == OP_GATHER || map[n->in[0].id] != 0;
}

/* Replaces nodes [from, to) of the copied forward list by their repetition; the repeated nodes
 * are appended to the program. */
static void repeat_segment(struct program *p, struct node *forward, int from, int to,
                           unsigned flags)
{
    int32_t *map = arena_take_array(p->arena, (size_t)p->value_count, sizeof *map);
    int known = p->value_count;

    for (int i = from; i < to; i++) {
        struct node *n = &forward[i];
        bool again = is_repeated(p, n, flags, map);

        for (int k = 0; k < OP_IN; k++) {
            n->in[k] = n->in[k].id < known ? mapped(map, n->in[k]) : n->in[k];
        }
        if (!again) {
            continue;
        }
        for (int k = 0; k < OP_OUT; k++) {
            if (n->out[k].id != 0) {
                n->out[k] = clone_value(p, map, n->out[k]);
            }
        }
        n->backward = true;
        if (p->node_count == p->node_room) {
            struct node *old = p->nodes;

            p->node_room *= 2;
            p->nodes = arena_take_array(p->arena, (size_t)p->node_room, sizeof *p->nodes);
            memcpy(p->nodes, old, (size_t)p->node_count * sizeof *p->nodes);
        }
        p->nodes[p->node_count++] = *n;
    }
}

static bool has_gradient(const struct program *p, const struct node *n)
{
    for (int k = 0; k < OP_OUT; k++) {
        if (n->out[k].id != 0 && program_trains(p, n->out[k]) &&
            program_grad(p, n->out[k]).id != 0) {
            return true;
        }
    }
    return false;
}

static void differentiate(struct program *p, struct node *n, val loss)
{
    const struct op_def *def = op_table[n->op];

    if (p->failed != OK || def->diff == NULL || (!has_gradient(p, n) && n->out[0].id != loss.id)) {
        return;
    }
    p->segment = n->segment;
    p->prefix = original_of(p, n->out[0])->name;
    def->diff(p, n);
    p->prefix = NULL;
}

void program_seed(struct program *p, val v, val g)
{
    program_add_grad(p, v, g);
}

status program_backward(struct program *p, val loss)
{
    int count = p->node_count, end = count;
    struct node *forward = arena_take_array(p->arena, (size_t)count + 1, sizeof *forward);

    memcpy(forward, p->nodes, (size_t)count * sizeof *forward);
    p->in_backward = true;
    while (end > 0 && p->failed == OK) {
        int from = end - 1, segment = forward[from].segment;
        unsigned flags = segment < 0 ? 0 : p->segments[segment].flags;

        while (from > 0 && forward[from - 1].segment == segment) {
            from--;
        }
        p->segment = segment;
        if ((flags & (SEGMENT_RECOMPUTE | SEGMENT_REGATHER)) != 0) {
            repeat_segment(p, forward, from, end, flags);
        }
        for (int i = end - 1; i >= from; i--) {
            differentiate(p, &forward[i], loss);
        }
        end = from;
    }
    return p->failed == OK ? OK : fail(p->failed, "%s", p->failure);
}
