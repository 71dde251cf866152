/* kernels.safetensors: single operations with their gradients, straight through the kernel tables. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/exact.h"
#include "model/spec.h"
#include "program/device.h"
#include "tensor/kernels.h"
#include "tools/golden_models/golden.h"

static const struct team one = { 0, 1 };

struct trying {
    struct golden *g;
    struct arena arena;
    struct tensor_file file;
    const json_t *about; /* of the op */
    const char *op;
    const struct kernels *k;
    size_t width;
    double tolerance;
};

/* ---- tensors of an op ---- */

static const struct tensor_entry *entry_of(struct trying *t, const char *name)
{
    const struct tensor_entry *e = tensor_file_find(&t->file, arena_format(&t->arena, "%s.%s", t->op, name));

    check(e != NULL, "kernels.safetensors has no %s.%s", t->op, name);
    return e;
}

static int64_t extent(struct trying *t, const char *name, int dim)
{
    return entry_of(t, name)->shape[dim];
}

/* A tensor as the kernels have it. */
static void *real(struct trying *t, const char *name)
{
    const struct tensor_entry *e = entry_of(t, name);
    void *bytes = arena_take_array(&t->arena, (size_t)e->count, t->width);

    check(tensor_file_read(&t->file, e, 0, e->count, t->k->real, bytes) == OK, "%s", fail_text());
    return bytes;
}

static double *truth(struct trying *t, const char *name)
{
    const struct tensor_entry *e = entry_of(t, name);
    double *values = arena_take_array(&t->arena, (size_t)e->count, sizeof *values);

    check(tensor_file_read(&t->file, e, 0, e->count, DT_F64, values) == OK, "%s", fail_text());
    return values;
}

static int32_t *integers(struct trying *t, const char *name)
{
    const struct tensor_entry *e = entry_of(t, name);
    int32_t *values = arena_take_array(&t->arena, (size_t)e->count, sizeof *values);

    check(tensor_file_read(&t->file, e, 0, e->count, DT_I32, values) == OK, "%s", fail_text());
    return values;
}

static void *room(struct trying *t, int64_t count)
{
    return arena_take_array(&t->arena, (size_t)count, t->width);
}

static void *scratch(struct trying *t, size_t bytes)
{
    return (void *)(((uintptr_t)arena_take(&t->arena, bytes + 64) + 63) / 64 * 64);
}

static double param(const struct trying *t, const char *name, double fallback)
{
    return golden_number(json_object_get(t->about, "params"), name, fallback);
}

static void compare_wide(struct trying *t, const char *name, const double *got, const double *want, int64_t count)
{
    golden_figure(t->g, arena_format(&t->arena, "%s %d: %s", t->op, t->k->real == DT_F64 ? 64 : 32, name),
                  worst_by_largest(got, want, count), t->tolerance, NULL);
}

static double *widened(struct trying *t, const void *bytes, int64_t count)
{
    double *wide = arena_take_array(&t->arena, (size_t)count, sizeof *wide);

    check(dtype_convert(DT_F64, wide, t->k->real, bytes, (size_t)count), "to double");
    return wide;
}

static void compare(struct trying *t, const char *name, const void *got)
{
    int64_t count = entry_of(t, name)->count;

    compare_wide(t, name, widened(t, got, count), truth(t, name), count);
}

/* ---- the ops ---- */

static void try_linear(struct trying *t)
{
    int64_t S = extent(t, "x", 0), K = extent(t, "x", 1), N = extent(t, "w", 0);
    struct linear_args a = { .x = real(t, "x"), .w = real(t, "w"), .dy = real(t, "d_y"), .y = room(t, S * N), .dx = room(t, S * K),
                             .dw = room(t, N * K), .B = 1, .S = S, .K = K, .N = N, .ldx = K, .ldy = N, .lddx = K, .lddy = N,
                             .scale = 1 };
    struct bias_args b = { .x = a.y, .b = real(t, "b"), .dy = a.dy, .y = a.y, .db = room(t, N), .B = 1, .S = S, .N = N, .ldx = N,
                           .ldy = N, .lddy = N };

    a.scratch = scratch(t, t->k->linear_scratch(&a, 1));
    b.scratch = scratch(t, t->k->bias_scratch(&b, 1));
    t->k->linear(&a, one);
    t->k->bias(&b, one);
    t->k->linear_dx(&a, one);
    t->k->linear_dw(&a, one);
    t->k->bias_dw(&b, one);
    compare(t, "y", a.y);
    compare(t, "d_x", a.dx);
    compare(t, "d_w", a.dw);
    compare(t, "d_b", b.db);
}

