/* Writing a program: values, nodes, segments, and the questions rules ask of them. */
#include "program/program.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "program/op.h"

static void *grown(struct arena *a, void *old, int count, int *room, size_t size)
{
    void *fresh;

    if (count < *room) {
        return old;
    }
    *room = *room == 0 ? 64 : *room * 2;
    fresh = arena_take_array(a, (size_t)*room, size);
    if (count > 0) {
        memcpy(fresh, old, (size_t)count * size);
    }
    return fresh;
}

void program_init(struct program *p, const char *name, struct arena *arena, const struct mesh *mesh,
                  enum dtype real)
{
    *p = (struct program){ .name = name,
                           .arena = arena,
                           .mesh = mesh,
                           .real = real,
                           .sum = kernels_sum(real),
                           .segment = -1 };
    p->values = grown(arena, NULL, 0, &p->value_room, sizeof *p->values);
    p->values[0] = (struct value){ .name = "none" };
    p->value_count = 1;
}

void program_segment(struct program *p, const char *name, unsigned flags)
{
    p->segments =
        grown(p->arena, p->segments, p->segment_count, &p->segment_room, sizeof *p->segments);
    p->segment = p->segment_count;
    p->segments[p->segment_count++] = (struct segment){ arena_text(p->arena, name), flags };
}

struct value *value_of(const struct program *p, val v)
{
    check(v.id >= 0 && v.id < p->value_count, "value %d of %d", v.id, p->value_count);
    return &p->values[v.id];
}

const struct value *program_value(const struct program *p, val v)
{
    return value_of(p, v);
}

val program_find(const struct program *p, const char *name)
{
    for (int i = 0; i < p->persistent_count; i++) {
        if (strcmp(p->values[p->persistent[i]].name, name) == 0) {
            return (val){ p->persistent[i] };
        }
    }
    return (val){ 0 };
}

/* "layers.0.qkv" in the forward pass, "layers.0.qkv.dx" while the derivative of layers.0.qkv is
 * written. */
static char *path_of(struct program *p, const char *name)
{
    if (p->prefix != NULL) {
        return arena_format(p->arena, "%s.%s", p->prefix, name);
    }
    if (p->segment < 0 || p->segments[p->segment].name[0] == 0) {
        return arena_text(p->arena, name);
    }
    return arena_format(p->arena, "%s.%s", p->segments[p->segment].name, name);
}

static val value_add(struct program *p, const struct value *v)
{
    p->values = grown(p->arena, p->values, p->value_count, &p->value_room, sizeof *p->values);
    p->values[p->value_count] = *v;
    return (val){ p->value_count++ };
}

val program_make(struct program *p, const char *name, const struct sketch *s, enum role role)
{
    struct value v = { .dtype = s->dtype, .role = role, .shape = s->shape, .place = s->place };

    memcpy(v.live, s->live, sizeof v.live);
    v.name = path_of(p, name);
    return value_add(p, &v);
}

static val persistent(struct program *p, const char *name, enum dtype dtype, struct shape shape,
                      struct place place, enum role role)
{
    struct value v = { .name = arena_text(p->arena, name),
                       .dtype = dtype,
                       .role = role,
                       .shape = shape,
                       .place = place };

    p->persistent = grown(p->arena, p->persistent, p->persistent_count, &p->persistent_room,
                          sizeof *p->persistent);
    p->persistent[p->persistent_count++] = p->value_count;
    return value_add(p, &v);
}

val program_input(struct program *p, const char *name, enum dtype dtype, struct shape shape,
                  struct place place)
{
    return persistent(p, arena_format(p->arena, "%s.%s", p->name, name), dtype, shape, place,
                      ROLE_INPUT);
}

val program_state(struct program *p, const char *name, enum dtype dtype, struct shape shape,
                  struct place place)
{
    return persistent(p, name, dtype, shape, place, ROLE_STATE);
}

val program_grad_state(struct program *p, const char *name, enum dtype dtype, struct shape shape,
                       struct place place)
{
    return persistent(p, name, dtype, shape, place, ROLE_GRAD);
}

val program_weight(struct program *p, const char *name, enum dtype dtype, struct shape shape,
                   struct place place, bool trains)
{
    val v = persistent(p, name, dtype, shape, place, ROLE_WEIGHT);

    value_of(p, v)->weight = true;
    value_of(p, v)->trains = trains;
    return v;
}

void program_keep(struct program *p, val v)
{
    value_of(p, v)->keep = true;
}

void program_live(struct program *p, val v, int dim, val count)
{
    value_of(p, v)->live[dim] = count;
}

void program_fail(struct program *p, status s, const char *name)
{
    if (p->failed != OK || s == OK) {
        return;
    }
    p->failed = s;
    p->failure = arena_format(p->arena, "%s: %s: %s", p->name, path_of(p, name), fail_text());
}

