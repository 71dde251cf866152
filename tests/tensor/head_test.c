#include "kernel_case.h"

struct head_case {
    int64_t B, S, D, rows, valid, first;
    int64_t slab_bytes;
    enum dtype real;
};

static const struct head_case cases[] = {
    { 1, 1, 1, 1, 1, 0, 0, DT_F32 },       { 2, 7, 8, 40, 37, 0, 0, DT_F32 },
    { 3, 17, 31, 300, 290, 0, 0, DT_F32 }, { 5, 7, 3, 700, 700, 0, 1, DT_F32 },
    { 1, 150, 5, 31, 31, 0, 0, DT_F32 },   { 2, 150, 40, 600, 533, 0, 0, DT_F32 },
};

enum { CASES = sizeof cases / sizeof cases[0], MOST = 400 };

/* Some positions have no target; ids beyond the slice are targets of other slices. */
static void targets_of(const struct head_case *c, int64_t words, int32_t *targets)
{
    uint64_t state = 11;

    for (int64_t t = 0; t < c->B * c->S; t++) {
        uint64_t r = random_bits(&state);

        targets[t] = (r & 7) == 0 && t > 0 ? -1 : (int32_t)((int64_t)(r >> 8) % words);
    }
}

static struct head_args arguments(const struct head_case *c, const struct buffer *x,
                                  const struct buffer *w, const int32_t *targets)
{
    return (struct head_args){ .x = x->data,
                               .w = w->data,
                               .targets = targets,
                               .B = c->B,
                               .S = c->S,
                               .D = c->D,
                               .rows = c->rows,
                               .first = c->first,
                               .valid = c->valid,
                               .slices = 1,
                               .ldl = c->valid + 2,
                               .slab_bytes = c->slab_bytes };
}

static struct buffer rows_of(const struct head_case *c)
{
    return buffer_random(c->real, c->B * c->S * c->D, 1, 2);
}

/* Rows of w beyond `valid` are NaN: they must not be read. */
static struct buffer words_of(const struct head_case *c)
{
    struct buffer w = buffer_random(c->real, c->rows * c->D, 2, 1);

    for (int64_t e = c->valid * c->D; e < c->rows * c->D; e++) {
        put(&w, e, NAN);
    }
    return w;
}

static void backward(const struct kernels *k, const struct head_args *a, bool learn, int threads)
{
    for (int64_t step = 0; step < k->head_steps(a); step++) {
        FOR_TEAM(t, threads)
        {
            k->head_backward(a, learn, step, t);
        }
    }
}

/* learn: dx, dw, and lse and loss in one buffer; the logits by themselves. */
static void run_learn(const struct kernels *k, int threads, const void *options,
                      struct outputs *out)
{
    const struct head_case *c = options;
    struct buffer x = rows_of(c), w = words_of(c);
    int32_t targets[MOST];
    struct head_args a = arguments(c, &x, &w, targets);
    struct buffer scratch = buffer_make(DT_U8, (int64_t)k->head_scratch(&a, threads));

    targets_of(c, c->valid, targets);
    out->of[0] = buffer_make(c->real, c->B * c->S * c->D);
    out->of[1] = buffer_random(k->sum, c->rows * c->D, 3, 1);
    out->of[2] = buffer_make(DT_F64, c->B * c->S + c->B);
    out->of[3] = buffer_random(k->sum, c->B * c->S * a.ldl, 4, 1);
    a.dx = out->of[0].data;
    a.dw = out->of[1].data;
    a.lse = out->of[2].data;
    a.loss = a.lse + c->B * c->S;
    a.logits = out->of[3].data;
    a.scratch = scratch.data;
    backward(k, &a, true, threads);
    FOR_TEAM(t, threads)
    {
        k->head_logits(&a, t);
    }
    buffer_free(&x);
    buffer_free(&w);
    buffer_free(&scratch);
}

/* The same by stats, merge and backward. */
static void run_steps(const struct kernels *k, int threads, const void *options,
                      struct outputs *out)
{
    const struct head_case *c = options;
    struct buffer x = rows_of(c), w = words_of(c), stats = buffer_make(DT_F64, c->B * c->S * 3);
    int32_t targets[MOST];
    struct head_args a = arguments(c, &x, &w, targets);
    struct buffer scratch = buffer_make(DT_U8, (int64_t)k->head_scratch(&a, threads));

