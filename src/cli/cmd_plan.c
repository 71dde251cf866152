/* roux plan: what one rank of the job will hold and compute. */
#include <unistd.h>
#include "base/file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/plan_estimate.h"
#include "model/family.h"
#include "program/device.h"
#include "train/train.h"

static const struct option options[] = {
    { "ranks", 0, OPTION_INT, "N",
      "plan for N ranks; else trainer.num_nodes x trainer.devices, or 1", 1, 65536, false },
    { "rank", 0, OPTION_INT, "R", "the rank to plan, from 0 (default 0)", 0, 65535, false },
    { "program", 0, OPTION_FLAG, NULL, "print the programs that the rank will run", 0, 0, false },
    { "json", 0, OPTION_FLAG, NULL, "the plan as one JSON object", 0, 0, false },
    { 0 },
};

static const struct example examples[] = {
    { "plan recipe.yaml", "memory by kind, work and time of a step, and whether it fits here" },
    { "plan recipe.yaml --ranks 512 --rank 37 model.shard_degree=8",
      "the very plan of rank 37 of 512" },
    { "plan recipe.yaml --program", "every node of the programs, with shapes and places" },
    { 0 },
};

struct planning {
    const char *path;
    struct train_spec spec;
    int ranks, rank, ranks_here; /* ranks that share this machine's memory */
    struct train_plan_report report;
    int64_t left; /* bytes of memory that are free here; -1: not known */
    /* an override with which it fits; NULL: none was found, or none is needed */
    const char *change;
    struct plan_estimate estimate;
};

static bool fits(const struct planning *p, const struct train_plan_report *r)
{
    return p->left < 0 || r->total <= p->left / p->ranks_here;
}

/* The nearest change that fits: first recomputation, then smaller micro-batches. */
static status find_change(struct planning *p, struct arena *a)
{
    struct train_spec spec = p->spec;
    struct train_plan_report r;

    if (!spec.recompute) {
        spec.recompute = true;
        TRY(train_plan(&spec, p->rank, &r, NULL));
        if (fits(p, &r)) {
            p->change = "model.activation_checkpointing=true";
            return OK;
        }
    }
    while (spec.B > 1) {
        spec.B /= 2;
        TRY(train_plan(&spec, p->rank, &r, NULL));
        if (fits(p, &r)) {
            p->change = arena_format(
                a, "%smodel.train_batch_size=%lld",
                spec.recompute == p->spec.recompute ? "" : "model.activation_checkpointing=true ",
                (long long)spec.B);
            return OK;
        }
    }
    return OK;
}

/* ---- text ---- */

/* "1.25 GFLOP" */
static char *work_text(char out[32], double flops)
{
    static const char *const units[] = { "", "k", "M", "G", "T", "P", "E" };
    size_t unit = 0;

    while (flops >= 1000 && unit + 1 < sizeof units / sizeof units[0]) {
        flops /= 1000;
        unit++;
    }
    snprintf(out, 32, "%.4g %sFLOP", flops, units[unit]);
    return out;
}

static void print_bytes(const char *what, int64_t bytes, const char *behind)
{
    char text[32];

    printf("  %-18s %12s%s\n", what, text_bytes(text, (uint64_t)bytes), behind);
}

static void print_messages(const struct planning *p)
{
    static const struct {
        enum axis axis;
        const char *what;
    } rows[] = { { AXIS_TP, "sent over tensor" },
                 { AXIS_DS, "sent over shards" },
                 { AXIS_REPLICA, "sent over replicas" } };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (p->spec.size[rows[i].axis] > 1) {
            print_bytes(rows[i].what, p->report.wire[rows[i].axis], " by this rank");
        }
    }
}

static void print_fit(const struct planning *p)
{
    const char *ranks = p->ranks_here == 1 ? "rank here needs" : "ranks here need";
    char want[32], have[32];

    if (p->left < 0) {
        printf("this machine does not say how much memory is free\n");
        return;
    }
    text_bytes(want, (uint64_t)p->report.total * (uint64_t)p->ranks_here);
    text_bytes(have, (uint64_t)p->left);
    if (fits(p, &p->report)) {
        printf("fits: %d %s %s, %s are free\n", p->ranks_here, ranks, want, have);
        printf("next: roux train %s\n", p->path);
        return;
    }
    printf("does not fit: %d %s %s, only %s are free\n", p->ranks_here, ranks, want, have);
    if (p->change != NULL) {
        printf("it fits with %s\n", p->change);
    } else {
        printf("more ranks, a smaller model.max_context_width or a smaller model need less\n");
    }
}

static void print_text(const struct planning *p)
{
    const struct train_plan_report *r = &p->report;
    const int *size = p->spec.size;
    char count[32], work[32], micro[32], unshared[64];

    printf("%s, %s parameters, precision %s\n", p->spec.model.family->name,
           text_count(count, r->parameters), precision_name(p->spec.real));
    printf("rank %d of %d: tensor %d x shard %d x replica %d\n", p->rank, p->ranks, size[AXIS_TP],
           size[AXIS_DS], size[AXIS_REPLICA]);
    printf("\nmemory of this rank\n");
    print_bytes("weights", r->weights, "");
    print_bytes("gradients", r->gradients, "");
    print_bytes("optimizer", r->optimizer, "");
    print_bytes("inputs", r->inputs, "");
    snprintf(unshared, sizeof unshared, " (%s if no bytes were shared)",
             text_bytes(count, (uint64_t)r->temporaries_unshared));
    print_bytes("temporaries", r->temporaries, unshared);
    print_bytes("total", r->total, "");
    plan_checkpointing_print(&p->estimate, r);
    printf("\na step\n  %-18s %12s on all ranks\n", "tokens", text_count(count, r->tokens_step));
    printf("  %-18s %12s by this rank (%s a micro-batch)\n", "computation",
           work_text(work, (double)r->flops_step), work_text(micro, (double)r->flops_micro_batch));
    print_messages(p);
    printf("  %-18s %12d nodes, %d values\n", "program", r->nodes, r->values);
    plan_estimate_print(&p->estimate, &p->spec, r);
    printf("\na checkpoint\n");
    print_bytes("all ranks", r->checkpoint_bytes, "");
    putchar('\n');
    print_fit(p);
}

