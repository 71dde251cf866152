/* Command lines against a small table. */
#include "support/expect.h"
#include "cli/args.h"

static const struct option options[] = {
    { "ranks", 0, OPTION_INT, "N", "ranks", 1, 100, false },
    { "quiet", 'q', OPTION_FLAG, NULL, "silence", 0, 0, false },
    { "share", 0, OPTION_NUMBER, "X", "a share", 0, 0.5, false },
    { "precision", 0, OPTION_CHOICE, "32|64", "type", 0, 0, false },
    { "out", 'o', OPTION_TEXT, "FILE", "a file", 0, 0, false },
    { "any", 0, OPTION_INT, "N", "any number", 0, 0, false },
    { 0 },
};
static const struct command command = {
    .name = "try", .words = "WORD...", .options = options, .least = 1, .most = 3
};
static const struct option needed[] = { { "out", 0, OPTION_TEXT, "FILE", "a file", 0, 0, true },
                                        { 0 } };
static const struct command strict = {
    .name = "try", .words = "", .options = needed, .least = 0, .most = 0
};

enum { WORDS = 8 };

static struct arena arena;

static status parse(const struct command *c, struct args *out, const char *const words[WORDS])
{
    char *argv[WORDS + 1] = { (char *)"try" };
    int argc = 1;

    for (; argc <= WORDS && words[argc - 1] != NULL; argc++) {
        argv[argc] = (char *)words[argc - 1];
    }
    return args_parse(out, &arena, c, argc, argv);
}

#define PARSE(out, ...) parse(&command, out, (const char *const[WORDS + 1]){ __VA_ARGS__ })

static void both_forms_and_any_order(void **state)
{
    struct args a;

    (void)state;
    EXPECT_OK(PARSE(&a, "recipe.yaml", "--ranks", "4", "+a.b=1", "-q", "~c", "--out=x=y"));
    assert_int_equal(a.word_count, 3);
    assert_string_equal(a.words[0], "recipe.yaml");
    assert_string_equal(a.words[1], "+a.b=1");
    assert_string_equal(a.words[2], "~c");
    assert_int_equal(args_int(&a, "ranks", 1), 4);
    assert_true(args_has(&a, "quiet"));
    assert_string_equal(args_text(&a, "out", ""), "x=y");
    assert_false(args_has(&a, "share"));
    assert_true(args_number(&a, "share", 0.25) == 0.25);
    assert_string_equal(args_text(&a, "precision", "32"), "32");
}

static void the_last_wins_and_two_dashes_end_options(void **state)
{
    struct args a;

    (void)state;
    EXPECT_OK(PARSE(&a, "--ranks=2", "--ranks", "3", "--", "--ranks", "-q"));
    assert_int_equal(args_int(&a, "ranks", 1), 3);
    assert_int_equal(a.word_count, 2);
    assert_string_equal(a.words[0], "--ranks");
    EXPECT_OK(PARSE(&a, "w", "-o", "-", "-"));
    assert_string_equal(args_text(&a, "out", ""), "-");
    assert_int_equal(a.word_count, 2);
    EXPECT_OK(PARSE(&a, "w", "--out="));
    assert_string_equal(args_text(&a, "out", "none"), "");
    EXPECT_OK(PARSE(&a, "w", "--any", "-5"));
    assert_int_equal(args_int(&a, "any", 0), -5);
}

static void help_comes_before_everything(void **state)
{
    struct args a;

    (void)state;
    EXPECT_OK(PARSE(&a, "--help"));
    assert_true(a.help);
    EXPECT_OK(PARSE(&a, "--ranks", "4", "-h", "--nonsense"));
    assert_true(a.help);
    EXPECT_OK(PARSE(&a, "w", "--", "--help"));
    assert_false(a.help);
}

static void mistakes_are_named(void **state)
{
    static const struct {
        const char *words[WORDS + 1], *part;
    } cases[] = {
        { { "w", "--rank", "4" }, "try: unknown option --rank; did you mean --ranks?" },
        { { "w", "--rnaks=4" }, "try: unknown option --rnaks; did you mean --ranks?" },
        { { "w", "--zzzzzzzzzz" },
          "try: unknown option --zzzzzzzzzz; roux try --help lists what there is" },
        { { "w", "-x" }, "unknown option -x" },
        { { "w", "-qq" }, "unknown option -qq" },
        { { "w", "--ranks" }, "--ranks needs a value: N" },
        { { "w", "--ranks", "" }, "--ranks is ''; it takes a whole number from 1 to 100" },
        { { "w", "--ranks", "0" }, "--ranks is '0'; it takes a whole number from 1 to 100" },
        { { "w", "--ranks", "101" }, "--ranks is '101'" },
        { { "w", "--ranks", "4.5" }, "--ranks is '4.5'" },
        { { "w", "--ranks", "four" }, "--ranks is 'four'" },
        { { "w", "--ranks", " 4" }, "--ranks is ' 4'" },
        { { "w", "--ranks", "99999999999999999999999" }, "--ranks is '99999999999999999999999'" },
        { { "w", "--any", "99999999999999999999999" }, "it takes a whole number" },
        { { "w", "--share", "nan" }, "--share is 'nan'; it takes a number from 0 to 0.5" },
        { { "w", "--share", "inf" }, "--share is 'inf'" },
        { { "w", "--share", "1e999" }, "--share is '1e999'" },
        { { "w", "--share", "-0.1" }, "--share is '-0.1'" },
        { { "w", "--precision", "3" }, "--precision is '3'; it takes one of 32|64" },
        { { "w", "--precision", "32|64" }, "it takes one of 32|64" },
        { { "w", "--precision", "" }, "it takes one of 32|64" },
        { { "w", "--quiet=yes" }, "--quiet takes no value" },
        { { "--quiet" }, "try: WORD... is missing; usage: roux try [OPTION]... WORD..." },
        { { "a", "b", "c", "d" }, "try: unexpected 'd'" },
    };
    struct args a;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_FAIL(ERR_RECIPE, cases[i].part, parse(&command, &a, cases[i].words));
    }
    EXPECT_FAIL(ERR_RECIPE, "try: --out FILE is missing (a file)",
                parse(&strict, &a, (const char *const[WORDS + 1]){ NULL }));
}

static struct args parsed;

static void ask_for_what_is_not_there(void)
{
    args_has(&parsed, "nonsense");
}

static void a_name_outside_the_table_is_our_fault(void **state)
{
    (void)state;
    EXPECT_OK(PARSE(&parsed, "w"));
    expect_broken_check(ask_for_what_is_not_there, "try has no option nonsense");
}

static int release(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_and_any_order),
        cmocka_unit_test(the_last_wins_and_two_dashes_end_options),
        cmocka_unit_test(help_comes_before_everything),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(a_name_outside_the_table_is_our_fault),
    };

    return cmocka_run_group_tests(tests, NULL, release);
}
