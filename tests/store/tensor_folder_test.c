#include <unistd.h>
#include "support/folder.h"
#include "store/safetensors.h"

/* A file of one-element F32 tensors, `names` ends with NULL; the values count from `first`. */
static void put_tensors(struct arena *a, const char *folder, const char *file,
                        const char *const *names, float first)
{
    struct tensor_writer w;
    int64_t one = 1;

    EXPECT_OK(tensor_writer_open(&w, a, path_join(a, folder, file)));
    for (int i = 0; names[i] != NULL; i++) {
        tensor_writer_declare(&w, names[i], DT_F32, 1, &one);
    }
    EXPECT_OK(tensor_writer_begin(&w, 8));
    for (int i = 0; names[i] != NULL; i++) {
        float value = first + (float)i;

        EXPECT_OK(tensor_writer_append(&w, &value, sizeof value));
    }
    EXPECT_OK(tensor_writer_finish(&w));
}

static float value_in(const struct tensor_folder *f, const char *name)
{
    const struct tensor_entry *e = tensor_folder_find(f, name);
    float value = 0;

    assert_non_null(e);
    EXPECT_OK(tensor_folder_read(f, e, 0, 1, DT_F32, &value));
    return value;
}

static const char *const one_name[] = { "a", NULL };
static const char *const two_names[] = { "b", "c", NULL };

static void files_of_an_index_are_one_name_space(void **state)
{
    struct arena a = { 0 };
    const char *folder = folder_new(&a);
    struct tensor_folder f;

    (void)state;
    put_tensors(&a, folder, "model-00001-of-00002.safetensors", one_name, 10);
    put_tensors(&a, folder, "model-00002-of-00002.safetensors", two_names, 20);
    folder_put_text(&a, folder, "model.safetensors.index.json",
                    "{\"metadata\": {\"total_size\": 12, \"x\": [1, {}]}, \"weight_map\": {\n"
                    "  \"c\": \"model-00002-of-00002.safetensors\", \"a\": "
                    "\"model-00001-of-00002.safetensors\"}}\n");
    EXPECT_OK(tensor_folder_open(&f, &a, folder));
    assert_int_equal(f.file_count, 2);
    assert_int_equal(f.by_name.count, 2);
    assert_true(value_in(&f, "a") == 10 && value_in(&f, "c") == 21);
    assert_null(tensor_folder_find(&f, "b")); /* not listed */
    tensor_folder_close(&f);
    tensor_folder_close(&f);

    put_tensors(&a, folder, "model.safetensors", one_name, 30); /* goes before the index */
    EXPECT_OK(tensor_folder_open(&f, &a, folder));
    assert_true(f.file_count == 1 && value_in(&f, "a") == 30);
    tensor_folder_close(&f);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

static void an_index_that_lies_is_refused(void **state)
{
    static const struct {
        const char *index;
        status code;
        const char *says;
    } cases[] = {
        { "", ERR_FORMAT, "an object must stand here (found: the end)" },
        { "[]", ERR_FORMAT, "an object must stand here" },
        { "{}", ERR_FORMAT, "weight_map is missing" },
        { "{\"weight_map\": {}} x", ERR_FORMAT, "text stands behind the end" },
        { "{\"weight_map\": []}", ERR_FORMAT, "weight_map: an object must stand here" },
        { "{\"weight_map\": {\"a\": 1}}", ERR_FORMAT, "weight_map (tensor names to file names)" },
        { "{\"weight_map\": {\"a\": \"one\"}, \"weight_map\": {}}", ERR_FORMAT,
          "weight_map stands twice" },
        { "{\"weight_map\": {\"a\": \"one\", \"a\": \"one\"}}", ERR_FORMAT,
          "tensor \"a\" stands twice" },
        { "{\"weight_map\": {\"q\": \"one\"}}", ERR_FORMAT, "tensor \"q\" should be in " },
        { "{\"weight_map\": {\"q\": \"two\"}}", ERR_MISSING, "puts tensor \"q\"" },
        { "{\"weight_map\": {\"a\": \"../one\"}}", ERR_FORMAT,
          "only files directly in the folder are allowed" },
        { "{\"weight_map\": {\"a\": \"/etc/passwd\"}}", ERR_FORMAT,
          "only files directly in the folder are allowed" },
        { "{\"weight_map\": {\"a\": \"..\"}}", ERR_FORMAT,
          "only files directly in the folder are allowed" },
        { "{\"weight_map\": {\"a\": \"\"}}", ERR_FORMAT,
          "only files directly in the folder are allowed" },
        { "{\"weight_map\": {\"a\": \"model.safetensors.index.json\"}}", ERR_FORMAT,
          "no safetensors file" },
    };
    struct arena a = { 0 };
    const char *folder = folder_new(&a);
    struct tensor_folder f;

    (void)state;
    put_tensors(&a, folder, "one", one_name, 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        folder_put_text(&a, folder, "model.safetensors.index.json", cases[i].index);
        EXPECT_FAIL(cases[i].code, cases[i].says, tensor_folder_open(&f, &a, folder));
        assert_non_null(strstr(fail_text(), "model.safetensors.index.json"));
    }
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

static void a_folder_without_a_model_says_so(void **state)
{
    struct arena a = { 0 };
    const char *folder = folder_new(&a);
    struct tensor_folder f;

    (void)state;
    EXPECT_FAIL(ERR_MISSING, "there is no such folder",
                tensor_folder_open(&f, &a, path_join(&a, folder, "none")));
    EXPECT_FAIL(ERR_MISSING, "holds neither model.safetensors nor model.safetensors.index.json",
                tensor_folder_open(&f, &a, folder));
    folder_put_text(&a, folder, "pytorch_model.bin", "x");
    EXPECT_FAIL(ERR_MISSING, "pytorch_model.bin is not read here",
                tensor_folder_open(&f, &a, folder));
    folder_put_text(&a, folder, "model.safetensors", "not one");
    EXPECT_FAIL(ERR_FORMAT, "model.safetensors: 7 bytes are too few",
                tensor_folder_open(&f, &a, folder));
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_an_index_are_one_name_space),
        cmocka_unit_test(an_index_that_lies_is_refused),
        cmocka_unit_test(a_folder_without_a_model_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
