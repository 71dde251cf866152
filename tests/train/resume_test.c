/* Which checkpoint a start takes, what it refuses, and what it leaves alone. */
#include <unistd.h>

#include "base/log.h"
#include "train/tiny_train.h"

static char folder[256];
static const char *dirs[1];
static struct arena memory;

static int make_folder(void **state)
{
    const char *base = getenv("TMPDIR");

    (void)state;
    snprintf(folder, sizeof folder, "%s/roux-resume-XXXXXX", base != NULL ? base : "/tmp");
    dirs[0] = folder;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    tiny_write_rows(folder, false);
    log_set_level(LOG_ERROR);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return folder_remove(folder) != OK;
}

static const char *below(const char *name)
{
    return path_join(&memory, folder, name);
}

static struct train_spec spec_of(int64_t steps)
{
    struct train_spec s;

    tiny_spec(&s, dirs, DT_F32, 1, steps);
    s.checkpoint_dir = below("ck");
    return s;
}

static void open_trainer(struct trainer *t, const struct train_spec *s)
{
    static struct comm one;

    comm_alone(&one);
    EXPECT_OK(trainer_open(t, s, &one));
}

static void step_and_save(struct trainer *t, const char *name)
{
    struct step_report r;

    EXPECT_OK(trainer_step(t, &r));
    EXPECT_OK(trainer_save(t, name));
}

/* Steps 1 and 2, saved under these names. */
static void two_steps(const char *first, const char *second)
{
    struct train_spec s = spec_of(9);
    struct trainer t;

    open_trainer(&t, &s);
    step_and_save(&t, first);
    step_and_save(&t, second);
    trainer_close(&t);
}

/* Flips a bit in the last tensor's data: only reading it all shows that. */
static void spoil(const char *checkpoint)
{
    const char *path = path_join(&memory, below(checkpoint), "tp0_ep0/shard0.safetensors");
    char *bytes;
    size_t length;

    EXPECT_OK(file_read(&memory, path, 1 << 26, &bytes, &length));
    bytes[length / 2] ^= 1;
    EXPECT_OK(file_replace(path, bytes, length));
}

static void starts_at(const struct train_spec *s, int64_t step)
{
    struct trainer t;

    open_trainer(&t, s);
    assert_int_equal(t.at.step, step);
    trainer_close(&t);
}

static void refuses(const struct train_spec *s, status code, const char *says)
{
    struct comm one;
    struct trainer t;

    comm_alone(&one);
    EXPECT_FAIL(code, says, trainer_open(&t, s, &one));
    trainer_close(&t);
}

static void damage_takes_the_next_older(void **state)
{
    struct train_spec s = spec_of(9);

    (void)state;
    s.resume_if_exists = true;
    starts_at(&s, 0);
    two_steps("step_1", "step_2");
    starts_at(&s, 2);
    spoil("ck/sharded/step_2");
    starts_at(&s, 1);
    s.resume_from = below("ck");
    starts_at(&s, 1);
    s.resume_from = below("ck/sharded/step_2"); /* named itself: that or nothing */
    refuses(&s, ERR_FORMAT, "were altered since they were written");
    s.resume_from = NULL;
    spoil("ck/sharded/step_1");
    refuses(&s, ERR_FORMAT, "holds no older one that is whole");
}

static void a_damaged_stop_is_not_begun_again(void **state)
{
    struct train_spec s = spec_of(9);

    (void)state;
    two_steps("step_1", "stop_2");
    starts_at(&s, 2);
    spoil("ck/sharded/stop_2");
    refuses(&s, ERR_FORMAT, "were altered since they were written");
    EXPECT_OK(file_replace(below("ck/sharded/stop_2/.roux/manifest.json"), "{}", 2));
    refuses(&s, ERR_FORMAT, "remove that stop_<k> folder to begin anew");
    s.resume_if_exists = true;
    starts_at(&s, 1);
    s.resume_if_exists = false;
    EXPECT_OK(folder_remove(below("ck/sharded/stop_2")));
    starts_at(&s, 0);
}

