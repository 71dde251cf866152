#include <string.h>
#include "recipe/rules.h"

enum { NODE_OF_REFERENCE = 8 }; /* ranks: the hybrid strategies' group where nothing else is said */

static int64_t largest_divisor(int64_t of, int64_t at_most)
{
    int64_t d = at_most < of ? at_most : of;

    while (d > 1 && of % d != 0) {
        d--;
    }
    return d < 1 ? 1 : d;
}

int64_t recipe_shard_degree(const struct recipe *r, int ranks)
{
    int64_t split = r->model.tensor_model_parallel_degree * r->model.expert_model_parallel_degree;
    int64_t left = ranks > 0 && ranks % split == 0 ? ranks / split : 1;
    const char *strategy = r->model.sharding_strategy;

    if (!r->model.fsdp) {
        return 1;
    }
    if (r->model.shard_degree != 0) {
        return r->model.shard_degree;
    }
    if (strcmp(strategy, "no_shard") == 0) {
        return 1;
    }
    if (strcmp(strategy, "full_shard") == 0 || strcmp(strategy, "shard_grad_op") == 0 ||
        r->model.tensor_model_parallel_degree > 1) {
        return left;
    }
    return largest_divisor(left, NODE_OF_REFERENCE);
}

static void check_product(const struct checking *c)
{
    const struct recipe *r = c->r;
    int64_t T = r->model.tensor_model_parallel_degree, E = r->model.expert_model_parallel_degree;
    int64_t S = r->model.shard_degree != 0 && r->model.fsdp ? r->model.shard_degree : 1;
    const char *key = S > 1   ? "model.shard_degree"
                      : T > 1 ? "model.tensor_model_parallel_degree"
                              : "model.expert_model_parallel_degree";

    if (c->ranks <= 0 || c->ranks % (S * T * E) == 0) {
        return;
    }
    if (S > 1 && c->ranks % (T * E) == 0) {
        rule_say(c, FINDING_ERROR, key,
                 "shard degree %lld x tensor degree %lld x expert degree %lld = %lld does not "
                 "divide the %d rank%s of this "
                 "job; start a multiple of %lld ranks, or set model.shard_degree=%lld",
                 (long long)S, (long long)T, (long long)E, (long long)(S * T * E), c->ranks,
                 c->ranks == 1 ? "" : "s", (long long)(S * T * E),
                 (long long)largest_divisor(c->ranks / (T * E), S));
    } else {
        rule_say(c, FINDING_ERROR, key,
                 "shard degree %lld x tensor degree %lld x expert degree %lld = %lld does not "
                 "divide the %d rank%s of this "
                 "job; start a multiple of %lld ranks, or lower the degrees",
                 (long long)S, (long long)T, (long long)E, (long long)(S * T * E), c->ranks,
                 c->ranks == 1 ? "" : "s", (long long)(S * T * E));
    }
}

static void check_context(const struct checking *c)
{
    const struct recipe *r = c->r;
    int64_t C = r->model.context_parallel_degree;
    int64_t S = c->ranks > 0 || r->model.shard_degree != 0 ? recipe_shard_degree(r, c->ranks) : C;

    if (C <= 1) {
        return;
    }
    if (C > S) {
        rule_say(c, FINDING_ERROR, "model.context_parallel_degree",
                 "model.context_parallel_degree %lld is more than the shard degree %lld; set "
                 "model.shard_degree to %lld or a "
                 "multiple",
                 (long long)C, (long long)S, (long long)C);
    } else if (S % C != 0) {
        rule_say(c, FINDING_ERROR, "model.context_parallel_degree",
                 "the shard degree %lld is not a multiple of model.context_parallel_degree %lld",
                 (long long)S, (long long)C);
    }
    if (r->model.max_context_width % (2 * C) != 0) {
        rule_say(c, FINDING_ERROR, "model.max_context_width",
                 "model.max_context_width %lld is not a multiple of twice "
                 "model.context_parallel_degree %lld",
                 (long long)r->model.max_context_width, (long long)C);
    }
}

static void check_smp(const struct checking *c)
{
    const struct recipe *r = c->r;

    if (r->use_smp_model) {
        return;
    }
    if (r->model.tensor_model_parallel_degree > 1) {
        rule_say(c, FINDING_ERROR, "model.tensor_model_parallel_degree",
                 "model.tensor_model_parallel_degree %lld needs use_smp_model: true",
                 (long long)r->model.tensor_model_parallel_degree);
    }
    if (r->model.expert_model_parallel_degree > 1) {
        rule_say(c, FINDING_ERROR, "model.expert_model_parallel_degree",
                 "model.expert_model_parallel_degree %lld needs use_smp_model: true",
                 (long long)r->model.expert_model_parallel_degree);
    }
    if (!r->model.fsdp) {
        rule_say(c, FINDING_ERROR, "model.fsdp", "model.fsdp: false needs use_smp_model: true");
    }
}

/* What the recipe says of the machine against what is there. */
static void compare_machine(const struct checking *c)
{
    const struct recipe *r = c->r;
    int64_t wanted = r->trainer.num_nodes * r->trainer.devices;

    if (c->ranks > 0 && wanted != 0 && wanted != c->ranks) {
        rule_say(c, FINDING_WARNING, "trainer.devices",
                 "the recipe is for %lld ranks (trainer.num_nodes %lld x trainer.devices %lld), "
                 "this job has %d",
                 (long long)wanted, (long long)r->trainer.num_nodes, (long long)r->trainer.devices,
                 c->ranks);
    }
    if (recipe_given(r, "trainer.accelerator") && strcmp(r->trainer.accelerator, "gpu") == 0) {
        rule_say(c, FINDING_NOTE, "trainer.accelerator",
                 "trainer.accelerator gpu: GPUs are not built yet, the job runs on the CPU");
    }
    if (r->distributed_backend != NULL && strcmp(r->distributed_backend, "nccl") == 0) {
        rule_say(c, FINDING_NOTE, "distributed_backend",
                 "distributed_backend nccl: on the CPU ranks talk through MPI");
    }
}

void rules_of_ranks(const struct checking *c)
{
    check_smp(c);
    check_product(c);
    check_context(c);
    compare_machine(c);
}
