/* What a run writes into event files: tags, steps, values; and what a resumed one voids. */
#include <jansson.h>
#include <math.h>

#include "base/log.h"
#include "support/event_log.h"
#include "support/folder.h"
#include "train/tiny_train.h"

static struct arena memory;
static const char *folder, *dirs[1], *event_folder;

static int make_folder(void **state)
{
    (void)state;
    folder = folder_new(&memory);
    event_folder = path_join(&memory, folder, "tb/tiny/1");
    dirs[0] = folder;
    tiny_write_rows(folder, false);
    log_set_level(LOG_ERROR);
    return 0;
}

static int remove_folder(void **state)
{
    status s = folder_remove(folder);

    (void)state;
    arena_release(&memory);
    return s != OK;
}

/* 53 rows, 3 a step: 17 steps and 2 micro-batches are a pass. */
static void train(int64_t steps, bool resumes, bool perf)
{
    const struct train_options quiet = { .quiet = true };
    struct train_spec s;
    struct comm one;

    comm_alone(&one);
    tiny_spec(&s, dirs, DT_F32, 1, 24);
    s.max_steps = steps;
    s.log_every = 2;
    s.log_perf = perf;
    s.checkpoint_dir = path_join(&memory, folder, "ck");
    s.event_dir = event_folder;
    s.val_dirs = dirs;
    s.val_dir_count = 1;
    s.val_batches = (struct batch_amount){ .value = 2 };
    s.val_interval = (struct batch_amount){ .value = 5 };
    s.save_every = 4;
    s.resume_if_exists = resumes;
    EXPECT_OK(train_run(&s, &one, &quiet));
}

static void expect_event(const struct event_log *l, const char *tag, int64_t k, double want)
{
    const struct event_scalar *s = event_log_find(l, tag, k - 1);

    assert_non_null(s);
    assert_true(s->value == (double)(float)want);
}

/* Every line of metrics.jsonl against the events: steps of even number, and all validations. */
static int64_t compare_with_lines(const struct event_log *l)
{
    FILE *f = fopen(path_join(&memory, folder, "metrics.jsonl"), "re");
    char *line = NULL;
    size_t room = 0;
    int64_t values = 0;

    assert_non_null(f);
    while (getline(&line, &room, f) > 0) {
        json_t *o = json_loads(line, 0, NULL);
        int64_t k = json_integer_value(json_object_get(o, "step"));
        int64_t pass = (3 * k - 1) / TINY_ROWS;
        double epoch = (double)pass;

        if (json_object_get(o, "val_loss") != NULL && k > 0) {
            double loss = json_number_value(json_object_get(o, "val_loss"));

            expect_event(l, "Loss/val", k, loss);
            expect_event(l, "Loss/perplexity", k, exp(loss));
            expect_event(l, "epoch", k, epoch);
            values += 3;
        } else if (json_object_get(o, "loss") != NULL && k % 2 == 0) {
            expect_event(l, "Loss/train", k, json_number_value(json_object_get(o, "loss")));
            expect_event(l, "Norms/grad_norm", k,
                         json_number_value(json_object_get(o, "grad_norm")));
            expect_event(l, "LR/learning_rate", k,
                         json_number_value(json_object_get(o, "next_lr")));
            expect_event(l, "epoch", k, epoch);
            values += 4;
        }
        json_decref(o);
    }
    free(line);
    fclose(f);
    return values;
}

static void events_are_those_of_the_lines(void **state)
{
    struct event_log l;

    (void)state;
    train(7, false, false);
    EXPECT_OK(event_log_read(&l, &memory, event_folder));
    assert_int_equal(l.file_count, 1);
    assert_int_equal(l.files[0].records, 1 + l.count); /* a first run voids nothing */
    /* Steps 2, 4, 6; validation after 5; none of the validation before the first step. */
    assert_int_equal(l.count, 3 * 4 + 3);
    assert_int_equal(compare_with_lines(&l), l.count);
    assert_null(event_log_find(&l, "Step Time", 1));
}

