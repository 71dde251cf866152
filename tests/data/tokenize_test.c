#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>
#include "support/folder.h"
#include "data/corpus.h"
#include "data/tokenize.h"

struct place {
    struct arena arena;
    const char *folder, *out;
};

static void place_open(struct place *p)
{
    *p = (struct place){ 0 };
    p->folder = folder_new(&p->arena);
    p->out = path_join(&p->arena, p->folder, "out");
}

static void place_close(struct place *p)
{
    EXPECT_OK(folder_remove(p->folder));
    arena_release(&p->arena);
}

/* The rows of a folder as text: tokens as characters, '|' before a document inside a row, '/'
 * after each row. */
static const char *rows_of(struct place *p, const char *folder)
{
    const char *text = "";
    struct corpus c;

    EXPECT_OK(corpus_open(&c, &folder, 1));
    for (int64_t r = 0; r < c.rows; r++) {
        struct row row;

        EXPECT_OK(corpus_row(&c, r, 256, &p->arena, &row));
        for (int64_t i = 0; i < row.length; i++) {
            assert_int_equal(row.ids[i], row.labels[i]);
            text = arena_format(&p->arena, i > 0 && row.starts[i] == i ? "%s|%c" : "%s%c", text,
                                row.ids[i]);
        }
        text = arena_format(&p->arena, "%s/", text);
    }
    corpus_close(&c);
    return text;
}

static const char *train_of(struct place *p)
{
    return rows_of(p, path_join(&p->arena, p->out, "train"));
}

static const char *val_of(struct place *p)
{
    return rows_of(p, path_join(&p->arena, p->out, "val"));
}

static void each_input_begins_a_row(void **state)
{
    struct tokenize_report report;
    struct place p;
    const char *inputs[2];
    struct tokenize_options o = { .inputs = inputs, .input_count = 2, .width = 4 };

    (void)state;
    place_open(&p);
    o.out = p.out;
    inputs[0] = folder_put_text(&p.arena, p.folder, "b", "abcdefghij");
    inputs[1] = folder_put_text(&p.arena, p.folder, "a", "klmn");
    EXPECT_OK(tokenize_bytes(&o, &report));
    assert_string_equal(train_of(&p), "abcd/efgh/ij/klmn/");
    assert_false(file_is_there(path_join(&p.arena, p.out, "val")));
    assert_true(report.inputs == 2 && report.bytes == 14 && report.rows == 4 &&
                report.validation_rows == 0 && report.tokens == 14);
    assert_true(fabs(report.entropy0 - log(14)) < 1e-12); /* fourteen bytes, all different */
    assert_int_equal(folder_count(&p.arena, p.folder), 3);
    place_close(&p);
}

static void the_last_rows_of_each_input_are_held_out(void **state)
{
    struct tokenize_report report;
    struct place p;
    const char *inputs[2];
    struct tokenize_options o = {
        .inputs = inputs, .input_count = 2, .width = 2, .validation = 0.4
    };

    (void)state;
    place_open(&p);
    o.out = p.out;
    inputs[0] = folder_put_text(&p.arena, p.folder, "a", "aabbccdde"); /* 5 rows, 2 held out */
    inputs[1] = folder_put_text(&p.arena, p.folder, "b", "ffgghhii");  /* 9 rows by now, 3 in all */
    EXPECT_OK(tokenize_bytes(&o, &report));
    assert_string_equal(train_of(&p), "aa/bb/cc/ff/gg/hh/");
    assert_string_equal(val_of(&p), "dd/e/ii/");
    assert_true(report.rows == 6 && report.validation_rows == 3 && report.tokens == 17);
    /* Of the held-out bytes d d e i i: two shares of 2/5, one of 1/5. */
    assert_true(fabs(report.entropy0 - (0.8 * log(2.5) + 0.2 * log(5))) < 1e-12);
    place_close(&p);
}

static void documents_share_rows_with_marks(void **state)
{
    struct tokenize_report report;
    struct place p;
    const char *inputs[1];
    struct tokenize_options o = {
        .inputs = inputs, .input_count = 1, .width = 5, .documents = true
    };

    (void)state;
    place_open(&p);
    o.out = p.out;
    EXPECT_OK(folder_make(path_join(&p.arena, p.folder, "in/deeper")));
    inputs[0] = path_join(&p.arena, p.folder, "in");
    folder_put_text(&p.arena, inputs[0], "2", "abc");
    folder_put_text(&p.arena, inputs[0], "1", "ABCDEFG");
    folder_put_text(&p.arena, inputs[0], "3", "x");
    folder_put_text(&p.arena, inputs[0], "4", "yz");
    EXPECT_OK(tokenize_bytes(&o, &report));
    assert_string_equal(train_of(&p), "ABCDE/FG|abc/x|yz/");
    assert_true(report.inputs == 4 && report.rows == 3 && report.tokens == 13);
    place_close(&p);
}

