#include "cli/bench_report.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/text.h"
#include "base/threads.h"
#include "cli/cli.h"
#include "model/family.h"
#include "program/device.h"
#include "tensor/peak.h"

static const double giga = 1e9;

void report_init(struct report *r, bool json, bool quick)
{
    *r = (struct report){ .all = json ? json_object() : NULL,
                          .quick = quick,
                          .threads = threads_default(0) };
}

void report_end(struct report *r)
{
    if (r->all != NULL) {
        cli_print_json(json_incref(r->all));
    }
}

void report_release(struct report *r)
{
    json_decref(r->all);
}

static void put(struct report *r, const char *key, json_t *value)
{
    check(json_object_set_new(r->all, key, value) == 0, "out of memory");
}

/* ---- the machine ---- */

void report_machine(struct report *r)
{
    struct calibration_key key;
    const struct kernels *k;

    if (kernels_find(DT_F32, &k) != OK) {
        return; /* the step will say why */
    }
    calibration_key_here(&key, k, r->threads);
    if (r->all != NULL) {
        put(r, "machine",
            json_pack("{s:s, s:i, s:i}", "processor", key.cpu, "cores", key.cores, "threads",
                      key.threads));
        return;
    }
    printf("%s; %d core%s, %d thread%s\n", key.cpu, key.cores, key.cores == 1 ? "" : "s",
           key.threads, key.threads == 1 ? "" : "s");
}

static const char *const instructions[PEAK_KINDS] = {
    [PEAK_SCALAR] = "4 floats, multiply or add",
    [PEAK_AVX2] = "8 floats, multiply and add",
    [PEAK_AVX512] = "16 floats, multiply and add",
    [PEAK_PAIRS] = "16 pairs of bf16, multiply and add",
};

void report_peaks(struct report *r)
{
    int tries = r->quick ? 5 : 50;
    json_t *rows = json_object();

    if (r->all == NULL) {
        printf("\nfloating point, GFLOP/s %36s %10d\n", "one thread", r->threads);
    }
    for (int i = 0; i < PEAK_KINDS; i++) {
        enum peak_kind kind = (enum peak_kind)i;
        double one, every;

        if (!peak_runs(kind)) {
            continue;
        }
        one = peak_rate(kind, 1, tries);
        every = peak_rate(kind, r->threads, tries);
        if (r->all == NULL) {
            printf("  %-12s %-34s %10.1f %10.1f\n", peak_name(kind), instructions[kind], one / giga,
                   every / giga);
        }
        json_object_set_new(rows, peak_name(kind),
                            json_pack("{s:f, s:f}", "one_thread", one, "all_threads", every));
    }
    if (r->all != NULL) {
        put(r, "peak_flops", rows);
    } else {
        json_decref(rows);
    }
}

static status measure_memory(struct report *r, double out[STREAM_KINDS], int64_t *bytes)
{
    int64_t left = device_memory_left();

    *bytes = r->quick ? 32 << 20 : 256 << 20;
    if (left >= 0 && *bytes > left / 8) {
        *bytes = left / 8;
    }
    TRY(peak_streams(*bytes, r->threads, r->quick ? 2 : 5, out));
    for (int i = 0; i < STREAM_KINDS; i++) {
        r->memory = out[i] > r->memory ? out[i] : r->memory;
    }
    return OK;
}

status report_memory(struct report *r)
{
    double rate[STREAM_KINDS];
    int64_t bytes;
    char size[32];

    TRY(measure_memory(r, rate, &bytes));
    if (r->all != NULL) {
        put(r, "memory",
            json_pack("{s:I, s:f, s:f, s:f}", "buffer_bytes", (json_int_t)bytes, "read",
                      rate[STREAM_READ], "copy", rate[STREAM_COPY], "triad", rate[STREAM_TRIAD]));
        return OK;
    }
    printf("\nmemory, GB/s, %d thread%s, buffers of %s\n", r->threads, r->threads == 1 ? "" : "s",
           text_bytes(size, (uint64_t)bytes));
    for (int i = 0; i < STREAM_KINDS; i++) {
        printf("  %-12s %45.1f\n", peak_stream_name((enum peak_stream)i), rate[i] / giga);
    }
    return OK;
}

