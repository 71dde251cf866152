/* Barriers against an oracle that looks at every pair of nodes. */
#include "program/hazard.h"
#include "program/op.h"
#include "support/tiny.h"

struct range {
    bool temporary, writes;
    int64_t from, to;
};

/* Written without the room's own list of touches. */
static int ranges_of(const struct program *p, const struct node *n, struct range *out)
{
    int count = 0;

    if (op_table[n->op]->run == NULL && !op_table[n->op]->collective) {
        return 0;
    }
    for (int k = 0; k < OP_IN + OP_OUT + 1; k++) {
        val v = k < OP_IN ? n->in[k] : k < OP_IN + OP_OUT ? n->out[k - OP_IN] : n->scratch;
        const struct value *x = program_value(p, v);
        bool writes = k >= OP_IN || (op_table[n->op]->adds & 1 << k) != 0;
        int64_t bytes = 0;

        if (v.id == 0) {
            continue;
        }
        bytes = (int64_t)dtype_bytes(x->dtype);
        for (int i = 0; i < x->shape.rank; i++) {
            bytes *= x->shape.d[i];
        }
        out[count++] = (struct range){ x->temporary, writes, x->at, x->at + bytes };
    }
    return count;
}

static bool clash(const struct program *p, int a, int b)
{
    struct range x[TOUCHES_MOST], y[TOUCHES_MOST];
    int m = ranges_of(p, &p->nodes[a], x), n = ranges_of(p, &p->nodes[b], y);

    for (int i = 0; i < m; i++) {
        for (int k = 0; k < n; k++) {
            if ((x[i].writes || y[k].writes) && x[i].temporary == y[k].temporary &&
                x[i].from < y[k].to && y[k].from < x[i].to) {
                return true;
            }
        }
    }
    return false;
}

/* Nodes that threads may be at together: none of them may touch what another changes. A message is
 * under way from its begin on, so it also counts at the node that it begins with. */
static int count_clashes(const struct program *p)
{
    int clashes = 0;

    for (int b = 0; b < p->node_count; b++) {
        for (int a = b - 1; a >= 0 && !p->nodes[a + 1].barrier; a--) {
            clashes += clash(p, a, b);
        }
        for (int a = p->nodes[b].begin - 1;
             op_table[p->nodes[b].op]->collective && a >= 0 && !p->nodes[a + 1].barrier; a--) {
            clashes += clash(p, a, b);
        }
    }
    return clashes;
}

/* No node before a message's begin, since the last barrier, may be at its bytes; none behind its end
 * may be, before the next one; and in between nobody changes them. */
static void messages_are_left_alone(const struct program *p)
{
    for (int j = 0; j < p->node_count; j++) {
        if (!op_table[p->nodes[j].op]->collective) {
            continue;
        }
        for (int i = p->nodes[j].begin; i < j; i++) {
            assert_false(clash(p, i, j));
        }
    }
}

static void check_program(const struct program *p)
{
    int barriers = 0;

    assert_int_equal(count_clashes(p), 0);
    messages_are_left_alone(p);
    for (int i = 0; i < p->node_count; i++) {
        barriers += p->nodes[i].barrier;
    }
    print_message("%s: %d nodes, %d barriers\n", p->name, p->node_count, barriers);
    assert_true(barriers > 0 && barriers < p->node_count * 3 / 4);
}

static void threads_meet_where_nodes_depend_on_each_other(void **state)
{
    static const struct tiny_options cases[] = {
        { .real = DT_F64, .B = 2, .S = 12, .layers = 3 },
        { .real = DT_BF16, .B = 2, .S = 12, .layers = 3, .tied = true },
        { .real = DT_F32, .B = 3, .S = 9, .layers = 2, .flags = MODEL_RECOMPUTE, .biases = true },
        { .real = DT_F32, .B = 2, .S = 12, .layers = 3, .size = { [AXIS_TP] = 2 } },
        { .real = DT_F32, .B = 2, .S = 12, .layers = 3, .size = { [AXIS_DS] = 4 } },
        { .real = DT_BF16,
          .B = 2,
          .S = 12,
          .layers = 3,
          .size = { [AXIS_DS] = 2, [AXIS_REPLICA] = 2, [AXIS_TP] = 2 },
          .flags = MODEL_REGATHER },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int prefetch = 0; prefetch < 2; prefetch++) {
            struct tiny t;

            tiny_write(&t, &cases[i]);
            t.p.prefetch = prefetch == 1;
            EXPECT_OK(tiny_plan(&t, 2));
            check_program(&t.p);
            residents_release(&t.residents);
            arena_release(&t.arena);
        }
    }
}

/* The oracle sees a barrier that is missing: each of them is needed by some pair. */
static void every_barrier_is_needed(void **state)
{
    struct tiny_options o = { .real = DT_F32, .B = 2, .S = 12, .layers = 2 };
    struct tiny t;
    int needed = 0, barriers = 0;

    (void)state;
    tiny_write(&t, &o);
    EXPECT_OK(tiny_plan(&t, 2));
    for (int i = 0; i < t.p.node_count; i++) {
        if (t.p.nodes[i].barrier) {
            t.p.nodes[i].barrier = false;
            barriers++;
            needed += count_clashes(&t.p) > 0;
            t.p.nodes[i].barrier = true;
        }
    }
    assert_int_equal(needed, barriers);
    residents_release(&t.residents);
    arena_release(&t.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_meet_where_nodes_depend_on_each_other),
        cmocka_unit_test(every_barrier_is_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
