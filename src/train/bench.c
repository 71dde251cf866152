/* A recipe's programs without data, folders or other ranks: stepped, and timed node by node. */
#include "train/bench.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/philox.h"
#include "base/threads.h"
#include "model/family.h"
#include "train/trainer.h"

status bench_spec(struct train_spec *out, const struct bench_shape *s, enum dtype real)
{
    struct model_spec *m = &out->model;

    *out = (struct train_spec){ .name = "bench",
                                .recipe_text = "",
                                .real = real,
                                .B = s->B,
                                .S = s->S,
                                .accumulate = 1,
                                .val_B = 1,
                                .seed = 1,
                                .beta1 = 0.9,
                                .beta2 = 0.95,
                                .decay = 0.1,
                                .eps = 1e-8,
                                .grad_clip = 1,
                                .max_steps = 1 };
    out->schedule = (struct schedule){ .lr = 1e-4, .min_lr = 1e-5, .horizon = 1 };
    for (int a = 0; a < AXIS_COUNT; a++) {
        out->size[a] = 1;
    }
    spec_default(m, family_find("llama"));
    m->vocab = s->vocab;
    m->width = s->width;
    m->ffn = s->ffn;
    m->layers = s->layers;
    m->heads = s->heads;
    m->groups = s->groups;
    m->head_dim = 0;
    m->max_positions = s->S;
    m->tied = true;
    return spec_finish(m, "the shape to measure");
}

/* ---- the model ---- */

/* Ids from the seed, each scored at the position before; one document a row. */
static void feed(struct trainer *t)
{
    const struct program *p = &t->programs.learn;
    const struct model_inputs *in = &t->programs.learn_in;
    int64_t S = t->spec->S, count = t->spec->B * S;
    struct philox_stream s = philox_stream_make(t->spec->seed, "bench");

    for (int64_t i = 0; i < count; i++) {
        uint64_t words = (uint64_t)t->spec->model.vocab;

        t->batch.ids[i] = (int32_t)philox_below(&s, (uint64_t)i, words);
        t->batch.targets[i] =
            i % S == S - 1 ? -1 : (int32_t)philox_below(&s, (uint64_t)i + 1, words);
        t->batch.positions[i] = (int32_t)(i % S);
        t->batch.starts[i] = 0;
    }
    t->batch.valid = t->spec->B * (S - 1);
    device_write(&t->device, p, in->ids, 0, count, t->batch.ids);
    device_write(&t->device, p, in->targets, 0, count, t->batch.targets);
    device_write(&t->device, p, in->positions, 0, count, t->batch.positions);
    device_write(&t->device, p, in->starts, 0, count, t->batch.starts);
}

static status set_up(struct trainer *t)
{
    const struct train_spec *s = t->spec;

    TRY(mesh_imagine(&t->mesh, 0, s->size));
    TRY(kernels_find(s->real, &t->kernels));
    t->threads = threads_default(s->threads);
    TRY(programs_make(&t->programs, &t->run, s, &t->mesh, t->kernels, t->threads));
    TRY(device_open(&t->device, t->kernels, &t->mesh, t->threads, &t->programs.residents));
    weights_init(t->programs.model.weights, &t->device, &t->programs.update, s->seed);
    TRY(program_run(&t->programs.cast, &t->device, NULL));
    batch_make(&t->batch, &t->run, s->B, s->S);
    feed(t);
    return OK;
}

status bench_open(struct bench *b, const struct train_spec *spec)
{
    for (int a = 0; a < AXIS_COUNT; a++) {
        if (spec->size[a] != 1) {
            return fail(ERR_RECIPE,
                        "bench times the step of one rank, but the recipe splits its "
                        "work over %d; set trainer.devices=1, the degrees to 1",
                        spec->size[a]);
        }
    }
    b->spec = spec;
    b->t = calloc(1, sizeof *b->t);
    check(b->t != NULL, "out of memory");
    b->t->spec = spec;
    return set_up(b->t);
}

void bench_close(struct bench *b)
{
    if (b->t != NULL) {
        device_close(&b->t->device);
        programs_release(&b->t->programs);
        arena_release(&b->t->run);
        free(b->t);
        b->t = NULL;
    }
}

const struct kernels *bench_kernels(const struct bench *b)
{
    return b->t->kernels;
}

int bench_threads(const struct bench *b)
{
    return b->t->threads;
}

double bench_flops(const struct bench *b)
{
    return (double)program_flops(&b->t->programs.learn) * (double)b->spec->accumulate;
}

/* ---- a step ---- */

/* The number of targets, without which the update would change nothing, and its constants. */
static void write_step(struct trainer *t)
{
    const struct train_spec *s = t->spec;
    int64_t targets = t->batch.valid * s->accumulate;
    double hyper[HYPER_WORDS] = {
        [HYPER_LR] = 1e-5,          [HYPER_DECAY] = s->decay,
        [HYPER_BETA1] = s->beta1,   [HYPER_BETA2] = s->beta2,
        [HYPER_EPS] = s->eps,       [HYPER_STEP] = (double)++t->at.updates,
        [HYPER_CLIP] = s->grad_clip
    };

    device_write(&t->device, &t->programs.learn, t->programs.scalars, SCALAR_COUNT, 1, &targets);
    device_write(&t->device, &t->programs.update, t->programs.hyper, 0, HYPER_WORDS, hyper);
}

