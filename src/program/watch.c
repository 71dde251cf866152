/* Times of nodes: sums by thread 0, events by every thread, a table and a trace of them. */
#include "program/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "program/op.h"

static void *take(size_t count, size_t size)
{
    void *memory = calloc(count == 0 ? 1 : count, size);

    check(memory != NULL, "no memory for the times of a run");
    return memory;
}

void watch_open(struct watch *w, int threads, int64_t room)
{
    *w = (struct watch){ .thread_count = threads, .room = room, .start = clock_seconds() };
    w->threads = take((size_t)threads, sizeof *w->threads);
    for (int i = 0; i < threads && room > 0; i++) {
        w->threads[i].events = take((size_t)room, sizeof *w->threads[i].events);
        /* Touched now, so that the run itself asks the system for nothing. */
        memset(w->threads[i].events, 0xff, (size_t)room * sizeof *w->threads[i].events);
    }
}

void watch_close(struct watch *w)
{
    for (int i = 0; i < w->thread_count && w->threads != NULL; i++) {
        free(w->threads[i].events);
    }
    for (int i = 0; i < w->program_count; i++) {
        free(w->seconds[i]);
    }
    free(w->threads);
    *w = (struct watch){ 0 };
}

void watch_program(struct watch *w, const struct program *p)
{
    check(w->program_count < WATCH_PROGRAMS, "%s: too many programs are watched", p->name);
    w->programs[w->program_count] = p;
    w->seconds[w->program_count] = take((size_t)p->node_count, sizeof(double));
    w->program_count++;
}

void watch_forget(struct watch *w)
{
    for (int i = 0; i < w->program_count; i++) {
        memset(w->seconds[i], 0, (size_t)w->programs[i]->node_count * sizeof(double));
        w->runs[i] = 0;
    }
}

int watch_index(const struct watch *w, const struct program *p)
{
    for (int i = 0; i < w->program_count; i++) {
        if (w->programs[i] == p) {
            return i;
        }
    }
    return -1;
}

void watch_note(struct watch *w, int program, int node, int thread, double begin, double end)
{
    struct watch_thread *t = &w->threads[thread];

    if (t->count < w->room) {
        t->events[t->count++] = (struct watch_event){ (int16_t)program, node, begin, end };
    } else {
        t->lost++;
    }
}

/* ---- the table ---- */

struct line {
    enum op op;
    int64_t calls;
    double seconds, flops;
};

static int by_seconds(const void *a, const void *b)
{
    double x = ((const struct line *)a)->seconds, y = ((const struct line *)b)->seconds;

    return (x < y) - (x > y);
}

static void add_program(const struct watch *w, int k, struct line *lines)
{
    const struct program *p = w->programs[k];

    for (int i = 0; i < p->node_count && w->runs[k] > 0; i++) {
        const struct node *n = &p->nodes[i];
        const struct op_def *def = op_table[n->op];

        if (def->run == NULL && !def->collective) {
            continue;
        }
        lines[n->op].calls += w->runs[k];
        lines[n->op].seconds += w->seconds[k][i];
        lines[n->op].flops +=
            def->flops == NULL ? 0 : (double)def->flops(p, n) * (double)w->runs[k];
    }
}

static void print_line(const struct line *l, const char *name, double all, double by, FILE *to)
{
    fprintf(to, "%-14s %8.6g %11.3f %10.4f %6.1f%%", name, (double)l->calls / by,
            l->seconds * 1e3 / by, l->seconds * 1e3 / (double)l->calls,
            all > 0 ? 100 * l->seconds / all : 0);
    if (l->flops > 0 && l->seconds > 0) {
        fprintf(to, " %9.1f", l->flops / l->seconds / 1e9);
    }
    fputc('\n', to);
}

void watch_table(const struct watch *w, int64_t steps, FILE *to)
{
    struct line lines[OP_COUNT] = { { 0 } }, sum = { 0 };
    double by = steps > 0 ? (double)steps : 1;

    for (int i = 0; i < OP_COUNT; i++) {
        lines[i].op = (enum op)i;
    }
    for (int i = 0; i < w->program_count; i++) {
        add_program(w, i, lines);
    }
    for (int i = 0; i < OP_COUNT; i++) {
        sum.calls += lines[i].calls;
        sum.seconds += lines[i].seconds;
        sum.flops += lines[i].flops;
    }
    if (sum.calls == 0) {
        fprintf(to, "time by op: nothing ran\n");
        return;
    }
    qsort(lines, OP_COUNT, sizeof lines[0], by_seconds);
    fprintf(to, "%-14s %8s %11s %10s %7s %9s\n", "op", "calls", "ms", "ms a call", "share",
            "GFLOP/s");
    for (int i = 0; i < OP_COUNT; i++) {
        if (lines[i].calls > 0) {
            print_line(&lines[i], op_name(lines[i].op), sum.seconds, by, to);
        }
    }
    print_line(&sum, "all", sum.seconds, by, to);
}

/* ---- the trace ---- */

/* Names come from tensor names, which may hold anything. */
static void print_quoted(const char *text, FILE *to)
{
    fputc('"', to);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            fputc('\\', to);
        }
        if ((unsigned char)*text < 0x20) {
            fprintf(to, "\\u%04x", (unsigned)*text);
        } else {
            fputc(*text, to);
        }
    }
    fputc('"', to);
}

static void print_event(const struct watch *w, const struct watch_event *e, int rank, int thread,
                        FILE *to)
{
    const struct program *p = w->programs[e->program];
    const struct node *n = &p->nodes[e->node];
    val first = n->out[0].id != 0 ? n->out[0] : n->in[0];

    fputs(",\n{\"ph\":\"X\",\"name\":", to);
    print_quoted(op_name(n->op), to);
    fprintf(to, ",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{",
            p->name, rank, thread, (e->begin - w->start) * 1e6, (e->end - e->begin) * 1e6);
    fprintf(to, "\"node\":%d,\"value\":", e->node);
    print_quoted(value_of(p, first)->name, to);
    fputs("}}", to);
}

static void print_trace(const struct watch *w, int rank, FILE *to)
{
    int64_t lost = 0;

    for (int t = 0; t < w->thread_count; t++) {
        lost += w->threads[t].lost;
    }
    fprintf(to,
            "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"lost_events\":%lld},\"traceEvents\":[\n"
            "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}",
            (long long)lost, rank, rank);
    for (int t = 0; t < w->thread_count; t++) {
        for (int64_t i = 0; i < w->threads[t].count; i++) {
            print_event(w, &w->threads[t].events[i], rank, t, to);
        }
    }
    fputs("\n]}\n", to);
}

static status open_trace(const char *path, FILE **out)
{
    *out = fopen(path, "we");
    return *out != NULL
               ? OK
               : fail(ERR_IO, "%s: cannot be opened for writing: %s", path, strerror(errno));
}

status watch_trace_try(const char *path)
{
    FILE *to;

    TRY(open_trace(path, &to));
    fclose(to);
    return OK;
}

status watch_trace(const struct watch *w, const char *path, int rank)
{
    FILE *to;
    bool whole;

    TRY(open_trace(path, &to));
    print_trace(w, rank, to);
    whole = !ferror(to);
    if (fclose(to) != 0 || !whole) {
        return fail(ERR_IO, "%s: the trace could not be written: %s", path, strerror(errno));
    }
    return OK;
}
