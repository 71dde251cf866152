/* What one rank of a job will hold and compute: the very programs that it will run, built
 * without it. */
#include "train/trainer.h"

static void print_programs(const struct programs *s, FILE *to)
{
    program_print(&s->learn, to);
    program_print(&s->update, to);
    program_print(&s->judge, to);
}

static void sum_up(const struct train_spec *t, const struct mesh *mesh, const struct programs *s,
                   struct train_plan_report *out)
{
    const struct residents *r = &s->residents;
    int64_t step = program_flops(&s->learn) * t->accumulate;

    *out = (struct train_plan_report){
        .parameters = spec_parameters(&t->model),
        .weights = r->by_role[ROLE_WEIGHT],
        .gradients = r->by_role[ROLE_GRAD],
        .optimizer = r->by_role[ROLE_STATE],
        .inputs = r->by_role[ROLE_INPUT],
        .temporaries = r->temp_bytes,
        .total = r->bytes + r->temp_bytes,
        .temporaries_unshared = s->learn_plan.temp_sum,
        .flops_micro_batch = program_flops(&s->learn),
        .flops_step = step,
        .tokens_step = t->B * t->S * t->accumulate * mesh_data_size(mesh),
        .nodes = s->learn_plan.nodes + s->update_plan.nodes + s->judge_plan.nodes,
        .values = s->learn_plan.values + s->update_plan.values + s->judge_plan.values,
    };
    out->wire[AXIS_TP] = t->accumulate * program_wire_bytes(&s->learn, AXES_TP);
    out->wire[AXIS_DS] = t->accumulate * program_wire_bytes(&s->learn, AXES_SHARD);
    out->wire[AXIS_REPLICA] = t->accumulate * program_wire_bytes(&s->learn, AXES_SPREAD);
    out->checkpoint_bytes = 3 * out->parameters * (int64_t)dtype_bytes(kernels_sum(t->real));
}

status train_plan(const struct train_spec *t, int rank, struct train_plan_report *out,
                  FILE *programs)
{
    struct arena a = { 0 };
    struct mesh mesh;
    struct programs s = { 0 };
    const struct kernels *kernels;
    status st;

    TRY_OR(release, st, kernels_find(t->real, &kernels));
    TRY_OR(release, st, mesh_imagine(&mesh, rank, t->size));
    TRY_OR(release, st, programs_make(&s, &a, t, &mesh, kernels, t->threads > 0 ? t->threads : 2));
    sum_up(t, &mesh, &s, out);
    if (programs != NULL) {
        print_programs(&s, programs);
    }
release:
    programs_release(&s);
    arena_release(&a);
    return st;
}
