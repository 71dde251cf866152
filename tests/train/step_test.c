/* The step's promises on one rank: what changes nothing, what is skipped and named, and what the
 * schedule says. */
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "base/log.h"
#include "train/tiny_train.h"

static char folder[256];
static const char *dirs[1];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/roux-step-XXXXXX",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    dirs[0] = folder;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    return folder_remove(folder) != OK;
}

/* ---- a trainer, its weights as bytes, and what it logged ---- */

static void open_trainer(struct trainer *t, struct train_spec *s, struct comm *one)
{
    comm_alone(one);
    EXPECT_OK(trainer_open(t, s, one));
}

static void *state_bytes(const struct trainer *t, size_t *length)
{
    const struct program *p = &t->programs.update;
    char *all = calloc(1, (size_t)t->programs.residents.bytes);

    *length = 0;
    for (int i = 1; i < p->value_count; i++) {
        const struct value *v = &p->values[i];
        size_t bytes = (size_t)shape_count(&v->shape) * dtype_bytes(v->dtype);

        if (v->role == ROLE_WEIGHT || strncmp(v->name, "moment", 6) == 0) {
            memcpy(all + *length, device_bytes(&t->device, p, (val){ i }), bytes);
            *length += bytes;
        }
    }
    assert_true(*length > 10000);
    return all;
}

static void expect_state(const struct trainer *t, const void *before, size_t length, bool same)
{
    size_t now;
    void *after = state_bytes(t, &now);

    assert_int_equal(now, length);
    assert_int_equal(memcmp(before, after, length) == 0, same);
    free(after);
}

/* Runs one step and returns what was logged meanwhile. */
static char *step_and_log(struct trainer *t, struct step_report *r)
{
    static char text[4096];
    char path[300];
    int fd;
    ssize_t n;

    snprintf(path, sizeof path, "%s/log", folder);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    log_set_file(fd);
    EXPECT_OK(trainer_step(t, r));
    log_set_file(-1);
    n = pread(fd, text, sizeof text - 1, 0);
    assert_true(n >= 0);
    text[n] = 0;
    close(fd);
    return text;
}

/* ---- tests ---- */

static void a_step_without_targets_changes_nothing(void **state)
{
    struct train_spec s;
    struct comm one;
    struct trainer t;
    struct step_report r;
    size_t length;
    void *before;
    char *log;

    (void)state;
    tiny_write_rows(folder, true);
    tiny_spec(&s, dirs, DT_F32, 2, 4);
    open_trainer(&t, &s, &one);
    before = state_bytes(&t, &length);
    log = step_and_log(&t, &r);
    assert_true(r.skipped);
    assert_int_equal(r.targets, 0);
    assert_non_null(strstr(log, "step 1 has no valid target: it changes nothing"));
    expect_state(&t, before, length, true);
    /* The step, the schedule and the rows go on; AdamW's counter does not. */
    assert_int_equal(t.at.step, 1);
    assert_int_equal(t.at.updates, 0);
    assert_int_equal(t.at.rows_consumed, 6);
    free(before);
    trainer_close(&t);
}

static void a_row_with_a_loss_that_is_not_finite_is_skipped_and_named(void **state)
{
    struct train_spec s;
    struct comm one;
    struct trainer t;
    struct step_report r;
    size_t length;
    void *before;
    char *log;
    float nan = NAN;
    val root;

    (void)state;
    tiny_write_rows(folder, false);
    tiny_spec(&s, dirs, DT_F32, 2, 9);
    open_trainer(&t, &s, &one);
    EXPECT_OK(trainer_step(&t, &r));
    assert_false(r.skipped);
    /* The embedding of a token that row 6, the first of step 2, holds. */
    root = program_find(&t.programs.update, "weight.root");
    {
        struct philox_stream ids = philox_stream_make(9, "rows");

        device_write(&t.device, &t.programs.update, root,
                     philox_below(&ids, 6 * TINY_WIDTH, TINY_VOCAB) * s.model.width, 1, &nan);
    }
    before = state_bytes(&t, &length);
    log = step_and_log(&t, &r);
    assert_true(r.skipped);
    assert_non_null(strstr(log, "row 6 ("));
    assert_non_null(strstr(log, "rows.json:7): its loss is not finite"));
    assert_non_null(strstr(log, "step 2 is skipped"));
    expect_state(&t, before, length, true);
    assert_int_equal(t.at.updates, 1);
    assert_int_equal(t.at.skipped, 1);
    assert_int_equal(t.at.skipped_in_a_row, 1);
    free(before);
    trainer_close(&t);
}

/* Elements first, first + step, ... of a part of a segment become x. */
static void set_part(struct trainer *t, int segment, enum part_kind kind, int64_t first,
                     int64_t step, float x)
{
    const struct weight_segment *g = &t->programs.model.weights->segments[segment];
    char name[64];
    val flat;

    snprintf(name, sizeof name, "weight.%s", g->name);
    flat = program_find(&t->programs.update, name);
    for (int i = 0; i < g->count; i++) {
        int64_t count = g->parts[i].local[0] * g->parts[i].local[1];

        for (int64_t k = first; g->parts[i].kind == kind && k < count; k += step) {
            device_write(&t->device, &t->programs.update, flat, g->parts[i].at + k, 1, &x);
        }
    }
}

/* Column 3 of the residual stream is zero everywhere, so the head's huge weights there change no
 * logit; but the last norm's derivative multiplies them by its gain, which overflows. */
