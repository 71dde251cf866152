/* roux train: one rank of the job, or all of them on this machine. */
#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/cli.h"
#include "comm/comm.h"
#include "train/train.h"

static const struct option options[] = {
    { "ranks", 0, OPTION_INT, "N", "start N ranks on this machine with mpirun", 1, 65536, false },
    { "quiet", 'q', OPTION_FLAG, NULL, "no progress, only warnings and errors", 0, 0, false },
    { "json", 0, OPTION_FLAG, NULL, "metrics on standard output too, one JSON object a line", 0, 0,
      false },
    { "time-ops", 0, OPTION_FLAG, NULL,
      "time by op on standard error at the end, averaged over all steps but the first", 0, 0,
      false },
    { "trace", 0, OPTION_TEXT, "FILE",
      "what each thread did when, in the form of Chrome's trace; ends when its memory is full", 0,
      0, false },
    { 0 },
};

static const struct example examples[] = {
    { "train recipe.yaml", "trains on this machine, on all its cores" },
    { "train recipe.yaml model.train_batch_size=4 trainer.max_steps=200",
      "the same with other values for two keys" },
    { "train recipe.yaml --ranks 4 model.shard_degree=4",
      "four ranks that share weights, gradients and moments" },
    { "train recipe.yaml exp_manager.resume_if_exists=true",
      "goes on from the newest checkpoint, if there is one" },
    { 0 },
};

/* Every rank reads the recipe; the first speaks of it. */
static status spec_read(struct train_spec *spec, struct arena *a, const struct args *args,
                        struct comm *world, bool *said)
{
    struct recipe_words words;
    status s = recipe_words_read(&words, a, args, world->size);
    bool quiet = args_has(args, "quiet") && s == OK;

    if (world->rank == 0 && !quiet && words.found.count > 0) {
        findings_print(&words.found, stderr);
        *said = s == ERR_RECIPE;
    }
    return s != OK ? s : train_spec_make(spec, a, &words.recipe, world->size);
}

/* What all ranks know is said by the first; what only one may know, by that one. */
static int report(status s, const struct comm *world, bool said, bool alone)
{
    bool own = alone || s == ERR_PEER || s == ERR_PLAN || s == ERR_MEMORY;

    if (s == OK || said || (world->rank != 0 && !own)) {
        return status_exit_code(s);
    }
    if (s == ERR_STOPPED) {
        log_info("%s", fail_text());
        return status_exit_code(s);
    }
    return cli_fail(s);
}

static int run_rank(const struct args *args, struct comm *world)
{
    struct arena a = { 0 };
    struct train_spec spec;
    bool said = false, alone = false;
    struct train_options o = { .quiet = args_has(args, "quiet"),
                               .json = args_has(args, "json"),
                               .time_ops = args_has(args, "time-ops") ? stderr : NULL,
                               .trace = args_text(args, "trace", NULL),
                               .alone = &alone };
    status s;
    int code;

    log_set_rank(world->rank, world->size);
    s = comm_agree(world, spec_read(&spec, &a, args, world, &said));
    if (s == OK) {
        train_catch_signals();
        s = train_run(&spec, world, &o);
    }
    code = report(s, world, said, alone);
    arena_release(&a);
    if (s == ERR_PEER || alone) {
        fflush(NULL);
        _exit(code); /* closing would wait for a rank that is gone, or that waits for this one */
    }
    return code;
}

static int run(const struct args *args)
{
    int ranks = (int)args_int(args, "ranks", 1), code;
    struct comm world = { 0 };
    status s;

    if (ranks > 1) {
        return cli_fail(ranks_start(args, ranks));
    }
    signal(SIGPIPE, SIG_IGN); /* a reader that goes away is no reason to stop training */
    s = comm_world(&world);
    if (s != OK) {
        return cli_fail(s);
    }
    code = run_rank(args, &world);
    comm_close(&world);
    return code;
}

const struct command command_train = {
    .name = "train",
    .words = "RECIPE [KEY=VALUE]...",
    .summary = "train a model from a recipe",
    .about = "Checks the recipe, sets up, resumes where the recipe says so, and trains to "
             "trainer.max_steps. Alone it is the only "
             "rank; under mpirun or srun it is one rank of the job; --ranks starts them here. "
             "SIGTERM and SIGINT stop it at the "
             "next step after saving (exit code 75): the same command goes on from there. Metrics "
             "are in metrics.jsonl of the "
             "log folder, a JSON object a step.",
    .options = options,
    .examples = examples,
    .least = 1,
    .most = -1,
    .run = run,
};