static void held_out_documents_are_packed_by_themselves(void **state)
{
    struct tokenize_report report;
    struct place p;
    const char *inputs[2];
    struct tokenize_options o = {
        .inputs = inputs, .input_count = 2, .width = 3, .validation = 0.5, .documents = true
    };

    (void)state;
    place_open(&p);
    o.out = p.out;
    inputs[0] = folder_put_text(&p.arena, p.folder, "a", "abcde");     /* 2 rows, 1 held out: de */
    inputs[1] = folder_put_text(&p.arena, p.folder, "b", "ABCDEFGHI"); /* 5 rows by now, 2 in all */
    EXPECT_OK(tokenize_bytes(&o, &report));
    assert_string_equal(train_of(&p), "abc/ABC/DEF/");
    assert_string_equal(val_of(&p), "de|G/HI/");
    place_close(&p);
}

static void the_share_is_kept_over_many_small_inputs(void **state)
{
    enum { INPUTS = 50 };
    struct tokenize_report report;
    struct place p;
    const char *inputs[INPUTS];
    struct tokenize_options o = {
        .inputs = inputs, .input_count = INPUTS, .width = 2, .validation = 0.1
    };

    (void)state;
    place_open(&p);
    o.out = p.out;
    for (int i = 0; i < INPUTS; i++) {
        inputs[i] = folder_put_text(&p.arena, p.folder, arena_format(&p.arena, "i%d", i), "abcd");
    }
    EXPECT_OK(tokenize_bytes(&o, &report));
    assert_int_equal(report.validation_rows, 10);
    assert_int_equal(report.rows, 90);
    place_close(&p);
}

/* Every byte value, an input longer than the pieces in which it is read, rows that do not divide
 * it. */
static void bytes_of_any_value_and_size_come_back(void **state)
{
    enum { SIZE = 1500001, WIDTH = 1000 };
    struct tokenize_report report;
    struct place p;
    struct arena a = { 0 };
    const char *input, *train;
    struct corpus c;
    unsigned char *bytes = malloc(SIZE);
    struct tokenize_options o = { .inputs = &input, .input_count = 1, .width = WIDTH };

    (void)state;
    place_open(&p);
    for (int i = 0; i < SIZE; i++) {
        bytes[i] = (unsigned char)(i * 131 + i / 251);
    }
    o.out = p.out;
    input = folder_put(&p.arena, p.folder, "in", bytes, SIZE);
    EXPECT_OK(tokenize_bytes(&o, &report));
    train = path_join(&p.arena, p.out, "train");
    EXPECT_OK(corpus_open(&c, &train, 1));
    assert_int_equal(c.rows, 1501);
    for (int64_t r = 0; r < c.rows; r++) {
        struct row row;

        EXPECT_OK(corpus_row(&c, r, 256, &a, &row));
        assert_int_equal(row.length, r == 1500 ? 1 : WIDTH);
        for (int64_t i = 0; i < row.length; i++) {
            assert_true(row.ids[i] == bytes[r * WIDTH + i]);
        }
        arena_release(&a);
    }
    corpus_close(&c);
    free(bytes);
    place_close(&p);
}

static void what_stands_there_is_replaced_only_if_it_is_ours(void **state)
{
    struct tokenize_report report;
    struct place p;
    const char *inputs[1];
    struct tokenize_options o = {
        .inputs = inputs, .input_count = 1, .width = 4, .validation = 0.5
    };

    (void)state;
    place_open(&p);
    o.out = p.out;
    inputs[0] = folder_put_text(&p.arena, p.folder, "in", "abcdefgh");
    EXPECT_OK(folder_make(p.out)); /* an empty folder is free */
    EXPECT_OK(tokenize_bytes(&o, &report));
    EXPECT_FAIL(ERR_RECIPE, "out: is there already; choose another name, or --force",
                tokenize_bytes(&o, &report));
    o.force = true;
    o.validation = 0;
    EXPECT_OK(tokenize_bytes(&o, &report));
    assert_string_equal(train_of(&p), "abcd/efgh/");
    assert_false(
        file_is_there(path_join(&p.arena, p.out, "val"))); /* nothing is left of the older one */
    assert_int_equal(folder_count(&p.arena, p.folder), 2);

    folder_put_text(&p.arena, path_join(&p.arena, p.out, "train"), "rows-1.json", "mine");
    EXPECT_FAIL(ERR_RECIPE, "rows-1.json: was not made by tokenizing", tokenize_bytes(&o, &report));
    assert_true(file_is_there(path_join(&p.arena, p.out, "train/rows-00000.json")));
    o.out = inputs[0];
    EXPECT_FAIL(ERR_RECIPE, "in: lies in the input", tokenize_bytes(&o, &report));
    o.out = folder_put_text(&p.arena, p.folder, "file", "mine");
    EXPECT_FAIL(ERR_RECIPE, "file: is there and no folder", tokenize_bytes(&o, &report));
    place_close(&p);
}

