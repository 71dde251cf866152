/*
 * export_model IN OUT [--dtype bfloat16] [--limit BYTES] [--precision 64]
 *
 * Loads a model folder and exports it: what tests/interop gives to transformers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model/hf.h"
#include "model/model.h"

struct job {
    const char *in, *out;
    enum dtype dtype, real;
    int64_t limit;
};

static status load(const struct job *j, struct arena *a, const struct model *m, struct device *d,
                   const struct program *p)
{
    struct tensor_folder f = { 0 };
    int extra;
    status s;

    TRY_OR(close, s, tensor_folder_open(&f, a, j->in));
    s = weights_load(m->weights, d, p, &f, &extra);
close:
    tensor_folder_close(&f);
    return s;
}

/* The smallest program that holds all weights: the logits of one token. */
static status run(const struct job *j, struct arena *a, struct residents *residents,
                  struct device *d)
{
    static const int size[AXIS_COUNT] = { 1, 1, 1, 1, 1 };
    static struct comm alone;
    static struct mesh mesh;
    const struct kernels *kernels;
    struct model_spec spec;
    struct memory_plan plan;
    struct model_inputs in;
    struct program p;
    struct model m;

    comm_alone(&alone);
    TRY(mesh_open(&mesh, &alone, size));
    TRY(hf_config_read(&spec, a, j->in));
    TRY(kernels_find(j->real, &kernels));
    TRY(model_make(&m, a, &spec, &mesh));
    program_init(&p, "export", a, &mesh, j->real);
    in = model_inputs(&p, 1, 1);
    program_keep(&p, model_logits(&p, &m, &in));
    TRY(program_plan(&p, residents, kernels, 1, &plan));
    TRY(device_open(d, kernels, &mesh, 1, residents));
    TRY(load(j, a, &m, d, &p));
    return weights_export(m.weights, &spec, d, &p, j->out, j->dtype, j->limit);
}

static bool arguments(struct job *j, int count, char **words)
{
    for (int i = 1; i < count; i++) {
        const char *word = words[i], *next = i + 1 < count ? words[i + 1] : "";

        if (word[0] != '-') {
            *(j->in == NULL ? &j->in : &j->out) = word;
            continue;
        }
        i++;
        if (strcmp(word, "--dtype") == 0 && strcmp(next, "bfloat16") == 0) {
            j->dtype = DT_BF16;
        } else if (strcmp(word, "--precision") == 0 && strcmp(next, "64") == 0) {
            j->real = DT_F64;
        } else if (strcmp(word, "--limit") == 0 && atoll(next) > 0) {
            j->limit = atoll(next);
        } else {
            return false;
        }
    }
    return j->out != NULL;
}

int main(int count, char **words)
{
    struct job j = { .dtype = DT_F32, .real = DT_F32 };
    struct arena a = { 0 };
    struct residents residents;
    struct device d = { 0 };
    status s;

    if (!arguments(&j, count, words)) {
        fprintf(stderr, "usage: export_model IN OUT [--dtype bfloat16] [--limit BYTES] "
                        "[--precision 64]\n");
        return 2;
    }
    residents_init(&residents, &a);
    s = run(&j, &a, &residents, &d);
    if (s != OK) {
        fprintf(stderr, "%s\n", fail_text());
    }
    device_close(&d);
    residents_release(&residents);
    arena_release(&a);
    return status_exit_code(s);
}
