/* roux bench: what this machine can do, how much of it a step and its ops use, and a calibration
 * for plan. */
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/threads.h"
#include "cli/bench_report.h"
#include "cli/cli.h"

static const struct option options[] = {
    { "only", 0, OPTION_CHOICE, "peaks|memory|disk|messages|ops|step", "this section alone", 0, 0,
      false },
    { "quick", 0, OPTION_FLAG, NULL, "small sizes and few repetitions: a look, not a measurement",
      0, 0, false },
    { "json", 0, OPTION_FLAG, NULL, "all of it as one JSON object", 0, 0, false },
    { "precision", 0, OPTION_CHOICE, "32|64|bf16",
      "of step, ops and calibration where no recipe says it (default 32)", 0, 0, false },
    { "folder", 0, OPTION_TEXT, "DIR", "where the disk is measured (default: here)", 0, 0, false },
    { "ranks", 0, OPTION_INT, "N", "start N ranks with mpirun and measure messages between them", 2,
      65536, false },
    { "calibrate", 0, OPTION_FLAG, NULL,
      "measure ops over a grid of sizes, and those of the recipes named, and keep it for plan", 0,
      0, false },
    { 0 },
};

static const struct example examples[] = {
    { "bench", "peaks, memory, disk, and the step of a model of 135 million parameters" },
    { "bench recipe.yaml", "the same with the step that the recipe trains" },
    { "bench recipe.yaml --only ops", "each op of the step, and its share of what it could reach" },
    { "bench --calibrate", "from now on plan estimates the time of a step on this machine" },
    { "bench --ranks 2", "messages between two ranks on this machine" },
    { 0 },
};

/* SmolLM2-135M's sizes; with --quick a thousandth of its work. */
static const struct bench_shape usual = { 576, 1536, 9, 3, 49152, 30, 512, 2 },
                                small = { 192, 512, 3, 1, 1024, 2, 128, 2 };

/* ---- what is measured ---- */

static status spec_of_recipe(struct train_spec *out, struct arena *a, const struct args *args,
                             bool *said)
{
    struct recipe_words w;
    status s = recipe_words_read(&w, a, args, 1);

    if (s != OK) {
        findings_print(&w.found, stderr);
        *said = s == ERR_RECIPE;
        return s;
    }
    return train_spec_make(out, a, &w.recipe, 1);
}

static status spec_of(struct train_spec *out, struct arena *a, const struct args *args, bool *said)
{
    if (args->word_count > 0) {
        return spec_of_recipe(out, a, args, said);
    }
    return bench_spec(out, args_has(args, "quick") ? &small : &usual,
                      precision_find(args_text(args, "precision", "32")));
}

static bool wanted(const struct args *args, const char *section)
{
    return strcmp(args_text(args, "only", section), section) == 0;
}

static status measure_model(const struct args *args, struct arena *a, struct report *r, bool *said)
{
    struct train_spec spec;
    struct bench b = { 0 };
    status s;

    TRY(spec_of(&spec, a, args, said));
    TRY_OR(close, s, bench_open(&b, &spec));
    report_model(r, &b);
    if (wanted(args, "step")) {
        TRY_OR(close, s, report_step(r, &b));
    }
    if (wanted(args, "ops")) {
        TRY_OR(close, s, report_ops(r, a, &b));
    }
close:
    bench_close(&b);
    return s;
}

static status measure(const struct args *args, struct arena *a, struct report *r, bool *said)
{
    report_machine(r);
    if (wanted(args, "peaks")) {
        report_peaks(r);
    }
    if (wanted(args, "memory")) {
        TRY(report_memory(r));
    }
    if (wanted(args, "disk")) {
        TRY(report_disk(r, args_text(args, "folder", ".")));
    }
    if (wanted(args, "step") || wanted(args, "ops")) {
        TRY(measure_model(args, a, r, said));
    }
    return OK;
}

/* ---- calibration ---- */

enum { MOST_RECIPES = 16 };

struct recipes {
    struct train_spec spec[MOST_RECIPES];
    int count;
};

static bool is_override(const char *word)
{
    return strchr(word, '=') != NULL || word[0] == '~' || word[0] == '+';
}

