/*
 * What rank 0 shows: a progress line on a terminal, plain lines elsewhere, metrics.jsonl in the
 * log folder, and TensorBoard's event files where they are asked for. Numbers in metrics.jsonl are
 * the shortest decimals that read back as the same doubles, so that two runs can be compared to the
 * bit.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "store/event_file.h"
#include "tensor/peak.h"
#include "train/bench.h"
#include "train/calibration.h"
#include "train/curve.h"
#include "train/trainer.h"

struct metrics {
    FILE *file;
    bool terminal, quiet, json, line_stands, lost, curve_lost;
    double window_start;      /* tokens per second are those since the last line */
    double token_flops, peak; /* of the model; of all ranks a second */
    int64_t window_tokens;
    double val_loss;
    bool has_val;
    struct event_file events; /* open where the spec names a folder */
    bool has_events, events_lost;
    struct text line; /* of the console and of the file, one after the other; keeps its memory */
    struct curve curve;
    int64_t drawn; /* the step that loss.svg goes up to */
};

static bool speaks(const struct trainer *t)
{
    return t->world->rank == 0 && t->metrics != NULL;
}

/* ---- the file ---- */

static int64_t step_of(const char *line)
{
    static const char head[] = "{\"step\":";

    return text_starts(line, head) ? strtoll(line + sizeof head - 1, NULL, 10) : -1;
}

/* The lines up to the resumed step become the curve so far; says where they end. A last line that
 * a crash tore ends them, too. */