static void plant_infinite_gradient(struct trainer *t, int64_t width)
{
    set_part(t, 0, PART_EMBED, 3, width, 0);
    for (int layer = 1; layer < t->programs.model.weights->count; layer++) {
        for (int64_t k = 0; k < 40; k++) {
            int64_t in[2] = { 32, 40 }; /* inputs of o and of down */

            if (k < in[0]) {
                set_part(t, layer, PART_O, 3 * in[0] + k, INT64_MAX / 2, 0);
            }
            set_part(t, layer, PART_DOWN, 3 * in[1] + k, INT64_MAX / 2, 0);
        }
    }
    set_part(t, 0, PART_HEAD, 3, 2 * width, 1e30f);
    set_part(t, 0, PART_HEAD, 3 + width, 2 * width, -1e30f);
    set_part(t, 0, PART_NORM, 3, INT64_MAX / 2, 1e30f);
}

static void a_gradient_that_is_not_finite_names_the_first_bad_value(void **state)
{
    struct train_spec s;
    struct comm one;
    struct trainer t;
    struct step_report r;
    size_t length;
    void *before;
    char *log;

    (void)state;
    tiny_write_rows(folder, false);
    tiny_spec(&s, dirs, DT_F32, 2, 9);
    open_trainer(&t, &s, &one);
    plant_infinite_gradient(&t, s.model.width);
    before = state_bytes(&t, &length);
    log = step_and_log(&t, &r);
    assert_true(r.skipped);
    assert_true(isfinite(r.loss) && !isfinite(r.grad_norm));
    assert_non_null(strstr(log, "step 1 is skipped"));
    assert_null(strstr(log, "its loss is not finite"));
    assert_non_null(strstr(log, "the first value that is not finite is head.norm.dx"));
    expect_state(&t, before, length, true);
    free(before);
    trainer_close(&t);
}

/* The same rows whatever number of threads; a usable step changes the state. */
static void a_usable_step_changes_weights_and_zeroes_gradients(void **state)
{
    struct train_spec s;
    struct comm one;
    struct trainer t;
    struct step_report r;
    size_t length;
    void *before;

    (void)state;
    tiny_write_rows(folder, false);
    tiny_spec(&s, dirs, DT_F64, 2, 4);
    open_trainer(&t, &s, &one);
    before = state_bytes(&t, &length);
    EXPECT_OK(trainer_step(&t, &r));
    assert_false(r.skipped);
    assert_true(r.loss > 1 && r.loss < 10 && r.grad_norm > 0);
    expect_state(&t, before, length, false);
    for (int i = 1; i < t.programs.learn.value_count; i++) {
        const struct value *v = &t.programs.learn.values[i];

        for (int64_t k = 0; v->role == ROLE_GRAD && k < shape_count(&v->shape); k++) {
            double x;

            device_read(&t.device, &t.programs.learn, (val){ i }, k, 1, &x);
            assert_true(x == 0);
        }
    }
    free(before);
    trainer_close(&t);
}

/* Vectors of the reference's rule (facts of this project), to 1e-14. */
static void schedule_follows_its_vectors(void **state)
{
    static const struct {
        struct schedule s;
        int64_t t;
        double rate;
    } cases[] = {
        { { 1e-4, 1e-6, 0, 0, 50 }, 0, 1e-4 },
        { { 1e-4, 1e-6, 0, 0, 50 }, 10, 9.05463412215599e-05 },
        { { 1e-4, 1e-6, 0, 0, 50 }, 51, 1e-6 },
        { { 2e-4, 2e-5, 5, 0, 20 }, 0, 3.3333333333333335e-05 },
        { { 2e-4, 2e-5, 5, 0, 20 }, 12, 1.1940756169408883e-04 },
        { { 2e-4, 2e-5, 5, 4, 20 }, 0, 0 },
        { { 2e-4, 2e-5, 5, 4, 20 }, 6, 1.9635436762530477e-04 },
        { { 2e-4, 2e-5, 5, 4, 20 }, 16, 2e-5 },
        { { 1e-3, 1e-4, 0, 4, 10 }, 1, 9.397114317029975e-04 },
        { { 1e-3, 1e-4, 0, 0, 0 }, 0, 1e-4 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double rate = schedule_rate(&cases[i].s, cases[i].t);

        EXPECT_OK(schedule_check(&cases[i].s));
        assert_true(fabs(rate - cases[i].rate) <= 1e-14 * cases[i].rate);
    }
    {
        struct schedule rising = { 1e-4, 2e-4, 0, 0, 10 }, flat = { 1e-4, 1e-4, 2, 3, 10 };

        EXPECT_FAIL(ERR_RECIPE, "min_lr", schedule_check(&rising));
        EXPECT_FAIL(ERR_RECIPE, "constant_steps", schedule_check(&flat));
    }
}

/* Vectors of the reference's formula. */
static void tflops_follow_their_vectors(void **state)
{
    struct model_spec small = {
        .width = 1024, .heads = 16, .groups = 16, .layers = 24, .ffn = 4096, .vocab = 50000
    };
    struct model_spec llama = {
        .width = 4096, .heads = 32, .groups = 8, .layers = 32, .ffn = 14336, .vocab = 128256
    };

    (void)state;
    assert_true(fabs(metrics_tflops(&small, 1000, 1024, 1, 8) - 309.904539648) < 1e-9);
    assert_true(fabs(metrics_tflops(&llama, 16, 8192, 2, 8) - 382.063110782976) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_step_without_targets_changes_nothing, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_row_with_a_loss_that_is_not_finite_is_skipped_and_named,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_gradient_that_is_not_finite_names_the_first_bad_value,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_usable_step_changes_weights_and_zeroes_gradients,
                                        make_folder, remove_folder),
        cmocka_unit_test(schedule_follows_its_vectors),
        cmocka_unit_test(tflops_follow_their_vectors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
