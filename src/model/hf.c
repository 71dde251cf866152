/*
 * config.json in. What a file may leave out, and what it then means, is transformers' rule; read
 * are the layout of its version 5 (rope_parameters) and the older one (rope_theta and
 * rope_scaling).
 */
#include "model/hf.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "model/family.h"

enum { CONFIG_LIMIT = 16 << 20, SHOWN = 48 };

/* An object of the file; `section` is "" for the whole and "rope_parameters." for one inside. */
struct object {
    const char *path, *section;
    const json_t *json;
    bool whole_reals; /* the file has integers beyond 64 bits, so all of them were read as reals */
};

/* ---- single fields ---- */

/* The value as it stands in the file, cut short. NULL is a key that is not there. */
static const char *shown(const json_t *value, char out[SHOWN])
{
    char *all;

    if (value == NULL) {
        return "missing";
    }
    all = json_dumps(value,
                     JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15));
    check(all != NULL, "a JSON value cannot be printed");
    snprintf(out, SHOWN, strlen(all) < SHOWN ? "%s" : "%.40s...", all);
    free(all);
    return out;
}

static status wrong(const struct object *o, const char *key, const char *allowed)
{
    char found[SHOWN];

    return fail(ERR_FORMAT, "%s: %s%s is %s; allowed is %s", o->path, o->section, key,
                shown(json_object_get(o->json, key), found), allowed);
}

static bool is_absent(const struct object *o, const char *key)
{
    return json_object_get(o->json, key) == NULL;
}

/* Not there, or null. */
static bool is_none(const struct object *o, const char *key)
{
    const json_t *value = json_object_get(o->json, key);

    return value == NULL || json_is_null(value);
}

static bool whole_of(const struct object *o, const json_t *value, int64_t *out)
{
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return true;
    }
    if (o->whole_reals && json_is_real(value)) {
        double number = json_real_value(value);

        *out = fabs(number) < 0x1p53 ? (int64_t)number : 0;
        return (double)*out == number;
    }
    return false;
}

static status read_bool(const struct object *o, const char *key, bool *out)
{
    const json_t *value = json_object_get(o->json, key);

    if (value == NULL) {
        return OK;
    }
    if (!json_is_boolean(value)) {
        return wrong(o, key, "true or false");
    }
    *out = json_is_true(value);
    return OK;
}

/* Whether it is within its range is asked of the finished spec. */
static status read_number(const struct object *o, const char *key, double *out)
{
    const json_t *value = json_object_get(o->json, key);

    if (value == NULL) {
        return OK;
    }
    if (!json_is_number(value)) {
        return wrong(o, key, "a number");
    }
    *out = json_number_value(value);
    return OK;
}

static status need_number(const struct object *o, const char *key, double *out)
{
    return is_absent(o, key) ? wrong(o, key, "a number") : read_number(o, key, out);
}

static status read_extent(const struct object *o, const char *key, int64_t *out)
{
    const json_t *value = json_object_get(o->json, key);

    if (value == NULL) {
        return OK;
    }
    if (!whole_of(o, value, out) || *out < 1) {
        return wrong(o, key, "a whole number of at least 1");
    }
    return OK;
}

/* A token's id, or none. */
static status read_token(const struct object *o, const char *key, int64_t *out)
{
    const json_t *value = json_object_get(o->json, key);

    if (value == NULL) {
        return OK;
    }
    if (json_is_null(value)) {
        *out = -1;
        return OK;
    }
    if (!whole_of(o, value, out) || *out < 0 || *out > INT32_MAX) {
        return wrong(o, key, "a token id (0 to 2147483647) or null");
    }
    return OK;
}

/* One id, a list of them, or null. */
static status read_ends(const struct object *o, const char *key, struct model_spec *s)
{
    const json_t *value = json_object_get(o->json, key);
    const size_t count = json_array_size(value);

    if (!json_is_array(value)) {
        TRY(read_token(o, key, &s->eos[0]));
        s->eos_count = s->eos[0] < 0 ? 0 : 1;
        return OK;
    }
    if (count > SPEC_EOS) {
        return fail(ERR_UNSUPPORTED, "%s: %s has %zu ids; at most %d are built", o->path, key,
                    count, SPEC_EOS);
    }
    s->eos_count = (int)count;
    for (size_t i = 0; i < count; i++) {
        if (!whole_of(o, json_array_get(value, i), &s->eos[i]) || s->eos[i] < 0 ||
            s->eos[i] > INT32_MAX) {
            return wrong(o, key, "a token id (0 to 2147483647), a list of them, or null");
        }
    }
    return OK;
}

/* A member that is an object; `out->json` is NULL if it is absent, null or empty, which mean the
 * same. */
static status read_object(const struct object *o, const char *key, const char *section,
                          struct object *out)
{
    const json_t *value = json_object_get(o->json, key);

    *out = (struct object){ .path = o->path, .section = section, .whole_reals = o->whole_reals };
    if (value != NULL && !json_is_null(value) && !json_is_object(value)) {
        return wrong(o, key, "an object or null");
    }
    if (json_object_size(value) > 0) {
        out->json = value;
    }
    return OK;
}

