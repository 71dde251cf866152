/* YAML text to trees: shapes, places, mistakes and limits. */
#include <stdlib.h>
#include <unistd.h>
#include "support/expect.h"
#include "base/text.h"
#include "recipe/tree.h"

static struct arena arena;
static struct tree_faults faults;

static int release(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static status parse(struct tree **out, const char *text)
{
    return tree_parse(out, &faults, &arena, "f.yaml", text, strlen(text));
}

static void nodes_know_their_places(void **state)
{
    struct tree *root;
    const struct tree *lr;

    (void)state;
    EXPECT_OK(parse(&root, "# comment\nmodel:\n  optim: {lr: 1e-3, name: 'adamw'}\n"));
    lr = tree_at(root, "model.optim.lr");
    assert_non_null(lr);
    assert_int_equal(lr->kind, TREE_FLOAT);
    assert_string_equal(lr->file, "f.yaml");
    assert_int_equal(lr->line, 3);
    assert_int_equal(lr->column, 15);
    assert_string_equal(lr->text, "1e-3");
    assert_int_equal(tree_at(root, "model.optim.name")->kind, TREE_TEXT);
    assert_null(tree_at(root, "model.optim.lr.x"));
    assert_null(tree_at(root, "model.none"));
}

static void quoted_scalars_are_texts(void **state)
{
    struct tree *root;

    (void)state;
    EXPECT_OK(
        parse(&root,
              "a: '1'\nb: \"true\"\nc: 'null'\nd: ''\ne: |\n  1\nf: !!str 1\ng: \"\\u00e9\\t\"\n"));
    for (size_t i = 0; i < root->count; i++) {
        assert_int_equal(root->items[i]->kind, TREE_TEXT);
    }
    assert_string_equal(tree_find(root, "g")->text, "\xc3\xa9\t");
}

static void nothing_is_an_empty_map(void **state)
{
    static const char *const texts[] = {
        "", "# only this\n", "---\n", "null", "~\n", "\xef\xbb\xbf"
    };
    struct tree *root;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        EXPECT_OK(parse(&root, texts[i]));
        assert_int_equal(root->kind, TREE_MAP);
        assert_int_equal(root->count, 0);
    }
}

static void odd_line_ends_are_accepted(void **state)
{
    struct tree *root;

    (void)state;
    EXPECT_OK(parse(&root, "\xef\xbb\xbf%YAML 1.2\n---\r\na: 1\r\nb: 2"));
    assert_int_equal(root->count, 2);
    assert_int_equal(tree_find(root, "b")->whole, 2);
}

static void an_alias_is_a_copy(void **state)
{
    struct tree *root;

    (void)state;
    EXPECT_OK(parse(&root, "a: &x {lr: 1}\nb: *x\n"));
    assert_ptr_not_equal(tree_find(root, "a"), tree_find(root, "b"));
    assert_int_equal(tree_at(root, "b.lr")->whole, 1);
    assert_int_equal(tree_find(root, "b")->line, 2);
}

static void merge_keys_give_what_is_not_there(void **state)
{
    struct tree *root;
    const struct tree *c;

    (void)state;
    EXPECT_OK(parse(
        &root, "a: &a {x: 1, y: 2}\nb: &b {x: 3, z: 4}\nc:\n  y: 9\n  <<: [*a, *b]\n'<<': 1\n"));
    c = tree_find(root, "c");
    assert_int_equal(c->count, 3);
    assert_int_equal(tree_find(c, "x")->whole, 1); /* the earlier map of the list */
    assert_int_equal(tree_find(c, "y")->whole, 9); /* what is written */
    assert_int_equal(tree_find(c, "z")->whole, 4);
    assert_int_equal(tree_find(root, "<<")->whole, 1);
}

static void an_integer_key_is_not_the_text_key(void **state)
{
    struct tree *root;

    (void)state;
    EXPECT_OK(parse(&root, "1: a\n'1': b\n"));
    assert_int_equal(root->count, 2);
    assert_string_equal(tree_find(root, "1")->text, "b");
}

