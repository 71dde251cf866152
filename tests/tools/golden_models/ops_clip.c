/* clip: norm over several gradients and the factor, as the program `update` forms them. */
#include "tools/golden_models/ops.h"

#include <string.h>
#include "comm/comm.h"
#include "program/device.h"

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
        m->ranges[m->count] = (struct block_range) { 0, blocks };
        m->gradients[m->count] = program_grad_state(&m->p, arena_format(&o->arena, "grad.g%d", m->count), o->kernels->real,
                                                    shape_1(blocks * BLOCK), whole);
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
