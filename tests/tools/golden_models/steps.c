/*
 * The optimizer steps of a case by the program itself: rows as a data folder, a recipe, `roux
 * train`, its metrics.jsonl and its export. The float run finds documents by position_ids alone,
 * the double run by document_ids.
 */
#include "tools/golden_models/golden.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/file.h"
#include "base/text.h"

static const double RATE_TOLERANCE = 1e-14;

struct run {
    struct golden *g;
    const struct golden_case *c;
    enum dtype real;
    struct arena a;
    const char *folder; /* of this run */
    const json_t *about;
    const char *about_path;
    struct tensor_file truth;
    int64_t B, S, micro_batches, batches;
};

/* ---- data and recipe ---- */

static status write_rows(struct run *r)
{
    enum packing by = r->real == DT_F64 ? PACKED_BY_DOCUMENTS : PACKED_BY_POSITIONS;
    const char *data = path_join(&r->a, r->folder, "data");
    struct text lines = { 0 };
    struct rows rows;
    status s;

    TRY_OR(release, s, folder_make(data));
    for (int64_t b = 0; b < r->batches; b++) {
        for (int64_t m = 0; m < r->micro_batches; m++) {
            TRY_OR(release, s,
                   rows_read(&rows, &r->a, &r->truth,
                             arena_format(&r->a, "batch.%lld.%lld.", (long long)b, (long long)m)));
            if (r->B != 0 && (rows.B != r->B || rows.S != r->S)) {
                s = fail(ERR_FORMAT, "%s: its micro-batches differ in shape", r->truth.path);
                goto release;
            }
            r->B = rows.B;
            r->S = rows.S;
            rows_print(&rows, by, &lines);
        }
    }
    s = file_replace(path_join(&r->a, data, "rows.json"), text_of(&lines), lines.length);
release:
    text_release(&lines);
    return s;
}

static status recipe_number(const struct run *r, struct text *t, const char *before,
                            const char *key)
{
    double x;

    TRY(json_number_at(json_object_get(r->about, "optimizer"), r->about_path, key, &x));
    text_add_format(t, "%s%.16e\n", before, x);
    return OK;
}

static status recipe_count(const struct run *r, struct text *t, const char *before, const char *key)
{
    double x;

    TRY(json_number_at(json_object_get(r->about, "optimizer"), r->about_path, key, &x));
    text_add_format(t, "%s%lld\n", before, (long long)x);
    return OK;
}

/* A path as YAML has it between single quotes. */
static void recipe_path(struct text *t, const char *before, const char *path)
{
    text_add_format(t, "%s'", before);
    for (; *path != '\0'; path++) {
        text_add(t, *path == '\'' ? "''" : (char[]){ *path, '\0' });
    }
    text_add(t, "'\n");
}

static void recipe_head(struct run *r, struct text *t, size_t steps)
{
    text_add_format(
        t,
        "distributed_backend: alone\n"
        "trainer:\n  accelerator: cpu\n  devices: 1\n  threads: 1\n  log_every_n_steps: 1\n"
        "  max_steps: %zu\n  accumulate_grad_batches: %lld\n"
        "exp_manager:\n  checkpoint_callback_params: { every_n_train_steps: 0, save_last: false "
        "}\n",
        steps, (long long)r->micro_batches);
    recipe_path(t, "  explicit_log_dir: ", path_join(&r->a, r->folder, "log"));
    text_add(t, "  export_full_model:\n    save_last: true\n");
    recipe_path(t, "    final_export_dir: ", path_join(&r->a, r->folder, "export"));
}

static status recipe_model(struct run *r, struct text *t)
{
    const json_t *betas = json_object_get(json_object_get(r->about, "optimizer"), "betas");

    text_add_format(
        t,
        "model:\n  model_type: null\n  do_finetune: true\n  fp8: false\n  train_batch_size: %lld\n"
        "  max_context_width: %lld\n  activation_checkpointing: %s\n",
        (long long)r->B, (long long)r->S, r->real == DT_F64 ? "true" : "false");
    recipe_path(t, "  hf_model_name_or_path: ", r->c->folder);
    TRY(recipe_number(r, t, "  grad_clip: ", "grad_clip"));
    TRY(recipe_count(r, t, "  lr_decay_iters: ", "horizon"));
    text_add(t, "  optim:\n    name: adamw\n");
    TRY(recipe_number(r, t, "    lr: ", "lr"));
    TRY(recipe_number(r, t, "    weight_decay: ", "weight_decay"));
    text_add_format(t, "    betas: [%.16e, %.16e]\n", json_number_value(json_array_get(betas, 0)),
                    json_number_value(json_array_get(betas, 1)));
    text_add(t, "    sched:\n      name: CosineAnnealing\n");
    TRY(recipe_count(r, t, "      warmup_steps: ", "warmup_steps"));
    TRY(recipe_count(r, t, "      constant_steps: ", "constant_steps"));
    TRY(recipe_number(r, t, "      min_lr: ", "min_lr"));
    recipe_path(t, "  data:\n    train_dir: ", path_join(&r->a, r->folder, "data"));
    return OK;
}

