/* Probes of a tiny model: batches of every form, good and bad; what is written and what is left. */
#include <math.h>
#include "infer/tiny_model.h"
#include "infer/infer.h"
#include "tensor/kernels.h"

enum { B = 2, S = 6 };

static const int64_t ids[B * S] = { 1, 5, 9, 30, 2, 7, 39, 0, 3, 3, 12, 8 };
static const int64_t labels[B * S] = { 1, 5, 9, 30, -100, 7, 39, 0, 3, -100, -100, 8 };
static const int64_t unscored[B * S] = { -100, -100, -100, -100, -100, -100,
                                         -100, -100, -100, -100, -100, -100 };
static const int64_t documents[B * S] = { 4, 4, 4, 4, 9, 9, 1, 1, 1, 1, 1, 1 };
static const int64_t positions[B * S] = { 0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 4, 5 };

static status probe_to(struct tiny *t, const char *batch, const char *out, struct probe_options o,
                       struct probe_report *report)
{
    struct comm alone;
    status s;

    comm_alone(&alone);
    o.model = t->folder;
    o.batch = batch;
    o.out = out == NULL ? NULL : tiny_path(t, out);
    o.real = o.real == DT_NONE ? DT_F64 : o.real;
    o.threads = 1;
    s = probe_run(&o, &alone, &t->arena, report);
    comm_close(&alone);
    return s;
}

static const char *plain_batch(struct tiny *t)
{
    const struct tiny_column columns[] = { { "input_ids", DT_I64, B, S, ids },
                                           { "labels", DT_I64, B, S, labels } };

    return tiny_batch(t, columns, 2);
}

static bool same_files(struct tiny *t, const char *a, const char *b)
{
    char *x, *y;
    size_t n, m;

    EXPECT_OK(file_read(&t->arena, tiny_path(t, a), 1 << 24, &x, &n));
    EXPECT_OK(file_read(&t->arena, tiny_path(t, b), 1 << 24, &y, &m));
    return n == m && memcmp(x, y, n) == 0;
}

static void everything_is_written_and_told(void **state)
{
    struct tiny t = { 0 };
    struct probe_report r;
    struct tensor_file f;
    double loss;

    (void)state;
    tiny_make(&t);
    EXPECT_OK(probe_to(&t, plain_batch(&t), "out", (struct probe_options){ 0 }, &r));
    /* Scored are 5, 9, 30, 7 and 0, 3, 8: a label at the first position is never one, -100 is
     * none. */
    assert_int_equal(r.targets, 7);
    assert_int_equal(r.gradients, 12);
    assert_int_equal(r.vocabulary, 40);
    assert_true(r.logits);
    EXPECT_OK(tensor_file_open(&f, &t.arena, tiny_path(&t, "out")));
    assert_int_equal(f.count, 14);
    assert_int_equal(tensor_file_find(&f, "logits")->count, B * S * 40);
    assert_int_equal(tensor_file_find(&f, "logits")->dtype, DT_F64);
    EXPECT_OK(tensor_file_read(&f, tensor_file_find(&f, "loss"), 0, 1, DT_F64, &loss));
    assert_true(loss == r.loss && loss > 0.1 && loss < 50);
    assert_non_null(tensor_file_find(&f, "grad.model.layers.0.mlp.down_proj.weight"));
    tensor_file_close(&f);
    tiny_remove(&t);
}

static void the_loss_is_that_of_the_logits(void **state)
{
    struct tiny t = { 0 };
    struct probe_report r;
    struct tensor_file f;
    double logits[B * S * 40], sum = 0;
    int count = 0;

    (void)state;
    tiny_make(&t);
    EXPECT_OK(probe_to(&t, plain_batch(&t), "out", (struct probe_options){ 0 }, &r));
    EXPECT_OK(tensor_file_open(&f, &t.arena, tiny_path(&t, "out")));
    EXPECT_OK(tensor_file_read(&f, tensor_file_find(&f, "logits"), 0, B * S * 40, DT_F64, logits));
    for (int i = 0; i < B * S; i++) {
        double total = 0;

        if (i % S == S - 1 || labels[i + 1] < 0) {
            continue;
        }
        for (int v = 0; v < 40; v++) {
            total += exp(logits[i * 40 + v]);
        }
        sum += log(total) - logits[i * 40 + labels[i + 1]];
        count++;
    }
    assert_true(fabs(sum / count - r.loss) < 1e-13 * r.loss);
    tensor_file_close(&f);
    tiny_remove(&t);
}

