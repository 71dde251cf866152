/* roux probe: logits, loss and gradients on a given batch. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "infer/infer.h"
#include "tensor/kernels.h"

static const struct option options[] = {
    { "model", 0, OPTION_TEXT, "DIR", "a Hugging Face model folder", 0, 0, true },
    { "batch", 0, OPTION_TEXT, "FILE",
      "safetensors with input_ids and labels, both [sequences, positions]", 0, 0, true },
    { "out", 0, OPTION_TEXT, "FILE", "where logits, loss and grad.* go, as safetensors", 0, 0,
      false },
    { "precision", 0, OPTION_CHOICE, "32|64|bf16",
      "number type of the computation and the result (default 32)", 0, 0, false },
    { "recompute", 0, OPTION_FLAG, NULL,
      "repeat layers in the backward pass instead of keeping them", 0, 0, false },
    { "test-finite", 0, OPTION_FLAG, NULL, "name the first value with a NaN or an infinity", 0, 0,
      false },
    { "until", 0, OPTION_TEXT, "NODE",
      "stop after this node, by index or name of its first output; without --out", 0, 0, false },
    { "dump", 0, OPTION_TEXT, "VALUE[=FILE]",
      "show what a value of the program holds; with FILE its bytes too, as safetensors", 0, 0,
      false },
    { "compare", 0, OPTION_TEXT, "FAMILY[/PRECISION]",
      "run node by node against this kernel family; without --out", 0, 0, false },
    { "tolerance", 0, OPTION_NUMBER, "T",
      "of --compare, over a value's largest entry (default 1e-4; 64: 1e-12, bf16: 0.02)", 1e-300,
      1e300, false },
    { "time-ops", 0, OPTION_FLAG, NULL, "time by op, on standard error", 0, 0, false },
    { "trace", 0, OPTION_TEXT, "FILE", "what each thread did when, in the form of Chrome's trace",
      0, 0, false },
    { "threads", 0, OPTION_INT, "N", "threads of this rank (default: all cores)", 1, 4096, false },
    { "tensor", 0, OPTION_INT, "T", "under mpirun: ranks that share each matrix", 1, 4096, false },
    { "shard", 0, OPTION_INT, "S",
      "under mpirun: ranks that share the weights; the rest are replicas", 1, 65536, false },
    { "json", 0, OPTION_FLAG, NULL, "the report as JSON", 0, 0, false },
    { "quiet", 'q', OPTION_FLAG, NULL, "no report", 0, 0, false },
    { 0 },
};

static const struct example examples[] = {
    { "probe --model smol --batch batch.safetensors --out result.safetensors",
      "what training would compute in its first step" },
    { "probe --model smol --batch batch.safetensors --out result.safetensors --precision 64",
      "the same in double" },
    { "probe --model smol --batch batch.safetensors --out result.safetensors --test-finite",
      "where a NaN begins" },
    { "probe --model smol --batch batch.safetensors --until 12 --dump layers.0.qkv",
      "the first thirteen nodes, and what one value then holds" },
    { "probe --model smol --batch batch.safetensors --compare scalar",
      "each node of this processor's kernels against the plain ones" },
    { 0 },
};

static void print_text(const struct probe_options *o, const struct probe_report *r)
{
    char parameters[32], targets[32];

    printf("model      %s, %s parameters; precision %s, kernels %s, %d thread%s\n", r->family,
           text_count(parameters, r->parameters), precision_name(o->real), r->kernels, r->threads,
           r->threads == 1 ? "" : "s");
    if (o->compare != NULL) {
        return;
    }
    if (r->until >= 0) {
        printf("batch      %lld x %lld tokens\nstopped    after node %d\n", (long long)r->B,
               (long long)r->S, r->until);
        return;
    }
    printf("batch      %lld x %lld tokens, %s scored\n", (long long)r->B, (long long)r->S,
           text_count(targets, r->targets));
    printf("loss       %.9g nats a token", r->loss);
    if (r->loss < 100) {
        printf(" (perplexity %.6g)", exp(r->loss));
    }
    putchar('\n');
    if (o->out != NULL) {
        printf("wrote      %s: %sloss, %d gradients\n", o->out, r->logits ? "logits, " : "",
               r->gradients);
    }
    if (o->out != NULL && !r->logits) {
        printf("           logits are written by one rank alone only\n");
    }
    if (r->ignored > 0) {
        printf("note       %d tensor%s of the model's files %s not used\n", r->ignored,
               r->ignored == 1 ? "" : "s", r->ignored == 1 ? "is" : "are");
    }
}

static void print_json(const struct probe_options *o, const struct probe_report *r)
{
    bool whole = o->compare == NULL && r->until < 0; /* learn came to its end */
    json_t *loss = whole && isfinite(r->loss) ? json_real(r->loss) : json_null();

    cli_print_json(json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:o, s:i, s:b, s:s?, s:o}", "family", r->family, "parameters",
        (json_int_t)r->parameters, "sequences", (json_int_t)r->B, "positions", (json_int_t)r->S,
        "targets", (json_int_t)r->targets, "loss", loss, "gradients", r->gradients, "logits",
        r->logits, "out", o->out, "until", r->until < 0 ? json_null() : json_integer(r->until)));
}

