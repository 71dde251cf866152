#include "kernel_case.h"

struct attention_case {
    int64_t B, S, H, G, d, window;
    int64_t documents; /* their length; 0: the sequence is one */
    enum dtype real;
};

static const struct attention_case cases[] = {
    { 1, 1, 1, 1, 1, 0, 0, DT_F32 },    { 2, 7, 4, 2, 8, 0, 0, DT_F32 },
    { 3, 17, 6, 2, 3, 5, 0, DT_F32 },   { 1, 70, 2, 1, 40, 0, 11, DT_F32 },
    { 2, 40, 3, 3, 8, 7, 11, DT_F32 },  { 1, 150, 2, 1, 5, 33, 0, DT_F32 },
    { 1, 33, 1, 1, 31, 1, 11, DT_F32 }, { 5, 64, 2, 2, 2, 0, 11, DT_F32 },
};

enum { CASES = sizeof cases / sizeof cases[0], MOST = 1500 };

static int64_t width_of(const struct attention_case *c)
{
    return (c->H + 2 * c->G) * c->d;
}

/* In odd sequences the documents are longer by 9. */
static int64_t length_of(const struct attention_case *c, int64_t b)
{
    return c->documents == 0 ? c->S : c->documents + b % 2 * 9;
}

static void starts_of(const struct attention_case *c, int32_t *starts)
{
    for (int64_t t = 0; t < c->B * c->S; t++) {
        int64_t length = length_of(c, t / c->S);

        starts[t] = (int32_t)(t % c->S / length * length);
    }
}

static struct buffer qkv_of(const struct attention_case *c)
{
    return buffer_random(c->real, c->B * c->S * width_of(c), 1, 2);
}

/* q, k and v stand side by side, as the program holds them. */
static struct attention_args arguments(const struct attention_case *c, const struct buffer *qkv,
                                       const int32_t *starts)
{
    int64_t width = width_of(c);

    return (struct attention_args){ .q = qkv->data,
                                    .k = from(qkv, c->H * c->d),
                                    .v = from(qkv, (c->H + c->G) * c->d),
                                    .starts = c->documents > 0 ? starts : NULL,
                                    .B = c->B,
                                    .S = c->S,
                                    .H = c->H,
                                    .G = c->G,
                                    .d = c->d,
                                    .window = c->window,
                                    .ldq = width,
                                    .ldk = width,
                                    .ldv = width,
                                    .ldo = c->H * c->d,
                                    .lddq = width,
                                    .lddk = width,
                                    .lddv = width,
                                    .lddo = c->H * c->d,
                                    .scale = 1 / sqrt((double)c->d) };
}

static void run_attention(const struct kernels *k, int threads, const void *options,
                          struct outputs *out)
{
    const struct attention_case *c = options;
    struct buffer qkv = qkv_of(c), dout = buffer_random(c->real, c->B * c->S * c->H * c->d, 2, 1);
    int32_t starts[MOST];
    struct attention_args a = arguments(c, &qkv, starts);
    struct buffer scratch = buffer_make(DT_U8, (int64_t)k->attention_scratch(&a, threads));

    starts_of(c, starts);
    out->of[0] = buffer_make(c->real, c->B * c->S * c->H * c->d);
    out->of[1] = buffer_make(k->sum, c->B * c->S * c->H);
    out->of[2] = buffer_make(c->real, c->B * c->S * width_of(c));
    a.o = out->of[0].data;
    a.lse = out->of[1].data;
    a.scratch = scratch.data;
    FOR_TEAM(t, threads)
    {
        k->attention(&a, t);
    }
    a.dout = dout.data;
    a.dq = out->of[2].data;
    a.dk = from(&out->of[2], c->H * c->d);
    a.dv = from(&out->of[2], (c->H + c->G) * c->d);
    FOR_TEAM(t, threads)
    {
        k->attention_d(&a, t);
    }
    buffer_free(&qkv);
    buffer_free(&dout);
    buffer_free(&scratch);
}

struct truth {
    struct buffer qkv, dout;
    int32_t starts[MOST];
    long double *o, *lse, *dqkv;
};

static long double dot_of(const struct buffer *a, int64_t i, const struct buffer *b, int64_t j,
                          int64_t n)
{
    long double sum = 0;

    for (int64_t e = 0; e < n; e++) {
        sum += (long double)at(a, i + e) * (long double)at(b, j + e);
    }
    return sum;
}

/* One query: its output, lse, and what it adds to the derivatives. */
static void query_truth(const struct attention_case *c, struct truth *t, int64_t b, int64_t h,
                        int64_t i)
{
    int64_t row = b * c->S + i, width = width_of(c), g = h / (c->H / c->G),
            q = row * width + h * c->d;
    int64_t first = t->starts[row], o = (row * c->H + h) * c->d;
    long double p[MOST], sum = 0, drop = 0, scale = 1 / sqrtl((long double)c->d);

    if (c->window > 0 && i - c->window + 1 > first) {
        first = i - c->window + 1;
    }
    for (int64_t j = first; j <= i; j++) {
        p[j] = expl(scale *
                    dot_of(&t->qkv, q, &t->qkv, (b * c->S + j) * width + (c->H + g) * c->d, c->d));
        sum += p[j];
    }
    t->lse[(b * c->H + h) * c->S + i] = logl(sum);
    for (int64_t j = first; j <= i; j++) {
        int64_t v = (b * c->S + j) * width + (c->H + c->G + g) * c->d;

        p[j] /= sum;
        for (int64_t e = 0; e < c->d; e++) {
            t->o[o + e] += p[j] * (long double)at(&t->qkv, v + e);
        }
    }
    for (int64_t e = 0; e < c->d; e++) {
        drop += t->o[o + e] * (long double)at(&t->dout, o + e);
    }
    for (int64_t j = first; j <= i; j++) {
        int64_t key = (b * c->S + j) * width + (c->H + g) * c->d, v = key + c->G * c->d;
        long double ds = p[j] * (dot_of(&t->dout, o, &t->qkv, v, c->d) - drop) * scale;

        for (int64_t e = 0; e < c->d; e++) {
            t->dqkv[v + e] += p[j] * (long double)at(&t->dout, o + e);
            t->dqkv[q + e] += ds * (long double)at(&t->qkv, key + e);
            t->dqkv[key + e] += ds * (long double)at(&t->qkv, q + e);
        }
    }
}

