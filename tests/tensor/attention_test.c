#include "kernel_case.h"

struct attention_case {
    int64_t B, S, H, G, d, window;
    int64_t documents; /* their length; 0: the sequence is one */
    int64_t pad;       /* elements between rows, more or less of them in each tensor */
    enum dtype real;
};

static const struct attention_case cases[] = {
    { 1, 1, 1, 1, 1, 0, 0, 0, DT_F32 },     { 2, 7, 4, 2, 8, 0, 0, 1, DT_F32 },
    { 3, 17, 6, 2, 3, 5, 0, 0, DT_F32 },    { 1, 70, 2, 1, 40, 0, 11, 3, DT_F32 },
    { 2, 40, 3, 3, 8, 7, 11, 0, DT_F32 },   { 1, 150, 2, 1, 5, 33, 0, 1, DT_F32 },
    { 1, 33, 1, 1, 31, 1, 11, 0, DT_F32 },  { 5, 64, 2, 2, 2, 0, 11, 0, DT_F32 },
    { 2, 1, 2, 1, 80, 0, 0, 5, DT_F32 },    { 1, 33, 1, 1, 128, 0, 0, 1, DT_F32 },
    { 1, 49, 4, 4, 64, 0, 0, 3, DT_F32 },   { 1, 100, 3, 1, 48, 0, 37, 2, DT_F32 },
    { 2, 100, 2, 2, 80, 60, 0, 0, DT_F32 }, { 1, 300, 3, 1, 8, 0, 130, 1, DT_F32 },
    { 1, 300, 1, 1, 64, 0, 0, 0, DT_F32 },  { 1, 1200, 1, 1, 3, 300, 500, 0, DT_F32 },
};

enum { CASES = sizeof cases / sizeof cases[0], MOST = 1500 };

/* How many elements of a row q, k and v fill; o. */
static int64_t width_of(const struct attention_case *c)
{
    return (c->H + 2 * c->G) * c->d;
}

