/* Generation from a tiny model: against a probe of the same tokens, its limits, and its ends. */
#include "infer/tiny_model.h"
#include "infer/infer.h"

enum { MOST = 64 };

struct taken {
    int64_t ids[MOST];
    int64_t count, stop_at; /* stop_at > 0: fail when so many were taken */
};

static status take(void *user, int64_t id)
{
    struct taken *t = user;

    t->ids[t->count++] = id;
    return t->count == t->stop_at ? fail(ERR_IO, "enough") : OK;
}

static status generate(struct tiny *t, struct generate_options o, struct taken *taken,
                       struct generate_report *r)
{
    static const int64_t prompt[] = { 3, 14, 15, 9, 2 };

    taken->count = 0;
    o.model = t->folder;
    if (o.prompt == NULL) {
        o.prompt = prompt;
        o.prompt_count = 5;
    }
    o.most = o.most == 0 ? 10 : o.most;
    o.real = o.real == DT_NONE ? DT_F64 : o.real;
    o.threads = 1;
    return generate_run(&o, take, taken, r);
}

static int64_t likeliest(const double *logits, int vocab)
{
    int64_t best = 0;

    for (int i = 1; i < vocab; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

static void greedy_tokens_are_the_likeliest_of_a_probe(void **state)
{
    struct tiny t = { 0 };
    struct taken taken = { 0 };
    struct generate_report r;
    struct probe_report probed;
    struct tensor_file f;
    struct comm alone;
    int64_t row[15] = { 3, 14, 15, 9, 2 };
    double logits[15 * 40];

    (void)state;
    tiny_make(&t);
    EXPECT_OK(generate(&t, (struct generate_options){ 0 }, &taken, &r));
    assert_int_equal(r.tokens, 10);
    assert_int_equal(r.end, END_MOST);
    memcpy(row + 5, taken.ids, 10 * sizeof *row);
    {
        const struct tiny_column columns[] = { { "input_ids", DT_I64, 1, 15, row },
                                               { "labels", DT_I64, 1, 15, row } };
        struct probe_options o = { .model = t.folder,
                                   .batch = tiny_batch(&t, columns, 2),
                                   .out = tiny_path(&t, "out"),
                                   .real = DT_F64 };

        comm_alone(&alone);
        EXPECT_OK(probe_run(&o, &alone, &t.arena, &probed));
        comm_close(&alone);
    }
    EXPECT_OK(tensor_file_open(&f, &t.arena, tiny_path(&t, "out")));
    EXPECT_OK(tensor_file_read(&f, tensor_file_find(&f, "logits"), 0, 15 * 40, DT_F64, logits));
    for (int i = 4; i < 14; i++) {
        assert_int_equal(likeliest(logits + i * 40, 40), row[i + 1]);
    }
    tensor_file_close(&f);
    tiny_remove(&t);
}

static void drawing_is_a_function_of_the_seed(void **state)
{
    struct tiny t = { 0 };
    struct taken greedy = { 0 }, cold = { 0 }, a = { 0 }, again = { 0 }, other = { 0 },
                 shorter = { 0 };
    struct generate_report r;

    (void)state;
    tiny_make(&t);
    EXPECT_OK(generate(&t, (struct generate_options){ 0 }, &greedy, &r));
    EXPECT_OK(generate(&t, (struct generate_options){ .temperature = 1e-6, .seed = 5 }, &cold, &r));
    EXPECT_OK(generate(&t, (struct generate_options){ .temperature = 3, .seed = 5 }, &a, &r));
    EXPECT_OK(generate(&t, (struct generate_options){ .temperature = 3, .seed = 5 }, &again, &r));
    EXPECT_OK(generate(&t, (struct generate_options){ .temperature = 3, .seed = 6 }, &other, &r));
    EXPECT_OK(generate(&t, (struct generate_options){ .temperature = 3, .seed = 5, .most = 4 },
                       &shorter, &r));
    assert_memory_equal(greedy.ids, cold.ids, sizeof greedy.ids);
    assert_memory_equal(a.ids, again.ids, sizeof a.ids);
    assert_true(memcmp(a.ids, other.ids, sizeof a.ids) != 0);
    assert_true(memcmp(a.ids, greedy.ids, sizeof a.ids) != 0);
    assert_memory_equal(a.ids, shorter.ids, 4 * sizeof *a.ids); /* the bound changes nothing */
    tiny_remove(&t);
}

/* At an endless temperature all ids are equally likely: each of 40 comes up about 50 times in
 * 2,000. */
static void drawing_follows_the_probabilities(void **state)
{
    struct tiny t = { .positions = 64 };
    struct generate_report r;
    int seen[40] = { 0 };

    (void)state;
    tiny_make(&t);
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct taken taken = { 0 };

        EXPECT_OK(generate(&t,
                           (struct generate_options){
                               .temperature = 1e6, .seed = seed, .most = 50, .real = DT_F32 },
                           &taken, &r));
        for (int64_t i = 0; i < taken.count; i++) {
            seen[taken.ids[i]]++;
        }
    }
    for (int i = 0; i < 40; i++) {
        assert_in_range(seen[i], 20, 90);
    }
    tiny_remove(&t);
}

static void it_ends_where_the_model_ends(void **state)
{
    static const int64_t longest[32] = { 1 };
    struct tiny t = { 0 };
    struct taken taken = { 0 };
    struct generate_report r;
    int64_t third;

    (void)state;
    tiny_make(&t);
    EXPECT_FAIL(
        ERR_RECIPE,
        "the prompt has 32 tokens, but the model has 32 positions (max_position_embeddings)",
        generate(&t, (struct generate_options){ .prompt = longest, .prompt_count = 32 }, &taken,
                 &r));
    /* One position is free: its token is read, and one more is foretold from it. */
    EXPECT_OK(generate(
        &t, (struct generate_options){ .prompt = longest, .prompt_count = 31, .most = MOST },
        &taken, &r));
    assert_int_equal(r.tokens, 2);
    assert_int_equal(r.end, END_CONTEXT);
    assert_int_equal(r.positions, 32);

    EXPECT_OK(generate(&t, (struct generate_options){ 0 }, &taken, &r));
    third = taken.ids[2];
    for (t.eos = 0; taken.ids[t.eos] != third; t.eos++) {
    }
    {
        int64_t first = t.eos; /* a token may come twice: then the text ends at the first */

        t.eos = (int)third;
        tiny_config(&t);
        EXPECT_OK(generate(&t, (struct generate_options){ 0 }, &taken, &r));
        assert_int_equal(r.tokens, first);
        assert_int_equal(taken.count, first);
    }
    assert_int_equal(r.end, END_TEXT);
    assert_int_equal(r.end_id, third);
    tiny_remove(&t);
}

static void mistakes_are_named(void **state)
{
    static const int64_t beyond[] = { 1, 40 };
    struct tiny t = { 0 };
    struct taken taken = { 0 };
    struct generate_report r;

    (void)state;
    tiny_make(&t);
    EXPECT_FAIL(
        ERR_RECIPE, "the prompt is empty",
        generate(&t, (struct generate_options){ .prompt = beyond, .prompt_count = 0 }, &taken, &r));
    EXPECT_FAIL(
        ERR_RECIPE, "token 1 of the prompt is 40, which is not an id of the vocabulary of 40",
        generate(&t, (struct generate_options){ .prompt = beyond, .prompt_count = 2 }, &taken, &r));
    taken.stop_at = 3;
    EXPECT_FAIL(ERR_IO, "enough", generate(&t, (struct generate_options){ 0 }, &taken, &r));
    assert_int_equal(taken.count, 3);
    taken.stop_at = 0;
    t.scale = 1e15;
    tiny_weights(&t);
    EXPECT_FAIL(ERR_FORMAT, "the logit of token 0 at position 4 is",
                generate(&t, (struct generate_options){ .real = DT_F32 }, &taken, &r));
    assert_int_equal(taken.count, 0);
    EXPECT_OK(folder_remove(t.folder));
    EXPECT_FAIL(ERR_MISSING, "config.json",
                generate(&t, (struct generate_options){ 0 }, &taken, &r));
    tiny_remove(&t);
}

static void text_is_bytes_for_models_of_bytes(void **state)
{
    struct tiny t = { .vocab = 256 };
    int64_t *ids, count;

    (void)state;
    tiny_make(&t);
    EXPECT_OK(generate_text_prompt(&t.arena, t.folder, "A\xc3\xa9", &ids, &count));
    assert_int_equal(count, 3);
    assert_true(ids[0] == 65 && ids[1] == 0xc3 && ids[2] == 0xa9);
    tiny_write(&t, "tokenizer.json", "{}");
    EXPECT_FAIL(ERR_UNSUPPORTED, "has the tokenizer tokenizer.json",
                generate_text_prompt(&t.arena, t.folder, "A", &ids, &count));
    assert_int_equal(unlink(tiny_path(&t, "tokenizer.json")), 0);
    t.vocab = 513;
    tiny_config(&t);
    EXPECT_FAIL(ERR_UNSUPPORTED, "more than 512 ids; tokenizers are not built yet",
                generate_text_prompt(&t.arena, t.folder, "A", &ids, &count));
    t.vocab = 100;
    tiny_config(&t);
    EXPECT_FAIL(ERR_RECIPE, "byte 1 of the prompt is 0x7a, beyond the vocabulary of 100",
                generate_text_prompt(&t.arena, t.folder, "Az", &ids, &count));
    tiny_remove(&t);
}

/* What comes out after each byte, with bars between. */
static const char *through_the_gate(struct arena *a, const char *bytes)
{
    struct utf8_gate g = { 0 };
    char out[8];
    char *all = arena_text(a, "");

    for (; *bytes != 0; bytes++) {
        int count = utf8_gate_put(&g, (unsigned char)*bytes, out);

        all = arena_format(a, "%s%.*s|", all, count, out);
    }
    return arena_format(a, "%s%.*s", all, utf8_gate_end(&g, out), out);
}

static void sequences_are_never_torn(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        { "ab", "a|b|" },
        { "\xc3\xa9", "|\xc3\xa9|" },
        { "\xe2\x82\xac!", "||\xe2\x82\xac|!|" },
        { "\xf0\x9f\x98\x80", "|||\xf0\x9f\x98\x80|" },
        { "\xe2\x82", "||\xe2\x82" },    /* the end lets go of it */
        { "\xe2\x82z", "||\xe2\x82z|" }, /* broken by a letter */
        { "\xe2\x82\xe2\x82\xac",
          "||\xe2\x82||\xe2\x82\xac|" }, /* broken by the next sequence, which waits for itself */
        { "\xff\x80", "\xff|\x80|" },    /* never a beginning */
        { "\xe0\x80", "|\xe0\x80|" },    /* overlong: no way to become one */
        { "\xed\xa0", "|\xed\xa0|" },    /* half a surrogate pair */
        { "\xf4\x90", "|\xf4\x90|" },    /* beyond U+10FFFF */
        { "\xf0\xc3\xa9", "|\xf0|\xc3\xa9|" },
        { "\xe0\xa0\x80", "||\xe0\xa0\x80|" },
        { "\xf4\x8f\xbf\xbf", "|||\xf4\x8f\xbf\xbf|" },
    };
    struct arena a = { 0 };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(through_the_gate(&a, cases[i].in), cases[i].out);
    }
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_tokens_are_the_likeliest_of_a_probe),
        cmocka_unit_test(drawing_is_a_function_of_the_seed),
        cmocka_unit_test(drawing_follows_the_probabilities),
        cmocka_unit_test(it_ends_where_the_model_ends),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(text_is_bytes_for_models_of_bytes),
        cmocka_unit_test(sequences_are_never_torn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