static void no_target_means_zeros(void **state)
{
    const struct tiny_column columns[] = { { "input_ids", DT_I64, B, S, ids },
                                           { "labels", DT_I64, B, S, unscored } };
    struct tiny t = { 0 };
    struct probe_report r;
    struct tensor_file f;

    (void)state;
    tiny_make(&t);
    EXPECT_OK(probe_to(&t, tiny_batch(&t, columns, 2), "out", (struct probe_options){ 0 }, &r));
    assert_int_equal(r.targets, 0);
    assert_true(r.loss == 0);
    EXPECT_OK(tensor_file_open(&f, &t.arena, tiny_path(&t, "out")));
    for (size_t i = 0; i < f.count; i++) {
        double *values = arena_take_array(&t.arena, (size_t)f.entries[i].count, sizeof *values);

        if (strncmp(f.entries[i].name, "grad.", 5) != 0) {
            continue;
        }
        EXPECT_OK(tensor_file_read(&f, &f.entries[i], 0, f.entries[i].count, DT_F64, values));
        for (int64_t k = 0; k < f.entries[i].count; k++) {
            assert_true(values[k] == 0);
        }
    }
    tensor_file_close(&f);
    tiny_remove(&t);
}

static void forms_of_a_batch_give_the_same_bits(void **state)
{
    const struct tiny_column by_document[] = { { "input_ids", DT_I32, B, S, ids },
                                               { "labels", DT_I32, B, S, labels },
                                               { "document_ids", DT_I64, B, S, documents } };
    const struct tiny_column by_position[] = { { "input_ids", DT_I64, B, S, ids },
                                               { "labels", DT_I64, B, S, labels },
                                               { "position_ids", DT_I64, B, S, positions } };
    /* Positions that make no sense are not read where document_ids stand. */
    const struct tiny_column by_both[] = { { "input_ids", DT_I64, B, S, ids },
                                           { "labels", DT_I64, B, S, labels },
                                           { "position_ids", DT_I64, B, S, ids },
                                           { "document_ids", DT_I32, B, S, documents } };
    struct tiny t = { 0 };
    struct probe_report r;

    (void)state;
    tiny_make(&t);
    EXPECT_OK(
        probe_to(&t, tiny_batch(&t, by_document, 3), "documents", (struct probe_options){ 0 }, &r));
    EXPECT_OK(
        probe_to(&t, tiny_batch(&t, by_position, 3), "positions", (struct probe_options){ 0 }, &r));
    EXPECT_OK(probe_to(&t, tiny_batch(&t, by_both, 4), "both", (struct probe_options){ 0 }, &r));
    EXPECT_OK(probe_to(&t, plain_batch(&t), "plain", (struct probe_options){ 0 }, &r));
    assert_true(same_files(&t, "documents", "positions"));
    assert_true(same_files(&t, "documents", "both"));
    assert_false(same_files(&t, "documents", "plain"));
    EXPECT_OK(probe_to(&t, plain_batch(&t), "again",
                       (struct probe_options){ .recompute = true, .test_finite = true }, &r));
    assert_true(same_files(&t, "plain", "again"));
    tiny_remove(&t);
}

