/*
 * A probe is the trainer's micro-batch, run once: model_loss and its derivative, the exact sums of
 * a step, and where one rank holds all a second program for the logits, which `learn` never forms
 * whole. Both share the weights by name.
 */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/exact.h"
#include "base/threads.h"
#include "data/batch.h"
#include "infer/batch_file.h"
#include "infer/infer.h"
#include "infer/inspect.h"
#include "model/hf.h"
#include "model/model.h"
#include "store/safetensors.h"

struct probe {
    const struct probe_options *o;
    struct comm *world;
    struct arena *arena;
    struct mesh mesh;
    const struct kernels *kernels;
    int threads;

    struct model_spec spec;
    struct model model;
    struct batch_file file;
    struct batch batch; /* this rank's rows */

    struct residents residents;
    struct program learn, judge; /* `judge` for the logits, on one rank alone */
    struct model_inputs learn_inputs, judge_inputs;
    val scalars, logits;
    bool wants_logits;
    struct device device;

    struct dump dump;
    int until; /* nodes of learn that run; 0: all */
    struct watch watch;
};

/* ---- what is asked ---- */

static status degrees(const struct probe *p, int size[AXIS_COUNT])
{
    int T = p->o->tensor > 0 ? p->o->tensor : 1, S = p->o->shard > 0 ? p->o->shard : 1;

    if (T > p->world->size || S > p->world->size / T || p->world->size % (T * S) != 0) {
        return fail(
            ERR_RECIPE,
            "tensor degree %d times shard degree %d does not divide the %d rank%s of this job", T,
            S, p->world->size, p->world->size == 1 ? "" : "s");
    }
    size[AXIS_TP] = T;
    size[AXIS_EP] = 1;
    size[AXIS_CP] = 1;
    size[AXIS_DS] = S;
    size[AXIS_REPLICA] = p->world->size / (T * S);
    return OK;
}

static status read_inputs(struct probe *p)
{
    TRY(hf_config_read(&p->spec, p->arena, p->o->model));
    return batch_file_read(&p->file, p->arena, p->o->batch, p->spec.vocab);
}

/* Sequence i is slot i div D of data index i mod D; a slot without a sequence stays empty and
 * adds nothing, exactly. */
static void deal_rows(struct probe *p)
{
    int D = mesh_data_size(&p->mesh);
    int64_t slots = (p->file.B + D - 1) / D, S = p->file.S;

    batch_make(&p->batch, p->arena, slots, S);
    for (int64_t slot = 0; slot < slots; slot++) {
        int64_t i = slot * D + mesh_data_index(&p->mesh), at = i * S;
        struct row row = { .length = S, .file = p->o->batch, .line = i + 1 };

        if (i >= p->file.B) {
            break;
        }
        row.ids = p->file.ids + at;
        row.labels = p->file.labels + at;
        row.starts = p->file.starts + at;
        batch_put(&p->batch, slot, &row);
    }
}

/* ---- the programs ---- */

static status write_learn(struct probe *p)
{
    unsigned flags = MODEL_TRAINS | (p->o->recompute ? MODEL_RECOMPUTE : 0u);
    struct memory_plan plan;
    val loss;

    program_init(&p->learn, "learn", p->arena, &p->mesh, p->o->real);
    p->learn.prefetch = true;
    p->learn_inputs = model_inputs(&p->learn, p->batch.B, p->batch.S);
    p->scalars =
        program_state(&p->learn, "scalars", DT_I64, shape_1(SCALAR_WORDS), (struct place){ { 0 } });
    loss = model_loss(&p->learn, &p->model, &p->learn_inputs, flags);
    TRY(program_backward(&p->learn, loss));
    op_exact_sum(&p->learn, loss, p->scalars, SCALAR_LOSS);
    op_reduce(&p->learn, p->scalars);
    if (p->o->dump != NULL) {
        TRY(dump_read(&p->dump, p->arena, p->o->dump));
        TRY(dump_keep(&p->dump, &p->learn));
    }
    return program_plan(&p->learn, &p->residents, p->kernels, p->threads, &plan);
}

static status write_judge(struct probe *p)
{
    struct memory_plan plan;

    program_init(&p->judge, "judge", p->arena, &p->mesh, p->o->real);
    p->judge_inputs = model_inputs(&p->judge, p->batch.B, p->batch.S);
    p->logits = model_logits(&p->judge, &p->model, &p->judge_inputs);
    program_keep(&p->judge, p->logits);
    return program_plan(&p->judge, &p->residents, p->kernels, p->threads, &plan);
}

static void put_batch(struct probe *p, const struct program *program, const struct model_inputs *in)
{
    int64_t count = p->batch.B * p->batch.S;

    device_write(&p->device, program, in->ids, 0, count, p->batch.ids);
    device_write(&p->device, program, in->targets, 0, count, p->batch.targets);
    device_write(&p->device, program, in->positions, 0, count, p->batch.positions);
    device_write(&p->device, program, in->starts, 0, count, p->batch.starts);
}

