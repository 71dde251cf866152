/*
 * Running: one parallel region around the node list, which all threads walk. Each computes its
 * share of a node; they meet where the plan says so (hazard.c). Messages are begun and awaited by
 * thread 0, the one that opened the communicators.
 *
 * A message that fails ends the walk, for all threads at the same barrier: thread 0 names the next
 * one it comes to before it waits there, and whoever has passed that one stops.
 */
#include <limits.h>
#include <math.h>
#include <omp.h>

#include "base/clock.h"
#include "program/op.h"
#include "program/watch.h"

void *call_bytes(const struct call *c, val v)
{
    const struct value *x = value_of(c->p, v);

    return v.id == 0 ? NULL : c->d->memory + (x->temporary ? c->d->state_bytes : 0) + x->at;
}

int64_t call_extent(const struct call *c, val v, int dim)
{
    const struct value *x = value_of(c->p, v);

    return x->live[dim].id == 0 ? x->shape.d[dim] : *(const int64_t *)call_bytes(c, x->live[dim]);
}

int64_t call_rows(const struct call *c, val v)
{
    int64_t rows = 1;

    for (int i = 0; i + 1 < value_of(c->p, v)->shape.rank; i++) {
        rows *= call_extent(c, v, i);
    }
    return rows;
}

void call_barrier(const struct call *c)
{
    if (c->team.threads > 1) {
        meeting_wait(c->meeting, c->team.threads, c->d->looks);
    }
}

/* ---- messages ---- */

static void collective_begin(const struct call *c, struct ticket *t)
{
    const struct value *x = value_of(c->p, c->n->in[0]);
    struct collective what = { .dtype = x->dtype,
                               .n = shape_count(&x->shape),
                               .in = call_bytes(c, c->n->in[0]),
                               .out = call_bytes(c, c->n->out[0]),
                               .scratch = call_bytes(c, c->n->scratch) };

    what.kind = c->n->op == OP_LEAVE    ? COMM_ALL_REDUCE
                : c->n->op == OP_GATHER ? COMM_GATHER
                                        : COMM_REDUCE_SCATTER;
    if (what.kind == COMM_REDUCE_SCATTER) {
        what.n /= mesh_length(c->p->mesh, c->n->arg.move.over);
    }
    atomic_store(c->failed, (int)comm_begin(mesh_comm(c->p->mesh, c->n->arg.move.over), &what, t));
}

static void collective_wait(const struct call *c, struct ticket *t)
{
    if (atomic_load(c->failed) == OK) {
        atomic_store(c->failed, (int)comm_wait(mesh_comm(c->p->mesh, c->n->arg.move.over), t));
    }
}

/* ---- the search for NaN ---- */

static bool bytes_finite(const struct call *c, val v)
{
    const struct value *x = value_of(c->p, v);
    int64_t count = 1;

    for (int i = 0; i < x->shape.rank; i++) {
        count *= call_extent(c, v, i);
    }
    if (x->dtype == DT_F32) {
        const float *at = call_bytes(c, v);

        for (int64_t i = 0; i < count; i++) {
            if (!isfinite(at[i])) {
                return false;
            }
        }
    } else if (x->dtype == DT_BF16) {
        const uint16_t *at = call_bytes(c, v);

        for (int64_t i = 0; i < count; i++) {
            if ((at[i] & 0x7f80) == 0x7f80) { /* all ones in the exponent */
                return false;
            }
        }
    } else if (x->dtype == DT_F64) {
        const double *at = call_bytes(c, v);

        for (int64_t i = 0; i < count; i++) {
            if (!isfinite(at[i])) {
                return false;
            }
        }
    }
    return true;
}

static const char *node_bad(const struct call *c)
{
    for (int k = 0; k < OP_OUT; k++) {
        if (c->n->out[k].id != 0 && !bytes_finite(c, c->n->out[k])) {
            return value_of(c->p, c->n->out[k])->name;
        }
    }
    for (int k = 0; k < OP_IN; k++) {
        if ((op_table[c->n->op]->adds >> k & 1) != 0 && !bytes_finite(c, c->n->in[k])) {
            return value_of(c->p, c->n->in[k])->name;
        }
    }
    return NULL;
}

/* ---- the walk ---- */

/* Messages whose time has come, those of later nodes included. */
static void begin_messages(const struct call *c, int node)
{
    for (int j = c->p->begins[node]; j != 0 && atomic_load(c->failed) == OK;
         j = c->p->begins_next[j - 1]) {
        struct call begun = *c;

        begun.n = &c->p->nodes[j - 1];
        if (op_table[begun.n->op]->collective) {
            collective_begin(&begun, &c->p->tickets[j - 1]);
        }
    }
}

static void node_run(struct call *c, int node)
{
    const struct op_def *def = op_table[c->n->op];

    if (c->team.thread == 0) {
        begin_messages(c, node);
    }
    if (def->collective) {
        if (c->team.thread == 0) {
            collective_wait(c, &c->p->tickets[node]);
        }
    } else if (def->run != NULL) {
        def->run(c);
    }
}

/* What all threads of a run share. */
struct shared {
    _Atomic int failed;    /* status of a message; set by thread 0 */
    _Atomic int failed_at; /* the barrier at which the walk ends, by number */
    struct meeting meeting;
};