static status probe(const struct args *args, const struct probe_options *o, struct comm *world,
                    struct arena *a)
{
    struct probe_report r;

    if (o->out == NULL && o->until == NULL && o->dump == NULL && o->compare == NULL &&
        o->time_ops == NULL && o->trace == NULL && !o->test_finite) {
        return fail(ERR_RECIPE, "probe: --out FILE is missing (or something to look at: --dump, "
                                "--until, --compare, --time-ops, --trace, --test-finite)");
    }
    TRY(probe_run(o, world, a, &r));
    if (world->rank != 0) {
        return OK;
    }
    if (args_has(args, "json")) {
        print_json(o, &r);
    } else if (!args_has(args, "quiet")) {
        print_text(o, &r);
    }
    if (!isfinite(r.loss)) {
        log_warning("the loss is not finite; --test-finite names the value where that begins");
    }
    return OK;
}

static int run(const struct args *args)
{
    struct probe_options o = {
        .model = args_text(args, "model", NULL),
        .batch = args_text(args, "batch", NULL),
        .out = args_text(args, "out", NULL),
        .real = precision_find(args_text(args, "precision", "32")),
        .threads = (int)args_int(args, "threads", 0),
        .tensor = (int)args_int(args, "tensor", 1),
        .shard = (int)args_int(args, "shard", 1),
        .recompute = args_has(args, "recompute"),
        .test_finite = args_has(args, "test-finite"),
        /* JSON on standard output stands there alone. */
        .to = args_has(args, "json") ? stderr : stdout,
        .until = args_text(args, "until", NULL),
        .dump = args_text(args, "dump", NULL),
        .compare = args_text(args, "compare", NULL),
        .tolerance = args_number(args, "tolerance", 0),
        .time_ops = args_has(args, "time-ops") ? stderr : NULL,
        .trace = args_text(args, "trace", NULL),
    };
    struct arena a = { 0 };
    struct comm world = { 0 };
    status s = comm_world(&world);
    int code = 0;

    if (s == OK) {
        log_set_rank(world.rank, world.size);
        s = probe(args, &o, &world, &a);
    }
    if (s != OK) {
        code = world.rank == 0 || s == ERR_PEER ? cli_fail(s) : status_exit_code(s);
    }
    comm_close(&world);
    arena_release(&a);
    return code;
}

const struct command command_probe = {
    .name = "probe",
    .words = "",
    .summary = "logits, loss and all gradients of a model on a batch",
    .about =
        "Runs one forward and backward pass and writes logits [B, S, V], loss [1] (the mean over "
        "scored tokens) and its gradient "
        "by every weight, under the weight's Hugging Face name with grad. before it. The batch may "
        "also hold document_ids or "
        "position_ids, for rows of several documents. Labels are not shifted; -100 is not scored.",
    .options = options,
    .examples = examples,
    .least = 0,
    .most = 0,
    .run = run,
};
