/*
 * The memory plan: which nodes are needed, how long each value's bytes live, and where they lie.
 *
 * Persistent values have one place per name for all programs of a residents table. Temporaries
 * share one part: walking the nodes in order, each takes the lowest address that fits and gives it
 * back after its last use; an output may take over the bytes of an input that dies in the same
 * node, where the op's row says so. O(n log n) in the number of values.
 */
#include <string.h>

#include "program/hazard.h"
#include "program/messages.h"
#include "program/op.h"
#include "program/span.h"

enum { ALIGNMENT = 64 };

static int64_t rounded(int64_t bytes)
{
    return bytes == 0 ? ALIGNMENT : (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int64_t value_bytes(const struct value *v)
{
    return rounded(shape_count(&v->shape) * (int64_t)dtype_bytes(v->dtype));
}

static val root_of(const struct program *p, val v)
{
    while (value_of(p, v)->base.id != 0) {
        v = value_of(p, v)->base;
    }
    return v;
}

/* ---- nodes without use ---- */

static bool node_needed(const struct program *p, const struct node *n, const bool *used)
{
    if (op_table[n->op]->adds != 0) {
        return true;
    }
    for (int k = 0; k < OP_OUT; k++) {
        if (n->out[k].id != 0 && (used[n->out[k].id] || value_of(p, n->out[k])->keep)) {
            return true;
        }
    }
    return false;
}

static void drop_unused(struct program *p)
{
    bool *used = arena_take_array(p->arena, (size_t)p->value_count, sizeof *used);
    int kept = p->node_count;

    /* Needed nodes move to the end of the array as they are found, then back to its start. */
    for (int i = p->node_count - 1; i >= 0; i--) {
        if (node_needed(p, &p->nodes[i], used)) {
            for (int k = 0; k < OP_IN; k++) {
                used[p->nodes[i].in[k].id] = true;
            }
            p->nodes[--kept] = p->nodes[i];
        }
    }
    memmove(p->nodes, p->nodes + kept, (size_t)(p->node_count - kept) * sizeof *p->nodes);
    p->node_count -= kept;
}

/* ---- lifetimes ---- */

static void touch(struct program *p, val v, int from, int to)
{
    struct value *x;

    if (v.id == 0) {
        return;
    }
    x = value_of(p, root_of(p, v));
    if (x->role != ROLE_TEMP) {
        return;
    }
    if (from < x->first) {
        x->first = from;
    }
    if (to > x->last) {
        x->last = to;
    }
}

static void make_scratch(struct program *p, const struct kernels *kernels, int threads)
{
    for (int i = 0; i < p->node_count; i++) {
        struct node *n = &p->nodes[i];
        const struct op_def *def = op_table[n->op];
        size_t bytes = def->scratch == NULL ? 0 : def->scratch(p, n, kernels, threads);
        struct sketch s = { .dtype = DT_U8, .shape = shape_1((int64_t)bytes) };

        if (bytes > 0) {
            p->prefix = value_of(p, n->out[0].id != 0 ? n->out[0] : n->in[0])->name;
            n->scratch = program_make(p, "scratch", &s, ROLE_TEMP);
            p->prefix = NULL;
        }
    }
}

static void find_lifetimes(struct program *p)
{
    for (int i = 1; i < p->value_count; i++) {
        p->values[i].first = p->node_count;
        p->values[i].last = -1;
    }
    for (int i = 0; i < p->node_count; i++) {
        const struct node *n = &p->nodes[i];

        for (int k = 0; k < OP_IN; k++) {
            touch(p, n->in[k], n->begin, i);
        }
        for (int k = 0; k < OP_OUT; k++) {
            touch(p, n->out[k], n->begin, i);
        }
        touch(p, n->scratch, n->begin, i);
    }
    for (int i = 1; i < p->value_count; i++) {
        if (p->values[i].keep) {
            touch(p, (val){ i }, p->node_count, p->node_count);
        }
    }
}

/* ---- places of temporaries ---- */

struct placing {
    struct program *p;
    struct spans spans;
    int *dying;  /* per node, a list of values whose last use it is: the head ... */
    int *next;   /* ... and per value the next */
    bool *given; /* per value: its bytes were taken over */
    int64_t sum;
};

/* An output of node `i` takes over the bytes of an input that dies there; true if it did. A message
 * does so from its begin on: then nobody else may look at that input any more. */
static bool take_over(struct placing *w, const struct node *n, int i, val out)
{
    struct value *to = value_of(w->p, out);

    if (out.id != n->out[0].id) {
        return false;
    }
    for (int k = 0; k < OP_IN; k++) {
        val root;
        struct value *from;

        if ((op_table[n->op]->over >> k & 1) == 0 || n->in[k].id == 0) {
            continue;
        }
        root = root_of(w->p, n->in[k]);
        from = value_of(w->p, root);
        if (from->role == ROLE_TEMP && from->last == i && !w->given[root.id] &&
            (n->begin == i || n->alone) && value_bytes(from) == value_bytes(to) &&
            value_bytes(value_of(w->p, n->in[k])) == value_bytes(from)) {
            to->at = from->at;
            w->given[root.id] = true;
            return true;
        }
    }
    return false;
}

static void place_value(struct placing *w, const struct node *n, int i, val v)
{
    struct value *x = value_of(w->p, v);

    if (v.id == 0 || x->role != ROLE_TEMP || x->last < 0) {
        return;
    }
    x->temporary = true;
    w->sum += value_bytes(x);
    if (!take_over(w, n, i, v)) {
        x->at = spans_take(&w->spans, value_bytes(x));
    }
    if (x->last < w->p->node_count) {
        w->next[v.id] = w->dying[x->last];
        w->dying[x->last] = v.id;
    }
}

static void place_temporaries(struct program *p, struct memory_plan *out)
{
    struct arena work = { 0 };
    struct placing w = { .p = p };

    spans_init(&w.spans, &work);
    w.dying = arena_take_array(&work, (size_t)p->node_count + 1, sizeof *w.dying);
    w.next = arena_take_array(&work, (size_t)p->value_count, sizeof *w.next);
    w.given = arena_take_array(&work, (size_t)p->value_count, sizeof *w.given);
    for (int i = 0; i < p->node_count; i++) {
        for (int j = p->begins[i]; j != 0; j = p->begins_next[j - 1]) {
            const struct node *n = &p->nodes[j - 1];

            for (int k = 0; k < OP_OUT; k++) {
                place_value(&w, n, j - 1, n->out[k]);
            }
            place_value(&w, n, j - 1, n->scratch);
        }
        for (int v = w.dying[i]; v != 0; v = w.next[v]) {
            if (!w.given[v]) {
                spans_give(&w.spans, p->values[v].at, value_bytes(&p->values[v]));
            }
        }
    }
    out->temp_bytes = w.spans.top;
    out->temp_sum = w.sum;
    arena_release(&work);
}

/* ---- persistent values ---- */

void residents_init(struct residents *r, struct arena *arena)
{
    *r = (struct residents){ .arena = arena };
}

void residents_release(struct residents *r)
{
    map_release(&r->by_name);
}

struct resident {
    int64_t at, bytes;
};

static status settle(struct residents *r, struct value *v)
{
    int64_t bytes = value_bytes(v);
    void *found;
    struct resident *home;

    if (map_find(&r->by_name, v->name, &found)) {
        home = found;
        if (home->bytes != bytes) {
            return fail(ERR_PLAN, "%s has %lld bytes in one program and %lld in another", v->name,
                        (long long)home->bytes, (long long)bytes);
        }
    } else {
        home = arena_take(r->arena, sizeof *home);
        *home = (struct resident){ r->bytes, bytes };
        map_put(&r->by_name, arena_text(r->arena, v->name), home);
        r->bytes += bytes;
        r->by_role[v->role] += bytes;
    }
    v->at = home->at;
    v->temporary = false;
    return OK;
}

static void place_views(struct program *p)
{
    for (int i = 1; i < p->value_count; i++) {
        struct value *v = &p->values[i];
        int64_t at = 0;
        val root = { i };

        if (v->role != ROLE_VIEW) {
            continue;
        }
        while (value_of(p, root)->base.id != 0) {
            at += value_of(p, root)->offset * (int64_t)dtype_bytes(v->dtype);
            root = value_of(p, root)->base;
        }
        v->at = value_of(p, root)->at + at;
        v->temporary = value_of(p, root)->temporary;
    }
}

status program_plan(struct program *p, struct residents *r, const struct kernels *kernels,
                    int threads, struct memory_plan *out)
{
    TRY(program_verify(p));
    drop_unused(p);
    place_messages(p);
    make_scratch(p, kernels, threads);
    find_lifetimes(p);
    for (int i = 1; i < p->value_count; i++) {
        if (p->values[i].role != ROLE_TEMP && p->values[i].role != ROLE_VIEW) {
            TRY(settle(r, &p->values[i]));
        }
    }
    place_temporaries(p, out);
    place_views(p);
    p->tickets = arena_take_array(p->arena, (size_t)p->node_count, sizeof *p->tickets);
    out->barriers = place_barriers(p);
    out->nodes = p->node_count;
    out->values = p->value_count - 1;
    if (out->temp_bytes > r->temp_bytes) {
        r->temp_bytes = out->temp_bytes;
    }
    return OK;
}
