/* Single operations, through the kernel table of every family that this machine runs. */
#include "tools/golden_models/ops.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include "base/file.h"
#include "base/text.h"

/* ---- tensors of an operation ---- */

static const char *full_name(struct op_case *o, const char *what)
{
    return arena_format(&o->arena, "%s.%s", o->name, what);
}

static status extents(struct op_case *o, const struct tensor_entry *e, const char *name, int rank,
                      va_list list)
{
    if (e == NULL || e->rank != rank) {
        return fail(ERR_FORMAT, "%s: tensor %s must be there and have rank %d", o->file->path, name,
                    rank);
    }
    for (int i = 0; i < rank; i++) {
        int64_t *extent = va_arg(list, int64_t *);

        if (*extent == 0) {
            *extent = e->shape[i];
        }
        if (*extent != e->shape[i]) {
            return fail(ERR_FORMAT, "%s: extent %d of %s is %lld, expected was %lld", o->file->path,
                        i, name, (long long)e->shape[i], (long long)*extent);
        }
    }
    return OK;
}

status op_read(struct op_case *o, const char *what, void **out, int rank, ...)
{
    const char *name = full_name(o, what);
    const struct tensor_entry *e = tensor_file_find(o->file, name);
    va_list list;
    status s;

    va_start(list, rank);
    s = extents(o, e, name, rank, list);
    va_end(list);
    TRY(s);
    *out = arena_take_array(&o->arena, (size_t)e->count, sizeof(double));
    return tensor_file_read(o->file, e, 0, e->count, o->kernels->real, *out);
}

status op_doubles(struct op_case *o, const char *what, int64_t count, double **out)
{
    return tensor_take(o->file, &o->arena, full_name(o, what), count, out);
}

status op_integers(struct op_case *o, const char *what, int64_t count, int32_t **out)
{
    double *wide;

    TRY(op_doubles(o, what, count, &wide));
    *out = arena_take_array(&o->arena, (size_t)count, sizeof **out);
    for (int64_t i = 0; i < count; i++) {
        (*out)[i] = (int32_t)wide[i];
    }
    return OK;
}

bool op_has(struct op_case *o, const char *what)
{
    return tensor_file_find(o->file, full_name(o, what)) != NULL;
}

status op_number(struct op_case *o, const char *key, double *out)
{
    return json_number_at(o->params, o->path, key, out);
}

double op_number_or(const struct op_case *o, const char *key, double otherwise)
{
    const json_t *v = json_object_get(o->params, key);

    return json_is_number(v) ? json_number_value(v) : otherwise;
}

void *op_out(struct op_case *o, int64_t count)
{
    void *out = arena_take_array(&o->arena, (size_t)count, sizeof(double));

    return memset(out, 0xff, (size_t)count * sizeof(double));
}

void *op_sum(struct op_case *o, int64_t count)
{
    return arena_take_array(&o->arena, (size_t)count, sizeof(double));
}

void *op_scratch(struct op_case *o, size_t bytes)
{
    uintptr_t at = (uintptr_t)arena_take(&o->arena, bytes + 64);

    return (void *)((at + 63) / 64 * 64);
}

status op_expect(struct op_case *o, const char *what, const void *found, int64_t count)
{
    const char *name = full_name(o, what);
    double *truth, *mine = arena_take_array(&o->arena, (size_t)count, sizeof *mine), apart;

    TRY(tensor_take(o->file, &o->arena, name, count, &truth));
    check(dtype_convert(DT_F64, mine, o->kernels->real, found, (size_t)count),
          "kernels compute in floats");
    apart = largest_difference(mine, truth, count);
    worst_see(&o->worst, apart == 0 ? 0 : apart / largest_magnitude(truth, count), o->tolerance,
              arena_text(&o->arena, what));
    return OK;
}

/* ---- the table ---- */

static const struct op_row {
    const char *begins; /* names that begin so, unless an earlier row took them */
    bool once;          /* computes in double, without kernels */
    status (*run)(struct op_case *o);
} rows[] = {
    { "linear", false, op_linear_case },
    { "rmsnorm", false, op_rmsnorm_case },
    { "rope_frequencies", true, op_frequencies_case },
    { "rope", false, op_rope_case },
    { "swiglu", false, op_swiglu_case },
    { "attention", false, op_attention_case },
    { "cross_entropy", false, op_cross_entropy_case },
    { "embedding", false, op_embedding_case },
    { "adamw", false, op_adamw_case },
    { "clip", false, op_clip_case },
};

static const struct op_row *row_of(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (text_starts(name, rows[i].begins)) {
            return &rows[i];
        }
    }
    return NULL;
}

static void see_op(struct golden *g, const struct op_row *row, struct op_case *o,
                   const json_t *about)
{
    const struct tolerances *t = tolerances_of(o->kernels->real);
    const char *label = row->once ? o->name
                                  : arena_format(&o->arena, "%s %s, %s", o->name,
                                                 real_name(o->kernels->real), o->kernels->family);

    o->params = json_object_get(about, "params");
    o->tolerance = fmax(t->kernel, t->kernel_factor *
                                       json_number_value(json_object_get(about, "f32_error_rel")));
    if (check_ok(g, row->run(o), "%s", label)) {
        check_worst(g, &o->worst, "%s", label);
    }
    arena_release(&o->arena);
}

static void see_op_everywhere(struct golden *g, const struct tensor_file *f, const char *path,
                              const char *name, const json_t *about)
{
    static const enum dtype reals[] = { DT_F64, DT_F32 };
    const struct op_row *row = row_of(name);

    if (row == NULL) {
        check_skip(g, "no such operation is built", "%s", name);
        return;
    }
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        const struct kernels *all[8];
        size_t count = kernels_all(reals[i], all);

        for (size_t k = 0; k < count; k++) {
            struct op_case o = { .file = f, .path = path, .name = name, .kernels = all[k] };

            if (!row->once || (i == 0 && k == 0)) {
                see_op(g, row, &o, about);
            }
        }
    }
}

void golden_ops(struct golden *g)
{
    struct arena a = { 0 };
    const char *path = path_join(&a, g->folder, "kernels.json"), *name;
    struct tensor_file f = { .fd = -1 };
    json_t *j = NULL, *about;

    if (!file_is_there(path)) {
        check_skip(g, "is not there", "kernels.json");
    } else if (check_ok(g, json_take(&a, path, &j), "kernels.json") &&
               check_ok(g,
                        tensor_file_open(&f, &a, path_join(&a, g->folder, "kernels.safetensors")),
                        "kernels.safetensors")) {
        json_object_foreach(j, name, about)
        {
            see_op_everywhere(g, &f, path, name, about);
        }
    }
    tensor_file_close(&f);
    json_decref(j);
    arena_release(&a);
}
