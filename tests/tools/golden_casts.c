/*
 * golden_casts DIR: bit for bit, the casts between float and the 16-bit floats.
 *
 * DIR, or DIR/bf16, holds casts.safetensors: `x` F32 and `bits` I16, the bf16 of each x (the golden
 * sets of fine-tuning); where it also has `f16_bits`, those are the binary16. Beside it
 * matmul.safetensors, if it is there: NAME.a [M, K] and NAME.b [K, N] in BF16, multiplied here with
 * plain loops that widen and sum in float, must agree with NAME.c_f64 to K 2^-24 NAME.sum_abs, and
 * rounded to bf16 with NAME.c_bf16 to one unit.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/text.h"
#include "store/safetensors.h"
#include "tools/tally.h"

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The whole tensor, or NULL with a failed case. */
static void *read_tensor(struct tally *t, struct arena *a, const struct tensor_file *f,
                         const char *name, enum dtype as, int64_t *count)
{
    const struct tensor_entry *e = tensor_file_find(f, name);
    void *out;

    if (e == NULL) {
        tally_fail(t, name, "is missing");
        return NULL;
    }
    out = arena_take_array(a, (size_t)e->count, dtype_bytes(as));
    *count = e->count;
    if (tensor_file_read(f, e, 0, e->count, as, out) != OK) {
        tally_fail(t, name, fail_text());
        return NULL;
    }
    return out;
}

/* Both directions of one 16-bit type over the whole list: one case each. */
static void try_casts(struct tally *t, const char *called, const float *x, const int16_t *want,
                      int64_t count, uint16_t (*narrow)(float), float (*widen)(uint16_t),
                      enum dtype dtype)
{
    int64_t wrong = 0, wrong_back = 0, wrong_bulk = 0, first = -1;
    uint16_t *bulk = malloc((size_t)count * sizeof *bulk + 1);
    char name[64], why[160];

    if (!dtype_convert(dtype, bulk, DT_F32, x, (size_t)count)) {
        wrong_bulk = count;
    }
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits = narrow(x[i]), expected = (uint16_t)want[i];

        if (bits != expected) {
            wrong++;
            first = first < 0 ? i : first;
        }
        wrong_bulk += bulk[i] != expected;
        /* What was widened narrows to the same bits, and has the value that was rounded to. */
        wrong_back += narrow(widen(expected)) != expected || isnan(widen(expected)) != isnan(x[i]);
    }
    free(bulk);
    snprintf(name, sizeof name, "float to %s, %lld casts", called, (long long)count);
    if (wrong == 0) {
        tally_pass(t, name, NULL);
    } else {
        snprintf(why, sizeof why, "%lld differ, first [%lld]: 0x%08x gives 0x%04x, expected 0x%04x",
                 (long long)wrong, (long long)first, bits_of(x[first]), narrow(x[first]),
                 (uint16_t)want[first]);
        tally_fail(t, name, why);
    }
    snprintf(name, sizeof name, "%s to float and back", called);
    snprintf(why, sizeof why, "%lld differ", (long long)wrong_back);
    wrong_back == 0 ? tally_pass(t, name, NULL) : tally_fail(t, name, why);
    snprintf(name, sizeof name, "dtype_convert F32 to %s", dtype_name(dtype));
    snprintf(why, sizeof why, "%lld differ", (long long)wrong_bulk);
    wrong_bulk == 0 ? tally_pass(t, name, NULL) : tally_fail(t, name, why);
}

static void casts_of_file(struct tally *t, const char *path)
{
    struct arena a = { 0 };
    struct tensor_file f;
    int64_t count = 0, wanted = 0;
    const float *x;
    const int16_t *bits;

    if (tensor_file_open(&f, &a, path) != OK) {
        tally_fail(t, path, fail_text());
        return;
    }
    x = read_tensor(t, &a, &f, "x", DT_F32, &count);
    bits = read_tensor(t, &a, &f, "bits", DT_I16, &wanted);
    if (x != NULL && bits != NULL && count == wanted) {
        try_casts(t, "bf16", x, bits, count, bf16_from_float, bf16_to_float, DT_BF16);
    } else {
        tally_fail(t, path, "x and bits must be there and of equal length");
    }
    if (tensor_file_find(&f, "f16_bits") != NULL) {
        bits = read_tensor(t, &a, &f, "f16_bits", DT_I16, &wanted);
        if (x != NULL && bits != NULL && count == wanted) {
            try_casts(t, "f16", x, bits, count, f16_from_float, f16_to_float, DT_F16);
        } else {
            tally_fail(t, path, "x and f16_bits must be of equal length");
        }
    }
    tensor_file_close(&f);
    arena_release(&a);
}

