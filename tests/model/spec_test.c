#include <math.h>
#include "base/file.h"
#include "model/family.h"
#include "store/safetensors.h"
#include "support/expect.h"

static struct model_spec llama(void)
{
    struct model_spec s;

    spec_default(&s, family_find("llama"));
    return s;
}

static void families_are_found_by_both_words(void **state)
{
    (void)state;
    assert_string_equal(family_find("llama")->architecture, "LlamaForCausalLM");
    assert_ptr_equal(family_of_recipe("llama_v3"), family_find("llama"));
    assert_ptr_equal(family_of_recipe("llama_v2"), family_find("llama"));
    assert_ptr_equal(family_of_recipe("deepseek_r1_llama_v3"), family_find("llama"));
    assert_null(family_find("mistral"));
    assert_null(family_find("llam"));
    assert_null(family_find(""));
    assert_null(family_find(NULL));
    assert_null(family_of_recipe("llama"));
    assert_null(family_of_recipe("llama_v3 llama_v2"));
    assert_null(family_of_recipe(""));
    assert_null(family_of_recipe(NULL));
}

static void defaults_are_those_of_the_table(void **state)
{
    struct model_spec s = llama();

    (void)state;
    EXPECT_OK(spec_finish(&s, "here"));
    assert_int_equal(s.vocab, 32000);
    assert_int_equal(s.width, 4096);
    assert_int_equal(s.ffn, 11008);
    assert_int_equal(s.layers, 32);
    assert_int_equal(s.heads, 32);
    assert_int_equal(s.groups, 32);
    assert_int_equal(s.head_dim, 128);
    assert_true(s.eps == 1e-6 && s.init_std == 0.02 && s.rope.theta == 1e4);
    assert_int_equal(s.rope.kind, ROPE_DEFAULT);
    assert_false(s.tied || s.attention_bias || s.mlp_bias);
    assert_int_equal(s.window, 0);
    assert_int_equal(s.pad, -1);
    assert_int_equal(s.bos, 1);
    assert_int_equal(s.eos_count, 1);
    assert_int_equal(s.eos[0], 2);
    /* Llama 2 7B is known to have this many. */
    assert_int_equal(spec_parameters(&s), INT64_C(6738415616));
}

/* By hand: 5 * 4 embedding, 5 * 4 head, 4 norm; a layer: q 6*4, k and v 2*4 each ... */
static void parameters_are_counted_once(void **state)
{
    struct model_spec s = llama();
    int64_t layer = 6 * 4 + 2 * 2 * 4 + 4 * 6 + 3 * 7 * 4 + 2 * 4;

    (void)state;
    s.vocab = 5;
    s.width = 4;
    s.ffn = 7;
    s.layers = 3;
    s.heads = 3;
    s.groups = 1;
    s.head_dim = 2;
    EXPECT_OK(spec_finish(&s, "here"));
    assert_int_equal(spec_parameters(&s), 20 + 20 + 4 + 3 * layer);
    s.tied = true;
    assert_int_equal(spec_parameters(&s), 20 + 4 + 3 * layer);
    s.attention_bias = true;
    assert_int_equal(spec_parameters(&s), 20 + 4 + 3 * (layer + 6 + 2 + 2 + 4));
    s.mlp_bias = true;
    assert_int_equal(spec_parameters(&s), 20 + 4 + 3 * (layer + 6 + 2 + 2 + 4 + 7 + 7 + 4));
}

static void finish_completes_heads(void **state)
{
    struct model_spec s = llama();

    (void)state;
    s.width = 48;
    s.heads = 4;
    EXPECT_OK(spec_finish(&s, "here"));
    assert_int_equal(s.groups, 4);
    assert_int_equal(s.head_dim, 12);
    s.width = 50; /* with a head_dim of its own the width is free */
    s.groups = 2;
    EXPECT_OK(spec_finish(&s, "here"));
    assert_int_equal(s.head_dim, 12);
}

