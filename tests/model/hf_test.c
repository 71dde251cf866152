/* config.json: both layouts, what may be left out, what is refused, and that what is written
 * reads back. */
#include <fcntl.h>
#include <jansson.h>
#include <unistd.h>
#include "base/log.h"
#include "model/hf.h"
#include "model/family.h"
#include "support/folder.h"

static struct arena arena;
static const char *folder;

static int open_folder(void **state)
{
    (void)state;
    folder = folder_new(&arena);
    return 0;
}

static int close_folder(void **state)
{
    (void)state;
    EXPECT_OK(folder_remove(folder));
    arena_release(&arena);
    return 0;
}

/* ---- helpers ---- */

#define SMALL                                                                \
    "{\"model_type\": \"llama\", \"vocab_size\": 160, \"hidden_size\": 64, " \
    "\"intermediate_size\": 112, \"num_hidden_layers\": 2, \"num_attention_heads\": 4}"

static status read_text(struct model_spec *s, const char *text)
{
    folder_put_text(&arena, folder, "config.json", text);
    return hf_config_read(s, &arena, folder);
}

/* The configuration `base_text` with the members of `change` put over it. */
static status read_over(struct model_spec *s, const char *base_text, const char *change)
{
    json_t *base = json_loads(base_text, 0, NULL), *over = json_loads(change, 0, NULL);
    char *text;
    status result;

    assert_non_null(base);
    assert_non_null(over);
    assert_int_equal(json_object_update(base, over), 0);
    text = json_dumps(base, 0);
    result = read_text(s, text);
    free(text);
    json_decref(base);
    json_decref(over);
    return result;
}

static status read_changed(struct model_spec *s, const char *change)
{
    return read_over(s, SMALL, change);
}

static void expect_same(const struct model_spec *a, const struct model_spec *b)
{
    assert_ptr_equal(a->family, b->family);
    assert_int_equal(a->vocab, b->vocab);
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->ffn, b->ffn);
    assert_int_equal(a->layers, b->layers);
    assert_int_equal(a->heads, b->heads);
    assert_int_equal(a->groups, b->groups);
    assert_int_equal(a->head_dim, b->head_dim);
    assert_int_equal(a->max_positions, b->max_positions);
    assert_true(a->eps == b->eps && a->init_std == b->init_std);
    assert_int_equal(a->rope.kind, b->rope.kind);
    assert_true(a->rope.theta == b->rope.theta && a->rope.factor == b->rope.factor);
    assert_true(a->rope.low == b->rope.low && a->rope.high == b->rope.high);
    assert_int_equal(a->rope.original, b->rope.original);
    assert_int_equal(a->tied, b->tied);
    assert_int_equal(a->attention_bias, b->attention_bias);
    assert_int_equal(a->mlp_bias, b->mlp_bias);
    assert_int_equal(a->window, b->window);
    assert_int_equal(a->pad, b->pad);
    assert_int_equal(a->bos, b->bos);
    assert_int_equal(a->eos_count, b->eos_count);
    assert_memory_equal(a->eos, b->eos, (size_t)a->eos_count * sizeof a->eos[0]);
}

static void expect_rope(const struct rope_spec *r, enum rope_kind kind, double theta, double factor)
{
    assert_int_equal(r->kind, kind);
    assert_true(r->theta == theta);
    assert_true(r->factor == factor);
}

/* What is logged while the configuration is read with `change`. */
static const char *logged(const char *base, const char *change)
{
    const char *path = path_join(&arena, folder, "log");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct model_spec s;
    char *bytes;
    size_t length;

    assert_true(fd >= 0);
    log_set_file(fd);
    EXPECT_OK(read_over(&s, base, change));
    log_set_file(-1);
    close(fd);
    EXPECT_OK(file_read(&arena, path, 1 << 16, &bytes, &length));
    return bytes;
}

/* ---- reading ---- */

