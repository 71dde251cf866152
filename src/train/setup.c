/*
 * From recipe fields to plain specs: below this file nobody knows YAML or a key.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "model/family.h"
#include "model/hf.h"
#include "train/train.h"

/* ---- the model ---- */

static void overlay_int(int64_t *field, int64_t value)
{
    if (value > 0) {
        *field = value;
    }
}

static void overlay_sizes(struct model_spec *s, const struct recipe *r)
{
    overlay_int(&s->vocab, r->model.vocab_size);
    overlay_int(&s->width, r->model.hidden_size);
    overlay_int(&s->ffn, r->model.intermediate_size);
    overlay_int(&s->layers, r->model.num_hidden_layers);
    overlay_int(&s->layers, r->model.num_layers);
    overlay_int(&s->heads, r->model.num_attention_heads);
    overlay_int(&s->heads, r->model.num_heads);
    overlay_int(&s->groups, r->model.num_key_value_heads);
    overlay_int(&s->head_dim, r->model.head_dim);
    s->max_positions = r->model.max_context_width;
}

static void overlay_numbers(struct model_spec *s, const struct recipe *r, bool from_folder)
{
    if (!isnan(r->model.initializer_range)) {
        s->init_std = r->model.initializer_range;
    }
    if (!isnan(r->model.layernorm_epsilon)) {
        s->eps = r->model.layernorm_epsilon;
    }
    if (!isnan(r->model.rms_norm_eps)) {
        s->eps = r->model.rms_norm_eps;
    }
    if (!from_folder || recipe_given(r, "model.rope_theta")) {
        s->rope.theta = r->model.rope_theta;
    }
    if (r->model.rope_scaling.rope_type != NULL) {
        s->rope.kind = ROPE_LLAMA3;
        s->rope.factor = r->model.rope_scaling.factor;
        s->rope.low = r->model.rope_scaling.low_freq_factor;
        s->rope.high = r->model.rope_scaling.high_freq_factor;
        s->rope.original = r->model.rope_scaling.original_max_position_embeddings;
    }
}

static void overlay_switches(struct model_spec *s, const struct recipe *r, bool from_folder)
{
    if (!from_folder || recipe_given(r, "model.tie_word_embeddings")) {
        s->tied = r->model.tie_word_embeddings;
    }
    if (recipe_given(r, "model.attention_bias")) {
        s->attention_bias = r->model.attention_bias;
    }
    if (recipe_given(r, "model.mlp_bias")) {
        s->mlp_bias = r->model.mlp_bias;
    }
}

static status model_of(struct train_spec *out, struct arena *a, const struct recipe *r)
{
    const struct family *f =
        r->model.model_type == NULL ? NULL : family_of_recipe(r->model.model_type);
    const char *folder = r->model.hf_model_name_or_path;

    if (folder != NULL) {
        TRY(hf_config_read(&out->model, a, folder));
        if (f != NULL && out->model.family != f) {
            return fail(ERR_RECIPE,
                        "model.model_type is %s, but %s/config.json is of the family %s",
                        r->model.model_type, folder, out->model.family->name);
        }
    } else if (f == NULL) {
        return fail(ERR_UNSUPPORTED,
                    "model.model_type is %s; roux trains llama_v3 (llama_v2) so far",
                    r->model.model_type == NULL ? "null" : r->model.model_type);
    } else {
        spec_default(&out->model, f);
    }
    /* A width or a number of heads that the recipe changes makes what followed from the old one
     * meaningless. */
    if (folder == NULL || r->model.hidden_size > 0 || r->model.num_attention_heads > 0 ||
        r->model.num_heads > 0) {
        out->model.head_dim = 0;
    }
    if (folder == NULL) {
        out->model.groups = 0;
    }
    overlay_sizes(&out->model, r);
    overlay_numbers(&out->model, r, folder != NULL);
    overlay_switches(&out->model, r, folder != NULL);
    out->hf_folder = folder;
    out->pretrained = folder != NULL && r->model.do_finetune;
    return spec_finish(&out->model, "the recipe");
}

