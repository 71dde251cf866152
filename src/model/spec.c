#include "model/spec.h"

#include <math.h>

/* Beyond these nothing is a model; below them no sum of bytes, padding included, leaves 64 bits. */
enum { EXTENT_MOST = 1 << 24, LAYERS_MOST = 10000 };

static const int64_t parameters_most = INT64_C(1) << 56;

static const double pi = 3.14159265358979323846;

void spec_default(struct model_spec *s, const struct family *family)
{
    *s = (struct model_spec){
        .family = family,
        .vocab = 32000,
        .width = 4096,
        .ffn = 11008,
        .layers = 32,
        .heads = 32,
        .max_positions = 2048,
        .eps = 1e-6,
        .init_std = 0.02,
        .rope = { .kind = ROPE_DEFAULT, .theta = 10000 },
        .pad = -1,
        .bos = 1,
        .eos = { 2 },
        .eos_count = 1,
    };
}

static status extent_check(const char *where, const char *key, int64_t found, int64_t most)
{
    if (found < 1 || found > most) {
        return fail(ERR_RECIPE, "%s: %s is %lld; allowed are 1 to %lld", where, key,
                    (long long)found, (long long)most);
    }
    return OK;
}

static status extents_check(const struct model_spec *s, const char *where)
{
    TRY(extent_check(where, "vocab_size", s->vocab, EXTENT_MOST));
    TRY(extent_check(where, "hidden_size", s->width, EXTENT_MOST));
    TRY(extent_check(where, "intermediate_size", s->ffn, EXTENT_MOST));
    TRY(extent_check(where, "num_hidden_layers", s->layers, LAYERS_MOST));
    TRY(extent_check(where, "num_attention_heads", s->heads, EXTENT_MOST));
    return extent_check(where, "max_position_embeddings", s->max_positions, EXTENT_MOST);
}

/* What may be left out follows from the width and the heads. */
static status heads_finish(struct model_spec *s, const char *where)
{
    if (s->groups == 0) {
        s->groups = s->heads;
    }
    TRY(extent_check(where, "num_key_value_heads", s->groups, EXTENT_MOST));
    if (s->heads % s->groups != 0) {
        return fail(ERR_RECIPE,
                    "%s: num_attention_heads is %lld and num_key_value_heads %lld; the first must "
                    "be a multiple of the second",
                    where, (long long)s->heads, (long long)s->groups);
    }
    if (s->head_dim == 0) {
        if (s->width % s->heads != 0) {
            return fail(ERR_RECIPE,
                        "%s: hidden_size %lld is no multiple of num_attention_heads %lld; change "
                        "one of them or say head_dim",
                        where, (long long)s->width, (long long)s->heads);
        }
        s->head_dim = s->width / s->heads;
    }
    TRY(extent_check(where, "head_dim", s->head_dim, EXTENT_MOST));
    if (s->head_dim % 2 != 0) {
        return fail(ERR_RECIPE,
                    "%s: head_dim is %lld; it must be even, since the rotation turns pairs", where,
                    (long long)s->head_dim);
    }
    return OK;
}

static status size_check(const struct model_spec *s, const char *where)
{
    /* In double: far below the limit it is exact enough, and it cannot overflow. */
    double heads = (double)(s->heads + s->groups) * (double)s->head_dim;
    double layer = 2 * heads * (double)s->width + 3 * (double)s->ffn * (double)s->width;
    double all = 2 * (double)s->vocab * (double)s->width + (double)s->layers * layer;

    if (all > (double)parameters_most) {
        return fail(ERR_RECIPE,
                    "%s: the sizes make a model of %.3g parameters; at most %.3g are counted here",
                    where, all, (double)parameters_most);
    }
    return OK;
}

static status number_check(const char *where, const char *key, double found, bool zero)
{
    if (!isfinite(found) || found < 0 || (found == 0 && !zero)) {
        return fail(ERR_RECIPE, "%s: %s is %g; it must be a number %s 0", where, key, found,
                    zero ? "of at least" : "above");
    }
    return OK;
}