/* ---- the rotary embedding ---- */

static status read_rope_kind(const struct object *o, enum rope_kind *out)
{
    const char *key = is_absent(o, "rope_type") ? "type" : "rope_type";
    const json_t *value = json_object_get(o->json, key);
    char found[SHOWN];

    if (value == NULL) {
        *out = ROPE_DEFAULT;
        return OK;
    }
    if (!json_is_string(value)) {
        return wrong(o, key, "a text");
    }
    for (int kind = 0; kind < ROPE_KINDS; kind++) {
        if (strcmp(rope_kind_name(kind), json_string_value(value)) == 0) {
            *out = kind;
            return OK;
        }
    }
    return fail(ERR_UNSUPPORTED, "%s: %s%s is %s; default, linear and llama3 are built so far",
                o->path, o->section, key, shown(value, found));
}

/* Rotating only a part of each head. */
static status refuse_partial(const struct object *o)
{
    const char *key = "partial_rotary_factor";
    const json_t *part = json_object_get(o->json, key);
    char found[SHOWN];

    if (!is_none(o, key) && json_number_value(part) != 1) {
        return fail(ERR_UNSUPPORTED, "%s: %s%s is %s; only 1 is built", o->path, o->section, key,
                    shown(part, found));
    }
    return OK;
}

/* Some families have a rotation for each kind of layer, in an object of its own. */
static status refuse_nested(const struct object *o)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)o->json, key, value)
    {
        if (json_is_object(value)) {
            return fail(ERR_UNSUPPORTED, "%s: %s%s: a rotation for each kind of layer is not built",
                        o->path, o->section, key);
        }
    }
    return OK;
}

/* The scaling that section `from` asks for. An original length beside the section goes before
 * one in it; with neither it is the longest position. */
static status read_rope_section(const struct object *top, const struct object *from,
                                int64_t max_positions, struct rope_spec *out)
{
    const char *original = "original_max_position_embeddings";

    TRY(refuse_partial(from));
    TRY(refuse_nested(from));
    TRY(read_rope_kind(from, &out->kind));
    TRY(read_number(from, "rope_theta", &out->theta));
    if (out->kind != ROPE_DEFAULT) {
        TRY(need_number(from, "factor", &out->factor));
    }
    if (out->kind == ROPE_LLAMA3) {
        TRY(need_number(from, "low_freq_factor", &out->low));
        TRY(need_number(from, "high_freq_factor", &out->high));
        out->original = max_positions;
        TRY(read_extent(is_none(top, original) ? from : top, original, &out->original));
    }
    return OK;
}

/* rope_parameters is followed; a word where the older keys stand there too and say something
 * else. */
static void compare_older(const struct object *top, const struct object *scaling,
                          const struct rope_spec *older, status of_older,
                          const struct rope_spec *followed)
{
    bool theta = is_none(top, "rope_theta") || older->theta == followed->theta;
    bool rest = scaling->json == NULL ||
                (of_older == OK && older->kind == followed->kind &&
                 older->factor == followed->factor && older->low == followed->low &&
                 older->high == followed->high && older->original == followed->original);

    if (!theta || !rest) {
        log_warning("%s: rope_parameters and the older %s differ; rope_parameters is followed",
                    top->path, theta ? "rope_scaling" : "rope_theta");
    }
}

static status read_rope(const struct object *top, struct model_spec *s)
{
    struct rope_spec older = s->rope;
    struct object parameters, scaling;
    status of_older = OK;

    TRY(read_object(top, "rope_parameters", "rope_parameters.", &parameters));
    TRY(read_object(top, "rope_scaling", "rope_scaling.", &scaling));
    TRY(refuse_partial(top));
    if (!is_none(top, "rope_theta") || parameters.json == NULL) {
        TRY(read_number(top, "rope_theta", &older.theta));
    }
    s->rope = older;
    if (scaling.json != NULL) {
        of_older = read_rope_section(top, &scaling, s->max_positions, &older);
    }
    if (parameters.json == NULL) {
        s->rope = older;
        return of_older;
    }
    TRY(read_rope_section(top, &parameters, s->max_positions, &s->rope));
    compare_older(top, &scaling, &older, of_older, &s->rope);
    return OK;
}

/* ---- the whole file ---- */

static status read_family(const struct object *o, const struct family **out)
{
    const json_t *type = json_object_get(o->json, "model_type");
    struct text built = { 0 };
    char found[SHOWN];
    status s;

    if (!json_is_string(type)) {
        return wrong(o, "model_type", "the name of a family, such as \"llama\"");
    }
    *out = family_find(json_string_value(type));
    if (*out != NULL) {
        return OK;
    }
    for (int i = 0; i < family_count; i++) {
        text_add_format(&built, "%s%s", i == 0 ? "" : ", ", families[i].name);
    }
    s = fail(ERR_UNSUPPORTED, "%s: model_type is %s; only %s is built so far", o->path,
             shown(type, found), text_of(&built));
    text_release(&built);
    return s;
}

