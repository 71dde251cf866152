#include "support/folder.h"

#include "train/bench.h"

static const struct bench_shape shape = { 32, 64, 4, 2, 64, 2, 16, 2 };

static void every_node_of_a_step_is_in_some_row(void **state)
{
    struct train_spec spec;
    struct train_plan_report plan;
    struct arena a = { 0 };
    struct bench b = { 0 };
    struct bench_op *ops;
    double flops = 0, seconds;
    int count, attention = 0, adamw = 0;

    (void)state;
    EXPECT_OK(bench_spec(&spec, &shape, DT_F32));
    spec.threads = 1;
    spec.accumulate = 2;
    EXPECT_OK(train_plan(&spec, 0, &plan, NULL));
    EXPECT_OK(bench_open(&b, &spec));
    EXPECT_OK(bench_step(&b, &seconds));
    assert_true(seconds > 0);
    assert_true(bench_flops(&b) == (double)plan.flops_step);
    EXPECT_OK(bench_ops(&b, &a, 3, &ops, &count));
    for (int i = 0; i < count; i++) {
        flops += ops[i].work.flops * ops[i].count;
        attention += ops[i].op == OP_ATTENTION ? ops[i].count : 0;
        adamw += ops[i].op == OP_ADAMW ? ops[i].count : 0;
        assert_true(ops[i].seconds > 0 && ops[i].work.bytes > 0);
        assert_true(i == 0 ||
                    ops[i].seconds * ops[i].count <= ops[i - 1].seconds * ops[i - 1].count);
    }
    assert_true(flops == (double)plan.flops_step);
    assert_int_equal(attention, 2 * 2); /* layers, micro-batches */
    assert_int_equal(adamw, 3);         /* the root and the layers, once a step */
    bench_close(&b);
    arena_release(&a);
}

static void only_one_rank_is_timed(void **state)
{
    struct train_spec spec;
    struct bench b = { 0 };

    (void)state;
    EXPECT_OK(bench_spec(&spec, &shape, DT_F32));
    spec.size[AXIS_TP] = 2;
    EXPECT_FAIL(ERR_RECIPE, "splits its work over 2", bench_open(&b, &spec));
    bench_close(&b);
}

static void the_disk_keeps_nothing(void **state)
{
    struct arena a = { 0 };
    const char *folder = folder_new(&a);
    struct bench_disk d;
    char **names;
    size_t count;

    (void)state;
    EXPECT_OK(bench_disk(folder, 1 << 20, &d));
    assert_int_equal(d.bytes, 8 << 20); /* whole pieces */
    assert_true(d.write > 0 && d.read > 0);
    EXPECT_OK(folder_list(&a, folder, &names, &count));
    assert_int_equal(count, 0);
    EXPECT_FAIL(ERR_IO, "no file can be made there to measure the disk",
                bench_disk(path_join(&a, folder, "absent"), 1, &d));
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_node_of_a_step_is_in_some_row),
        cmocka_unit_test(only_one_rank_is_timed),
        cmocka_unit_test(the_disk_keeps_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
