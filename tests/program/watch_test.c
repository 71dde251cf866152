/* Times, traces, stops, names and contents of a program that runs. */
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "base/text.h"
#include "program/watch.h"
#include "support/tiny.h"

static const struct tiny_options options = {
    .real = DT_F32, .B = 2, .S = 12, .layers = 2, .threads = 3
};

/* Nodes that compute: views only name bytes. */
static int nodes_that_run(const struct program *p)
{
    val written[OP_IN + OP_OUT];
    int count = 0;

    for (int i = 0; i < p->node_count; i++) {
        count += program_node_writes(p, i, written) > 0;
    }
    return count;
}

static void rows_in(struct tiny *t)
{
    for (int64_t i = 0; i < t->B; i++) {
        tiny_row(t, i, i);
    }
    tiny_zero_gradients(t);
}

static void run_watched(struct tiny *t, struct watch *w, int until)
{
    struct run_options o = { .watch = w, .until = until };

    rows_in(t);
    EXPECT_OK(program_run(&t->p, &t->d, &o));
}

static void every_thread_has_an_event_a_node(void **state)
{
    struct tiny t;
    struct watch w;
    int nodes;

    (void)state;
    tiny_open(&t, &options);
    nodes = nodes_that_run(&t.p);
    watch_open(&w, 3, 2 * nodes - 5);
    watch_program(&w, &t.p);
    run_watched(&t, &w, 0);
    for (int i = 0; i < 3; i++) {
        const struct watch_thread *thread = &w.threads[i];

        assert_int_equal(thread->count, nodes);
        for (int64_t k = 0; k < thread->count; k++) {
            assert_true(thread->events[k].end >= thread->events[k].begin);
            assert_true(k == 0 || (thread->events[k].begin >= thread->events[k - 1].end &&
                                   thread->events[k].node > thread->events[k - 1].node));
        }
    }
    /* The memory for events was taken at the start: what no longer fits is counted. */
    run_watched(&t, &w, 0);
    assert_int_equal(w.threads[1].count, 2 * nodes - 5);
    assert_int_equal(w.threads[1].lost, 5);
    assert_int_equal(w.runs[0], 2);
    watch_forget(&w);
    assert_int_equal(w.runs[0], 0);
    assert_true(w.seconds[0][1] == 0);
    watch_close(&w);
    tiny_close(&t);
}

static void watching_changes_no_bit(void **state)
{
    struct tiny plain, watched;
    struct watch w;

    (void)state;
    tiny_open(&plain, &options);
    tiny_open(&watched, &options);
    watch_open(&w, 3, 0);
    watch_program(&w, &watched.p);
    tiny_run(&plain, 0);
    run_watched(&watched, &w, 0);
    tiny_expect_same(&plain, &watched);
    watch_close(&w);
    tiny_close(&plain);
    tiny_close(&watched);
}

/* The number behind the op's name in a table; -1 if the op is not there. */
static double calls_of(const char *table, const char *op)
{
    char line[64];
    const char *at;

    snprintf(line, sizeof line, "\n%s ", op);
    at = strstr(table, line);
    return at == NULL ? -1 : strtod(at + strlen(line), NULL);
}

static void the_table_counts_calls_of_a_step(void **state)
{
    struct tiny t;
    struct watch w;
    char *text = NULL;
    size_t length = 0;
    FILE *to;

    (void)state;
    tiny_open(&t, &options);
    watch_open(&w, 3, 0);
    watch_program(&w, &t.p);
    run_watched(&t, &w, 0);
    run_watched(&t, &w, 0);
    to = open_memstream(&text, &length);
    assert_non_null(to);
    watch_table(&w, 2, to);
    fclose(to);
    /* Two layers of two norms, and the last one; four products a layer. */
    assert_true(calls_of(text, "rmsnorm") == 5);
    assert_true(calls_of(text, "linear") == 8);
    assert_true(calls_of(text, "view") == -1);
    assert_true(calls_of(text, "all") == nodes_that_run(&t.p));
    assert_non_null(strstr(text, "100.0%"));
    free(text);
    watch_close(&w);
    tiny_close(&t);
}

