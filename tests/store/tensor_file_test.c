#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "support/folder.h"
#include "store/safetensors.h"

/* Parses a header of a file with `data` bytes behind it. */
static status parse(struct arena *a, const char *header, uint64_t data)
{
    struct tensor_file f;
    size_t length = strlen(header);
    char *copy =
        malloc(length + 1); /* at its exact length for the sanitizer; + 1 for an empty one */
    status s;

    memcpy(copy, header, length);
    s = tensor_header_parse(&f, a, "x.safetensors", copy, length, 8 + length + data);
    free(copy);
    if (s == OK) {
        tensor_file_close(&f);
    }
    return s;
}

static void refusals_name_the_tensor_and_the_rule(void **state)
{
    static const struct {
        const char *header;
        uint64_t data;
        const char *says;
    } cases[] = {
        { "", 0, "header byte 0: the header must begin with { (found: the end)" },
        { " {}", 0, "header byte 0: the header must begin with {" },
        { "{}\n", 0, "header byte 2: only spaces may follow the object" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}", 8,
          "the text ends before }" },
        { "{\"w\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
          "x.safetensors: tensor \"w\": there is no dtype \"F33\"" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"more\":1}}", 8,
          "a field other than dtype, shape and data_offsets" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
          "shape stands twice" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "tensor \"w\": data_offsets is missing" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8,
          "data_offsets span 8 bytes, its shape and dtype F32 ask for 12" },
        { "{\"w\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1,
          "3 elements of F4 are no whole number" },
        { "{\"w\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
          "beyond 2^63" },
        { "{\"w\":{\"dtype\":\"U8\",\"shape\":[0,4294967296,4294967296],\"data_offsets\":[0,0]}}",
          0, "beyond 2^63" },
        { "{\"w\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0,
          "beyond 2^64 bits" },
        { "{\"w\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", 7, "it was cut off" },
        { "{\"w\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", 9,
          "ends at byte 8 of the data, the file at byte 9" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\","
          "\"shape\":[2],\"data_"
          "offsets\":[3,5]}}",
          5,
          "tensor \"b\" begins at byte 3 of the data, the one before it ends at 2: bytes between "
          "belong to none" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\","
          "\"shape\":[2],\"data_"
          "offsets\":[1,3]}}",
          3, "they overlap" },
        { "{\"a\\u0000b\":{}}", 0, "U+0000" },
        { "{\"__metadata__\":{\"k\":\"v\",\"\\u006b\":\"v\"}}", 0, "__metadata__ has \"k\" twice" },
        { "{\"__metadata__\":{\"k\":1}}", 0, "__metadata__ (texts to texts)" },
        { "{\"w\\n\\u001b[31m\":{}}", 0, "tensor \"w??[31m\"" },
    };
    struct arena a = { 0 };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_FAIL(ERR_FORMAT, cases[i].says, parse(&a, cases[i].header, cases[i].data));
        assert_non_null(strstr(fail_text(), "x.safetensors: "));
    }
    EXPECT_OK(parse(&a, "{}", 0));
    EXPECT_OK(parse(&a, "{\"\":{\"dtype\":\"F4\",\"shape\":[2,0],\"data_offsets\":[0,0]}}   ", 0));
    arena_release(&a);
}

static void entries_come_in_the_order_of_their_bytes(void **state)
{
    static const char header[] = "{\"b\":{\"shape\":[],\"data_offsets\":[4,12],\"dtype\":\"F64\"},"
                                 "\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]},"
                                 "\"a\":{\"dtype\":\"F16\",\"shape\":[2,1],\"data_offsets\":[0,4]},"
                                 "\"__metadata__\":{\"z\":\"1\",\"y\":\"2\"}}";
    struct arena a = { 0 };
    struct tensor_file f;

    (void)state;
    EXPECT_OK(
        tensor_header_parse(&f, &a, "x", header, sizeof header - 1, 8 + sizeof header - 1 + 12));
    assert_int_equal(f.count, 3);
    assert_string_equal(f.entries[0].name, "a");
    assert_string_equal(f.entries[1].name, "e");
    assert_string_equal(f.entries[2].name, "b");
    assert_ptr_equal(tensor_file_find(&f, "b"), &f.entries[2]);
    assert_null(tensor_file_find(&f, "c"));
    assert_int_equal(f.entries[2].begin, f.data_begin + 4);
    assert_int_equal(f.entries[2].count, 1);
    assert_int_equal(f.entries[2].rank, 0);
    assert_int_equal(f.entries[1].count, 0);
    assert_int_equal(f.metadata_count, 2);
    assert_string_equal(f.metadata[0], "z");
    assert_string_equal(f.metadata[3], "2");
    tensor_file_close(&f);
    tensor_file_close(&f);
    arena_release(&a);
}

/* A file of one tensor of 0, 1, 2, ... in I32, long enough for several pieces. */
static const char *write_counting(struct arena *a, const char *folder, int64_t count)
{
    const char *path = path_join(a, folder, "w.safetensors");
    int32_t *values = malloc((size_t)count * sizeof *values);
    struct tensor_writer w;

    for (int64_t i = 0; i < count; i++) {
        values[i] = (int32_t)i;
    }
    EXPECT_OK(tensor_writer_open(&w, a, path));
    tensor_writer_declare(&w, "w", DT_I32, 1, &count);
    EXPECT_OK(tensor_writer_begin(&w, 8));
    EXPECT_OK(tensor_writer_append(&w, values, (size_t)count * sizeof *values));
    EXPECT_OK(tensor_writer_finish(&w));
    free(values);
    return path;
}