/* ---- the mesh ---- */

static status degrees_of(struct train_spec *out, const struct recipe *r, int ranks)
{
    int T = (int)r->model.tensor_model_parallel_degree, S = (int)recipe_shard_degree(r, ranks);

    if (S < 1 || ranks % (S * T) != 0) {
        return fail(
            ERR_RECIPE,
            "shard_degree %d times tensor_model_parallel_degree %d does not divide the %d ranks", S,
            T, ranks);
    }
    out->size[AXIS_TP] = T;
    out->size[AXIS_EP] = 1;
    out->size[AXIS_CP] = 1;
    out->size[AXIS_DS] = S;
    out->size[AXIS_REPLICA] = ranks / (S * T);
    return OK;
}

static bool keeps_weights(const char *strategy)
{
    return strcmp(strategy, "shard_grad_op") == 0 || strcmp(strategy, "_hybrid_shard_zero2") == 0;
}

/* ---- numbers ---- */

static void optimizer_of(struct train_spec *out, const struct recipe *r)
{
    bool own_horizon = recipe_given(r, "model.lr_decay_iters") && r->model.lr_decay_iters > 0;

    out->schedule = (struct schedule){ .lr = r->model.optim.lr,
                                       .min_lr = r->model.optim.sched.min_lr,
                                       .warmup = r->model.optim.sched.warmup_steps,
                                       .constant = r->model.optim.sched.constant_steps,
                                       .horizon = own_horizon ? r->model.lr_decay_iters
                                                              : r->trainer.max_steps };
    out->beta1 = r->model.optim.betas.item[0];
    out->beta2 = r->model.optim.betas.item[1];
    out->decay = r->model.optim.weight_decay;
    out->eps = 1e-8;
    out->grad_clip = r->model.grad_clip;
    out->max_steps = r->trainer.max_steps;
    out->max_skipped = r->trainer.max_skipped_steps;
}

static struct batch_amount amount_of(struct amount a)
{
    return (struct batch_amount){ a.is_share, a.value > 0 ? a.value : 0 };
}

static void data_of(struct train_spec *out, const struct recipe *r)
{
    out->B = r->model.train_batch_size;
    out->val_B = r->model.val_batch_size;
    out->S = r->model.max_context_width;
    out->accumulate = r->trainer.accumulate_grad_batches;
    out->seed = r->model.seed == 0 ? 12345 : (uint64_t)r->model.seed;
    out->train_dirs = r->model.data.train_dir.item;
    out->train_dir_count = r->model.data.train_dir.count;
    out->val_dirs = r->model.data.val_dir.item;
    out->val_dir_count = r->model.data.val_dir.count;
    out->synthetic =
        r->model.data.use_synthetic_data || strcmp(r->model.data.dataset_type, "synthetic") == 0;
    out->strict_rows = r->model.data.strict;
    out->val_interval = amount_of(r->trainer.val_check_interval);
    out->val_batches = amount_of(r->trainer.limit_val_batches);
    out->log_every = r->trainer.log_every_n_steps;
    out->log_perf = r->log_perf_metrics;
}

/* ---- directories ---- */

static char *absolute(struct arena *a, const char *path)
{
    char here[PATH_MAX];

    if (path[0] == '/' || getcwd(here, sizeof here) == NULL) {
        return arena_text(a, path);
    }
    return path_join(a, here, path);
}

/* The start time, or the next free number. Only rank 0's choice counts: train_run passes it on. */
static const char *version_of(struct arena *a, const struct recipe *r, const char *folder)
{
    const char *asked =
        r->exp_manager.version != NULL ? r->exp_manager.version : getenv("NEMO_EXPM_VERSION");
    char stamp[32];

    if (asked != NULL) {
        return asked;
    }
    if (r->exp_manager.use_datetime_version) {
        return arena_text(a, clock_stamp(stamp));
    }
    for (int i = 0;; i++) {
        const char *name = arena_format(a, "version_%d", i);

        if (!file_is_there(path_join(a, folder, name))) {
            return name;
        }
    }
}

