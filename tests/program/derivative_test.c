/*
 * Every op's derivative against central differences in double.
 *
 * The op's inputs are parts of one flat weight w, its output is y, and a random direction c is
 * seeded as the gradient of y. So the backward pass must leave d(sum c y)/dw in the flat gradient.
 * Step 1e-3 with the fourth-order formula: its own error is about 1e-11 of the largest entry, and
 * the tolerance is 1e-6 of it. No op here has a kink but by integers (ids, starts), which are not
 * moved.
 */
#include <math.h>

#include "program/bench.h"

enum { B = 3, S = 5, D = 8, H = 4, G = 2, HEAD = 4, F = 6, V = 11 };

static const double freq[HEAD / 2] = { 1, 0.3 };

struct inputs {
    val ids, targets, positions, starts;
};

typedef val write_fn(struct bench *b, const struct inputs *in);

static struct inputs inputs_make(struct bench *b)
{
    struct shape s = shape_2(B, S);
    struct place whole = { { 0 } };

    return (struct inputs){ .ids = program_input(&b->p, "ids", DT_I32, s, whole),
                            .targets = program_input(&b->p, "targets", DT_I32, s, whole),
                            .positions = program_input(&b->p, "positions", DT_I32, s, whole),
                            .starts = program_input(&b->p, "starts", DT_I32, s, whole) };
}

static void inputs_fill(struct bench *b, const struct inputs *in)
{
    struct philox_stream random = philox_stream_make(3, "ids");

    for (int64_t i = 0; i < B * S; i++) {
        int32_t id = (int32_t)philox_below(&random, (uint64_t)i, V),
                start = i % S >= 2 && i / S == 1 ? 2 : 0;
        int32_t target =
            i % S == S - 1 || i == 1 ? -1 : (int32_t)philox_below(&random, (uint64_t)(100 + i), V);
        int32_t position = (int32_t)(i % S) - start;

        device_write(&b->d, &b->p, in->ids, i, 1, &id);
        device_write(&b->d, &b->p, in->targets, i, 1, &target);
        device_write(&b->d, &b->p, in->starts, i, 1, &start);
        device_write(&b->d, &b->p, in->positions, i, 1, &position);
    }
}

static double loss_of(struct bench *b, val y, val c)
{
    int64_t count = shape_count(&program_value(&b->p, y)->shape);
    double sum = 0;

    EXPECT_OK(program_run(&b->p, &b->d, NULL));
    for (int64_t i = 0; i < count; i++) {
        sum += c.id == 0 ? bench_read(b, y, i) : bench_read(b, c, i) * bench_read(b, y, i);
    }
    return sum;
}

static double difference(struct bench *b, val y, val c, int64_t i)
{
    static const double at[] = { -2, -1, 1, 2 },
                        weight[] = { 1.0 / 12, -8.0 / 12, 8.0 / 12, -1.0 / 12 };
    double x = bench_read(b, b->flat, i), step = 1e-3, sum = 0;

    for (int k = 0; k < 4; k++) {
        double moved = x + at[k] * step;

        device_write(&b->d, &b->p, b->flat, i, 1, &moved);
        sum += weight[k] * loss_of(b, y, c);
    }
    device_write(&b->d, &b->p, b->flat, i, 1, &x);
    return sum / step;
}

/* `scalar`: y is a loss of its own, not to be weighted. */
static void expect_derivative(const char *name, write_fn *write, bool scalar)
{
    struct bench b;
    struct inputs in;
    val y, c = { 0 }, grad;
    double worst = 0, largest = 0, *got;

    bench_open(&b, DT_F64, 2);
    in = inputs_make(&b);
    program_segment(&b.p, name, 0);
    y = write(&b, &in);
    program_keep(&b.p, y);
    if (!scalar) {
        c = program_input(&b.p, "direction", DT_F64, program_value(&b.p, y)->shape,
                          (struct place){ { 0 } });
        program_seed(&b.p, y, c);
    }
    EXPECT_OK(program_backward(&b.p, scalar ? y : (val){ 0 }));
    bench_plan(&b);
    grad = program_find(&b.p, "grad.flat");
    bench_random(&b, b.flat, "w", 0.7, b.used);
    if (c.id != 0) {
        bench_random(&b, c, "c", 1, shape_count(&program_value(&b.p, c)->shape));
    }
    inputs_fill(&b, &in);
    device_fill_zero(&b.d, &b.p, grad);
    loss_of(&b, y, c);
    got = calloc((size_t)b.used, sizeof *got);
    for (int64_t i = 0; i < b.used; i++) {
        got[i] = bench_read(&b, grad, i);
    }
    for (int64_t i = 0; i < b.used; i++) {
        double want = difference(&b, y, c, i);

        worst = fmax(worst, fabs(want - got[i]));
        largest = fmax(largest, fabs(want));
    }
    print_message("%-24s %lld numbers, worst difference %.1e of the largest\n", name,
                  (long long)b.used, worst / largest);
    assert_true(largest > 0.01);
    assert_true(worst <= 1e-6 * largest);
    free(got);
    bench_close(&b);
}

/* ---- the ops ---- */

static val write_linear(struct bench *b, const struct inputs *in)
{
    val x = bench_weight(b, "x", shape_3(B, S, D));
    val w[3] = { bench_weight(b, "w0", shape_2(5, D)), bench_weight(b, "w1", shape_2(3, D)),
                 bench_weight(b, "w2", shape_2(1, D)) };

    (void)in;
    return op_linear(&b->p, "y", x, w, 3);
}

