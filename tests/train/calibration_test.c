#include "support/folder.h"

#include "base/text.h"
#include "train/calibration.h"

static const struct calibration_key key = {
    "Some CPU, family 1, model 2", "avx2", "32", "0.1.0", 4, 2
};

static void make(struct calibration *c, struct arena *a, double peak)
{
    calibration_init(c, a);
    c->key = key;
    c->peak = peak;
    c->memory = 3e10;
    c->barrier_seconds = 2e-6;
    calibration_add(c, &(struct calibration_point){ OP_LINEAR, { 8, 16, 32 }, 8192, 1e-6 });
    calibration_add(c, &(struct calibration_point){ OP_ADD, { 64, 1, 1 }, 768, 3e-7 });
}

static void what_was_saved_is_found(void **state)
{
    struct arena a = { 0 };
    const char *folder = folder_new(&a), *why,
               *path = path_join(&a, folder, "cache/roux/calibration.json");
    struct calibration c, found;

    (void)state;
    assert_int_equal(calibration_find(&found, &a, path, &key, &why), CALIBRATION_ABSENT);
    make(&c, &a, 1e11);
    EXPECT_OK(calibration_save(path, &c));
    assert_int_equal(calibration_find(&found, &a, path, &key, &why), CALIBRATION_FITS);
    assert_string_equal(found.key.cpu, key.cpu);
    assert_true(found.peak == 1e11 && found.memory == 3e10 && found.barrier_seconds == 2e-6);
    assert_int_equal(found.count, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(found.points[i].op, c.points[i].op);
        assert_memory_equal(found.points[i].size, c.points[i].size, sizeof c.points[i].size);
        assert_true(found.points[i].work == c.points[i].work);
        assert_true(found.points[i].seconds == c.points[i].seconds);
    }
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

static void an_entry_takes_the_place_of_its_key_alone(void **state)
{
    struct arena a = { 0 };
    const char *folder = folder_new(&a), *why, *path = path_join(&a, folder, "c.json");
    struct calibration c, found;
    struct calibration_key other = key;

    (void)state;
    make(&c, &a, 1e11);
    EXPECT_OK(calibration_save(path, &c));
    strcpy(other.precision, "bf16");
    c.key = other;
    c.peak = 2e11;
    EXPECT_OK(calibration_save(path, &c));
    c.peak = 4e11;
    EXPECT_OK(calibration_save(path, &c));
    assert_int_equal(calibration_find(&found, &a, path, &key, &why), CALIBRATION_FITS);
    assert_true(found.peak == 1e11);
    assert_int_equal(calibration_find(&found, &a, path, &other, &why), CALIBRATION_FITS);
    assert_true(found.peak == 4e11);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

static void a_point_takes_the_place_of_its_size(void **state)
{
    struct arena a = { 0 };
    struct calibration c;

    (void)state;
    make(&c, &a, 1);
    calibration_add(&c, &(struct calibration_point){ OP_LINEAR, { 8, 16, 32 }, 8192, 5 });
    assert_int_equal(c.count, 2);
    assert_true(c.points[0].seconds == 5);
    arena_release(&a);
}

/* Each part of the key by itself makes the entry another machine's, and is named. */
static void an_entry_of_another_machine_says_what_differs(void **state)
{
    struct arena a = { 0 };
    const char *folder = folder_new(&a), *path = path_join(&a, folder, "c.json");
    struct calibration c, found;
    struct {
        struct calibration_key key;
        const char *part;
    } cases[] = { { key, "processor Some CPU, family 1, model 2, here another" },
                  { key, "kernels avx2, here avx512" },
                  { key, "precision 32, here 64" },
                  { key, "roux 0.1.0, here 0.2.0" },
                  { key, "cores 4, here 8" },
                  { key, "threads 2, here 1" } };

    (void)state;
    strcpy(cases[0].key.cpu, "another");
    strcpy(cases[1].key.family, "avx512");
    strcpy(cases[2].key.precision, "64");
    strcpy(cases[3].key.version, "0.2.0");
    cases[4].key.cores = 8;
    cases[5].key.threads = 1;
    make(&c, &a, 1e11);
    EXPECT_OK(calibration_save(path, &c));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *why;

        assert_int_equal(calibration_find(&found, &a, path, &cases[i].key, &why),
                         CALIBRATION_FOREIGN);
        assert_string_equal(why, cases[i].part);
    }
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

#define HEAD                                                                                    \
    "{\"entries\":[{\"cpu\":\"Some CPU, family 1, model 2\",\"family\":\"avx2\",\"precision\":" \
    "\"32\",\"version\":\"0.1.0\",\"cores\":4,\"threads\":2,\"peak_flops\":1,"                  \
    "\"memory_bytes\":1,\"barrier_seconds\":0,\"points\":["

static void damage_is_named_and_written_over(void **state)
{
    static const struct {
        const char *text, *part;
    } cases[] = { { "", "c.json:1: " },
                  { "{\"entries\": [", "c.json:1: " },
                  { "{}", "c.json: it has no list \"entries\"" },
                  { "{\"entries\": [3]}", "c.json: entry 1 is damaged" },
                  { HEAD "]}]}", "c.json: entry 1 is damaged" },
                  { HEAD "[\"linear\",1,1,1,1]]}]}", "entry 1 is damaged" },
                  { HEAD "[\"no op\",1,1,1,1,1]]}]}", "entry 1 is damaged" },
                  { HEAD "[\"linear\",1,0,1,1,1]]}]}", "entry 1 is damaged" },
                  { HEAD "[\"linear\",1,1,1,1,-1]]}]}", "entry 1 is damaged" } };
    struct arena a = { 0 };
    const char *folder = folder_new(&a), *path = path_join(&a, folder, "c.json"), *why;
    struct calibration c, found;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        folder_put_text(&a, folder, "c.json", cases[i].text);
        assert_int_equal(calibration_find(&found, &a, path, &key, &why), CALIBRATION_DAMAGED);
        if (strstr(why, cases[i].part) == NULL || strstr(why, path) == NULL) {
            print_error("'%s' says '%s'\n", cases[i].text, why);
            assert_true(false);
        }
    }
    folder_put_text(&a, folder, "c.json", HEAD "[\"linear\",1,1,1,1,1]]}]}");
    assert_int_equal(calibration_find(&found, &a, path, &key, &why), CALIBRATION_FITS);
    folder_put_text(&a, folder, "c.json", "{");
    make(&c, &a, 1e11);
    EXPECT_OK(calibration_save(path, &c));
    assert_int_equal(calibration_find(&found, &a, path, &key, &why), CALIBRATION_FITS);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

static void the_place_follows_the_environment(void **state)
{
    struct arena a = { 0 };
    const char *path;

    (void)state;
    setenv("XDG_CACHE_HOME", "/somewhere", 1);
    setenv("HOME", "/home/x", 1);
    EXPECT_OK(calibration_path(&a, &path));
    assert_string_equal(path, "/somewhere/roux/calibration.json");
    unsetenv("XDG_CACHE_HOME");
    EXPECT_OK(calibration_path(&a, &path));
    assert_string_equal(path, "/home/x/.cache/roux/calibration.json");
    unsetenv("HOME");
    EXPECT_FAIL(ERR_MISSING, "neither XDG_CACHE_HOME nor HOME is set", calibration_path(&a, &path));
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_saved_is_found),
        cmocka_unit_test(an_entry_takes_the_place_of_its_key_alone),
        cmocka_unit_test(a_point_takes_the_place_of_its_size),
        cmocka_unit_test(an_entry_of_another_machine_says_what_differs),
        cmocka_unit_test(damage_is_named_and_written_over),
        cmocka_unit_test(the_place_follows_the_environment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
