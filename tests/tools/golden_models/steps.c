/* 20 optimizer steps through the real program: rows and a recipe are written, metrics and the exported weights are read. */
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/golden_models/golden.h"

extern char **environ;

struct stepping {
    struct golden *g;
    struct arena arena;
    const char *name, *folder, *work; /* of the check; the case; what is made */
    json_t *truth;                    /* steps.json */
    struct tensor_file tensors;       /* steps.safetensors */
    int precision;
    int64_t B, S;
};

static const char *in_work(struct stepping *p, const char *name)
{
    return arena_format(&p->arena, "%s/%s", p->work, name);
}

static const char *check_name(struct stepping *p, const char *what)
{
    return arena_format(&p->arena, "%s %d: %s", p->name, p->precision, what);
}

/* ---- rows ---- */

/* One column of a row: "labels": [..] */
static bool write_column(struct stepping *p, FILE *to, const char *batch, const char *column, int64_t row, const char *before)
{
    const struct tensor_entry *e = tensor_file_find(&p->tensors, arena_format(&p->arena, "%s.%s", batch, column));
    int64_t *values = arena_take_array(&p->arena, (size_t)p->S, sizeof *values);

    if (e == NULL) {
        return false;
    }
    if (e->count != p->B * p->S || tensor_file_read(&p->tensors, e, row * p->S, p->S, DT_I64, values) != OK) {
        tally_fail(&p->g->tally, check_name(p, e->name), "its shape is not that of the first batch");
        return false;
    }
    fprintf(to, "%s\"%s\":[", before, column);
    for (int64_t i = 0; i < p->S; i++) {
        fprintf(to, "%s%lld", i == 0 ? "" : ",", (long long)values[i]);
    }
    fputc(']', to);
    return true;
}

/* Rows in the order in which accumulation takes them: batch by batch, micro-batch by micro-batch. */
static bool write_rows(struct stepping *p)
{
    int batches = (int)golden_number(p->truth, "batches", 0), micro = (int)golden_number(p->truth, "micro_batches", 0);
    bool good = folder_make(in_work(p, "rows")) == OK;
    FILE *to = good ? fopen(in_work(p, "rows/rows.json"), "we") : NULL;

    good = to != NULL;
    for (int i = 0; i < batches * micro && good; i++) {
        const char *batch = arena_format(&p->arena, "batch.%d.%d", i / micro, i % micro);

        for (int64_t row = 0; row < p->B && good; row++) {
            good = write_column(p, to, batch, "input_ids", row, "{") && write_column(p, to, batch, "attention_mask", row, ",") &&
                   write_column(p, to, batch, "labels", row, ",");
            write_column(p, to, batch, "document_ids", row, ",");
            fputs("}\n", to);
        }
    }
    if (to != NULL && fclose(to) != 0) {
        good = false;
    }
    return good;
}

/* ---- the recipe ---- */

static bool write_recipe(struct stepping *p)
{
    const json_t *o = json_object_get(p->truth, "optimizer"), *betas = json_object_get(o, "betas");
    FILE *to = fopen(in_work(p, "recipe.yaml"), "we");

    if (to == NULL) {
        return false;
    }
    fprintf(to, "distributed_backend: alone\nrun: {name: golden}\ntrainer:\n  devices: 1\n  accelerator: cpu\n  precision: %d\n"
            "  max_steps: %zu\n  log_every_n_steps: 1\n  accumulate_grad_batches: %d\n", p->precision,
            json_array_size(json_object_get(p->truth, "rows")), (int)golden_number(p->truth, "micro_batches", 0));
    fprintf(to, "exp_manager:\n  explicit_log_dir: %s\n  checkpoint_callback_params: {save_top_k: 0, save_last: false}\n"
            "  export_full_model: {save_last: true, final_export_dir: %s}\n", in_work(p, "log"), in_work(p, "final"));
    fprintf(to, "model:\n  model_type: null\n  do_finetune: true\n  hf_model_name_or_path: %s\n  fp8: false\n"
            "  train_batch_size: %lld\n  max_context_width: %lld\n  grad_clip: %.17g\n  lr_decay_iters: %d\n", p->folder,
            (long long)p->B, (long long)p->S, golden_number(o, "grad_clip", 0), (int)golden_number(o, "horizon", 0));
    fprintf(to, "  optim:\n    name: adamw\n    lr: %.17g\n    weight_decay: %.17g\n    betas: [%.17g, %.17g]\n",
            golden_number(o, "lr", 0), golden_number(o, "weight_decay", 0), json_number_value(json_array_get(betas, 0)),
            json_number_value(json_array_get(betas, 1)));
    fprintf(to, "    sched: {name: CosineAnnealing, warmup_steps: %d, constant_steps: %d, min_lr: %.17g}\n",
            (int)golden_number(o, "warmup_steps", 0), (int)golden_number(o, "constant_steps", 0), golden_number(o, "min_lr", 0));
    fprintf(to, "  data: {train_dir: %s}\n", in_work(p, "rows"));
    return fclose(to) == 0;
}