static void print_json(const struct planning *p)
{
    const struct train_plan_report *r = &p->report;
    json_t *memory = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "weights", (json_int_t)r->weights, "gradients",
        (json_int_t)r->gradients, "optimizer", (json_int_t)r->optimizer, "inputs",
        (json_int_t)r->inputs, "temporaries", (json_int_t)r->temporaries, "temporaries_unshared",
        (json_int_t)r->temporaries_unshared, "total", (json_int_t)r->total);
    json_t *wire =
        json_pack("{s:I, s:I, s:I}", "tensor", (json_int_t)r->wire[AXIS_TP], "shard",
                  (json_int_t)r->wire[AXIS_DS], "replica", (json_int_t)r->wire[AXIS_REPLICA]);

    cli_print_json(json_pack(
        "{s:s, s:I, s:i, s:i, s:{s:i, s:i, s:i}, s:o, s:o, s:I, s:I, s:I, s:I, s:i, s:i, s:I, s:i, "
        "s:b, s:s?, s:o, s:o}",
        "family", p->spec.model.family->name, "parameters", (json_int_t)r->parameters, "ranks",
        p->ranks, "rank", p->rank, "degrees", "tensor", p->spec.size[AXIS_TP], "shard",
        p->spec.size[AXIS_DS], "replica", p->spec.size[AXIS_REPLICA], "memory_bytes", memory,
        "sent_bytes_step", wire, "flops_micro_batch", (json_int_t)r->flops_micro_batch,
        "flops_step", (json_int_t)r->flops_step, "tokens_step", (json_int_t)r->tokens_step,
        "checkpoint_bytes", (json_int_t)r->checkpoint_bytes, "nodes", r->nodes, "values", r->values,
        "memory_free", (json_int_t)p->left, "ranks_here", p->ranks_here, "fits", fits(p, r),
        "fits_with", p->change, "time", plan_estimate_json(&p->estimate, &p->spec, r),
        "other_checkpointing", plan_checkpointing_json(&p->estimate)));
}

/* ---- the command ---- */

/* Ranks that share a machine's memory: all of a job that this machine has the cores for, else what
 * the recipe puts on a node. */
static int ranks_of_a_node(const struct recipe *r, int ranks)
{
    int64_t nodes = r->trainer.num_nodes, devices = r->trainer.devices;

    if (nodes == 1 && (devices == 0 || ranks <= sysconf(_SC_NPROCESSORS_ONLN))) {
        return ranks;
    }
    if (devices == 0) {
        devices = (ranks + nodes - 1) / nodes;
    }
    return devices < ranks ? (int)devices : ranks;
}

static status make_plan(struct planning *p, const struct args *args, struct arena *a, bool *said)
{
    struct recipe_words w;
    status s = recipe_words_read(&w, a, args, 0);
    bool json = args_has(args, "json");

    if (s != OK) {
        findings_print(&w.found, json ? stderr : stdout);
        *said = s == ERR_RECIPE;
        return s;
    }
    p->ranks = w.ranks > 0 ? w.ranks : 1;
    p->rank = (int)args_int(args, "rank", 0);
    if (p->rank >= p->ranks) {
        return fail(ERR_RECIPE,
                    "plan: --rank is %d, but the job has the ranks 0 to %d; give --ranks", p->rank,
                    p->ranks - 1);
    }
    p->ranks_here = ranks_of_a_node(&w.recipe, p->ranks);
    TRY(train_spec_make(&p->spec, a, &w.recipe, p->ranks));
    TRY(train_plan(&p->spec, p->rank, &p->report,
                   args_has(args, "program") && !json ? stdout : NULL));
    TRY(plan_estimate_make(&p->estimate, a, &p->spec, p->rank, p->ranks_here));
    p->left = device_memory_left();
    return fits(p, &p->report) ? OK : find_change(p, a);
}

static int run(const struct args *args)
{
    struct planning p = { .path = args->words[0] };
    struct arena a = { 0 };
    bool said = false;
    status s = make_plan(&p, args, &a, &said);
    int code = s == OK ? 0 : said ? status_exit_code(s) : cli_fail(s);

    if (s == OK) {
        if (args_has(args, "json")) {
            print_json(&p);
        } else {
            print_text(&p);
        }
        code = fits(&p, &p.report) ? 0 : status_exit_code(ERR_MEMORY);
    }
    arena_release(&a);
    return code;
}

const struct command command_plan = {
    .name = "plan",
    .words = "RECIPE [KEY=VALUE]...",
    .summary = "memory, work and time of a rank, before anything runs",
    .about =
        "Builds the very programs that a rank of the job will run and prints what they hold, "
        "compute and send; then whether the "
        "ranks of one node fit into the memory that is free on this machine (exit code 3 if "
        "not), and the nearest change "
        "with which they do. After `roux bench --calibrate` it also estimates the time of a step "
        "on this machine.",
    .options = options,
    .examples = examples,
    .least = 1,
    .most = -1,
    .run = run,
};
