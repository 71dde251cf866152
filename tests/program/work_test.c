/* What nodes are said to compute and move, by hand; and node by node they do what the run does. */
#include "program/bench.h"

enum { B = 2, S = 3, D = 8, F = 4, V = 11, HEADS = 2, HEAD = 4 };

static int node_of(const struct program *p, enum op op)
{
    for (int i = 0; i < p->node_count; i++) {
        if (p->nodes[i].op == op) {
            return i;
        }
    }
    assert_true(false);
    return -1;
}

static void wants(const struct bench *b, enum op op, double flops, double bytes, double x, double y,
                  double z)
{
    struct node_work w = program_node_work(&b->p, node_of(&b->p, op));

    if (w.flops != flops || w.bytes != bytes || w.size[0] != x || w.size[1] != y ||
        w.size[2] != z || w.wire != 0) {
        print_error("%s: %g flops, %g bytes, size %g %g %g, %g sent\n", op_name(op), w.flops,
                    w.bytes, w.size[0], w.size[1], w.size[2], w.wire);
        assert_true(false);
    }
}

static void nodes_have_the_work_of_their_shapes(void **state)
{
    struct bench b;
    struct place whole = { { 0 } };
    val ids, starts, targets, up, wide, x, loss;
    const char *shapes;

    (void)state;
    bench_open(&b, DT_F32, 1);
    ids = program_input(&b.p, "ids", DT_I32, shape_2(B, S), whole);
    starts = program_input(&b.p, "starts", DT_I32, shape_2(B, S), whole);
    targets = program_input(&b.p, "targets", DT_I32, shape_2(B, S), whole);
    program_segment(&b.p, "layer", 0);
    x = op_embed(&b.p, "embed", ids, bench_weight(&b, "table", shape_2(V, D)), 0, -1);
    up = bench_weight(&b, "up", shape_2(3 * D, D));
    wide = op_linear(&b.p, "qkv", x, &up, 1);
    x = op_add(&b.p, "sum", x,
               op_attention(&b.p, "attention", wide, starts, HEADS, HEADS, HEAD, 0));
    loss = op_head(&b.p, x, bench_weight(&b, "head", shape_2(V, D)), targets, 0, V);
    EXPECT_OK(program_backward(&b.p, loss));
    program_keep(&b.p, loss);
    bench_plan(&b);
    wants(&b, OP_EMBED, 0, 2.0 * B * S * D * 4, V * D, 1, 1);
    wants(&b, OP_EMBED_DW, 0, 4.0 * (B * S * D + B * S) + 8.0 * (B * S * D + B * S), V * D, 1, 1);
    wants(&b, OP_ADD, 0, 3.0 * B * S * D * 4, B * S * D, 1, 1);
    wants(&b, OP_LINEAR, 2.0 * B * S * D * 3 * D, 4.0 * (B * S * D + 3 * D * D + B * S * 3 * D),
          B * S, D, 3 * D);
    wants(&b, OP_LINEAR_DX, 2.0 * B * S * D * 3 * D, 4.0 * (B * S * D + 3 * D * D + B * S * 3 * D),
          B * S, D, 3 * D);
    wants(&b, OP_LINEAR_DW, 2.0 * B * S * D * 3 * D,
          4.0 * (B * S * D + 2 * 3 * D * D + B * S * 3 * D), B * S, D, 3 * D);
    assert_true(program_node_work(&b.p, node_of(&b.p, OP_ATTENTION)).size[0] == B * HEADS);
    assert_true(program_node_work(&b.p, node_of(&b.p, OP_ATTENTION_D)).size[1] == S);
    assert_true(program_node_work(&b.p, node_of(&b.p, OP_HEAD_LEARN)).size[2] == V);
    assert_true(program_node_work(&b.p, node_of(&b.p, OP_VIEW)).bytes == 0);
    shapes = program_node_shapes(&b.p, node_of(&b.p, OP_LINEAR), &b.arena);
    assert_string_equal(shapes, "2x3x24 <- 2x3x8 24x8");
    bench_close(&b);
}

static void nodes_in_order_are_the_run(void **state)
{
    struct bench b;
    val w, x, y, z;
    double in[S * D], whole[S * D], single[S * D];

    (void)state;
    bench_open(&b, DT_F64, 2);
    x = program_input(&b.p, "x", DT_F64, shape_3(1, S, D), (struct place){ { 0 } });
    program_segment(&b.p, "layer", 0);
    w = bench_weight(&b, "w", shape_2(D, D));
    y = op_linear(&b.p, "y", x, &w, 1);
    z = op_add(&b.p, "z", y, x);
    program_keep(&b.p, z);
    bench_plan(&b);
    for (int i = 0; i < S * D; i++) {
        in[i] = i + 1;
    }
    device_write(&b.d, &b.p, x, 0, S * D, in);
    device_write(&b.d, &b.p, b.flat, 0, S * D, in);
    EXPECT_OK(program_run(&b.p, &b.d, NULL));
    device_read(&b.d, &b.p, z, 0, S * D, whole);
    device_fill_zero(&b.d, &b.p, z);
    for (int i = 0; i < b.p.node_count; i++) {
        EXPECT_OK(program_run_node(&b.p, &b.d, i));
    }
    device_read(&b.d, &b.p, z, 0, S * D, single);
    assert_memory_equal(whole, single, sizeof whole);
    assert_true(whole[0] == 1 + 204); /* x, and the sum of the first 8 squares */
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_have_the_work_of_their_shapes),
        cmocka_unit_test(nodes_in_order_are_the_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