static void wrong_wishes_are_refused(void **state)
{
    struct tokenize_report report;
    struct place p;
    const char *inputs[1], *good;
    struct tokenize_options o = { .inputs = inputs, .input_count = 1, .width = 4 };

    (void)state;
    place_open(&p);
    o.out = p.out;
    good = inputs[0] = folder_put_text(&p.arena, p.folder, "good", "abcdefgh");
    o.width = 1;
    EXPECT_FAIL(ERR_RECIPE, "rows of 1 tokens: allowed are 2 to", tokenize_bytes(&o, &report));
    o.width = 4;
    o.validation = 1;
    EXPECT_FAIL(ERR_RECIPE, "a held-out share of 1: allowed are 0 (none) to below 1",
                tokenize_bytes(&o, &report));
    o.validation = NAN;
    EXPECT_FAIL(ERR_RECIPE, "a held-out share of nan", tokenize_bytes(&o, &report));
    o.validation = 0.4;
    EXPECT_FAIL(ERR_RECIPE, "2 rows of 4 tokens: a share of 0.4 holds out none; take at least 0.5",
                tokenize_bytes(&o, &report));
    o.validation = 0;
    inputs[0] = path_join(&p.arena, p.folder, "none");
    EXPECT_FAIL(ERR_MISSING, "none: ", tokenize_bytes(&o, &report));
    inputs[0] = folder_put_text(&p.arena, p.folder, "empty", "");
    EXPECT_FAIL(ERR_FORMAT, "empty: is empty", tokenize_bytes(&o, &report));
    inputs[0] = "/dev/zero";
    EXPECT_FAIL(ERR_FORMAT, "/dev/zero: is no regular file", tokenize_bytes(&o, &report));
    EXPECT_OK(folder_make(path_join(&p.arena, p.folder, "hollow/inner")));
    inputs[0] = path_join(&p.arena, p.folder, "hollow");
    EXPECT_FAIL(ERR_MISSING, "hollow: holds no file", tokenize_bytes(&o, &report));
    /* Out in an input, by another spelling too; an input in out. */
    inputs[0] = p.folder;
    assert_int_equal(unlink(path_join(&p.arena, p.folder, "empty")), 0);
    EXPECT_FAIL(ERR_RECIPE, "out: lies in the input", tokenize_bytes(&o, &report));
    assert_int_equal(symlink(p.folder, path_join(&p.arena, p.folder, "hollow/link")), 0);
    inputs[0] = good;
    o.inputs = (const char *const[]){ p.folder };
    o.out = path_join(&p.arena, p.folder, "hollow/link/x/y");
    EXPECT_FAIL(ERR_RECIPE, "hollow/link/x/y: lies in the input", tokenize_bytes(&o, &report));
    o.inputs = inputs;
    o.out = path_join(&p.arena, p.folder, "not-there/../hollow/x");
    EXPECT_FAIL(ERR_RECIPE, "goes up (..) from a folder that is not there",
                tokenize_bytes(&o, &report));
    o.out = p.folder;
    o.force = true;
    EXPECT_FAIL(ERR_RECIPE, "lies in it; choose another folder", tokenize_bytes(&o, &report));
    assert_int_equal(folder_count(&p.arena, p.folder), 2);
    place_close(&p);
}

static void a_full_disk_leaves_nothing(void **state)
{
    enum { SIZE = 200000 };
    struct rlimit before, small;
    struct tokenize_report report;
    struct place p;
    const char *input;
    char *bytes = malloc(SIZE);
    struct tokenize_options o = { .inputs = &input, .input_count = 1, .width = 100 };

    (void)state;
    place_open(&p);
    memset(bytes, 'x', SIZE);
    o.out = p.out;
    input = folder_put(&p.arena, p.folder, "in", bytes, SIZE);
    /* The limit on a file's size stands for a full disk. */
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 500000;
    setrlimit(RLIMIT_FSIZE, &small);
    EXPECT_FAIL(ERR_IO, "train/rows-00000.json: ", tokenize_bytes(&o, &report));
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(folder_count(&p.arena, p.folder), 1);
    free(bytes);
    place_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_input_begins_a_row),
        cmocka_unit_test(the_last_rows_of_each_input_are_held_out),
        cmocka_unit_test(documents_share_rows_with_marks),
        cmocka_unit_test(held_out_documents_are_packed_by_themselves),
        cmocka_unit_test(the_share_is_kept_over_many_small_inputs),
        cmocka_unit_test(bytes_of_any_value_and_size_come_back),
        cmocka_unit_test(what_stands_there_is_replaced_only_if_it_is_ours),
        cmocka_unit_test(wrong_wishes_are_refused),
        cmocka_unit_test(a_full_disk_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
