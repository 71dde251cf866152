/* What a picture of a run shows, and that a resumed run's is that of one that was never stopped. */
#include <math.h>

#include "base/log.h"
#include "support/folder.h"
#include "train/curve.h"
#include "train/tiny_train.h"

static struct curve c;
static struct text out;

static int begin(void **state)
{
    (void)state;
    c = (struct curve){ 0 };
    text_clear(&out);
    return 0;
}

static int count_of(const char *text, const char *what)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what)) {
        n++;
    }
    return n;
}

/* ---- gathering ---- */

static void a_long_run_fits_and_loses_no_extreme(void **state)
{
    double least = INFINITY, most = -INFINITY, sum = 0;
    int64_t count = 0;

    (void)state;
    assert_true(curve_is_empty(&c));
    for (int64_t step = 1; step <= 100000; step++) {
        curve_add(&c, step, step == 777 ? 99 : 1 + 1 / (double)step, 0.1);
    }
    curve_add(&c, 100001, NAN, 0.1);
    curve_add(&c, 100002, -INFINITY, 0.1);
    assert_int_equal(c.last, 100002);
    assert_int_equal(curve_lost(&c), 2);
    assert_true(c.span * CURVE_BUCKETS > 100000 && c.span * CURVE_BUCKETS <= 200000);
    for (int i = 0; i < CURVE_BUCKETS; i++) {
        if (c.train[i].count > 0) {
            least = fmin(least, c.train[i].least);
            most = fmax(most, c.train[i].most);
            sum += c.train[i].sum;
            count += c.train[i].count;
        }
    }
    assert_int_equal(count, 100000);
    assert_true(most == 99 && least == 1 + 1e-5);
    assert_true(fabs(sum - (100000 + 98 - 1.0 / 777 + 12.090146129863428)) < 1e-6);
}

/* A bucket of skipped steps only has no least loss to give. */
static void skipped_steps_spoil_no_neighbour(void **state)
{
    (void)state;
    for (int64_t step = 0; step < 2 * CURVE_BUCKETS; step++) {
        curve_add(&c, step, step % 2 == 0 ? NAN : 5, 0.1);
    }
    assert_int_equal(c.span, 2);
    for (int i = 0; i < CURVE_BUCKETS; i++) {
        assert_true(c.train[i].least == 5 && c.train[i].most == 5 && c.train[i].sum == 5);
        assert_true(c.train[i].count == 1 && c.train[i].lost == 1);
    }
}

static void lines_of_metrics_become_the_same_curve(void **state)
{
    static const struct {
        const char *line;
        int64_t step;
    } lines[] = {
        { "{\"step\":1,\"loss\":2.5,\"grad_norm\":1,\"lr\":0.01,\"next_lr\":0.02}\n", 1 },
        { "{\"step\":2,\"loss\":2.25,\"grad_norm\":1,\"lr\":0.02,\"next_lr\":0.02}\n", 2 },
        { "{\"step\":2,\"val_loss\":2.75,\"perplexity\":15.6}\n", 2 },
        { "no line of ours\n", -1 },
        { "{\"step\":-4,\"loss\":2}\n", -1 },
        { "{\"step\":9223372036854775807,\"loss\":2}\n", -1 },
        { "{\"step\":3,\"loss\":null,\"grad_norm\":1,\"lr\":0.03}\n", 3 },
        { "{\"step\":4,\"loss\":0.0,\"grad_norm\":0,\"lr\":0.04,\"skipped\":true}\n", 4 },
    };
    static struct curve read;

    (void)state;
    read = (struct curve){ 0 };
    curve_add(&c, 1, 2.5, 0.01);
    curve_add(&c, 2, 2.25, 0.02);
    curve_add_validation(&c, 2, 2.75);
    curve_add(&c, 3, NAN, 0.03);
    curve_add(&c, 4, NAN, 0.04);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_equal(curve_read_line(&read, lines[i].line), lines[i].step);
    }
    assert_memory_equal(&c, &read, sizeof c);
}

/* ---- scales ---- */

