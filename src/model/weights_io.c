/* Weights into the device and out of it: initial values, files, whole tensors from all ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "model/weights.h"

enum { CHUNK = 1 << 16 };

static val flat_value(const struct program *p, const char *prefix, const struct weight_segment *g)
{
    char name[128];
    val v;

    snprintf(name, sizeof name, "%s%s", prefix, g->name);
    v = program_find(p, name);
    check(v.id != 0, "program %s has no %s", p->name, name);
    return v;
}

val weights_master(const struct program *p, const struct weight_segment *g)
{
    char name[128];
    val v;

    snprintf(name, sizeof name, "master.%s", g->name);
    v = program_find(p, name);
    return v.id != 0 ? v : flat_value(p, "weight.", g);
}

/* Into the value, in its own type; count <= CHUNK. */
static void put(struct device *d, const struct program *p, val flat, int64_t at, int64_t count,
                const double *wide, void *narrow)
{
    enum dtype t = program_value(p, flat)->dtype;

    check(dtype_convert(t, narrow, DT_F64, wide, (size_t)count), "weights in %s", dtype_name(t));
    device_write(d, p, flat, at, count, narrow);
}

/* ---- initial values ---- */

struct filling {
    const struct weights *w;
    struct philox_stream stream;
    const struct weight_part *part;
};

/* Elements of one row of the part, which begin at the given column of the whole tensor. */
static void initial_values(const struct filling *f, int64_t row, int64_t column, int64_t count,
                           double *out)
{
    const struct weight_part *q = f->part;
    bool random =
        q->init != INIT_ZERO && q->init != INIT_ONE && !(q->kind == PART_EMBED && row == f->w->pad);

    if (random) {
        philox_normals(&f->stream, (uint64_t)(row * q->whole[1] + column), (size_t)count, out);
    }
    for (int64_t i = 0; i < count; i++) {
        out[i] = random ? f->w->init_std * out[i] : q->init == INIT_ONE ? 1 : 0;
    }
}

static void fill_chunk(const struct filling *f, struct device *d, const struct program *p, val flat,
                       int64_t first, int64_t at, int64_t count)
{
    const struct weight_part *q = f->part;
    int64_t columns = q->to[1] - q->from[1];
    double wide[1024], narrow[1024];

    for (int64_t i = 0, n; i < count; i += n) {
        n = count - i < 1024 ? count - i : 1024;
        for (int64_t k = 0, run; k < n; k += run) {
            int64_t row = (first + i + k) / columns, column = (first + i + k) % columns;

            run = columns - column < n - k ? columns - column : n - k;
            initial_values(f, q->from[0] + row, q->from[1] + column, run, wide + k);
        }
        put(d, p, flat, at + i, n, wide, narrow);
    }
}

void weights_init(const struct weights *w, struct device *d, const struct program *p, uint64_t seed)
{
    for (int i = 0; i < w->count; i++) {
        const struct weight_segment *g = &w->segments[i];
        struct weight_piece *pieces = calloc((size_t)g->count, sizeof *pieces);
        val flat = weights_master(p, g);
        int count;

        check(pieces != NULL, "out of memory");
        count = weights_pieces(w, g, pieces);
        device_fill_zero(d, p, flat);
        for (int k = 0; k < count; k++) {
            struct filling f = { w, philox_stream_make(seed, pieces[k].part->name),
                                 pieces[k].part };
            int64_t chunks = (pieces[k].count + CHUNK - 1) / CHUNK;

#pragma omp parallel for num_threads(d->threads) schedule(dynamic)
            for (int64_t c = 0; c < chunks; c++) {
                int64_t from = c * CHUNK,
                        n = pieces[k].count - from < CHUNK ? pieces[k].count - from : CHUNK;

                fill_chunk(&f, d, p, flat, pieces[k].first + from, pieces[k].at + from, n);
            }
        }
        free(pieces);
    }
}

/* ---- from files ---- */

