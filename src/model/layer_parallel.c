#include "model/layer.h"

#include "base/file.h"

static bool longer(const struct program *p, axes over)
{
    return mesh_length(p->mesh, over) > 1;
}

bool layer_weights_direct(const struct program *p)
{
    return !longer(p, AXES_SHARD) && !longer(p, AXES_SPREAD);
}

static struct place flat_place(const struct program *p)
{
    struct place at = place_on(p->mesh, (struct place){ { 0 } }, AXES_SHARD, 1);

    return place_on(p->mesh, at, AXES_TP, MIXED);
}

struct weight_use layer_weights(struct program *p, const struct model *m, int segment, bool trains)
{
    const struct weight_segment *g = &m->weights->segments[segment];
    const char *name = arena_format(p->arena, "weight.%s", g->name);
    struct weight_use u = { g, program_find(p, name) };

    if (u.flat.id == 0) {
        u.flat = program_weight(p, name, p->real, shape_1(g->shard_blocks * WEIGHT_BLOCK),
                                flat_place(p), trains);
    }
    if (longer(p, AXES_SPREAD)) {
        u.flat = op_enter(p, AXES_SPREAD, u.flat);
    }
    if (longer(p, AXES_SHARD)) {
        u.flat = op_gather(p, AXES_SHARD, 0, true, u.flat);
    }
    return u;
}

const struct weight_part *segment_part(const struct weight_segment *g, enum part_kind kind)
{
    for (int i = 0; i < g->count; i++) {
        if (g->parts[i].kind == kind) {
            return &g->parts[i];
        }
    }
    return NULL;
}

/* "q_proj.weight" of "model.layers.0.self_attn.q_proj.weight": what names the part within its
 * segment. */
static const char *short_name(const struct weight_part *q)
{
    const char *name = path_name(q->name), *last = name, *before = name;

    for (const char *c = name; *c != 0; c++) {
        if (*c == '.') {
            before = last;
            last = c + 1;
        }
    }
    return before;
}

val layer_part(struct program *p, const struct weight_use *u, enum part_kind kind)
{
    const struct weight_part *q = segment_part(u->segment, kind);

    if (q == NULL) {
        return (val){ 0 };
    }
    return op_view(p, short_name(q), u->flat, q->at,
                   q->rank == 2 ? shape_2(q->local[0], q->local[1]) : shape_1(q->local[0]), q->tp);
}

val layer_enter(struct program *p, axes over, val x)
{
    return longer(p, over) ? op_enter(p, over, x) : x;
}

val layer_leave(struct program *p, axes over, val x)
{
    return longer(p, over) ? op_leave(p, over, x) : x;
}