static void a_peak_neither_bends_the_line_nor_presses_it_flat(void **state)
{
    double line[CURVE_BUCKETS];
    struct curve_scale s;

    (void)state;
    for (int64_t step = 1; step <= 500; step++) {
        curve_add(&c, step, step == 300 ? 1e6 : 8 - (double)step / 100, 0.1);
    }
    s = curve_losses(&c, 6);
    assert_true(s.from <= 3 && s.to >= 7.99 && s.to < 20 && s.highest == 1e6);
    curve_smooth(&c, line);
    assert_true(fabs(line[1] - 7.99) < 1e-12);
    for (int i = 2; i <= 500; i++) {
        assert_true(line[i] <= line[i - 1] && fabs(line[i] - (8 - i / 100.0)) < 0.06);
    }
    curve_svg(&c, "peak", "", &out);
    assert_int_equal(count_of(text_of(&out), "highest: 1e+06 near step 300"), 1);
}

static void labels_are_round_and_differ(void **state)
{
    static const struct {
        double x, step;
        const char *label;
    } cases[] = {
        { 2.5, 0.5, "2.5" },
        { 3, 0.5, "3.0" },
        { 12, 2, "12" },
        { 1e-17, 0.5, "0" },
        { 0.0003, 0.0001, "0.0003" },
        { 2e-5, 1e-5, "2e-5" },
        { 1.5e-5, 5e-6, "1.5e-5" },
        { 2e6, 1e6, "2e6" },
        { 1.234566, 2e-6, "1.234566" },
    };
    char label[32];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(curve_value_label(label, cases[i].x, cases[i].step), cases[i].label);
    }
    assert_string_equal(curve_step_label(label, 9000), "9000");
    assert_string_equal(curve_step_label(label, 20000), "20k");
    assert_string_equal(curve_step_label(label, 2.5e6), "2.5M");
}

/* ---- SVG ---- */

static void check_svg(void)
{
    const char *svg = text_of(&out);

    assert_true(text_starts(svg, "<svg xmlns="));
    assert_true(text_ends(svg, "</svg>\n"));
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
    assert_int_equal(text_utf8_valid(svg, out.length), out.length);
    assert_true(out.length < 60000);
}

static void texts_are_escaped_and_cut(void **state)
{
    (void)state;
    curve_add(&c, 1, 2, 0);
    curve_add(&c, 2, 1, 0);
    curve_svg(&c, "a <b> & c\n\xff", "5 < 6", &out);
    check_svg();
    assert_int_equal(count_of(text_of(&out), "a &lt;b&gt; &amp; c ?<"), 2); /* both titles */
    assert_non_null(strstr(text_of(&out), ">5 &lt; 6<"));
    text_clear(&out);
    /* The 80th byte is the second half of a letter. */
    curve_svg(&c,
              "0123456789012345678901234567890123456789012345678901234567890123456789012345678"
              "\xc3\xa4 and on",
              "", &out);
    check_svg();
    assert_int_equal(count_of(text_of(&out), "678\xe2\x80\xa6</text>"), 1);
    assert_int_equal(count_of(text_of(&out), "678\xc3\xa4 and on</title>"), 1);
}

/* The path of a class, without the rest. */
static const char *path_of(const char *class)
{
    static char path[20000];
    const char *at = strstr(text_of(&out), class), *end;

    assert_non_null(at);
    at = strstr(at, " d=\"");
    end = strchr(at + 4, '"');
    assert_true(end - at < (ptrdiff_t)sizeof path);
    snprintf(path, sizeof path, "%.*s", (int)(end - at), at);
    return path;
}

static void skipped_steps_are_gaps_and_marks(void **state)
{
    (void)state;
    for (int64_t step = 1; step <= 100; step++) {
        bool lost = step == 40 || step == 41 || step == 70;

        curve_add(&c, step, lost ? NAN : 3 - (double)step / 100, 0.1);
    }
    curve_add_validation(&c, 20, 3);
    curve_add_validation(&c, 90, 2);
    curve_svg(&c, "gaps", "", &out);
    check_svg();
    assert_int_equal(count_of(path_of("class=\"raw\""), "M"), 3);
    assert_int_equal(count_of(path_of("\"val\""), "M"), 1); /* a validation is not skipped */
    assert_int_equal(count_of(path_of("class=\"rate\""), "M"), 1);
    assert_int_equal(count_of(text_of(&out), "v9"), 3 + 1); /* and the legend's */
    assert_int_equal(count_of(text_of(&out), "skipped steps 3<"), 1);
}

