#include <string.h>
#include "recipe/rules.h"

/* No folder, or one whose name is empty. */
static bool names_nothing(const char **names, int count)
{
    for (int i = 0; i < count; i++) {
        if (names[i][0] == 0) {
            return true;
        }
    }
    return count == 0;
}

static void check_data(const struct checking *c)
{
    const struct recipe *r = c->r;

    if (!r->model.data.use_synthetic_data && !r->model.multi_modal &&
        names_nothing(r->model.data.train_dir.item, r->model.data.train_dir.count)) {
        rule_say(
            c, FINDING_ERROR,
            recipe_given(r, "model.data.train_dir") ? "model.data.train_dir" : "model.data",
            "model.data.train_dir names no folder; set it, or model.data.use_synthetic_data=true");
    }
    if (r->model.data.use_synthetic_data && r->model.multi_modal) {
        rule_say(c, FINDING_ERROR, "model.multi_modal",
                 "model.multi_modal and synthetic data exclude each other");
    }
    if (r->trainer.limit_val_batches.value > 0 && r->model.data.val_dir.count == 0 &&
        !r->model.data.use_synthetic_data) {
        rule_say(c, FINDING_WARNING, "trainer.limit_val_batches",
                 "trainer.limit_val_batches asks for validation, but model.data.val_dir names no "
                 "folder: there will be none");
    }
}

/* Whether a step of the run lies in the falling part of the schedule (facts 3.6). */
static bool rate_falls(const struct recipe *r)
{
    int64_t warmup = r->model.optim.sched.warmup_steps, last = r->trainer.max_steps - 1;

    last = r->model.lr_decay_iters < last ? r->model.lr_decay_iters : last;
    return warmup == 0 || last > warmup;
}

static void check_optimizer(const struct checking *c)
{
    const struct recipe *r = c->r;
    double lr = r->model.optim.lr, least = r->model.optim.sched.min_lr;

    if (r->model.optim.betas.count != 2) {
        rule_say(c, FINDING_ERROR, "model.optim.betas",
                 "model.optim.betas has %d numbers; allowed: 2, such as [0.9, 0.98]",
                 r->model.optim.betas.count);
    }
    for (int i = 0; i < r->model.optim.betas.count; i++) {
        if (!(r->model.optim.betas.item[i] < 1)) {
            rule_say(c, FINDING_ERROR, "model.optim.betas",
                     "model.optim.betas holds 1; allowed: 0 or more, below 1");
            break;
        }
    }
    if (r->model.optim.sched.constant_steps > 0 && !(lr > least)) {
        rule_say(c, FINDING_ERROR, "model.optim.sched.min_lr",
                 "model.optim.lr %g is not above model.optim.sched.min_lr %g, which constant_steps "
                 "needs",
                 lr, least);
    } else if (lr < least && rate_falls(r)) {
        rule_say(
            c, FINDING_ERROR, "model.optim.sched.min_lr",
            "model.optim.sched.min_lr %g is more than model.optim.lr %g; set it to at most that",
            least, lr);
    }
    if (r->model.optim.sched.warmup_steps >= r->trainer.max_steps) {
        rule_say(
            c, FINDING_NOTE, "model.optim.sched.warmup_steps",
            "the whole run is warm-up: model.optim.sched.warmup_steps %lld, trainer.max_steps %lld",
            (long long)r->model.optim.sched.warmup_steps, (long long)r->trainer.max_steps);
    }
}

static void check_checkpoints(const struct checking *c)
{
    const struct recipe *r = c->r;
    bool sharded = r->exp_manager.checkpoint_callback_params.save_top_k != 0 ||
                   r->exp_manager.checkpoint_callback_params.save_last;

    if (r->exp_manager.auto_checkpoint.enabled && sharded) {
        rule_say(c, FINDING_ERROR, "exp_manager.auto_checkpoint.enabled",
                 "exp_manager.auto_checkpoint and sharded checkpoints exclude each other; set "
                 "exp_manager.checkpoint_callback_params.save_top_k=0 and .save_last=false");
    }
    if (r->exp_manager.auto_checkpoint.warmup_steps <
        r->exp_manager.auto_checkpoint.drop_n_warmup_steps) {
        rule_say(
            c, FINDING_ERROR, "exp_manager.auto_checkpoint.warmup_steps",
            "exp_manager.auto_checkpoint.warmup_steps %lld is less than drop_n_warmup_steps %lld",
            (long long)r->exp_manager.auto_checkpoint.warmup_steps,
            (long long)r->exp_manager.auto_checkpoint.drop_n_warmup_steps);
    }
    if (r->exp_manager.log_local_rank_0_only && r->exp_manager.log_global_rank_0_only) {
        rule_say(c, FINDING_ERROR, "exp_manager.log_global_rank_0_only",
                 "exp_manager.log_local_rank_0_only and log_global_rank_0_only exclude each other");
    }
}

static void check_rest(const struct checking *c)
{
    const struct recipe *r = c->r;

    if (!r->model.activation_checkpointing && r->model.activation_loading_horizon > 1 &&
        recipe_given(r, "model.activation_loading_horizon")) {
        rule_say(c, FINDING_WARNING, "model.activation_loading_horizon",
                 "model.activation_loading_horizon %lld means nothing with "
                 "activation_checkpointing: false",
                 (long long)r->model.activation_loading_horizon);
    }
    if (recipe_time_limit(r) < 0) {
        rule_say(c, FINDING_ERROR, "run.time_limit",
                 "run.time_limit is '%s'; allowed: D-HH:MM:SS, HH:MM:SS or minutes, in quotes",
                 tree_clip(c->found->arena, r->run.time_limit));
    }
}

void rules_of_training(const struct checking *c)
{
    check_data(c);
    check_optimizer(c);
    check_checkpoints(c);
    check_rest(c);
}
