/*
 * The whole model: its gradient against differences, and the promises about bits: recomputation,
 * threads, the row tree.
 */
#include <math.h>

#include "support/tiny.h"

/* ---- against differences, in double ---- */

static double moved_loss(struct tiny *t, val flat, int64_t i, double to)
{
    device_write(&t->d, &t->p, flat, i, 1, &to);
    EXPECT_OK(program_run(&t->p, &t->d, NULL));
    return tiny_loss(t);
}

/* Fourth order, step 1e-3: the error of the formula is about 1e-11 of the largest entry;
 * tolerance 1e-6. Every 7th number. */
static void expect_gradient(const struct tiny_options *o)
{
    struct tiny t;
    double worst = 0, largest = 0;

    tiny_open(&t, o);
    tiny_run(&t, 0);
    for (int g = 0; g < t.model.weights->count; g++) {
        const struct weight_segment *s = &t.model.weights->segments[g];
        val flat = program_find(&t.p, arena_format(&t.arena, "weight.%s", s->name));
        int64_t count;
        double *got;

        tiny_run(&t, 0);
        got = tiny_gradient(&t, g, &count);
        for (int k = 0; k < s->count; k++) {
            int64_t size = s->parts[k].local[0] * s->parts[k].local[1];

            for (int64_t i = s->parts[k].at; i < s->parts[k].at + size; i += 7) {
                double x, h = 1e-3, want;

                device_read(&t.d, &t.p, flat, i, 1, &x);
                want = (8 * (moved_loss(&t, flat, i, x + h) - moved_loss(&t, flat, i, x - h)) -
                        (moved_loss(&t, flat, i, x + 2 * h) - moved_loss(&t, flat, i, x - 2 * h))) /
                       (12 * h);
                device_write(&t.d, &t.p, flat, i, 1, &x);
                worst = fmax(worst, fabs(want - got[i]));
                largest = fmax(largest, fabs(want));
            }
        }
        free(got);
    }
    print_message("worst difference %.1e of the largest entry %.2g\n", worst / largest, largest);
    assert_true(largest > 0.1);
    assert_true(worst <= 1e-6 * largest);
    tiny_close(&t);
}

static void gradient_agrees_with_differences(void **state)
{
    struct tiny_options o = { .real = DT_F64, .B = 2, .S = 6, .layers = 2 };

    (void)state;
    expect_gradient(&o);
}

static void gradient_of_tied_biased_windowed_agrees_with_differences(void **state)
{
    struct tiny_options o = { .real = DT_F64,
                              .B = 3,
                              .S = 6,
                              .layers = 2,
                              .tied = true,
                              .biases = true,
                              .window = 3,
                              .flags = MODEL_RECOMPUTE };

    (void)state;
    expect_gradient(&o);
}

/* ---- bits ---- */

static void expect_same_bits(const struct tiny_options *a, const struct tiny_options *b)
{
    struct tiny x, y;

    tiny_open(&x, a);
    tiny_open(&y, b);
    tiny_run(&x, 3);
    tiny_run(&y, 3);
    tiny_expect_same(&x, &y);
    tiny_close(&x);
    tiny_close(&y);
}

static const enum dtype both[] = { DT_F32, DT_F64 };

static void recomputation_changes_no_bit(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct tiny_options plain = { .real = both[i],
                                      .B = 5,
                                      .S = 17,
                                      .layers = 3,
                                      .biases = true },
                            again = plain;

        again.flags = MODEL_RECOMPUTE;
        expect_same_bits(&plain, &again);
    }
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct tiny_options one = { .real = both[i],
                                    .B = 6,
                                    .S = 19,
                                    .layers = 2,
                                    .threads = 1,
                                    .tied = true },
                            more = one;

        for (more.threads = 2; more.threads <= 3; more.threads++) {
            expect_same_bits(&one, &more);
        }
    }
}

static void recomputation_needs_less_memory(void **state)
{
    struct tiny_options o = { .real = DT_F32, .B = 4, .S = 512, .layers = 12 };
    struct tiny plain, again;

    (void)state;
    tiny_open(&plain, &o);
    o.flags = MODEL_RECOMPUTE;
    tiny_open(&again, &o);
    print_message("temporaries: %lld bytes, with recomputation %lld\n",
                  (long long)plain.plan.temp_bytes, (long long)again.plan.temp_bytes);
    assert_true(again.plan.temp_bytes * 3 < plain.plan.temp_bytes);
    tiny_close(&plain);
    tiny_close(&again);
}

/* ---- the row tree: the gradient of n rows is the tree over n calls of one row ---- */