static status load_weights(struct probe *p, int *ignored)
{
    struct tensor_folder f = { 0 };
    status s;

    TRY_OR(close_folder, s, tensor_folder_open(&f, p->arena, p->o->model));
    s = weights_load(p->model.weights, &p->device, &p->learn, &f, ignored);
close_folder:
    tensor_folder_close(&f);
    return s;
}

/* Names are looked up before a weight is read. */
static status find_inside(struct probe *p)
{
    int last;

    if (p->o->until != NULL) {
        TRY(program_find_node(&p->learn, p->o->until, &last));
        p->until = last + 1;
    }
    return p->o->dump == NULL ? OK : dump_check(&p->dump, &p->learn, p->until);
}

static const char *trace_path(const struct probe *p)
{
    int rank = p->world->rank;

    return rank == 0 ? p->o->trace : arena_format(p->arena, "%s.%d", p->o->trace, rank);
}

static status watch_start(struct probe *p)
{
    if (p->o->time_ops == NULL && p->o->trace == NULL) {
        return OK;
    }
    if (p->o->trace != NULL) {
        TRY(watch_trace_try(trace_path(p)));
    }
    watch_open(&p->watch, p->threads,
               p->o->trace == NULL ? 0 : p->learn.node_count + p->judge.node_count);
    watch_program(&p->watch, &p->learn);
    if (p->wants_logits) {
        watch_program(&p->watch, &p->judge);
    }
    return OK;
}

static status set_up(struct probe *p, int *ignored)
{
    TRY(comm_agree(p->world, read_inputs(p)));
    TRY(kernels_find(p->o->real, &p->kernels));
    TRY(model_make(&p->model, p->arena, &p->spec, &p->mesh));
    deal_rows(p);
    TRY(write_learn(p));
    if (p->wants_logits) {
        TRY(write_judge(p));
    }
    TRY(comm_agree(p->world, find_inside(p)));
    TRY(comm_agree(p->world, watch_start(p)));
    TRY(comm_agree(p->world,
                   device_open(&p->device, p->kernels, &p->mesh, p->threads, &p->residents)));
    return comm_agree(p->world, load_weights(p, ignored));
}

/* ---- running ---- */

static status run_program(struct probe *p, const struct program *program)
{
    const char *bad = NULL;
    struct run_options options = { .test_finite = p->o->test_finite,
                                   .bad_value = &bad,
                                   .until = program == &p->learn ? p->until : 0,
                                   .watch = p->watch.program_count > 0 ? &p->watch : NULL };

    TRY(program_run(program, &p->device, &options));
    if (bad != NULL) {
        return fail(ERR_FORMAT,
                    "%s: %s of the program %s is the first value with a NaN or an infinity",
                    p->o->model, bad, program->name);
    }
    return OK;
}

static void put_learn(struct probe *p)
{
    /* On TP every member has the same rows; the first counts them. */
    int64_t targets = p->mesh.at[AXIS_TP] == 0 ? p->batch.valid : 0;

    put_batch(p, &p->learn, &p->learn_inputs);
    device_write(&p->device, &p->learn, p->scalars, SCALAR_COUNT, 1, &targets);
}

static status run_both(struct probe *p)
{
    put_learn(p);
    TRY(comm_agree(p->world, run_program(p, &p->learn)));
    if (p->wants_logits) {
        put_batch(p, &p->judge, &p->judge_inputs);
        return run_program(p, &p->judge);
    }
    return OK;
}

static void read_loss(const struct probe *p, struct probe_report *report)
{
    int64_t words[SCALAR_WORDS];
    struct exact sum;

    device_read(&p->device, &p->learn, p->scalars, 0, SCALAR_WORDS, words);
    memcpy(&sum, words + SCALAR_LOSS, sizeof sum);
    report->targets = words[SCALAR_COUNT];
    report->loss = report->targets > 0 ? exact_value(&sum) / (double)report->targets : 0;
}

/* ---- the result ---- */

/* Rank 0 writes; a failure is kept, so that all ranks come to the end of the collection. */
struct writing {
    struct tensor_writer writer;
    const struct probe *probe;
    bool writes;
    int64_t targets;
    int gradients;
    status failed;
};

static void declare(struct writing *w)
{
    const struct probe *p = w->probe;
    const struct weights *weights = p->model.weights;
    int64_t logits[] = { p->file.B, p->file.S, p->spec.vocab }, one = 1;

    if (p->wants_logits) {
        tensor_writer_declare(&w->writer, "logits", kernels_sum(p->o->real), 3, logits);
    }
    tensor_writer_declare(&w->writer, "loss", DT_F64, 1, &one);
    for (int i = 0; i < weights->count; i++) {
        for (int k = 0; k < weights->segments[i].count; k++) {
            const struct weight_part *q = &weights->segments[i].parts[k];

            tensor_writer_declare(&w->writer, arena_format(p->arena, "grad.%s", q->name),
                                  kernels_sum(p->o->real), q->rank, q->whole);
        }
    }
}

