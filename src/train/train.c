/* One rank of a training job, from set-up to the last export. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "base/threads.h"
#include "train/trainer.h"

/* ---- set-up ---- */

/* Rank 0's name on every rank: a start time may differ by a second between them. */
static status share_text(struct trainer *t, const char *mine, const char **out)
{
    int64_t length = (int64_t)strlen(mine) + 1;
    struct collective size = { .kind = COMM_BROADCAST, .dtype = DT_I64, .out = &length, .n = 1 };
    struct collective bytes = { .kind = COMM_BROADCAST, .dtype = DT_U8 };
    char *text;

    TRY(comm_run(t->world, &size));
    text = arena_take(&t->run, (size_t)length);
    if (t->world->rank == 0) {
        memcpy(text, mine, (size_t)length);
    }
    bytes.out = text;
    bytes.n = length;
    TRY(comm_run(t->world, &bytes));
    *out = text;
    return OK;
}

static status amount(const struct batch_amount *a, int64_t available, const char *key, int64_t *out)
{
    *out = a->is_share ? (int64_t)(a->value * (double)available) : (int64_t)a->value;
    if (a->is_share && a->value > 0 && *out == 0) {
        return fail(ERR_RECIPE, "%s is %g of %lld batches, which is none; give a number of batches",
                    key, a->value, (long long)available);
    }
    return OK;
}

static status open_validation(struct trainer *t)
{
    const struct train_spec *s = t->spec;
    int64_t steps = t->train.global_batches / s->accumulate;

    if (s->val_batches.value <= 0) {
        return OK;
    }
    if (s->val_dir_count == 0) {
        if (t->world->rank == 0) {
            log_warning("trainer.limit_val_batches asks for validation, but model.data.val_dir is "
                        "empty: there is none");
        }
        return OK;
    }
    TRY(corpus_open(&t->val_corpus, s->val_dirs, s->val_dir_count));
    TRY(sampler_open(&t->val, &t->val_corpus, s->val_B, s->S, s->model.vocab,
                     mesh_data_index(&t->mesh), mesh_data_size(&t->mesh)));
    batch_make(&t->val_batch, &t->run, s->val_B, s->S);
    TRY(amount(&s->val_batches, t->val.global_batches, "trainer.limit_val_batches",
               &t->val_batches));
    if (t->val_batches > t->val.global_batches) {
        t->val_batches = t->val.global_batches;
    }
    steps = steps < 1 ? 1 : steps;
    t->val_every = s->val_interval.is_share ? (int64_t)(s->val_interval.value * (double)steps)
                                            : (int64_t)s->val_interval.value;
    if (s->val_interval.is_share && s->val_interval.value > 0 && t->val_every == 0) {
        t->val_every = 1;
    }
    if (t->val_every > steps) {
        return fail(ERR_RECIPE,
                    "trainer.val_check_interval is %lld, but an epoch has only %lld steps",
                    (long long)t->val_every, (long long)steps);
    }
    t->validates = true;
    return OK;
}

static status open_data(struct trainer *t)
{
    const struct train_spec *s = t->spec;

    if (s->synthetic) {
        TRY(corpus_synthetic(&t->train_corpus, s->seed, s->S, s->model.vocab));
    } else {
        TRY(corpus_open(&t->train_corpus, s->train_dirs, s->train_dir_count));
    }
    TRY(sampler_open(&t->train, &t->train_corpus, s->B, s->S, s->model.vocab,
                     mesh_data_index(&t->mesh), mesh_data_size(&t->mesh)));
    t->train.strict = s->strict_rows;
    batch_make(&t->batch, &t->run, s->B, s->S);
    return open_validation(t);
}

/* What can fail at the end is tried at the start: every folder that will be written to. */
static status open_folders(struct trainer *t)
{
    const struct train_spec *s = t->spec;

    if (t->world->rank != 0) {
        return OK;
    }
    TRY(folder_make(t->log_dir));
    TRY(folder_make(s->checkpoint_dir));
    return OK;
}