status bench_step(struct bench *b, double *seconds)
{
    struct trainer *t = b->t;
    double start = clock_seconds();

    for (int64_t i = 0; i < b->spec->accumulate; i++) {
        TRY(program_run(&t->programs.learn, &t->device, NULL));
    }
    write_step(t);
    TRY(program_run(&t->programs.update, &t->device, NULL));
    device_fill_zero(&t->device, &t->programs.update, t->programs.update_scalars);
    *seconds = clock_seconds() - start;
    return OK;
}

/* ---- node by node ---- */

/* What starting and ending a team costs: program_run does that once, node by node it is done for
 * each. */
static double team_seconds(int threads)
{
    double best = 1;

    for (int i = 0; i < 20; i++) {
        double start = clock_seconds(), took;

        for (int k = 0; k < 10; k++) {
#pragma omp parallel num_threads(threads)
            {
#pragma omp barrier
            }
        }
        took = (clock_seconds() - start) / 10;
        best = took < best ? took : best;
    }
    return best;
}

static status time_nodes(struct trainer *t, const struct program *p, double *seconds)
{
    for (int i = 0; i < p->node_count; i++) {
        double start = clock_seconds();

        TRY(program_run_node(p, &t->device, i));
        seconds[i] = clock_seconds() - start;
    }
    return OK;
}

/* The mean without the slowest: sums of it over nodes are what a step takes. */
static double typical(const double *all, int rounds, int stride)
{
    double sum = 0, most = 0;

    for (int r = 0; r < rounds; r++) {
        double seconds = all[(size_t)r * (size_t)stride];

        sum += seconds;
        most = seconds > most ? seconds : most;
    }
    return rounds > 1 ? (sum - most) / (rounds - 1) : sum;
}

static struct bench_op *row_of(struct bench_op *rows, int *count, enum op op, const char *shapes)
{
    for (int i = 0; i < *count; i++) {
        if (rows[i].op == op && strcmp(rows[i].shapes, shapes) == 0) {
            return &rows[i];
        }
    }
    rows[*count] = (struct bench_op){ .op = op, .shapes = shapes };
    return &rows[(*count)++];
}

/* Adds the nodes of a program, each `times` a step, to the rows; `seconds` are sums until the end. */
static void gather(struct arena *a, const struct program *p, int times, const double *all,
                   int rounds, int stride, double team, struct bench_op *rows, int *count)
{
    for (int i = 0; i < p->node_count; i++) {
        struct node_work w = program_node_work(p, i);
        double seconds = typical(all + i, rounds, stride) - team;
        struct bench_op *row;

        if (w.bytes == 0) {
            continue;
        }
        row = row_of(rows, count, p->nodes[i].op, program_node_shapes(p, i, a));
        row->work = w;
        row->count += times;
        row->seconds += (seconds > 1e-7 ? seconds : 1e-7) * times;
    }
}

static int most_time_first(const void *a, const void *b)
{
    const struct bench_op *x = a, *y = b;
    double s = x->seconds * x->count, t = y->seconds * y->count;

    return (s < t) - (s > t);
}

status bench_ops(struct bench *b, struct arena *a, int rounds, struct bench_op **out, int *count)
{
    struct trainer *t = b->t;
    const struct program *learn = &t->programs.learn, *update = &t->programs.update;
    int stride = learn->node_count + update->node_count;
    double *all, team = team_seconds(t->threads);

    all = arena_take_array(a, (size_t)stride * (size_t)rounds, sizeof *all);
    for (int r = 0; r < rounds; r++) {
        TRY(time_nodes(t, learn, all + r * stride));
        write_step(t);
        TRY(time_nodes(t, update, all + r * stride + learn->node_count));
        device_fill_zero(&t->device, update, t->programs.update_scalars);
    }
    *out = arena_take_array(a, (size_t)stride, sizeof **out);
    *count = 0;
    gather(a, learn, (int)b->spec->accumulate, all, rounds, stride, team, *out, count);
    gather(a, update, 1, all + learn->node_count, rounds, stride, team, *out, count);
    for (int i = 0; i < *count; i++) {
        (*out)[i].seconds /= (*out)[i].count;
    }
    qsort(*out, (size_t)*count, sizeof **out, most_time_first);
    return OK;
}

/* ---- what a model asks for ---- */

double model_flops_token(const struct model_spec *s, int64_t S)
{
    double D = (double)s->width, d = (double)s->head_dim, H = (double)s->heads,
           G = (double)s->groups, L = (double)s->layers;
    double products =
        L * (D * (H + 2 * G) * d + H * d * D + 3 * D * (double)s->ffn) + D * (double)s->vocab;
    int64_t W = s->window > 0 && s->window < S ? s->window : S;
    /* The first W positions see 1, 2, ... W keys, the others W. */
    double keys = ((double)W * (double)(W + 1) / 2 + (double)(S - W) * (double)W) / (double)S;

    return 6 * products + 12 * L * keys * H * d;
}