/* ---- the program ---- */

static bool train(struct stepping *p)
{
    char *argv[] = { getenv("ROUX_PROGRAM"), "train", (char *)in_work(p, "recipe.yaml"), "--quiet", NULL };
    posix_spawn_file_actions_t files;
    pid_t child;
    int result = -1;
    char *said = "";
    size_t length;

    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, in_work(p, "said"), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    if (posix_spawnp(&child, argv[0], &files, NULL, argv, environ) == 0) {
        waitpid(child, &result, 0);
    }
    posix_spawn_file_actions_destroy(&files);
    if (result != 0) {
        if (file_read(&p->arena, in_work(p, "said"), 1 << 20, &said, &length) != OK) {
            said = "";
        }
        tally_fail(&p->g->tally, check_name(p, "train"), arena_format(&p->arena, "%s ended with %#x: %s", argv[0], (unsigned)result, said));
    }
    return result == 0;
}

/* ---- what it found ---- */

static void keep_worst(double *worst, const char **at, double d, const char *where)
{
    if (!(d <= *worst)) {
        *worst = d;
        *at = where;
    }
}

/* The training steps of metrics.jsonl, in order; other lines (validations) have no rate. */
static void compare_metrics(struct stepping *p)
{
    const json_t *rows = json_object_get(p->truth, "rows");
    double loss = 0, norm = 0, rate = 0;
    const char *loss_at = NULL, *norm_at = NULL, *rate_at = NULL;
    FILE *from = fopen(in_work(p, "log/metrics.jsonl"), "re");
    size_t room = 0, count = 0;
    char *text = NULL;

    while (from != NULL && getline(&text, &room, from) > 0) {
        json_t *line = json_loads(text, 0, NULL), *want = json_array_get(rows, count);
        const char *where = arena_format(&p->arena, "step %zu", count + 1);

        if (!json_is_number(json_object_get(line, "lr"))) {
            json_decref(line);
            continue;
        }
        keep_worst(&loss, &loss_at, relative(golden_number(line, "loss", NAN), golden_number(json_object_get(want, "loss"), "f64", NAN)),
                   where);
        keep_worst(&norm, &norm_at,
                   relative(golden_number(line, "grad_norm", NAN), golden_number(json_object_get(want, "grad_norm"), "f64", NAN)), where);
        keep_worst(&rate, &rate_at, relative(golden_number(line, "lr", NAN), golden_number(want, "lr", NAN)), where);
        if (golden_number(line, "step", 0) != (double)(count + 1)) {
            keep_worst(&loss, &loss_at, NAN, "a step that is missing");
        }
        count++;
        json_decref(line);
    }
    free(text);
    if (from != NULL) {
        fclose(from);
    }
    golden_verdict(p->g, check_name(p, "steps"), count == json_array_size(rows) && count > 0,
                   arena_format(&p->arena, "%zu of %zu in metrics.jsonl", count, json_array_size(rows)));
    golden_figure(p->g, check_name(p, "loss of a step"), loss, p->precision == 64 ? 1e-10 : 2e-6, loss_at);
    golden_figure(p->g, check_name(p, "norm of a step"), norm, p->precision == 64 ? 1e-10 : 4e-6, norm_at);
    golden_figure(p->g, check_name(p, "rate of a step"), rate, 1e-14, rate_at);
}