static void both_layouts_say_the_same(void **state)
{
    static const struct {
        const char *name;
        int64_t width, heads, groups, head_dim;
        double eps;
        struct rope_spec rope;
        bool tied, biases;
    } rows[] = {
        { "llama-llama3-tied", 64, 4, 2, 16, 1e-5, { ROPE_LLAMA3, 1e4, 8, 1, 4, 32 }, true, false },
        { "llama-headdim", 48, 3, 1, 24, 1e-6, { ROPE_DEFAULT, 5e5, 0, 0, 0, 0 }, false, false },
        { "llama-bias", 40, 5, 5, 8, 1e-6, { ROPE_DEFAULT, 1e4, 0, 0, 0, 0 }, false, true },
        { "llama-packed", 48, 4, 2, 12, 1e-6, { ROPE_LLAMA3, 2e4, 4, 1, 2, 24 }, false, false },
    };
    const char *source = getenv("ROUX_SOURCE");

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *from = arena_format(&arena, "%s/tests/golden/models/%s",
                                        source == NULL ? "." : source, rows[i].name);
        struct model_spec s, older;
        char *bytes;
        size_t length;

        EXPECT_OK(hf_config_read(&s, &arena, from));
        EXPECT_OK(file_read(&arena, path_join(&arena, from, "config.older.json"), 1 << 16, &bytes,
                            &length));
        EXPECT_OK(read_text(&older, bytes));
        expect_same(&s, &older);
        assert_int_equal(s.width, rows[i].width);
        assert_int_equal(s.heads, rows[i].heads);
        assert_int_equal(s.groups, rows[i].groups);
        assert_int_equal(s.head_dim, rows[i].head_dim);
        assert_int_equal(s.max_positions, 256);
        assert_true(s.eps == rows[i].eps && s.init_std == 0.02);
        expect_rope(&s.rope, rows[i].rope.kind, rows[i].rope.theta, rows[i].rope.factor);
        assert_true(s.rope.low == rows[i].rope.low && s.rope.high == rows[i].rope.high);
        assert_int_equal(s.rope.original, rows[i].rope.original);
        assert_int_equal(s.tied, rows[i].tied);
        assert_int_equal(s.attention_bias, rows[i].biases);
        assert_int_equal(s.mlp_bias, rows[i].biases);
        assert_int_equal(s.pad, -1);
        assert_int_equal(s.bos, 1);
        assert_int_equal(s.eos[0], 2);
    }
}

static void what_is_left_out_is_the_familys(void **state)
{
    struct model_spec s, expected;

    (void)state;
    spec_default(&expected, family_find("llama"));
    EXPECT_OK(spec_finish(&expected, "here"));
    EXPECT_OK(read_text(&s, "{\"model_type\": \"llama\"}"));
    expect_same(&s, &expected);
    EXPECT_OK(read_text(&s, SMALL));
    assert_int_equal(s.groups, 4);
    assert_int_equal(s.head_dim, 16);
    EXPECT_OK(read_changed(&s, "{\"num_key_value_heads\": null, \"head_dim\": null, "
                               "\"attention_dropout\": null, \"quantization_config\": null, "
                               "\"rope_parameters\": null, \"rope_scaling\": null, "
                               "\"something_else\": [1, {\"a\": 2}]}"));
    assert_int_equal(s.groups, 4);
    assert_int_equal(s.head_dim, 16);
    expect_rope(&s.rope, ROPE_DEFAULT, 1e4, 0);
}

static void leaving_out_a_size_is_worth_a_word(void **state)
{
    struct model_spec s;

    (void)state;
    assert_string_equal(logged(SMALL, "{}"), "");
    assert_non_null(strstr(logged("{\"model_type\": \"llama\", \"hidden_size\": 64, "
                                  "\"num_hidden_layers\": 2}",
                                  "{}"),
                           "config.json: not given, so as llama has it: vocab_size 32000, "
                           "intermediate_size 11008, num_attention_heads 32\n"));
    EXPECT_FAIL(ERR_FORMAT, "config.json: model_type is missing; allowed is the name",
                read_text(&s, "{}"));
}

