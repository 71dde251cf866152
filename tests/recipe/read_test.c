/* The typed reading: defaults, types, ranges, unknown keys, findings. */
#include <math.h>
#include <unistd.h>
#include "recipe/recipe_case.h"

/* Section 1.4 of the reference's schema and its checkpoint keys, as an empty recipe has them. */
static void defaults_are_those_of_the_reference(void **state)
{
    struct recipe_case c;
    const struct recipe *r = &c.recipe;

    (void)state;
    case_read(&c, "", NULL, -1);
    assert_int_equal(r->name.count, 1);
    assert_string_equal(r->name.item[0], "hf_llama_8b");
    assert_true(r->use_smp_model);
    assert_null(r->distributed_backend);
    assert_false(r->log_perf_metrics);

    assert_int_equal(r->trainer.devices, 0);
    assert_int_equal(r->trainer.num_nodes, 1);
    assert_string_equal(r->trainer.accelerator, "gpu");
    assert_string_equal(r->trainer.precision, "bf16");
    assert_int_equal(r->trainer.max_steps, 50);
    assert_int_equal(r->trainer.log_every_n_steps, 10);
    assert_true(r->trainer.val_check_interval.value == -1 &&
                !r->trainer.val_check_interval.is_share);
    assert_true(r->trainer.limit_val_batches.value == 0 && r->trainer.limit_val_batches.is_share);
    assert_int_equal(r->trainer.accumulate_grad_batches, 1);
    assert_int_equal(r->trainer.max_skipped_steps, 10);
    assert_int_equal(r->trainer.threads, 0);

    assert_string_equal(r->model.model_type, "llama_v3");
    assert_int_equal(r->model.train_batch_size, 2);
    assert_int_equal(r->model.val_batch_size, 1);
    assert_true(r->model.fsdp);
    assert_false(r->model.moe);
    assert_true(r->model.activation_checkpointing);
    assert_int_equal(r->model.activation_loading_horizon, 2);
    assert_true(r->model.delayed_param);
    assert_false(r->model.offload_activations);
    assert_int_equal(r->model.seed, 12345);
    assert_true(r->model.grad_clip == 1.0);
    assert_string_equal(r->model.sharding_strategy, "hybrid_shard");
    assert_true(r->model.forward_prefetch);
    assert_int_equal(r->model.shard_degree, 0);
    assert_string_equal(r->model.backward_fetch_policy, "backward_pre");
    assert_string_equal(r->model.auto_wrap_policy, "transformer_auto_wrap_policy");
    assert_true(r->model.limit_all_gathers);
    assert_true(r->model.use_orig_param);
    assert_int_equal(r->model.context_parallel_degree, 1);
    assert_int_equal(r->model.tensor_model_parallel_degree, 1);
    assert_int_equal(r->model.expert_model_parallel_degree, 1);
    assert_int_equal(r->model.max_context_width, 2048);
    assert_int_equal(r->model.max_position_embeddings, 2048); /* copied */
    assert_int_equal(r->model.num_hidden_layers, 0);
    assert_int_equal(r->model.hidden_size, 0);
    assert_int_equal(r->model.num_attention_heads, 0);
    assert_int_equal(r->model.intermediate_size, 0);
    assert_int_equal(r->model.vocab_size, 0);
    assert_int_equal(r->model.num_key_value_heads, 0);
    assert_int_equal(r->model.head_dim, 0);
    assert_int_equal(r->model.sliding_window, 0);
    assert_int_equal(r->model.max_window_layers, 0);
    assert_int_equal(r->model.num_experts_per_tok, 0);
    assert_int_equal(r->model.num_local_experts, 0);
    assert_true(isnan(r->model.initializer_range));
    assert_true(isnan(r->model.layernorm_epsilon));
    assert_true(isnan(r->model.rms_norm_eps));
    assert_false(r->model.use_flash_attention);
    assert_false(r->model.use_sliding_window);
    assert_true(r->model.rope_theta == 10000.0);
    assert_false(r->model.multi_modal);
    assert_false(r->model.tie_word_embeddings);
    assert_false(r->model.attention_bias);
    assert_false(r->model.mlp_bias);
    assert_null(r->model.rope_scaling.rope_type);
    assert_true(r->model.rope_scaling.factor == 8.0);
    assert_true(r->model.rope_scaling.high_freq_factor == 4.0);
    assert_true(r->model.rope_scaling.low_freq_factor == 1.0);
    assert_int_equal(r->model.rope_scaling.original_max_position_embeddings, 8192);
    assert_string_equal(r->model.moe_load_balancing, "sinkhorn");
    assert_false(r->model.global_token_shuffle);
    assert_false(r->model.moe_all_to_all_dispatcher);
    assert_false(r->model.fp8); /* left out */
    assert_int_equal(r->model.fp8_amax_history_len, 1024);
    assert_string_equal(r->model.fp8_amax_compute_algo, "max");
    assert_true(r->model.do_finetune);
    assert_null(r->model.hf_model_name_or_path);
    assert_null(r->model.hf_access_token);
    assert_string_equal(r->model.precision, "bf16");
    assert_int_equal(r->model.lr_decay_iters, 50); /* left out: max_steps */
    assert_true(r->model.log_reduced_training_loss);
    assert_null(r->model.nvte_attn_backend);
    assert_string_equal(r->model.optim.name, "adamw");
    assert_true(r->model.optim.lr == 2e-4);
    assert_true(r->model.optim.weight_decay == 0.01);
    assert_int_equal(r->model.optim.betas.count, 2);
    assert_true(r->model.optim.betas.item[0] == 0.9 && r->model.optim.betas.item[1] == 0.98);
    assert_string_equal(r->model.optim.sched.name, "CosineAnnealing");
    assert_int_equal(r->model.optim.sched.warmup_steps, 500);
    assert_int_equal(r->model.optim.sched.constant_steps, 0);
    assert_true(r->model.optim.sched.min_lr == 2e-5);
    assert_int_equal(r->model.data.train_dir.count, 0);
    assert_int_equal(r->model.data.val_dir.count, 0);
    assert_string_equal(r->model.data.dataset_type, "hf");
    assert_true(r->model.data.use_synthetic_data); /* there is no data section */
    assert_false(r->model.data.strict);
    assert_null(r->model.peft.peft_type);
    assert_int_equal(r->model.peft.rank, 32);
    assert_true(r->model.peft.alpha == 16.0 && r->model.peft.dropout == 0.1);
    assert_int_equal(r->model.peft.target_modules.count, 0);
    assert_false(r->model.dpo.enabled);
    assert_true(r->model.dpo.beta == 0.1 && r->model.dpo.label_smoothing == 0.0);
    assert_true(r->model.gpu_affinity.enabled);
    assert_false(r->model.nsys_profile.enabled);
    assert_int_equal(r->model.nsys_profile.start_step, 10);
    assert_int_equal(r->model.nsys_profile.end_step, 10);
    assert_int_equal(r->model.nsys_profile.ranks.count, 1);
    assert_false(r->model.nsys_profile.gen_shape);
    assert_null(r->model.viztracer);

    assert_null(r->exp_manager.exp_dir);
    assert_null(r->exp_manager.explicit_log_dir);
    assert_string_equal(r->exp_manager.name, "my_experiment");
    assert_null(r->exp_manager.version);
    assert_true(r->exp_manager.use_datetime_version);
    assert_false(r->exp_manager.resume_if_exists);
    assert_null(r->exp_manager.checkpoint_dir);
    assert_null(r->exp_manager.resume_from_checkpoint);
    assert_true(r->exp_manager.create_checkpoint_callback);
    assert_true(r->exp_manager.save_on_stop);
    assert_int_equal(r->exp_manager.checkpoint_callback_params.save_top_k, 10);
    assert_int_equal(r->exp_manager.checkpoint_callback_params.every_n_train_steps, 0);
    assert_string_equal(r->exp_manager.checkpoint_callback_params.monitor, "step");
    assert_string_equal(r->exp_manager.checkpoint_callback_params.mode, "max");
    assert_true(r->exp_manager.checkpoint_callback_params.save_last);
    assert_false(r->exp_manager.auto_checkpoint.enabled);
    assert_int_equal(r->exp_manager.auto_checkpoint.warmup_steps, 12);
    assert_int_equal(r->exp_manager.auto_checkpoint.drop_n_warmup_steps, 3);
    assert_int_equal(r->exp_manager.export_full_model.every_n_train_steps, 0);
    assert_true(r->exp_manager.export_full_model.save_last);
    assert_null(r->exp_manager.export_full_model.final_export_dir);
    assert_false(r->exp_manager.create_tensorboard_logger);
    assert_null(r->exp_manager.summary_writer_kwargs);

    assert_string_equal(r->run.name, "llama-8b");
    assert_null(r->run.results_dir);
    assert_null(r->run.time_limit);
    case_release(&c);
}