static void try_rmsnorm(struct trying *t)
{
    int64_t S = extent(t, "x", 0), D = extent(t, "x", 1);
    struct rmsnorm_args a = { .x = real(t, "x"), .w = real(t, "w"), .dy = real(t, "d_y"), .y = room(t, S * D), .rstd = room(t, S),
                              .dx = room(t, S * D), .dw = room(t, D), .B = 1, .S = S, .D = D, .eps = param(t, "eps", NAN) };

    a.scratch = scratch(t, t->k->rmsnorm_scratch(&a, 1));
    t->k->rmsnorm(&a, one);
    t->k->rmsnorm_dx(&a, one);
    t->k->rmsnorm_dw(&a, one);
    compare(t, "y", a.y);
    compare(t, "d_x", a.dx);
    compare(t, "d_w", a.dw);
}

static void try_rope(struct trying *t)
{
    int64_t T = extent(t, "x", 0), heads = extent(t, "x", 1), d = extent(t, "x", 2);
    struct rope_angles_args angles = { .positions = integers(t, "positions"), .inv_freq = truth(t, "inv_freq"), .out = room(t, T * d),
                                       .T = T, .d = d };
    struct rope_args a = { .x = real(t, "x"), .angles = angles.out, .y = room(t, T * heads * d), .T = T, .width = heads * d,
                           .heads = heads, .d = d };
    struct rope_args back = a;

    back.x = real(t, "d_y");
    back.y = room(t, T * heads * d);
    back.inverse = true;
    t->k->rope_angles(&angles, one);
    t->k->rope(&a, one);
    t->k->rope(&back, one);
    compare(t, "y", a.y);
    compare(t, "d_x", back.y);
}

/* Each by itself: the least is as important as the largest. */
static void compare_frequencies(struct trying *t, const char *name, const double *got, int64_t count)
{
    const double *want = truth(t, name);
    double worst = 0;

    for (int64_t i = 0; i < count; i++) {
        worst = fmax(worst, isnan(got[i]) ? INFINITY : relative(got[i], want[i]));
    }
    golden_figure(t->g, arena_format(&t->arena, "%s: %s", t->op, name), worst, t->tolerance, NULL);
}

static void try_frequencies(struct trying *t)
{
    int64_t d = 2 * entry_of(t, "before")->count;
    struct rope_spec r = { .kind = ROPE_DEFAULT, .theta = param(t, "rope_theta", NAN), .factor = param(t, "factor", NAN),
                           .low = param(t, "low_freq_factor", NAN), .high = param(t, "high_freq_factor", NAN),
                           .original = (int64_t)param(t, "original_max_position_embeddings", 0) };
    double *found = arena_take_array(&t->arena, (size_t)d / 2, sizeof *found);

    if (t->k->real != DT_F64) {
        return; /* frequencies are double in either */
    }
    rope_frequencies(&r, d, found);
    compare_frequencies(t, "before", found, d / 2);
    r.kind = ROPE_LLAMA3;
    rope_frequencies(&r, d, found);
    compare_frequencies(t, "after", found, d / 2);
}

static void try_swiglu(struct trying *t)
{
    int64_t T = extent(t, "gate", 0), F = extent(t, "gate", 1);
    char *h = room(t, T * 2 * F), *dh = room(t, T * 2 * F), *gate = real(t, "gate"), *up = real(t, "up");
    char *d_gate = room(t, T * F), *d_up = room(t, T * F);
    size_t row = (size_t)F * t->width;
    struct swiglu_args a = { .h = h, .dy = real(t, "d_y"), .y = room(t, T * F), .dh = dh, .T = T, .F = F };

    for (int64_t i = 0; i < T; i++) {
        memcpy(h + (size_t)(2 * i) * row, gate + (size_t)i * row, row);
        memcpy(h + (size_t)(2 * i + 1) * row, up + (size_t)i * row, row);
    }
    t->k->swiglu(&a, one);
    t->k->swiglu_d(&a, one);
    for (int64_t i = 0; i < T; i++) {
        memcpy(d_gate + (size_t)i * row, dh + (size_t)(2 * i) * row, row);
        memcpy(d_up + (size_t)i * row, dh + (size_t)(2 * i + 1) * row, row);
    }
    compare(t, "y", a.y);
    compare(t, "d_gate", d_gate);
    compare(t, "d_up", d_up);
}

static int32_t *starts_of(struct trying *t, int64_t B, int64_t S)
{
    int32_t *documents = integers(t, "document_ids"), *starts = arena_take_array(&t->arena, (size_t)(B * S), sizeof *starts);

    for (int64_t i = 0; i < B * S; i++) {
        starts[i] = i % S == 0 || documents[i] != documents[i - 1] ? (int32_t)(i % S) : starts[i - 1];
    }
    return starts;
}

