/* The rules between keys. */
#include "recipe/recipe_case.h"

/* A recipe with the degrees S, T, E, C, as the reference's own cases have them. */
static void read_degrees(struct recipe_case *c, const char *S, const char *T, const char *E,
                         const char *C, int ranks)
{
    char text[4][80];

    snprintf(text[0], sizeof text[0], "model.shard_degree=%s", S);
    snprintf(text[1], sizeof text[1], "model.tensor_model_parallel_degree=%s", T);
    snprintf(text[2], sizeof text[2], "model.expert_model_parallel_degree=%s", E);
    snprintf(text[3], sizeof text[3], "model.context_parallel_degree=%s", C);
    case_read(c, SMALL, (const char *const[]){ text[0], text[1], text[2], text[3], NULL }, ranks);
}

static void degrees_must_divide_the_ranks(void **state)
{
    static const struct {
        const char *S, *T, *E, *C;
        bool divides, context_fits;
    } cases[] = {
        { "2", "8", "8", "8", false, false }, { "1", "8", "1", "8", true, false },
        { "8", "1", "1", "2", true, true },   { "4", "2", "1", "1", true, true },
        { "3", "1", "1", "1", false, true },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct recipe_case c;

        read_degrees(&c, cases[i].S, cases[i].T, cases[i].E, cases[i].C, 8);
        expect_printed(&c, "does not divide the 8 ranks", !cases[i].divides, __FILE__, __LINE__);
        expect_printed(&c, "is more than the shard degree", !cases[i].context_fits, __FILE__,
                       __LINE__);
        case_release(&c);
    }
    EXPECT_FOUND("override 1: error: shard degree 8 x tensor degree 1 x expert degree 1 = 8 does "
                 "not divide the 1 rank of "
                 "this job; start a multiple of 8 ranks, or set model.shard_degree=1",
                 SMALL, 1, "model.shard_degree=8");
    EXPECT_FOUND("or lower the degrees", SMALL, 3, "model.tensor_model_parallel_degree=2");
    EXPECT_NOT_FOUND("divide", SMALL, 0, "model.shard_degree=8");
}