static void finish_refuses(void **state)
{
    static const struct {
        size_t at;
        int64_t value;
        const char *part;
    } rows[] = {
        { offsetof(struct model_spec, vocab), 0,
          "here: vocab_size is 0; allowed are 1 to 16777216" },
        { offsetof(struct model_spec, vocab), INT64_MAX, "vocab_size is 9223372036854775807" },
        { offsetof(struct model_spec, width), -1, "hidden_size is -1" },
        { offsetof(struct model_spec, ffn), INT64_MIN, "intermediate_size" },
        { offsetof(struct model_spec, layers), 10001, "num_hidden_layers is 10001" },
        { offsetof(struct model_spec, heads), 0, "num_attention_heads is 0" },
        { offsetof(struct model_spec, groups), -2, "num_key_value_heads is -2" },
        { offsetof(struct model_spec, groups), 5,
          "num_attention_heads is 32 and num_key_value_heads 5" },
        { offsetof(struct model_spec, groups), 64, "must be a multiple" },
        { offsetof(struct model_spec, width), 4097, "hidden_size 4097 is no multiple" },
        { offsetof(struct model_spec, head_dim), 3, "head_dim is 3; it must be even" },
        { offsetof(struct model_spec, head_dim), -4, "head_dim is -4" },
        { offsetof(struct model_spec, max_positions), 0, "max_position_embeddings is 0" },
        { offsetof(struct model_spec, pad), 32000,
          "pad_token_id is 32000; allowed are 0 to 31999" },
        { offsetof(struct model_spec, pad), -2, "pad_token_id is -2" },
        { offsetof(struct model_spec, window), -1, "sliding_window is -1" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct model_spec s = llama();

        *(int64_t *)(void *)((char *)&s + rows[i].at) = rows[i].value;
        EXPECT_FAIL(ERR_RECIPE, rows[i].part, spec_finish(&s, "here"));
    }
}

static void finish_refuses_models_beyond_counting(void **state)
{
    struct model_spec s = llama();

    (void)state;
    s.width = s.head_dim = 1 << 24;
    EXPECT_FAIL(ERR_RECIPE, "the sizes make a model of 1.15e+18 parameters",
                spec_finish(&s, "here"));
    s.ffn = s.heads = s.groups = 1 << 24;
    s.layers = 10000;
    EXPECT_FAIL(ERR_RECIPE, "parameters", spec_finish(&s, "here"));
}

static void finish_refuses_numbers_out_of_range(void **state)
{
    static const double bad[] = { -1, INFINITY, NAN };
    struct model_spec s;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        s = llama();
        s.eps = bad[i];
        EXPECT_FAIL(ERR_RECIPE, "rms_norm_eps", spec_finish(&s, "here"));
        s = llama();
        s.init_std = bad[i];
        EXPECT_FAIL(ERR_RECIPE, "initializer_range", spec_finish(&s, "here"));
        s = llama();
        s.rope.theta = bad[i];
        EXPECT_FAIL(ERR_RECIPE, "rope_theta", spec_finish(&s, "here"));
        s = llama();
        s.rope = (struct rope_spec){ ROPE_LINEAR, 1e4, bad[i], 0, 0, 0 };
        EXPECT_FAIL(ERR_RECIPE, "factor", spec_finish(&s, "here"));
        s.rope = (struct rope_spec){ ROPE_LLAMA3, 1e4, 8, bad[i], 4, 8192 };
        EXPECT_FAIL(ERR_RECIPE, "low_freq_factor", spec_finish(&s, "here"));
        s.rope = (struct rope_spec){ ROPE_LLAMA3, 1e4, 8, 1, bad[i], 8192 };
        EXPECT_FAIL(ERR_RECIPE, "high_freq_factor", spec_finish(&s, "here"));
    }
    s.rope = (struct rope_spec){ ROPE_LLAMA3, 1e4, 8, 4, 4, 8192 };
    EXPECT_FAIL(ERR_RECIPE, "must be larger", spec_finish(&s, "here"));
    s.rope = (struct rope_spec){ ROPE_LLAMA3, 1e4, 8, 1, 4, 0 };
    EXPECT_FAIL(ERR_RECIPE, "original_max_position_embeddings is 0", spec_finish(&s, "here"));
    s.rope = (struct rope_spec){ ROPE_DEFAULT, 0, 0, 0, 0, 0 };
    EXPECT_FAIL(ERR_RECIPE, "rope_theta is 0", spec_finish(&s, "here"));
    s = llama();
    s.eps = s.init_std = 0;
    EXPECT_OK(spec_finish(&s, "here"));
}

