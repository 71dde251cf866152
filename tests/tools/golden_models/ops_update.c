/* Operations of an update: adamw; clip, the norm over several gradients and the factor, as the
 * program `update` forms them. */
#include "tools/golden_models/ops.h"

#include <math.h>
#include <string.h>
#include "comm/comm.h"
#include "program/device.h"

status op_adamw_case(struct op_case *o)
{
    int64_t n = 0, steps = 0;
    const json_t *betas = json_object_get(o->params, "betas");
    struct adamw_args a = { .scale = 1,
                            .beta1 = json_number_value(json_array_get(betas, 0)),
                            .beta2 = json_number_value(json_array_get(betas, 1)) };
    size_t bytes;
    void *w, *grads, *after;
    double *rates;

    TRY(op_read(o, "p", &w, 1, &n));
    TRY(op_read(o, "grads", &grads, 2, &steps, &n));
    TRY(op_doubles(o, "lr", steps, &rates));
    TRY(op_number(o, "eps", &a.eps));
    TRY(op_number(o, "weight_decay", &a.decay));
    bytes = (size_t)n * dtype_bytes(o->kernels->real);
    after = op_out(o, steps * n);
    a.w = w, a.count = n;
    a.m = op_sum(o, n);
    a.v = op_sum(o, n);
    for (int64_t step = 0; step < steps; step++) {
        a.g = (char *)grads + (size_t)step * bytes;
        a.lr = rates[step];
        a.correction1 = 1 - pow(a.beta1, (double)(step + 1));
        a.correction2 = 1 - pow(a.beta2, (double)(step + 1));
        FOR_TEAM(t)
        { /* the kernel takes a range, and one thread */
            struct adamw_args share = a;
            int64_t from, to;
            size_t width = dtype_bytes(o->kernels->real);

            team_share(t, n, &from, &to);
            share.w = (char *)a.w + (size_t)from * width;
            share.m = (char *)a.m + (size_t)from * width;
            share.v = (char *)a.v + (size_t)from * width;
            share.g = (char *)a.g + (size_t)from * width;
            share.count = to - from;
            o->kernels->adamw(&share, (struct team){ 0, 1 });
        }
        memcpy((char *)after + (size_t)step * bytes, w, bytes);
    }
    TRY(op_expect(o, "p_after", after, steps * n));
    TRY(op_expect(o, "m", a.m, n));
    return op_expect(o, "v", a.v, n);
}

/* ---- clip ---- */

enum { BLOCK = 1024, GRADIENTS = 16 };

struct clip_machine {
    struct comm alone;
    struct mesh mesh;
    struct program p;
    struct residents residents;
    struct device device;
    struct block_range ranges[GRADIENTS];
    val gradients[GRADIENTS], scalars, hyper, result;
    const struct tensor_entry *entries[GRADIENTS];
    int count;
};

static status write_program(struct op_case *o, struct clip_machine *m)
{
    static const int size[AXIS_COUNT] = { 1, 1, 1, 1, 1 };
    const struct place whole = { { 0 } };
    struct memory_plan plan;

    comm_alone(&m->alone);
    TRY(mesh_open(&m->mesh, &m->alone, size));
    program_init(&m->p, "clip", &o->arena, &m->mesh, o->kernels->real);
    m->scalars = program_state(&m->p, "scalars", DT_I64, shape_1(SCALAR_WORDS), whole);
    m->hyper = program_input(&m->p, "hyper", DT_F64, shape_1(HYPER_WORDS), whole);
    for (; m->count < GRADIENTS; m->count++) {
        const char *name = arena_format(&o->arena, "%s.g%d", o->name, m->count);
        const struct tensor_entry *e = m->entries[m->count] = tensor_file_find(o->file, name);
        int64_t blocks;

        if (e == NULL) {
            break;
        }
        blocks = (e->count + BLOCK - 1) / BLOCK;
        m->ranges[m->count] = (struct block_range){ 0, blocks };
        m->gradients[m->count] =
            program_grad_state(&m->p, arena_format(&o->arena, "grad.g%d", m->count),
                               o->kernels->real, shape_1(blocks * BLOCK), whole);
        op_norm(&m->p, m->gradients[m->count], m->scalars, &m->ranges[m->count], 1);
    }
    op_reduce(&m->p, m->scalars);
    m->result = op_clip(&m->p, m->scalars, m->hyper);
    program_keep(&m->p, m->result);
    TRY(program_plan(&m->p, &m->residents, o->kernels, OP_THREADS, &plan));
    return device_open(&m->device, o->kernels, &m->mesh, OP_THREADS, &m->residents);
}

static status run(struct op_case *o, struct clip_machine *m, double *result)
{
    double hyper[HYPER_WORDS] = { 0 };
    int64_t one = 1;

    TRY(op_number(o, "limit", &hyper[HYPER_CLIP]));
    TRY(write_program(o, m));
    for (int i = 0; i < m->count; i++) {
        const struct tensor_entry *e = m->entries[i];
        void *bytes = op_sum(o, e->count);

        TRY(tensor_file_read(o->file, e, 0, e->count, o->kernels->real, bytes));
        device_write(&m->device, &m->p, m->gradients[i], 0, e->count, bytes);
    }
    device_write(&m->device, &m->p, m->hyper, 0, HYPER_WORDS, hyper);
    device_write(&m->device, &m->p, m->scalars, SCALAR_COUNT, 1, &one);
    TRY(program_run(&m->p, &m->device, NULL));
    device_read(&m->device, &m->p, m->result, 0, CLIP_WORDS, result);
    return OK;
}

static status see(struct op_case *o, const char *what, double found)
{
    double *truth;

    TRY(op_doubles(o, what, 1, &truth));
    worst_see(&o->worst, relative(found, *truth), o->tolerance, what);
    return OK;
}

status op_clip_case(struct op_case *o)
{
    struct clip_machine m = { 0 };
    double result[CLIP_WORDS] = { 0 };
    status s;

    residents_init(&m.residents, &o->arena);
    s = run(o, &m, result);
    device_close(&m.device);
    residents_release(&m.residents);
    mesh_close(&m.mesh);
    comm_close(&m.alone);
    TRY(s);
    TRY(see(o, "norm", result[CLIP_NORM]));
    return see(o, "coef", result[CLIP_SCALE]);
}