static void mistakes_are_refused_with_their_places(void **state)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        { "a: 1\nb:\n  c: 1\n  c: 2\n",
          "f.yaml:4:3: the key c stands twice in one map, first at line 3" },
        { "{a: 1, \"a\": 2}", "f.yaml:1:8: the key a stands twice" },
        { "1: a\n1: b\n", "the key 1 stands twice" },
        { "a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document begins here" },
        { "a: 1\n---\n", "a second document begins here" },
        { "a: *x\n", "f.yaml:1:4: the alias *x has no anchor &x before it" },
        { "a: &x [*x]\n", "the alias *x stands inside its own anchor" },
        { "a: &x 1\nb: &x 2\n", "f.yaml:2:4: the anchor &x stands twice" },
        { "a: !foo 1\n", "f.yaml:1:4: the tag !foo is not known here" },
        { "a: !!binary aGk=\n", "the tag tag:yaml.org,2002:binary is not known here" },
        { "a: !!int x\n", "the tag !!int does not fit the text 'x'" },
        { "a: !!set {x}\n", "the tag tag:yaml.org,2002:set is not known here" },
        { "a: 9223372036854775808\n", "the integer 9223372036854775808 does not fit 64 bits" },
        { "a: =\n", "a lone = is no value" },
        { "a: <<\n", "<< is no value" },
        { "<<: 1\n", "the merge key << takes a map or a list of maps, found the integer 1" },
        { "? [1]\n: 2\n", "a key must be a text, found a list" },
        { "? \n: 2\n", "a key must be a text, found null" },
        { "a: \"\\0\"\n", "a text with a zero byte" },
        { "hello\n", "f.yaml:1:1: the file is just the text 'hello', a map of keys is needed" },
        { "42", "the file is just the integer 42" },
        { "a:\n\tb: 1\n", "f.yaml:2:1: not YAML: found character that cannot start any token" },
        { "a: b: c\n", "f.yaml:1:5: not YAML: mapping values are not allowed" },
        { "a: [1, 2\nb: 3\n", "not YAML: " },
        { "a: 'x\n", "not YAML: found unexpected end of stream" },
        { "a: \"\\q\"\n", "not YAML: found unknown escape character" },
        { "a:\n  b: 1\n c: 2\n", "f.yaml:3:2: not YAML: " },
        { "a: [1, , 2]\n", "not YAML: " },
        { "a: [${b}]\n", "not YAML: " },
        { "a: \x01\n", "f.yaml:1:4: a control character (byte 0x01)" },
        { "a: \xc2\x80\n", "a control character" },
        { "b: 1\na: \xff\n", "f.yaml:2:4: not a text file: byte 0xff at offset 8" },
        { "\xff\xfe"
          "a",
          "this is UTF-16" },
    };
    struct tree *root;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_FAIL(ERR_RECIPE, cases[i].part, parse(&root, cases[i].text));
    }
}

static void mistakes_of_meaning_come_all_at_once(void **state)
{
    struct tree *root;

    (void)state;
    EXPECT_FAIL(ERR_RECIPE, "f.yaml:2:1:", parse(&root, "a: 1\na: 2\nb: *x\nc: !t 1\n"));
    assert_int_equal(faults.count, 3);
    assert_int_equal(faults.item[0].line, 2);
    assert_non_null(root);
    assert_int_equal(tree_find(root, "a")->whole, 1);
}

static void binary_bytes_are_no_text(void **state)
{
    struct tree *root;

    (void)state;
    EXPECT_FAIL(ERR_RECIPE, "f.yaml:1:4: not a text file: byte 0x00 at offset 3",
                tree_parse(&root, &faults, &arena, "f.yaml", "a: \0b", 5));
    assert_null(root);
}

static void files_that_are_none_are_told(void **state)
{
    char folder[] = "/tmp/roux-tree-XXXXXX";
    struct tree *root;

    (void)state;
    assert_non_null(mkdtemp(folder));
    EXPECT_FAIL(ERR_RECIPE, "/nowhere.yaml: ", tree_read(&root, &faults, &arena, "/nowhere.yaml"));
    assert_null(root);
    assert_int_equal(faults.count, 1);
    assert_int_equal(faults.item[0].line, 0);
    assert_null(strstr(faults.item[0].text, "nowhere"));
    EXPECT_FAIL(ERR_RECIPE, "folder", tree_read(&root, &faults, &arena, folder));
    rmdir(folder);
}

/* `count` times `part`. */
static char *repeated(const char *part, size_t count)
{
    struct text t = { 0 };
    char *result;

    for (size_t i = 0; i < count; i++) {
        text_add(&t, part);
    }
    result = arena_text(&arena, text_of(&t));
    text_release(&t);
    return result;
}

