/*
 * A forgotten collective is refused while planning.
 *
 * For every enter, leave, gather and scatter of a program, forward and derivative, the uses of its
 * output are replaced by its input, with places and shapes as they are. No such program may pass
 * the plan, and the text must name a value's path. Before the backward pass is written as well as
 * in the finished program.
 */
#include "program/op.h"
#include "support/tiny.h"

static bool is_move(enum op op)
{
    return op == OP_ENTER || op == OP_LEAVE || op == OP_GATHER || op == OP_SCATTER;
}

static int count_moves(const struct program *p)
{
    int n = 0;

    for (int i = 0; i < p->node_count; i++) {
        n += is_move(p->nodes[i].op);
    }
    return n;
}

/* Replaces the output of the `which`-th move by its input, wherever it is read. */
static const char *mutate(struct program *p, int which)
{
    const struct node *move = NULL;

    for (int i = 0; i < p->node_count && move == NULL; i++) {
        if (is_move(p->nodes[i].op) && which-- == 0) {
            move = &p->nodes[i];
        }
    }
    assert_non_null(move);
    for (int i = 0; i < p->node_count; i++) {
        for (int k = 0; k < OP_IN; k++) {
            if (p->nodes[i].in[k].id == move->out[0].id) {
                p->nodes[i].in[k] = move->in[0];
            }
        }
    }
    for (int i = 1; i < p->value_count; i++) {
        if (p->values[i].base.id == move->out[0].id) {
            p->values[i].base = move->in[0];
        }
    }
    return program_value(p, move->out[0])->name;
}

/* The refusal must speak of a value by its path: a segment's name and a dot. */
static void expect_refused(struct tiny *t, status s, const char *what)
{
    bool named = strstr(fail_text(), "layers.") != NULL || strstr(fail_text(), "embed.") != NULL ||
                 strstr(fail_text(), "head.") != NULL || strstr(fail_text(), "weight.root") != NULL;

    if (s != ERR_PLAN || !named) {
        print_error("%s replaced by its input: status %d, \"%s\"\n", what, (int)s,
                    s == OK ? "" : fail_text());
        assert_true(false);
    }
    tiny_close(t);
}

static void mutate_all(const struct tiny_options *o, const char *name, int *tried)
{
    struct tiny t;
    int finished, forward;

    tiny_write(&t, o);
    forward = count_moves(&t.p);
    EXPECT_OK(program_backward(&t.p, t.loss));
    finished = count_moves(&t.p);
    EXPECT_OK(program_verify(&t.p));
    tiny_close(&t);
    assert_true(forward > 0 && finished > forward);
    for (int i = 0; i < finished; i++) {
        const char *what;
        status s;

        tiny_write(&t, o);
        EXPECT_OK(program_backward(&t.p, t.loss));
        what = mutate(&t.p, i);
        s = program_plan(&t.p, &t.residents, t.kernels, 2, &t.plan);
        expect_refused(&t, s, what);
    }
    for (int i = 0; i < forward; i++) {
        const char *what;
        status s;

        tiny_write(&t, o);
        what = mutate(&t.p, i);
        s = tiny_plan(&t, 2);
        expect_refused(&t, s, what);
    }
    print_message("%-24s %3d moves in the finished program, %3d in the forward part: all refused\n",
                  name, finished, forward);
    *tried += finished + forward;
}

static void every_move_is_needed(void **state)
{
    static const struct {
        const char *name;
        int T, S, R;
    } meshes[] = { { "T2", 2, 1, 1 },    { "S2", 1, 2, 1 },    { "R2", 1, 1, 2 },
                   { "T2 S2", 2, 2, 1 }, { "S2 R2", 1, 2, 2 }, { "T2 R2", 2, 1, 2 } };
    int tried = 0;

    (void)state;
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        for (int variant = 0; variant < 8; variant++) {
            struct tiny_options o = { .real = DT_F64,
                                      .B = 2,
                                      .S = 8,
                                      .layers = 2,
                                      .tied = variant & 1,
                                      .flags = (variant & 2 ? MODEL_RECOMPUTE : 0u) |
                                               (variant & 4 ? MODEL_REGATHER : 0u) };
            char name[64];

            o.size[AXIS_TP] = meshes[i].T;
            o.size[AXIS_DS] = meshes[i].S;
            o.size[AXIS_REPLICA] = meshes[i].R;
            snprintf(name, sizeof name, "%s%s%s%s", meshes[i].name, variant & 1 ? " tied" : "",
                     variant & 2 ? " recompute" : "", variant & 4 ? " regather" : "");
            mutate_all(&o, name, &tried);
        }
    }
    print_message("%d mutations refused\n", tried);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_move_is_needed) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
