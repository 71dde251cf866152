/*
 * n ranks against one. Every mesh of this many ranks trains 5 steps (accumulation 3; tied and
 * untied; masked, padded and packed rows); beside it each rank trains the same global batches
 * alone. In 64 losses, norms, gradients of the last step and weights must agree within 1e-11
 * (largest difference / largest entry); in 32 meshes without tensor parallelism must agree to the
 * bit.
 */
#include <math.h>
#include <unistd.h>

#include "train/tiny_train.h"

enum { STEPS = 5 };

static struct comm world;
static char folder[256];

/* ---- specs ---- */

struct mesh_case {
    int T, S, R;
    bool tied, recompute, regather;
    enum dtype real;
};

static const char *dirs[1];

static void spec_of(struct train_spec *s, const struct mesh_case *m, bool alone)
{
    tiny_spec(s, dirs, m->real, alone ? 2 * m->S * m->R : 2, STEPS);
    s->model.tied = m->tied;
    s->recompute = m->recompute;
    s->regather = m->regather;
    s->prefetch = m->regather;
    if (!alone) {
        s->size[AXIS_TP] = m->T;
        s->size[AXIS_DS] = m->S;
        s->size[AXIS_REPLICA] = m->R;
    }
}

/* ---- what a run leaves ---- */

struct kept {
    struct arena arena;
    double loss[STEPS], norm[STEPS];
    void *tensor[2][64]; /* gradients of the last step; weights after it */
    int64_t count[64];
    int tensors, kind;
    size_t width;
};

static status keep_tensor(void *user, const struct weight_part *part, enum dtype type,
                          const void *bytes)
{
    struct kept *k = user;
    int64_t count = part->whole[0] * part->whole[1];

    assert_true(k->tensors < 64);
    assert_int_equal(dtype_bytes(type), k->width);
    k->count[k->tensors] = count;
    k->tensor[k->kind][k->tensors] = arena_take_array(&k->arena, (size_t)count, k->width);
    memcpy(k->tensor[k->kind][k->tensors], bytes, (size_t)count * k->width);
    k->tensors++;
    return OK;
}

static void collect(struct trainer *t, struct kept *k, int kind, const char *prefix)
{
    k->kind = kind;
    k->tensors = 0;
    EXPECT_OK(weights_collect(t->programs.model.weights, &t->device,
                              kind == 1 ? &t->programs.update : &t->programs.learn, prefix,
                              keep_tensor, k));
}

static void train(const struct train_spec *s, struct comm *c, struct kept *k)
{
    struct trainer t;

    *k = (struct kept){ .width = dtype_bytes(kernels_sum(s->real)) };
    EXPECT_OK(trainer_open(&t, s, c));
    for (int i = 0; i < STEPS; i++) {
        struct step_report r;
        bool bad;

        EXPECT_OK(trainer_learn(&t, &bad));
        if (i == STEPS - 1) {
            collect(&t, k, 0, "grad.weight.");
        }
        EXPECT_OK(trainer_update(&t, bad, &r));
        assert_false(r.skipped);
        k->loss[i] = r.loss;
        k->norm[i] = r.grad_norm;
    }
    collect(&t, k, 1, "master.");
    trainer_close(&t);
}

/* ---- comparison ---- */

static double at(const void *bytes, int64_t i, size_t width)
{
    return width == sizeof(double) ? ((const double *)bytes)[i] : (double)((const float *)bytes)[i];
}

static double tensor_difference(const struct kept *a, const struct kept *b, int kind, int i)
{
    double worst = 0, largest = 0;

    for (int64_t k = 0; k < a->count[i]; k++) {
        double x = at(a->tensor[kind][i], k, a->width), y = at(b->tensor[kind][i], k, b->width);

        worst = fmax(worst, fabs(x - y));
        largest = fmax(largest, fabs(y));
    }
    return largest > 0 ? worst / largest : worst;
}