/* Every rank's log lines also go to a file of its own, under the reference's name. */
static status open_log(struct trainer *t)
{
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    const char *path =
        path_join(&t->run, t->log_dir,
                  arena_format(&t->run, "sagemaker_log_globalrank-%d_localrank-%d.txt",
                               t->world->rank, local == NULL ? 0 : atoi(local)));

    TRY(folder_make(t->log_dir));
    t->log_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (t->log_file < 0) {
        return fail(ERR_IO, "%s: cannot be opened for writing: %s", path, strerror(errno));
    }
    log_set_file(t->log_file);
    return OK;
}

/* Cores that nobody uses, threads that take turns, pages that are small: all of them cost speed in
 * silence. */
static void warn_of_waste(const struct trainer *t)
{
    int allowed = cores_allowed(), machine = cores_of_machine(), here = ranks_here();
    int busy = t->threads * here;

    if (threads_take_turns(t->threads) && t->threads == 1) {
        log_warning("%d ranks on %d core%s take turns; fewer ranks on this machine are faster",
                    here, allowed, allowed == 1 ? "" : "s");
    } else if (threads_take_turns(t->threads)) {
        log_warning(
            "%d threads on %d core%s take turns; trainer.threads=%d (or OMP_NUM_THREADS) is "
            "faster",
            busy, allowed, allowed == 1 ? "" : "s", allowed < here ? 1 : allowed / here);
    } else if (busy < machine && allowed < machine) {
        log_warning(
            "%d of this machine's %d cores stay idle: this process may use %d; with mpirun, "
            "--bind-to none or --map-by slot:pe=%d give a rank more",
            machine - busy, machine, allowed, machine / here);
    } else if (busy < machine && t->spec->threads == 0) {
        log_warning("%d of this machine's %d cores stay idle: OMP_NUM_THREADS asks for %d thread%s",
                    machine - busy, machine, t->threads, t->threads == 1 ? "" : "s");
    }
    if (!device_has_huge_pages()) {
        log_warning("this system gives no huge pages (transparent_hugepage is never): the run goes "
                    "on, slower");
    }
}

static void greet(const struct trainer *t)
{
    const struct train_spec *s = t->spec;
    const struct residents *r = &t->programs.residents;
    char parameters[32], state[32], temporaries[32], rows[32], cores[128];

    if (t->world->rank != 0) {
        return;
    }
    log_info("%s, %s parameters, precision %s, kernels %s, %d rank%s x %d thread%s on cores %s",
             s->model.family->name, text_count(parameters, spec_parameters(&s->model)),
             precision_name(s->real), t->kernels->family, t->world->size,
             t->world->size == 1 ? "" : "s", t->threads, t->threads == 1 ? "" : "s",
             cores_text(cores, t->threads));
    warn_of_waste(t);
    log_info("memory of a rank: %s for weights, gradients, moments and inputs, %s for temporaries",
             text_bytes(state, (uint64_t)r->bytes),
             text_bytes(temporaries, (uint64_t)r->temp_bytes));
    log_info("%s rows; a step trains %lld sequences of %lld tokens",
             text_count(rows, t->train_corpus.rows),
             (long long)(s->B * s->accumulate * mesh_data_size(&t->mesh)), (long long)s->S);
}

/* All ranks look before one of them touches a page: they share what is left of the machine. */
static status memory_check(const struct trainer *t)
{
    const struct residents *r = &t->programs.residents;
    int64_t needed = r->bytes + r->temp_bytes, left = device_memory_left();
    int here = ranks_here();
    char need[32], have[32];

    if (left < 0 || needed <= left / here) {
        return OK;
    }
    return fail(
        ERR_MEMORY,
        "%d rank%s on this machine need%s %s of memory each, but only %s are free in all; a "
        "smaller model.train_batch_size or model.max_context_width, or "
        "model.activation_checkpointing=true, need less",
        here, here == 1 ? "" : "s", here == 1 ? "s" : "", text_bytes(need, (uint64_t)needed),
        text_bytes(have, (uint64_t)left));
}

static status set_up(struct trainer *t)
{
    TRY(mesh_open(&t->mesh, t->world, t->spec->size));
    TRY(kernels_find(t->spec->real, &t->kernels));
    t->threads = threads_default(t->spec->threads);
    TRY(comm_agree(t->world, open_data(t)));
    TRY(programs_make(&t->programs, &t->run, t->spec, &t->mesh, t->kernels, t->threads));
    TRY(comm_agree(t->world, memory_check(t)));
    TRY(comm_agree(t->world, device_open(&t->device, t->kernels, &t->mesh, t->threads,
                                         &t->programs.residents)));
    TRY(share_text(t, t->spec->log_dir, &t->log_dir));
    TRY(comm_agree(t->world, open_folders(t)));
    return comm_agree(t->world, open_log(t));
}