/* All that can be drawn in every bucket: a run of millions of steps that goes badly. */
static void the_largest_picture_is_small(void **state)
{
    (void)state;
    for (int64_t step = 1; step < 512 * 4096; step++) {
        curve_add(&c, step, step % 100 == 0 ? NAN : 1000 + 100 * sin((double)step), 1.234e-5);
        if (step % 4096 == 0) {
            curve_add_validation(&c, step, 1000 + cos((double)step));
        }
    }
    assert_int_equal(c.span, 4096);
    curve_svg(&c, "large", "", &out);
    check_svg();
    assert_int_equal(count_of(path_of("class=\"band\""), "L"), 2 * CURVE_BUCKETS - 1);
    assert_int_equal(count_of(path_of("class=\"val\""), "L"), CURVE_BUCKETS - 2);
}

/* One loss over and over has no extent. */
static void a_flat_curve_has_a_scale(void **state)
{
    static const double losses[] = { 2, 0, 1e12 };

    (void)state;
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        begin(NULL);
        curve_add(&c, 1, losses[i], 0);
        assert_true(curve_is_empty(&c));
        curve_add(&c, 2, losses[i], 0);
        assert_false(curve_is_empty(&c));
        curve_svg(&c, "flat", "", &out);
        check_svg();
        text_clear(&out);
        curve_terminal(&c, 60, false, &out);
        assert_null(strstr(text_of(&out), "nan"));
        assert_non_null(strchr(text_of(&out), '*'));
    }
}

/* ---- terminal ---- */

static void terminals_show_it_in_their_width(void **state)
{
    static const int columns[] = { 60, 80, 1000 };

    (void)state;
    for (int64_t step = 1; step <= 5000; step++) {
        curve_add(&c, step, step == 2500 ? NAN : 3 + 5 * exp(-(double)step / 500), 1e-3);
    }
    curve_add_validation(&c, 1000, 4);
    curve_add_validation(&c, 5000, 3.1);
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        text_clear(&out);
        curve_terminal(&c, columns[i], false, &out);
        assert_int_equal(count_of(text_of(&out), "\n"), 12);
        assert_int_equal(count_of(text_of(&out), "o"), 2 + 4); /* and those of the caption */
        assert_int_equal(count_of(text_of(&out), "x"), 1 + 1);
        assert_int_equal(count_of(text_of(&out), " 6 +"), 1);
        for (const char *line = text_of(&out); *line != 0; line = strchr(line, '\n') + 1) {
            assert_true(strchr(line, '\n') - line <= columns[i]);
        }
        for (const char *at = text_of(&out); *at != 0; at++) {
            assert_true(*at == '\n' || (*at >= 32 && *at < 127));
        }
    }
    text_clear(&out);
    curve_terminal(&c, 80, true, &out);
    assert_int_equal(count_of(text_of(&out), "\n"), 12);
    assert_int_equal(text_utf8_valid(text_of(&out), out.length), out.length);
    assert_true(count_of(text_of(&out), "\xe2\xa0") > 20); /* braille */
}

/* ---- a run ---- */

static struct arena memory;

static void train(const char *folder, int64_t steps)
{
    const struct train_options quiet = { .quiet = true };
    const char *dirs[] = { folder };
    struct train_spec s;
    struct comm one;

    comm_alone(&one);
    tiny_spec(&s, dirs, DT_F32, 1, 24);
    s.max_steps = steps;
    s.log_every = 5;
    s.checkpoint_dir = path_join(&memory, folder, "ck");
    s.val_dirs = dirs;
    s.val_dir_count = 1;
    s.val_batches = (struct batch_amount){ .value = 2 };
    s.val_interval = (struct batch_amount){ .value = 5 };
    s.save_every = 4;
    s.resume_if_exists = true;
    EXPECT_OK(train_run(&s, &one, &quiet));
}

static char *content(const char *folder, const char *name, size_t *length)
{
    char *bytes;

    EXPECT_OK(file_read(&memory, path_join(&memory, folder, name), 1 << 20, &bytes, length));
    return bytes;
}

