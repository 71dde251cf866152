/* Overrides: values, verbs, mistakes. */
#include "recipe/recipe_case.h"
#include "recipe/override.h"

static struct arena arena;

static int release(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static void values_have_their_kinds(void **state)
{
    static const struct {
        const char *text;
        enum tree_kind kind;
        const char *as_yaml;
    } cases[] = {
        { "3", TREE_INT, "3\n" },
        { "1e-5", TREE_FLOAT, "1e-05\n" },
        { "true", TREE_BOOL, "true\n" },
        { "null", TREE_NULL, "null\n" },
        { "", TREE_TEXT, "''\n" },
        { "   ", TREE_TEXT, "''\n" },
        { "two words ", TREE_TEXT, "'two words'\n" },
        { "/data/x", TREE_TEXT, "/data/x\n" },
        { "s3://b/k", TREE_TEXT, "'s3://b/k'\n" },
        { "'1'", TREE_TEXT, "'1'\n" },
        { "\"a,b=c\"", TREE_TEXT, "'a,b=c'\n" },
        { "'it\\'s'", TREE_TEXT, "'it''s'\n" },
        { "'a\\nb\\\\'", TREE_TEXT, "'a\\nb\\'\n" },
        { "a\\,b", TREE_TEXT, "'a,b'\n" },
        { "C:\\x", TREE_TEXT, "'C:\\x'\n" },
        { "[]", TREE_LIST, "[]\n" },
        { "[ 1 , b c, '2' ]", TREE_LIST, "- 1\n- 'b c'\n- '2'\n" },
        { "{}", TREE_MAP, "{}\n" },
        { "{a:1, b : [x], c:{d: null}}", TREE_MAP, "a: 1\nb:\n  - x\nc:\n  d: null\n" },
        { "{a:1,a:2}", TREE_MAP, "a: 2\n" },
    };
    const struct tree at = { 0 };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *problem = NULL;
        struct tree *t = override_value(&arena, cases[i].text, &at, &problem);
        char *yaml = NULL;
        size_t length;
        FILE *to = open_memstream(&yaml, &length);

        if (t == NULL) {
            print_error("%s: %s\n", cases[i].text, problem);
            _fail(__FILE__, __LINE__);
            return;
        }
        assert_int_equal(t->kind, cases[i].kind);
        tree_print(t, 0, to);
        fclose(to);
        assert_string_equal(yaml, cases[i].as_yaml);
        free(yaml);
    }
}

static void bad_values_say_why(void **state)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        { "a,b", "a comma at the top; write [a,b]" },
        { "'a", "the quote ' is not closed" },
        { "\"a\\\"", "the quote \" is not closed" },
        { "'a' b", "something stands behind the value" },
        { "[a", "the bracket [ is not closed" },
        { "[a]]", "something stands behind the value" },
        { "[a,]", "an empty element" },
        { "[,]", "an empty element" },
        { "{a}", "a map is written {key: value" },
        { "{a:1", "the brace { is not closed" },
        { "{a:}", "an empty element" },
        { "{:1}", "a map is written" },
        { "${a}", "references (${...}) are not built yet" },
        { "a=b", "'=' needs quotes" },
        { "f(x)", "'(' needs quotes" },
        { "x[y]", "'[' needs quotes" },
        { "99999999999999999999", "does not fit 64 bits" },
        { "\xff", "not UTF-8" },
    };
    const struct tree at = { 0 };
    char deep[300];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *problem = NULL;

        assert_null(override_value(&arena, cases[i].text, &at, &problem));
        assert_non_null(problem);
        if (strstr(problem, cases[i].part) == NULL) {
            print_error("%s: %s\n", cases[i].text, problem);
        }
        assert_non_null(strstr(problem, cases[i].part));
    }
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    for (const char *problem = NULL; problem == NULL;) {
        assert_null(override_value(&arena, deep, &at, &problem));
        assert_string_equal(problem, "nested too deep");
    }
}

