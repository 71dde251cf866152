#include <string.h>
#include "recipe/rules.h"

/* The sizes of the model; 0 where a model directory decides. */
struct sizes {
    int64_t hidden, heads, groups, head_width, feed_forward;
};

static const char *type_of(const struct recipe *r)
{
    return r->model.model_type != NULL ? r->model.model_type : "null";
}

/* Whether the family is built, so that its sizes mean something here. */
static bool check_family(const struct checking *c)
{
    static const char *const built[] = { "llama_v3", "llama_v2", "deepseek_r1_llama_v3" };
    const struct recipe *r = c->r;
    bool is_built = r->model.model_type == NULL;

    for (size_t i = 0; !is_built && i < sizeof built / sizeof built[0]; i++) {
        is_built = strcmp(r->model.model_type, built[i]) == 0;
    }
    if (!is_built) {
        rule_say(c, FINDING_ERROR, "model.model_type",
                 "model.model_type '%s' is not built yet; built: llama_v3, llama_v2, "
                 "deepseek_r1_llama_v3",
                 tree_clip(c->found->arena, r->model.model_type));
    }
    if (r->model.model_type == NULL && r->model.hf_model_name_or_path == NULL) {
        rule_say(c, FINDING_ERROR, "model.model_type",
                 "model.model_type and model.hf_model_name_or_path are both null; one of them must "
                 "name the model");
    }
    if (strcmp(type_of(r), "deepseek_r1_llama_v3") == 0 && r->model.hf_model_name_or_path == NULL) {
        rule_say(c, FINDING_ERROR, "model.model_type",
                 "model.model_type deepseek_r1_llama_v3 needs model.hf_model_name_or_path, a model "
                 "directory");
    }
    if (r->model.multi_modal && strcmp(type_of(r), "llama_v3") != 0 &&
        strcmp(type_of(r), "llama_v4") != 0) {
        rule_say(c, FINDING_ERROR, "model.multi_modal",
                 "model.multi_modal is true; allowed with model_type llama_v3 and llama_v4 only, "
                 "found %s",
                 tree_clip(c->found->arena, type_of(r)));
    }
    return is_built;
}

static void check_source(const struct checking *c)
{
    const struct recipe *r = c->r;

    if (r->model.do_finetune && r->model.hf_model_name_or_path == NULL) {
        rule_say(c, FINDING_ERROR, "model.do_finetune",
                 "model.do_finetune is true%s, but model.hf_model_name_or_path is null; name a "
                 "model directory, or set "
                 "model.do_finetune=false to begin with random weights",
                 recipe_given(r, "model.do_finetune") ? "" : " (its default)");
    }
    if (r->model.do_finetune && r->model.hf_model_name_or_path != NULL &&
        !recipe_given(r, "model.rope_theta")) {
        rule_say(c, FINDING_NOTE, "model.hf_model_name_or_path",
                 "model.rope_theta is left out: the model directory's value is kept (the reference "
                 "would take %.1f)",
                 r->model.rope_theta);
    }
}

static int64_t or_default(const struct recipe *r, int64_t value, int64_t of_family)
{
    return value != 0 || r->model.hf_model_name_or_path != NULL ? value : of_family;
}

/* Family defaults of facts training.md 2.3 where nothing else decides. */
static struct sizes sizes_of(const struct recipe *r)
{
    struct sizes s = {
        .hidden = or_default(r, r->model.hidden_size, 4096),
        .heads = or_default(r, r->model.num_attention_heads, 32),
        .feed_forward = or_default(r, r->model.intermediate_size, 11008),
        .head_width = r->model.head_dim,
    };

    s.groups = or_default(r, r->model.num_key_value_heads, s.heads);
    if (s.head_width == 0 && s.hidden != 0 && s.heads != 0 && s.hidden % s.heads == 0) {
        s.head_width = s.hidden / s.heads;
    }
    return s;
}