static void add_rows(void *sum, const void *more, int64_t count, enum dtype real)
{
    for (int64_t i = 0; i < count; i++) {
        if (real == DT_F64) {
            ((double *)sum)[i] += ((const double *)more)[i];
        } else {
            ((float *)sum)[i] += ((const float *)more)[i];
        }
    }
}

/* The tree as the design words it, not as the kernels walk it: residues of 2^k in order, then
 * halves. */
static void *tree_of(void **leaf, int64_t n, int64_t count, enum dtype real)
{
    int64_t width = n & -n;

    for (int64_t r = 0; r < width; r++) {
        for (int64_t j = r + width; j < n; j += width) {
            add_rows(leaf[r], leaf[j], count, real);
        }
    }
    for (int64_t half = width / 2; half >= 1; half /= 2) {
        for (int64_t r = 0; r < half; r++) {
            add_rows(leaf[r], leaf[r + half], count, real);
        }
    }
    return leaf[0];
}

static void expect_tree(int64_t n, enum dtype real, bool tied)
{
    struct tiny_options many = { .real = real,
                                 .B = n,
                                 .S = 13,
                                 .layers = 1,
                                 .biases = true,
                                 .tied = tied },
                        one = many;
    struct tiny x, y;
    void *leaf[16];

    one.B = 1;
    tiny_open(&x, &many);
    tiny_open(&y, &one);
    tiny_run(&x, 0);
    /* Tied: two terms, each a tree of its own; the root is left to the untied case. */
    for (int g = tied ? 1 : 0; g < x.model.weights->count; g++) {
        int64_t count;
        void *got = tiny_gradient(&x, g, &count);

        for (int64_t i = 0; i < n; i++) {
            tiny_run(&y, i);
            leaf[i] = tiny_gradient(&y, g, &count);
        }
        assert_memory_equal(tree_of(leaf, n, count, real), got, (size_t)count * dtype_bytes(real));
        for (int64_t i = 0; i < n; i++) {
            free(leaf[i]);
        }
        free(got);
    }
    tiny_close(&x);
    tiny_close(&y);
}

static void gradient_of_rows_is_the_tree_over_single_rows(void **state)
{
    static const int64_t counts[] = { 2, 3, 4, 5, 6, 8, 12 };

    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        expect_tree(counts[i], DT_F32, false);
        expect_tree(counts[i], DT_F64, i % 2 == 0);
    }
}

/* ---- rows: the logits of one do not depend on its neighbours ---- */

/* The logits of rows first, first + 1, ...; freed by the caller. */
static void *logits_of(const struct tiny_options *o, int64_t first, size_t *row_bytes)
{
    struct tiny t;
    struct program p;
    struct model_inputs in;
    struct memory_plan plan;
    val logits;
    void *out;

    tiny_write(&t, o);
    program_init(&p, "learn", &t.arena, &t.mesh, o->real);
    in = model_inputs(&p, o->B, o->S);
    logits = model_logits(&p, &t.model, &in);
    program_keep(&p, logits);
    EXPECT_OK(program_plan(&p, &t.residents, t.kernels, 2, &plan));
    EXPECT_OK(device_open(&t.d, t.kernels, &t.mesh, 2, &t.residents));
    t.p = p;
    t.in = in;
    weights_init(t.model.weights, &t.d, &t.p, 11);
    for (int64_t i = 0; i < o->B; i++) {
        tiny_row(&t, i, first + i);
    }
    EXPECT_OK(program_run(&t.p, &t.d, NULL));
    *row_bytes = (size_t)(o->S * t.spec.vocab) * dtype_bytes(o->real);
    out = calloc((size_t)o->B, *row_bytes);
    device_read(&t.d, &t.p, logits, 0, o->B * o->S * t.spec.vocab, out);
    tiny_close(&t);
    return out;
}

static void logits_do_not_depend_on_neighbours(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct tiny_options many = { .real = both[i],
                                     .B = 5,
                                     .S = 17,
                                     .layers = 2,
                                     .biases = true },
                            one = many;
        size_t bytes;
        char *all = logits_of(&many, 0, &bytes);

        one.B = 1;
        for (int64_t row = 0; row < many.B; row++) {
            void *alone = logits_of(&one, row, &bytes);

            assert_memory_equal(all + (size_t)row * bytes, alone, bytes);
            free(alone);
        }
        free(all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_agrees_with_differences),
        cmocka_unit_test(gradient_of_tied_biased_windowed_agrees_with_differences),
        cmocka_unit_test(recomputation_changes_no_bit),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(recomputation_needs_less_memory),
        cmocka_unit_test(gradient_of_rows_is_the_tree_over_single_rows),
        cmocka_unit_test(logits_do_not_depend_on_neighbours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