static void a_small_recipe_has_no_findings(void **state)
{
    struct recipe_case c;

    (void)state;
    case_read(&c, SMALL, NULL, 1);
    assert_int_equal(c.status, OK);
    assert_string_equal(c.printed, "0 errors, 0 warnings, 0 notes\n");
    assert_string_equal(c.recipe.trainer.precision, "64");
    assert_string_equal(c.recipe.model.data.train_dir.item[0], "/data/train");
    assert_true(recipe_given(&c.recipe, "model.optim.sched.warmup_steps"));
    assert_true(recipe_given(&c.recipe, "model.data"));
    assert_false(recipe_given(&c.recipe, "model.optim.lr"));
    case_release(&c);
}

static void values_are_settled(void **state)
{
    static const char *const overrides[] = { "model.num_layers=3",
                                             "model.num_heads=8",
                                             "model.layernorm_epsilon=1e-5",
                                             "model.rms_norm_eps=null",
                                             "trainer.max_steps=1e2",
                                             "model.lr_decay_iters=null",
                                             "model.data.dataset_type=synthetic",
                                             NULL };
    struct recipe_case c;

    (void)state;
    case_read(&c, SMALL, overrides, -1);
    assert_int_equal(c.status, OK);
    assert_int_equal(c.recipe.model.num_hidden_layers, 3);
    assert_int_equal(c.recipe.model.num_attention_heads, 8);
    assert_true(c.recipe.model.rms_norm_eps == 1e-5);
    assert_int_equal(c.recipe.trainer.max_steps, 100);
    assert_int_equal(c.recipe.model.lr_decay_iters, 100);
    assert_true(c.recipe.model.data.use_synthetic_data);
    case_release(&c);
}

