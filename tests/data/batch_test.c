#include "support/folder.h"
#include "data/batch.h"

enum { S = 6, VOCAB = 1000 };

/* A corpus of `rows` rows of one token, whose id is the row's number. */
static const char *open_counting(struct arena *a, struct corpus *c, int rows)
{
    const char *folder = folder_new(a), *text = "";

    for (int i = 0; i < rows; i++) {
        text = arena_format(a, "%s{\"input_ids\":[%d],\"attention_mask\":[1],\"labels\":[%d]}\n",
                            text, i, i);
    }
    folder_put_text(a, folder, "rows.json", text);
    EXPECT_OK(corpus_open(c, &folder, 1));
    return folder;
}

/* Rank r's batch j of slot b is row (j B + b) D + r of a pass: facts of the reference, every
 * pass alike. */
static void rows_are_those_of_the_reference(void **state)
{
    enum { ROWS = 23, B = 3, D = 2 };
    struct arena a = { 0 };
    struct corpus c;
    const char *folder = open_counting(&a, &c, ROWS);

    (void)state;
    for (int r = 0; r < D; r++) {
        struct sampler s;
        struct batch batch;

        EXPECT_OK(sampler_open(&s, &c, B, S, VOCAB, r, D));
        batch_make(&batch, &a, B, S);
        assert_int_equal(s.global_batches, 3);
        for (int64_t m = 10; m >= 0;
             m--) { /* backwards: nothing depends on what was taken before */
            EXPECT_OK(sampler_take(&s, m, &batch));
            for (int64_t b = 0; b < B; b++) {
                int64_t row = (m % 3 * B + b) * D + r;

                assert_int_equal(batch.rows[b], row);
                assert_int_equal(batch.ids[b * S], row);
            }
        }
        sampler_close(&s);
    }
    corpus_close(&c);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

/* The reference's vector for a resume: 7 rows, B = 1, D = 1, at 3: four batches are left of the
 * pass. */
static void any_position_is_reached_at_once(void **state)
{
    struct arena a = { 0 };
    struct corpus c;
    const char *folder = open_counting(&a, &c, 7);
    struct sampler s;
    struct batch batch;

    (void)state;
    EXPECT_OK(sampler_open(&s, &c, 1, S, VOCAB, 0, 1));
    batch_make(&batch, &a, 1, S);
    assert_int_equal(sampler_at(&s, 3), 3);
    for (int64_t m = sampler_at(&s, 3); m < 7; m++) {
        EXPECT_OK(sampler_take(&s, m, &batch));
        assert_int_equal(batch.ids[0], m);
    }
    assert_int_equal(s.counts.taken, 4);
    assert_int_equal(sampler_rows_consumed(&s, 7), 7);
    EXPECT_OK(sampler_take(&s, sampler_at(&s, 7000000000003), &batch));
    assert_int_equal(batch.ids[0], 3);
    sampler_close(&s);
    corpus_close(&c);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

static void positions_and_batches_are_inverse(void **state)
{
    enum { ROWS = 23 };
    struct arena a = { 0 };
    struct corpus c;
    const char *folder = open_counting(&a, &c, ROWS);

    (void)state;
    for (int n = 1; n <= ROWS; n++) {
        struct sampler s;

        EXPECT_OK(sampler_open(&s, &c, n, S, VOCAB, 0, 1));
        for (int64_t m = 0; m < 100; m++) {
            int64_t rows = sampler_rows_consumed(&s, m);

            assert_int_equal(rows, m / (ROWS / n) * ROWS + m % (ROWS / n) * n);
            assert_int_equal(sampler_at(&s, rows), m);
        }
        for (int64_t rows = 0; rows < 4 * ROWS; rows++) {
            /* Under another n the position may lie inside: no row is passed by, except those of
             * an incomplete batch. */
            int64_t back = sampler_rows_consumed(&s, sampler_at(&s, rows));

            assert_true(back <= rows || (back % ROWS == 0 && rows % ROWS >= ROWS / n * n));
        }
        sampler_close(&s);
    }
    corpus_close(&c);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

/* The rows of a global micro-batch, sorted, for one way to divide n. */
static void global_rows(const struct corpus *c, int D, int64_t B, int64_t m, int64_t *rows)
{
    int64_t seen[64] = { 0 };
    int count = 0;

    for (int r = 0; r < D; r++) {
        struct arena a = { 0 };
        struct sampler s;
        struct batch batch;

        EXPECT_OK(sampler_open(&s, c, B, S, VOCAB, r, D));
        batch_make(&batch, &a, B, S);
        EXPECT_OK(sampler_take(&s, m, &batch));
        for (int64_t b = 0; b < B; b++) {
            seen[batch.rows[b]]++;
        }
        sampler_close(&s);
        arena_release(&a);
    }
    for (int i = 0; i < 64; i++) {
        assert_true(seen[i] <= 1);
        if (seen[i] == 1) {
            rows[count++] = i;
        }
    }
    assert_int_equal(count, B * D);
}

static void data_ranks_do_not_change_the_rows_of_a_step(void **state)
{
    struct arena a = { 0 };
    struct corpus c;
    const char *folder = open_counting(&a, &c, 30);

    (void)state;
    for (int64_t m = 0; m < 8; m++) {
        int64_t want[8], got[8];

        global_rows(&c, 1, 8, m, want);
        for (int D = 2; D <= 8; D *= 2) {
            global_rows(&c, D, 8 / D, m, got);
            assert_memory_equal(got, want, sizeof want);
        }
    }
    corpus_close(&c);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

static void rows_are_counted_once_over_all_ranks(void **state)
{
    enum { ROWS = 23, D = 4, B = 2 };
    struct arena a = { 0 };
    struct corpus c;
    const char *folder = open_counting(&a, &c, ROWS);
    int64_t taken = 0, passed_over = 0, padded = 0;

    (void)state;
    for (int r = 0; r < D; r++) {
        struct sampler s;
        struct batch batch;

        EXPECT_OK(sampler_open(&s, &c, B, S, VOCAB, r, D));
        batch_make(&batch, &a, B, S);
        for (int64_t m = 0; m < 4; m++) { /* two passes of two */
            EXPECT_OK(sampler_take(&s, m, &batch));
        }
        taken += s.counts.taken;
        passed_over += s.counts.passed_over;
        padded += s.counts.padded;
        assert_int_equal(sampler_rows_consumed(&s, 4), 2 * ROWS);
        sampler_close(&s);
    }
    assert_int_equal(taken, 32);
    assert_int_equal(passed_over, 2 * ROWS - 32);
    assert_int_equal(padded, 32);
    corpus_close(&c);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

static void too_few_rows_are_refused(void **state)
{
    struct arena a = { 0 };
    struct corpus c;
    const char *folder = open_counting(&a, &c, 7);
    struct sampler s;

    (void)state;
    EXPECT_FAIL(ERR_RECIPE,
                "the data set has 7 rows, one step of 2 sequences on each of 4 data ranks needs 8",
                sampler_open(&s, &c, 2, S, VOCAB, 0, 4));
    EXPECT_FAIL(ERR_RECIPE, "has 7 rows", sampler_open(&s, &c, INT64_MAX, S, VOCAB, 0, 4));
    EXPECT_OK(sampler_open(&s, &c, 7, S, VOCAB, 0, 1));
    sampler_close(&s);
    sampler_close(&s);
    corpus_close(&c);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

/* Puts a row of ids 1, 2, 3, ... with given starts and labels and compares the slot. */
static void expect_slot(struct batch *b, int64_t length, int32_t *labels, int32_t *starts,
                        const int32_t want[4][S], int64_t valid)
{
    int32_t ids[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    struct row row = { .length = length, .ids = ids, .labels = labels, .starts = starts };

    batch_put(b, 1, &row);
    assert_memory_equal(b->ids + S, want[0], S * sizeof(int32_t));
    assert_memory_equal(b->targets + S, want[1], S * sizeof(int32_t));
    assert_memory_equal(b->positions + S, want[2], S * sizeof(int32_t));
    assert_memory_equal(b->starts + S, want[3], S * sizeof(int32_t));
    assert_int_equal(b->valid, valid);
}

static void rows_become_rectangles(void **state)
{
    int32_t labels[8] = { 11, 12, 13, 14, 15, 16, 17, 18 },
            masked[8] = { -100, -100, 13, -100, 15, 16, 17, 18 };
    int32_t whole[8] = { 0 }, packed[8] = { 0, 0, 2, 2, 2, 5, 5, 5 },
            singles[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    struct arena a = { 0 };
    struct batch b;

    (void)state;
    batch_make(&b, &a, 2, S);
    assert_int_equal(b.valid, 0);
    assert_int_equal(b.targets[0], -1);
    /* Exactly as wide: shifted, the last position has no target. */
    expect_slot(&b, 6, labels, whole,
                (const int32_t[4][S]){
                    { 1, 2, 3, 4, 5, 6 }, { 12, 13, 14, 15, 16, -1 }, { 0, 1, 2, 3, 4, 5 }, { 0 } },
                5);
    /* Longer: cut, then shifted; what was cut is no target. */
    expect_slot(&b, 8, labels, whole,
                (const int32_t[4][S]){
                    { 1, 2, 3, 4, 5, 6 }, { 12, 13, 14, 15, 16, -1 }, { 0, 1, 2, 3, 4, 5 }, { 0 } },
                5);
    /* Shorter: padded with zeros that are a document of their own. */
    expect_slot(&b, 4, masked, whole,
                (const int32_t[4][S]){ { 1, 2, 3, 4, 0, 0 },
                                       { -1, 13, -1, -1, -1, -1 },
                                       { 0, 1, 2, 3, 0, 1 },
                                       { 0, 0, 0, 0, 4, 4 } },
                1);
    /* Packed: no document predicts the first token of the next. */
    expect_slot(&b, 8, labels, packed,
                (const int32_t[4][S]){ { 1, 2, 3, 4, 5, 6 },
                                       { 12, -1, 14, 15, -1, -1 },
                                       { 0, 1, 0, 1, 2, 0 },
                                       { 0, 0, 2, 2, 2, 5 } },
                3);
    expect_slot(&b, 6, labels, singles,
                (const int32_t[4][S]){
                    { 1, 2, 3, 4, 5, 6 }, { -1, -1, -1, -1, -1, -1 }, { 0 }, { 0, 1, 2, 3, 4, 5 } },
                0);
    expect_slot(
        &b, 0, labels, whole,
        (const int32_t[4][S]){ { 0 }, { -1, -1, -1, -1, -1, -1 }, { 0, 1, 2, 3, 4, 5 }, { 0 } }, 0);
    arena_release(&a);
}

static void long_rows_are_cut_and_counted_or_refused(void **state)
{
    struct arena a = { 0 };
    const char *folder = folder_new(&a);
    struct sampler s;
    struct corpus c;
    struct batch batch;

    (void)state;
    folder_put_text(&a, folder, "r.json",
                    "{\"input_ids\":[1,2,3],\"attention_mask\":[1,1,1],\"labels\":[1,2,3]}\n"
                    "{\"input_ids\":[1],\"attention_mask\":[1],\"labels\":[1]}\n");
    EXPECT_OK(corpus_open(&c, &folder, 1));
    EXPECT_OK(sampler_open(&s, &c, 2, 2, VOCAB, 0, 1));
    batch_make(&batch, &a, 2, 2);
    EXPECT_OK(sampler_take(&s, 0, &batch));
    assert_int_equal(s.counts.cut, 1);
    assert_int_equal(s.counts.padded, 1);
    assert_int_equal(batch.valid, 1);
    s.strict = true;
    EXPECT_FAIL(ERR_FORMAT, "r.json:1: the row has 3 tokens, the sequences of this run have 2",
                sampler_take(&s, 0, &batch));
    sampler_close(&s);
    corpus_close(&c);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_the_reference),
        cmocka_unit_test(any_position_is_reached_at_once),
        cmocka_unit_test(positions_and_batches_are_inverse),
        cmocka_unit_test(data_ranks_do_not_change_the_rows_of_a_step),
        cmocka_unit_test(rows_are_counted_once_over_all_ranks),
        cmocka_unit_test(too_few_rows_are_refused),
        cmocka_unit_test(rows_become_rectangles),
        cmocka_unit_test(long_rows_are_cut_and_counted_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