void program_append(struct program *p, struct node *n, const char *name)
{
    const struct op_def *def = op_table[n->op];
    struct sketch out[OP_OUT] = { { .dtype = DT_NONE } };
    bool trains = false;

    if (p->failed != OK) {
        return;
    }
    for (int i = 0; i < OP_IN; i++) {
        trains = trains || (n->in[i].id != 0 && value_of(p, n->in[i])->trains);
    }
    program_fail(p, def->rule(p, n, out), name);
    if (p->failed != OK) {
        return;
    }
    n->segment = p->segment;
    n->backward = p->in_backward;
    for (int i = 0; i < OP_OUT && out[i].dtype != DT_NONE; i++) {
        if (n->out[i].id == 0) {
            const char *own = i == 0 ? name : arena_format(p->arena, "%s.%d", name, i);

            n->out[i] = program_make(p, own, &out[i], def->alias ? ROLE_VIEW : ROLE_TEMP);
            value_of(p, n->out[i])->made_by = n->op;
        }
        if (def->alias) {
            value_of(p, n->out[i])->base = n->in[0];
            value_of(p, n->out[i])->offset = n->op == OP_VIEW ? n->arg.view.offset : 0;
        }
        value_of(p, n->out[i])->trains = trains && !p->in_backward && def->diff != NULL;
        value_of(p, n->out[i])->weight =
            (def->alias || n->op == OP_GATHER) && value_of(p, n->in[0])->weight;
    }
    p->nodes = grown(p->arena, p->nodes, p->node_count, &p->node_room, sizeof *p->nodes);
    p->nodes[p->node_count++] = *n;
}

const char *op_name(enum op op)
{
    return op == OP_NONE ? "none" : op_table[op]->name;
}

const char *op_math(enum op op)
{
    return op == OP_NONE ? "" : op_table[op]->math;
}

/* ---- questions of rules ---- */

status rule_misplaced(const struct program *p, val v, int axis, const char *want)
{
    const struct value *x = value_of(p, v);

    return fail(ERR_PLAN, "%s is %s over %s; %s", x->name, place_word(x->place.on[axis]),
                axis_name((enum axis)axis), want);
}

status rule_real(const struct program *p, val v)
{
    const struct value *x = value_of(p, v);

    if (v.id == 0) {
        return fail(ERR_PLAN, "an input is missing");
    }
    if (x->dtype != p->real) {
        return fail(ERR_PLAN, "%s is %s, not %s", x->name, dtype_name(x->dtype),
                    dtype_name(p->real));
    }
    return OK;
}

status rule_type(const struct program *p, val v, enum dtype t, int rank)
{
    const struct value *x = value_of(p, v);
    char shape[96];

    if (v.id == 0) {
        return fail(ERR_PLAN, "an input is missing");
    }
    if (x->dtype != t || x->shape.rank != rank) {
        return fail(ERR_PLAN, "%s is %s %s, not %s of %d dimensions", x->name, dtype_name(x->dtype),
                    shape_text(&x->shape, shape), dtype_name(t), rank);
    }
    return OK;
}

void sketch_like(const struct program *p, val v, struct sketch *out)
{
    const struct value *x = value_of(p, v);

    *out = (struct sketch){ .dtype = x->dtype, .shape = x->shape, .place = x->place };
    memcpy(out->live, x->live, sizeof out->live);
}

status rule_not_partial(const struct program *p, val v)
{
    FOR_AXES(p, a)
    {
        if (value_of(p, v)->place.on[a] == PARTIAL) {
            return rule_misplaced(p, v, a, "leave its group first");
        }
    }
    return OK;
}

status rule_same_place(const struct program *p, val a, val b)
{
    const struct value *x = value_of(p, a), *y = value_of(p, b);

    FOR_AXES(p, i)
    {
        if (x->place.on[i] != y->place.on[i]) {
            return fail(ERR_PLAN, "over %s %s is %s and %s is %s", axis_name((enum axis)i), x->name,
                        place_word(x->place.on[i]), y->name, place_word(y->place.on[i]));
        }
    }
    return OK;
}

status rule_rows_and_weight(const struct program *p, val x, val w, bool last, struct place *out)
{
    const struct value *a = value_of(p, x), *b = value_of(p, w);
    int8_t split_last = (int8_t)a->shape.rank;

    *out = a->place;
    FOR_AXES(p, i)
    {
        int8_t on = a->place.on[i], need;

        if (on == PARTIAL) {
            return rule_misplaced(p, x, i, "leave its group first");
        }
        if (on == split_last && !last) {
            return rule_misplaced(p, x, i, "rows must not be cut here");
        }
        need = on == split_last ? 1 : place_is_split(on) ? COPIES : on;
        if (b->place.on[i] != need) {
            return fail(ERR_PLAN, "over %s %s is %s, so %s must be %s, but it is %s",
                        axis_name((enum axis)i), a->name, place_word(on), b->name, place_word(need),
                        place_word(b->place.on[i]));
        }
    }
    return OK;
}

status rule_weight_gradient(const struct program *p, val dy, val dest, bool last)
{
    const struct value *a = value_of(p, dy), *b = value_of(p, dest);
    int8_t split_last = (int8_t)a->shape.rank;

    FOR_AXES(p, i)
    {
        int8_t on = a->place.on[i];
        int8_t sum = last && on == split_last ? 1 : place_is_split(on) ? PARTIAL : on;

        if (b->place.on[i] != sum) {
            return fail(ERR_PLAN, "over %s the gradient from %s is %s, but %s is %s",
                        axis_name((enum axis)i), a->name, place_word(sum), b->name,
                        place_word(b->place.on[i]));
        }
    }
    return OK;
}