static void limits_are_refused_with_their_places(void **state)
{
    struct tree *root;
    struct text t = { 0 };

    (void)state;
    EXPECT_FAIL(ERR_RECIPE, "f.yaml:1:102: nested more than 100 levels deep",
                parse(&root, repeated("[", 1000)));
    EXPECT_OK(parse(&root, arena_format(&arena, "a: %s%s", repeated("[", 98), repeated("]", 98))));
    EXPECT_FAIL(ERR_RECIPE, "16777217 bytes are more than the 16 MiB that a file may have",
                tree_parse(&root, &faults, &arena, "f.yaml", repeated("#", (16 << 20) + 1),
                           (16 << 20) + 1));
    EXPECT_FAIL(ERR_RECIPE, "more than 1000000 values",
                parse(&root, arena_format(&arena, "[%s]", repeated("1,", 1000001))));
    text_add(&t, "a: &a [1,1,1,1,1,1,1,1,1,1]\n");
    for (int c = 'b'; c < 'k'; c++) {
        text_add_format(&t, "%c: &%c [", c, c);
        for (int i = 0; i < 10; i++) {
            text_add_format(&t, "*%c,", c - 1);
        }
        text_add(&t, "]\n");
    }
    EXPECT_FAIL(ERR_RECIPE, "more than 1000000 values (aliases and merge keys count as copies)",
                parse(&root, text_of(&t)));
    text_release(&t);
}

static void printed_trees_read_back(void **state)
{
    static const char text[] =
        "a: [1, 1.0, 1e-5, .inf, -.inf, true, null, ~, '1', 'true', '', 'y', 'null', x]\n"
        "b: {c: [], d: {}, e: [[1, [2]], {x: {y: z}}]}\n"
        "'a b': \"it's \\\"q\\\" \\\\ \\n \\t \\x01 \\N \\u00e9\"\n"
        "1: '${ref}'\ntrue: ' blank '\n'# c': '-x'\nf: '- x'\ng: 'a: b'\nh: 2001-01-01\n"
        "i: '6:30'\nj: '?\?\?'\nk: '0x1F'\nl: ...x\nm: '...'\n";
    struct tree *root, *again;
    char *first = NULL, *second = NULL;
    size_t length;
    FILE *to;

    (void)state;
    EXPECT_OK(parse(&root, text));
    to = open_memstream(&first, &length);
    tree_print(root, 0, to);
    fclose(to);
    EXPECT_OK(parse(&again, first));
    to = open_memstream(&second, &length);
    tree_print(again, 0, to);
    fclose(to);
    assert_string_equal(first, second);
    assert_int_equal(again->count, root->count);
    for (size_t i = 0; i < root->items[0]->count; i++) {
        assert_int_equal(root->items[0]->items[i]->kind, again->items[0]->items[i]->kind);
    }
    assert_string_equal(tree_find(again, "a b")->text, tree_find(root, "a b")->text);
    assert_int_equal(again->keys[3]->kind, TREE_INT);
    free(first);
    free(second);
}

static void descriptions_are_short_and_clean(void **state)
{
    struct tree t = { .kind = TREE_TEXT, .text = "a\033[1m\n" };

    (void)state;
    assert_string_equal(tree_describe(&arena, &t), "the text 'a\\x1b[1m\\n'");
    t.text = repeated("\xc3\xa9", 1000);
    assert_true(strlen(tree_describe(&arena, &t)) < 110);
    assert_int_equal(text_utf8_valid(tree_describe(&arena, &t), strlen(tree_describe(&arena, &t))),
                     strlen(tree_describe(&arena, &t)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(nodes_know_their_places, release),
        cmocka_unit_test_teardown(quoted_scalars_are_texts, release),
        cmocka_unit_test_teardown(nothing_is_an_empty_map, release),
        cmocka_unit_test_teardown(odd_line_ends_are_accepted, release),
        cmocka_unit_test_teardown(an_alias_is_a_copy, release),
        cmocka_unit_test_teardown(merge_keys_give_what_is_not_there, release),
        cmocka_unit_test_teardown(an_integer_key_is_not_the_text_key, release),
        cmocka_unit_test_teardown(mistakes_are_refused_with_their_places, release),
        cmocka_unit_test_teardown(mistakes_of_meaning_come_all_at_once, release),
        cmocka_unit_test_teardown(binary_bytes_are_no_text, release),
        cmocka_unit_test_teardown(files_that_are_none_are_told, release),
        cmocka_unit_test_teardown(limits_are_refused_with_their_places, release),
        cmocka_unit_test_teardown(printed_trees_read_back, release),
        cmocka_unit_test_teardown(descriptions_are_short_and_clean, release),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