static void precisions_have_many_names(void **state)
{
    static const struct {
        const char *override, *effective;
    } cases[] = {
        { "trainer.precision=bf16", "bf16" },   { "trainer.precision=bf16-mixed", "bf16" },
        { "trainer.precision=16", "16" },       { "trainer.precision='16'", "16" },
        { "trainer.precision=16-mixed", "16" }, { "trainer.precision=fp16", "16" },
        { "trainer.precision=32", "32" },       { "trainer.precision='32'", "32" },
        { "trainer.precision=32-true", "32" },  { "trainer.precision=fp32", "32" },
        { "trainer.precision=64", "64" },       { "trainer.precision=fp64", "64" },
        { "model.precision=32", "32" },         { "model.precision=null", "64" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct recipe_case c;

        case_read(&c, SMALL, (const char *const[]){ cases[i].override, NULL }, -1);
        assert_int_equal(c.status, OK);
        assert_string_equal(c.recipe.trainer.precision, cases[i].effective);
        assert_string_equal(c.recipe.model.precision, cases[i].effective);
        case_release(&c);
    }
    EXPECT_FOUND("trainer.precision is the text 'bf17'; allowed: one of bf16, bf16-mixed, 16, "
                 "16-mixed, fp16, 32, "
                 "32-true, fp32, 64, fp64; did you mean bf16?",
                 SMALL, -1, "trainer.precision=bf17");
    EXPECT_FOUND("trainer.precision is the integer 8; allowed", SMALL, -1, "trainer.precision=8");
    EXPECT_FOUND("trainer.precision is the float 32.0; allowed", SMALL, -1,
                 "trainer.precision=32.0");
    EXPECT_NOT_FOUND("computed as 32", SMALL, -1, "trainer.precision=bf17");
}

static void wrong_values_are_refused(void **state)
{
    static const struct {
        const char *override, *part;
    } cases[] = {
        { "trainer.max_steps=0",
          "trainer.max_steps is the integer 0; allowed: an integer, 1 to 1000000000000" },
        { "trainer.max_steps=2.5", "trainer.max_steps is the float 2.5; allowed: an integer" },
        { "trainer.max_steps='5'",
          "trainer.max_steps is the text '5'; allowed: an integer, 1 to 1000000000000; "
          "write it without quotes" },
        { "trainer.max_steps=9223372036854775807", "is the integer 9223372036854775807; allowed" },
        { "trainer.max_steps=[1]", "trainer.max_steps is a list; allowed" },
        { "trainer.max_steps=true", "trainer.max_steps is true; allowed" },
        { "trainer.max_steps=null",
          "trainer.max_steps is null; allowed: an integer, 1 to 1000000000000; left out it "
          "is 50" },
        { "trainer.max_steps=.inf", "trainer.max_steps is the float .inf; allowed" },
        { "trainer.num_nodes=-1",
          "trainer.num_nodes is the integer -1; allowed: an integer, 1 to 65536" },
        { "trainer.devices=all",
          "trainer.devices is the text 'all'; allowed: auto, or an integer, 1 to 65536" },
        { "trainer.devices=0", "trainer.devices is the integer 0; allowed" },
        { "trainer.accelerator=tpu", "allowed: one of gpu, auto, cpu" },
        { "trainer.limit_val_batches=1.5",
          "is the float 1.5; allowed: an integer, 0 to 1000000000000, or a float "
          "from 0.0 to 1.0" },
        { "trainer.limit_val_batches=-1", "trainer.limit_val_batches is the integer -1; allowed" },
        { "trainer.val_check_interval=-0.5",
          "trainer.val_check_interval is the float -0.5; allowed" },
        { "model.optim.lr=-1e-3",
          "model.optim.lr is the float -1e-3; allowed: a number, 0 or more" },
        { "model.optim.lr=.nan", "model.optim.lr is the float .nan; allowed" },
        { "model.optim.lr='1e-3'", "write it without quotes" },
        { "model.optim.betas=0.9",
          "model.optim.betas is the float 0.9; allowed: a list of numbers, each, 0 to 1" },
        { "model.optim.betas=[0.9, x]", "model.optim.betas is the text 'x'; allowed" },
        { "model.optim.betas=[0.9, 1.5]", "model.optim.betas is the float 1.5; allowed" },
        { "model.optim.name=sgd", "model.optim.name is the text 'sgd'; allowed: adamw" },
        { "model.optim={lr: fast}", "model.optim.lr is the text 'fast'" },
        { "model.optim=[]", "model.optim is a list; allowed: a map of its keys, or null" },
        { "model.fsdp=1", "model.fsdp is the integer 1; allowed: true or false" },
        { "model.fsdp='true'",
          "model.fsdp is the text 'true'; allowed: true or false; write it without quotes" },
        { "model.hidden_size=0",
          "model.hidden_size is the integer 0; allowed: an integer, 1 to 1048576, or null" },
        { "model.sharding_strategy=full", "allowed: one of no_shard, shard_grad_op, hybrid_shard, "
                                          "_hybrid_shard_zero2, full_shard" },
        { "model.sharding_strategy=fullshard", "did you mean full_shard?" },
        { "model.data.train_dir=3",
          "model.data.train_dir is the integer 3; allowed: a text or a list of texts, or null" },
        { "model.data.train_dir=[a, null]",
          "model.data.train_dir is null; allowed: a text or a list of texts" },
        { "exp_manager.summary_writer_kwargs=3",
          "exp_manager.summary_writer_kwargs is the integer 3; allowed: a map" },
        { "exp_manager.exp_dir=5",
          "exp_manager.exp_dir is the integer 5; allowed: a text, or null; quote it if it is a "
          "text" },
        { "exp_manager.auto_checkpoint.warmup_steps=2", "allowed: an integer, 3 to 1000000" },
        { "run.time_limit=12:30:00",
          "run.time_limit is the integer 45000; allowed: a text, or null; quote it" },
        { "distributed_backend=gloo",
          "distributed_backend is the text 'gloo'; allowed: one of nccl, mpi, alone" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct recipe_case c;

        case_read(&c, SMALL, (const char *const[]){ cases[i].override, NULL }, -1);
        assert_int_equal(c.status, ERR_RECIPE);
        assert_int_equal(findings_errors(&c.found), 1);
        expect_printed(&c, "override 1: error: ", true, __FILE__, __LINE__);
        expect_printed(&c, cases[i].part, true, __FILE__, __LINE__);
        case_release(&c);
    }
}

static void unknown_keys_are_errors_with_a_suggestion(void **state)
{
    (void)state;
    EXPECT_FOUND("r.yaml:1:1: error: trainr is not a known key; did you mean trainer?",
                 "trainr: {}\n", -1, NULL);
    EXPECT_FOUND(
        "r.yaml:2:3: error: model.hiden_size is not a known key; did you mean model.hidden_size?",
        "model:\n  hiden_size: 3\n", -1, NULL);
    EXPECT_FOUND("r.yaml:2:3: error: trainer.seed is not a known key; did you mean model.seed?",
                 "trainer:\n  seed: 3\n", -1, NULL);
    EXPECT_FOUND("model.lr is not a known key; did you mean model.optim.lr?", "model: {lr: 1}\n",
                 -1, NULL);
    EXPECT_FOUND("run.nam is not a known key; did you mean run.name?", "run: {nam: 1}\n", -1, NULL);
    EXPECT_FOUND("model.qwertyuiop is not a known key (roux keys lists them)",
                 "model: {qwertyuiop: 1}\n", -1, NULL);
    EXPECT_FOUND("1 is not a known key", "1: x\n", -1, NULL);
    EXPECT_FOUND("defaults belongs to a main configuration, and composition of several files is "
                 "not built yet",
                 "defaults: [a]\n", -1, NULL);
    EXPECT_FOUND("hydra belongs to a main configuration", "hydra: {run: {dir: .}}\n", -1, NULL);
    EXPECT_NOT_FOUND("anything", SMALL, -1, "+exp_manager.wandb_logger_kwargs.anything=1", NULL);
}

static void references_are_refused_by_name(void **state)
{
    (void)state;
    EXPECT_FOUND("r.yaml:2:9: error: run.name is '${a.b}': references are not built yet",
                 "run: \n  name: ${a.b}\n", -1, NULL);
    EXPECT_FOUND(
        "exp_manager.wandb_logger_kwargs.save_dir is '${x}/w': references are not built yet",
        "exp_manager: {wandb_logger_kwargs: {save_dir: \"${x}/w\"}}\n", -1, NULL);
    EXPECT_FOUND("run.name is ?\?\?, a value that must be given: run.name=...",
                 "run:\n  name: ?\?\?\n", -1, NULL);
}

static void all_findings_come_at_once_in_order(void **state)
{
    static const char text[] = "trainer:\n  max_steps: 0\n  foo: 1\nmodel:\n  seed: x\n  seed: 3\n"
                               "distributed_backend: mpi\n";
    static const char *const overrides[] = { "model.moe=1", "run.x=1", NULL };
    struct recipe_case c;

    (void)state;
    case_read(&c, text, overrides, -1);
    assert_int_equal(c.status, ERR_RECIPE);
    assert_non_null(
        strstr(fail_text(), "r.yaml: 6 errors, the first: trainer.max_steps is the integer 0"));
    assert_string_equal(
        c.printed,
        "r.yaml:2:14: error: trainer.max_steps is the integer 0; allowed: an integer, 1 to "
        "1000000000000\n"
        "r.yaml:3:3: error: trainer.foo is not a known key (roux keys lists them)\n"
        "r.yaml:5:9: error: model.seed is the text 'x'; allowed: an integer, 0 to 4294967295\n"
        "r.yaml:6:3: error: the key seed stands twice in one map, first at line 5; remove one\n"
        "override 1: error: model.moe is the integer 1; allowed: true or false\n"
        "override 2: error: run.x is not a known key (roux keys lists them)\n"
        "note: model.fp8 is left out: off on this device (the reference would turn it on)\n"
        "6 errors, 0 warnings, 1 note\n");
    case_release(&c);
}

static void what_is_required_is_asked_for(void **state)
{
    (void)state;
    EXPECT_FOUND("r.yaml: error: the section model is required and is not there", "", -1, NULL);
    EXPECT_FOUND("r.yaml:1:7: error: the section model is required", "model:\n", -1, NULL);
    EXPECT_FOUND("r.yaml: error: distributed_backend is required: one of nccl, mpi, alone",
                 "model: {}\n", -1, NULL);
    EXPECT_FOUND("the file is a list, a map of keys is needed", "- a\n", 1, NULL);
}

static void keys_without_effect_are_listed_once(void **state)
{
    (void)state;
    EXPECT_FOUND("note: without effect here: model.limit_all_gathers, model.use_flash_attention\n",
                 SMALL, -1, "model.use_flash_attention=true", "model.limit_all_gathers=false");
}

static void too_many_findings_are_cut(void **state)
{
    struct recipe_case c;
    struct arena a = { 0 };
    char *text = arena_take(&a, 400000), *to = text + sprintf(text, "model:\n");

    (void)state;
    for (int i = 0; i < 20000; i++) {
        to += sprintf(to, "  k%d: 1\n", i);
    }
    case_read(&c, text, NULL, 4);
    assert_true(c.found.count <= FINDINGS_MOST + 1);
    assert_int_equal(c.status, ERR_RECIPE);
    assert_non_null(strstr(c.printed, "error: there is more, which is not shown"));
    case_release(&c);
    arena_release(&a);
}

static void a_file_is_read_and_a_missing_one_told(void **state)
{
    char path[] = "/tmp/roux-recipe-XXXXXX";
    int fd = mkstemp(path);
    struct arena a = { 0 };
    struct findings found = { 0 };
    struct recipe r;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, SMALL, strlen(SMALL)), (ssize_t)strlen(SMALL));
    close(fd);
    EXPECT_OK(recipe_read(&r, &found, &a, path, NULL, 0));
    assert_int_equal(r.model.hidden_size, 64);
    unlink(path);
    EXPECT_FAIL(ERR_RECIPE, path, recipe_read(&r, &found, &a, path, NULL, 0));
    assert_int_equal(findings_errors(&found), 1);
    assert_string_equal(found.items[0].file, path);
    recipe_check(&r, &found, 1);
    assert_int_equal(found.count, 1);
    assert_false(recipe_given(&r, "model"));
    arena_release(&a);
}