static void overrides_change_what_is_read(void **state)
{
    static const char *const overrides[] = { "model.optim.lr=0.5",
                                             "recipes.trainer.max_steps=7",
                                             "+model.optim.weight_decay=0.25",
                                             "++model.vocab_size=99",
                                             "model.data={val_dir: /v, train_dir: [x, y]}",
                                             "~model.num_key_value_heads",
                                             "~trainer.precision=64",
                                             "+exp_manager.summary_writer_kwargs.save_dir=/t",
                                             NULL };
    struct recipe_case c;

    (void)state;
    case_read(&c, SMALL, overrides, -1);
    assert_int_equal(c.status, OK);
    assert_true(c.recipe.model.optim.lr == 0.5);
    assert_true(c.recipe.model.optim.weight_decay == 0.25);
    assert_int_equal(c.recipe.trainer.max_steps, 7);
    assert_int_equal(c.recipe.model.vocab_size, 99);
    assert_int_equal(c.recipe.model.data.train_dir.count, 2);
    assert_string_equal(c.recipe.model.data.val_dir.item[0], "/v");
    assert_int_equal(c.recipe.model.num_key_value_heads, 0);
    assert_false(recipe_given(&c.recipe, "model.num_key_value_heads"));
    assert_false(recipe_given(&c.recipe, "trainer.precision"));
    assert_string_equal(tree_find(c.recipe.exp_manager.summary_writer_kwargs, "save_dir")->text,
                        "/t");
    case_release(&c);
}

static void bad_overrides_name_their_number(void **state)
{
    (void)state;
    EXPECT_FOUND("override 2: error: model.optm is not a known key; did you mean model.optim?",
                 SMALL, -1, "model.seed=1", "model.optm.lr=1");
    EXPECT_FOUND("override 1: error: trainer.lr is not a known key; did you mean model.optim.lr?",
                 SMALL, -1, "trainer.lr=1");
    EXPECT_FOUND(
        "override 1: error: model.optim.lrr is not a known key; did you mean model.optim.lr?",
        SMALL, -1, "++model.optim.lrr=1");
    EXPECT_FOUND(
        "override 1: error: model.optim.lr is the text 'fast'; allowed: a number, 0 or more", SMALL,
        -1, "model.optim.lr=fast");
    EXPECT_FOUND(
        "override 1: error: model.hidden_size is there already (r.yaml line 9); change it with "
        "model.hidden_size=... or ++model.hidden_size=...",
        SMALL, -1, "+model.hidden_size=8");
    EXPECT_FOUND("override 1: error: model.foo cannot be removed: it is not there", SMALL, -1,
                 "~model.foo");
    EXPECT_FOUND("model.seed.x cannot be removed: it is not there", SMALL, -1, "~model.seed.x");
    EXPECT_FOUND("model.hidden_size is not removed: it is the integer 64, not the integer 3", SMALL,
                 -1, "~model.hidden_size=3");
    EXPECT_FOUND(
        "model.hidden_size.x: model.hidden_size is the integer 64, so nothing lies below it", SMALL,
        -1, "model.hidden_size.x=3");
    EXPECT_FOUND("override 1: error: 'train' is no override: key=value", SMALL, -1, "train");
    EXPECT_FOUND("'a..b' in 'a..b=1' is no key", SMALL, -1, "a..b=1");
    EXPECT_FOUND("'' in '=1' is no key", SMALL, -1, "=1");
    EXPECT_FOUND("composition of several files is not built yet", SMALL, -1, "cluster@x=slurm");
    EXPECT_FOUND("override 1: error: 'run.name=a,b': a comma at the top", SMALL, -1,
                 "run.name=a,b");
    EXPECT_FOUND("override 1: error: model is the integer 3; allowed: a map of its keys, or null",
                 SMALL, -1, "model=3");
}

static void secrets_are_not_told(void **state)
{
    (void)state;
    EXPECT_NOT_FOUND("hf_12345", SMALL, 1, "model.hf_access_token=hf_12345");
    EXPECT_NOT_FOUND("12345", SMALL, 1, "model.hf_access_token=12345");
    EXPECT_NOT_FOUND("12345", SMALL, 1, "model.hf_access_token='12345");
    EXPECT_NOT_FOUND("12345", SMALL, 1, "model.hf_access_token=x12345",
                     "~model.hf_access_token=y12345");
    EXPECT_NOT_FOUND("12345", SMALL, 1, "model.hf_access_token='12345${'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(values_have_their_kinds, release),
        cmocka_unit_test_teardown(bad_values_say_why, release),
        cmocka_unit_test(overrides_change_what_is_read),
        cmocka_unit_test(bad_overrides_name_their_number),
        cmocka_unit_test(secrets_are_not_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