static void tokens_are_one_or_many_or_none(void **state)
{
    struct model_spec s;

    (void)state;
    EXPECT_OK(read_changed(&s,
                           "{\"eos_token_id\": [128001, 128008, 128009], \"bos_token_id\": null, "
                           "\"pad_token_id\": 159}"));
    assert_int_equal(s.eos_count, 3);
    assert_int_equal(s.eos[0], 128001);
    assert_int_equal(s.eos[2], 128009);
    assert_int_equal(s.bos, -1);
    assert_int_equal(s.pad, 159);
    EXPECT_OK(read_changed(&s, "{\"eos_token_id\": null, \"pad_token_id\": null}"));
    assert_int_equal(s.eos_count, 0);
    assert_int_equal(s.pad, -1);
    EXPECT_OK(read_changed(&s, "{\"eos_token_id\": []}"));
    assert_int_equal(s.eos_count, 0);
    EXPECT_OK(read_changed(&s, "{\"eos_token_id\": 0, \"bos_token_id\": 0, \"pad_token_id\": 0}"));
    assert_int_equal(s.eos_count, 1);
    assert_int_equal(s.eos[0], 0);
    assert_int_equal(s.pad, 0);
}

static void rotations_are_read_from_either_place(void **state)
{
    struct model_spec s;

    (void)state;
    EXPECT_OK(read_changed(&s, "{\"rope_theta\": 500000}"));
    expect_rope(&s.rope, ROPE_DEFAULT, 5e5, 0);
    EXPECT_OK(read_changed(&s, "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}"));
    expect_rope(&s.rope, ROPE_LINEAR, 1e4, 2);
    EXPECT_OK(read_changed(&s, "{\"rope_scaling\": {\"rope_type\": \"linear\", \"type\": \"yarn\", "
                               "\"factor\": 2.5}, \"rope_theta\": 3}"));
    expect_rope(&s.rope, ROPE_LINEAR, 3, 2.5);
    EXPECT_OK(read_changed(&s, "{\"rope_parameters\": {\"rope_theta\": 7}}"));
    expect_rope(&s.rope, ROPE_DEFAULT, 7, 0);
    EXPECT_OK(
        read_changed(&s, "{\"rope_parameters\": {\"rope_type\": \"default\"}, \"rope_theta\": 9}"));
    expect_rope(&s.rope, ROPE_DEFAULT, 9, 0);
    EXPECT_OK(read_changed(&s,
                           "{\"rope_parameters\": {}, \"rope_scaling\": {\"type\": \"linear\", "
                           "\"factor\": 4, \"partial_rotary_factor\": 1.0}, \"rope_theta\": 9}"));
    expect_rope(&s.rope, ROPE_LINEAR, 9, 4);
    EXPECT_OK(read_changed(&s, "{\"rope_parameters\": {\"rope_theta\": 7}, \"rope_theta\": null}"));
    expect_rope(&s.rope, ROPE_DEFAULT, 7, 0);
}

/* Without a length of its own the scaling takes the longest position; one beside the section
 * goes first. */
static void the_original_length_has_three_places(void **state)
{
#define FREQUENCIES "\"low_freq_factor\": 1, \"high_freq_factor\": 4, \"factor\": 8"
    struct model_spec s;

    (void)state;
    EXPECT_OK(read_changed(&s, "{\"rope_parameters\": {\"rope_type\": \"llama3\", " FREQUENCIES
                               "}, \"max_position_embeddings\": 512}"));
    assert_int_equal(s.rope.original, 512);
    EXPECT_OK(read_changed(&s, "{\"rope_scaling\": {\"rope_type\": \"llama3\", " FREQUENCIES
                               ", \"original_max_position_embeddings\": 64}, "
                               "\"max_position_embeddings\": 512}"));
    assert_int_equal(s.rope.original, 64);
    EXPECT_OK(read_changed(&s, "{\"rope_scaling\": {\"rope_type\": \"llama3\", " FREQUENCIES
                               ", \"original_max_position_embeddings\": 64}, "
                               "\"original_max_position_embeddings\": 128}"));
    assert_int_equal(s.rope.original, 128);
}