static status write_recipe(struct run *r)
{
    struct text t = { 0 };
    status s;

    recipe_head(r, &t, json_array_size(json_object_get(r->about, "rows")));
    s = recipe_model(r, &t);
    if (s == OK) {
        s = file_replace(path_join(&r->a, r->folder, "recipe.yaml"), text_of(&t), t.length);
    }
    text_release(&t);
    return s;
}

/* ---- the program ---- */

static const char *last_words(struct run *r, const char *path)
{
    char *bytes;
    size_t length;

    if (file_read(&r->a, path, 1 << 24, &bytes, &length) != OK) {
        return "";
    }
    return length > 1500 ? bytes + length - 1500 : bytes;
}

static status train(struct run *r)
{
    const char *output = path_join(&r->a, r->folder, "output.txt");
    char *words[] = { (char *)r->g->program, (char *)"train",
                      path_join(&r->a, r->folder, "recipe.yaml"),
                      arena_format(&r->a, "trainer.precision=%s", real_name(r->real)), NULL };
    posix_spawn_file_actions_t files;
    int error, state = 0;
    pid_t child;

    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    error = posix_spawn(&child, r->g->program, &files, NULL, words, environ);
    posix_spawn_file_actions_destroy(&files);
    if (error != 0) {
        return fail(ERR_MISSING, "%s: %s; set ROUX_PROGRAM to the program", r->g->program,
                    strerror(error));
    }
    while (waitpid(child, &state, 0) < 0) {
        if (errno != EINTR) {
            return fail(ERR_IO, "waiting for %s: %s", r->g->program, strerror(errno));
        }
    }
    if (state != 0) {
        return fail(ERR_RECIPE, "%s train ended with %s %d:\n%s", r->g->program,
                    WIFEXITED(state) ? "exit code" : "signal",
                    WIFEXITED(state) ? WEXITSTATUS(state) : WTERMSIG(state), last_words(r, output));
    }
    return OK;
}

/* ---- its log ---- */

struct step_worst {
    struct worst loss, norm, rate;
};

static status see_step(struct run *r, const char *line, const char *path, const json_t *truth,
                       struct step_worst *w)
{
    const struct tolerances *t = tolerances_of(r->real);
    const char *at;
    json_t *found = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
    double step, mine_step, mine, loss, norm, rate;
    status s;

    TRY_OR(release, s, json_number_at(truth, r->about_path, "step", &step));
    TRY_OR(release, s, json_number_at(truth, r->about_path, "lr", &rate));
    TRY_OR(release, s, json_number_at(json_object_get(truth, "loss"), r->about_path, "f64", &loss));
    TRY_OR(release, s,
           json_number_at(json_object_get(truth, "grad_norm"), r->about_path, "f64", &norm));
    TRY_OR(release, s, json_number_at(found, path, "step", &mine_step));
    if (mine_step != step) {
        s = fail(ERR_FORMAT, "%s: step %g stands where step %g was expected", path, mine_step,
                 step);
        goto release;
    }
    at = arena_format(&r->a, "step %lld", (long long)step);
    TRY_OR(release, s, json_number_at(found, path, "loss", &mine));
    worst_see(&w->loss, relative(mine, loss), t->step_loss, at);
    TRY_OR(release, s, json_number_at(found, path, "grad_norm", &mine));
    worst_see(&w->norm, relative(mine, norm), t->step_norm, at);
    TRY_OR(release, s, json_number_at(found, path, "lr", &mine));
    worst_see(&w->rate, relative(mine, rate), RATE_TOLERANCE, at);
release:
    json_decref(found);
    return s;
}

static status see_log(struct run *r, struct step_worst *w)
{
    const char *path = path_join(&r->a, r->folder, "log/metrics.jsonl");
    const json_t *truths = json_object_get(r->about, "rows");
    char *line, *end;
    size_t length, steps = 0;

    TRY(file_read(&r->a, path, 1 << 24, &line, &length));
    for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        if (steps == json_array_size(truths)) {
            return fail(ERR_FORMAT, "%s: more than %zu lines", path, steps);
        }
        TRY(see_step(r, line, path, json_array_get(truths, steps), w));
        steps++;
    }
    return steps == json_array_size(truths) ? OK
                                            : fail(ERR_FORMAT, "%s: %zu steps instead of %zu", path,
                                                   steps, json_array_size(truths));
}

/* ---- its export ---- */

struct final_worst {
    struct worst most;
    double squares;
    int64_t count;
};

