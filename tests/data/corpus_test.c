#include <sys/stat.h>
#include <unistd.h>
#include "support/folder.h"
#include "data/corpus.h"

/* One line with a single token. */
static const char *line_of(struct arena *a, int id)
{
    return arena_format(a, "{\"input_ids\":[%d],\"attention_mask\":[1],\"labels\":[%d]}\n", id, id);
}

static int id_of(const struct corpus *c, int64_t index)
{
    struct arena a = { 0 };
    struct row row;
    int id;

    EXPECT_OK(corpus_row(c, index, 1000, &a, &row));
    assert_int_equal(row.length, 1);
    id = row.ids[0];
    arena_release(&a);
    return id;
}

/* A folder with rows of ids first, first + 1, ... */
static const char *counting_folder(struct arena *a, const char *parent, const char *name, int first,
                                   int count)
{
    const char *folder = path_join(a, parent, name), *text = "";

    EXPECT_OK(folder_make(folder));
    for (int i = 0; i < count; i++) {
        text = arena_format(a, "%s%s", text, line_of(a, first + i));
    }
    folder_put_text(a, folder, "rows.json", text);
    return folder;
}

static void folders_are_taken_in_turn_until_the_shortest_ends(void **state)
{
    static const int order[9] = { 100, 200, 300, 101, 201, 301, 102, 202, 302 };
    struct arena a = { 0 };
    const char *parent = folder_new(&a);
    const char *folders[3] = { counting_folder(&a, parent, "x", 100, 3),
                               counting_folder(&a, parent, "y", 200, 4),
                               counting_folder(&a, parent, "z", 300, 5) };
    struct corpus c;

    (void)state;
    EXPECT_OK(corpus_open(&c, folders, 3));
    assert_int_equal(c.rows, 9);
    for (int i = 8; i >= 0; i--) {
        assert_int_equal(id_of(&c, i), order[i]);
    }
    corpus_close(&c);
    corpus_close(&c);
    folders[1] = path_join(&a, parent, "none");
    EXPECT_FAIL(ERR_MISSING, "none", corpus_open(&c, folders, 3));
    folders[1] = path_join(&a, folders[0], "a.json");
    EXPECT_OK(file_replace(folders[1], "", 0));
    EXPECT_FAIL(ERR_FORMAT, "a.json: is a file; the folder", corpus_open(&c, folders, 3));
    folders[1] = parent;
    EXPECT_FAIL(ERR_MISSING, "holds no file that ends in .json; found: no file at all",
                corpus_open(&c, folders, 2));
    EXPECT_OK(folder_remove(parent));
    arena_release(&a);
}