static void a_trace_is_json_that_chrome_reads(void **state)
{
    char path[] = "watch-trace-XXXXXX";
    int fd = mkstemp(path);
    struct tiny t;
    struct watch w;
    json_t *root, *events, *last;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    tiny_open(&t, &options);
    watch_open(&w, 3, 4096);
    watch_program(&w, &t.p);
    run_watched(&t, &w, 0);
    EXPECT_OK(watch_trace(&w, path, 4));
    root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    events = json_object_get(root, "traceEvents");
    assert_int_equal(json_array_size(events), 1 + 3 * nodes_that_run(&t.p));
    last = json_array_get(events, json_array_size(events) - 1);
    assert_string_equal(json_string_value(json_object_get(last, "ph")), "X");
    assert_string_equal(json_string_value(json_object_get(last, "cat")), "learn");
    assert_int_equal(json_integer_value(json_object_get(last, "pid")), 4);
    assert_int_equal(json_integer_value(json_object_get(last, "tid")), 2);
    assert_true(json_number_value(json_object_get(last, "dur")) >= 0);
    json_decref(root);
    EXPECT_FAIL(ERR_IO, "absent/trace: cannot be opened", watch_trace(&w, "absent/trace", 0));
    unlink(path);
    watch_close(&w);
    tiny_close(&t);
}

static void a_run_stops_after_the_node_asked_for(void **state)
{
    struct tiny t;
    struct watch w;
    int node;

    (void)state;
    tiny_open(&t, &options);
    EXPECT_OK(program_find_node(&t.p, "layers.1.qkv", &node));
    watch_open(&w, 3, 4096);
    watch_program(&w, &t.p);
    run_watched(&t, &w, node + 1);
    assert_int_equal(w.threads[2].events[w.threads[2].count - 1].node, node);
    watch_close(&w);
    tiny_close(&t);
}

static void unknown_names_are_answered_with_the_nearest(void **state)
{
    struct tiny t;
    val v;
    int node, same;
    char number[16];

    (void)state;
    tiny_open(&t, &options);
    EXPECT_OK(program_find_node(&t.p, "layers.0.attention", &node));
    snprintf(number, sizeof number, "%d", node);
    EXPECT_OK(program_find_node(&t.p, number, &same));
    assert_int_equal(node, same);
    EXPECT_FAIL(ERR_RECIPE, "no node called layers.0.atention (did you mean layers.0.attention?)",
                program_find_node(&t.p, "layers.0.atention", &node));
    EXPECT_FAIL(ERR_RECIPE, "has no node 99999; its nodes are 0 to",
                program_find_node(&t.p, "99999", &node));
    EXPECT_OK(program_find_value(&t.p, "layers.1.qkv", &v));
    assert_string_equal(program_value(&t.p, v)->name, "layers.1.qkv");
    EXPECT_FAIL(ERR_RECIPE, "no value called layers.1.qqkv (did you mean layers.1.qkv?)",
                program_find_value(&t.p, "layers.1.qqkv", &v));
    EXPECT_FAIL(ERR_RECIPE, "no value called x; roux plan --program lists them",
                program_find_value(&t.p, "x", &v));
    tiny_close(&t);
}

static void a_summary_tells_what_a_value_holds(void **state)
{
    static const float floats[] = { 1, -3, 2, 0 };
    static const uint16_t brains[] = { 0x3f80, 0xc040, 0x7fc0, 0x7f80 }; /* 1, -3, NaN, infinity */
    struct tiny t;
    struct value_summary s;
    val f, b, i;
    struct place whole = { { 0 } };
    int64_t wide[] = { 5, -7 };

    (void)state;
    tiny_write(&t, &options);
    f = program_state(&t.p, "f", DT_F32, shape_1(4), whole);
    b = program_state(&t.p, "b", DT_BF16, shape_1(4), whole);
    i = program_state(&t.p, "i", DT_I64, shape_1(2), whole);
    EXPECT_OK(tiny_plan(&t, 1));
    EXPECT_OK(device_open(&t.d, t.kernels, &t.mesh, 1, &t.residents));
    device_write(&t.d, &t.p, f, 0, 4, floats);
    device_write(&t.d, &t.p, b, 0, 4, brains);
    device_write(&t.d, &t.p, i, 0, 2, wide);
    EXPECT_OK(device_summary(&t.d, &t.p, f, &s));
    assert_true(s.count == 4 && s.not_finite == 0 && s.least == -3 && s.most == 2 && s.mean == 0);
    assert_true(fabs(s.rms - sqrt(3.5)) < 1e-15);
    EXPECT_OK(device_summary(&t.d, &t.p, b, &s));
    assert_true(s.not_finite == 2 && s.least == -3 && s.most == 1 && s.mean == -1);
    EXPECT_OK(device_summary(&t.d, &t.p, i, &s));
    assert_true(s.least == -7 && s.most == 5 && s.mean == -1);
    tiny_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_thread_has_an_event_a_node),
        cmocka_unit_test(watching_changes_no_bit),
        cmocka_unit_test(the_table_counts_calls_of_a_step),
        cmocka_unit_test(a_trace_is_json_that_chrome_reads),
        cmocka_unit_test(a_run_stops_after_the_node_asked_for),
        cmocka_unit_test(unknown_names_are_answered_with_the_nearest),
        cmocka_unit_test(a_summary_tells_what_a_value_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