static double final_tolerance(const struct run *r, const char *name)
{
    const struct tolerances *t = tolerances_of(r->real);
    const json_t *entries =
        json_object_get(json_object_get(r->about, "error"), "final_max_abs_by_tensor");

    return fmax(t->final_max, t->final_factor * json_number_value(json_object_get(entries, name)));
}

static status see_weight(struct run *r, const struct tensor_folder *f, const struct tensor_entry *e,
                         struct final_worst *w)
{
    const struct tensor_entry *truth =
        tensor_file_find(&r->truth, arena_format(&r->a, "final.%s", e->name));
    double *mine = arena_take_array(&r->a, (size_t)e->count, sizeof *mine), *expected;

    if (truth == NULL || truth->rank != e->rank ||
        memcmp(truth->shape, e->shape, (size_t)e->rank * sizeof *e->shape) != 0) {
        return fail(ERR_FORMAT, "the export has %s, but %s has none of that name and shape",
                    e->name, r->truth.path);
    }
    TRY(tensor_folder_read(f, e, 0, e->count, DT_F64, mine));
    TRY(tensor_take(&r->truth, &r->a, truth->name, e->count, &expected));
    worst_see(&w->most, largest_difference(mine, expected, e->count), final_tolerance(r, e->name),
              e->name);
    for (int64_t i = 0; i < e->count; i++) {
        w->squares += (mine[i] - expected[i]) * (mine[i] - expected[i]);
    }
    w->count += e->count;
    return OK;
}

static status see_export(struct run *r, struct final_worst *w)
{
    struct tensor_folder f = { 0 };
    size_t wanted = 0;
    status s;

    TRY_OR(close_folder, s, tensor_folder_open(&f, &r->a, path_join(&r->a, r->folder, "export")));
    for (size_t i = 0; i < f.by_name.count; i++) {
        TRY_OR(close_folder, s, see_weight(r, &f, f.by_name.entries[i].value, w));
    }
    for (size_t i = 0; i < r->truth.count; i++) {
        wanted += text_starts(r->truth.entries[i].name, "final.");
    }
    if (wanted != f.by_name.count) {
        s = fail(ERR_FORMAT, "the export has %zu tensors instead of %zu", f.by_name.count, wanted);
    }
close_folder:
    tensor_folder_close(&f);
    return s;
}

/* ---- a case ---- */

static status open_run(struct run *r)
{
    double batches, micro_batches;

    r->folder =
        arena_format(&r->a, "%s/steps-%s-%s", r->g->temporary, r->c->name, real_name(r->real));
    TRY(folder_make(r->folder));
    TRY(json_number_at(r->about, r->about_path, "batches", &batches));
    TRY(json_number_at(r->about, r->about_path, "micro_batches", &micro_batches));
    r->batches = (int64_t)batches;
    r->micro_batches = (int64_t)micro_batches;
    TRY(tensor_file_open(&r->truth, &r->a, path_join(&r->a, r->c->folder, "steps.safetensors")));
    TRY(write_rows(r));
    return write_recipe(r);
}

static void report(struct run *r)
{
    const char *name = r->c->name, *in = real_name(r->real);
    struct step_worst steps = { 0 };
    struct final_worst final = { 0 };

    if (check_ok(r->g, see_log(r, &steps), "%s %s: steps", name, in)) {
        check_worst(r->g, &steps.loss, "%s %s: loss of a step", name, in);
        check_worst(r->g, &steps.norm, "%s %s: norm of a step", name, in);
        check_worst(r->g, &steps.rate, "%s %s: rate of a step", name, in);
    }
    if (check_ok(r->g, see_export(r, &final), "%s %s: final weights", name, in)) {
        check_worst(r->g, &final.most, "%s %s: final weights, max abs", name, in);
        check_figure(r->g, sqrt(final.squares / (double) final.count),
                     tolerances_of(r->real)->final_rms, "%s %s: final weights, rms", name, in);
    }
}

void golden_case_steps(struct golden *g, const struct golden_case *c)
{
    static const enum dtype reals[] = { DT_F64, DT_F32 };
    struct arena a = { 0 };
    const char *path = path_join(&a, c->folder, "steps.json");
    json_t *about = NULL;

    if (!file_is_there(path)) {
        check_skip(g, "steps.json is not there", "%s steps", c->name);
    } else if (check_ok(g, json_take(&a, path, &about), "%s steps.json", c->name)) {
        for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
            struct run r = {
                .g = g, .c = c, .real = reals[i], .about = about, .about_path = path, .truth.fd = -1
            };

            if (check_ok(g, open_run(&r), "%s %s: steps", c->name, real_name(r.real)) &&
                check_ok(g, train(&r), "%s %s: steps", c->name, real_name(r.real))) {
                report(&r);
            }
            tensor_file_close(&r.truth);
            arena_release(&r.a);
        }
    }
    json_decref(about);
    arena_release(&a);
}
