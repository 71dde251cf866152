/*
 * What the table knows and nothing here carries out yet. An error where the run would be another
 * one than was asked for; a warning where only something beside it is missing. Whoever builds one
 * of these removes its row.
 */
#include <string.h>
#include "recipe/rules.h"

struct wish {
    bool wanted;
    const char *key;
    const char *way_out;
};

static void refuse(const struct checking *c, enum finding_kind kind, const struct wish *wishes,
                   size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (wishes[i].wanted) {
            rule_say(c, kind, wishes[i].key, "%s: this is not built yet; %s", wishes[i].key,
                     wishes[i].way_out);
        }
    }
}

static void refuse_other_runs(const struct checking *c)
{
    const struct recipe *r = c->r;
    const struct wish wishes[] = {
        { strcmp(r->model.precision, "16") == 0,
          tree_at(r->tree, "model.precision") != NULL ? "model.precision" : "trainer.precision",
          "use trainer.precision=32" },
        { r->model.fp8 && r->use_smp_model, "model.fp8", "use model.fp8=false" },
        { r->model.expert_model_parallel_degree > 1, "model.expert_model_parallel_degree",
          "use model.expert_model_parallel_degree=1" },
        { r->model.context_parallel_degree > 1, "model.context_parallel_degree",
          "use model.context_parallel_degree=1" },
        { r->model.moe, "model.moe", "use model.moe=false" },
        { r->model.multi_modal, "model.multi_modal", "use model.multi_modal=false" },
        { r->model.offload_activations, "model.offload_activations",
          "use model.offload_activations=false" },
        { r->model.peft.peft_type != NULL, "model.peft.peft_type",
          "use model.peft.peft_type=null to train all weights" },
        { r->model.dpo.enabled, "model.dpo.enabled", "use model.dpo.enabled=false" },
        { r->exp_manager.auto_checkpoint.enabled, "exp_manager.auto_checkpoint.enabled",
          "use exp_manager.checkpoint_callback_params" },
    };

    refuse(c, FINDING_ERROR, wishes, sizeof wishes / sizeof wishes[0]);
}

static void warn_of_missing(const struct checking *c)
{
    const struct recipe *r = c->r;
    const struct wish wishes[] = {
        { r->exp_manager.create_mlflow_logger, "exp_manager.create_mlflow_logger",
          "nothing goes to MLflow" },
        { r->exp_manager.create_wandb_logger, "exp_manager.create_wandb_logger",
          "nothing goes to Weights and Biases" },
        { r->run.time_limit != NULL, "run.time_limit", "stop the run with SIGTERM in time" },
        { r->exp_manager.checkpoint_callback_params.every_n_train_steps > 0 &&
              recipe_given(r, "exp_manager.checkpoint_callback_params.save_top_k"),
          "exp_manager.checkpoint_callback_params.save_top_k", "every checkpoint is kept" },
    };

    refuse(c, FINDING_WARNING, wishes, sizeof wishes / sizeof wishes[0]);
}

/* An address would otherwise become the name of a folder. */
static void refuse_address(const struct checking *c, const char *key, const char *path)
{
    const char *colon = path == NULL ? NULL : strstr(path, "://");

    if (colon != NULL) {
        rule_say(
            c, FINDING_ERROR, key,
            "%s: %s: storage by %.*s addresses is not built yet; name a folder of this machine",
            key, tree_clip(c->found->arena, path), (int)(colon - path), path);
    }
}

static void refuse_addresses(const struct checking *c)
{
    const struct recipe *r = c->r;

    refuse_address(c, "model.hf_model_name_or_path", r->model.hf_model_name_or_path);
    refuse_address(c, "exp_manager.exp_dir", r->exp_manager.exp_dir);
    refuse_address(c, "exp_manager.explicit_log_dir", r->exp_manager.explicit_log_dir);
    refuse_address(c, "exp_manager.checkpoint_dir", r->exp_manager.checkpoint_dir);
    refuse_address(c, "exp_manager.resume_from_checkpoint", r->exp_manager.resume_from_checkpoint);
    refuse_address(c, "exp_manager.export_full_model.final_export_dir",
                   r->exp_manager.export_full_model.final_export_dir);
    for (int i = 0; i < r->model.data.train_dir.count; i++) {
        refuse_address(c, "model.data.train_dir", r->model.data.train_dir.item[i]);
    }
    for (int i = 0; i < r->model.data.val_dir.count; i++) {
        refuse_address(c, "model.data.val_dir", r->model.data.val_dir.item[i]);
    }
}

void rules_of_wishes(const struct checking *c)
{
    refuse_addresses(c);
    refuse_other_runs(c);
    warn_of_missing(c);
    if (c->r->model.fp8 && !c->r->use_smp_model) {
        rule_say(c, FINDING_NOTE, "model.fp8", "model.fp8 does nothing with use_smp_model: false");
    }
    if (c->r->model.sliding_window != 0) {
        rule_say(c, FINDING_NOTE, "model.sliding_window",
                 "model.sliding_window does nothing in the llama families");
    }
}