static void ranges_convert_in_pieces(void **state)
{
    enum { COUNT = 200001 };
    struct arena a = { 0 };
    const char *folder = folder_new(&a), *path = write_counting(&a, folder, COUNT);
    double *out = malloc((COUNT + 2) * sizeof *out);
    const struct tensor_entry *e;
    struct tensor_file f;

    (void)state;
    EXPECT_OK(tensor_file_open(&f, &a, path));
    e = tensor_file_find(&f, "w");
    out[COUNT - 7] = -5; /* a guard behind the range */
    EXPECT_OK(tensor_file_read(&f, e, 7, COUNT - 7, DT_F64, out));
    assert_true(out[COUNT - 7] == -5);
    for (int i = 0; i < COUNT - 7; i++) {
        assert_true(out[i] == i + 7);
    }
    EXPECT_OK(tensor_file_read(&f, e, COUNT, 0, DT_F64, out));
    EXPECT_FAIL(ERR_FORMAT, "tensor \"w\" has 200001 elements, asked for 2 from 200000",
                tensor_file_read(&f, e, COUNT - 1, 2, DT_F64, out));
    EXPECT_FAIL(ERR_FORMAT, "asked for", tensor_file_read(&f, e, -1, 1, DT_F64, out));
    EXPECT_FAIL(ERR_FORMAT, "asked for", tensor_file_read(&f, e, 1, INT64_MAX, DT_F64, out));
    EXPECT_FAIL(ERR_FORMAT, "I32 does not convert to C64",
                tensor_file_read(&f, e, 0, 1, DT_C64, out));
    EXPECT_FAIL(ERR_FORMAT, "I32 does not convert to F4",
                tensor_file_read(&f, e, 0, 2, DT_F4, out));
    EXPECT_FAIL(ERR_FORMAT, "or a value does not fit", tensor_file_read(&f, e, 0, 300, DT_U8, out));
    /* The file shrinks while it is open. */
    assert_int_equal(truncate(path, 1000), 0);
    EXPECT_FAIL(ERR_FORMAT, path, tensor_file_read(&f, e, 1000, 10, DT_F64, out));
    tensor_file_close(&f);
    free(out);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

static void small_types_are_read_as_they_stand(void **state)
{
    static const char header[] =
        "{\"w\":{\"dtype\":\"F6_E2M3\",\"shape\":[8],\"data_offsets\":[0,6]}}";
    unsigned char file[8 + sizeof header - 1 + 6] = { sizeof header - 1 }, out[6];
    struct arena a = { 0 };
    const char *folder = folder_new(&a), *path;
    struct tensor_file f;

    (void)state;
    memcpy(file + 8, header, sizeof header - 1);
    memcpy(file + sizeof file - 6, "\1\2\3\4\5\6", 6);
    path = folder_put(&a, folder, "w", file, sizeof file);
    EXPECT_OK(tensor_file_open(&f, &a, path));
    EXPECT_OK(tensor_file_read(&f, &f.entries[0], 4, 4, DT_F6_E2M3, out));
    assert_memory_equal(out, "\4\5\6", 3);
    EXPECT_FAIL(ERR_FORMAT, "do not begin and end on bytes",
                tensor_file_read(&f, &f.entries[0], 1, 4, DT_F6_E2M3, out));
    EXPECT_FAIL(ERR_FORMAT, "F6_E2M3 does not convert to F32",
                tensor_file_read(&f, &f.entries[0], 0, 4, DT_F32, out));
    tensor_file_close(&f);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

static void what_is_no_file_is_refused(void **state)
{
    struct arena a = { 0 };
    const char *folder = folder_new(&a), *pipe_path = path_join(&a, folder, "pipe");
    struct tensor_file f = { 0 };

    (void)state;
    assert_true(dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0) == 0);
    tensor_file_close(&f); /* zeroed: this closes nothing, and not descriptor 0 */
    assert_true(fcntl(0, F_GETFD) >= 0);
    EXPECT_FAIL(ERR_MISSING, "/none: ", tensor_file_open(&f, &a, path_join(&a, folder, "none")));
    EXPECT_FAIL(ERR_FORMAT, "is no regular file", tensor_file_open(&f, &a, folder));
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    EXPECT_FAIL(ERR_FORMAT, "is no regular file", tensor_file_open(&f, &a, pipe_path));
    EXPECT_FAIL(ERR_FORMAT, "7 bytes are too few",
                tensor_file_open(&f, &a, folder_put(&a, folder, "s", "1234567", 7)));
    tensor_file_close(&f);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_name_the_tensor_and_the_rule),
        cmocka_unit_test(entries_come_in_the_order_of_their_bytes),
        cmocka_unit_test(ranges_convert_in_pieces),
        cmocka_unit_test(small_types_are_read_as_they_stand),
        cmocka_unit_test(what_is_no_file_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