static void rope_parameters_win_and_a_difference_is_told(void **state)
{
    struct model_spec s;

    (void)state;
    EXPECT_OK(read_changed(&s, "{\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2, "
                               "\"rope_theta\": 7}, \"rope_theta\": 8, \"rope_scaling\": "
                               "{\"type\": \"yarn\", \"factor\": 40}}"));
    expect_rope(&s.rope, ROPE_LINEAR, 7, 2);
    assert_non_null(
        strstr(logged(SMALL, "{\"rope_parameters\": {\"rope_theta\": 7}, \"rope_theta\": 8}"),
               "rope_parameters and the older rope_theta differ"));
    assert_non_null(
        strstr(logged(SMALL, "{\"rope_parameters\": {\"rope_theta\": 7}, \"rope_scaling\": "
                             "{\"type\": \"linear\", \"factor\": 2}}"),
               "rope_parameters and the older rope_scaling differ"));
    assert_string_equal(logged(SMALL,
                               "{\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2, "
                               "\"rope_theta\": 7}, \"rope_theta\": 7, \"rope_scaling\": "
                               "{\"type\": \"linear\", \"factor\": 2.0}}"),
                        "");
    assert_string_equal(logged(SMALL,
                               "{\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2, "
                               "\"rope_theta\": 7}, \"rope_theta\": 7}"),
                        "");
}

/* ---- refusing ---- */

static void what_is_not_built_is_refused_by_name(void **state)
{
    static const struct {
        const char *change, *part;
    } rows[] = {
        { "{\"model_type\": \"mistral\"}",
          "config.json: model_type is \"mistral\"; only llama is built so far" },
        { "{\"model_type\": \"mixtral\"}", "model_type is \"mixtral\"" },
        { "{\"model_type\": \"qwen2\"}", "model_type is \"qwen2\"" },
        { "{\"model_type\": \"Llama\"}", "model_type is \"Llama\"" },
        { "{\"hidden_act\": \"gelu\"}", "hidden_act is \"gelu\"; only \"silu\" is built" },
        { "{\"attention_dropout\": 0.1}", "attention_dropout is 0.1" },
        { "{\"attention_dropout\": -1}", "attention_dropout is -1" },
        { "{\"quantization_config\": {\"bits\": 4}}", "quantization_config" },
        { "{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}}",
          "rope_scaling.type is \"dynamic\"; default, linear and llama3 are built" },
        { "{\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2}}",
          "rope_scaling.rope_type is \"yarn\"" },
        { "{\"rope_parameters\": {\"rope_type\": \"longrope\"}}",
          "rope_parameters.rope_type is \"longrope\"" },
        { "{\"partial_rotary_factor\": 0.5}", "partial_rotary_factor is 0.5" },
        { "{\"rope_parameters\": {\"partial_rotary_factor\": 0.5}}",
          "rope_parameters.partial_rotary_factor is 0.5" },
        { "{\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 1e6}}}",
          "rope_parameters.full_attention: a rotation for each kind of layer" },
        { "{\"eos_token_id\": [1,2,3,4,5,6,7,8,9]}", "eos_token_id has 9 ids; at most 8" },
    };
    struct model_spec s;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        EXPECT_FAIL(ERR_UNSUPPORTED, rows[i].part, read_changed(&s, rows[i].change));
    }
}