/* The order of bf16 codes on the number line, so that neighbours differ by one. */
static int code_place(uint16_t code)
{
    return code & 0x8000 ? -(code & 0x7fff) : code;
}

struct product {
    const uint16_t *a, *b, *c_bf16;
    const double *c_f64, *sum_abs;
    int64_t M, N, K;
};

static void try_product(struct tally *t, const char *name, const struct product *p)
{
    double worst = 0; /* error over its bound */
    int64_t apart = 0;
    char why[160];

    for (int64_t m = 0; m < p->M; m++) {
        for (int64_t n = 0; n < p->N; n++) {
            int64_t at = m * p->N + n;
            double error, bound = (double)p->K * 0x1p-24 * p->sum_abs[at];
            float sum = 0;

            for (int64_t k = 0; k < p->K; k++) {
                sum += bf16_to_float(p->a[m * p->K + k]) * bf16_to_float(p->b[k * p->N + n]);
            }
            error = fabs((double)sum - p->c_f64[at]);
            worst = error > bound * worst ? error / bound : worst;
            apart += abs(code_place(bf16_from_float(sum)) - code_place(p->c_bf16[at])) > 1;
        }
    }
    snprintf(why, sizeof why,
             "worst error %.3f of its bound, %lld results more than a bf16 unit apart", worst,
             (long long)apart);
    worst <= 1 && apart == 0 ? tally_pass(t, name, why) : tally_fail(t, name, why);
}

static void product_of(struct tally *t, struct arena *a, const struct tensor_file *f,
                       const char *name)
{
    const struct tensor_entry *left = tensor_file_find(f, arena_format(a, "%s.a", name));
    const struct tensor_entry *right = tensor_file_find(f, arena_format(a, "%s.b", name));
    struct product p = { 0 };
    int64_t counts[5] = { 0 };

    if (left == NULL || right == NULL || left->rank != 2 || right->rank != 2 ||
        left->shape[1] != right->shape[0]) {
        tally_fail(t, name, "a [M, K] and b [K, N] must be there");
        return;
    }
    p.M = left->shape[0];
    p.K = left->shape[1];
    p.N = right->shape[1];
    p.a = read_tensor(t, a, f, left->name, DT_BF16, &counts[0]);
    p.b = read_tensor(t, a, f, right->name, DT_BF16, &counts[1]);
    p.c_f64 = read_tensor(t, a, f, arena_format(a, "%s.c_f64", name), DT_F64, &counts[2]);
    p.sum_abs = read_tensor(t, a, f, arena_format(a, "%s.sum_abs", name), DT_F64, &counts[3]);
    p.c_bf16 = read_tensor(t, a, f, arena_format(a, "%s.c_bf16", name), DT_BF16, &counts[4]);
    if (p.a == NULL || p.b == NULL || p.c_f64 == NULL || p.sum_abs == NULL || p.c_bf16 == NULL) {
        return;
    }
    if (counts[2] != p.M * p.N || counts[3] != p.M * p.N || counts[4] != p.M * p.N) {
        tally_fail(t, name, "results must be [M, N]");
        return;
    }
    try_product(t,
                arena_format(a, "product %s [%lld, %lld] [%lld, %lld]", name, (long long)p.M,
                             (long long)p.K, (long long)p.K, (long long)p.N),
                &p);
}

static void products_of_file(struct tally *t, const char *path)
{
    struct arena a = { 0 };
    struct tensor_file f;

    if (tensor_file_open(&f, &a, path) != OK) {
        tally_fail(t, path, fail_text());
        return;
    }
    for (size_t i = 0; i < f.count; i++) {
        const char *name = f.entries[i].name;

        if (text_ends(name, ".a")) {
            product_of(t, &a, &f, arena_text_n(&a, name, strlen(name) - 2));
        }
    }
    tensor_file_close(&f);
    arena_release(&a);
}

int main(int argc, char **argv)
{
    struct arena a = { 0 };
    struct tally t = { 0 };
    const char *folder, *products;
    int code;

    if (argc != 2) {
        fprintf(stderr, "usage: golden_casts DIR\n");
        return 2;
    }
    folder = path_join(&a, argv[1], "bf16");
    if (file_is_there(path_join(&a, argv[1], "casts.safetensors"))) {
        folder = argv[1];
    }
    casts_of_file(&t, path_join(&a, folder, "casts.safetensors"));
    products = path_join(&a, folder, "matmul.safetensors");
    if (file_is_there(products)) {
        products_of_file(&t, products);
    } else {
        tally_skip(&t, products, "is not there");
    }
    code = tally_close(&t);
    arena_release(&a);
    return code;
}