static void try_attention(struct trying *t)
{
    int64_t B = extent(t, "q", 0), S = extent(t, "q", 1), H = extent(t, "q", 2), d = extent(t, "q", 3), G = extent(t, "k", 2);
    struct attention_args a = { .q = real(t, "q"), .k = real(t, "k"), .v = real(t, "v"), .dout = real(t, "d_y"),
                                .o = room(t, B * S * H * d), .lse = room(t, B * H * S), .dq = room(t, B * S * H * d),
                                .dk = room(t, B * S * G * d), .dv = room(t, B * S * G * d), .B = B, .S = S, .H = H, .G = G, .d = d,
                                .window = (int64_t)param(t, "window", 0), .ldq = H * d, .ldk = G * d, .ldv = G * d, .ldo = H * d,
                                .lddq = H * d, .lddk = G * d, .lddv = G * d, .lddo = H * d, .scale = 1 / sqrt((double)d) };

    if (strstr(t->op, "documents") != NULL) {
        a.starts = starts_of(t, B, S);
    }
    a.scratch = scratch(t, t->k->attention_scratch(&a, 1));
    t->k->attention(&a, one);
    t->k->attention_d(&a, one);
    compare(t, "y", a.o);
    compare(t, "d_q", a.dq);
    compare(t, "d_k", a.dk);
    compare(t, "d_v", a.dv);
}

/* The head forms logits itself: with the identity for a weight they are its input, exactly. */
static void *identity(struct trying *t, int64_t n)
{
    char *w = room(t, n * n);
    double wide = 1;
    float narrow = 1;

    for (int64_t i = 0; i < n; i++) {
        memcpy(w + (size_t)(i * n + i) * t->width, t->k->real == DT_F64 ? (void *)&wide : (void *)&narrow, t->width);
    }
    return w;
}

static void try_cross_entropy(struct trying *t)
{
    int64_t T = extent(t, "logits", 0), V = extent(t, "logits", 1), valid = 0;
    int32_t *targets = integers(t, "target");
    double loss = 0, coming = truth(t, "d_loss")[0], *gradient;
    struct head_args a = { .x = real(t, "logits"), .w = identity(t, V), .targets = targets, .loss = &loss, .dx = room(t, T * V),
                           .lse = arena_take_array(&t->arena, (size_t)T, sizeof(double)), .B = 1, .S = T, .D = V, .rows = V,
                           .valid = V, .slices = 1 };

    for (int64_t i = 0; i < T; i++) {
        targets[i] = targets[i] == -100 ? -1 : targets[i];
        valid += targets[i] >= 0;
    }
    a.scratch = scratch(t, t->k->head_scratch(&a, 1));
    for (int64_t s = 0; s < t->k->head_steps(&a); s++) {
        t->k->head_backward(&a, true, s, one);
    }
    loss = valid > 0 ? loss / (double)valid : 0;
    gradient = widened(t, a.dx, T * V);
    for (int64_t i = 0; i < T * V; i++) {
        gradient[i] *= valid > 0 ? coming / (double)valid : 0;
    }
    compare_wide(t, "loss", &loss, truth(t, "loss"), 1);
    compare_wide(t, "d_logits", gradient, truth(t, "d_logits"), T * V);
}

static void try_embedding(struct trying *t)
{
    int64_t S = entry_of(t, "ids")->count, rows = extent(t, "w", 0), D = extent(t, "w", 1);
    struct embed_args a = { .ids = integers(t, "ids"), .w = real(t, "w"), .dy = real(t, "d_y"), .y = room(t, S * D),
                            .dw = room(t, rows * D), .B = 1, .S = S, .D = D, .rows = rows,
                            .pad = (int64_t)param(t, "pad_token_id", -1) };

    a.scratch = scratch(t, t->k->embed_scratch(&a, 1));
    t->k->embed(&a, one);
    t->k->embed_dw(&a, one);
    compare(t, "y", a.y);
    compare(t, "d_w", a.dw);
}

static void try_adamw(struct trying *t)
{
    int64_t steps = extent(t, "grads", 0), n = extent(t, "grads", 1);
    const json_t *betas = json_object_get(json_object_get(t->about, "params"), "betas");
    double *lr = truth(t, "lr");
    char *grads = real(t, "grads"), *after = room(t, steps * n);
    struct adamw_args a = { .w = real(t, "p"), .m = room(t, n), .v = room(t, n), .count = n, .decay = param(t, "weight_decay", NAN),
                            .beta1 = json_number_value(json_array_get(betas, 0)), .beta2 = json_number_value(json_array_get(betas, 1)),
                            .eps = param(t, "eps", NAN), .scale = 1 };

    for (int64_t s = 0; s < steps; s++) {
        a.g = grads + (size_t)(s * n) * t->width;
        a.lr = lr[s];
        a.correction1 = 1 - pow(a.beta1, (double)(s + 1));
        a.correction2 = 1 - pow(a.beta2, (double)(s + 1));
        t->k->adamw(&a, one);
        memcpy(after + (size_t)(s * n) * t->width, a.w, (size_t)n * t->width);
    }
    compare(t, "p_after", after);
    compare(t, "m", a.m);
    compare(t, "v", a.v);
}