/* False: the walk ends here. */
static bool meet(const struct call *c, struct shared *s, int *met)
{
    if (c->team.thread == 0 && atomic_load(&s->failed) != OK) {
        int never = INT_MAX;

        atomic_compare_exchange_strong(&s->failed_at, &never, *met);
    }
    call_barrier(c);
    return atomic_load(&s->failed_at) > (*met)++;
}

/* With every node whole and no thread ahead. */
static bool look_for_bad(struct call *c, const struct run_options *o, struct shared *s, int *met)
{
    if (!meet(c, s, met)) {
        return false;
    }
    if (c->team.thread == 0 && *o->bad_value == NULL) {
        *o->bad_value = node_bad(c);
    }
    return meet(c, s, met);
}

/* One thread's way of noting times; `watch` is NULL where nobody asked. */
struct timing {
    struct watch *watch;
    int program, last; /* `last`: the node that `begin` belongs to; -1: none yet */
    double begin;
};

static void timing_next(struct timing *t, const struct call *c, int node)
{
    double now = clock_seconds();

    if (c->team.thread == 0 && t->last >= 0) {
        t->watch->seconds[t->program][t->last] += now - t->begin;
    }
    t->last = node;
    t->begin = now;
}

static void timing_end(const struct timing *t, const struct call *c, int node)
{
    const struct op_def *def = op_table[c->n->op];

    if (def->run != NULL || def->collective) {
        watch_note(t->watch, t->program, node, c->team.thread, t->begin, clock_seconds());
    }
}

/* Messages that a walk has begun must come to their end, also where it stops before their node. */
static void finish_messages(const struct call *c, int nodes)
{
    for (int j = nodes; j < c->p->node_count && c->team.thread == 0; j++) {
        struct call begun = *c;

        begun.n = &c->p->nodes[j];
        if (begun.n->begin < nodes && op_table[begun.n->op]->collective) {
            collective_wait(&begun, &c->p->tickets[j]);
        }
    }
}

static bool walk_nodes(struct call *c, const struct run_options *o, struct timing *t,
                       struct shared *s)
{
    int nodes = o->until > 0 && o->until < c->p->node_count ? o->until : c->p->node_count;
    int met = 0;

    for (int i = 0; i < nodes; i++) {
        c->n = &c->p->nodes[i];
        if (c->n->barrier && !meet(c, s, &met)) {
            return false;
        }
        if (t->watch != NULL) {
            timing_next(t, c, i);
        }
        node_run(c, i);
        if (t->watch != NULL) {
            timing_end(t, c, i);
        }
        if (o->test_finite && !look_for_bad(c, o, s, &met)) {
            return false;
        }
    }
    finish_messages(c, nodes);
    return true;
}

/* Proofs in double keep every bit; programs of floats do not spend time on numbers near zero. */
static unsigned numbers_begin(const struct program *p)
{
    return p->real == DT_F64 ? 0 : thread_tiny_off();
}

static void numbers_end(const struct program *p, unsigned before)
{
    if (p->real != DT_F64) {
        thread_tiny_restore(before);
    }
}

static void walk(const struct program *p, struct device *d, const struct run_options *options,
                 struct team team, struct shared *s)
{
    static const struct run_options nothing = { 0 };
    const struct run_options *o = options == NULL ? &nothing : options;
    struct call c = { .p = p, .d = d, .team = team, .failed = &s->failed, .meeting = &s->meeting };
    unsigned tiny = numbers_begin(p);
    struct timing t = { .watch = o->watch, .last = -1 };

    if (t.watch != NULL) {
        t.program = watch_index(t.watch, p);
        t.watch = t.program < 0 ? NULL : t.watch;
    }
    if (walk_nodes(&c, o, &t, s) && t.watch != NULL) {
        call_barrier(&c); /* the last node ends when all threads are through */
        timing_next(&t, &c, -1);
        if (team.thread == 0) {
            t.watch->runs[t.program]++;
        }
    }
    numbers_end(p, tiny);
}

status program_run(const struct program *p, struct device *d, const struct run_options *options)
{
    struct shared s = { .failed = OK, .failed_at = INT_MAX };

    /* For a team of one the OpenMP runtime would take memory anew each time. */
    if (d->threads == 1) {
        walk(p, d, options, (struct team){ 0, 1 }, &s);
        return (status)atomic_load(&s.failed);
    }
#pragma omp parallel num_threads(d->threads)
    {
        walk(p, d, options, (struct team){ omp_get_thread_num(), omp_get_num_threads() }, &s);
    }
    return (status)atomic_load(&s.failed);
}

status program_run_node(const struct program *p, struct device *d, int node)
{
    struct shared s = { .failed = OK };

#pragma omp parallel num_threads(d->threads)
    {
        struct call c = { .p = p,
                          .n = &p->nodes[node],
                          .d = d,
                          .team = { omp_get_thread_num(), omp_get_num_threads() },
                          .failed = &s.failed,
                          .meeting = &s.meeting };
        unsigned tiny = numbers_begin(p);

        node_run(&c, node);
        numbers_end(p, tiny);
    }
    return (status)atomic_load(&s.failed);
}
