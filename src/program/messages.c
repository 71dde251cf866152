/*
 * Messages travel while others compute: begin early, wait late.
 *
 * Early. A sum begins as soon as its input is complete: behind the last node that writes it. The
 * gather of a persistent weight could begin at any time, since weights change only in `update`: with
 * the first node of the segment before its own, where prefetching is asked for.
 *
 * Late. A node is where its message is waited for. Most have their reader right behind them. But
 * nobody reads the gradient of a weight before `update`: its collectives, and the node that adds
 * their result to it, may wait until the next segment of the backward pass is through.
 *
 *   segment 1, backward | segment 0, backward         | end
 *   ... last dw of 1    | (1 is being scattered) wait | (1 is being summed over the replicas) wait, add
 *                       | ... last dw of 0            | (0 is being scattered) wait, sum, wait, add
 *
 * Both cost the memory of what is under way for that long.
 */
#include "program/messages.h"

#include <string.h>

#include "program/op.h"

struct order {
    struct program *p;
    int *group; /* [nodes] number of the segment's part of the pass that a node stands in */
    bool *tail; /* [nodes] a node between a weight's gradient and where it is added up */
    int *due;   /* [nodes] the group behind which a node of the tail comes; -1: where it stands */
    int *
        waiting; /* [values] `due` of what makes, or last added to, the value; -1: nothing is put off */
};

static val root_of(const struct program *p, val v)
{
    while (value_of(p, v)->base.id != 0) {
        v = value_of(p, v)->base;
    }
    return v;
}

static bool same_part(const struct node *a, const struct node *b)
{
    return a->segment == b->segment && a->backward == b->backward;
}

static bool works(const struct node *n)
{
    return op_table[n->op]->run != NULL || op_table[n->op]->collective;
}

static bool writes_input(const struct node *n, int k)
{
    return (op_table[n->op]->adds >> k & 1) != 0;
}

/* ---- what may be put off ---- */

/* What the nodes behind the one that is looked at do to a value. */
struct later {
    bool *used;    /* [values] touched by a node that is not of the tail */
    bool *written; /* [values] changed by any node */
    bool *shared;  /* [values] anywhere in the list something else than an accumulate touches it */
};

static void note_shared(const struct program *p, struct later *l)
{
    for (int i = 0; i < p->node_count; i++) {
        const struct node *n = &p->nodes[i];

        for (int k = 0; k < OP_IN && works(n); k++) {
            l->shared[root_of(p, n->in[k]).id] |= n->op != OP_ACCUMULATE || k != 0;
        }
    }
}

static bool is_tail(const struct program *p, const struct node *n, const struct later *l)
{
    val to;

    if (!n->backward) {
        return false;
    }
    if (n->op == OP_ACCUMULATE) {
        to = root_of(p, n->in[0]);
        return value_of(p, to)->role == ROLE_GRAD && !l->shared[to.id] &&
               !l->written[root_of(p, n->in[1]).id];
    }
    to = n->out[0];
    return op_table[n->op]->collective && !value_of(p, to)->keep && !l->used[to.id] &&
           !l->written[root_of(p, n->in[0]).id];
}

static void note_later(const struct program *p, const struct node *n, bool tail, struct later *l)
{
    for (int k = 0; k < OP_IN; k++) {
        int v = root_of(p, n->in[k]).id;

        l->used[v] |= !tail;
        l->written[v] |= writes_input(n, k) && value_of(p, (val){ v })->role != ROLE_GRAD;
    }
}

static void find_tail(struct order *o, struct arena *a)
{
    const struct program *p = o->p;
    struct later l = { .used = arena_take_array(a, (size_t)p->value_count, 1),
                       .written = arena_take_array(a, (size_t)p->value_count, 1),
                       .shared = arena_take_array(a, (size_t)p->value_count, 1) };

    note_shared(p, &l);
    for (int i = p->node_count - 1; i >= 0; i--) {
        if (works(&p->nodes[i])) {
            o->tail[i] = is_tail(p, &p->nodes[i], &l);
            note_later(p, &p->nodes[i], o->tail[i], &l);
        }
    }
}

/* ---- until when ---- */

static int later_of(int a, int b)
{
    return a > b ? a : b;
}

/* A message that begins in one group is waited for behind the next; what is added comes with what
 * it adds, and behind what is added to the same gradient before. */
static void find_due(struct order *o)
{
    const struct program *p = o->p;

    for (int i = 0; i < p->node_count; i++) {
        const struct node *n = &p->nodes[i];
        int from, to;

        o->due[i] = -1;
        if (!o->tail[i]) {
            continue;
        }
        if (n->op != OP_ACCUMULATE) {
            from = o->waiting[root_of(p, n->in[0]).id];
            o->due[i] = (from < 0 ? o->group[i] : from) + 1;
            o->waiting[n->out[0].id] = o->due[i];
            continue;
        }
        from = o->waiting[root_of(p, n->in[1]).id];
        to = o->waiting[root_of(p, n->in[0]).id];
        if (later_of(from, to) >= o->group[i]) {
            o->due[i] = later_of(from, to);
            o->waiting[root_of(p, n->in[0]).id] = o->due[i];
        }
    }
}

/* ---- the new order ---- */

/* Nodes that were put off, as lists by the group they come behind. */
struct put_off {
    int *first, *last, *next; /* [groups + 1], [groups + 1], [nodes]; index + 1, 0 = end */
};

static void put_off(struct put_off *l, int i, int group)
{
    if (l->first[group] == 0) {
        l->first[group] = i + 1;
    } else {
        l->next[l->last[group] - 1] = i + 1;
    }
    l->last[group] = i + 1;
}