/* ---- clip: the norm's kernel, then the op that makes the factor of it ---- */

static double norm_square(struct trying *t)
{
    static const char *const names[] = { "g0", "g1", "g2", "g3" };
    char *g = room(t, 4 * 1024);
    double sums[4];
    struct norm_args a = { .g = g, .sums = sums, .blocks = 4 };

    for (size_t i = 0; i < 4; i++) {
        memcpy(g + i * 1024 * t->width, real(t, names[i]), (size_t)entry_of(t, names[i])->count * t->width);
    }
    t->k->norm(&a, one);
    return sums[0] + sums[1] + sums[2] + sums[3];
}

static status clip_run(struct trying *t, double square, double limit, double result[CLIP_WORDS])
{
    static const int size[AXIS_COUNT] = { 1, 1, 1, 1, 1 };
    double hyper[HYPER_WORDS] = { [HYPER_CLIP] = limit };
    struct place whole = { { 0 } };
    struct exact sum = { 0 };
    struct residents residents;
    struct memory_plan plan;
    struct device d = { 0 };
    struct program p;
    struct comm alone;
    struct mesh mesh;
    int64_t count = 1;
    val scalars, in, out;

    comm_alone(&alone);
    TRY(mesh_open(&mesh, &alone, size));
    program_init(&p, "clip", &t->arena, &mesh, t->k->real);
    scalars = program_state(&p, "scalars", DT_I64, shape_1(SCALAR_WORDS), whole);
    in = program_input(&p, "hyper", DT_F64, shape_1(HYPER_WORDS), whole);
    out = op_clip(&p, scalars, in);
    program_keep(&p, out);
    residents_init(&residents, &t->arena);
    TRY(program_plan(&p, &residents, t->k, 1, &plan));
    TRY(device_open(&d, t->k, &mesh, 1, &residents));
    exact_add(&sum, square);
    device_write(&d, &p, scalars, SCALAR_NORM, EXACT_WORDS, &sum);
    device_write(&d, &p, scalars, SCALAR_COUNT, 1, &count);
    device_write(&d, &p, in, 0, HYPER_WORDS, hyper);
    TRY(program_run(&p, &d, NULL));
    device_read(&d, &p, out, 0, CLIP_WORDS, result);
    device_close(&d);
    residents_release(&residents);
    mesh_close(&mesh);
    return OK;
}

static void try_clip(struct trying *t)
{
    double result[CLIP_WORDS];

    if (clip_run(t, norm_square(t), param(t, "limit", NAN), result) != OK) {
        tally_fail(&t->g->tally, t->op, fail_text());
        return;
    }
    compare_wide(t, "norm", &result[CLIP_NORM], truth(t, "norm"), 1);
    compare_wide(t, "coef", &result[CLIP_SCALE], truth(t, "coef"), 1);
}

/* ---- which is which ---- */

static const struct {
    const char *prefix; /* of the op's name; the first row that fits */
    void (*run)(struct trying *t);
} rows[] = {
    { "linear", try_linear },
    { "rmsnorm", try_rmsnorm },
    { "rope_frequencies", try_frequencies },
    { "rope", try_rope },
    { "swiglu", try_swiglu },
    { "attention", try_attention },
    { "cross_entropy", try_cross_entropy },
    { "embedding", try_embedding },
    { "adamw", try_adamw },
    { "clip", try_clip },
};

static void try_op(struct trying *t)
{
    double error = golden_number(t->about, "f32_error_rel", 0);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!text_starts(t->op, rows[i].prefix)) {
            continue;
        }
        for (int bits = 32; bits <= 64; bits += 32) {
            if (kernels_find(bits == 64 ? DT_F64 : DT_F32, &t->k) != OK) {
                tally_fail(&t->g->tally, t->op, fail_text());
                return;
            }
            t->width = (size_t)bits / 8;
            t->tolerance = bits == 64 ? 1e-12 : fmax(2e-6, 10 * error);
            rows[i].run(t);
        }
        return;
    }
    tally_skip(&t->g->tally, t->op, "this operation is not built");
}

void golden_kernels(struct golden *g)
{
    struct trying t = { .g = g };
    json_t *file = golden_json(g, arena_format(&t.arena, "%s/kernels.json", g->folder)), *about;
    const char *op;

    if (file == NULL || tensor_file_open(&t.file, &t.arena, arena_format(&t.arena, "%s/kernels.safetensors", g->folder)) != OK) {
        tally_fail(&g->tally, "kernels", fail_text());
    } else {
        json_object_foreach(file, op, about) {
            t.op = op;
            t.about = about;
            try_op(&t);
        }
    }
    tensor_file_close(&t.file);
    json_decref(file);
    arena_release(&t.arena);
}
