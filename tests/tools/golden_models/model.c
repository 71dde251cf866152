#include "tools/golden_models/golden.h"

#include <string.h>
#include "comm/comm.h"
#include "model/hf.h"
#include "model/model.h"
#include "program/device.h"

/* `learn` for loss and gradients, as training has it, and `judge` for the logits, which learn
 * never forms whole. */
struct machine {
    struct comm alone;
    struct mesh mesh;
    const struct kernels *kernels;
    struct model_spec spec;
    struct model model;
    struct program learn, judge;
    struct model_inputs learn_inputs, judge_inputs;
    val loss, logits;
    struct residents residents;
    struct device device;
};

static status write_programs(struct machine *m, const struct pass *p, struct arena *a)
{
    int64_t B = p->batch->B, S = p->batch->S;
    struct memory_plan plan;

    program_init(&m->learn, "learn", a, &m->mesh, p->real);
    m->learn_inputs = model_inputs(&m->learn, B, S);
    m->loss = model_loss(&m->learn, &m->model, &m->learn_inputs, p->flags | MODEL_TRAINS);
    program_keep(&m->learn, m->loss);
    TRY(program_backward(&m->learn, m->loss));
    program_init(&m->judge, "judge", a, &m->mesh, p->real);
    m->judge_inputs = model_inputs(&m->judge, B, S);
    m->logits = model_logits(&m->judge, &m->model, &m->judge_inputs);
    program_keep(&m->judge, m->logits);
    TRY(program_plan(&m->learn, &m->residents, m->kernels, p->threads, &plan));
    return program_plan(&m->judge, &m->residents, m->kernels, p->threads, &plan);
}

static status load(struct machine *m, const struct pass *p, struct arena *a)
{
    struct tensor_folder f = { 0 };
    int extra = 0;
    status s;

    TRY_OR(close_folder, s, tensor_folder_open(&f, a, p->folder));
    TRY_OR(close_folder, s, weights_load(m->model.weights, &m->device, &m->learn, &f, &extra));
    if (extra > 0) {
        s = fail(ERR_FORMAT, "%s: %d of its tensors were not used", p->folder, extra);
    }
close_folder:
    tensor_folder_close(&f);
    return s;
}

static status set_up(struct machine *m, struct pass *p, struct arena *a)
{
    static const int size[AXIS_COUNT] = { 1, 1, 1, 1, 1 };

    comm_alone(&m->alone);
    TRY(mesh_open(&m->mesh, &m->alone, size));
    TRY(kernels_find(p->real, &m->kernels));
    TRY(hf_config_read(&m->spec, a, p->folder));
    TRY(model_make(&m->model, a, &m->spec, &m->mesh));
    TRY(write_programs(m, p, a));
    TRY(device_open(&m->device, m->kernels, &m->mesh, p->threads, &m->residents));
    p->vocab = m->spec.vocab;
    return load(m, p, a);
}

static void put_batch(struct machine *m, const struct program *program,
                      const struct model_inputs *in, const struct batch *b)
{
    int64_t count = b->B * b->S;

    device_write(&m->device, program, in->ids, 0, count, b->ids);
    device_write(&m->device, program, in->targets, 0, count, b->targets);
    device_write(&m->device, program, in->positions, 0, count, b->positions);
    device_write(&m->device, program, in->starts, 0, count, b->starts);
}

static double *widen(struct arena *a, enum dtype real, const void *bytes, int64_t count)
{
    double *out = arena_take_array(a, (size_t)count, sizeof *out);

    check(dtype_convert(DT_F64, out, real, bytes, (size_t)count), "%s does not widen",
          dtype_name(real));
    return out;
}

struct collecting {
    struct pass *pass;
    struct arena *arena;
};

static status take_gradient(void *user, const struct weight_part *part, enum dtype type,
                            const void *bytes)
{
    struct collecting *c = user;
    struct gradient *g = arena_take(c->arena, sizeof *g);
    int64_t targets = c->pass->batch->valid;

    g->count = 1;
    for (int i = 0; i < part->rank; i++) {
        g->count *= part->whole[i];
    }
    g->values = widen(c->arena, type, bytes, g->count);
    for (int64_t i = 0; i < g->count && targets > 0; i++) {
        g->values[i] /= (double)targets;
    }
    map_put(&c->pass->gradients, arena_text(c->arena, part->name), g);
    return OK;
}

/* Before the next program runs: temporaries of all programs share their memory. */
static void read_loss(struct machine *m, struct pass *p)
{
    p->loss = 0;
    for (int64_t i = 0; i < p->batch->B; i++) {
        double one;

        device_read(&m->device, &m->learn, m->loss, i, 1, &one);
        p->loss += one;
    }
    p->loss = p->batch->valid > 0 ? p->loss / (double)p->batch->valid : 0;
}

static void read_logits(struct machine *m, struct pass *p, struct arena *a)
{
    int64_t count = p->batch->B * p->batch->S * p->vocab;
    enum dtype type = program_value(&m->judge, m->logits)->dtype;
    void *logits = arena_take_array(a, (size_t)count, dtype_bytes(type));

    device_read(&m->device, &m->judge, m->logits, 0, count, logits);
    p->logits = widen(a, type, logits, count);
}

static status run(struct machine *m, struct pass *p, struct arena *a)
{
    struct collecting c = { p, a };

    TRY(set_up(m, p, a));
    put_batch(m, &m->learn, &m->learn_inputs, p->batch);
    TRY(program_run(&m->learn, &m->device, NULL));
    read_loss(m, p);
    put_batch(m, &m->judge, &m->judge_inputs, p->batch);
    TRY(program_run(&m->judge, &m->device, NULL));
    read_logits(m, p, a);
    return weights_collect(m->model.weights, &m->device, &m->learn, "grad.weight.", take_gradient,
                           &c);
}

status pass_run(struct pass *p, struct arena *a)
{
    struct machine m = { 0 };
    status s;

    residents_init(&m.residents, a);
    s = run(&m, p, a);
    device_close(&m.device);
    residents_release(&m.residents);
    mesh_close(&m.mesh);
    comm_close(&m.alone);
    return s;
}

void pass_release(struct pass *p)
{
    map_release(&p->gradients);
}

static bool same_bits(const double *a, const double *b, int64_t count)
{
    return memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

const char *pass_difference(const struct pass *a, const struct pass *b)
{
    if (a->vocab != b->vocab || a->gradients.count != b->gradients.count) {
        return "the model's shape";
    }
    if (!same_bits(&a->loss, &b->loss, 1)) {
        return "the loss";
    }
    if (!same_bits(a->logits, b->logits, a->batch->B * a->batch->S * a->vocab)) {
        return "the logits";
    }
    for (size_t i = 0; i < a->gradients.count; i++) {
        const char *name = a->gradients.entries[i].key;
        const struct gradient *x = a->gradients.entries[i].value, *y;
        void *found;

        if (!map_find(&b->gradients, name, &found)) {
            return name;
        }
        y = found;
        if (x->count != y->count || !same_bits(x->values, y->values, x->count)) {
            return name;
        }
    }
    return NULL;
}
