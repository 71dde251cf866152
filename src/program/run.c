/*
 * Running: one parallel region around the node list, which all threads walk. Each computes its
 * share of a node; a barrier closes every node that wrote something. Messages are begun and awaited
 * by thread 0, the one that opened the communicators.
 */
#include <math.h>
#include <omp.h>

#include "program/op.h"

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
#pragma omp barrier
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
    if (def->collective || def->run != NULL) {
        call_barrier(c);
    }
}

static void walk(const struct program *p, struct device *d, const struct run_options *o,
                 struct team team, _Atomic int *failed)
{
    struct call c = { .p = p, .d = d, .team = team, .failed = failed };

    for (int i = 0; i < p->node_count && atomic_load(failed) == OK; i++) {
        c.n = &p->nodes[i];
        node_run(&c, i);
        if (o != NULL && o->test_finite && team.thread == 0 && *o->bad_value == NULL) {
            *o->bad_value = node_bad(&c);
        }
        if (o != NULL && o->test_finite) {
            call_barrier(&c);
        }
    }
}

status program_run(const struct program *p, struct device *d, const struct run_options *options)
{
    _Atomic int failed = OK;

#pragma omp parallel num_threads(d->threads)
    {
        walk(p, d, options, (struct team){ omp_get_thread_num(), omp_get_num_threads() }, &failed);
    }
    return (status)atomic_load(&failed);
}