static void a_stop_goes_with_the_next_publication(void **state)
{
    struct train_spec s = spec_of(9);
    struct trainer t;
    struct step_report r;

    (void)state;
    two_steps("stop_1", "stop_2");
    open_trainer(&t, &s);
    assert_int_equal(t.at.step, 2);
    EXPECT_OK(trainer_step(&t, &r));
    EXPECT_OK(trainer_export(&t, below("ck/full/steps_3"))); /* nothing resumes from that */
    assert_true(file_is_there(below("ck/sharded/stop_2")));
    EXPECT_OK(trainer_save(&t, "step_3"));
    assert_false(file_is_there(below("ck/sharded/stop_2")));
    trainer_close(&t);
}

/* "The checkpoint that resume_from_checkpoint names is never touched." */
static void a_named_stop_stays(void **state)
{
    struct train_spec s = spec_of(9);

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct trainer t;

        s.checkpoint_dir = below(i == 0 ? "ck" : "other");
        EXPECT_OK(folder_remove(below("ck")));
        two_steps("step_1", "stop_2");
        if (i == 1) {
            assert_int_equal(rename(below("ck"), below("away")), 0);
        }
        s.resume_from = below(i == 0 ? "ck/sharded/stop_2" : "away/sharded/stop_2");
        open_trainer(&t, &s);
        assert_int_equal(t.at.step, 2);
        step_and_save(&t, "step_3");
        trainer_close(&t);
        assert_true(file_is_there(s.resume_from));
    }
}

static void another_model_is_refused(void **state)
{
    struct train_spec s = spec_of(9);

    (void)state;
    two_steps("step_1", "step_2");
    s.resume_if_exists = true;
    s.model.layers = 1;
    refuses(&s, ERR_RECIPE, "tensor model.layers.1.");
    s.model.layers = 3;
    refuses(&s, ERR_RECIPE, "tensor model.layers.2.");
}

/* ---- targets ---- */

static void what_fails_at_the_end_is_tried_at_the_start(void **state)
{
    struct train_spec s = spec_of(1);
    struct trainer t;

    (void)state;
    s.save_last = s.export_last = true;
    s.final_export_dir = below("model");
    EXPECT_OK(folder_make(below("model")));
    EXPECT_OK(file_replace(below("model/mine"), "x", 1));
    open_trainer(&t, &s);
    EXPECT_FAIL(ERR_RECIPE, "was not exported by roux", targets_open(&t));
    trainer_close(&t);
    EXPECT_OK(folder_remove(below("model")));
    EXPECT_OK(folder_make(below("ck")));
    open_trainer(&t, &s);
    EXPECT_OK(file_replace(below("ck/sharded"), "x", 1));
    EXPECT_FAIL(ERR_IO, "/sharded: is a file", targets_open(&t));
    targets_close(&t);
    t.at.step = 1; /* nothing is left to do, so nothing needs a place */
    EXPECT_OK(targets_open(&t));
    trainer_close(&t);
}

static void two_runs_do_not_write_into_one_folder(void **state)
{
    struct train_spec s = spec_of(9);
    struct trainer a, b;

    (void)state;
    open_trainer(&a, &s);
    open_trainer(&b, &s);
    EXPECT_OK(targets_open(&a));
    EXPECT_FAIL(ERR_IO, "another run is writing here", targets_open(&b));
    trainer_close(&a);
    EXPECT_OK(targets_open(&b));
    trainer_close(&b);
    s.checkpoint_dir = s.log_dir;
    open_trainer(&a, &s);
    EXPECT_OK(targets_open(&a));
    trainer_close(&a);
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(damage_takes_the_next_older),
        IN_A_FOLDER(a_damaged_stop_is_not_begun_again),
        IN_A_FOLDER(a_stop_goes_with_the_next_publication),
        IN_A_FOLDER(a_named_stop_stays),
        IN_A_FOLDER(another_model_is_refused),
        IN_A_FOLDER(what_fails_at_the_end_is_tried_at_the_start),
        IN_A_FOLDER(two_runs_do_not_write_into_one_folder),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    arena_release(&memory);
    return failed;
}