static status append_logits(struct writing *w)
{
    const struct probe *p = w->probe;
    size_t width = dtype_bytes(kernels_sum(p->o->real));
    int64_t row = p->file.S * p->spec.vocab;
    struct arena a = { 0 };
    void *bytes = arena_take_array(&a, (size_t)row, width);
    status s = OK;

    for (int64_t i = 0; i < p->file.B && s == OK; i++) {
        device_read(&p->device, &p->judge, p->logits, i * row, row, bytes);
        s = tensor_writer_append(&w->writer, bytes, (size_t)row * width);
    }
    arena_release(&a);
    return s;
}

/* The gradient holds the sum over tokens; the mean leaves. Without a target it is all zeros. */
static status append_mean(struct writing *w, const void *bytes, int64_t count)
{
    enum { PIECE = 4096 };
    double wide[PIECE];
    float narrow[PIECE];
    bool is_wide = w->probe->o->real == DT_F64;
    int64_t by = w->targets > 0 ? w->targets : 1;

    for (int64_t from = 0; from < count; from += PIECE) {
        int64_t n = count - from < PIECE ? count - from : PIECE;

        for (int64_t i = 0; i < n; i++) {
            if (is_wide) {
                wide[i] = ((const double *)bytes)[from + i] / (double)by;
            } else {
                narrow[i] = (float)((double)((const float *)bytes)[from + i] / (double)by);
            }
        }
        TRY(tensor_writer_append(&w->writer, is_wide ? (void *)wide : (void *)narrow,
                                 (size_t)n * dtype_bytes(kernels_sum(w->probe->o->real))));
    }
    return OK;
}

static status take_gradient(void *user, const struct weight_part *part, enum dtype type,
                            const void *bytes)
{
    struct writing *w = user;

    check(type == kernels_sum(w->probe->o->real), "a gradient in %s", dtype_name(type));
    w->gradients++;
    if (w->writes && w->failed == OK) {
        w->failed = append_mean(w, bytes, part->whole[0] * part->whole[1]);
    }
    return OK;
}

static status begin_result(struct writing *w, double loss)
{
    TRY(tensor_writer_open(&w->writer, w->probe->arena, w->probe->o->out));
    tensor_writer_metadata(&w->writer, "format", "pt");
    declare(w);
    TRY(tensor_writer_begin(&w->writer, 8));
    if (w->probe->wants_logits) {
        TRY(append_logits(w));
    }
    return tensor_writer_append(&w->writer, &loss, sizeof loss);
}

static status write_result(struct probe *p, struct probe_report *report)
{
    struct writing w = { .probe = p, .writes = p->world->rank == 0, .targets = report->targets };
    status s;

    if (w.writes) {
        w.failed = begin_result(&w, report->loss);
    }
    TRY_OR(abandon, s, comm_agree(p->world, w.failed));
    TRY_OR(abandon, s,
           weights_collect(p->model.weights, &p->device, &p->learn, "grad.weight.", take_gradient,
                           &w));
    if (w.writes && w.failed == OK) {
        w.failed = tensor_writer_finish(&w.writer);
    }
    s = comm_agree(p->world, w.failed);
    report->gradients = w.gradients;
    report->logits = p->wants_logits;
abandon:
    tensor_writer_abandon(&w.writer);
    return s;
}

/* ---- looking inside ---- */

static status show_inside(struct probe *p)
{
    int rank = p->world->rank;

    if (p->o->dump != NULL && rank == 0) {
        TRY(dump_print(&p->dump, &p->learn, &p->device, p->arena, p->o->to));
    }
    if (p->o->time_ops != NULL && rank == 0) {
        watch_table(&p->watch, 1, p->o->time_ops);
    }
    return p->o->trace == NULL ? OK : watch_trace(&p->watch, trace_path(p), rank);
}

static double tolerance_of(enum dtype real)
{
    return real == DT_F64 ? 1e-12 : real == DT_F32 ? 1e-4 : 2e-2;
}

static double tolerance(const struct probe *p, const struct probe *other)
{
    return p->o->tolerance > 0 ? p->o->tolerance
                               : fmax(tolerance_of(p->o->real), tolerance_of(other->o->real));
}

static status pair_verdict(const struct probe *p, const struct probe *other, const struct pair *c)
{
    if (c->first == NULL) {
        return OK;
    }
    return fail(ERR_FORMAT,
                "node %d: %s differs between the families %s/%s and %s/%s by %.3g of its largest "
                "entry; --tolerance allows %.3g",
                c->first_node, c->first, p->kernels->family, precision_name(p->o->real),
                other->kernels->family, precision_name(other->o->real), c->first_relative,
                c->tolerance);
}