static void a_batch_that_is_wrong_is_refused(void **state)
{
    static const int64_t beyond[B * S] = { [7] = 40 }, negative[B * S] = { [3] = -1 },
                                    jump[B * S] = { 0, 1, 3 }, late[B * S] = { 1, 2, 3 };
    const struct tiny_column good = { "input_ids", DT_I64, B, S, ids },
                             scored = { "labels", DT_I64, B, S, labels };
    const struct {
        struct tiny_column columns[3];
        int count;
        const char *part;
    } cases[] = {
        { { scored }, 1, "tensor input_ids is missing" },
        { { good }, 1, "tensor labels is missing" },
        { { { "input_ids", DT_F32, B, S, ids }, scored },
          2,
          "tensor input_ids is F32; it must be I64 or I32" },
        { { { "input_ids", DT_I64, B * S, 0, ids }, scored },
          2,
          "tensor input_ids has 1 dimension" },
        { { good, { "labels", DT_I64, B * S / 4, 4, labels } },
          2,
          "tensor labels is [3, 4], but input_ids is [2, 6]" },
        { { { "input_ids", DT_I64, B, S, beyond }, scored },
          2,
          "tensor input_ids: row 1, position 1: 40 is not an id of the vocabulary of 40" },
        { { { "input_ids", DT_I64, B, S, negative }, scored },
          2,
          "tensor input_ids: row 0, position 3: -1 is not an id" },
        { { good, { "labels", DT_I64, B, S, negative } },
          2,
          "tensor labels: row 0, position 3: -1 is not an id of the vocabulary of 40, nor -100" },
        { { good, scored, { "position_ids", DT_I64, B, S, jump } },
          3,
          "tensor position_ids: row 0, position 2: 3 is neither 0" },
        { { good, scored, { "position_ids", DT_I64, B, S, late } },
          3,
          "tensor position_ids: row 0, position 0: 1 is neither 0" },
        { { good, scored, { "document_ids", DT_I64, 1, S, ids } },
          3,
          "tensor document_ids is [1, 6]" },
        { { { "input_ids", DT_I64, 0, 0, ids }, { "labels", DT_I64, 0, 0, labels } },
          2,
          "a batch has at least one token" },
    };
    struct tiny t = { 0 };
    struct probe_report r;

    (void)state;
    tiny_make(&t);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *batch = tiny_batch(&t, cases[i].columns, cases[i].count);

        EXPECT_FAIL(ERR_FORMAT, cases[i].part,
                    probe_to(&t, batch, "out", (struct probe_options){ 0 }, &r));
        assert_non_null(strstr(fail_text(), batch));
        assert_false(file_is_there(tiny_path(&t, "out")));
    }
    tiny_write(&t, "text", "this is no safetensors file at all");
    EXPECT_FAIL(ERR_FORMAT, "text",
                probe_to(&t, tiny_path(&t, "text"), "out", (struct probe_options){ 0 }, &r));
    EXPECT_FAIL(ERR_MISSING, "nothing",
                probe_to(&t, tiny_path(&t, "nothing"), "out", (struct probe_options){ 0 }, &r));
    tiny_remove(&t);
}

static void a_model_that_is_wrong_is_refused(void **state)
{
    struct tiny t = { .leave_out = "model.norm.weight" };
    struct probe_report r;

    (void)state;
    tiny_make(&t);
    EXPECT_FAIL(ERR_MISSING, "tensor model.norm.weight is not in the model's files",
                probe_to(&t, plain_batch(&t), "out", (struct probe_options){ 0 }, &r));
    assert_false(file_is_there(tiny_path(&t, "out")));
    t.leave_out = NULL;
    tiny_weights(&t);
    t.vocab = 41;
    tiny_config(&t);
    EXPECT_FAIL(ERR_FORMAT, "embed_tokens.weight has the shape [40, 16]",
                probe_to(&t, plain_batch(&t), "out", (struct probe_options){ 0 }, &r));
    tiny_write(&t, "config.json", "{");
    EXPECT_FAIL(ERR_FORMAT, "config.json",
                probe_to(&t, plain_batch(&t), "out", (struct probe_options){ 0 }, &r));
    tiny_remove(&t);
}

static void overflow_is_named_where_it_begins(void **state)
{
    struct tiny t = { .scale = 1e15 };
    struct probe_report r;

    (void)state;
    tiny_make(&t);
    /* Without the search the loss tells of it; the search names the attention, whose scores
     * leave float's range. */
    EXPECT_OK(probe_to(&t, plain_batch(&t), NULL, (struct probe_options){ .real = DT_F32 }, &r));
    assert_false(isfinite(r.loss));
    EXPECT_FAIL(ERR_FORMAT, "is the first value with a NaN or an infinity",
                probe_to(&t, plain_batch(&t), "out",
                         (struct probe_options){ .real = DT_F32, .test_finite = true }, &r));
    assert_non_null(strstr(fail_text(), "layers.0.attention"));
    assert_false(file_is_there(tiny_path(&t, "out")));
    tiny_remove(&t);
}

static void what_cannot_be_written_leaves_nothing(void **state)
{
    struct tiny t = { 0 };
    struct probe_report r;
    char **names;
    size_t before, after;

    (void)state;
    tiny_make(&t);
    plain_batch(&t);
    EXPECT_OK(folder_list(&t.arena, t.folder, &names, &before));
    EXPECT_FAIL(ERR_MISSING, "absent/out",
                probe_to(&t, tiny_path(&t, "batch.safetensors"), "absent/out",
                         (struct probe_options){ 0 }, &r));
    EXPECT_OK(folder_list(&t.arena, t.folder, &names, &after));
    assert_int_equal(before, after);
    EXPECT_FAIL(ERR_RECIPE, "tensor degree 2 times shard degree 1 does not divide the 1 rank",
                probe_to(&t, tiny_path(&t, "batch.safetensors"), "out",
                         (struct probe_options){ .tensor = 2 }, &r));
    tiny_remove(&t);
}

