/*
 * Derivatives against central differences, in double: each case has one output, a fixed slope of
 * it, and inputs whose derivative the kernel forms.
 */
#include "kernel_case.h"

enum { STEP_BITS = 18 };

/* The slope-weighted sum of the outputs. */
typedef double value_fn(const struct kernels *k, void *context);

static void check_difference(const struct kernels *k, value_fn *value, void *context,
                             struct buffer *input, const struct buffer *derivative)
{
    double step = ldexp(1, -STEP_BITS), largest = 0;

    for (int64_t i = 0; i < (int64_t)derivative->count; i++) {
        largest = fmax(largest, fabs(at(derivative, i)));
    }
    assert_true(largest > 0);
    for (int64_t i = 0; i < (int64_t)input->count; i++) {
        double x = at(input, i), above, below;

        put(input, i, x + step);
        above = value(k, context);
        put(input, i, x - step);
        below = value(k, context);
        put(input, i, x);
        assert_true(fabs((above - below) / (2 * step) - at(derivative, i)) <= 1e-7 * (largest + 1));
    }
}

static const struct kernels *best(void)
{
    const struct kernels *k;

    EXPECT_OK(kernels_find(DT_F64, &k));
    return k;
}

static double weighted(const struct buffer *y, const struct buffer *slope)
{
    double sum = 0;

    for (int64_t i = 0; i < (int64_t)y->count; i++) {
        sum += at(y, i) * at(slope, i);
    }
    return sum;
}

static const struct team alone = { 0, 1 };

struct context {
    void *args;
    struct buffer y, slope;
};

static double linear_value(const struct kernels *k, void *context)
{
    struct context *c = context;

    k->linear(c->args, alone);
    return weighted(&c->y, &c->slope);
}

static void linear_differences(void **state)
{
    const struct kernels *k = best();
    struct buffer x = buffer_random(DT_F64, 6 * 5, 1, 1), w = buffer_random(DT_F64, 7 * 5, 2, 1);
    struct buffer dx = buffer_make(DT_F64, 6 * 5), dw = buffer_zero(DT_F64, 7 * 5);
    struct context c = { .y = buffer_make(DT_F64, 6 * 7),
                         .slope = buffer_random(DT_F64, 6 * 7, 3, 1) };
    struct linear_args a = { .x = x.data,
                             .w = w.data,
                             .y = c.y.data,
                             .dy = c.slope.data,
                             .dx = dx.data,
                             .dw = dw.data,
                             .B = 2,
                             .S = 3,
                             .K = 5,
                             .N = 7,
                             .ldx = 5,
                             .ldy = 7,
                             .lddx = 5,
                             .lddy = 7,
                             .scale = 0.5 };
    struct buffer scratch = buffer_make(DT_U8, (int64_t)k->linear_scratch(&a, 1));

    (void)state;
    a.scratch = scratch.data;
    c.args = &a;
    k->linear_dx(&a, alone);
    k->linear_dw(&a, alone);
    check_difference(k, linear_value, &c, &x, &dx);
    check_difference(k, linear_value, &c, &w, &dw);
    buffer_free(&x);
    buffer_free(&w);
    buffer_free(&dx);
    buffer_free(&dw);
    buffer_free(&c.y);
    buffer_free(&c.slope);
    buffer_free(&scratch);
}

static double rmsnorm_value(const struct kernels *k, void *context)
{
    struct context *c = context;

    k->rmsnorm(c->args, alone);
    return weighted(&c->y, &c->slope);
}

static void rmsnorm_differences(void **state)
{
    const struct kernels *k = best();
    struct buffer x = buffer_random(DT_F64, 6 * 9, 1, 1), w = buffer_random(DT_F64, 9, 2, 1);
    struct buffer dx = buffer_make(DT_F64, 6 * 9), dw = buffer_zero(DT_F64, 9),
                  rstd = buffer_make(DT_F64, 6);
    struct context c = { .y = buffer_make(DT_F64, 6 * 9),
                         .slope = buffer_random(DT_F64, 6 * 9, 3, 1) };
    struct rmsnorm_args a = { .x = x.data,
                              .w = w.data,
                              .y = c.y.data,
                              .rstd = rstd.data,
                              .dy = c.slope.data,
                              .dx = dx.data,
                              .dw = dw.data,
                              .B = 2,
                              .S = 3,
                              .D = 9,
                              .eps = 1e-5 };

    (void)state;
    c.args = &a;
    k->rmsnorm(&a, alone);
    k->rmsnorm_dx(&a, alone);
    k->rmsnorm_dw(&a, alone);
    check_difference(k, rmsnorm_value, &c, &x, &dx);
    check_difference(k, rmsnorm_value, &c, &w, &dw);
    buffer_free(&x);
    buffer_free(&w);
    buffer_free(&dx);
    buffer_free(&dw);
    buffer_free(&rstd);
    buffer_free(&c.y);
    buffer_free(&c.slope);
}

static double swiglu_value(const struct kernels *k, void *context)
{
    struct context *c = context;

    k->swiglu(c->args, alone);
    return weighted(&c->y, &c->slope);
}