static status load_pretrained(struct trainer *t)
{
    struct tensor_folder f = { 0 };
    int extra = 0;
    status s;

    TRY_OR(close, s, tensor_folder_open(&f, &t->run, t->spec->hf_folder));
    TRY_OR(close, s,
           weights_load(t->programs.model.weights, &t->device, &t->programs.update, &f, &extra));
    if (extra > 0 && t->world->rank == 0) {
        log_info("%s: %d tensors that this model has no use for are ignored", t->spec->hf_folder,
                 extra);
    }
close:
    tensor_folder_close(&f);
    return s;
}

static status first_weights(struct trainer *t)
{
    bool resumed;

    TRY(trainer_resume(t, &resumed));
    if (!resumed && t->spec->pretrained) {
        TRY(comm_agree(t->world, load_pretrained(t)));
    } else if (!resumed) {
        weights_init(t->programs.model.weights, &t->device, &t->programs.update, t->spec->seed);
    }
    return program_run(&t->programs.cast, &t->device, NULL);
}

/* ---- the loop ---- */

static status validate(struct trainer *t)
{
    double start = clock_seconds(), loss;
    int64_t targets;

    TRY(trainer_validate(t, &loss, &targets));
    metrics_validation(t, loss, targets, clock_seconds() - start);
    return OK;
}

/* After the step whose number within its epoch is a multiple of the interval. */
static bool validation_due(const struct trainer *t)
{
    int64_t epoch = t->train.global_batches / t->spec->accumulate;

    if (!t->validates || t->val_every <= 0) {
        return false;
    }
    epoch = epoch < 1 ? 1 : epoch;
    return ((t->at.step - 1) % epoch + 1) % t->val_every == 0;
}

static status save_what_is_due(struct trainer *t)
{
    const struct train_spec *s = t->spec;
    bool last = t->at.step == s->max_steps;
    char name[64];

    if ((s->save_every > 0 && t->at.step % s->save_every == 0) || (last && s->save_last)) {
        snprintf(name, sizeof name, "step_%lld", (long long)t->at.step);
        TRY(trainer_save(t, name));
    }
    if (last && s->export_last && s->final_export_dir != NULL) {
        return trainer_export(t, s->final_export_dir);
    }
    if ((s->export_every > 0 && t->at.step % s->export_every == 0) || (last && s->export_last)) {
        return trainer_export(t, arena_format(&t->run, "%s/full/steps_%lld", s->checkpoint_dir,
                                              (long long)t->at.step));
    }
    return OK;
}

static status stop(struct trainer *t)
{
    char name[64];

    snprintf(name, sizeof name, "stop_%lld", (long long)t->at.step);
    if (t->spec->save_on_stop) {
        TRY(trainer_save(t, name));
    }
    return fail(ERR_STOPPED, "stopped by a signal after step %lld%s", (long long)t->at.step,
                t->spec->save_on_stop ? "; the same command goes on from there"
                                      : " without saving (exp_manager.save_on_stop is false)");
}

static const char *trace_path(struct trainer *t, const struct train_options *o)
{
    int rank = t->world->rank;

    return rank == 0 ? o->trace : arena_format(&t->run, "%s.%d", o->trace, rank);
}

/* The memory of a trace is taken at the start: 24 bytes an event. */
static status watch_start(struct trainer *t, const struct train_options *o)
{
    enum { EVENTS = 1 << 18 };

    if (o->time_ops == NULL && o->trace == NULL) {
        return OK;
    }
    if (o->trace != NULL) {
        TRY(watch_trace_try(trace_path(t, o)));
    }
    watch_open(&t->watch, t->threads, o->trace == NULL ? 0 : EVENTS);
    watch_program(&t->watch, &t->programs.learn);
    watch_program(&t->watch, &t->programs.update);
    t->looks.watch = &t->watch;
    t->watched_from = t->at.step;
    t->warming = true;
    return OK;
}

/* The first step warms up, unless it is the only one. */
static void watch_step(struct trainer *t)
{
    if (t->warming && t->at.step < t->spec->max_steps) {
        watch_forget(&t->watch);
        t->watched_from = t->at.step;
    }
    t->warming = false;
}