static val write_bias(struct bench *b, const struct inputs *in)
{
    val x = bench_weight(b, "x", shape_3(B, S, D)),
        w[2] = { bench_weight(b, "b0", shape_1(3)), bench_weight(b, "b1", shape_1(5)) };

    (void)in;
    return op_bias(&b->p, "y", x, w, 2);
}

static val write_add(struct bench *b, const struct inputs *in)
{
    val x = bench_weight(b, "x", shape_3(B, S, D)), y = bench_weight(b, "y", shape_3(B, S, D));

    (void)in;
    return op_add(&b->p, "twice", op_add(&b->p, "sum", x, y), x);
}

static val write_embed(struct bench *b, const struct inputs *in)
{
    return op_embed(&b->p, "y", in->ids, bench_weight(b, "w", shape_2(V, D)), 0, -1);
}

static val write_rmsnorm(struct bench *b, const struct inputs *in)
{
    val x = bench_weight(b, "x", shape_3(B, S, D)), w = bench_weight(b, "w", shape_1(D));

    (void)in;
    return op_rmsnorm(&b->p, "y", x, w, 1e-2);
}

static val write_rope(struct bench *b, const struct inputs *in)
{
    val x = bench_weight(b, "x", shape_3(B, S, (H + G) * HEAD)),
        angles = op_rope_angles(&b->p, "angles", in->positions, freq, HEAD);

    return op_rope(&b->p, "y", x, angles, H, HEAD);
}

static val write_attention(struct bench *b, const struct inputs *in)
{
    return op_attention(&b->p, "y", bench_weight(b, "qkv", shape_3(B, S, (H + 2 * G) * HEAD)),
                        in->starts, H, G, HEAD, 0);
}

static val write_attention_window(struct bench *b, const struct inputs *in)
{
    return op_attention(&b->p, "y", bench_weight(b, "qkv", shape_3(B, S, (H + 2 * G) * HEAD)),
                        in->starts, H, G, HEAD, 2);
}

static val write_swiglu(struct bench *b, const struct inputs *in)
{
    (void)in;
    return op_swiglu(&b->p, "y", bench_weight(b, "h", shape_3(B, S, 2 * F)));
}

static val write_head(struct bench *b, const struct inputs *in)
{
    val x = bench_weight(b, "x", shape_3(B, S, D)), w = bench_weight(b, "w", shape_2(V, D));

    return op_head(&b->p, x, w, in->targets, 0, V);
}

/* Something behind the head's loss keeps the backward pass from fusing: the derivative forms the
 * logits anew. */
static val write_head_unfused(struct bench *b, const struct inputs *in)
{
    val x = bench_weight(b, "x", shape_3(B, S, D)), w = bench_weight(b, "w", shape_2(V, D));
    val loss = op_head(&b->p, x, w, in->targets, 0, V);

    op_rope_angles(&b->p, "angles", in->positions, freq, HEAD);
    return loss;
}

static void linear_derivative_agrees_with_differences(void **state)
{
    (void)state;
    expect_derivative("linear", write_linear, false);
}

static void bias_derivative_agrees_with_differences(void **state)
{
    (void)state;
    expect_derivative("bias", write_bias, false);
}

static void add_derivative_agrees_with_differences(void **state)
{
    (void)state;
    expect_derivative("add", write_add, false);
}

static void embed_derivative_agrees_with_differences(void **state)
{
    (void)state;
    expect_derivative("embed", write_embed, false);
}

static void rmsnorm_derivative_agrees_with_differences(void **state)
{
    (void)state;
    expect_derivative("rmsnorm", write_rmsnorm, false);
}

static void rope_derivative_agrees_with_differences(void **state)
{
    (void)state;
    expect_derivative("rope", write_rope, false);
}

static void attention_derivative_agrees_with_differences(void **state)
{
    (void)state;
    expect_derivative("attention", write_attention, false);
}

static void attention_window_derivative_agrees_with_differences(void **state)
{
    (void)state;
    expect_derivative("attention_window", write_attention_window, false);
}

static void swiglu_derivative_agrees_with_differences(void **state)
{
    (void)state;
    expect_derivative("swiglu", write_swiglu, false);
}

static void head_derivative_agrees_with_differences(void **state)
{
    (void)state;
    expect_derivative("head", write_head, true);
}

static void head_unfused_derivative_agrees_with_differences(void **state)
{
    (void)state;
    expect_derivative("head_unfused", write_head_unfused, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_derivative_agrees_with_differences),
        cmocka_unit_test(bias_derivative_agrees_with_differences),
        cmocka_unit_test(add_derivative_agrees_with_differences),
        cmocka_unit_test(embed_derivative_agrees_with_differences),
        cmocka_unit_test(rmsnorm_derivative_agrees_with_differences),
        cmocka_unit_test(rope_derivative_agrees_with_differences),
        cmocka_unit_test(attention_derivative_agrees_with_differences),
        cmocka_unit_test(attention_window_derivative_agrees_with_differences),
        cmocka_unit_test(swiglu_derivative_agrees_with_differences),
        cmocka_unit_test(head_derivative_agrees_with_differences),
        cmocka_unit_test(head_unfused_derivative_agrees_with_differences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