static void wrong_values_are_refused_by_key(void **state)
{
    static const struct {
        const char *change, *part;
    } rows[] = {
        { "{\"model_type\": null}", "model_type is null" },
        { "{\"model_type\": 3}", "model_type is 3" },
        { "{\"hidden_size\": \"64\"}",
          "config.json: hidden_size is \"64\"; allowed is a whole number of at least 1" },
        { "{\"hidden_size\": 64.5}", "hidden_size is 64.5" },
        { "{\"hidden_size\": 64.0}", "hidden_size is 64.0" },
        { "{\"hidden_size\": null}", "hidden_size is null" },
        { "{\"hidden_size\": true}", "hidden_size is true" },
        { "{\"hidden_size\": [64]}", "hidden_size is [64]" },
        { "{\"hidden_size\": 66}", "hidden_size 66 is no multiple of num_attention_heads 4" },
        { "{\"vocab_size\": 0}", "vocab_size is 0" },
        { "{\"vocab_size\": -160}", "vocab_size is -160" },
        { "{\"vocab_size\": 9223372036854775807}",
          "vocab_size is 9223372036854775807; allowed are 1 to" },
        { "{\"vocab_size\": 1e300}", "vocab_size is 1e300" },
        { "{\"num_hidden_layers\": 2147483648}", "num_hidden_layers is 2147483648" },
        { "{\"intermediate_size\": {}}", "intermediate_size is {}" },
        { "{\"num_attention_heads\": 0}", "num_attention_heads is 0" },
        { "{\"num_key_value_heads\": 3}", "num_attention_heads is 4 and num_key_value_heads 3" },
        { "{\"num_key_value_heads\": 0}", "num_key_value_heads is 0" },
        { "{\"head_dim\": 0}", "head_dim is 0" },
        { "{\"head_dim\": 15}", "head_dim is 15; it must be even" },
        { "{\"max_position_embeddings\": -1}", "max_position_embeddings is -1" },
        { "{\"rms_norm_eps\": \"1e-6\"}", "rms_norm_eps is \"1e-6\"; allowed is a number" },
        { "{\"rms_norm_eps\": -1e-6}", "rms_norm_eps is -1e-06" },
        { "{\"rms_norm_eps\": null}", "rms_norm_eps is null" },
        { "{\"initializer_range\": -0.02}", "initializer_range is -0.02" },
        { "{\"tie_word_embeddings\": 1}", "tie_word_embeddings is 1; allowed is true or false" },
        { "{\"attention_bias\": null}", "attention_bias is null" },
        { "{\"mlp_bias\": \"no\"}", "mlp_bias is \"no\"" },
        { "{\"hidden_act\": null}", "hidden_act is null" },
        { "{\"attention_dropout\": \"0\"}", "attention_dropout is \"0\"" },
        { "{\"pad_token_id\": -1}", "pad_token_id is -1; allowed is a token id" },
        { "{\"pad_token_id\": 160}", "pad_token_id is 160; allowed are 0 to 159" },
        { "{\"pad_token_id\": 1.5}", "pad_token_id is 1.5" },
        { "{\"bos_token_id\": \"<s>\"}", "bos_token_id is \"<s>\"" },
        { "{\"eos_token_id\": -2}", "eos_token_id is -2" },
        { "{\"eos_token_id\": 4294967296}", "eos_token_id is 4294967296" },
        { "{\"eos_token_id\": [2, null]}", "eos_token_id is [2,null]" },
        { "{\"eos_token_id\": [2, -3]}", "eos_token_id is [2,-3]" },
        { "{\"rope_theta\": \"big\"}", "rope_theta is \"big\"" },
        { "{\"rope_theta\": null}", "rope_theta is null" },
        { "{\"rope_theta\": 0}", "rope_theta is 0" },
        { "{\"rope_theta\": -1.0}", "rope_theta is -1" },
        { "{\"rope_scaling\": \"llama3\"}",
          "rope_scaling is \"llama3\"; allowed is an object or null" },
        { "{\"rope_parameters\": []}", "rope_parameters is []" },
        { "{\"rope_parameters\": {\"rope_type\": null, \"factor\": 1}}",
          "rope_parameters.rope_type is null" },
        { "{\"rope_scaling\": {\"type\": \"linear\"}}", "rope_scaling.factor is missing" },
        { "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}}", "factor" },
        { "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": \"2\"}}",
          "rope_scaling.factor is \"2\"" },
        { "{\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"high_freq_factor\": 4}}",
          "rope_scaling.low_freq_factor is missing" },
        { "{\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1}}",
          "rope_scaling.high_freq_factor is missing" },
        { "{\"rope_scaling\": {\"type\": \"llama3\", " FREQUENCIES
          ", \"original_max_position_embeddings\": 8192.5}}",
          "rope_scaling.original_max_position_embeddings is 8192.5" },
        { "{\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
          "\"high_freq_factor\": 1}}",
          "must be larger" },
    };
    struct model_spec s;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        EXPECT_FAIL(ERR_FORMAT, rows[i].part, read_changed(&s, rows[i].change));
    }
}

/* Numbers beyond 64 bits do not hide the key, and do not spoil the others. */
static void integers_of_any_length_are_read(void **state)
{
    struct model_spec s;

    (void)state;
    EXPECT_FAIL(ERR_FORMAT, "vocab_size is 1e25",
                read_text(&s, "{\"model_type\": \"llama\", \"vocab_size\": "
                              "10000000000000000000000000, \"hidden_size\": 64}"));
    EXPECT_OK(read_text(&s, "{\"model_type\": \"llama\", \"hidden_size\": 64, \"unknown\": "
                            "10000000000000000000000000, \"eos_token_id\": [3, 4]}"));
    assert_int_equal(s.width, 64);
    assert_int_equal(s.eos[1], 4);
}