static int take_back(const struct put_off *l, int group, const struct node *from, struct node *to)
{
    int count = 0;

    for (int j = l->first[group]; j != 0; j = l->next[j - 1]) {
        to[count++] = from[j - 1];
    }
    return count;
}

static void reorder(struct order *o, int groups, struct arena *a)
{
    struct program *p = o->p;
    struct node *old = arena_take_array(a, (size_t)p->node_count + 1, sizeof *old);
    struct put_off l = { .first = arena_take_array(a, (size_t)groups + 1, sizeof(int)),
                         .last = arena_take_array(a, (size_t)groups + 1, sizeof(int)),
                         .next = arena_take_array(a, (size_t)p->node_count + 1, sizeof(int)) };
    int count = 0;

    memcpy(old, p->nodes, (size_t)p->node_count * sizeof *old);
    for (int i = 0; i < p->node_count; i++) {
        if (o->due[i] >= 0) {
            put_off(&l, i, o->due[i] < groups ? o->due[i] : groups);
        }
    }
    for (int i = 0; i < p->node_count; i++) {
        if (i > 0 && o->group[i] != o->group[i - 1]) {
            count += take_back(&l, o->group[i - 1], old, p->nodes + count);
        }
        if (o->due[i] < 0) {
            p->nodes[count++] = old[i];
        }
    }
    count += take_back(&l, groups - 1, old, p->nodes + count);
    count += take_back(&l, groups, old, p->nodes + count);
    check(count == p->node_count, "%s: %d of %d nodes are left", p->name, count, p->node_count);
}

static void put_off_gradients(struct program *p, struct arena *a)
{
    size_t nodes = (size_t)p->node_count + 1, values = (size_t)p->value_count;
    struct order o = { .p = p,
                       .group = arena_take_array(a, nodes, sizeof(int)),
                       .tail = arena_take_array(a, nodes, sizeof(bool)),
                       .due = arena_take_array(a, nodes, sizeof(int)),
                       .waiting = arena_take_array(a, values, sizeof(int)) };
    int groups = 0;

    for (int i = 0; i < p->node_count; i++) {
        groups += i == 0 || !same_part(&p->nodes[i], &p->nodes[i - 1]);
        o.group[i] = groups - 1;
    }
    for (size_t v = 0; v < values; v++) {
        o.waiting[v] = -1;
    }
    find_tail(&o, a);
    find_due(&o);
    if (groups > 0) {
        reorder(&o, groups, a);
    }
}

/* ---- where messages begin ---- */

/* What is known of values while the list is walked. */
struct seen {
    int *written, *touched; /* [values] behind the last node that changed, or read, the value */
};

static void see(const struct program *p, int i, struct seen *s)
{
    const struct node *n = &p->nodes[i];

    for (int k = 0; k < OP_IN; k++) {
        int v = root_of(p, n->in[k]).id;

        s->touched[v] = i + 1;
        s->written[v] = writes_input(n, k) ? i + 1 : s->written[v];
    }
    for (int k = 0; k < OP_OUT; k++) {
        s->touched[n->out[k].id] = s->written[n->out[k].id] = i + 1;
    }
}

/* Views stand there for the reader only: a message that would begin with one begins with itself. */
static int begin_of(const struct program *p, int i, int complete)
{
    for (int k = complete; k < i; k++) {
        if (works(&p->nodes[k])) {
            return k;
        }
    }
    return i;
}

static void begin_early(struct program *p, int i, int before, const struct seen *s)
{
    struct node *n = &p->nodes[i];
    val in = root_of(p, n->in[0]);

    n->begin = i;
    if (!op_table[n->op]->collective) {
        return;
    }
    if (value_of(p, in)->role == ROLE_WEIGHT) {
        n->begin = p->prefetch && n->op == OP_GATHER ? before : i;
    } else if (value_of(p, in)->role == ROLE_TEMP) {
        n->begin = begin_of(p, i, s->written[in.id]);
    }
    n->alone = s->touched[in.id] <= n->begin;
}

static void find_begins(struct program *p, struct arena *a)
{
    struct seen s = { .written = arena_take_array(a, (size_t)p->value_count, sizeof(int)),
                      .touched = arena_take_array(a, (size_t)p->value_count, sizeof(int)) };
    int here = 0, before = 0;

    for (int i = 0; i < p->node_count; i++) {
        bool put_off = op_table[p->nodes[i].op]->collective || p->nodes[i].op == OP_ACCUMULATE;

        /* What was put off stands among the nodes of another segment, and begins none. */
        if (!same_part(&p->nodes[i], &p->nodes[here]) &&
            (!put_off || p->nodes[i].op == OP_GATHER)) {
            before = here;
            here = i;
        }
        begin_early(p, i, before, &s);
        if (works(&p->nodes[i])) {
            see(p, i, &s);
        }
    }
}

void place_messages(struct program *p)
{
    struct arena work = { 0 };

    if (p->prefetch) {
        put_off_gradients(p, &work);
    }
    find_begins(p, &work);
    p->begins = arena_take_array(p->arena, (size_t)p->node_count + 1, sizeof *p->begins);
    p->begins_next = arena_take_array(p->arena, (size_t)p->node_count + 1, sizeof *p->begins_next);
    for (int i = p->node_count - 1; i >= 0; i--) {
        p->begins_next[i] = p->begins[p->nodes[i].begin];
        p->begins[p->nodes[i].begin] = i + 1;
    }
    arena_release(&work);
}
