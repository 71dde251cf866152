/* Operations inside a layer. */
#include "tools/golden_models/ops.h"

#include <math.h>
#include <string.h>
#include "model/spec.h"

status op_linear_case(struct op_case *o)
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
    FOR_TEAM(t)
    {
        o->kernels->linear(&a, t);
    }
    FOR_TEAM(t)
    {
        o->kernels->bias(&b, t);
    }
    FOR_TEAM(t)
    {
        o->kernels->linear_dx(&a, t);
    }
    FOR_TEAM(t)
    {
        o->kernels->linear_dw(&a, t);
    }
    FOR_TEAM(t)
    {
        o->kernels->bias_dw(&b, t);
    }
    TRY(op_expect(o, "y", b.y, T * N));
    TRY(op_expect(o, "d_x", a.dx, T * K));
    TRY(op_expect(o, "d_w", a.dw, N * K));
    return op_expect(o, "d_b", b.db, N);
}

status op_rmsnorm_case(struct op_case *o)
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
    FOR_TEAM(t)
    {
        o->kernels->rmsnorm(&a, t);
    }
    FOR_TEAM(t)
    {
        o->kernels->rmsnorm_dx(&a, t);
    }
    FOR_TEAM(t)
    {
        o->kernels->rmsnorm_dw(&a, t);
    }
    TRY(op_expect(o, "y", a.y, T * D));
    TRY(op_expect(o, "d_x", a.dx, T * D));
    return op_expect(o, "d_w", a.dw, D);
}

static status rope_spec_of(struct op_case *o, struct rope_spec *r)
{
    double original;

    *r = (struct rope_spec){ .kind = ROPE_DEFAULT, .theta = op_number_or(o, "theta", 0) };
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
static status see_frequencies(struct op_case *o, const char *what, const struct rope_spec *r,
                              int64_t d)
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

status op_frequencies_case(struct op_case *o)
{
    struct rope_spec scaled, plain;
    double d;

    TRY(rope_spec_of(o, &scaled));
    TRY(op_number(o, "d", &d));
    plain = (struct rope_spec){ .kind = ROPE_DEFAULT, .theta = scaled.theta };
    TRY(see_frequencies(o, "before", &plain, (int64_t)d));
    return see_frequencies(o, "after", &scaled, (int64_t)d);
}

status op_rope_case(struct op_case *o)
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
    angles = (struct rope_angles_args){
        .positions = positions, .inv_freq = inv_freq, .out = op_out(o, T * d), .T = T, .d = d
    };
    a = (struct rope_args){ .x = x,
                            .angles = angles.out,
                            .y = op_out(o, T * H * d),
                            .T = T,
                            .width = H * d,
                            .heads = H,
                            .d = d };
    FOR_TEAM(t)
    {
        o->kernels->rope_angles(&angles, t);
    }
    FOR_TEAM(t)
    {
        o->kernels->rope(&a, t);
    }
    TRY(op_expect(o, "y", a.y, T * H * d));
    dx = op_out(o, T * H * d);
    a.x = dy, a.y = dx, a.inverse = true;
    FOR_TEAM(t)
    {
        o->kernels->rope(&a, t);
    }
    return op_expect(o, "d_x", dx, T * H * d);
}

/* Puts columns [at, at + F) of rows of 2 F together, or takes them apart. */
static void half(const struct op_case *o, void *both, void *one, int64_t T, int64_t F, int64_t at,
                 bool join)
{
    size_t width = dtype_bytes(o->kernels->real), bytes = (size_t)F * width;

    for (int64_t t = 0; t < T; t++) {
        char *in_both = (char *)both + (size_t)(t * 2 * F + at) * width,
             *in_one = (char *)one + (size_t)(t * F) * width;

        memcpy(join ? in_both : in_one, join ? in_one : in_both, bytes);
    }
}

status op_swiglu_case(struct op_case *o)
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
    a = (struct swiglu_args){
        .h = h, .dy = dy, .y = op_out(o, T * F), .dh = op_out(o, 2 * T * F), .T = T, .F = F
    };
    FOR_TEAM(t)
    {
        o->kernels->swiglu(&a, t);
    }
    FOR_TEAM(t)
    {
        o->kernels->swiglu_d(&a, t);
    }
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
        starts[i] =
            i % S == 0 || documents[i] != documents[i - 1] ? (int32_t)(i % S) : starts[i - 1];
    }
    *out = starts;
    return OK;
}

status op_attention_case(struct op_case *o)
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
    FOR_TEAM(t)
    {
        o->kernels->attention(&a, t);
    }
    FOR_TEAM(t)
    {
        o->kernels->attention_d(&a, t);
    }
    TRY(op_expect(o, "y", a.o, B * S * H * d));
    TRY(op_expect(o, "d_q", a.dq, B * S * H * d));
    TRY(op_expect(o, "d_k", a.dk, B * S * G * d));
    return op_expect(o, "d_v", a.dv, B * S * G * d);
}