static void rows_know_their_file_and_line(void **state)
{
    struct arena a = { 0 };
    const char *folder = folder_new(&a);
    struct corpus c;
    struct row row;

    (void)state;
    folder_put_text(&a, folder, "b.json",
                    arena_format(&a, "\n \t\n%s\r\n  %s", line_of(&a, 1), line_of(&a, 2)));
    folder_put_text(&a, folder, "a.json", "  ");
    folder_put_text(&a, folder, "c.json",
                    arena_format(&a, "\xef\xbb\xbf\n[%s,\n%s]", line_of(&a, 3), line_of(&a, 4)));
    EXPECT_OK(corpus_open(&c, &folder, 1));
    assert_int_equal(c.rows, 4);
    EXPECT_OK(corpus_row(&c, 0, 1000, &a, &row));
    assert_int_equal(row.line, 3);
    assert_string_equal(path_name(row.file), "b.json");
    EXPECT_OK(corpus_row(&c, 1, 1000, &a, &row));
    assert_int_equal(row.line, 5);
    EXPECT_OK(corpus_row(&c, 3, 1000, &a, &row));
    assert_int_equal(row.line, 2); /* of an array the element */
    assert_string_equal(path_name(row.file), "c.json");
    EXPECT_FAIL(ERR_FORMAT,
                "b.json:5:17: row 1: input_ids[0]: found 2, ids of this vocabulary are 0 to 1",
                corpus_row(&c, 1, 2, &a, &row));
    EXPECT_FAIL(ERR_FORMAT, "c.json:4:15: row 3: input_ids[0]: found 4",
                corpus_row(&c, 3, 2, &a, &row));
    corpus_close(&c);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

/* Rows that lie across the pieces in which files are searched. */
static void rows_of_any_size_are_found(void **state)
{
    enum { LONG = 300000, ROWS = 9 };
    struct arena a = { 0 };
    const char *folder = folder_new(&a);
    char *filler = malloc(LONG + 1), *lines = malloc(ROWS * (LONG + 200)),
         *array = malloc(ROWS * (LONG + 200));
    size_t lines_length = 0, array_length = 0;
    struct corpus c;

    (void)state;
    memset(filler, '}', LONG); /* brackets in strings count for nothing */
    filler[LONG] = '\0';
    for (int i = 0; i < ROWS; i++) {
        filler[LONG - 1 - i] = '\0';
        lines_length += (size_t)sprintf(
            lines + lines_length,
            "{\"t\":\"\\\"%s\",\"input_ids\":[%d],\"attention_mask\":[1],\"labels\":[0]}\n", filler,
            i);
        array_length += (size_t)sprintf(
            array + array_length,
            "%c{\"t\":\"\\\"%s\",\"input_ids\":[%d],\"attention_mask\":[1],\"labels\":[0]}\n",
            i == 0 ? '[' : ',', filler, 100 + i);
    }
    array[array_length++] = ']';
    folder_put(&a, folder, "1.json", lines, lines_length);
    folder_put(&a, folder, "2.json", array, array_length);
    EXPECT_OK(corpus_open(&c, &folder, 1));
    assert_int_equal(c.rows, 2 * ROWS);
    for (int i = 0; i < ROWS; i++) {
        assert_int_equal(id_of(&c, i), i);
        assert_int_equal(id_of(&c, ROWS + i), 100 + i);
    }
    corpus_close(&c);
    free(filler);
    free(lines);
    free(array);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

/* More files than stay open. */
static void many_files_are_one_list(void **state)
{
    enum { FILES = 100 };
    struct arena a = { 0 };
    const char *folder = folder_new(&a);
    struct corpus c;

    (void)state;
    for (int i = 0; i < FILES; i++) {
        folder_put_text(&a, folder, arena_format(&a, "%03d.json", i),
                        i % 3 == 1 ? "" : line_of(&a, i));
    }
    EXPECT_OK(corpus_open(&c, &folder, 1));
    assert_int_equal(c.rows, 67);
    assert_int_equal(id_of(&c, 66), 99);
    assert_int_equal(id_of(&c, 0), 0);
    assert_int_equal(id_of(&c, 1), 2);
    assert_int_equal(id_of(&c, 65), 98);
    assert_int_equal(unlink(path_join(&a, folder, "099.json")), 0);
    EXPECT_FAIL(ERR_MISSING, "099.json", corpus_row(&c, 66, 1000, &a, &(struct row){ 0 }));
    corpus_close(&c);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

static void other_forms_are_named(void **state)
{
    static const struct {
        const char *name;
        status code;
        const char *says;
    } cases[] = {
        { "data.jsonl", ERR_MISSING, "holds no file that ends in .json; found: data.jsonl" },
        { "x.json.gz", ERR_UNSUPPORTED, "holds x.json.gz, and JSON.GZ data sets are not read yet" },
        { "d.arrow", ERR_UNSUPPORTED, "holds d.arrow, and Arrow data sets are not read yet" },
    };
    struct arena a = { 0 };
    const char *folder = folder_new(&a);
    struct corpus c;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        folder_put_text(&a, folder, cases[i].name, "x");
        EXPECT_FAIL(cases[i].code, cases[i].says, corpus_open(&c, &folder, 1));
    }
    EXPECT_FAIL(ERR_MISSING, "none",
                corpus_open(&c, (const char *const[]){ path_join(&a, folder, "none") }, 1));
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

static void a_pipe_or_a_cut_file_is_an_error(void **state)
{
    struct arena a = { 0 };
    const char *folder = folder_new(&a), *path;
    struct corpus c;
    struct row row;

    (void)state;
    path = folder_put_text(&a, folder, "a.json",
                           arena_format(&a, "%s%s", line_of(&a, 1), line_of(&a, 2)));
    EXPECT_OK(corpus_open(&c, &folder, 1));
    assert_int_equal(truncate(path, 60), 0);
    EXPECT_FAIL(ERR_FORMAT, path, corpus_row(&c, 1, 1000, &a, &row));
    corpus_close(&c);
    assert_int_equal(mkfifo(path_join(&a, folder, "b.json"), 0600), 0);
    EXPECT_FAIL(ERR_FORMAT, "b.json: is no regular file", corpus_open(&c, &folder, 1));
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

static void synthetic_rows_are_a_function_of_seed_and_index(void **state)
{
    struct corpus c, again, other;
    struct arena a = { 0 };
    struct row x, y, z, next;
    int counts[16] = { 0 };

    (void)state;
    EXPECT_OK(corpus_synthetic(&c, 7, 4096, 16));
    EXPECT_OK(corpus_synthetic(&again, 7, 4096, 16));
    EXPECT_OK(corpus_synthetic(&other, 8, 4096, 16));
    assert_int_equal(c.rows, 100000);
    EXPECT_OK(corpus_row(&c, 99999, 16, &a, &x));
    EXPECT_OK(corpus_row(&again, 99999, 20, &a, &y));
    EXPECT_OK(corpus_row(&other, 99999, 16, &a, &z));
    EXPECT_OK(corpus_row(&c, 99998, 16, &a, &next));
    assert_int_equal(x.length, 4096);
    assert_memory_equal(x.ids, y.ids, 4096 * sizeof *x.ids);
    assert_memory_equal(x.ids, x.labels, 4096 * sizeof *x.ids);
    assert_memory_not_equal(x.ids, z.ids, 4096 * sizeof *x.ids);
    assert_memory_not_equal(x.ids, next.ids, 4096 * sizeof *x.ids);
    for (int i = 0; i < 4096; i++) {
        assert_true(x.ids[i] >= 0 && x.ids[i] < 16);
        counts[x.ids[i]]++;
    }
    for (int i = 0; i < 16; i++) {
        assert_in_range(counts[i], 256 - 90,
                        256 + 90); /* more than five standard deviations of 15.5 */
    }
    EXPECT_FAIL(ERR_RECIPE, "its ids are below 16, the vocabulary has 15",
                corpus_row(&c, 0, 15, &a, &x));
    EXPECT_FAIL(ERR_RECIPE, "both must be 1 to 2^31 - 1",
                corpus_synthetic(&(struct corpus){ 0 }, 1, 0, 16));
    corpus_close(&c);
    corpus_close(&again);
    corpus_close(&other);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_are_taken_in_turn_until_the_shortest_ends),
        cmocka_unit_test(rows_know_their_file_and_line),
        cmocka_unit_test(rows_of_any_size_are_found),
        cmocka_unit_test(many_files_are_one_list),
        cmocka_unit_test(other_forms_are_named),
        cmocka_unit_test(a_pipe_or_a_cut_file_is_an_error),
        cmocka_unit_test(synthetic_rows_are_a_function_of_seed_and_index),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