static status read_back(const char *path, int64_t step, struct curve *curve, off_t *kept)
{
    FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    status s = OK;

    *kept = 0;
    if (f == NULL) {
        return fail(ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
    }
    while ((length = getline(&line, &room, f)) > 0 && line[length - 1] == '\n' &&
           step_of(line) <= step) {
        curve_read_line(curve, line);
        *kept += length;
    }
    if (ferror(f) != 0) {
        s = fail(ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    }
    free(line);
    fclose(f);
    return s;
}

/* Lines behind the resumed step will be written again. */
static status cut_back(const char *path, int64_t step, struct curve *curve)
{
    off_t kept;

    if (!file_is_there(path)) {
        return OK;
    }
    TRY(file_check_target(path));
    TRY(read_back(path, step, curve, &kept));
    if (truncate(path, kept) != 0) {
        return fail(ERR_IO, "%s: cannot be cut back to step %lld: %s", path, (long long)step,
                    strerror(errno));
    }
    return OK;
}

/* A run that begins anew in the folder of an older one does not lose that one's lines. */
static status put_aside(const char *path)
{
    char old[PATH_MAX];

    if (!file_is_there(path)) {
        return OK;
    }
    snprintf(old, sizeof old, "%s.old", path);
    if (rename(path, old) != 0) {
        return fail(ERR_IO, "%s: cannot be renamed to %s: %s", path, old, strerror(errno));
    }
    log_warning("%s is of an older run and is now called %s", path, path_name(old));
    return OK;
}

/* cmd-args.log: the words this process was started with. */
static status write_command(struct trainer *t)
{
    char words[8192];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, words, sizeof words);

    if (fd >= 0) {
        close(fd);
    }
    for (ssize_t i = 0; i < n; i++) {
        if (words[i] == 0) {
            words[i] = i + 1 < n ? ' ' : '\n';
        }
    }
    return file_replace(path_join(&t->run, t->log_dir, "cmd-args.log"), words,
                        n < 0 ? 0 : (size_t)n);
}

static status file_begin(struct trainer *t)
{
    const char *path = path_join(&t->run, t->log_dir, "metrics.jsonl");

    TRY(t->at.step == 0 ? put_aside(path) : cut_back(path, t->at.step, &t->metrics->curve));
    t->metrics->file = fopen(path, "ae");
    if (t->metrics->file == NULL) {
        return fail(ERR_IO, "%s: cannot be opened for writing", path);
    }
    TRY(file_replace(path_join(&t->run, t->log_dir, "hparams.yaml"), t->spec->recipe_text,
                     strlen(t->spec->recipe_text)));
    return write_command(t);
}

static void add_number(struct text *line, const char *key, double x)
{
    char number[32];

    text_add_format(line, ",\"%s\":%s", key, isfinite(x) ? text_double(number, x) : "null");
}

double metrics_tflops(const struct model_spec *s, int64_t sequences, int64_t length, double seconds,
                      int ranks)
{
    double h = (double)s->width, a = (double)s->heads, kv = (double)s->groups,
           n = (double)s->layers, L = (double)length;
    int64_t whole_heads = s->width / s->heads * s->heads;
    double q = (double)whole_heads;
    double bracket =
        (1 + kv / a + L / h) * (q / h) + (double)s->ffn / h + (double)s->vocab / (2 * n * h);

    return 12 * (double)sequences * L * n * h * h * bracket / (seconds * 1e12 * ranks);
}

/* Sequences a step, over all ranks. */
static int64_t sequences_of(const struct trainer *t)
{
    return t->spec->B * t->spec->accumulate * mesh_data_size(&t->mesh);
}

static double step_tflops(const struct trainer *t, const struct step_report *r)
{
    return metrics_tflops(&t->spec->model, sequences_of(t), t->spec->S, r->seconds, t->world->size);
}

static void add_performance(const struct trainer *t, const struct step_report *r, struct text *line)
{
    add_number(line, "step_time", r->seconds);
    add_number(line, "samples_per_second", (double)sequences_of(t) / r->seconds);
    add_number(line, "tflops_per_device", step_tflops(t, r));
}

static void write_line(struct metrics *m, struct text *line)
{
    text_add(line, "}\n");
    if (m->file != NULL && (fputs(text_of(line), m->file) < 0 || fflush(m->file) != 0) &&
        !m->lost) {
        m->lost = true;
        log_warning("metrics.jsonl could not be written (%s); training goes on, lines are missing",
                    strerror(errno));
        clearerr(m->file);
    }
    if (m->json) {
        fputs(text_of(line), stdout);
        /* A reader that went away has read enough: no failure of the run. */
        if (fflush(stdout) != 0 && errno == EPIPE) {
            clearerr(stdout);
            m->json = false;
        }
    }
}

/* ---- event files: tags and steps are the reference's, whose first step is 0 ---- */

/* Steps behind the resumed one are void in older files; in those of a run that begins anew, all. */
static status events_begin(struct trainer *t)
{
    struct metrics *m = t->metrics;

    if (t->spec->event_dir == NULL || t->at.step >= t->spec->max_steps) {
        return OK;
    }
    TRY(event_file_open(&m->events, &t->run, t->spec->event_dir));
    m->has_events = true;
    if (m->events.has_older || t->at.step > 0) {
        event_file_add_restart(&m->events, t->at.step);
    }
    return event_file_flush(&m->events);
}

static void add_event(struct trainer *t, const char *tag, double value)
{
    event_file_add_scalar(&t->metrics->events, t->at.step - 1, tag, value);
}

/* The pass over the data, from 0, that the last step's rows were of; and out with all of it. */
static void events_end(struct trainer *t)
{
    struct metrics *m = t->metrics;
    int64_t last = sampler_at(&t->train, t->at.rows_consumed) - 1;
    int64_t epoch = last / t->train.global_batches;

    add_event(t, "epoch", (double)epoch);
    if (event_file_flush(&m->events) != OK && !m->events_lost) {
        m->events_lost = true;
        log_warning("%s; training goes on, events are missing", fail_text());
    }
}

static void write_step_events(struct trainer *t, const struct step_report *r)
{
    if (!t->metrics->has_events || t->at.step % t->spec->log_every != 0) {
        return;
    }
    add_event(t, "Loss/train", r->loss);
    add_event(t, "Norms/grad_norm", r->grad_norm);
    add_event(t, "LR/learning_rate", r->next_lr);
    if (t->spec->log_perf) {
        add_event(t, "Step Time", r->seconds);
        add_event(t, "Samples/Second", (double)sequences_of(t) / r->seconds);
        add_event(t, "TFLOPS/GPU", step_tflops(t, r));
    }
    events_end(t);
}

static void write_validation_events(struct trainer *t, double loss)
{
    if (!t->metrics->has_events || t->at.step == 0) {
        return;
    }
    add_event(t, "Loss/val", loss);
    add_event(t, "Loss/perplexity", exp(loss));
    events_end(t);
}

/* ---- the console ---- */

static void clear_line(struct metrics *m)
{
    if (m->line_stands) {
        fputs("\r\033[K", stderr);
        m->line_stands = false;
    }
}

void metrics_event(struct trainer *t, const char *format, ...)
{
    struct text line = { 0 };
    va_list list;

    if (!speaks(t)) {
        return;
    }
    va_start(list, format);
    text_add_format_list(&line, format, list);
    va_end(list);
    clear_line(t->metrics);
    if (!t->metrics->quiet) {
        log_info("%s", text_of(&line));
    }
    text_release(&line);
}

static double peak_share(const struct metrics *m, double rate)
{
    return rate * m->token_flops / m->peak;
}

static void step_text(const struct trainer *t, const struct step_report *r, double rate,
                      struct text *line)
{
    const struct train_spec *s = t->spec;
    char left[32], per_second[32];
    double seconds = rate > 0 ? (double)((s->max_steps - t->at.step) * s->accumulate * s->B * s->S *
                                         mesh_data_size(&t->mesh)) /
                                    rate
                              : 0;

    text_add_format(line, "step %lld/%lld  loss %.4f", (long long)t->at.step,
                    (long long)s->max_steps, r->loss);
    if (t->metrics->has_val) {
        text_add_format(line, "  val %.4f", t->metrics->val_loss);
    }
    text_add_format(line,
                    "  norm %.3f  lr %.3g  %s tokens/s  %.4g GFLOP/s (%.0f %% of peak)  %s left",
                    r->grad_norm, r->lr, text_count(per_second, (int64_t)rate),
                    rate * t->metrics->token_flops / 1e9, 100 * peak_share(t->metrics, rate),
                    text_seconds(left, seconds));
    if (r->skipped) {
        text_add(line, "  skipped");
    }
}

static double window_rate(struct trainer *t, double now)
{
    double seconds = now - t->metrics->window_start;

    return seconds > 0 ? (double)(t->at.tokens - t->metrics->window_tokens) / seconds : 0;
}

static void show_step(struct trainer *t, const struct step_report *r, double rate, bool due)
{
    struct metrics *m = t->metrics;

    if (m->quiet || (!m->terminal && !due)) {
        return;
    }
    text_clear(&m->line);
    step_text(t, r, rate, &m->line);
    if (m->terminal) {
        fprintf(stderr, "\r\033[K%s", text_of(&m->line));
        m->line_stands = true;
    } else {
        log_info("%s", text_of(&m->line));
    }
}

void metrics_step(struct trainer *t, const struct step_report *r)
{
    struct metrics *m = t->metrics;
    struct text *line;
    double now = clock_seconds(), rate;
    bool due;

    if (!speaks(t)) {
        return;
    }
    curve_add(&m->curve, t->at.step, r->skipped ? NAN : r->loss, r->lr);
    if (t->spec->log_every == 0) {
        return;
    }
    line = &m->line;
    due = t->at.step % t->spec->log_every == 0 || t->at.step == t->spec->max_steps;
    rate = window_rate(t, now);
    show_step(t, r, rate, due);
    text_clear(line);
    text_add_format(line, "{\"step\":%lld", (long long)t->at.step);
    add_number(line, "loss", r->loss);
    add_number(line, "grad_norm", r->grad_norm);
    add_number(line, "lr", r->lr);
    add_number(line, "next_lr", r->next_lr);
    text_add_format(line, ",\"targets\":%lld,\"tokens\":%lld,\"rows\":%lld", (long long)r->targets,
                    (long long)t->at.tokens, (long long)t->at.rows_consumed);
    add_number(line, "seconds", r->seconds);
    add_number(line, "tokens_per_second", rate);
    add_number(line, "model_flops_per_second", rate * m->token_flops);
    add_number(line, "peak_share", peak_share(m, rate));
    if (t->spec->log_perf) {
        add_performance(t, r, line);
    }
    if (r->skipped) {
        text_add(line, ",\"skipped\":true");
    }
    write_line(m, line);
    write_step_events(t, r);
    if (due) {
        m->window_start = now;
        m->window_tokens = t->at.tokens;
    }
}

/* ---- the picture ---- */

/* 134515008 -> "135M" */
static char *short_count(char out[32], int64_t count)
{
    static const char units[] = " kMBT";
    double x = (double)count;
    int unit = 0;

    if (count < 10000) {
        return text_count(out, count);
    }
    while (x >= 999.5 && units[unit + 1] != 0) {
        x /= 1000;
        unit++;
    }
    snprintf(out, 32, "%.3g%c", x, units[unit]);
    return out;
}

static void draw_curve(struct trainer *t)
{
    struct metrics *m = t->metrics;
    struct arena a = { 0 };
    char parameters[32], tokens[32], step[32];
    const char *details;
    status s;

    m->drawn = m->curve.last;
    if (curve_is_empty(&m->curve)) {
        return;
    }
    details = arena_format(&a, "%s parameters, %s tokens, step %s",
                           short_count(parameters, spec_parameters(&t->spec->model)),
                           short_count(tokens, t->at.tokens), text_count(step, t->at.step));
    s = curve_publish(&m->curve, path_join(&a, t->log_dir, "loss.svg"), t->spec->name, details);
    if (s != OK && !m->curve_lost) {
        m->curve_lost = true;
        log_warning("%s; training goes on, the picture is missing", fail_text());
    }
    arena_release(&a);
}

void metrics_end(struct trainer *t)
{
    struct metrics *m = t->metrics;

    if (!speaks(t)) {
        return;
    }
    draw_curve(t);
    /* A terminal that takes JSON takes nothing between its lines. */
    if (m->terminal && !curve_is_empty(&m->curve) && !(m->json && isatty(STDOUT_FILENO) == 1)) {
        clear_line(m);
        curve_show(&m->curve);
    }
}

void metrics_saved(struct trainer *t)
{
    if (speaks(t)) {
        draw_curve(t);
    }
}

void metrics_validation(struct trainer *t, double loss, int64_t targets, double seconds)
{
    struct text *line;

    if (!speaks(t)) {
        return;
    }
    t->metrics->val_loss = loss;
    t->metrics->has_val = true;
    metrics_event(t, "step %lld: validation loss %.4f, perplexity %.3f, over %lld tokens",
                  (long long)t->at.step, loss, exp(loss), (long long)targets);
    line = &t->metrics->line;
    text_clear(line);
    text_add_format(line, "{\"step\":%lld", (long long)t->at.step);
    add_number(line, "val_loss", loss);
    add_number(line, "perplexity", exp(loss));
    text_add_format(line, ",\"val_targets\":%lld", (long long)targets);
    add_number(line, "val_seconds", seconds);
    write_line(t->metrics, line);
    write_validation_events(t, loss);
    curve_add_validation(&t->metrics->curve, t->at.step, loss);
    draw_curve(t);
    /* Validation is no training time. */
    t->metrics->window_start += seconds;
}

/* Of one rank: as the calibration of this machine has it; else measured now, in some ten
 * milliseconds. */
static double peak_of_rank(const struct trainer *t)
{
    struct arena a = { 0 };
    struct calibration_key key;
    struct calibration c;
    const char *path, *why;
    double peak = 0;

    calibration_key_here(&key, t->kernels, t->threads);
    if (calibration_path(&a, &path) == OK &&
        calibration_find(&c, &a, path, &key, &why) == CALIBRATION_FITS) {
        peak = c.peak;
    }
    arena_release(&a);
    return peak > 0 ? peak : peak_rate_of(t->kernels, t->threads, 8);
}

status metrics_open(struct trainer *t, const struct train_options *o)
{
    struct metrics *m;

    if (t->world->rank != 0) {
        return OK;
    }
    m = arena_take(&t->run, sizeof *m);
    *m = (struct metrics){ .terminal = isatty(STDERR_FILENO) == 1 && !o->quiet,
                           .quiet = o->quiet,
                           .json = o->json,
                           .window_start = clock_seconds(),
                           .window_tokens = t->at.tokens,
                           .token_flops = model_flops_token(&t->spec->model, t->spec->S),
                           .peak = peak_of_rank(t) * t->world->size };
    t->metrics = m;
    TRY(file_begin(t));
    return events_begin(t);
}

void metrics_close(struct trainer *t)
{
    if (speaks(t)) {
        if (t->metrics->line_stands) {
            fputc('\n', stderr);
        }
        if (t->metrics->file != NULL) {
            fclose(t->metrics->file);
            /* A run that failed is looked at most. */
            if (t->metrics->drawn != t->metrics->curve.last) {
                draw_curve(t);
            }
        }
        if (t->metrics->has_events) {
            event_file_close(&t->metrics->events);
        }
        text_release(&t->metrics->line);
        t->metrics = NULL;
    }
}