/* Stopped at 7, so that 5 to 7 and the validation after 5 are repeated. */
static void a_resumed_run_shows_the_whole_of_it(void **state)
{
    const char *whole = folder_new(&memory), *parts = folder_new(&memory);
    char *one, *two, *lines;
    size_t one_length, two_length, length;

    (void)state;
    log_set_level(LOG_ERROR);
    tiny_write_rows(whole, false);
    tiny_write_rows(parts, false);
    train(whole, 12);
    train(parts, 7);
    lines = content(parts, "metrics.jsonl", &length);
    assert_int_equal(count_of(lines, "{\"step\":7,"), 1);
    train(parts, 12);
    one = content(whole, "loss.svg", &one_length);
    two = content(parts, "loss.svg", &two_length);
    assert_int_equal(one_length, two_length);
    assert_memory_equal(one, two, one_length);
    assert_non_null(strstr(one, "step 12<"));
    lines = content(parts, "metrics.jsonl", &length);
    assert_int_equal(count_of(lines, "\n"), 12 + 3); /* validated before, after 5 and 10 */
    EXPECT_OK(folder_remove(whole));
    EXPECT_OK(folder_remove(parts));
    arena_release(&memory);
}

/* Saved at 8, whose line a crash tore: what is written next does not go on in it. */
static void a_torn_line_goes(void **state)
{
    const char *folder = folder_new(&memory);
    char *lines;
    size_t length;

    (void)state;
    tiny_write_rows(folder, false);
    train(folder, 8);
    lines = content(folder, "metrics.jsonl", &length);
    EXPECT_OK(file_replace(path_join(&memory, folder, "metrics.jsonl"), lines, length - 20));
    train(folder, 12);
    lines = content(folder, "metrics.jsonl", &length);
    assert_int_equal(count_of(lines, "\n"), 12 + 3 - 1);
    assert_int_equal(count_of(lines, "{\"step\":"), 12 + 3 - 1);
    EXPECT_OK(folder_remove(folder));
    arena_release(&memory);
}

/* Nobody says that the run is over, as when it fails. */
static void a_run_that_fails_leaves_its_picture(void **state)
{
    const char *folder = folder_new(&memory);
    const char *dirs[] = { folder };
    const struct train_options quiet = { .quiet = true };
    struct train_spec s;
    struct trainer t;
    struct step_report r;
    struct comm one;
    size_t length;

    (void)state;
    tiny_write_rows(folder, false);
    tiny_spec(&s, dirs, DT_F32, 1, 24);
    comm_alone(&one);
    EXPECT_OK(trainer_open(&t, &s, &one));
    EXPECT_OK(metrics_open(&t, &quiet));
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(trainer_step(&t, &r));
        metrics_step(&t, &r);
    }
    assert_false(file_is_there(path_join(&memory, folder, "loss.svg")));
    trainer_close(&t);
    assert_non_null(strstr(content(folder, "loss.svg", &length), "step 3<"));
    EXPECT_OK(folder_remove(folder));
    arena_release(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_long_run_fits_and_loses_no_extreme, begin),
        cmocka_unit_test_setup(skipped_steps_spoil_no_neighbour, begin),
        cmocka_unit_test_setup(lines_of_metrics_become_the_same_curve, begin),
        cmocka_unit_test_setup(a_peak_neither_bends_the_line_nor_presses_it_flat, begin),
        cmocka_unit_test_setup(labels_are_round_and_differ, begin),
        cmocka_unit_test_setup(texts_are_escaped_and_cut, begin),
        cmocka_unit_test_setup(skipped_steps_are_gaps_and_marks, begin),
        cmocka_unit_test_setup(the_largest_picture_is_small, begin),
        cmocka_unit_test_setup(a_flat_curve_has_a_scale, begin),
        cmocka_unit_test_setup(terminals_show_it_in_their_width, begin),
        cmocka_unit_test(a_resumed_run_shows_the_whole_of_it),
        cmocka_unit_test(a_torn_line_goes),
        cmocka_unit_test(a_run_that_fails_leaves_its_picture),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    text_release(&out);
    return failed;
}