static char *printed_recipe(const struct recipe *r)
{
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);

    recipe_print(r, to);
    fclose(to);
    return text;
}

static void a_printed_recipe_reads_back(void **state)
{
    static const char *const overrides[] = {
        "model.data.train_dir=[/a b,'1']", "exp_manager.summary_writer_kwargs={a: {b: [1, null]}}",
        "trainer.limit_val_batches=1.0", "run.name='a: \"b\" \\'c\\''", NULL
    };
    struct recipe_case c, again;
    char *first, *second;

    (void)state;
    case_read(&c, SMALL, overrides, -1);
    assert_int_equal(c.status, OK);
    first = printed_recipe(&c.recipe);
    case_read(&again, first, NULL, -1);
    assert_int_equal(again.status, OK);
    second = printed_recipe(&again.recipe);
    assert_string_equal(first, second);
    assert_false(
        recipe_given(&again.recipe, "model.rope_theta")); /* left out once, left out again */
    assert_string_equal(again.recipe.run.name, "a: \"b\" 'c'");
    assert_non_null(strstr(first, "\n  # rope_theta: 10000.0\n"));
    assert_non_null(
        strstr(first, "\n    sched:\n      name: CosineAnnealing\n      warmup_steps: 5\n"));
    assert_non_null(strstr(first, "limit_val_batches: 1.0\n"));
    assert_non_null(strstr(first, "train_dir: ['/a b', '1']\n"));
    case_release(&c);
    case_release(&again);
    free(first);
    free(second);
}