    targets_of(c, c->valid, targets);
    out->of[0] = buffer_make(c->real, c->B * c->S * c->D);
    out->of[1] = buffer_random(k->sum, c->rows * c->D, 3, 1);
    out->of[2] = buffer_make(DT_F64, c->B * c->S + c->B);
    a.dx = out->of[0].data;
    a.dw = out->of[1].data;
    a.scratch = scratch.data;
    a.stats = stats.data;
    FOR_TEAM(t, threads)
    {
        k->head_stats(&a, t);
    }
    a.stats_in = a.stats;
    a.lse = out->of[2].data;
    a.loss = a.lse + c->B * c->S;
    FOR_TEAM(t, threads)
    {
        k->head_merge(&a, t);
    }
    a.lse_in = a.lse;
    backward(k, &a, false, threads);
    buffer_free(&x);
    buffer_free(&w);
    buffer_free(&stats);
    buffer_free(&scratch);
}

struct truth {
    long double *dx, *dw, *scalars, *logits;
};

static void row_truth(const struct head_case *c, const struct buffer *x, const struct buffer *w,
                      int32_t target, int64_t t, struct truth *truth)
{
    long double *logits = truth->logits + t * (c->valid + 2), sum = 0, lse;

    for (int64_t v = 0; v < c->valid; v++) {
        logits[v] = 0;
        for (int64_t i = 0; i < c->D; i++) {
            logits[v] += (long double)at(x, t * c->D + i) * (long double)at(w, v * c->D + i);
        }
        sum += expl(logits[v]);
    }
    lse = truth->scalars[t] = logl(sum);
    if (target < 0) {
        return;
    }
    truth->scalars[c->B * c->S + t / c->S] += lse - logits[target];
    for (int64_t v = 0; v < c->valid; v++) {
        long double p = expl(logits[v] - lse) - (v == target ? 1 : 0);

        for (int64_t i = 0; i < c->D; i++) {
            truth->dx[t * c->D + i] += p * (long double)at(w, v * c->D + i);
            truth->dw[v * c->D + i] += p * (long double)at(x, t * c->D + i);
        }
    }
}

/* Of a BF16 table p is rounded to bf16 twice, each time by 2^-9 of itself at most; what is made of it
 * is off by as much of its terms. */
static double slope_tolerance(enum dtype real)
{
    return real == DT_BF16 ? 0x1p-7 : tolerance_of(real);
}

static void check_truth(const void *options, const struct outputs *out)
{
    const struct head_case *c = options;
    int64_t T = c->B * c->S, ldl = c->valid + 2;
    struct buffer x = rows_of(c), w = words_of(c),
                  before = buffer_random(out->of[1].type, c->rows * c->D, 3, 1);
    struct buffer between = buffer_random(out->of[1].type, T * ldl, 4, 1);
    struct truth truth = { truth_make(T * c->D), truth_make(c->rows * c->D), truth_make(T + c->B),
                           truth_make(T * ldl) };
    int32_t targets[MOST];

    targets_of(c, c->valid, targets);
    for (int64_t e = 0; e < c->rows * c->D; e++) {
        truth.dw[e] = (long double)at(&before, e);
    }
    for (int64_t e = 0; e < T * ldl; e++) {
        truth.logits[e] = (long double)at(&between, e);
    }
    for (int64_t t = 0; t < T; t++) {
        row_truth(c, &x, &w, targets[t], t, &truth);
    }
    assert_near(&out->of[0], truth.dx, slope_tolerance(c->real));
    assert_near(&out->of[1], truth.dw, slope_tolerance(c->real));
    assert_near(&out->of[2], truth.scalars, tolerance_of(c->real));
    if (out->of[3].base != NULL) {
        assert_near(&out->of[3], truth.logits, tolerance_of(c->real));
    }
    free(truth.dx);
    free(truth.dw);
    free(truth.scalars);
    free(truth.logits);
    buffer_free(&x);
    buffer_free(&w);
    buffer_free(&before);
    buffer_free(&between);
}

/* Two ways of one family that must not differ in a bit. */
static void check_same(enum dtype real, case_fn *one, const void *one_options, case_fn *other,
                       const void *other_options)
{
    const struct kernels *all[FAMILIES_MOST];
    size_t n = families_all(real, all);

    for (size_t f = 0; f < n; f++) {
        struct outputs a = check_teams(all[f], one, one_options),
                       b = check_teams(all[f], other, other_options);

        for (int o = 0; o < 3; o++) {
            assert_same_bits(&a.of[o], &b.of[o]);
        }
        outputs_free(&a);
        outputs_free(&b);
    }
}