static status rope_check(const struct rope_spec *r, const char *where)
{
    TRY(number_check(where, "rope_theta", r->theta, false));
    if (r->kind != ROPE_DEFAULT) {
        TRY(number_check(where, "the factor of rope scaling", r->factor, false));
    }
    if (r->kind == ROPE_LLAMA3) {
        TRY(number_check(where, "low_freq_factor", r->low, false));
        TRY(number_check(where, "high_freq_factor", r->high, false));
        if (r->high <= r->low) {
            return fail(ERR_RECIPE,
                        "%s: high_freq_factor is %g and low_freq_factor %g; the first must be "
                        "larger than the second",
                        where, r->high, r->low);
        }
        TRY(extent_check(where, "original_max_position_embeddings", r->original, EXTENT_MOST));
    }
    return OK;
}

static status tokens_check(const struct model_spec *s, const char *where)
{
    if (s->pad < -1 || s->pad >= s->vocab) {
        return fail(ERR_RECIPE, "%s: pad_token_id is %lld; allowed are 0 to %lld, or none", where,
                    (long long)s->pad, (long long)(s->vocab - 1));
    }
    check(s->eos_count >= 0 && s->eos_count <= SPEC_EOS, "%d ends of text", s->eos_count);
    if (s->window < 0) {
        return fail(ERR_RECIPE, "%s: sliding_window is %lld; it must be at least 1, or none", where,
                    (long long)s->window);
    }
    return OK;
}

status spec_finish(struct model_spec *s, const char *where)
{
    TRY(extents_check(s, where));
    TRY(heads_finish(s, where));
    TRY(size_check(s, where));
    TRY(number_check(where, "rms_norm_eps", s->eps, true));
    TRY(number_check(where, "initializer_range", s->init_std, true));
    TRY(rope_check(&s->rope, where));
    return tokens_check(s, where);
}

const char *rope_kind_name(enum rope_kind kind)
{
    static const char *const names[ROPE_KINDS] = {
        [ROPE_DEFAULT] = "default",
        [ROPE_LINEAR] = "linear",
        [ROPE_LLAMA3] = "llama3",
    };

    return names[kind];
}

/*
 * Waves longer than the original context are slowed by the factor, short ones stay, between the two
 * the share that stays grows with the number of turns within the original context.
 */
static double llama3_frequency(const struct rope_spec *r, double frequency)
{
    double wave = 2 * pi / frequency, original = (double)r->original;
    double kept;

    if (wave < original / r->high) {
        return frequency;
    }
    if (wave > original / r->low) {
        return frequency / r->factor;
    }
    kept = (original / wave - r->low) / (r->high - r->low);
    return (1 - kept) * frequency / r->factor + kept * frequency;
}

void rope_frequencies(const struct rope_spec *r, int64_t head_dim, double *inv_freq)
{
    for (int64_t p = 0; p < head_dim / 2; p++) {
        double frequency = 1 / pow(r->theta, (double)(2 * p) / (double)head_dim);

        switch (r->kind) {
        case ROPE_DEFAULT:
            inv_freq[p] = frequency;
            break;
        case ROPE_LINEAR:
            inv_freq[p] = frequency / r->factor;
            break;
        case ROPE_LLAMA3:
            inv_freq[p] = llama3_frequency(r, frequency);
            break;
        }
    }
}

int64_t spec_parameters(const struct model_spec *s)
{
    int64_t query = s->heads * s->head_dim, pair = 2 * s->groups * s->head_dim;
    int64_t attention = (query + pair) * s->width + s->width * query;
    int64_t biases = 0;

    if (s->attention_bias) {
        biases += query + pair + s->width;
    }
    if (s->mlp_bias) {
        biases += 2 * s->ffn + s->width;
    }
    return (s->tied ? 1 : 2) * s->vocab * s->width + s->width +
           s->layers * (attention + 3 * s->ffn * s->width + 2 * s->width + biases);
}
