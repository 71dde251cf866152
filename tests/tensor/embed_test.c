#include "kernel_case.h"

struct embed_case {
    int64_t B, S, D, rows, first, pad;
    enum dtype real;
};

static const struct embed_case cases[] = {
    { 1, 1, 1, 1, 0, -1, DT_F32 },     { 2, 7, 3, 8, 0, 5, DT_F32 },
    { 3, 17, 31, 10, 4, -1, DT_F32 },  { 5, 7, 40, 12, 10, 11, DT_F32 },
    { 6, 17, 70, 20, 0, 2, DT_F32 },   { 12, 7, 8, 3, 19, -1, DT_F32 },
    { 4, 9, 1300, 12, 0, -1, DT_F32 },
};

enum { CASES = sizeof cases / sizeof cases[0], WORDS = 23, MOST = 200 };

static void ids_of(const struct embed_case *c, int32_t *ids)
{
    uint64_t state = 9;

    for (int64_t t = 0; t < c->B * c->S; t++) { /* often the same words */
        uint64_t r = random_bits(&state);

        ids[t] = (int32_t)((r & 7) < 3 ? c->first : (int64_t)(r >> 8) % WORDS);
    }
}

static void run_embed(const struct kernels *k, int threads, const void *options,
                      struct outputs *out)
{
    const struct embed_case *c = options;
    int64_t T = c->B * c->S;
    int32_t ids[MOST];
    struct buffer w = buffer_random(c->real, c->rows * c->D, 1, 1),
                  dy = buffer_random(c->real, T * c->D, 2, 1);
    struct embed_args a = { .ids = ids,
                            .w = w.data,
                            .dy = dy.data,
                            .B = c->B,
                            .S = c->S,
                            .D = c->D,
                            .rows = c->rows,
                            .first = c->first,
                            .pad = c->pad };
    struct buffer scratch = buffer_make(DT_U8, (int64_t)k->embed_scratch(&a, threads));

    ids_of(c, ids);
    out->of[0] = buffer_make(c->real, T * c->D);
    out->of[1] = buffer_random(kernels_sum(c->real), c->rows * c->D, 3, 1);
    a.y = out->of[0].data;
    a.dw = out->of[1].data;
    a.scratch = scratch.data;
    FOR_TEAM(t, threads)
    {
        k->embed(&a, t);
        k->embed_dw(&a, t);
    }
    buffer_free(&w);
    buffer_free(&dy);
    buffer_free(&scratch);
}

static void check_embed(const void *options, const struct outputs *out)
{
    const struct embed_case *c = options;
    int64_t T = c->B * c->S;
    int32_t ids[MOST];
    struct buffer w = buffer_random(c->real, c->rows * c->D, 1, 1),
                  dy = buffer_random(c->real, T * c->D, 2, 1),
                  before = buffer_random(kernels_sum(c->real), c->rows * c->D, 3, 1);
    long double *dw = truth_make(c->rows * c->D);

    ids_of(c, ids);
    for (int64_t e = 0; e < c->rows * c->D; e++) {
        dw[e] = (long double)at(&before, e);
    }
    for (int64_t e = 0; e < T * c->D; e++) {
        int64_t id = ids[e / c->D], at_row = (id - c->first) * c->D + e % c->D;

        if (id >= c->first && id < c->first + c->rows) {
            assert_true(at(&out->of[0], e) == at(&w, at_row));
            dw[at_row] += id == c->pad ? 0 : (long double)at(&dy, e);
        } else {
            assert_true(at(&out->of[0], e) == 0);
        }
    }
    assert_near(&out->of[1], dw, tolerance_of(c->real));
    free(dw);
    buffer_free(&w);
    buffer_free(&dy);
    buffer_free(&before);
}

static void embed_looks_up_and_its_derivative_sums(void **state)
{
    (void)state;
    for (int i = 0; i < 3 * CASES; i++) {
        struct embed_case c = cases[i / 3];

        c.real = all_types[i % 3];
        check_families(c.real, run_embed, check_embed, &c);
    }
}

static void embed_dw_of(const struct kernels *k, const struct embed_case *c, int64_t b, int64_t B,
                        struct buffer *dw)
{
    int32_t ids[MOST];
    struct buffer dy = buffer_random(c->real, c->B * c->S * c->D, 2, 1);
    struct embed_args a = { .ids = ids + b * c->S,
                            .dy = from(&dy, b * c->S * c->D),
                            .dw = dw->data,
                            .B = B,
                            .S = c->S,
                            .D = c->D,
                            .rows = c->rows,
                            .first = c->first,
                            .pad = c->pad };
    struct buffer scratch = buffer_make(DT_U8, (int64_t)k->embed_scratch(&a, 2));

    ids_of(c, ids);
    a.scratch = scratch.data;
    FOR_TEAM(t, 2)
    {
        k->embed_dw(&a, t);
    }
    buffer_free(&dy);
    buffer_free(&scratch);
}

static void check_tree(const struct kernels *k, int64_t B)
{
    struct embed_case c = { B, 9, 70, 20, 1, 4, k->real };
    struct buffer dw = buffer_zero(k->sum, c.rows * c.D), each[12];

    embed_dw_of(k, &c, 0, B, &dw);
    for (int64_t b = 0; b < B; b++) {
        each[b] = buffer_zero(k->sum, c.rows * c.D);
        embed_dw_of(k, &c, b, 1, &each[b]);
    }
    tree_reduce(each, B);
    assert_same_bits(&dw, &each[0]);
    for (int64_t b = 0; b < B; b++) {
        buffer_free(&each[b]);
    }
    buffer_free(&dw);
}

static void embed_dw_is_the_row_tree_of_single_sequences(void **state)
{
    static const int64_t batches[] = { 1, 2, 3, 5, 6, 8, 12 };

    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct kernels *all[FAMILIES_MOST];
        size_t n = families_all(all_types[i], all);

        for (size_t f = 0; f < n; f++) {
            for (int b = 0; b < 7; b++) {
                check_tree(all[f], batches[b]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embed_looks_up_and_its_derivative_sums),
        cmocka_unit_test(embed_dw_is_the_row_tree_of_single_sequences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