/* The derivative takes o as it was stored: of a BF16 table it is rounded, by 2^-9 of its largest, and
 * so is what is taken off every slope. */
static double slope_tolerance(enum dtype real)
{
    return real == DT_BF16 ? 0x1p-8 : tolerance_of(real);
}

static void check_truth(const void *options, const struct outputs *out)
{
    const struct attention_case *c = options;
    struct truth t = { .qkv = qkv_of(c),
                       .dout = buffer_random(c->real, c->B * c->S * c->H * c->d, 2, 1),
                       .o = truth_make(c->B * c->S * c->H * c->d),
                       .lse = truth_make(c->B * c->S * c->H),
                       .dqkv = truth_make(c->B * c->S * width_of(c)) };

    starts_of(c, t.starts);
    for (int64_t q = 0; q < c->B * c->H * c->S; q++) {
        query_truth(c, &t, q / c->S / c->H, q / c->S % c->H, q % c->S);
    }
    assert_near(&out->of[0], t.o, tolerance_of(c->real));
    assert_near(&out->of[1], t.lse, tolerance_of(c->real));
    assert_near(&out->of[2], t.dqkv, slope_tolerance(c->real));
    free(t.o);
    free(t.lse);
    free(t.dqkv);
    buffer_free(&t.qkv);
    buffer_free(&t.dout);
}

static void attention_and_its_derivative(void **state)
{
    (void)state;
    for (int i = 0; i < 3 * CASES; i++) {
        struct attention_case c = cases[i / 3];

        c.real = all_types[i % 3];
        check_families(c.real, run_attention, check_truth, &c);
    }
}

/* Forward on positions [first, first + S) of sequence b alone. */
static struct buffer piece_of(const struct kernels *k, const struct attention_case *whole,
                              int64_t b, int64_t first, int64_t S)
{
    struct attention_case c = *whole;
    struct buffer qkv = qkv_of(whole), o, lse, scratch;
    int64_t at = (b * whole->S + first) * width_of(whole);
    struct attention_args a;

    c.B = 1;
    c.S = S;
    c.documents = 0;
    a = arguments(&c, &qkv, NULL);
    o = buffer_make(c.real, S * c.H * c.d);
    lse = buffer_make(k->sum, S * c.H);
    scratch = buffer_make(DT_U8, (int64_t)k->attention_scratch(&a, 1));
    a.q = from(&qkv, at);
    a.k = from(&qkv, at + c.H * c.d);
    a.v = from(&qkv, at + (c.H + c.G) * c.d);
    a.o = o.data;
    a.lse = lse.data;
    a.scratch = scratch.data;
    k->attention(&a, (struct team){ 0, 1 });
    buffer_free(&qkv);
    buffer_free(&lse);
    buffer_free(&scratch);
    return o;
}

/* Position by position of sequence b: a prefix alone, and the last whole document alone. */
static void check_alone(const struct kernels *k, const struct attention_case *c, int64_t b)
{
    struct attention_case plain = *c;
    int64_t width = c->H * c->d, length = length_of(c, b), first = (c->S / length - 1) * length;
    struct buffer prefix = piece_of(k, c, b, 0, c->S * 3 / 5),
                  document = piece_of(k, c, b, first, length);
    struct outputs whole, packed = check_teams(k, run_attention, c);

    plain.documents = 0;
    whole = check_teams(k, run_attention, &plain);
    assert_memory_equal(prefix.data, from(&whole.of[0], b * c->S * width), prefix.bytes);
    assert_memory_equal(document.data, from(&packed.of[0], (b * c->S + first) * width),
                        document.bytes);
    buffer_free(&prefix);
    buffer_free(&document);
    outputs_free(&whole);
    outputs_free(&packed);
}

/* A position's output depends on the keys it sees: not on the batch, on later positions, or on
 * where its document lies. */
static void attention_rows_do_not_know_their_neighbours(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        enum dtype real = all_types[i];
        const struct kernels *all[FAMILIES_MOST];
        size_t n = families_all(real, all);

        for (size_t f = 0; f < n; f++) {
            check_alone(all[f], &(struct attention_case){ 2, 75, 4, 2, 24, 0, 11, real }, 0);
            check_alone(all[f], &(struct attention_case){ 2, 75, 4, 2, 24, 9, 11, real }, 1);
            check_alone(all[f], &(struct attention_case){ 2, 720, 1, 1, 3, 290, 350, real }, 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_and_its_derivative),
        cmocka_unit_test(attention_rows_do_not_know_their_neighbours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
