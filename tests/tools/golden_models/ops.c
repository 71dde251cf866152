/* Single operations, through the kernel table of every family that this machine runs. */
#include "tools/golden_models/ops.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include "base/file.h"
#include "base/text.h"
#include "model/spec.h"

/* ---- tensors of an operation ---- */

static const char *full_name(struct op_case *o, const char *what)
{
    return arena_format(&o->arena, "%s.%s", o->name, what);
}

static status extents(struct op_case *o, const struct tensor_entry *e, const char *name, int rank, va_list list)
{
    if (e == NULL || e->rank != rank) {
        return fail(ERR_FORMAT, "%s: tensor %s must be there and have rank %d", o->file->path, name, rank);
    }
    for (int i = 0; i < rank; i++) {
        int64_t *extent = va_arg(list, int64_t *);

        if (*extent == 0) {
            *extent = e->shape[i];
        }
        if (*extent != e->shape[i]) {
            return fail(ERR_FORMAT, "%s: extent %d of %s is %lld, expected was %lld", o->file->path, i, name,
                        (long long)e->shape[i], (long long)*extent);
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
    check(dtype_convert(DT_F64, mine, o->kernels->real, found, (size_t)count), "kernels compute in floats");
    apart = largest_difference(mine, truth, count);
    worst_see(&o->worst, apart == 0 ? 0 : apart / largest_magnitude(truth, count), o->tolerance, arena_text(&o->arena, what));
    return OK;
}

/* ---- the operations ---- */

static status linear(struct op_case *o)
{
    int64_t T = 0, K = 0, N = 0;
    struct linear_args a = { .B = 1, .scale = 1 };
    struct bias_args b = { .B = 1 };
    void *x, *w, *bias, *dy;

    TRY(op_read(o, "x", &x, 2, &T, &K));
    TRY(op_read(o, "w", &w, 2, &N, &K));
    TRY(op_read(o, "b", &bias, 1, &N));
    TRY(op_read(o, "d_y", &dy, 2, &T, &N));
    a.x = x, a.w = w, a.dy = dy;
    a.S = T, a.K = K, a.N = N;
    a.ldx = a.lddx = K;
    a.ldy = a.lddy = N;
    a.y = op_out(o, T * N);
    a.dx = op_out(o, T * K);
    a.dw = op_sum(o, N * K);
    a.scratch = op_scratch(o, o->kernels->linear_scratch(&a, OP_THREADS));
    b.S = T, b.N = N;
    b.ldx = b.ldy = b.lddy = N;
    b.x = b.y = a.y;
    b.b = bias;
    b.dy = dy;
    b.db = op_sum(o, N);
    b.scratch = op_scratch(o, o->kernels->bias_scratch(&b, OP_THREADS));
    FOR_TEAM(t) { o->kernels->linear(&a, t); }
    FOR_TEAM(t) { o->kernels->bias(&b, t); }
    FOR_TEAM(t) { o->kernels->linear_dx(&a, t); }
    FOR_TEAM(t) { o->kernels->linear_dw(&a, t); }
    FOR_TEAM(t) { o->kernels->bias_dw(&b, t); }
    TRY(op_expect(o, "y", b.y, T * N));
    TRY(op_expect(o, "d_x", a.dx, T * K));
    TRY(op_expect(o, "d_w", a.dw, N * K));
    return op_expect(o, "d_b", b.db, N);
}

static status rmsnorm(struct op_case *o)
{
    int64_t T = 0, D = 0;
    struct rmsnorm_args a = { .B = 1 };
    void *x, *w, *dy;

    TRY(op_read(o, "x", &x, 2, &T, &D));
    TRY(op_read(o, "w", &w, 1, &D));
    TRY(op_read(o, "d_y", &dy, 2, &T, &D));
    TRY(op_number(o, "eps", &a.eps));
    a.x = x, a.w = w, a.dy = dy;
    a.S = T, a.D = D;
    a.y = op_out(o, T * D);
    a.rstd = op_out(o, T);
    a.dx = op_out(o, T * D);
    a.dw = op_sum(o, D);
    a.scratch = op_scratch(o, o->kernels->rmsnorm_scratch(&a, OP_THREADS));
    FOR_TEAM(t) { o->kernels->rmsnorm(&a, t); }
    FOR_TEAM(t) { o->kernels->rmsnorm_dx(&a, t); }
    FOR_TEAM(t) { o->kernels->rmsnorm_dw(&a, t); }
    TRY(op_expect(o, "y", a.y, T * D));
    TRY(op_expect(o, "d_x", a.dx, T * D));
    return op_expect(o, "d_w", a.dw, D);
}

static status rope_spec_of(struct op_case *o, struct rope_spec *r)
{
    double original;

    *r = (struct rope_spec) { .kind = ROPE_DEFAULT, .theta = op_number_or(o, "theta", 0) };
    if (json_object_get(o->params, "rope_type") == NULL) {
        return r->theta > 0 ? OK : fail(ERR_FORMAT, "%s: %s has no theta", o->path, o->name);
    }
    TRY(op_number(o, "rope_theta", &r->theta));
    TRY(op_number(o, "factor", &r->factor));
    TRY(op_number(o, "low_freq_factor", &r->low));
    TRY(op_number(o, "high_freq_factor", &r->high));
    TRY(op_number(o, "original_max_position_embeddings", &original));
    r->original = (int64_t)original;
    r->kind = ROPE_LLAMA3;
    return OK;
}

/* Each frequency by itself, so that the slowest count as much as the fastest. */
static status see_frequencies(struct op_case *o, const char *what, const struct rope_spec *r, int64_t d)
{
    double *truth, *mine = arena_take_array(&o->arena, (size_t)d / 2, sizeof *mine);

    TRY(op_doubles(o, what, d / 2, &truth));
    rope_frequencies(r, d, mine);
    for (int64_t i = 0; i < d / 2; i++) {
        worst_see(&o->worst, relative(mine[i], truth[i]), tolerances_of(DT_F64)->kernel,
                  arena_format(&o->arena, "%s[%lld]", what, (long long)i));
    }
    return OK;
}

static status frequencies(struct op_case *o)
{
    struct rope_spec scaled, plain;
    double d;

    TRY(rope_spec_of(o, &scaled));
    TRY(op_number(o, "d", &d));
    plain = (struct rope_spec) { .kind = ROPE_DEFAULT, .theta = scaled.theta };
    TRY(see_frequencies(o, "before", &plain, (int64_t)d));
    return see_frequencies(o, "after", &scaled, (int64_t)d);
}

static status rope(struct op_case *o)
{
    int64_t T = 0, H = 0, d = 0;
    struct rope_angles_args angles = { 0 };
    struct rope_args a;
    struct rope_spec spec;
    double *inv_freq;
    int32_t *positions;
    void *x, *dy, *dx;

    TRY(op_read(o, "x", &x, 3, &T, &H, &d));
    TRY(op_read(o, "d_y", &dy, 3, &T, &H, &d));
    TRY(op_integers(o, "positions", T, &positions));
    TRY(op_doubles(o, "inv_freq", d / 2, &inv_freq));
    TRY(rope_spec_of(o, &spec));
    TRY(see_frequencies(o, "inv_freq", &spec, d));
    angles = (struct rope_angles_args) { .positions = positions, .inv_freq = inv_freq, .out = op_out(o, T * d), .T = T, .d = d };
    a = (struct rope_args) { .x = x, .angles = angles.out, .y = op_out(o, T * H * d), .T = T, .width = H * d, .heads = H, .d = d };
    FOR_TEAM(t) { o->kernels->rope_angles(&angles, t); }
    FOR_TEAM(t) { o->kernels->rope(&a, t); }
    TRY(op_expect(o, "y", a.y, T * H * d));
    dx = op_out(o, T * H * d);
    a.x = dy, a.y = dx, a.inverse = true;
    FOR_TEAM(t) { o->kernels->rope(&a, t); }
    return op_expect(o, "d_x", dx, T * H * d);
}

/* Puts columns [at, at + F) of rows of 2 F together, or takes them apart. */
static void half(const struct op_case *o, void *both, void *one, int64_t T, int64_t F, int64_t at, bool join)
{
    size_t width = dtype_bytes(o->kernels->real), bytes = (size_t)F * width;

    for (int64_t t = 0; t < T; t++) {
        char *in_both = (char *)both + (size_t)(t * 2 * F + at) * width, *in_one = (char *)one + (size_t)(t * F) * width;

        memcpy(join ? in_both : in_one, join ? in_one : in_both, bytes);
    }
}

static status swiglu(struct op_case *o)
{
    int64_t T = 0, F = 0;
    void *gate, *up, *dy, *h, *dgate, *dup;
    struct swiglu_args a;

    TRY(op_read(o, "gate", &gate, 2, &T, &F));
    TRY(op_read(o, "up", &up, 2, &T, &F));
    TRY(op_read(o, "d_y", &dy, 2, &T, &F));
    h = op_out(o, 2 * T * F);
    half(o, h, gate, T, F, 0, true);
    half(o, h, up, T, F, F, true);
    a = (struct swiglu_args) { .h = h, .dy = dy, .y = op_out(o, T * F), .dh = op_out(o, 2 * T * F), .T = T, .F = F };
    FOR_TEAM(t) { o->kernels->swiglu(&a, t); }
    FOR_TEAM(t) { o->kernels->swiglu_d(&a, t); }
    dgate = op_out(o, T * F);
    dup = op_out(o, T * F);
    half(o, a.dh, dgate, T, F, 0, false);
    half(o, a.dh, dup, T, F, F, false);
    TRY(op_expect(o, "y", a.y, T * F));
    TRY(op_expect(o, "d_gate", dgate, T * F));
    return op_expect(o, "d_up", dup, T * F);
}

static status starts_of(struct op_case *o, int64_t B, int64_t S, const int32_t **out)
{
    int32_t *documents, *starts;

    if (!op_has(o, "document_ids")) {
        return OK;
    }
    TRY(op_integers(o, "document_ids", B * S, &documents));
    starts = arena_take_array(&o->arena, (size_t)(B * S), sizeof *starts);
    for (int64_t i = 0; i < B * S; i++) {
        starts[i] = i % S == 0 || documents[i] != documents[i - 1] ? (int32_t)(i % S) : starts[i - 1];
    }
    *out = starts;
    return OK;
}

static status attention(struct op_case *o)
{
    int64_t B = 0, S = 0, H = 0, G = 0, d = 0;
    struct attention_args a = { .window = (int64_t)op_number_or(o, "window", 0) };
    void *q, *k, *v, *dy;

    TRY(op_read(o, "q", &q, 4, &B, &S, &H, &d));
    TRY(op_read(o, "k", &k, 4, &B, &S, &G, &d));
    TRY(op_read(o, "v", &v, 4, &B, &S, &G, &d));
    TRY(op_read(o, "d_y", &dy, 4, &B, &S, &H, &d));
    TRY(starts_of(o, B, S, &a.starts));
    a.q = q, a.k = k, a.v = v, a.dout = dy;
    a.B = B, a.S = S, a.H = H, a.G = G, a.d = d;
    a.ldq = a.ldo = a.lddq = a.lddo = H * d;
    a.ldk = a.ldv = a.lddk = a.lddv = G * d;
    a.scale = 1 / sqrt((double)d);
    a.o = op_out(o, B * S * H * d);
    a.lse = op_out(o, B * H * S);
    a.dq = op_out(o, B * S * H * d);
    a.dk = op_out(o, B * S * G * d);
    a.dv = op_out(o, B * S * G * d);
    a.scratch = op_scratch(o, o->kernels->attention_scratch(&a, OP_THREADS));
    FOR_TEAM(t) { o->kernels->attention(&a, t); }
    FOR_TEAM(t) { o->kernels->attention_d(&a, t); }
    TRY(op_expect(o, "y", a.o, B * S * H * d));
    TRY(op_expect(o, "d_q", a.dq, B * S * H * d));
    TRY(op_expect(o, "d_k", a.dk, B * S * G * d));
    return op_expect(o, "d_v", a.dv, B * S * G * d);
}

static void put(const struct op_case *o, void *at, int64_t i, double x)
{
    if (o->kernels->real == DT_F64) {
        ((double *)at)[i] = x;
    } else {
        ((float *)at)[i] = (float)x;
    }
}

static double get(const struct op_case *o, const void *at, int64_t i)
{
    return o->kernels->real == DT_F64 ? ((const double *)at)[i] : (double)((const float *)at)[i];
}

/* The whole vocabulary in one slice: loss and derivative in one pass. */
static void head_whole(struct op_case *o, struct head_args *a)
{
    a->scratch = op_scratch(o, o->kernels->head_scratch(a, OP_THREADS));
    for (int64_t step = 0; step < o->kernels->head_steps(a); step++) {
        FOR_TEAM(t) { o->kernels->head_backward(a, true, step, t); }
    }
}

/* Two slices, as two ranks of a split vocabulary have it: statistics, merging, two derivatives that are added. */
static void head_in_slices(struct op_case *o, const struct head_args *whole)
{
    int64_t T = whole->S, V = whole->rows, cut = V / 2;
    double *stats = op_out(o, 2 * T * 3);
    void *total = whole->dx, *part = op_out(o, T * V);
    struct head_args a[2] = { *whole, *whole }, merge = *whole;

    for (int i = 0; i < 2; i++) {
        a[i].first = i == 0 ? 0 : cut;
        a[i].rows = a[i].valid = i == 0 ? cut : V - cut;
        a[i].w = (const char *)whole->w + (size_t)(a[i].first * V) * dtype_bytes(o->kernels->real);
        a[i].stats = stats + i * T * 3;
        a[i].lse_in = whole->lse;
        a[i].dx = i == 0 ? total : part;
        a[i].scratch = op_scratch(o, o->kernels->head_scratch(&a[i], OP_THREADS));
        FOR_TEAM(t) { o->kernels->head_stats(&a[i], t); }
    }
    merge.stats_in = stats;
    merge.slices = 2;
    FOR_TEAM(t) { o->kernels->head_merge(&merge, t); }
    for (int i = 0; i < 2; i++) {
        for (int64_t step = 0; step < o->kernels->head_steps(&a[i]); step++) {
            FOR_TEAM(t) { o->kernels->head_backward(&a[i], false, step, t); }
        }
    }
    for (int64_t i = 0; i < T * V; i++) {
        put(o, total, i, get(o, total, i) + get(o, part, i));
    }
}

/* Our cross-entropy is part of the head, x w^T: with the identity as w its logits are x. */
static status see_cross_entropy(struct op_case *o, bool sliced)
{
    int64_t T = 0, V = 0, one = 1, count = 0;
    void *logits, *identity;
    int32_t *targets;
    double *dloss, mean;
    struct head_args a = { .B = 1, .slices = 1 };

    TRY(op_read(o, "logits", &logits, 2, &T, &V));
    TRY(op_integers(o, "target", T, &targets));
    TRY(op_doubles(o, "d_loss", one, &dloss));
    identity = op_sum(o, V * V);
    for (int64_t v = 0; v < V; v++) {
        put(o, identity, v * V + v, 1);
    }
    for (int64_t t = 0; t < T; t++) {
        targets[t] = targets[t] == -100 ? -1 : targets[t];
        count += targets[t] >= 0;
    }
    a.x = logits, a.w = identity, a.targets = targets;
    a.S = T, a.D = a.rows = a.valid = V;
    a.lse = op_out(o, T);
    a.loss = op_out(o, 1);
    a.dx = op_out(o, T * V);
    a.stats = op_out(o, T * 3);
    sliced ? head_in_slices(o, &a) : head_whole(o, &a);
    mean = count > 0 ? *a.loss / (double)count : *a.loss;
    for (int64_t i = 0; i < T * V; i++) {
        put(o, a.dx, i, get(o, a.dx, i) * *dloss / (double)(count > 0 ? count : 1));
    }
    put(o, identity, 0, mean); /* the loss is a double for every kernel; here it is compared as a real */
    TRY(op_expect(o, "loss", identity, 1));
    return op_expect(o, "d_logits", a.dx, T * V);
}

static status cross_entropy(struct op_case *o)
{
    TRY(see_cross_entropy(o, false));
    return see_cross_entropy(o, true);
}

static status embedding(struct op_case *o)
{
    int64_t T = 0, V = 0, D = 0;
    struct embed_args a = { .B = 1, .pad = (int64_t)op_number_or(o, "pad_token_id", -1) };
    void *w, *dy;
    int32_t *ids;

    TRY(op_read(o, "w", &w, 2, &V, &D));
    TRY(op_read(o, "d_y", &dy, 2, &T, &D));
    TRY(op_integers(o, "ids", T, &ids));
    a.ids = ids, a.w = w, a.dy = dy;
    a.S = T, a.D = D, a.rows = V;
    a.y = op_out(o, T * D);
    a.dw = op_sum(o, V * D);
    a.scratch = op_scratch(o, o->kernels->embed_scratch(&a, OP_THREADS));
    FOR_TEAM(t) { o->kernels->embed(&a, t); }
    FOR_TEAM(t) { o->kernels->embed_dw(&a, t); }
    TRY(op_expect(o, "y", a.y, T * D));
    return op_expect(o, "d_w", a.dw, V * D);
}

static status adamw(struct op_case *o)
{
    int64_t n = 0, steps = 0;
    const json_t *betas = json_object_get(o->params, "betas");
    struct adamw_args a = { .scale = 1, .beta1 = json_number_value(json_array_get(betas, 0)),
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
        FOR_TEAM(t) { /* the kernel takes a range, and one thread */
            struct adamw_args share = a;
            int64_t from, to;
            size_t width = dtype_bytes(o->kernels->real);

            team_share(t, n, &from, &to);
            share.w = (char *)a.w + (size_t)from * width;
            share.m = (char *)a.m + (size_t)from * width;
            share.v = (char *)a.v + (size_t)from * width;
            share.g = (const char *)a.g + (size_t)from * width;
            share.count = to - from;
            o->kernels->adamw(&share, (struct team) { 0, 1 });
        }
        memcpy((char *)after + (size_t)step * bytes, w, bytes);
    }
    TRY(op_expect(o, "p_after", after, steps * n));
    TRY(op_expect(o, "m", a.m, n));
    return op_expect(o, "v", a.v, n);
}

/* ---- the table ---- */

static const struct op_row {
    const char *begins; /* names that begin so, unless an earlier row took them */
    bool once;          /* computes in double, without kernels */
    status (*run)(struct op_case *o);
} rows[] = {
    { "linear", false, linear },
    { "rmsnorm", false, rmsnorm },
    { "rope_frequencies", true, frequencies },
    { "rope", false, rope },
    { "swiglu", false, swiglu },
    { "attention", false, attention },
    { "cross_entropy", false, cross_entropy },
    { "embedding", false, embedding },
    { "adamw", false, adamw },
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

static void see_op(struct golden *g, const struct op_row *row, struct op_case *o, const json_t *about)
{
    const struct tolerances *t = tolerances_of(o->kernels->real);
    const char *label = row->once ? o->name
                                  : arena_format(&o->arena, "%s %s, %s", o->name, real_name(o->kernels->real), o->kernels->family);

    o->params = json_object_get(about, "params");
    o->tolerance = fmax(t->kernel, t->kernel_factor * json_number_value(json_object_get(about, "f32_error_rel")));
    if (check_ok(g, row->run(o), "%s", label)) {
        check_worst(g, &o->worst, "%s", label);
    }
    arena_release(&o->arena);
}

static void see_op_everywhere(struct golden *g, const struct tensor_file *f, const char *path, const char *name, const json_t *about)
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
               check_ok(g, tensor_file_open(&f, &a, path_join(&a, g->folder, "kernels.safetensors")), "kernels.safetensors")) {
        json_object_foreach(j, name, about)
        {
            see_op_everywhere(g, &f, path, name, about);
        }
    }
    tensor_file_close(&f);
    json_decref(j);
    arena_release(&a);
}