static void broken_files_are_refused(void **state)
{
    static const char *const rows[] = { "",
                                        " ",
                                        "null",
                                        "[]",
                                        "7",
                                        "\"llama\"",
                                        "{",
                                        "{\"model_type\"",
                                        "{\"model_type\": \"llama\",}",
                                        "{\"model_type\": NaN}",
                                        "{'model_type': 'llama'}",
                                        "// llama\n{}",
                                        "{\"model_type\": \"llama\"} {}",
                                        "{\"model_type\": \"llama\", \"model_type\": \"llama\"}",
                                        "\xef\xbb\xbf{\"model_type\": \"llama\"}",
                                        "{\"model_type\": \"\xff\xfe\"}",
                                        "\x7f\x45\x4c\x46\x01" };
    struct model_spec s;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        EXPECT_FAIL(ERR_FORMAT, "config.json", read_text(&s, rows[i]));
    }
    for (size_t length = 0; length < strlen(SMALL); length++) {
        folder_put(&arena, folder, "config.json", SMALL, length);
        EXPECT_FAIL(ERR_FORMAT, "config.json:", hf_config_read(&s, &arena, folder));
    }
    folder_put(&arena, folder, "config.json", "{\"a\": \"\0\"}", 10);
    EXPECT_FAIL(ERR_FORMAT, "config.json:1:", hf_config_read(&s, &arena, folder));
}

static void deep_nesting_is_refused(void **state)
{
    enum { DEPTH = 200000 };
    char *text = calloc(1, DEPTH + 16);
    struct model_spec s;

    (void)state;
    assert_non_null(text);
    memcpy(text, "{\"a\":", 5);
    memset(text + 5, '[', DEPTH);
    EXPECT_FAIL(ERR_FORMAT, "config.json:1:", read_text(&s, text));
    free(text);
}

static void a_missing_file_is_named(void **state)
{
    struct model_spec s;

    (void)state;
    EXPECT_FAIL(ERR_MISSING, "/nowhere/config.json", hf_config_read(&s, &arena, "/nowhere"));
    EXPECT_OK(folder_make(path_join(&arena, folder, "odd/config.json")));
    EXPECT_FAIL(ERR_FORMAT, "odd/config.json",
                hf_config_read(&s, &arena, path_join(&arena, folder, "odd")));
}

/* A refused file leaves the caller's spec as it was. */
static void failure_changes_nothing(void **state)
{
    struct model_spec s = { .vocab = 77 };

    (void)state;
    EXPECT_FAIL(ERR_FORMAT, "head_dim", read_changed(&s, "{\"head_dim\": 15}"));
    assert_int_equal(s.vocab, 77);
    assert_null(s.family);
}

/* ---- writing ---- */

static void what_is_written_reads_back(void **state)
{
    static const struct rope_spec ropes[] = {
        { ROPE_DEFAULT, 10000, 0, 0, 0, 0 },
        { ROPE_DEFAULT, 1234567.891, 0, 0, 0, 0 },
        { ROPE_LINEAR, 10000, 1.0 / 3, 0, 0, 0 },
        { ROPE_LLAMA3, 500000, 8, 1, 4, 8192 },
    };

    (void)state;
    for (int i = 0; i < 24; i++) {
        struct model_spec s, back;

        spec_default(&s, family_find("llama"));
        s.width = 48;
        s.heads = 6;
        s.groups = i % 2 == 0 ? 2 : 6;
        s.head_dim = i % 3 == 0 ? 10 : 8;
        s.vocab = 77;
        s.eps = i % 2 == 0 ? 1e-5 : 0.1 + 0.2;
        s.init_std = 1.0 / (3 + i);
        s.rope = ropes[i % 4];
        s.tied = i % 2 == 0;
        s.attention_bias = i % 3 == 1;
        s.mlp_bias = i % 4 == 1;
        s.pad = i % 3 - 1;
        s.bos = i % 2 - 1;
        s.eos_count = i % (SPEC_EOS + 1);
        for (int k = 0; k < s.eos_count; k++) {
            s.eos[k] = 1000 * k + i;
        }
        EXPECT_OK(spec_finish(&s, "here"));
        EXPECT_OK(hf_config_write(&s, folder, "float32"));
        EXPECT_OK(hf_config_read(&back, &arena, folder));
        expect_same(&s, &back);
    }
}