static void the_head_learns_what_softmax_says(void **state)
{
    (void)state;
    for (int i = 0; i < 3 * CASES; i++) {
        struct head_case c = cases[i / 3];

        c.real = all_types[i % 3];
        check_families(c.real, run_learn, check_truth, &c);
        check_same(c.real, run_learn, &c, run_steps, &c);
    }
}

/* Bounding the scratch changes the number of steps and no bit. */
static void slabs_change_no_bit(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct head_case whole = { 6, 9, 20, 2000, 1999, 0, 0, all_types[i] }, slabs = whole;
        const struct kernels *all[FAMILIES_MOST];
        size_t n = families_all(all_types[i], all);

        slabs.slab_bytes = 54 * 768 * (int64_t)dtype_bytes(all_types[i]);
        for (size_t f = 0; f < n; f++) {
            struct head_args args = {
                .B = 6, .S = 9, .valid = 1999, .slab_bytes = slabs.slab_bytes
            };

            assert_true(all[f]->head_steps(&args) >= 7); /* at most 768 of 1,999 words at a time */
        }
        check_same(all_types[i], run_learn, &whole, run_learn, &slabs);
    }
}

/* Two slices of the vocabulary: merged stats and summed derivatives are those of the whole. */
static void check_slices(enum dtype real, const struct kernels *k)
{
    struct head_case c = { 2, 7, 20, 50, 50, 0, 0, real };
    int64_t T = c.B * c.S, cut = 30;
    struct outputs out = { 0 };
    struct buffer x = rows_of(&c), w = words_of(&c), stats = buffer_make(DT_F64, 2 * T * 3);
    struct buffer part = buffer_make(c.real, T * c.D), scratch;
    int32_t targets[MOST];
    struct head_args a = arguments(&c, &x, &w, targets);

    targets_of(&c, c.valid, targets);
    scratch = buffer_make(DT_U8, (int64_t)k->head_scratch(&a, 1));
    out.of[0] = buffer_make(c.real, T * c.D);
    out.of[1] = buffer_random(k->sum, c.rows * c.D, 3, 1);
    out.of[2] = buffer_make(DT_F64, T + c.B);
    a.scratch = scratch.data;
    a.lse = out.of[2].data;
    a.loss = a.lse + T;
    for (int64_t s = 0; s < 2; s++) {
        a.first = s * cut;
        a.valid = s == 0 ? cut : c.valid - cut;
        a.w = from(&w, a.first * c.D);
        a.stats = (double *)stats.data + s * T * 3;
        k->head_stats(&a, (struct team){ 0, 1 });
    }
    a.slices = 2;
    a.stats_in = stats.data;
    k->head_merge(&a, (struct team){ 0, 1 });
    a.lse_in = a.lse;
    for (int64_t s = 0; s < 2; s++) {
        a.first = s * cut;
        a.valid = s == 0 ? cut : c.valid - cut;
        a.w = from(&w, a.first * c.D);
        a.dx = s == 0 ? out.of[0].data : part.data;
        a.dw = from(&out.of[1], a.first * c.D);
        backward(k, &a, false, 1);
    }
    for (int64_t e = 0; e < T * c.D; e++) {
        put(&out.of[0], e, at(&out.of[0], e) + at(&part, e));
    }
    check_truth(&c, &out);
    outputs_free(&out);
    buffer_free(&x);
    buffer_free(&w);
    buffer_free(&stats);
    buffer_free(&part);
    buffer_free(&scratch);
}

static void slices_of_the_vocabulary_add_up(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct kernels *all[FAMILIES_MOST];
        size_t n = families_all(all_types[i], all);

        for (size_t f = 0; f < n; f++) {
            check_slices(all_types[i], all[f]);
        }
    }
}