/* Saved at 4, so steps 5 to 7 are repeated: the validation after 5 is written twice. */
static void a_resumed_run_voids_what_it_repeats(void **state)
{
    struct event_log l;

    (void)state;
    train(20, true, false);
    EXPECT_OK(event_log_read(&l, &memory, event_folder));
    assert_int_equal(l.file_count, 2);
    assert_int_equal(l.count, 10 * 4 + 3 * 3); /* validated after 5, 10 and 15 */
    assert_int_equal(compare_with_lines(&l), l.count);
    assert_true(event_log_find(&l, "epoch", 17)->value == 1);
    train(20, true, false); /* nothing to train: no file */
    EXPECT_OK(event_log_read(&l, &memory, event_folder));
    assert_int_equal(l.file_count, 2);
}

static void a_run_from_the_beginning_voids_all(void **state)
{
    struct event_log l;
    const struct event_scalar *seconds, *rate, *flops;

    (void)state;
    event_folder = path_join(&memory, folder, "tb/tiny/1");
    train(2, false, true);
    EXPECT_OK(event_log_read(&l, &memory, event_folder));
    assert_int_equal(l.file_count, 3);
    assert_int_equal(l.count, 7);
    assert_int_equal(compare_with_lines(&l), 4);
    seconds = event_log_find(&l, "Step Time", 1);
    rate = event_log_find(&l, "Samples/Second", 1);
    flops = event_log_find(&l, "TFLOPS/GPU", 1);
    assert_true(seconds != NULL && rate != NULL && flops != NULL);
    assert_true(fabs(rate->value * seconds->value - 3) < 1e-5);
    assert_true(seconds->value > 0 && flops->value > 0);
}

/* Also into a folder where nothing is older, as a new version's is. */
static void a_resumed_run_says_so_everywhere(void **state)
{
    struct event_log l;

    (void)state;
    event_folder = path_join(&memory, folder, "tb/tiny/2");
    train(22, true, false);
    EXPECT_OK(event_log_read(&l, &memory, event_folder));
    assert_int_equal(l.count, 4 + 3); /* step 22, the fifth of its pass; saved after 20 */
    assert_int_equal(l.files[0].records, 1 + 1 + l.count);
}

/* 4 micro-batches are a pass, so step 4 still is of the first. */
static void an_epoch_ends_with_its_last_step(void **state)
{
    const struct train_options quiet = { .quiet = true };
    struct event_log l;
    struct train_spec s;
    struct comm one;

    (void)state;
    comm_alone(&one);
    tiny_spec(&s, dirs, DT_F32, 13, 8);
    s.accumulate = 1;
    s.log_every = 1;
    s.event_dir = path_join(&memory, folder, "tb/tiny/3");
    EXPECT_OK(train_run(&s, &one, &quiet));
    EXPECT_OK(event_log_read(&l, &memory, s.event_dir));
    for (int64_t k = 1; k <= 8; k++) {
        expect_event(&l, "epoch", k, k <= 4 ? 0 : 1);
    }
}

static void a_folder_that_takes_no_events_stops_the_start(void **state)
{
    const struct train_options quiet = { .quiet = true };
    struct train_spec s;
    struct comm one;

    (void)state;
    comm_alone(&one);
    tiny_spec(&s, dirs, DT_F32, 1, 2);
    s.event_dir = path_join(&memory, folder, "rows.json");
    EXPECT_FAIL(ERR_IO, s.event_dir, train_run(&s, &one, &quiet));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_those_of_the_lines),
        cmocka_unit_test(a_resumed_run_voids_what_it_repeats),
        cmocka_unit_test(a_resumed_run_says_so_everywhere),
        cmocka_unit_test(a_run_from_the_beginning_voids_all),
        cmocka_unit_test(an_epoch_ends_with_its_last_step),
        cmocka_unit_test(a_folder_that_takes_no_events_stops_the_start),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