static void a_value_is_shown_and_written(void **state)
{
    struct tiny t = { 0 };
    struct probe_report r;
    struct tensor_file f;
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    double qkv[B * S * 4 * TINY_HEAD];

    (void)state;
    tiny_make(&t);
    EXPECT_OK(probe_to(&t, plain_batch(&t), NULL,
                       (struct probe_options){ .to = to,
                                               .until = "layers.0.qkv",
                                               .dump = arena_format(&t.arena, "layers.0.qkv=%s",
                                                                    tiny_path(&t, "qkv")) },
                       &r));
    fclose(to);
    assert_true(r.until > 0 && r.loss == 0);
    assert_non_null(strstr(text, "layers.0.qkv F64[2, 6, 32]"));
    EXPECT_OK(tensor_file_open(&f, &t.arena, tiny_path(&t, "qkv")));
    assert_int_equal(f.count, 1);
    EXPECT_OK(
        tensor_file_read(&f, tensor_file_find(&f, "layers.0.qkv"), 0, B * S * 32, DT_F64, qkv));
    assert_non_null(strstr(text, arena_format(&t.arena, "begins %.9g %.9g", qkv[0], qkv[1])));
    tensor_file_close(&f);
    free(text);
    EXPECT_FAIL(
        ERR_RECIPE, "did you mean layers.0.qkv?",
        probe_to(&t, plain_batch(&t), NULL, (struct probe_options){ .dump = "layers.0.qvk" }, &r));
    EXPECT_FAIL(ERR_RECIPE, "layers.0.down is made by node",
                probe_to(&t, plain_batch(&t), NULL,
                         (struct probe_options){ .until = "layers.0.qkv", .dump = "layers.0.down" },
                         &r));
    EXPECT_FAIL(
        ERR_RECIPE, "write the name of a value, or VALUE=FILE",
        probe_to(&t, plain_batch(&t), NULL, (struct probe_options){ .dump = "layers.0.qkv=" }, &r));
    EXPECT_FAIL(ERR_RECIPE, "leave out --out",
                probe_to(&t, plain_batch(&t), "out", (struct probe_options){ .until = "1" }, &r));
    tiny_remove(&t);
}

static void families_are_compared_node_by_node(void **state)
{
    struct tiny t = { 0 };
    struct probe_report r;
    const struct kernels *all[8] = { NULL };
    size_t families = kernels_all(DT_F32, all);
    struct probe_options o = { .real = DT_F32, .compare = "scalar" };
    char *text = NULL;
    size_t length = 0;

    (void)state;
    tiny_make(&t);
    o.to = open_memstream(&text, &length);
    EXPECT_OK(probe_to(&t, plain_batch(&t), NULL, o, &r));
    fclose(o.to);
    assert_non_null(strstr(text, " layers.0.qkv\n"));
    assert_non_null(strstr(text, ".weight.gradient\n"));
    assert_null(strchr(text, '!'));
    free(text);
    o.to = NULL;
    if (families > 1) {
        o.tolerance = 1e-12; /* float sums in another order */
        EXPECT_FAIL(ERR_FORMAT, "differs between the families",
                    probe_to(&t, plain_batch(&t), NULL, o, &r));
    }
    o.compare = "scalar2";
    EXPECT_FAIL(ERR_RECIPE, "'scalar2' is no kernel family that this processor runs; choose scalar",
                probe_to(&t, plain_batch(&t), NULL, o, &r));
    o.until = "1";
    EXPECT_FAIL(ERR_RECIPE, "--compare runs node by node",
                probe_to(&t, plain_batch(&t), NULL, o, &r));
    tiny_remove(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_written_and_told),
        cmocka_unit_test(the_loss_is_that_of_the_logits),
        cmocka_unit_test(no_target_means_zeros),
        cmocka_unit_test(forms_of_a_batch_give_the_same_bits),
        cmocka_unit_test(a_batch_that_is_wrong_is_refused),
        cmocka_unit_test(a_model_that_is_wrong_is_refused),
        cmocka_unit_test(overflow_is_named_where_it_begins),
        cmocka_unit_test(what_cannot_be_written_leaves_nothing),
        cmocka_unit_test(a_value_is_shown_and_written),
        cmocka_unit_test(families_are_compared_node_by_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