static status entry_fits(const struct tensor_folder *f, const struct tensor_entry *e,
                         const struct weight_part *q)
{
    const char *path = f->files[e->file].path;

    if (e->dtype != DT_F32 && e->dtype != DT_BF16 && e->dtype != DT_F16 && e->dtype != DT_F64) {
        return fail(ERR_FORMAT, "%s: tensor %s is stored as %s; weights are F32, BF16, F16 or F64",
                    path, e->name, dtype_name(e->dtype));
    }
    if (e->rank != q->rank || e->shape[0] != q->whole[0] ||
        (q->rank == 2 && e->shape[1] != q->whole[1])) {
        char have[96] = "", want[96];
        size_t at = 0;

        for (int i = 0; i < e->rank && at < sizeof have - 24; i++) {
            at += (size_t)snprintf(have + at, sizeof have - at, "%s%lld", i > 0 ? ", " : "",
                                   (long long)e->shape[i]);
        }
        snprintf(want, sizeof want, q->rank == 2 ? "%lld, %lld" : "%lld", (long long)q->whole[0],
                 (long long)q->whole[1]);
        return fail(ERR_FORMAT,
                    "%s: tensor %s has the shape [%s]; the model's configuration makes it [%s]",
                    path, e->name, have, want);
    }
    return OK;
}

static status all_finite(const struct tensor_folder *f, const struct tensor_entry *e,
                         const double *values, int64_t first, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) {
            return fail(
                ERR_FORMAT,
                "%s: tensor %s: element %lld is %s; a model with such weights cannot be used",
                f->files[e->file].path, e->name, (long long)(first + i),
                isnan(values[i]) ? "NaN" : "infinite");
        }
    }
    return OK;
}

/* Elements that follow each other in the file: a run of one row, or of whole rows. */
static status load_run(struct device *d, const struct program *p, val flat,
                       const struct tensor_folder *f, const struct tensor_entry *e, int64_t from,
                       int64_t at, int64_t count, double *wide, double *narrow)
{
    for (int64_t i = 0; i < count; i += CHUNK) {
        int64_t n = count - i < CHUNK ? count - i : CHUNK;

        TRY(tensor_folder_read(f, e, from + i, n, DT_F64, wide));
        TRY(all_finite(f, e, wide, from + i, n));
        put(d, p, flat, at + i, n, wide, narrow);
    }
    return OK;
}

static status load_piece(struct device *d, const struct program *p, val flat,
                         const struct tensor_folder *f, const struct weight_piece *piece,
                         double *wide, double *narrow)
{
    const struct weight_part *q = piece->part;
    const struct tensor_entry *e = tensor_folder_find(f, q->name);
    int64_t columns = q->to[1] - q->from[1], element = piece->first,
            end = piece->first + piece->count;

    if (e == NULL) {
        return fail(ERR_MISSING, "%s: tensor %s is not in the model's files", f->files[0].path,
                    q->name);
    }
    TRY(entry_fits(f, e, q));
    while (element < end) {
        int64_t row = element / columns, column = element % columns;
        int64_t run = columns == q->whole[1] ? end - element : columns - column;

        run = run < end - element ? run : end - element;
        TRY(load_run(d, p, flat, f, e, (q->from[0] + row) * q->whole[1] + q->from[1] + column,
                     piece->at + element - piece->first, run, wide, narrow));
        element += run;
    }
    return OK;
}

static status load_segment(const struct weights *w, struct device *d, const struct program *p,
                           const struct tensor_folder *f, const struct weight_segment *g,
                           double *wide, double *narrow)
{
    struct arena a = { 0 };
    struct weight_piece *pieces = arena_take_array(&a, (size_t)g->count, sizeof *pieces);
    val flat = weights_master(p, g);
    int count = weights_pieces(w, g, pieces);
    status s = OK;

    device_fill_zero(d, p, flat);
    for (int i = 0; i < count && s == OK; i++) {
        s = load_piece(d, p, flat, f, &pieces[i], wide, narrow);
    }
    arena_release(&a);
    return s;
}

status weights_load(const struct weights *w, struct device *d, const struct program *p,
                    const struct tensor_folder *f, int *extra)
{
    struct arena a = { 0 };
    double *wide = arena_take_array(&a, CHUNK, sizeof *wide);
    double *narrow = arena_take_array(&a, CHUNK, sizeof *narrow);
    int wanted = 0;
    status s = OK;

    /* Every tensor must be there and fit, whichever rank reads it. */
    for (int i = 0; i < w->count && s == OK; i++) {
        for (int k = 0; k < w->segments[i].count && s == OK; k++) {
            const struct weight_part *q = &w->segments[i].parts[k];
            const struct tensor_entry *e = tensor_folder_find(f, q->name);

            wanted++;
            s = e == NULL ? fail(ERR_MISSING, "%s: tensor %s is not in the model's files",
                                 f->files[0].path, q->name)
                          : entry_fits(f, e, q);
        }
    }
    for (int i = 0; i < w->count && s == OK; i++) {
        s = load_segment(w, d, p, f, &w->segments[i], wide, narrow);
    }
    *extra = (int)f->by_name.count - wanted;
    arena_release(&a);
    return s;
}