static void secrets_are_not_printed(void **state)
{
    static const char *const overrides[] = {
        "model.hf_access_token=hf_777888",
        "exp_manager.wandb_logger_kwargs={api_key: k777888, in: {password: p777888}}", NULL
    };
    struct recipe_case c;
    char *text;

    (void)state;
    case_read(&c, SMALL, overrides, 1);
    assert_int_equal(c.status, OK);
    text = printed_recipe(&c.recipe);
    assert_null(strstr(text, "777888"));
    assert_null(strstr(c.printed, "777888"));
    assert_non_null(strstr(text, "hf_access_token: null # not shown\n"));
    assert_non_null(strstr(text, "api_key: null # not shown\n"));
    case_release(&c);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_reference),
        cmocka_unit_test(a_small_recipe_has_no_findings),
        cmocka_unit_test(values_are_settled),
        cmocka_unit_test(precisions_have_many_names),
        cmocka_unit_test(wrong_values_are_refused),
        cmocka_unit_test(unknown_keys_are_errors_with_a_suggestion),
        cmocka_unit_test(references_are_refused_by_name),
        cmocka_unit_test(all_findings_come_at_once_in_order),
        cmocka_unit_test(what_is_required_is_asked_for),
        cmocka_unit_test(keys_without_effect_are_listed_once),
        cmocka_unit_test(too_many_findings_are_cut),
        cmocka_unit_test(a_file_is_read_and_a_missing_one_told),
        cmocka_unit_test(a_printed_recipe_reads_back),
        cmocka_unit_test(secrets_are_not_printed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