static void shard_degree_follows_the_strategy(void **state)
{
    static const struct {
        const char *override, *tensor;
        int ranks;
        int64_t degree;
    } cases[] = {
        { "model.sharding_strategy=no_shard", "1", 8, 1 },
        { "model.sharding_strategy=full_shard", "1", 16, 16 },
        { "model.sharding_strategy=full_shard", "2", 16, 8 },
        { "model.sharding_strategy=shard_grad_op", "1", 6, 6 },
        { "model.sharding_strategy=hybrid_shard", "1", 1, 1 },
        { "model.sharding_strategy=hybrid_shard", "1", 4, 4 },
        { "model.sharding_strategy=hybrid_shard", "1", 8, 8 },
        { "model.sharding_strategy=hybrid_shard", "1", 12, 6 },
        { "model.sharding_strategy=hybrid_shard", "1", 16, 8 },
        { "model.sharding_strategy=hybrid_shard", "1", 11, 1 },
        { "model.sharding_strategy=hybrid_shard", "2", 32, 16 },
        { "model.sharding_strategy=_hybrid_shard_zero2", "1", 16, 8 },
        { "model.sharding_strategy=full_shard", "2", 3, 1 },
        { "model.shard_degree=2", "1", 8, 2 },
        { "model.shard_degree=1", "1", 8, 1 },
        { "model={shard_degree: 4, sharding_strategy: no_shard}", "1", 8, 4 },
        { "model={fsdp: false, shard_degree: 4}", "1", 8, 1 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char tensor[80];
        struct recipe_case c;

        snprintf(tensor, sizeof tensor, "model.tensor_model_parallel_degree=%s", cases[i].tensor);
        case_read(&c, SMALL, (const char *const[]){ cases[i].override, tensor, NULL }, -1);
        assert_int_equal(recipe_shard_degree(&c.recipe, cases[i].ranks), cases[i].degree);
        case_release(&c);
    }
}

static void sizes_must_fit_each_other(void **state)
{
    (void)state;
    EXPECT_FOUND("error: model.hidden_size 64 is not a multiple of model.num_attention_heads 6",
                 SMALL, 1, "model.num_attention_heads=6");
    EXPECT_NOT_FOUND("is not a multiple of model.num_attention_heads", SMALL, 1,
                     "model.num_attention_heads=6", "model.head_dim=24");
    EXPECT_FOUND("error: the width of a head is 7; rotary angles need an even one", SMALL, 1,
                 "model.head_dim=7");
    EXPECT_FOUND(
        "error: model.num_attention_heads 4 is not a multiple of model.num_key_value_heads 3",
        SMALL, 1, "model.num_key_value_heads=3");
    EXPECT_FOUND("model.num_attention_heads 32 is not a multiple of model.num_key_value_heads 3",
                 SMALL, 1, "~model.num_attention_heads", "model.num_key_value_heads=3");
    EXPECT_FOUND("model.tensor_model_parallel_degree 4 is more than model.num_key_value_heads 2, "
                 "which is not built yet; "
                 "use at most 2",
                 SMALL, 4, "model.tensor_model_parallel_degree=4");
    EXPECT_FOUND(
        "model.intermediate_size 127 is not a multiple of model.tensor_model_parallel_degree 2",
        SMALL, 2, "model.tensor_model_parallel_degree=2", "model.intermediate_size=127");
    EXPECT_NOT_FOUND("error:", SMALL, 2, "model.tensor_model_parallel_degree=2");
    EXPECT_FOUND("0 < low < high", SMALL, 1,
                 "model.rope_scaling={rope_type: llama3, low_freq_factor: 4}");
    EXPECT_FOUND("model.rope_theta is 0; allowed: a number above 0", SMALL, 1,
                 "model.rope_theta=0");
}

static void odd_sizes_are_warned_of(void **state)
{
    (void)state;
    EXPECT_FOUND("override 1: warning: model.max_context_width 63 is not a power of two", SMALL, 1,
                 "model.max_context_width=63");
    EXPECT_FOUND("warning: model.hidden_size 96 is not a power of two", SMALL, 1,
                 "model.hidden_size=96");
    EXPECT_FOUND("warning: model.num_attention_heads 12 is not", SMALL, 1,
                 "model.num_attention_heads=12");
    EXPECT_FOUND("warning: model.num_key_value_heads 3 is not", SMALL, 1,
                 "model.num_key_value_heads=3");
    EXPECT_NOT_FOUND("power of two", SMALL, 1, "model.intermediate_size=100");
}

static void weights_come_from_somewhere(void **state)
{
    (void)state;
    EXPECT_FOUND("model.do_finetune is true (its default), but model.hf_model_name_or_path is null",
                 SMALL, 1, "~model.do_finetune");
    EXPECT_FOUND(
        "override 1: error: model.do_finetune is true, but model.hf_model_name_or_path is null",
        SMALL, 1, "model.do_finetune=true");
    EXPECT_NOT_FOUND("do_finetune", SMALL, 1, "model.do_finetune=true",
                     "model.hf_model_name_or_path=./smol");
    EXPECT_FOUND("note: model.rope_theta is left out: the model directory's value is kept", SMALL,
                 1, "model.do_finetune=true", "model.hf_model_name_or_path=./smol");
    EXPECT_FOUND("model.model_type and model.hf_model_name_or_path are both null", SMALL, 1,
                 "model.model_type=null");
    EXPECT_FOUND("model.model_type deepseek_r1_llama_v3 needs model.hf_model_name_or_path", SMALL,
                 1, "model.model_type=deepseek_r1_llama_v3");
    EXPECT_FOUND("model.multi_modal is true; allowed with model_type llama_v3 and llama_v4 only, "
                 "found mistral",
                 SMALL, 1, "model.model_type=mistral", "model.multi_modal=true");
}

static void data_come_from_somewhere(void **state)
{
    (void)state;
    EXPECT_FOUND("error: model.data.train_dir names no folder", SMALL, 1,
                 "model.data.train_dir=null");
    EXPECT_FOUND("error: model.data.train_dir names no folder", SMALL, 1,
                 "model.data.train_dir=''");
    EXPECT_NOT_FOUND("train_dir", SMALL, 1,
                     "model.data={train_dir: null, use_synthetic_data: true}");
    EXPECT_NOT_FOUND("train_dir", SMALL, 1, "~model.data");
    EXPECT_NOT_FOUND("names no folder", SMALL, 1,
                     "model.data.train_dir=3"); /* its kind was refused already */
    EXPECT_FOUND("model.multi_modal and synthetic data exclude each other", SMALL, 1, "~model.data",
                 "model.multi_modal=true");
    EXPECT_FOUND("warning: trainer.limit_val_batches asks for validation, but model.data.val_dir "
                 "names no folder",
                 SMALL, 1, "trainer.limit_val_batches=2");
}

static void the_schedule_must_fall(void **state)
{
    (void)state;
    EXPECT_FOUND("model.optim.sched.min_lr 2e-05 is more than model.optim.lr 1e-05", SMALL, 1,
                 "model.optim.lr=1e-5");
    EXPECT_NOT_FOUND("min_lr", SMALL, 1, "model.optim.lr=1e-5",
                     "model.optim.sched.warmup_steps=19");
    EXPECT_FOUND("is not above model.optim.sched.min_lr 2e-05, which constant_steps needs", SMALL,
                 1, "model.optim.lr=2e-5", "model.optim.sched.constant_steps=1");
    EXPECT_FOUND("note: the whole run is warm-up", SMALL, 1, "model.optim.sched.warmup_steps=20");
    EXPECT_FOUND("model.optim.betas has 1 numbers; allowed: 2", SMALL, 1,
                 "model.optim.betas=[0.9]");
    EXPECT_FOUND("model.optim.betas holds 1; allowed: 0 or more, below 1", SMALL, 1,
                 "model.optim.betas=[0.9, 1.0]");
}

static void checkpoints_exclude_each_other(void **state)
{
    (void)state;
    EXPECT_FOUND("exp_manager.auto_checkpoint and sharded checkpoints exclude each other", SMALL, 1,
                 "exp_manager.auto_checkpoint.enabled=true");
    EXPECT_NOT_FOUND("exclude each other", SMALL, 1, "exp_manager.auto_checkpoint.enabled=true",
                     "exp_manager.checkpoint_callback_params={save_top_k: 0, save_last: false}");
    EXPECT_FOUND("exp_manager.auto_checkpoint.warmup_steps 3 is less than drop_n_warmup_steps 4",
                 SMALL, 1, "exp_manager.auto_checkpoint={warmup_steps: 3, drop_n_warmup_steps: 4}");
}

static void degrees_need_the_parallel_library(void **state)
{
    (void)state;
    EXPECT_FOUND("model.tensor_model_parallel_degree 2 needs use_smp_model: true", SMALL, 2,
                 "use_smp_model=false", "model.tensor_model_parallel_degree=2");
    EXPECT_FOUND("model.expert_model_parallel_degree 2 needs use_smp_model: true", SMALL, 2,
                 "use_smp_model=false", "model.expert_model_parallel_degree=2");
    EXPECT_FOUND("model.fsdp: false needs use_smp_model: true", SMALL, 1, "use_smp_model=false",
                 "model.fsdp=false");
}

static void what_is_not_built_is_refused_with_a_way_out(void **state)
{
    static const struct {
        const char *override, *part;
    } cases[] = {
        { "trainer.precision=16",
          "error: trainer.precision: this is not built yet; use trainer.precision=32" },
        { "model.fp8=true", "error: model.fp8: this is not built yet; use model.fp8=false" },
        { "model.moe=true", "error: model.moe: this is not built yet" },
        { "model.multi_modal=true", "error: model.multi_modal: this is not built yet" },
        { "model.offload_activations=true",
          "error: model.offload_activations: this is not built yet" },
        { "model.context_parallel_degree=2",
          "error: model.context_parallel_degree: this is not built yet" },
        { "model.expert_model_parallel_degree=2",
          "error: model.expert_model_parallel_degree: this is not built yet" },
        { "model.peft.peft_type=lora", "error: model.peft.peft_type: this is not built yet" },
        { "model.dpo.enabled=true", "error: model.dpo.enabled: this is not built yet" },
        { "exp_manager.auto_checkpoint.enabled=true",
          "error: exp_manager.auto_checkpoint.enabled: this is not built" },
        { "model.model_type=mistral",
          "error: model.model_type 'mistral' is not built yet; built: llama_v3" },
        { "exp_manager.create_wandb_logger=true",
          "warning: exp_manager.create_wandb_logger: this is not built yet" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_FOUND(cases[i].part, SMALL, 8, cases[i].override);
    }
    EXPECT_NOT_FOUND("not built", SMALL, 8, "model.peft={rank: 8, peft_type: null}",
                     "model.dpo.enabled=false");
    EXPECT_NOT_FOUND("error: ", SMALL, 1, "model.fp8=true", "use_smp_model=false");
}

static void the_options_of_event_files_are_checked(void **state)
{
    static const char *const on = "exp_manager.create_tensorboard_logger=true";

    (void)state;
    EXPECT_NOT_FOUND("exp_manager.", SMALL, 1, on);
    EXPECT_NOT_FOUND("exp_manager.", SMALL, 1, on,
                     "exp_manager.summary_writer_kwargs={save_dir: /tb}");
    EXPECT_NOT_FOUND("exp_manager.", SMALL, 1, on,
                     "exp_manager.summary_writer_kwargs={save_dir: null}");
    EXPECT_FOUND("error: exp_manager.summary_writer_kwargs.log_dir is not allowed: the folder "
                 "follows from the experiment; use save_dir",
                 SMALL, 1, on, "exp_manager.summary_writer_kwargs={log_dir: /tb}");
    EXPECT_FOUND("error: exp_manager.summary_writer_kwargs.save_dir is the integer 3; allowed: the "
                 "name of a folder, or null",
                 SMALL, 1, on, "exp_manager.summary_writer_kwargs={save_dir: 3}");
    EXPECT_FOUND("error: exp_manager.summary_writer_kwargs.save_dir is empty", SMALL, 1, on,
                 "exp_manager.summary_writer_kwargs={save_dir: ''}");
    EXPECT_FOUND("note: exp_manager.summary_writer_kwargs.name does nothing: exp_manager.name is "
                 "used",
                 SMALL, 1, on, "exp_manager.summary_writer_kwargs={name: x}");
    EXPECT_FOUND("warning: exp_manager.summary_writer_kwargs.flush_secs does nothing; known here: "
                 "save_dir",
                 SMALL, 1, on, "exp_manager.summary_writer_kwargs={flush_secs: 9}");
    EXPECT_FOUND("warning: exp_manager.summary_writer_kwargs.7 does nothing", SMALL, 1, on,
                 "exp_manager.summary_writer_kwargs={7: 9}");
    EXPECT_NOT_FOUND("summary_writer_kwargs", SMALL, 1,
                     "exp_manager.summary_writer_kwargs={log_dir: /tb, x: 1}");
}

static void the_machine_is_compared(void **state)
{
    (void)state;
    EXPECT_FOUND("warning: the recipe is for 16 ranks (trainer.num_nodes 2 x trainer.devices 8), "
                 "this job has 4",
                 SMALL, 4, "trainer.devices=8", "trainer.num_nodes=2");
    EXPECT_FOUND("note: trainer.accelerator gpu: GPUs are not built yet", SMALL, 1,
                 "trainer.accelerator=gpu");
    EXPECT_FOUND("note: distributed_backend nccl: on the CPU ranks talk through MPI", SMALL, 1,
                 "distributed_backend=nccl");
    EXPECT_FOUND("warning: model.activation_loading_horizon 2 means nothing with "
                 "activation_checkpointing: false",
                 SMALL, 1, "model.activation_checkpointing=false",
                 "model.activation_loading_horizon=2");
    EXPECT_NOT_FOUND("means nothing", SMALL, 1, "model.activation_checkpointing=false",
                     "model.activation_loading_horizon=1");
    EXPECT_NOT_FOUND("means nothing", SMALL, 1, "model.activation_checkpointing=false");
}

static void addresses_are_refused(void **state)
{
    (void)state;
    EXPECT_FOUND("exp_manager.checkpoint_dir: s3://b/c: storage by s3 addresses is not built yet",
                 SMALL, 1, "exp_manager.checkpoint_dir=s3://b/c");
    EXPECT_FOUND("model.data.train_dir: s3://x/y: storage by s3 addresses is not built yet", SMALL,
                 1, "model.data.train_dir=[a,s3://x/y]");
}

static void time_limits_have_many_forms(void **state)
{
    static const struct {
        const char *text;
        int64_t seconds;
    } cases[] = {
        { "6-00:00:00", 518400 },
        { "0-01:30:00", 5400 },
        { "1-2", 93600 },
        { "1-2:03", 93780 },
        { "01:02:03", 3723 },
        { "90", 5400 },
        { "1:30", 90 },
        { "x", -1 },
        { "", -1 },
        { "1:2:3:4", -1 },
        { "1-", -1 },
        { "-1", -1 },
        { "1:", -1 },
        { "1 ", -1 },
        { "9999999999", -1 },
        { "1-1-1", -1 },
    };
    struct recipe r = { 0 };

    (void)state;
    assert_int_equal(recipe_time_limit(&r), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        r.run.time_limit = cases[i].text;
        if (recipe_time_limit(&r) != cases[i].seconds) {
            print_error("%s\n", cases[i].text);
        }
        assert_int_equal(recipe_time_limit(&r), cases[i].seconds);
    }
    EXPECT_FOUND(
        "error: run.time_limit is 'soon'; allowed: D-HH:MM:SS, HH:MM:SS or minutes, in quotes",
        SMALL, 1, "run.time_limit=soon");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(degrees_must_divide_the_ranks),
        cmocka_unit_test(shard_degree_follows_the_strategy),
        cmocka_unit_test(sizes_must_fit_each_other),
        cmocka_unit_test(odd_sizes_are_warned_of),
        cmocka_unit_test(weights_come_from_somewhere),
        cmocka_unit_test(data_come_from_somewhere),
        cmocka_unit_test(the_schedule_must_fall),
        cmocka_unit_test(checkpoints_exclude_each_other),
        cmocka_unit_test(degrees_need_the_parallel_library),
        cmocka_unit_test(what_is_not_built_is_refused_with_a_way_out),
        cmocka_unit_test(the_options_of_event_files_are_checked),
        cmocka_unit_test(the_machine_is_compared),
        cmocka_unit_test(addresses_are_refused),
        cmocka_unit_test(time_limits_have_many_forms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