static void expect_same_bits(const struct kept *a, const struct kept *b)
{
    assert_memory_equal(a->loss, b->loss, sizeof a->loss);
    assert_memory_equal(a->norm, b->norm, sizeof a->norm);
    for (int kind = 0; kind < 2; kind++) {
        for (int i = 0; i < a->tensors; i++) {
            assert_memory_equal(a->tensor[kind][i], b->tensor[kind][i],
                                (size_t)a->count[i] * a->width);
        }
    }
}

/* Sums over T have another order. In bf16 each of them, and what follows from it, is rounded to 8
 * bits: a few roundings of 2^-9, in the gradients of later layers added up. */
static double tolerance_of(enum dtype real)
{
    return real == DT_F64 ? 1e-11 : real == DT_F32 ? 5e-5 : 0.1;
}

static void compare(const struct mesh_case *m, const struct kept *a, const struct kept *b)
{
    double worst = 0;

    assert_int_equal(a->tensors, b->tensors);
    for (int i = 0; i < STEPS; i++) {
        worst = fmax(worst, fabs(a->loss[i] / b->loss[i] - 1));
        worst = fmax(worst, fabs(a->norm[i] / b->norm[i] - 1));
    }
    for (int kind = 0; kind < 2; kind++) {
        for (int i = 0; i < a->tensors; i++) {
            worst = fmax(worst, tensor_difference(a, b, kind, i));
        }
    }
    if (world.rank == 0) {
        print_message("T%d S%d R%d %s %s%s%s: worst difference %.1e%s\n", m->T, m->S, m->R,
                      precision_name(m->real), m->tied ? "tied" : "untied",
                      m->recompute ? " recompute" : "", m->regather ? " regather" : "", worst,
                      m->T == 1 ? ", to the bit" : "");
    }
    if (m->T == 1) {
        expect_same_bits(a, b);
    } else {
        assert_true(worst <= tolerance_of(m->real));
    }
}

static void run_case(const struct mesh_case *m)
{
    struct train_spec spec;
    struct kept together, alone;
    struct comm one;

    spec_of(&spec, m, false);
    train(&spec, &world, &together);
    comm_alone(&one);
    spec_of(&spec, m, true);
    train(&spec, &one, &alone);
    compare(m, &together, &alone);
    arena_release(&together.arena);
    arena_release(&alone.arena);
}

static void ranks_agree_with_one(void **state)
{
    static const int meshes[][3] = { { 2, 1, 1 }, { 1, 2, 1 }, { 1, 1, 2 },
                                     { 2, 2, 1 }, { 1, 2, 2 }, { 2, 1, 2 },
                                     { 4, 1, 1 }, { 1, 4, 1 }, { 1, 1, 4 } };
    static const enum dtype reals[] = { DT_F32, DT_F64, DT_BF16 };
    int ran = 0;

    (void)state;
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        for (int variant = 0; variant < 6; variant++) {
            struct mesh_case m = { meshes[i][0], meshes[i][1],   meshes[i][2],      variant & 1,
                                   variant & 1,  !(variant & 1), reals[variant / 2] };

            /* Two key/value heads do not split over four. */
            if (m.T * m.S * m.R == world.size && m.T <= 2) {
                run_case(&m);
                ran++;
            }
        }
    }
    assert_true(ran >= 18);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(ranks_agree_with_one) };
    struct collective name = {
        .kind = COMM_BROADCAST, .dtype = DT_U8, .out = folder, .n = sizeof folder
    };
    int failed;

    EXPECT_OK(comm_world(&world));
    if (world.rank == 0) {
        snprintf(folder, sizeof folder, "%s/roux-ranks-XXXXXX",
                 getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
        assert_non_null(mkdtemp(folder));
        tiny_write_rows(folder, false);
    }
    EXPECT_OK(comm_run(&world, &name));
    dirs[0] = folder;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    EXPECT_OK(comm_barrier(&world));
    if (world.rank == 0) {
        EXPECT_OK(folder_remove(folder));
    }
    comm_close(&world);
    return failed;
}