/* Sequences [b, b + B) of a batch. */
static struct outputs part_of(const struct kernels *k, const struct head_case *c, int64_t b,
                              int64_t B)
{
    struct buffer x = rows_of(c), w = words_of(c), scratch;
    int32_t targets[MOST];
    struct head_args a = arguments(c, &x, &w, targets);
    struct outputs out = { { buffer_make(c->real, B * c->S * c->D),
                             buffer_zero(k->sum, c->rows * c->D), buffer_make(DT_F64, B * c->S + B),
                             buffer_make(k->sum, B * c->S * c->valid) } };

    targets_of(c, c->valid, targets);
    a.B = B;
    a.x = from(&x, b * c->S * c->D);
    a.targets = targets + b * c->S;
    a.ldl = c->valid;
    scratch = buffer_make(DT_U8, (int64_t)k->head_scratch(&a, 2));
    a.scratch = scratch.data;
    a.dx = out.of[0].data;
    a.dw = out.of[1].data;
    a.lse = out.of[2].data;
    a.loss = a.lse + B * c->S;
    a.logits = out.of[3].data;
    backward(k, &a, true, 2);
    FOR_TEAM(t, 2)
    {
        k->head_logits(&a, t);
    }
    buffer_free(&x);
    buffer_free(&w);
    buffer_free(&scratch);
    return out;
}

static void check_tree(const struct kernels *k, const struct head_case *c)
{
    struct outputs whole = part_of(k, c, 0, c->B), one[12];
    struct buffer sums[12];

    for (int64_t b = 0; b < c->B; b++) {
        one[b] = part_of(k, c, b, 1);
        sums[b] = one[b].of[1];
        assert_memory_equal(one[b].of[0].data, from(&whole.of[0], b * c->S * c->D),
                            one[b].of[0].bytes);
        assert_memory_equal(one[b].of[2].data, from(&whole.of[2], b * c->S),
                            (size_t)c->S * sizeof(double));
        assert_true(at(&one[b].of[2], c->S) == at(&whole.of[2], c->B * c->S + b));
        assert_memory_equal(one[b].of[3].data, from(&whole.of[3], b * c->S * c->valid),
                            one[b].of[3].bytes);
    }
    tree_reduce(sums, c->B);
    assert_same_bits(&whole.of[1], &sums[0]);
    for (int64_t b = 0; b < c->B; b++) {
        outputs_free(&one[b]);
    }
    outputs_free(&whole);
}

static void a_batch_is_the_row_tree_of_its_sequences(void **state)
{
    static const int64_t batches[] = { 1, 2, 3, 5, 6, 8, 12 };

    (void)state;
    for (int i = 0; i < 21; i++) {
        struct head_case c = { batches[i / 3], 9, 33, 300, 290, 0, 0, all_types[i % 3] };
        const struct kernels *all[FAMILIES_MOST];
        size_t n = families_all(c.real, all);

        for (size_t f = 0; f < n; f++) {
            check_tree(all[f], &c);
        }
    }
}

/* A frozen head, or one below which nothing is trained. */
static void a_derivative_that_nobody_wants_is_left_out(void **state)
{
    struct head_case c = { 2, 7, 8, 40, 37, 0, 0, DT_F32 };
    const struct kernels *k;
    struct outputs whole;
    struct buffer x = rows_of(&c), w = words_of(&c), dx = buffer_make(c.real, 14 * 8), scratch;
    int32_t targets[MOST];
    struct head_args a = arguments(&c, &x, &w, targets);
    double lse[14], loss[2];

    (void)state;
    EXPECT_OK(kernels_find(c.real, &k));
    whole = part_of(k, &c, 0, 2);
    targets_of(&c, c.valid, targets);
    scratch = buffer_make(DT_U8, (int64_t)k->head_scratch(&a, 1));
    a.scratch = scratch.data;
    a.lse = lse;
    a.loss = loss;
    a.dx = dx.data;
    backward(k, &a, true, 1);
    assert_same_bits(&dx, &whole.of[0]);
    a.dx = NULL;
    a.dw = buffer_zero(c.real, 40 * 8).data;
    backward(k, &a, true, 1);
    assert_memory_equal(a.dw, whole.of[1].data, whole.of[1].bytes);
    free((char *)a.dw - GUARD_BYTES);
    buffer_free(&x);
    buffer_free(&w);
    buffer_free(&dx);
    buffer_free(&scratch);
    outputs_free(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_head_learns_what_softmax_says),
        cmocka_unit_test(slabs_change_no_bit),
        cmocka_unit_test(slices_of_the_vocabulary_add_up),
        cmocka_unit_test(a_batch_is_the_row_tree_of_its_sequences),
        cmocka_unit_test(a_derivative_that_nobody_wants_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