/* The table of the published Llama 3.1 configuration, worked out in double. */
static void frequencies_agree_with_the_table(void **state)
{
    static const struct {
        int p;
        double before, after;
    } rows[] = {
        { 0, 1.0, 1.0 },
        { 28, 0.0032114459947525913, 0.0032114459947525913 },
        { 29, 0.0026160992529250353, 0.002166570763503359 },
        { 31, 0.0017360467021768655, 0.0008567514129196321 },
        { 34, 0.0009384738703573801, 0.00017850781276799638 },
        { 35, 0.0007644969883171747, 9.556212353964683e-05 },
        { 63, 2.455140791131609e-06, 3.068925988914511e-07 },
    };
    const struct rope_spec plain = { ROPE_DEFAULT, 500000, 0, 0, 0, 0 };
    const struct rope_spec scaled = { ROPE_LLAMA3, 500000, 8, 1, 4, 8192 };
    double before[64], after[64];

    (void)state;
    rope_frequencies(&plain, 128, before);
    rope_frequencies(&scaled, 128, after);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(fabs(before[rows[i].p] / rows[i].before - 1) < 1e-14);
        assert_true(fabs(after[rows[i].p] / rows[i].after - 1) < 1e-14);
    }
}

static void expect_frequencies(const struct tensor_file *f, const char *name,
                               const struct rope_spec *r, int64_t head_dim)
{
    const struct tensor_entry *e = tensor_file_find(f, name);
    double found[64], expected[64];

    assert_non_null(e);
    assert_int_equal(e->count, head_dim / 2);
    EXPECT_OK(tensor_file_read(f, e, 0, e->count, DT_F64, expected));
    rope_frequencies(r, head_dim, found);
    for (int64_t p = 0; p < head_dim / 2; p++) {
        assert_true(fabs(found[p] / expected[p] - 1) < 1e-14);
    }
}

static void frequencies_agree_with_transformers(void **state)
{
    static const struct {
        const char *name;
        int64_t head_dim;
        struct rope_spec rope;
    } rows[] = {
        { "rope_frequencies_0", 128, { ROPE_LLAMA3, 500000, 8, 1, 4, 8192 } },
        { "rope_frequencies_1", 64, { ROPE_LLAMA3, 500000, 32, 1, 4, 8192 } },
        { "rope_frequencies_2", 24, { ROPE_LLAMA3, 500000, 32, 2, 3, 41 } },
    };
    const char *source = getenv("ROUX_SOURCE");
    struct arena a = { 0 };
    struct tensor_file f;

    (void)state;
    EXPECT_OK(tensor_file_open(
        &f, &a,
        path_join(&a, source == NULL ? "." : source, "tests/golden/models/kernels.safetensors")));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rope_spec plain = { ROPE_DEFAULT, rows[i].rope.theta, 0, 0, 0, 0 };

        expect_frequencies(&f, arena_format(&a, "%s.before", rows[i].name), &plain,
                           rows[i].head_dim);
        expect_frequencies(&f, arena_format(&a, "%s.after", rows[i].name), &rows[i].rope,
                           rows[i].head_dim);
    }
    tensor_file_close(&f);
    arena_release(&a);
}

static void linear_scaling_divides(void **state)
{
    const struct rope_spec plain = { ROPE_DEFAULT, 10000, 0, 0, 0, 0 };
    const struct rope_spec linear = { ROPE_LINEAR, 10000, 4, 0, 0, 0 };
    double before[4], after[4];

    (void)state;
    rope_frequencies(&plain, 8, before);
    rope_frequencies(&linear, 8, after);
    for (int p = 0; p < 4; p++) {
        assert_true(fabs(before[p] - pow(10, -p)) < 1e-15);
        assert_true(after[p] == before[p] / 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_are_found_by_both_words),
        cmocka_unit_test(defaults_are_those_of_the_table),
        cmocka_unit_test(parameters_are_counted_once),
        cmocka_unit_test(finish_completes_heads),
        cmocka_unit_test(finish_refuses),
        cmocka_unit_test(finish_refuses_models_beyond_counting),
        cmocka_unit_test(finish_refuses_numbers_out_of_range),
        cmocka_unit_test(frequencies_agree_with_the_table),
        cmocka_unit_test(frequencies_agree_with_transformers),
        cmocka_unit_test(linear_scaling_divides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
