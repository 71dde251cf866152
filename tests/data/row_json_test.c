#include "support/expect.h"
#include "data/row_json.h"

static void put_row(char out[512], const char *ids, const char *mask, const char *labels,
                    const char *more)
{
    snprintf(out, 512, "{\"input_ids\":%s,\"attention_mask\":%s,\"labels\":%s%s}", ids, mask,
             labels, more);
}

static void columns_come_in_any_order_with_others_between(void **state)
{
    static const char text[] =
        " {\"x\": [{\"input_ids\": null}, 1e5], \"labels\": [-100, 7], \"attention_mask\": [0, 1],"
        "\"t\": \"\\ud83d\\ude00\", \"\\u0069nput_ids\": [ 4 , 9 ]}\r";
    struct row_fault fault;
    struct arena a = { 0 };
    struct row row = { .file = "f", .line = 3 };

    (void)state;
    assert_true(row_parse(text, sizeof text - 1, 10, &a, &row, &fault));
    assert_int_equal(row.length, 2);
    assert_true(row.ids[0] == 4 && row.ids[1] == 9);
    assert_true(row.labels[0] == -100 && row.labels[1] == 7);
    assert_true(row.starts[0] == 0 && row.starts[1] == 0);
    assert_true(row.line == 3 && strcmp(row.file, "f") == 0);
    arena_release(&a);
}

static void documents_begin_where_a_mark_says(void **state)
{
    static const struct {
        const char *more;
        int32_t starts[5];
    } cases[] = {
        { "", { 0, 0, 0, 0, 0 } },
        { ",\"document_ids\":[7,7,3,3,7]", { 0, 0, 2, 2, 4 } },
        { ",\"position_ids\":[0,1,0,0,1]", { 0, 0, 2, 3, 3 } },
        { ",\"position_ids\":[0,1,2,3,0],\"document_ids\":[1,2,2,2,2]", { 0, 1, 1, 1, 4 } },
        { ",\"document_ids\":[9223372036854775807,-9223372036854775808,1,1,1]", { 0, 1, 2, 2, 2 } },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena a = { 0 };
        struct row_fault fault;
        struct row row;
        char text[512];

        put_row(text, "[1,2,3,4,5]", "[1,1,1,1,1]", "[1,2,3,4,5]", cases[i].more);
        assert_true(row_parse(text, strlen(text), 10, &a, &row, &fault));
        assert_memory_equal(row.starts, cases[i].starts, sizeof cases[i].starts);
        arena_release(&a);
    }
}

static void faults_have_a_place_and_a_reason(void **state)
{
    static const struct {
        const char *ids, *mask, *labels, *more;
        const char *at; /* the text at the fault */
        const char *says;
    } cases[] = {
        { "[1,10]", "[1,1]", "[1,1]", "", "10]",
          "input_ids[1]: found 10, ids of this vocabulary are 0 to 9" },
        { "[-1]", "[1]", "[1]", "", "-1]",
          "input_ids[0]: found -1, ids of this vocabulary are 0 to 9" },
        { "[4294967301]", "[1]", "[1]", "", "4294967301", "input_ids[0]: found 4294967301" },
        { "[1]", "[1]", "[-1]", "", "-1]",
          "labels[0]: found -1, a label is -100 (not scored) or an id, 0 to 9" },
        { "[1]", "[1]", "[10]", "", "10]", "labels[0]: found 10" },
        { "[1]", "[1.0]", "[1]", "", "1.0", "attention_mask[0]: this is no integer (found: 1.0)" },
        { "[1]", "[true]", "[1]", "", "true",
          "attention_mask[0]: an integer must stand here (found: true)" },
        { "[1]", "[1]", "[1,2]", "", "[1,2]",
          "labels has 2 values, input_ids has 1: they must be equal" },
        { "[1,2]", "[1,1]", "[1,2]", ",\"document_ids\":[1]", "[1]}",
          "document_ids has 1 values, input_ids has 2" },
        { "[1,2]", "[1,1]", "[1,2]", ",\"position_ids\":[1,2]", "1,2]}",
          "position_ids[0]: found 1, allowed are 0" },
        { "[1,2]", "[1,1]", "[1,2]", ",\"position_ids\":[0,2]", "2]}",
          "position_ids[1]: found 2, allowed are 1 (the next position) and 0 (a document begins)" },
        { "[1,2]", "[1,1]", "[1,2]", ",\"document_ids\":\"x\"", "\"x\"}",
          "document_ids: a list of integers must stand here" },
        { "[1]", "[1]", "[1]", ",\"labels\":[1]", "[1]}", "labels stands twice in this row" },
        { "[1]", "[1]", "[1]", ",\"x\":[1,]", "]}",
          "a comma may not stand before the closing bracket" },
        { "[1]", "[1]", "[1]", ",\"x\":0}{", "{}", "text stands behind the end" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct row_fault fault = { 0 };
        struct arena a = { 0 };
        struct row row;
        char text[512];

        put_row(text, cases[i].ids, cases[i].mask, cases[i].labels, cases[i].more);
        assert_false(row_parse(text, strlen(text), 10, &a, &row, &fault));
        if (strncmp(text + fault.at, cases[i].at, strlen(cases[i].at)) != 0 ||
            strstr(fault.text, cases[i].says) == NULL) {
            print_error("%s\nat %zu, \"%s\": %s\n", text, fault.at, text + fault.at, fault.text);
            _fail(__FILE__, __LINE__);
        }
        arena_release(&a);
    }
}

static void a_row_may_be_long_and_may_be_empty(void **state)
{
    static const char empty[] = "{\"input_ids\":[],\"attention_mask\":[],\"labels\":[]}";
    enum { COUNT = 5000 };
    struct row_fault fault;
    struct arena a = { 0 };
    struct row row;
    char *text = malloc(40 * COUNT), *to = text;

    (void)state;
    for (int column = 0; column < 3; column++) {
        static const char *const names[3] = { "{\"input_ids\":[", "],\"attention_mask\":[",
                                              "],\"labels\":[" };

        to += sprintf(to, "%s", names[column]);
        for (int i = 0; i < COUNT; i++) {
            to += sprintf(to, i == 0 ? "%d" : ",%d", i);
        }
    }
    to += sprintf(to, "]}");
    assert_true(row_parse(text, (size_t)(to - text), COUNT, &a, &row, &fault));
    assert_int_equal(row.length, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_true(row.ids[i] == i && row.labels[i] == i);
    }
    free(text);
    assert_true(row_parse(empty, sizeof empty - 1, 1, &a, &row, &fault));
    assert_int_equal(row.length, 0);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_come_in_any_order_with_others_between),
        cmocka_unit_test(documents_begin_where_a_mark_says),
        cmocka_unit_test(faults_have_a_place_and_a_reason),
        cmocka_unit_test(a_row_may_be_long_and_may_be_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