/* `other` needs no inputs of its own: each node's are copied before it runs. */
static status run_pair(struct probe *p, struct probe *other)
{
    struct pair c = { .program = { &p->learn, &other->learn },
                      .device = { &p->device, &other->device },
                      .tolerance = tolerance(p, other) };

    put_learn(p);
    TRY(comm_agree(p->world, pair_run(&c, p->world->rank == 0 ? p->o->to : NULL)));
    return comm_agree(p->world, pair_verdict(p, other, &c));
}

/* "FAMILY" or "FAMILY/PRECISION". */
static status find_other(struct probe *other, struct probe_options *o)
{
    const char *slash = strchr(o->compare, '/');
    size_t length = slash == NULL ? strlen(o->compare) : (size_t)(slash - o->compare);

    other->o = o;
    if (slash != NULL) {
        o->real = precision_find(slash + 1);
    }
    if (o->real == DT_NONE) {
        return fail(ERR_RECIPE, "--compare %s: '%s' is no precision; choose 32, 64 or bf16",
                    o->compare, slash + 1);
    }
    return kernels_named(o->real, arena_format(other->arena, "%.*s", (int)length, o->compare),
                         &other->kernels);
}

static status compare_families(struct probe *p)
{
    struct probe other = *p;
    struct probe_options o = *p->o;
    status s;

    residents_init(&other.residents, p->arena);
    TRY_OR(release, s, find_other(&other, &o));
    TRY_OR(release, s, write_learn(&other));
    TRY_OR(release, s,
           comm_agree(p->world, device_open(&other.device, other.kernels, &p->mesh, p->threads,
                                            &other.residents)));
    s = run_pair(p, &other);
    device_close(&other.device);
release:
    residents_release(&other.residents);
    return s;
}

static void report_head(const struct probe *p, int ignored, struct probe_report *report)
{
    *report = (struct probe_report){ .family = p->spec.family->name,
                                     .kernels = p->kernels->family,
                                     .B = p->file.B,
                                     .S = p->file.S,
                                     .vocabulary = p->spec.vocab,
                                     .parameters = spec_parameters(&p->spec),
                                     .ignored = ignored,
                                     .threads = p->threads,
                                     .until = p->until - 1 };
}

static status probe_all(struct probe *p, struct probe_report *report)
{
    int ignored = 0;

    TRY(set_up(p, &ignored));
    report_head(p, ignored, report);
    if (p->o->compare != NULL) {
        return compare_families(p);
    }
    TRY(run_both(p));
    TRY(comm_agree(p->world, show_inside(p)));
    if (p->until > 0) {
        return OK;
    }
    read_loss(p, report);
    return p->o->out == NULL ? OK : write_result(p, report);
}

static status wishes_fit(const struct probe_options *o)
{
    if (o->until != NULL && o->out != NULL) {
        return fail(ERR_RECIPE, "--until leaves loss and gradients unfinished: leave out --out, or "
                                "look at a value with --dump");
    }
    if (o->compare != NULL && (o->out != NULL || o->until != NULL || o->dump != NULL ||
                               o->time_ops != NULL || o->trace != NULL || o->test_finite)) {
        return fail(ERR_RECIPE, "--compare runs node by node and shows only its table: leave out "
                                "--out, --until, --dump, --time-ops, --trace and --test-finite");
    }
    return OK;
}

/* The result takes the place of whatever has its name: that must not be the batch. */
static status out_is_not_batch(const struct probe_options *o)
{
    struct stat in, out;

    if (o->out != NULL && stat(o->batch, &in) == 0 && stat(o->out, &out) == 0 &&
        in.st_dev == out.st_dev && in.st_ino == out.st_ino) {
        return fail(ERR_RECIPE, "--out %s is the batch file itself; name another file", o->out);
    }
    return OK;
}

status probe_run(const struct probe_options *o, struct comm *world, struct arena *a,
                 struct probe_report *report)
{
    struct probe p = { .o = o,
                       .world = world,
                       .arena = a,
                       .threads = threads_default(o->threads),
                       .wants_logits = world->size == 1 && o->out != NULL };
    int size[AXIS_COUNT];
    status s;

    *report = (struct probe_report){ 0 };
    TRY(wishes_fit(o));
    TRY(out_is_not_batch(o));
    TRY(degrees(&p, size));
    TRY(mesh_open(&p.mesh, world, size));
    residents_init(&p.residents, a);
    s = probe_all(&p, report);
    watch_close(&p.watch);
    device_close(&p.device);
    residents_release(&p.residents);
    mesh_close(&p.mesh);
    return s;
}