static int64_t heads_of(const struct attention_case *c)
{
    return c->H * c->d;
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

/* Random rows with NaN between them: what a kernel takes from there is seen. */
static struct buffer rows_random(const struct attention_case *c, int64_t width, int64_t pad,
                                 uint64_t seed, double size)
{
    struct buffer b = buffer_random(c->real, c->B * c->S * (width + pad), seed, size);

    for (int64_t t = 0; t < c->B * c->S; t++) {
        memset(from(&b, t * (width + pad) + width), 0xff, (size_t)pad * dtype_bytes(c->real));
    }
    return b;
}

static struct buffer qkv_of(const struct attention_case *c)
{
    return rows_random(c, width_of(c), c->pad, 1, 2);
}

static struct buffer dout_of(const struct attention_case *c)
{
    return rows_random(c, heads_of(c), 3 * c->pad, 2, 1);
}

/* q, k and v stand side by side, as the program holds them; their first row is `row`. */
static struct attention_args arguments(const struct attention_case *c, const struct buffer *qkv,
                                       int64_t row)
{
    int64_t width = width_of(c), at = row * (width + c->pad);

    return (struct attention_args){ .q = from(qkv, at),
                                    .k = from(qkv, at + c->H * c->d),
                                    .v = from(qkv, at + (c->H + c->G) * c->d),
                                    .B = c->B,
                                    .S = c->S,
                                    .H = c->H,
                                    .G = c->G,
                                    .d = c->d,
                                    .window = c->window,
                                    .ldq = width + c->pad,
                                    .ldk = width + c->pad,
                                    .ldv = width + c->pad,
                                    .ldo = heads_of(c) + 2 * c->pad,
                                    .lddq = width + 4 * c->pad,
                                    .lddk = width + 4 * c->pad,
                                    .lddv = width + 4 * c->pad,
                                    .lddo = heads_of(c) + 3 * c->pad,
                                    .scale = 1 / sqrt((double)c->d) };
}

/* Both kernels on c->B sequences of c->S positions, from `row` of the inputs on. out: o, lse, dqkv. */
static void run_on(const struct kernels *k, int threads, const struct attention_case *c,
                   const struct buffer *qkv, const struct buffer *dout, int64_t row,
                   struct outputs *out)
{
    int32_t starts[MOST];
    struct attention_args a = arguments(c, qkv, row);
    struct buffer scratch = buffer_make(DT_U8, (int64_t)k->attention_scratch(&a, threads));

    starts_of(c, starts);
    a.starts = c->documents > 0 ? starts : NULL;
    out->of[0] = buffer_make(c->real, c->B * c->S * a.ldo);
    out->of[1] = buffer_make(k->sum, c->B * c->S * c->H);
    out->of[2] = buffer_make(c->real, c->B * c->S * a.lddq);
    a.o = out->of[0].data;
    a.lse = out->of[1].data;
    a.scratch = scratch.data;
    FOR_TEAM(t, threads)
    {
        k->attention(&a, t);
    }
    memset(scratch.data, 0xff, scratch.bytes);
    a.dout = from(dout, row * a.lddo);
    a.dq = out->of[2].data;
    a.dk = from(&out->of[2], c->H * c->d);
    a.dv = from(&out->of[2], (c->H + c->G) * c->d);
    FOR_TEAM(t, threads)
    {
        k->attention_d(&a, t);
    }
    buffer_free(&scratch);
}

static void run_attention(const struct kernels *k, int threads, const void *options,
                          struct outputs *out)
{
    const struct attention_case *c = options;
    struct buffer qkv = qkv_of(c), dout = dout_of(c);

    run_on(k, threads, c, &qkv, &dout, 0, out);
    buffer_free(&qkv);
    buffer_free(&dout);
}

/* ---- the oracle ---- */

/* All rows without what lies between them. */
struct truth {
    int32_t starts[MOST];
    long double *qkv, *dout, *stored; /* what the kernels were given, and the o they wrote */
    long double *o, *lse, *dqkv;
};

static long double *rows_of(const struct buffer *b, int64_t rows, int64_t width)
{
    int64_t ld = (int64_t)b->count / rows;
    long double *to = truth_make(rows * width);

    for (int64_t i = 0; i < rows * width; i++) {
        to[i] = (long double)at(b, i / width * ld + i % width);
    }
    return to;
}

static long double dot_of(const long double *a, const long double *b, int64_t n)
{
    long double sum = 0;

    for (int64_t e = 0; e < n; e++) {
        sum += a[e] * b[e];
    }
    return sum;
}

/* One query: its output, lse, and what it adds to the derivatives. These are functions of o as it
 * was stored, rounded in a table of bf16. */
static void query_truth(const struct attention_case *c, struct truth *t, int64_t b, int64_t h,
                        int64_t i)
{
    int64_t row = b * c->S + i, width = width_of(c), g = h / (c->H / c->G),
            q = row * width + h * c->d;
    int64_t first = t->starts[row], o = (row * c->H + h) * c->d;
    long double p[MOST], sum = 0, drop, scale = 1 / sqrtl((long double)c->d);

    if (c->window > 0 && i - c->window + 1 > first) {
        first = i - c->window + 1;
    }
    for (int64_t j = first; j <= i; j++) {
        int64_t key = (b * c->S + j) * width + (c->H + g) * c->d;

        p[j] = expl(scale * dot_of(t->qkv + q, t->qkv + key, c->d));
        sum += p[j];
    }
    t->lse[(b * c->H + h) * c->S + i] = logl(sum);
    drop = dot_of(t->stored + o, t->dout + o, c->d);
    for (int64_t j = first; j <= i; j++) {
        int64_t key = (b * c->S + j) * width + (c->H + g) * c->d, v = key + c->G * c->d;
        long double ds;

        p[j] /= sum;
        ds = p[j] * (dot_of(t->dout + o, t->qkv + v, c->d) - drop) * scale;
        for (int64_t e = 0; e < c->d; e++) {
            t->o[o + e] += p[j] * t->qkv[v + e];
            t->dqkv[v + e] += p[j] * t->dout[o + e];
            t->dqkv[q + e] += ds * t->qkv[key + e];
            t->dqkv[key + e] += ds * t->qkv[q + e];
        }
    }
}

static void assert_rows_near(const struct buffer *b, const long double *truth, int64_t rows,
                             int64_t width, double tolerance)
{
    int64_t ld = (int64_t)b->count / rows;
    size_t bytes = dtype_bytes(b->type);
    struct buffer dense = buffer_make(b->type, rows * width), none = buffer_make(b->type, ld);

    for (int64_t t = 0; t < rows; t++) {
        memcpy(from(&dense, t * width), from(b, t * ld), (size_t)width * bytes);
        assert_memory_equal(from(b, t * ld + width), none.data, (size_t)(ld - width) * bytes);
    }
    assert_near(&dense, truth, tolerance);
    buffer_free(&dense);
    buffer_free(&none);
}

static void check_truth(const void *options, const struct outputs *out)
{
    const struct attention_case *c = options;
    int64_t T = c->B * c->S;
    struct buffer qkv = qkv_of(c), dout = dout_of(c);
    struct truth t = { .qkv = rows_of(&qkv, T, width_of(c)),
                       .dout = rows_of(&dout, T, heads_of(c)),
                       .stored = rows_of(&out->of[0], T, heads_of(c)),
                       .o = truth_make(T * heads_of(c)),
                       .lse = truth_make(T * c->H),
                       .dqkv = truth_make(T * width_of(c)) };

    starts_of(c, t.starts);
    for (int64_t q = 0; q < c->B * c->H * c->S; q++) {
        query_truth(c, &t, q / c->S / c->H, q / c->S % c->H, q % c->S);
    }
    assert_rows_near(&out->of[0], t.o, T, heads_of(c), tolerance_of(c->real));
    assert_near(&out->of[1], t.lse, tolerance_of(c->real));
    assert_rows_near(&out->of[2], t.dqkv, T, width_of(c), tolerance_of(c->real));
    free(t.qkv);
    free(t.dout);
    free(t.stored);
    free(t.o);
    free(t.lse);
    free(t.dqkv);
    buffer_free(&qkv);
    buffer_free(&dout);
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

/* ---- what a position does not see ---- */

/* Positions [first, first + S) of sequence b, one document, computed alone. */
static struct outputs piece_of(const struct kernels *k, const struct attention_case *whole,
                               int64_t b, int64_t first, int64_t S)
{
    struct attention_case c = *whole;
    struct buffer qkv = qkv_of(whole), dout = dout_of(whole);
    struct outputs out = { 0 };

    c.B = 1;
    c.S = S;
    c.documents = 0;
    run_on(k, 1, &c, &qkv, &dout, b * whole->S + first, &out);
    buffer_free(&qkv);
    buffer_free(&dout);
    return out;
}

/* The piece is the whole's positions from `first` of sequence b on: o, lse and the leading
 * `derivatives` of dq, dk, dv have the same bits. */
static void assert_piece(const struct attention_case *c, const struct outputs *piece,
                         const struct outputs *whole, int64_t b, int64_t first, int64_t derivatives)
{
    int64_t S = (int64_t)piece->of[1].count / c->H, width = width_of(c);
    size_t bytes = dtype_bytes(c->real);

    for (int64_t i = 0; i < S; i++) {
        int64_t row = b * c->S + first + i;

        assert_memory_equal(from(&piece->of[0], i * heads_of(c)),
                            from(&whole->of[0], row * heads_of(c)), (size_t)heads_of(c) * bytes);
        assert_memory_equal(from(&piece->of[2], i * width), from(&whole->of[2], row * width),
                            (size_t)derivatives * bytes);
    }
    for (int64_t h = 0; h < c->H; h++) {
        assert_memory_equal(from(&piece->of[1], h * S),
                            from(&whole->of[1], (b * c->H + h) * c->S + first),
                            (size_t)S * dtype_bytes(piece->of[1].type));
    }
}

/* Position by position of sequence b: a prefix alone, and the last whole document alone. Keys in
 * the prefix are seen by queries behind it, those in the document are not. The plain kernels add
 * dk and dv by blocks, so these show where the document lies. */
static void check_alone(const struct kernels *k, const struct attention_case *c, int64_t b)
{
    struct attention_case plain = *c;
    int64_t length = length_of(c, b), first = (c->S / length - 1) * length;
    bool blocks = k->real == DT_F64 || (k->real == DT_F32 && strcmp(k->family, "scalar") == 0);
    struct outputs prefix = piece_of(k, c, b, 0, c->S * 3 / 5),
                   document = piece_of(k, c, b, first, length),
                   packed = check_teams(k, run_attention, c), whole;

    plain.documents = 0;
    whole = check_teams(k, run_attention, &plain);
    assert_piece(c, &prefix, &whole, b, 0, heads_of(c));
    assert_piece(c, &document, &packed, b, first, blocks ? heads_of(c) : width_of(c));
    outputs_free(&prefix);
    outputs_free(&document);
    outputs_free(&packed);
    outputs_free(&whole);
}

/* What a position gets depends on the keys it sees: not on the batch, on later positions, or on
 * where its document lies. */
static void attention_rows_do_not_know_their_neighbours(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        enum dtype real = all_types[i];
        const struct kernels *all[FAMILIES_MOST];
        size_t n = families_all(real, all);

        for (size_t f = 0; f < n; f++) {
            check_alone(all[f], &(struct attention_case){ 2, 75, 4, 2, 24, 0, 11, 0, real }, 0);
            check_alone(all[f], &(struct attention_case){ 2, 75, 4, 2, 24, 9, 11, 0, real }, 1);
            check_alone(all[f], &(struct attention_case){ 2, 720, 1, 1, 3, 290, 350, 0, real }, 1);
            check_alone(all[f], &(struct attention_case){ 1, 300, 1, 1, 64, 0, 101, 0, real }, 0);
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
