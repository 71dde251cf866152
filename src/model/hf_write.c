/* config.json and generation_config.json out, in the older layout of transformers, which its
 * version 5 reads too. */
#include "model/hf.h"

#include "base/file.h"
#include "base/text.h"
#include "model/family.h"

/* The version whose layout is written. */
#define LAYOUT_VERSION "4.44.2"

static void add_key(struct text *t, const char *key)
{
    text_add_format(t, "%s\n  \"%s\": ", t->length == 1 ? "" : ",", key);
}

static void add_whole(struct text *t, const char *key, int64_t value)
{
    add_key(t, key);
    text_add_format(t, "%lld", (long long)value);
}

static void add_real(struct text *t, const char *key, double value)
{
    char digits[32];

    add_key(t, key);
    text_add(t, text_double(digits, value));
}

static void add_bool(struct text *t, const char *key, bool value)
{
    add_key(t, key);
    text_add(t, value ? "true" : "false");
}

static void add_word(struct text *t, const char *key, const char *value)
{
    add_key(t, key);
    text_add_format(t, "\"%s\"", value);
}

static void add_token(struct text *t, const char *key, int64_t id)
{
    add_key(t, key);
    if (id < 0) {
        text_add(t, "null");
    } else {
        text_add_format(t, "%lld", (long long)id);
    }
}

static void add_ends(struct text *t, const struct model_spec *s)
{
    if (s->eos_count <= 1) {
        add_token(t, "eos_token_id", s->eos_count == 0 ? -1 : s->eos[0]);
        return;
    }
    add_key(t, "eos_token_id");
    for (int i = 0; i < s->eos_count; i++) {
        text_add_format(t, "%s\n    %lld", i == 0 ? "[" : ",", (long long)s->eos[i]);
    }
    text_add(t, "\n  ]");
}

static void add_scaling(struct text *t, const struct rope_spec *r)
{
    char digits[32];

    add_key(t, "rope_scaling");
    if (r->kind == ROPE_DEFAULT) {
        text_add(t, "null");
        return;
    }
    text_add_format(t, "{\n    \"factor\": %s,", text_double(digits, r->factor));
    if (r->kind == ROPE_LLAMA3) {
        text_add_format(t, "\n    \"high_freq_factor\": %s,", text_double(digits, r->high));
        text_add_format(t, "\n    \"low_freq_factor\": %s,", text_double(digits, r->low));
        text_add_format(t, "\n    \"original_max_position_embeddings\": %lld,",
                        (long long)r->original);
    }
    text_add_format(t, "\n    \"rope_type\": \"%s\"\n  }", rope_kind_name(r->kind));
}

static void config_text(struct text *t, const struct model_spec *s, const char *dtype)
{
    text_add(t, "{");
    add_key(t, "architectures");
    text_add_format(t, "[\n    \"%s\"\n  ]", s->family->architecture);
    if (s->family->biases_optional) {
        add_bool(t, "attention_bias", s->attention_bias);
    }
    add_real(t, "attention_dropout", 0);
    add_token(t, "bos_token_id", s->bos);
    add_ends(t, s);
    add_whole(t, "head_dim", s->head_dim);
    add_word(t, "hidden_act", "silu");
    add_whole(t, "hidden_size", s->width);
    add_real(t, "initializer_range", s->init_std);
    add_whole(t, "intermediate_size", s->ffn);
    add_whole(t, "max_position_embeddings", s->max_positions);
    if (s->family->biases_optional) {
        add_bool(t, "mlp_bias", s->mlp_bias);
    }
    add_word(t, "model_type", s->family->name);
    add_whole(t, "num_attention_heads", s->heads);
    add_whole(t, "num_hidden_layers", s->layers);
    add_whole(t, "num_key_value_heads", s->groups);
    add_token(t, "pad_token_id", s->pad);
    add_whole(t, "pretraining_tp", 1);
    add_real(t, "rms_norm_eps", s->eps);
    add_scaling(t, &s->rope);
    add_real(t, "rope_theta", s->rope.theta);
    add_bool(t, "tie_word_embeddings", s->tied);
    add_word(t, "torch_dtype", dtype);
    add_word(t, "transformers_version", LAYOUT_VERSION);
    add_bool(t, "use_cache", true);
    add_whole(t, "vocab_size", s->vocab);
    text_add(t, "\n}\n");
}

/* Ids that are none are left out, as transformers does. */
static void generation_text(struct text *t, const struct model_spec *s)
{
    text_add(t, "{");
    add_bool(t, "_from_model_config", true);
    if (s->bos >= 0) {
        add_token(t, "bos_token_id", s->bos);
    }
    if (s->eos_count > 0) {
        add_ends(t, s);
    }
    if (s->pad >= 0) {
        add_token(t, "pad_token_id", s->pad);
    }
    add_word(t, "transformers_version", LAYOUT_VERSION);
    text_add(t, "\n}\n");
}

status hf_config_write(const struct model_spec *s, const char *folder, const char *dtype)
{
    struct arena a = { 0 };
    struct text config = { 0 }, generation = { 0 };
    status result;

    config_text(&config, s, dtype);
    generation_text(&generation, s);
    result = file_replace(path_join(&a, folder, "config.json"), config.data, config.length);
    if (result == OK) {
        result = file_replace(path_join(&a, folder, "generation_config.json"), generation.data,
                              generation.length);
    }
    text_release(&config);
    text_release(&generation);
    arena_release(&a);
    return result;
}