static void expect_text(const char *name, const char *expected)
{
    char *bytes;
    size_t length;

    EXPECT_OK(file_read(&arena, path_join(&arena, folder, name), 1 << 16, &bytes, &length));
    assert_string_equal(bytes, expected);
}

static void the_older_layout_is_written(void **state)
{
    struct model_spec s;

    (void)state;
    EXPECT_OK(read_changed(&s, "{\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": "
                               "500000, \"original_max_position_embeddings\": 32, " FREQUENCIES
                               "}, \"eos_token_id\": [2, 3], \"num_key_value_heads\": 2, "
                               "\"rms_norm_eps\": 1e-5}"));
    EXPECT_OK(hf_config_write(&s, folder, "bfloat16"));
    expect_text("config.json", "{\n"
                               "  \"architectures\": [\n"
                               "    \"LlamaForCausalLM\"\n"
                               "  ],\n"
                               "  \"attention_bias\": false,\n"
                               "  \"attention_dropout\": 0.0,\n"
                               "  \"bos_token_id\": 1,\n"
                               "  \"eos_token_id\": [\n"
                               "    2,\n"
                               "    3\n"
                               "  ],\n"
                               "  \"head_dim\": 16,\n"
                               "  \"hidden_act\": \"silu\",\n"
                               "  \"hidden_size\": 64,\n"
                               "  \"initializer_range\": 0.02,\n"
                               "  \"intermediate_size\": 112,\n"
                               "  \"max_position_embeddings\": 2048,\n"
                               "  \"mlp_bias\": false,\n"
                               "  \"model_type\": \"llama\",\n"
                               "  \"num_attention_heads\": 4,\n"
                               "  \"num_hidden_layers\": 2,\n"
                               "  \"num_key_value_heads\": 2,\n"
                               "  \"pad_token_id\": null,\n"
                               "  \"pretraining_tp\": 1,\n"
                               "  \"rms_norm_eps\": 1e-05,\n"
                               "  \"rope_scaling\": {\n"
                               "    \"factor\": 8.0,\n"
                               "    \"high_freq_factor\": 4.0,\n"
                               "    \"low_freq_factor\": 1.0,\n"
                               "    \"original_max_position_embeddings\": 32,\n"
                               "    \"rope_type\": \"llama3\"\n"
                               "  },\n"
                               "  \"rope_theta\": 500000.0,\n"
                               "  \"tie_word_embeddings\": false,\n"
                               "  \"torch_dtype\": \"bfloat16\",\n"
                               "  \"transformers_version\": \"4.44.2\",\n"
                               "  \"use_cache\": true,\n"
                               "  \"vocab_size\": 160\n"
                               "}\n");
    expect_text("generation_config.json", "{\n"
                                          "  \"_from_model_config\": true,\n"
                                          "  \"bos_token_id\": 1,\n"
                                          "  \"eos_token_id\": [\n"
                                          "    2,\n"
                                          "    3\n"
                                          "  ],\n"
                                          "  \"transformers_version\": \"4.44.2\"\n"
                                          "}\n");
}

static void writing_where_nothing_can_be_written_fails(void **state)
{
    struct model_spec s;

    (void)state;
    EXPECT_OK(read_text(&s, SMALL));
    EXPECT_FAIL(ERR_MISSING, "/nowhere/config.json", hf_config_write(&s, "/nowhere", "float32"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_layouts_say_the_same),
        cmocka_unit_test(what_is_left_out_is_the_familys),
        cmocka_unit_test(leaving_out_a_size_is_worth_a_word),
        cmocka_unit_test(tokens_are_one_or_many_or_none),
        cmocka_unit_test(rotations_are_read_from_either_place),
        cmocka_unit_test(the_original_length_has_three_places),
        cmocka_unit_test(rope_parameters_win_and_a_difference_is_told),
        cmocka_unit_test(what_is_not_built_is_refused_by_name),
        cmocka_unit_test(wrong_values_are_refused_by_key),
        cmocka_unit_test(integers_of_any_length_are_read),
        cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(failure_changes_nothing),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(the_older_layout_is_written),
        cmocka_unit_test(writing_where_nothing_can_be_written_fails),
    };

    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