status report_disk(struct report *r, const char *folder)
{
    struct bench_disk d;
    uint64_t room;
    int64_t bytes = r->quick ? 16 << 20 : 512 << 20;
    char size[32];

    TRY(file_space(folder, &room));
    if ((uint64_t)bytes > room / 4) {
        bytes = (int64_t)(room / 4);
    }
    TRY(bench_disk(folder, bytes, &d));
    if (r->all != NULL) {
        put(r, "disk",
            json_pack("{s:s, s:b, s:I, s:f, s:f}", "folder", folder, "direct", d.direct, "bytes",
                      (json_int_t)d.bytes, "write", d.write, "read", d.read));
        return OK;
    }
    printf("\ndisk at %s, MB/s, a file of %s %s\n", folder, text_bytes(size, (uint64_t)d.bytes),
           d.direct ? "past the system's cache"
                    : "through the system's cache (the file system takes no O_DIRECT)");
    printf("  %-12s %45.0f\n  %-12s %45.0f\n", "write", d.write / 1e6, "read", d.read / 1e6);
    return OK;
}

status report_messages(struct report *r, struct comm *world)
{
    struct bench_messages m;
    char size[32];

    TRY(comm_agree(world, bench_messages(world, r->quick ? 1 << 20 : 64 << 20, &m)));
    if (world->rank > 0) {
        return OK;
    }
    if (r->all != NULL) {
        put(r, "messages",
            json_pack("{s:i, s:I, s:f, s:f, s:f}", "ranks", world->size, "bytes",
                      (json_int_t)m.bytes, "all_reduce", m.all_reduce, "gather", m.gather,
                      "latency_seconds", m.latency));
        return OK;
    }
    printf("messages between %d ranks, GB/s of a buffer of %s\n", world->size,
           text_bytes(size, (uint64_t)m.bytes));
    printf("  %-12s %45.2f\n  %-12s %45.2f\n", "all-reduce", m.all_reduce / giga, "gather",
           m.gather / giga);
    printf("  %-12s %45.1f us\n", "latency", m.latency * 1e6);
    return OK;
}

/* ---- the model ---- */

void report_model(struct report *r, const struct bench *b)
{
    const struct kernels *k = bench_kernels(b);
    const struct train_spec *t = b->spec;
    char count[32];

    r->threads = bench_threads(b);
    r->peak = peak_rate_of(k, r->threads, r->quick ? 5 : 50);
    if (r->all != NULL) {
        put(r, "model",
            json_pack("{s:s, s:I, s:s, s:s, s:i, s:I, s:f}", "family", t->model.family->name,
                      "parameters", (json_int_t)spec_parameters(&t->model), "precision",
                      precision_name(t->real), "kernels", k->family, "threads", r->threads,
                      "tokens_step", (json_int_t)(t->B * t->S * t->accumulate), "peak_flops",
                      r->peak));
        return;
    }
    printf(
        "\n%s, %s parameters, precision %s, kernels %s (peak %.1f GFLOP/s), %lld x %lld tokens a "
        "step\n",
        t->model.family->name, text_count(count, spec_parameters(&t->model)),
        precision_name(t->real), k->family, r->peak / giga, (long long)(t->B * t->accumulate),
        (long long)t->S);
}

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median of some steps after a first one; of fewer where they are long. */
static status median_step(struct bench *b, bool quick, double *out)
{
    enum { MOST = 15 };
    double seconds[MOST], first;
    int steps;

    TRY(bench_step(b, &first));
    steps = quick || first > 5 ? 3 : first > 1 ? 5 : MOST;
    for (int i = 0; i < steps; i++) {
        TRY(bench_step(b, &seconds[i]));
    }
    qsort(seconds, (size_t)steps, sizeof seconds[0], by_number);
    *out = seconds[steps / 2];
    return OK;
}