/* ---- whole tensors from all ranks ---- */

/* What all members of a group hold, in one buffer from `a`; of a group of one it is `mine`. */
static status gather_over(const struct mesh *m, axes over, enum dtype t, const char *mine,
                          int64_t n, struct arena *a, const char **out)
{
    int members = mesh_length(m, over);
    char *all;
    struct collective what = { .kind = COMM_GATHER, .dtype = t, .in = mine, .n = n };

    *out = mine;
    if (members == 1) {
        return OK;
    }
    all = arena_take_array(a, (size_t)n * (size_t)members, dtype_bytes(t));
    *out = what.out = all;
    return comm_run(mesh_comm(m, over), &what);
}

/* The whole tensor from the flat buffers of all TP members. */
static void assemble(const struct weights *w, const struct weight_part *part, const char *flats,
                     int64_t flat_count, size_t width, char *whole)
{
    for (int t = 0; t < (part->tp == WHOLE ? 1 : w->mesh->size[AXIS_TP]); t++) {
        int dim = part->tp - 1;
        int64_t from[2] = { 0, 0 }, to[2] = { part->whole[0], part->whole[1] };
        const char *in = flats + (size_t)(t * flat_count + part->at) * width;

        if (part->tp != WHOLE) {
            from[dim] =
                part->local[dim] * t < part->whole[dim] ? part->local[dim] * t : part->whole[dim];
            to[dim] = from[dim] + part->local[dim] < part->whole[dim] ? from[dim] + part->local[dim]
                                                                      : part->whole[dim];
        }
        for (int64_t row = from[0]; row < to[0]; row++) {
            size_t run = (size_t)(to[1] - from[1]) * width;

            memcpy(whole + (size_t)(row * part->whole[1] + from[1]) * width, in, run);
            in += run;
        }
    }
}

/* Copies are made only of what several ranks hold parts of: memory is short where this is called. */
static status collect_segment(const struct weights *w, const struct device *d,
                              const struct program *p, val flat, const struct weight_segment *g,
                              weights_each_fn *each, void *user)
{
    int T = w->mesh->size[AXIS_TP];
    int64_t shard = g->shard_blocks * WEIGHT_BLOCK,
            whole = shard * mesh_length(w->mesh, AXES_SHARD), largest = 0;
    enum dtype type = program_value(p, flat)->dtype;
    size_t width = dtype_bytes(type);
    struct arena a = { 0 };
    const char *all, *flats;
    char *tensor;
    status s;

    TRY_OR(release, s,
           gather_over(w->mesh, AXES_SHARD, type, device_bytes(d, p, flat), shard, &a, &all));
    TRY_OR(release, s, gather_over(w->mesh, AXES_TP, type, all, whole, &a, &flats));
    for (int i = 0; i < g->count; i++) {
        int64_t count = g->parts[i].whole[0] * g->parts[i].whole[1];

        largest = count > largest ? count : largest;
    }
    tensor = T > 1 ? arena_take_array(&a, (size_t)largest, width) : NULL;
    for (int i = 0; i < g->count; i++) {
        const struct weight_part *part = &g->parts[i];

        if (T > 1) {
            assemble(w, part, flats, whole, width, tensor);
        }
        TRY_OR(release, s,
               each(user, part, type, T > 1 ? tensor : flats + (size_t)part->at * width));
    }
release:
    arena_release(&a);
    return s;
}

status weights_collect(const struct weights *w, const struct device *d, const struct program *p,
                       const char *prefix, weights_each_fn *each, void *user)
{
    for (int i = 0; i < w->count; i++) {
        const struct weight_segment *g = &w->segments[i];
        val flat = strcmp(prefix, "master.") == 0 ? weights_master(p, g) : flat_value(p, prefix, g);

        TRY(collect_segment(w, d, p, flat, g, each, user));
    }
    return OK;
}