static status watch_end(struct trainer *t, const struct train_options *o)
{
    int64_t steps = t->at.step - t->watched_from;

    if (o->time_ops != NULL && t->world->rank == 0) {
        fprintf(o->time_ops, "a step, averaged over %lld:\n", (long long)steps);
        watch_table(&t->watch, steps, o->time_ops);
    }
    return o->trace == NULL ? OK : watch_trace(&t->watch, trace_path(t, o), t->world->rank);
}

static status loop(struct trainer *t)
{
    const struct train_spec *s = t->spec;
    struct step_report r;

    while (t->at.step < s->max_steps) {
        TRY(trainer_step(t, &r));
        watch_step(t);
        metrics_step(t, &r);
        if (t->at.skipped_in_a_row >= s->max_skipped) {
            return fail(ERR_DIVERGED,
                        "%lld steps in a row had no usable gradient (trainer.max_skipped_steps)",
                        (long long)t->at.skipped_in_a_row);
        }
        if (r.stop && t->at.step < s->max_steps) {
            return stop(t);
        }
        TRY(save_what_is_due(t));
        if (validation_due(t)) {
            TRY(validate(t));
        }
    }
    return OK;
}

static void say_goodbye(struct trainer *t)
{
    const struct row_counts *c = &t->train.counts;
    char seconds[32], tokens[32];

    metrics_event(t, "max_steps reached: %lld steps, %s tokens in %s", (long long)t->at.step,
                  text_count(tokens, t->at.tokens),
                  text_seconds(seconds, clock_seconds() - t->start_seconds));
    metrics_end(t);
    metrics_event(t,
                  "rows of rank 0: %lld trained, %lld of them padded, %lld cut; %lld passed over; "
                  "%lld steps skipped",
                  (long long)c->taken, (long long)c->padded, (long long)c->cut,
                  (long long)c->passed_over, (long long)t->at.skipped);
}

static status run(struct trainer *t, const struct train_options *o)
{
    bool fresh = t->at.step == 0;
    status s;

    TRY(comm_agree(t->world, targets_open(t)));
    TRY(comm_agree(t->world, metrics_open(t, o)));
    TRY(comm_agree(t->world, watch_start(t, o)));
    greet(t);
    if (t->at.step >= t->spec->max_steps) {
        metrics_event(t, "step %lld of %lld is done already: nothing to train",
                      (long long)t->at.step, (long long)t->spec->max_steps);
        return OK;
    }
    if (t->validates && fresh) {
        TRY(validate(t));
    }
    s = loop(t);
    if (s == OK) {
        say_goodbye(t);
    }
    /* All ranks stop after the same step: what they have seen until then is shown, too. */
    if (s == OK || s == ERR_STOPPED) {
        TRY(comm_agree(t->world, watch_end(t, o)));
    }
    return s;
}

status trainer_open(struct trainer *t, const struct train_spec *spec, struct comm *world)
{
    *t = (struct trainer){ .spec = spec,
                           .world = world,
                           .log_file = -1,
                           .locks = { -1, -1 },
                           .start_seconds = clock_seconds() };
    TRY(set_up(t));
    return first_weights(t);
}

void trainer_close(struct trainer *t)
{
    watch_close(&t->watch);
    metrics_close(t);
    targets_close(t);
    if (t->log_file >= 0) {
        log_set_file(-1);
        close(t->log_file);
    }
    sampler_close(&t->train);
    sampler_close(&t->val);
    corpus_close(&t->train_corpus);
    corpus_close(&t->val_corpus);
    device_close(&t->device);
    programs_release(&t->programs);
    mesh_close(&t->mesh);
    arena_release(&t->run);
}

status train_run(const struct train_spec *spec, struct comm *world, const struct train_options *o)
{
    struct trainer t;
    status s;

    log_set_rank(world->rank, world->size);
    if (o->quiet) {
        log_set_level(LOG_WARNING);
    }
    s = trainer_open(&t, spec, world);
    if (s == OK) {
        s = run(&t, o);
    }
    if (o->alone != NULL) {
        *o->alone = t.alone;
    }
    if (!t.alone) {
        trainer_close(&t);
    }
    return s;
}