static void swiglu_differences(void **state)
{
    const struct kernels *k = best();
    struct buffer h = buffer_random(DT_F64, 3 * 14, 1, 4), dh = buffer_make(DT_F64, 3 * 14);
    struct context c = { .y = buffer_make(DT_F64, 3 * 7),
                         .slope = buffer_random(DT_F64, 3 * 7, 3, 1) };
    struct swiglu_args a = {
        .h = h.data, .y = c.y.data, .dy = c.slope.data, .dh = dh.data, .T = 3, .F = 7
    };

    (void)state;
    c.args = &a;
    k->swiglu_d(&a, alone);
    check_difference(k, swiglu_value, &c, &h, &dh);
    buffer_free(&h);
    buffer_free(&dh);
    buffer_free(&c.y);
    buffer_free(&c.slope);
}

static double attention_value(const struct kernels *k, void *context)
{
    struct context *c = context;

    k->attention(c->args, alone);
    return weighted(&c->y, &c->slope);
}

/* 2 sequences of 9, 4 heads in 2 groups of 3 wide; a window of 5; a document begins at 4. */
static void attention_differences(void **state)
{
    enum { B = 2, S = 9, H = 4, G = 2, d = 3, WIDTH = (H + 2 * G) * d };
    const struct kernels *k = best();
    struct buffer qkv = buffer_random(DT_F64, B * S * WIDTH, 1, 1),
                  dqkv = buffer_make(DT_F64, B * S * WIDTH);
    struct buffer lse = buffer_make(DT_F64, B * H * S), scratch;
    struct context c = { .y = buffer_make(DT_F64, B * S * H * d),
                         .slope = buffer_random(DT_F64, B * S * H * d, 3, 1) };
    int32_t starts[B * S];
    struct attention_args a = { .q = qkv.data,
                                .k = from(&qkv, H * d),
                                .v = from(&qkv, (H + G) * d),
                                .o = c.y.data,
                                .dout = c.slope.data,
                                .dq = dqkv.data,
                                .dk = from(&dqkv, H * d),
                                .dv = from(&dqkv, (H + G) * d),
                                .lse = lse.data,
                                .starts = starts,
                                .B = B,
                                .S = S,
                                .H = H,
                                .G = G,
                                .d = d,
                                .window = 5,
                                .ldq = WIDTH,
                                .ldk = WIDTH,
                                .ldv = WIDTH,
                                .ldo = H * d,
                                .lddq = WIDTH,
                                .lddk = WIDTH,
                                .lddv = WIDTH,
                                .lddo = H * d,
                                .scale = 0.6 };

    (void)state;
    for (int t = 0; t < B * S; t++) {
        starts[t] = t % S >= 4 ? 4 : 0;
    }
    scratch = buffer_make(DT_U8, (int64_t)k->attention_scratch(&a, 1));
    a.scratch = scratch.data;
    c.args = &a;
    k->attention(&a, alone);
    k->attention_d(&a, alone);
    check_difference(k, attention_value, &c, &qkv, &dqkv);
    buffer_free(&qkv);
    buffer_free(&dqkv);
    buffer_free(&lse);
    buffer_free(&scratch);
    buffer_free(&c.y);
    buffer_free(&c.slope);
}

/* stats, merge, and the sum of the losses. */
static double head_value(const struct kernels *k, void *context)
{
    struct context *c = context;
    struct head_args *a = c->args;

    k->head_stats(a, alone);
    k->head_merge(a, alone);
    return a->loss[0] + a->loss[1];
}

static void head_differences(void **state)
{
    const struct kernels *k = best();
    struct buffer x = buffer_random(DT_F64, 6 * 5, 1, 1), w = buffer_random(DT_F64, 11 * 5, 2, 1);
    struct buffer dx = buffer_make(DT_F64, 6 * 5), dw = buffer_zero(DT_F64, 11 * 5), scratch;
    int32_t targets[6] = { 3, 0, 10, -1, 3, 7 };
    double stats[6 * 3], lse[6], loss[2];
    struct head_args a = { .x = x.data,
                           .w = w.data,
                           .targets = targets,
                           .stats = stats,
                           .stats_in = stats,
                           .lse = lse,
                           .lse_in = lse,
                           .loss = loss,
                           .dx = dx.data,
                           .dw = dw.data,
                           .B = 2,
                           .S = 3,
                           .D = 5,
                           .rows = 11,
                           .valid = 11,
                           .slices = 1 };
    struct context c = { .args = &a };

    (void)state;
    scratch = buffer_make(DT_U8, (int64_t)k->head_scratch(&a, 1));
    a.scratch = scratch.data;
    for (int64_t step = 0; step < k->head_steps(&a); step++) {
        k->head_backward(&a, true, step, alone);
    }
    check_difference(k, head_value, &c, &x, &dx);
    check_difference(k, head_value, &c, &w, &dw);
    buffer_free(&x);
    buffer_free(&w);
    buffer_free(&dx);
    buffer_free(&dw);
    buffer_free(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_differences), cmocka_unit_test(rmsnorm_differences),
        cmocka_unit_test(swiglu_differences), cmocka_unit_test(attention_differences),
        cmocka_unit_test(head_differences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