status report_step(struct report *r, struct bench *b)
{
    const struct train_spec *t = b->spec;
    double tokens = (double)(t->B * t->S * t->accumulate), seconds, flops, run;

    TRY(median_step(b, r->quick, &seconds));
    flops = tokens * model_flops_token(&t->model, t->S) / seconds;
    run = bench_flops(b) / seconds;
    if (r->all != NULL) {
        put(r, "step",
            json_pack("{s:f, s:f, s:f, s:f, s:f}", "seconds", seconds, "tokens_per_second",
                      tokens / seconds, "model_flops_per_second", flops, "run_flops_per_second",
                      run, "peak_share", flops / r->peak));
        return OK;
    }
    printf("  a step takes %.4g s: %.4g tokens/s, %.1f GFLOP/s of the model, %.1f %% of the peak "
           "(%.1f GFLOP/s are run)\n",
           seconds, tokens / seconds, flops / giga, 100 * flops / r->peak, run / giga);
    return OK;
}

static void print_op(const struct report *r, const struct bench_op *o, double total)
{
    bool counts = o->work.flops > 0;
    double rate = (counts ? o->work.flops : o->work.bytes) / o->seconds;
    double roof = counts ? r->peak : r->memory, all = o->seconds * o->count;

    printf("  %-13s %-44s %5d %9.3f %6.1f %9.1f %-7s %9.1f %5.0f\n", op_name(o->op), o->shapes,
           o->count, o->seconds * 1e3, 100 * all / total, rate / giga, counts ? "GFLOP/s" : "GB/s",
           roof / giga, 100 * rate / roof);
}

static json_t *op_object(const struct report *r, const struct bench_op *o)
{
    bool counts = o->work.flops > 0;
    double rate = (counts ? o->work.flops : o->work.bytes) / o->seconds;

    return json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:s, s:f, s:f}", "op", op_name(o->op),
                     "shapes", o->shapes, "count", o->count, "seconds", o->seconds, "flops",
                     o->work.flops, "bytes", o->work.bytes, "roof", counts ? "peak" : "memory",
                     "rate", rate, "share", rate / (counts ? r->peak : r->memory));
}

status report_ops(struct report *r, struct arena *a, struct bench *b)
{
    struct bench_op *ops;
    double total = 0, rates[STREAM_KINDS];
    json_t *list = json_array();
    int64_t bytes;
    int count;

    if (r->memory == 0) {
        TRY(measure_memory(r, rates, &bytes));
    }
    TRY(bench_ops(b, a, r->quick ? 2 : 5, &ops, &count));
    for (int i = 0; i < count; i++) {
        total += ops[i].seconds * ops[i].count;
        json_array_append_new(list, op_object(r, &ops[i]));
    }
    if (r->all != NULL) {
        put(r, "ops", list);
        return OK;
    }
    json_decref(list);
    printf("\n  %-13s %-44s %5s %9s %6s %17s %9s %5s\n", "op", "outputs <- inputs", "times",
           "ms each", "% time", "rate", "roof", "%");
    for (int i = 0; i < count; i++) {
        print_op(r, &ops[i], total);
    }
    printf("  all of it, one by one: %.4g s\n", total);
    return OK;
}

void report_calibration(struct report *r, const char *path, const struct calibration *c)
{
    if (r->all != NULL) {
        put(r, c->key.precision,
            json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f}", "calibration", path, "processor",
                      c->key.cpu, "kernels", c->key.family, "threads", c->key.threads, "points",
                      c->count, "peak_flops", c->peak, "memory_bytes", c->memory));
        return;
    }
    printf("precision %s, kernels %s, %d thread%s: peak %.1f GFLOP/s, memory %.1f GB/s, %d ops, "
           "kept in %s\n",
           c->key.precision, c->key.family, c->key.threads, c->key.threads == 1 ? "" : "s",
           c->peak / giga, c->memory / giga, c->count, path);
}