/* What would change the numbers and is not built. */
static status refuse_variants(const struct object *o)
{
    const json_t *act = json_object_get(o->json, "hidden_act");
    double dropout = 0;
    char found[SHOWN];

    if (act != NULL && !json_is_string(act)) {
        return wrong(o, "hidden_act", "\"silu\"");
    }
    if (act != NULL && strcmp(json_string_value(act), "silu") != 0) {
        return fail(ERR_UNSUPPORTED, "%s: hidden_act is %s; only \"silu\" is built", o->path,
                    shown(act, found));
    }
    if (!is_none(o, "attention_dropout")) {
        TRY(read_number(o, "attention_dropout", &dropout));
    }
    if (dropout != 0) {
        return fail(ERR_UNSUPPORTED, "%s: attention_dropout is %g; only 0 is built", o->path,
                    dropout);
    }
    if (!is_none(o, "quantization_config")) {
        return fail(ERR_UNSUPPORTED,
                    "%s: quantization_config: quantised weights are not built; use the model in "
                    "float32, bfloat16 or float16",
                    o->path);
    }
    return OK;
}

static status read_sizes(const struct object *o, struct model_spec *s)
{
    const struct {
        const char *key;
        int64_t *to;
        bool shapes; /* worth a word when it is left to the family */
        bool may_be_null;
    } rows[] = {
        { "vocab_size", &s->vocab, true, false },
        { "hidden_size", &s->width, true, false },
        { "intermediate_size", &s->ffn, true, false },
        { "num_hidden_layers", &s->layers, true, false },
        { "num_attention_heads", &s->heads, true, false },
        { "num_key_value_heads", &s->groups, false, true },
        { "head_dim", &s->head_dim, false, true },
        { "max_position_embeddings", &s->max_positions, false, false },
    };
    struct text left_out = { 0 };
    status result = OK;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].shapes && is_absent(o, rows[i].key)) {
            text_add_format(&left_out, "%s %s %lld", left_out.length == 0 ? "" : ",", rows[i].key,
                            (long long)*rows[i].to);
        } else if (!rows[i].may_be_null || !is_none(o, rows[i].key)) {
            TRY_OR(release, result, read_extent(o, rows[i].key, rows[i].to));
        }
    }
    if (left_out.length > 0) {
        log_warning("%s: not given, so as %s has it:%s", o->path, s->family->name, left_out.data);
    }
release:
    text_release(&left_out);
    return result;
}

static status read_spec(const struct object *o, struct model_spec *s)
{
    const struct family *family;

    TRY(read_family(o, &family));
    spec_default(s, family);
    TRY(refuse_variants(o));
    TRY(read_sizes(o, s));
    TRY(read_number(o, "rms_norm_eps", &s->eps));
    TRY(read_number(o, "initializer_range", &s->init_std));
    TRY(read_bool(o, "tie_word_embeddings", &s->tied));
    if (family->biases_optional) {
        TRY(read_bool(o, "attention_bias", &s->attention_bias));
        TRY(read_bool(o, "mlp_bias", &s->mlp_bias));
    }
    TRY(read_token(o, "pad_token_id", &s->pad));
    TRY(read_token(o, "bos_token_id", &s->bos));
    TRY(read_ends(o, "eos_token_id", s));
    return read_rope(o, s);
}

/* The same rules as for a recipe, but here the mistake is the file's. */
static status finish_spec(struct model_spec *s, const char *path)
{
    status result = spec_finish(s, path);
    char *text;

    if (result != ERR_RECIPE) {
        return result;
    }
    text = strdup(fail_text());
    check(text != NULL, "out of memory: an error text");
    result = fail(ERR_FORMAT, "%s", text);
    free(text);
    return result;
}

static status parse(const char *path, const char *bytes, size_t length, json_t **out, bool *reals)
{
    json_error_t error;

    *out = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &error);
    *reals = *out == NULL && json_error_code(&error) == json_error_numeric_overflow;
    if (*reals) {
        *out = json_loadb(bytes, length, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    }
    if (*out == NULL) {
        return fail(ERR_FORMAT, "%s:%d:%d: %s", path, error.line, error.column, error.text);
    }
    if (!json_is_object(*out)) {
        json_decref(*out);
        return fail(ERR_FORMAT, "%s: is not a JSON object", path);
    }
    return OK;
}

status hf_config_read(struct model_spec *out, struct arena *a, const char *folder)
{
    struct model_spec spec;
    struct object top = { .path = path_join(a, folder, "config.json"), .section = "" };
    json_t *root;
    char *bytes;
    size_t length;
    status s = OK;

    TRY(file_read(a, top.path, CONFIG_LIMIT, &bytes, &length));
    TRY(parse(top.path, bytes, length, &root, &top.whole_reals));
    top.json = root;
    TRY_OR(release, s, read_spec(&top, &spec));
    TRY_OR(release, s, finish_spec(&spec, top.path));
    *out = spec;
release:
    json_decref(root);
    return s;
}