static void check_sizes(const struct checking *c)
{
    struct sizes s = sizes_of(c->r);

    if (s.hidden != 0 && s.heads != 0 && s.head_width == 0) {
        rule_say(c, FINDING_ERROR, "model.hidden_size",
                 "model.hidden_size %lld is not a multiple of model.num_attention_heads %lld; "
                 "change one, or set "
                 "model.head_dim",
                 (long long)s.hidden, (long long)s.heads);
    }
    if (s.head_width % 2 != 0) {
        rule_say(
            c, FINDING_ERROR, c->r->model.head_dim != 0 ? "model.head_dim" : "model.hidden_size",
            "the width of a head is %lld; rotary angles need an even one", (long long)s.head_width);
    }
    if (s.heads != 0 && s.groups != 0 && s.heads % s.groups != 0) {
        rule_say(
            c, FINDING_ERROR, "model.num_key_value_heads",
            "model.num_attention_heads %lld is not a multiple of model.num_key_value_heads %lld",
            (long long)s.heads, (long long)s.groups);
    }
}

static void check_degree_of_tensors(const struct checking *c)
{
    struct sizes s = sizes_of(c->r);
    int64_t T = c->r->model.tensor_model_parallel_degree;
    const struct {
        const char *key;
        int64_t size;
    } split[] = {
        { "model.num_attention_heads", s.heads },
        { "model.intermediate_size", s.feed_forward },
        { "model.num_key_value_heads", s.groups },
    };

    if (s.groups != 0 && T > s.groups) {
        rule_say(c, FINDING_ERROR, "model.tensor_model_parallel_degree",
                 "model.tensor_model_parallel_degree %lld is more than model.num_key_value_heads "
                 "%lld, which is not built "
                 "yet; use at most %lld",
                 (long long)T, (long long)s.groups, (long long)s.groups);
        return;
    }
    for (size_t i = 0; i < sizeof split / sizeof split[0]; i++) {
        if (split[i].size % T != 0) {
            rule_say(c, FINDING_ERROR, "model.tensor_model_parallel_degree",
                     "%s %lld is not a multiple of model.tensor_model_parallel_degree %lld",
                     split[i].key, (long long)split[i].size, (long long)T);
        }
    }
}

static void check_rotary(const struct checking *c)
{
    const struct recipe *r = c->r;

    if (!(r->model.rope_theta > 0)) {
        rule_say(c, FINDING_ERROR, "model.rope_theta",
                 "model.rope_theta is 0; allowed: a number above 0");
    }
    if (r->model.rope_scaling.rope_type == NULL) {
        return;
    }
    if (!(r->model.rope_scaling.factor > 0)) {
        rule_say(c, FINDING_ERROR, "model.rope_scaling.factor",
                 "model.rope_scaling.factor is 0; allowed: a number above 0");
    }
    if (!(r->model.rope_scaling.low_freq_factor > 0 &&
          r->model.rope_scaling.high_freq_factor > r->model.rope_scaling.low_freq_factor)) {
        rule_say(c, FINDING_ERROR, "model.rope_scaling.high_freq_factor",
                 "model.rope_scaling: low_freq_factor is %g and high_freq_factor %g; allowed: 0 < "
                 "low < high",
                 r->model.rope_scaling.low_freq_factor, r->model.rope_scaling.high_freq_factor);
    }
}

static void warn_of_odd_sizes(const struct checking *c)
{
    const struct recipe *r = c->r;
    const struct {
        const char *key;
        int64_t size;
    } sizes[] = {
        { "model.max_context_width", r->model.max_context_width },
        { "model.hidden_size", r->model.hidden_size },
        { "model.num_attention_heads", r->model.num_attention_heads },
        { "model.num_key_value_heads", r->model.num_key_value_heads },
    };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i].size > 0 && (sizes[i].size & (sizes[i].size - 1)) != 0) {
            rule_say(c, FINDING_WARNING, sizes[i].key,
                     "%s %lld is not a power of two, which may be slow", sizes[i].key,
                     (long long)sizes[i].size);
        }
    }
}

void rules_of_model(const struct checking *c)
{
    bool is_built = check_family(c);

    check_source(c);
    if (is_built) {
        check_sizes(c);
        check_degree_of_tensors(c);
        check_rotary(c);
    }
    warn_of_odd_sizes(c);
}
