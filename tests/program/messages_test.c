/* When messages begin and are waited for, in programs of every kind of mesh. */
#include "program/op.h"
#include "support/tiny.h"

static const struct tiny_options cases[] = {
    { .real = DT_F32, .B = 2, .S = 12, .layers = 4, .size = { [AXIS_DS] = 4 } },
    { .real = DT_F32, .B = 2, .S = 12, .layers = 3, .tied = true, .size = { [AXIS_REPLICA] = 2 } },
    { .real = DT_BF16,
      .B = 2,
      .S = 12,
      .layers = 3,
      .tied = true,
      .size = { [AXIS_DS] = 2, [AXIS_REPLICA] = 2 },
      .flags = MODEL_REGATHER },
    { .real = DT_F32, .B = 2, .S = 12, .layers = 3, .size = { [AXIS_TP] = 2 } },
    { .real = DT_F64,
      .B = 2,
      .S = 12,
      .layers = 2,
      .size = { [AXIS_TP] = 2, [AXIS_DS] = 2, [AXIS_REPLICA] = 2 },
      .flags = MODEL_RECOMPUTE },
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void plan(struct tiny *t, const struct tiny_options *o, bool prefetch)
{
    tiny_write(t, o);
    t->p.prefetch = prefetch;
    EXPECT_OK(tiny_plan(t, 2));
}

static void release(struct tiny *t)
{
    residents_release(&t->residents);
    arena_release(&t->arena);
}

static int root(const struct program *p, val v)
{
    while (program_value(p, v)->base.id != 0) {
        v = program_value(p, v)->base;
    }
    return v.id;
}

static bool works(const struct node *n)
{
    return op_table[n->op]->run != NULL || op_table[n->op]->collective;
}

static bool reads(const struct program *p, const struct node *n, int v)
{
    for (int k = 0; k < OP_IN && works(n); k++) {
        if (n->in[k].id != 0 && root(p, n->in[k]) == v) {
            return true;
        }
    }
    return false;
}

static bool writes(const struct program *p, const struct node *n, int v)
{
    for (int k = 0; k < OP_OUT && works(n); k++) {
        if (n->out[k].id == v) {
            return true;
        }
    }
    for (int k = 0; k < OP_IN && works(n); k++) {
        if ((op_table[n->op]->adds >> k & 1) != 0 && root(p, n->in[k]) == v) {
            return true;
        }
    }
    return false;
}

/* Nodes that compute something while message `j` travels. */
static int companions(const struct program *p, int j)
{
    int count = 0;

    for (int i = p->nodes[j].begin; i < j; i++) {
        count += works(&p->nodes[i]) && !op_table[p->nodes[i].op]->collective;
    }
    return count;
}

/* Its input is whole when it begins and stays as it is; its output is not looked at before. */
static void check_message(const struct program *p, int j)
{
    const struct node *n = &p->nodes[j];
    int in = root(p, n->in[0]);
    bool complete = program_value(p, (val){ in })->role == ROLE_WEIGHT;

    assert_true(n->begin >= 0 && n->begin <= j);
    for (int i = 0; i < p->node_count; i++) {
        bool before = i < n->begin;

        complete = complete || (before && writes(p, &p->nodes[i], in));
        if (!before && i < j) {
            assert_false(writes(p, &p->nodes[i], in));
        }
        assert_true(i > j || !reads(p, &p->nodes[i], n->out[0].id));
        assert_true(i == j || !writes(p, &p->nodes[i], n->out[0].id));
    }
    assert_true(complete);
    for (int k = 0; k < OP_OUT; k++) {
        assert_true(n->out[k].id == 0 || program_value(p, n->out[k])->first == n->begin);
    }
    assert_true(n->scratch.id == 0 || (program_value(p, n->scratch)->first == n->begin &&
                                       program_value(p, n->scratch)->last >= j));
}

static void messages_have_their_bytes_to_themselves(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        for (int prefetch = 0; prefetch < 2; prefetch++) {
            struct tiny t;
            int messages = 0;

            plan(&t, &cases[i], prefetch == 1);
            for (int j = 0; j < t.p.node_count; j++) {
                if (op_table[t.p.nodes[j].op]->collective) {
                    check_message(&t.p, j);
                    messages++;
                }
            }
            assert_true(messages > 0);
            release(&t);
        }
    }
}

/* Sums of weights' gradients travel while another segment computes; those of the last two segments
 * have less or nothing beside them. */
static void gradients_travel_beside_the_next_segment(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct tiny t;
        int alone = 0, beside = 0;

        plan(&t, &cases[i], true);
        for (int j = 0; j < t.p.node_count; j++) {
            const struct node *n = &t.p.nodes[j];

            if (n->backward && (n->op == OP_LEAVE || n->op == OP_SCATTER) &&
                (n->arg.move.over & AXES_TP) == 0) {
                alone += companions(&t.p, j) == 0;
                beside += companions(&t.p, j) > 5;
            }
        }
        if (cases[i].size[AXIS_DS] > 1 || cases[i].size[AXIS_REPLICA] > 1) {
            assert_true(alone <= 3);
            assert_true(beside >= cases[i].layers - 1);
        }
        release(&t);
    }
}

/* Each gradient gets what is added to it in the order in which it was written down. */
static void gradients_are_added_in_the_same_order(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct tiny early, late;
        int at = 0, added = 0;

        plan(&early, &cases[i], false);
        plan(&late, &cases[i], true);
        assert_int_equal(early.p.node_count, late.p.node_count);
        for (int v = 1; v < early.p.value_count; v++) {
            at = 0;
            for (int j = 0; j < early.p.node_count; j++) {
                const struct node *n = &early.p.nodes[j];

                if (n->op != OP_ACCUMULATE || root(&early.p, n->in[0]) != v) {
                    continue;
                }
                while (late.p.nodes[at].op != OP_ACCUMULATE ||
                       root(&late.p, late.p.nodes[at].in[0]) != v) {
                    at++;
                    assert_true(at < late.p.node_count);
                }
                assert_int_equal(late.p.nodes[at].in[1].id, n->in[1].id);
                at++;
                added++;
            }
        }
        assert_true(added > 0 || cases[i].size[AXIS_TP] > 1);
        release(&early);
        release(&late);
    }
}

/* A sum over TP begins before the product that does not need it, and takes its input's bytes. */
static void sums_of_activations_begin_early_in_place(void **state)
{
    struct tiny t;
    int early = 0;

    (void)state;
    plan(&t, &cases[3], false);
    for (int j = 0; j < t.p.node_count; j++) {
        const struct node *n = &t.p.nodes[j];

        if (n->op == OP_LEAVE && n->backward) {
            early += companions(&t.p, j) > 0;
            assert_true(program_value(&t.p, n->in[0])->at == program_value(&t.p, n->out[0])->at);
        }
    }
    assert_true(early >= 2 * (int)cases[3].layers);
    release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_have_their_bytes_to_themselves),
        cmocka_unit_test(gradients_travel_beside_the_next_segment),
        cmocka_unit_test(gradients_are_added_in_the_same_order),
        cmocka_unit_test(sums_of_activations_begin_early_in_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
