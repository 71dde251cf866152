/*
 * Probes and greedy tokens of the golden llama models (tests/golden/models/README.md: where they
 * come from, tolerances). The tool golden_models checks the model's layers on the same data; here
 * it is the door of this room.
 */
#include <jansson.h>
#include <math.h>
#include "support/expect.h"
#include "base/file.h"
#include "infer/infer.h"
#include "store/safetensors.h"

static const char *const cases[] = { "llama-bias", "llama-headdim", "llama-llama3-tied",
                                     "llama-packed" };
enum { CASES = sizeof cases / sizeof cases[0] };

static struct arena arena;
static char work[256];

static const char *case_path(int i, const char *name)
{
    const char *source = getenv("ROUX_SOURCE");

    if (source == NULL) {
        skip();
    }
    return arena_format(&arena, "%s/tests/golden/models/%s/%s", source, cases[i], name);
}

static double *values(const struct tensor_file *f, const char *name, int64_t *count)
{
    const struct tensor_entry *e = tensor_file_find(f, name);
    double *out;

    if (e == NULL) {
        print_error("%s has no %s\n", f->path, name);
        _fail(__FILE__, __LINE__);
        return NULL;
    }
    out = arena_take_array(&arena, (size_t)e->count, sizeof *out);
    EXPECT_OK(tensor_file_read(f, e, 0, e->count, DT_F64, out));
    *count = e->count;
    return out;
}

/* The largest difference, by the largest of `want` where `relative`. */
static void expect_near(const struct tensor_file *got, const char *name,
                        const struct tensor_file *want, const char *as, bool relative,
                        double tolerance)
{
    int64_t n, m;
    const double *x = values(got, name, &n), *y = values(want, as, &m);
    double worst = 0, largest = 0;

    assert_int_equal(n, m);
    for (int64_t i = 0; i < n; i++) {
        worst = isnan(x[i]) ? INFINITY : fmax(worst, fabs(x[i] - y[i]));
        largest = fmax(largest, fabs(y[i]));
    }
    if (worst > tolerance * (relative ? largest : 1)) {
        print_error("%s: %s is off by %g of %g\n", want->path, name, worst, largest);
        _fail(__FILE__, __LINE__);
    }
}

static int probe_case(int i, enum dtype real)
{
    bool wide = real == DT_F64;
    struct probe_options o = { .model = case_path(i, "."),
                               .batch = case_path(i, "case.safetensors"),
                               .out = path_join(&arena, work, "out"),
                               .real = real,
                               .threads = 2 };
    struct tensor_file got, want;
    struct probe_report r;
    struct comm alone;
    int gradients = 0;

    comm_alone(&alone);
    EXPECT_OK(probe_run(&o, &alone, &arena, &r));
    comm_close(&alone);
    EXPECT_OK(tensor_file_open(&got, &arena, o.out));
    EXPECT_OK(tensor_file_open(&want, &arena, o.batch));
    expect_near(&got, "logits", &want, "logits.f64", false, wide ? 1e-11 : 3e-5);
    expect_near(&got, "loss", &want, "loss.f64", true, wide ? 1e-12 : 1e-6);
    for (size_t k = 0; k < want.count; k++) {
        const char *name = want.entries[k].name;

        if (strncmp(name, "grad.", 5) == 0) {
            expect_near(&got, name, &want, name, true, wide ? 2e-7 : 1e-5);
            gradients++;
        }
    }
    assert_int_equal(r.gradients, gradients);
    assert_int_equal(got.count, gradients + 2);
    tensor_file_close(&got);
    tensor_file_close(&want);
    return gradients;
}

static void probes_are_the_truth(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        assert_true(probe_case(i, DT_F64) > 10);
        assert_true(probe_case(i, DT_F32) > 10);
    }
}

static json_t *expected_tokens;
static size_t token_count;

static status expect_token(void *user, int64_t id)
{
    (void)user;
    assert_int_equal(id, json_integer_value(json_array_get(expected_tokens, token_count++)));
    return OK;
}

static void generate_sequence(int i, const json_t *sequence, enum dtype real)
{
    const json_t *prompt = json_object_get(sequence, "prompt");
    int64_t *ids = arena_take_array(&arena, json_array_size(prompt), sizeof *ids);
    struct generate_options o = {
        .model = case_path(i, "."), .prompt = ids, .threads = 2, .real = real
    };
    struct generate_report r;

    for (size_t k = 0; k < json_array_size(prompt); k++) {
        ids[k] = json_integer_value(json_array_get(prompt, k));
    }
    expected_tokens = json_object_get(sequence, "tokens");
    token_count = 0;
    o.prompt_count = (int64_t)json_array_size(prompt);
    o.most = (int64_t)json_array_size(expected_tokens);
    EXPECT_OK(generate_run(&o, expect_token, NULL, &r));
    assert_int_equal(r.tokens, o.most);
    assert_true(r.tokens > 0);
}

static void greedy_tokens_are_the_truth(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        json_t *file = json_load_file(case_path(i, "generate.json"), 0, NULL);
        json_t *sequences = json_object_get(file, "sequences"), *sequence;
        size_t number;

        assert_true(json_array_size(sequences) > 0);
        json_array_foreach(sequences, number, sequence)
        {
            generate_sequence(i, sequence, DT_F64);
            generate_sequence(i, sequence, DT_F32);
        }
        json_decref(file);
    }
}

static int make_work(void **state)
{
    const char *temporary = getenv("TMPDIR");

    (void)state;
    snprintf(work, sizeof work, "%s/roux-golden-XXXXXX", temporary != NULL ? temporary : "/tmp");
    return mkdtemp(work) == NULL;
}

static int remove_work(void **state)
{
    (void)state;
    EXPECT_OK(folder_remove(work));
    arena_release(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probes_are_the_truth),
        cmocka_unit_test(greedy_tokens_are_the_truth),
    };

    return cmocka_run_group_tests(tests, make_work, remove_work);
}
