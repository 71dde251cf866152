#include "support/expect.h"

#include <math.h>

#include "train/curve.h"

static void a_long_run_fits_and_loses_no_extreme(void **state)
{
    static struct curve c;
    double least = INFINITY, most = -INFINITY, sum = 0;
    int64_t count = 0;

    (void)state;
    c = (struct curve){ 0 };
    assert_true(curve_is_empty(&c));
    for (int64_t step = 1; step <= 100000; step++) {
        curve_add(&c, step, step == 777 ? 99 : 1 + 1 / (double)step, 0.1);
    }
    curve_add(&c, 100001, NAN, 0.1); /* a gap, no point */
    assert_int_equal(c.last, 100000);
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

static void lines_of_metrics_become_the_same_curve(void **state)
{
    static struct curve added, read;

    (void)state;
    added = read = (struct curve){ 0 };
    curve_add(&added, 1, 2.5, 0.01);
    curve_add(&added, 2, 2.25, 0.02);
    curve_add_validation(&added, 2, 2.75);
    curve_read(&read, "{\"step\":1,\"loss\":2.5,\"grad_norm\":1,\"lr\":0.01,\"next_lr\":0.02}\n"
                      "{\"step\":2,\"loss\":2.25,\"grad_norm\":1,\"lr\":0.02,\"next_lr\":0.02}\n"
                      "{\"step\":2,\"val_loss\":2.75,\"perplexity\":15.6}\n"
                      "no line of ours\n"
                      "{\"step\":3,\"loss\":null,\"grad_norm\":1,\"lr\":0.02}\n"
                      "{\"step\":4,\"loss\":1"); /* half a line */
    assert_memory_equal(&added, &read, sizeof added);
}

static int count_of(const char *text, const char *what)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what)) {
        n++;
    }
    return n;
}

static void pictures_are_whole_and_small(void **state)
{
    static struct curve c;
    struct text svg = { 0 }, plain = { 0 }, braille = { 0 };

    (void)state;
    c = (struct curve){ 0 };
    for (int64_t step = 1; step <= 5000; step++) {
        curve_add(&c, step, 3 + 5 * exp(-(double)step / 500) + 0.1 * sin((double)step), 1e-3);
    }
    curve_add_validation(&c, 1000, 4);
    curve_add_validation(&c, 5000, 3.1);
    curve_svg(&c, "a <b> & c", &svg);
    assert_true(text_starts(text_of(&svg), "<svg xmlns="));
    assert_true(text_ends(text_of(&svg), "</svg>\n"));
    assert_non_null(strstr(text_of(&svg), "a &lt;b&gt; &amp; c"));
    assert_null(strstr(text_of(&svg), "nan"));
    assert_null(strstr(text_of(&svg), "inf"));
    assert_int_equal(count_of(text_of(&svg), "class=\"dot\""), 3); /* two, and the legend's */
    assert_true(svg.length < 60000);
    curve_terminal(&c, 80, false, &plain);
    curve_terminal(&c, 80, true, &braille);
    assert_int_equal(count_of(text_of(&plain), "\n"), 12);
    assert_int_equal(count_of(text_of(&braille), "\n"), 12);
    assert_int_equal(count_of(text_of(&plain), "o"), 2 + 4); /* and those of the caption */
    for (const char *line = text_of(&plain); *line != 0; line = strchr(line, '\n') + 1) {
        assert_true(strchr(line, '\n') - line <= 80);
    }
    assert_int_equal(text_utf8_valid(text_of(&braille), braille.length), braille.length);
    text_release(&svg);
    text_release(&plain);
    text_release(&braille);
}

/* One loss over and over has no extent. */
static void a_flat_curve_has_a_scale(void **state)
{
    static struct curve c;
    struct text svg = { 0 };

    (void)state;
    c = (struct curve){ 0 };
    curve_add(&c, 1, 2, 0);
    curve_add(&c, 2, 2, 0);
    assert_false(curve_is_empty(&c));
    curve_svg(&c, "flat", &svg);
    assert_null(strstr(text_of(&svg), "nan"));
    text_release(&svg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_run_fits_and_loses_no_extreme),
        cmocka_unit_test(lines_of_metrics_become_the_same_curve),
        cmocka_unit_test(pictures_are_whole_and_small),
        cmocka_unit_test(a_flat_curve_has_a_scale),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
