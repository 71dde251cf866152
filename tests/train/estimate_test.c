#include <math.h>

#include "train/bench.h"
#include "train/estimate.h"
#include "train/tiny_train.h"

static bool near(double a, double b, double share)
{
    return fabs(a - b) <= share * fabs(b);
}

static void point(struct calibration *c, enum op op, double rows, double K, double N, double rate)
{
    double work = 2 * rows * K * N;

    calibration_add(c, &(struct calibration_point){ op, { rows, K, N }, work, work / rate });
}

/* Half way in all logarithms between two sizes, the rate is the geometric mean of theirs; at one
 * of them it is that one's; far off, the nearer one counts for more. */
static void a_rate_lies_between_its_neighbours(void **state)
{
    struct arena a = { 0 };
    struct calibration c;
    struct node_work w = { .flops = 2.0 * 200 * 200 * 200, .size = { 200, 200, 200 } };

    (void)state;
    calibration_init(&c, &a);
    point(&c, OP_LINEAR, 100, 100, 100, 1e9);
    point(&c, OP_LINEAR, 400, 400, 400, 4e9);
    point(&c, OP_LINEAR_DX, 200, 200, 200, 77e9); /* another op is no neighbour */
    assert_true(near(estimate_node(&c, OP_LINEAR, &w), w.flops / 2e9, 1e-9));
    w = (struct node_work){ .flops = 2e6, .size = { 100, 100, 100 } };
    assert_true(near(estimate_node(&c, OP_LINEAR, &w), 2e6 / 1e9, 1e-4));
    w = (struct node_work){ .flops = 2e6, .size = { 110, 100, 90 } };
    assert_true(estimate_node(&c, OP_LINEAR, &w) > 2e6 / 1.1e9);
    arena_release(&a);
}

static void what_was_never_measured_has_a_roof(void **state)
{
    struct arena a = { 0 };
    struct calibration c;
    struct node_work product = { .flops = 3e9, .bytes = 8, .size = { 1, 1, 1 } },
                     rows = { .bytes = 5e6, .size = { 1, 1, 1 } }, view = { .size = { 1, 1, 1 } };

    (void)state;
    calibration_init(&c, &a);
    c.peak = 1e10;
    c.memory = 1e9;
    assert_true(near(estimate_node(&c, OP_LINEAR, &product), 0.6, 1e-12));
    assert_true(near(estimate_node(&c, OP_BIAS, &rows), 0.005, 1e-12));
    assert_true(estimate_node(&c, OP_VIEW, &view) == 0);
    arena_release(&a);
}

/* One rate for all products, one for all that moves bytes: then the step is its work over them. */
static void a_step_is_the_sum_of_its_nodes(void **state)
{
    static const enum op products[] = { OP_LINEAR,    OP_LINEAR_DX,   OP_LINEAR_DW,
                                        OP_ATTENTION, OP_ATTENTION_D, OP_HEAD_LEARN };
    struct arena a = { 0 };
    struct calibration c;
    struct train_spec s;
    struct train_plan_report plan;
    struct estimate e, free_nodes;
    const char *folder[1] = { "nowhere" };
    double sum = 0;

    (void)state;
    tiny_spec(&s, folder, DT_F32, 2, 3);
    s.accumulate = 3;
    calibration_init(&c, &a);
    c.key.threads = 1;
    c.memory = INFINITY;
    c.barrier_seconds = 1e-3;
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        point(&c, products[i], 8, 8, 8, 5e6);
    }
    EXPECT_OK(train_plan(&s, 0, &plan, NULL));
    EXPECT_OK(train_estimate(&s, 0, &c, &e));
    for (int i = 0; i < ESTIMATE_KINDS; i++) {
        sum += e.by_kind[i];
    }
    assert_true(near(e.seconds, sum, 1e-12));
    assert_true(near(e.by_kind[ESTIMATE_PRODUCTS] + e.by_kind[ESTIMATE_HEAD] +
                         e.by_kind[ESTIMATE_ATTENTION],
                     (double)plan.flops_step / 5e6, 1e-9));
    assert_true(e.by_kind[ESTIMATE_ROWS] == 0 && e.by_kind[ESTIMATE_UPDATE] == 0);
    assert_true(e.by_kind[ESTIMATE_BARRIERS] > 0.1);
    c.barrier_seconds = 0;
    c.memory = 1e9;
    EXPECT_OK(train_estimate(&s, 0, &c, &free_nodes));
    assert_true(free_nodes.by_kind[ESTIMATE_BARRIERS] == 0);
    assert_true(free_nodes.by_kind[ESTIMATE_ROWS] > 0 && free_nodes.by_kind[ESTIMATE_UPDATE] > 0);
    arena_release(&a);
}

static void recomputing_costs_time(void **state)
{
    struct arena a = { 0 };
    struct calibration c;
    struct train_spec s;
    struct estimate kept, again;
    const char *folder[1] = { "nowhere" };

    (void)state;
    tiny_spec(&s, folder, DT_F32, 2, 3);
    calibration_init(&c, &a);
    c.key.threads = 1;
    c.peak = 1e9;
    c.memory = 1e9;
    EXPECT_OK(train_estimate(&s, 0, &c, &kept));
    s.recompute = true;
    EXPECT_OK(train_estimate(&s, 0, &c, &again));
    assert_true(again.by_kind[ESTIMATE_PRODUCTS] > 1.1 * kept.by_kind[ESTIMATE_PRODUCTS]);
    assert_true(again.by_kind[ESTIMATE_HEAD] == kept.by_kind[ESTIMATE_HEAD]);
    assert_true(again.by_kind[ESTIMATE_UPDATE] == kept.by_kind[ESTIMATE_UPDATE]);
    arena_release(&a);
}

/* By hand: two layers of width 24 with 4 query and 2 key heads of 8, feed-forward 40, 37 words. */
static void a_model_asks_for_six_operations_a_parameter(void **state)
{
    struct train_spec s;
    const char *folder[1] = { "nowhere" };
    double layer = 24 * 64 + 32 * 24 + 3 * 24 * 40, products = 2 * layer + 24 * 37;

    (void)state;
    tiny_spec(&s, folder, DT_F32, 2, 3);
    assert_true(near(model_flops_token(&s.model, 16), 6 * products + 12 * 2 * 8.5 * 32, 1e-12));
    s.model.window = 4; /* 1 + 2 + 3 + 13 x 4 keys over 16 positions */
    assert_true(
        near(model_flops_token(&s.model, 16), 6 * products + 12 * 2 * (58.0 / 16) * 32, 1e-12));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_lies_between_its_neighbours),
        cmocka_unit_test(what_was_never_measured_has_a_roof),
        cmocka_unit_test(a_step_is_the_sum_of_its_nodes),
        cmocka_unit_test(recomputing_costs_time),
        cmocka_unit_test(a_model_asks_for_six_operations_a_parameter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