/* Weights after the last step: each tensor's worst difference by its own tolerance, and the root mean square of all. */
static void compare_weights(struct stepping *p)
{
    const json_t *by_tensor = json_object_get(json_object_get(p->truth, "error"), "final_max_abs_by_tensor");
    struct tensor_folder final = { 0 };
    double worst = 0, squares = 0;
    const char *at = NULL;
    int64_t elements = 0;
    status s = tensor_folder_open(&final, &p->arena, in_work(p, "final"));

    for (size_t i = 0; i < p->tensors.count && s == OK; i++) {
        const struct tensor_entry *e = &p->tensors.entries[i], *f;
        const char *name = e->name + strlen("final.");
        double *want, *got, tolerance;
        int64_t count;

        if (!text_starts(e->name, "final.")) {
            continue;
        }
        f = tensor_folder_find(&final, name);
        want = golden_tensor(p->g, &p->arena, &p->tensors, e->name, &count);
        got = arena_take_array(&p->arena, (size_t)e->count, sizeof *got);
        if (want == NULL || f == NULL || f->count != e->count || tensor_folder_read(&final, f, 0, f->count, DT_F64, got) != OK) {
            keep_worst(&worst, &at, INFINITY, name);
            continue;
        }
        tolerance = p->precision == 64 ? 2e-7 : fmax(2e-5, 10 * golden_number(by_tensor, name, 0));
        keep_worst(&worst, &at, worst_difference(got, want, count) / tolerance, name);
        for (int64_t k = 0; k < count; k++) {
            squares += (got[k] - want[k]) * (got[k] - want[k]);
        }
        elements += count;
    }
    tensor_folder_close(&final);
    if (s != OK || elements == 0) {
        tally_fail(&p->g->tally, check_name(p, "final weights"), s != OK ? fail_text() : "none to compare");
        return;
    }
    golden_figure(p->g, check_name(p, "final weights, by their tolerance"), worst, 1, at);
    golden_figure(p->g, check_name(p, "final weights, rms"), sqrt(squares / (double)elements), p->precision == 64 ? 5e-8 : 5e-7, NULL);
}

static bool open_truth(struct stepping *p)
{
    const struct tensor_entry *e;

    p->truth = golden_json(p->g, arena_format(&p->arena, "%s/steps.json", p->folder));
    if (p->truth == NULL || tensor_file_open(&p->tensors, &p->arena, arena_format(&p->arena, "%s/steps.safetensors", p->folder)) != OK) {
        tally_fail(&p->g->tally, check_name(p, "steps"), fail_text());
        return false;
    }
    e = tensor_file_find(&p->tensors, "batch.0.0.input_ids");
    if (e == NULL || e->rank != 2) {
        tally_fail(&p->g->tally, check_name(p, "steps"), "batch.0.0.input_ids is no matrix");
        return false;
    }
    p->B = e->shape[0];
    p->S = e->shape[1];
    return true;
}

void golden_steps(struct golden *g, const char *name, int precision)
{
    struct stepping p = { .g = g, .name = name, .precision = precision };
    char whole[PATH];

    p.folder = arena_format(&p.arena, "%s/%s", g->folder, name);
    p.folder = realpath(p.folder, whole) != NULL ? whole : p.folder;
    p.work = arena_format(&p.arena, "%s/steps-%s-%d", g->work, name, precision);
    if (open_truth(&p)) {
        if (!write_rows(&p) || !write_recipe(&p)) {
            tally_fail(&g->tally, check_name(&p, "steps"), "rows or recipe could not be written");
        } else if (train(&p)) {
            compare_metrics(&p);
            compare_weights(&p);
        }
    }
    tensor_file_close(&p.tensors);
    json_decref(p.truth);
    arena_release(&p.arena);
}