/* Every word that is no override is a recipe; the overrides are for all of them. */
static status read_recipes(struct recipes *out, struct arena *a, const struct args *args,
                           bool *said)
{
    struct args one = *args;

    one.words = arena_take_array(a, (size_t)args->word_count + 1, sizeof *one.words);
    one.word_count = 1;
    for (int i = 0; i < args->word_count; i++) {
        if (is_override(args->words[i])) {
            one.words[one.word_count++] = args->words[i];
        }
    }
    for (int i = 0; i < args->word_count; i++) {
        if (is_override(args->words[i])) {
            continue;
        }
        if (out->count == MOST_RECIPES) {
            return fail(ERR_RECIPE, "bench --calibrate takes at most %d recipes", MOST_RECIPES);
        }
        one.words[0] = args->words[i];
        TRY(spec_of_recipe(&out->spec[out->count], a, &one, said));
        if (out->spec[out->count].threads != out->spec[0].threads) {
            return fail(ERR_RECIPE,
                        "bench --calibrate: %s has trainer.threads=%d, the first recipe %d; "
                        "calibrate them one by one, or give trainer.threads for both",
                        one.words[0], out->spec[out->count].threads, out->spec[0].threads);
        }
        out->count++;
    }
    return OK;
}

static status calibrate_precision(const struct args *args, const char *path,
                                  const struct recipes *recipes, enum dtype real, struct report *r)
{
    const struct train_spec *specs[MOST_RECIPES];
    struct calibration c;
    struct arena a = { 0 };
    int count = 0;
    status s;

    for (int i = 0; i < recipes->count; i++) {
        if (recipes->spec[i].real == real) {
            specs[count++] = &recipes->spec[i];
        }
    }
    if (recipes->count > 0 && count == 0) {
        return OK;
    }
    TRY_OR(release, s, calibrate(&c, &a, real, specs, count, args_has(args, "quick")));
    TRY_OR(release, s, calibration_save(path, &c));
    report_calibration(r, path, &c);
release:
    arena_release(&a);
    return s;
}

/* Of the recipes' precisions; without one, of that asked for, else of the two that train. */
static status calibrate_all(const struct args *args, struct arena *a, struct report *r, bool *said)
{
    static const enum dtype all[] = { DT_F32, DT_BF16, DT_F64 };
    struct recipes *recipes = arena_take(a, sizeof *recipes);
    const char *path;

    TRY(calibration_path(a, &path));
    TRY(read_recipes(recipes, a, args, said));
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        bool asked = args_has(args, "precision")
                         ? precision_find(args_text(args, "precision", "32")) == all[i]
                         : all[i] != DT_F64;

        if (recipes->count > 0 || asked) {
            TRY(calibrate_precision(args, path, recipes, all[i], r));
        }
    }
    return OK;
}

/* ---- the command ---- */

static status measure_messages(const struct args *args, struct comm *world)
{
    struct report r;
    status s;

    report_init(&r, args_has(args, "json"), args_has(args, "quick"));
    s = report_messages(&r, world);
    if (world->rank == 0 && s == OK) {
        report_end(&r);
    }
    report_release(&r);
    return s;
}

static status run_alone(const struct args *args, bool *said)
{
    struct arena a = { 0 };
    struct report r;
    status s;

    report_init(&r, args_has(args, "json"), args_has(args, "quick"));
    if (args_has(args, "calibrate")) {
        s = calibrate_all(args, &a, &r, said);
    } else if (strcmp(args_text(args, "only", ""), "messages") == 0) {
        s = fail(ERR_RECIPE, "bench: one rank sends no messages; add --ranks 2");
    } else {
        s = measure(args, &a, &r, said);
    }
    if (s == OK) {
        report_end(&r);
    }
    report_release(&r);
    arena_release(&a);
    return s;
}

static int run(const struct args *args)
{
    struct comm world = { 0 };
    bool said = false;
    status s;
    int code;

    if (args_has(args, "ranks")) {
        return cli_fail(ranks_start(args, (int)args_int(args, "ranks", 1)));
    }
    s = comm_world(&world);
    if (s == OK) {
        s = world.size > 1 ? measure_messages(args, &world) : run_alone(args, &said);
    }
    code = s == OK ? 0 : said || world.rank > 0 ? status_exit_code(s) : cli_fail(s);
    comm_close(&world);
    return code;
}

const struct command command_bench = {
    .name = "bench",
    .words = "[RECIPE [KEY=VALUE]...]",
    .summary = "what this machine can do, and how much of it a step uses",
    .about = "Measures the floating-point peak of each kernel family, memory, disk, and the step "
             "of a recipe (without one: of SmolLM2-135M's sizes) as a whole and op by op, each "
             "against its roof. With --ranks it measures messages between ranks, and nothing "
             "else. With --calibrate it measures ops over a grid of sizes, about a minute, and "
             "keeps that in $XDG_CACHE_HOME/roux/calibration.json (else ~/.cache/roux): from "
             "then on plan estimates the time of a step on this machine. How to read all that: "
             "docs/performance.md.",
    .options = options,
    .examples = examples,
    .least = 0,
    .most = -1,
    .run = run,
};