/* The run's log folder, or one of the same name and version below save_dir. A named log folder has
 * neither: then save_dir itself. */
static const char *event_folder(struct arena *a, const struct recipe *r, const char *log_dir,
                                const char *name, const char *version)
{
    const struct tree *options = r->exp_manager.summary_writer_kwargs;
    const struct tree *save_dir = options == NULL ? NULL : tree_find(options, "save_dir");
    const char *base;

    if (save_dir == NULL || save_dir->kind != TREE_TEXT) {
        return log_dir;
    }
    base = absolute(a, save_dir->text);
    return version == NULL ? base : path_join(a, path_join(a, base, name), version);
}

static void directories_of(struct train_spec *out, struct arena *a, const struct recipe *r)
{
    const char *base,
        *version = NULL,
        *name = r->exp_manager.name == NULL || r->exp_manager.name[0] == 0 ? "default"
                                                                           : r->exp_manager.name;

    if (r->exp_manager.explicit_log_dir != NULL) {
        base = absolute(a, r->exp_manager.explicit_log_dir);
        out->log_dir = base;
    } else {
        const char *folder;

        base = absolute(a, r->exp_manager.exp_dir != NULL ? r->exp_manager.exp_dir
                                                          : "nemo_experiments");
        folder = path_join(a, base, name);
        version = version_of(a, r, folder);
        out->log_dir = path_join(a, folder, version);
    }
    out->event_dir = r->exp_manager.create_tensorboard_logger
                         ? event_folder(a, r, out->log_dir, name, version)
                         : NULL;
    out->checkpoint_dir =
        r->exp_manager.checkpoint_dir != NULL && r->exp_manager.checkpoint_dir[0] != 0
            ? absolute(a, r->exp_manager.checkpoint_dir)
            : path_join(a, base, "checkpoints");
    out->name = name;
}

static void saving_of(struct train_spec *out, struct arena *a, const struct recipe *r)
{
    bool periodic = r->exp_manager.create_checkpoint_callback;
    const char *resume = r->exp_manager.resume_from_checkpoint;
    const char *final = r->exp_manager.export_full_model.final_export_dir;

    out->save_top_k = r->exp_manager.checkpoint_callback_params.save_top_k;
    out->save_every = periodic && out->save_top_k > 0
                          ? r->exp_manager.checkpoint_callback_params.every_n_train_steps
                          : 0;
    out->save_last = periodic && r->exp_manager.checkpoint_callback_params.save_last;
    out->save_on_stop = r->exp_manager.save_on_stop;
    out->export_every = r->exp_manager.export_full_model.every_n_train_steps;
    out->export_last = r->exp_manager.export_full_model.save_last;
    out->resume_from = resume != NULL && resume[0] != 0 ? absolute(a, resume) : NULL;
    out->resume_if_exists = r->exp_manager.resume_if_exists;
    out->final_export_dir = final != NULL && final[0] != 0 ? absolute(a, final) : NULL;
}

static const char *recipe_as_text(struct arena *a, const struct recipe *r)
{
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    char *kept;

    check(f != NULL, "out of memory");
    recipe_print(r, f);
    fclose(f);
    kept = arena_text_n(a, text, length);
    free(text);
    return kept;
}

/* After the recipe was read both keys hold the same short form. */
static enum dtype real_of(const struct recipe *r)
{
    return precision_find(r->trainer.precision);
}

status train_spec_make(struct train_spec *out, struct arena *a, const struct recipe *r, int ranks)
{
    *out = (struct train_spec){ .threads = (int)r->trainer.threads, .real = real_of(r) };
    TRY(model_of(out, a, r));
    TRY(degrees_of(out, r, ranks));
    optimizer_of(out, r);
    TRY(schedule_check(&out->schedule));
    data_of(out, r);
    out->recompute = r->model.activation_checkpointing;
    out->regather = !keeps_weights(r->model.sharding_strategy);
    out->prefetch = r->model.forward_prefetch;
    directories_of(out, a, r);
    saving_of(out, a, r);
    out->recipe_text = recipe_as_text(a, r);
    return OK;
}
