/* Exports: what is in the folder, that it is what the model holds, and whose folders are
 * replaced. */
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>
#include "model/export.h"
#include "model/hf.h"
#include "support/folder.h"
#include "support/tiny.h"

static struct arena arena;
static const char *folder;

static int open_folder(void **state)
{
    (void)state;
    folder = folder_new(&arena);
    return 0;
}

static int close_folder(void **state)
{
    (void)state;
    EXPECT_OK(folder_remove(folder));
    arena_release(&arena);
    return 0;
}

static const char *below(const char *name)
{
    return path_join(&arena, folder, name);
}

static const char *text_in(const char *path)
{
    char *bytes;
    size_t length;

    EXPECT_OK(file_read(&arena, path, 1 << 20, &bytes, &length));
    return bytes;
}

/* The folder holds exactly these names. */
static void expect_names(const char *path, const char *expected)
{
    struct arena a = { 0 };
    char **names, *all = arena_text(&a, "");
    size_t count;

    EXPECT_OK(folder_list(&a, path, &names, &count));
    for (size_t i = 0; i < count; i++) {
        all = arena_format(&a, "%s%s%s", all, i == 0 ? "" : " ", names[i]);
    }
    assert_string_equal(all, expected);
    arena_release(&a);
}

/* ---- whole models ---- */

static struct comm alone;

/* On a mesh that can really talk, to itself. */
static void open_model(struct tiny *t, enum dtype real, bool tied, bool biases)
{
    struct tiny_options o = {
        .real = real, .B = 1, .S = 4, .layers = 2, .tied = tied, .biases = biases
    };

    tiny_open(t, &o);
    comm_alone(&alone);
    t->mesh.world = &alone;
}

static status export_model(struct tiny *t, const char *path, enum dtype dtype, int64_t limit)
{
    return weights_export(t->model.weights, &t->spec, &t->d, &t->p, path, dtype, limit);
}

static double weight_at(const struct tiny *t, int segment, int64_t at)
{
    const char *name = arena_format(&arena, "weight.%s", t->model.weights->segments[segment].name);
    double wide;
    float narrow;

    device_read(&t->d, &t->p, program_find(&t->p, name), at, 1,
                t->p.real == DT_F64 ? (void *)&wide : (void *)&narrow);
    return t->p.real == DT_F64 ? wide : (double)narrow;
}

static double rounded(double x, enum dtype dtype)
{
    uint16_t bits;

    if (dtype == DT_F32) {
        return (double)(float)x;
    }
    assert_true(dtype_convert(DT_BF16, &bits, DT_F64, &x, 1));
    return (double)bf16_to_float(bits);
}

static void expect_model(const struct tiny *t, const char *path, enum dtype dtype)
{
    const struct weights *w = t->model.weights;
    struct arena a = { 0 };
    struct tensor_folder f;
    size_t tensors = 0;

    EXPECT_OK(tensor_folder_open(&f, &a, path));
    for (int g = 0; g < w->count; g++) {
        for (int i = 0; i < w->segments[g].count; i++, tensors++) {
            const struct weight_part *q = &w->segments[g].parts[i];
            const struct tensor_entry *e = tensor_folder_find(&f, q->name);

            assert_non_null(e);
            assert_int_equal(e->dtype, dtype);
            assert_int_equal(e->count, q->whole[0] * q->whole[1]);
            for (int64_t k = 0; k < e->count; k++) {
                double found;

                EXPECT_OK(tensor_folder_read(&f, e, k, 1, DT_F64, &found));
                assert_true(found == rounded(weight_at(t, g, q->at + k), dtype));
            }
        }
    }
    assert_int_equal(f.by_name.count, tensors);
    for (size_t i = 0; i < f.file_count; i++) {
        assert_int_equal(f.files[i].metadata_count, 1);
        assert_string_equal(f.files[i].metadata[0], "format");
        assert_string_equal(f.files[i].metadata[1], "pt");
    }
    tensor_folder_close(&f);
    arena_release(&a);
}

static void a_model_is_exported_as_it_is(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        enum dtype real = i % 2 == 0 ? DT_F32 : DT_F64, dtype = i / 2 % 2 == 0 ? DT_F32 : DT_BF16;
        const char *path = below("model");
        struct model_spec back;
        struct tensor_folder f;
        struct tiny t;

        open_model(&t, real, i / 4 == 0, i / 4 == 1);
        EXPECT_OK(export_model(&t, path, dtype, 0));
        expect_names(path, ".roux config.json generation_config.json model.safetensors");
        expect_model(&t, path, dtype);
        EXPECT_OK(tensor_folder_open(&f, &arena, path));
        assert_int_equal(tensor_folder_find(&f, "lm_head.weight") == NULL, t.spec.tied);
        assert_string_equal(f.files[0].entries[0].name, "model.embed_tokens.weight");
        assert_string_equal(f.files[0].entries[1].name, "model.norm.weight");
        tensor_folder_close(&f);
        EXPECT_OK(hf_config_read(&back, &arena, path));
        assert_int_equal(back.tied, t.spec.tied);
        assert_int_equal(back.mlp_bias, t.spec.mlp_bias);
        assert_int_equal(spec_parameters(&back), spec_parameters(&t.spec));
        assert_non_null(strstr(text_in(path_join(&arena, path, "config.json")),
                               dtype == DT_F32 ? "\"float32\"" : "\"bfloat16\""));
        tiny_close(&t);
    }
    EXPECT_OK(folder_remove(below("model")));
    expect_names(folder, "");
}

/* Into another model's memory: the same bits as in the first. */
static void an_export_loads_again(void **state)
{
    struct tiny a, b;
    struct tensor_folder f;
    int extra;

    (void)state;
    open_model(&a, DT_F32, false, true);
    open_model(&b, DT_F32, false, true);
    weights_init(b.model.weights, &b.d, &b.p, 99);
    assert_true(weight_at(&a, 1, a.model.weights->segments[1].parts[1].at) !=
                weight_at(&b, 1, a.model.weights->segments[1].parts[1].at));
    EXPECT_OK(export_model(&a, below("model"), DT_F32, 0));
    EXPECT_OK(tensor_folder_open(&f, &arena, below("model")));
    EXPECT_OK(weights_load(b.model.weights, &b.d, &b.p, &f, &extra));
    assert_int_equal(extra, 0);
    for (int g = 0; g < a.model.weights->count; g++) {
        for (int64_t i = 0; i < a.model.weights->segments[g].blocks * WEIGHT_BLOCK; i++) {
            assert_true(weight_at(&a, g, i) == weight_at(&b, g, i));
        }
    }
    tensor_folder_close(&f);
    EXPECT_OK(folder_remove(below("model")));
    tiny_close(&a);
    tiny_close(&b);
}

/* Integers of the same width would load as enormous weights. */
static void weights_that_are_no_fractions_are_refused(void **state)
{
    const char *path = path_join(&arena, below("model"), "model.safetensors");
    struct tiny t;
    struct tensor_folder f;
    char *bytes, *type;
    size_t length;
    int extra;

    (void)state;
    open_model(&t, DT_F32, false, true);
    EXPECT_OK(export_model(&t, below("model"), DT_F32, 0));
    EXPECT_OK(file_read(&arena, path, 1 << 24, &bytes, &length));
    type = strstr(bytes + 8, "\"F32\"");
    assert_non_null(type);
    type[1] = 'I';
    EXPECT_OK(file_replace(path, bytes, length));
    EXPECT_OK(tensor_folder_open(&f, &arena, below("model")));
    EXPECT_FAIL(ERR_FORMAT, " is stored as I32; weights are F32, BF16, F16 or F64",
                weights_load(t.model.weights, &t.d, &t.p, &f, &extra));
    tensor_folder_close(&f);
    EXPECT_OK(folder_remove(below("model")));
    tiny_close(&t);
}

static void a_limit_makes_several_files(void **state)
{
    struct tiny t;

    (void)state;
    open_model(&t, DT_F32, false, false);
    EXPECT_OK(export_model(&t, below("model"), DT_F32, 20000));
    expect_names(below("model"),
                 ".roux config.json generation_config.json model-00001-of-00003.safetensors "
                 "model-00002-of-00003.safetensors model-00003-of-00003.safetensors "
                 "model.safetensors.index.json");
    expect_model(&t, below("model"), DT_F32);
    /* Every tensor in a file by itself, then one file again: what was there goes. */
    EXPECT_OK(export_model(&t, below("model"), DT_F32, 1));
    expect_model(&t, below("model"), DT_F32);
    EXPECT_OK(export_model(&t, below("model"), DT_BF16, 0));
    expect_model(&t, below("model"), DT_BF16);
    expect_names(below("model"), ".roux config.json generation_config.json model.safetensors");
    expect_names(folder, "model");
    EXPECT_OK(folder_remove(below("model")));
    tiny_close(&t);
}

static void what_is_not_finite_is_not_exported(void **state)
{
    struct tiny t;
    double bad = NAN, large = 1e39;
    val flat;

    (void)state;
    open_model(&t, DT_F64, true, false);
    flat = program_find(&t.p, "weight.layers.1");
    device_write(&t.d, &t.p, flat, t.model.weights->segments[2].parts[2].at + 7, 1, &bad);
    EXPECT_FAIL(ERR_FORMAT, "element 7 of model.layers.1.self_attn.k_proj.weight is NaN in F32",
                export_model(&t, below("model"), DT_F32, 0));
    device_write(&t.d, &t.p, flat, t.model.weights->segments[2].parts[2].at + 7, 1, &large);
    EXPECT_FAIL(ERR_FORMAT, "k_proj.weight is infinite in BF16",
                export_model(&t, below("model"), DT_BF16, 0));
    assert_non_null(strstr(fail_text(), "while exporting the model to"));
    expect_names(folder, "");
    tiny_close(&t);
}

/* ---- parts by hand ---- */

enum { PARTS_MOST = 8 };

struct made {
    struct weight_part parts[PARTS_MOST];
    struct weight_segment segment;
    struct weights w;
    struct model_spec spec;
    struct arena arena;
    struct export export;
};

static void make_parts(struct made *m, const int64_t *sizes, int count)
{
    *m = (struct made){ 0 };
    for (int i = 0; i < count; i++) {
        m->parts[i] = (struct weight_part){ .name = arena_format(&m->arena, "part.%c", 'z' - i),
                                            .rank = 1,
                                            .whole = { sizes[i], 1 } };
    }
    m->segment = (struct weight_segment){ .name = "root", .parts = m->parts, .count = count };
    m->w = (struct weights){ .segments = &m->segment, .count = 1 };
    spec_default(&m->spec, family_find("llama"));
    EXPECT_OK(spec_finish(&m->spec, "here"));
}

static status open_parts(struct made *m, const char *path, int64_t limit)
{
    return export_open(&m->export, &m->arena, &m->w, &m->spec, path, DT_F32, limit);
}

/* Element i of part k is k + i / 1000. */
static status write_parts(struct made *m)
{
    status s = OK;

    for (int k = 0; k < m->segment.count && s == OK; k++) {
        int64_t count = m->parts[k].whole[0];
        double *values = calloc((size_t)count, sizeof *values);

        assert_non_null(values);
        for (int64_t i = 0; i < count; i++) {
            values[i] = (double)k + (double)i / 1000;
        }
        s = export_tensor(&m->export, &m->parts[k], DT_F64, values);
        free(values);
    }
    return s;
}

static status export_parts(struct made *m, const char *path, int64_t limit)
{
    status s;

    TRY_OR(abandon, s, open_parts(m, path, limit));
    TRY_OR(abandon, s, write_parts(m));
    s = export_publish(&m->export);
abandon:
    export_abandon(&m->export);
    return s;
}

static void release_parts(struct made *m)
{
    arena_release(&m->arena);
}

/* Sizes 6, 6, 2, 6, 2, 2 with a limit of 10 are files of [6], [6, 2], [6, 2, 2]; a limit that
 * just fits is kept to. */
static void files_fill_up_in_order(void **state)
{
    static const int64_t sizes[] = { 6, 6, 2, 6, 2, 2 };
    static const struct {
        int64_t limit;
        int count, in[PARTS_MOST];
    } rows[] = {
        { 40, 3, { 1, 2, 3 } },
        { 48, 2, { 2, 4 } },
        { 8, 6, { 1, 1, 1, 1, 1, 1 } },
        { 1, 6, { 1, 1, 1, 1, 1, 1 } },
        { 96, 1, { 6 } },
        { 95, 2, { 5, 1 } },
        { 0, 1, { 6 } },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct made m;

        make_parts(&m, sizes, 6);
        EXPECT_OK(open_parts(&m, below("model"), rows[i].limit));
        assert_int_equal(m.export.file_count, rows[i].count);
        for (int k = 0; k < rows[i].count; k++) {
            assert_int_equal(m.export.files[k].count, rows[i].in[k]);
        }
        export_abandon(&m.export);
        expect_names(folder, "");
        release_parts(&m);
    }
}

static void the_index_is_sorted(void **state)
{
    static const int64_t sizes[] = { 6, 6, 2 };
    struct made m;

    (void)state;
    make_parts(&m, sizes, 3);
    EXPECT_OK(export_parts(&m, below("model"), 40));
    assert_string_equal(text_in(below("model/model.safetensors.index.json")),
                        "{\n"
                        "  \"metadata\": {\n"
                        "    \"total_size\": 56\n"
                        "  },\n"
                        "  \"weight_map\": {\n"
                        "    \"part.x\": \"model-00002-of-00002.safetensors\",\n"
                        "    \"part.y\": \"model-00002-of-00002.safetensors\",\n"
                        "    \"part.z\": \"model-00001-of-00002.safetensors\"\n"
                        "  }\n"
                        "}\n");
    assert_string_equal(text_in(below("model/.roux/export.json")),
                        "{\n"
                        "  \"format\": \"roux export\",\n"
                        "  \"version\": 1,\n"
                        "  \"files\": [\n"
                        "    \"model-00001-of-00002.safetensors\",\n"
                        "    \"model-00002-of-00002.safetensors\",\n"
                        "    \"model.safetensors.index.json\",\n"
                        "    \"config.json\",\n"
                        "    \"generation_config.json\"\n"
                        "  ]\n"
                        "}\n");
    EXPECT_OK(folder_remove(below("model")));
    release_parts(&m);
}

/* Tensors that cross and end at the blocks of 16 MiB in which digests are taken. */
static void large_tensors_cross_blocks(void **state)
{
    static const int64_t sizes[] = { 3, (DIGEST_BLOCK / 4) - 3, DIGEST_BLOCK / 4 + 1, 5 };
    struct tensor_folder f;
    struct made m;

    (void)state;
    make_parts(&m, sizes, 4);
    EXPECT_OK(export_parts(&m, below("model"), 0));
    EXPECT_OK(tensor_folder_open(&f, &m.arena, below("model")));
    for (int k = 0; k < 4; k++) {
        const struct tensor_entry *e = tensor_folder_find(&f, m.parts[k].name);
        float *found = calloc((size_t)sizes[k], sizeof *found);

        assert_non_null(found);
        EXPECT_OK(tensor_folder_read(&f, e, 0, sizes[k], DT_F32, found));
        for (int64_t i = 0; i < sizes[k]; i++) {
            assert_true(found[i] == (float)((double)k + (double)i / 1000));
        }
        free(found);
    }
    tensor_folder_close(&f);
    EXPECT_OK(folder_remove(below("model")));
    release_parts(&m);
}

static void change_byte(const char *path, long from_end)
{
    FILE *file = fopen(path, "r+b");
    int byte;

    assert_non_null(file);
    assert_int_equal(fseek(file, -from_end, SEEK_END), 0);
    byte = fgetc(file);
    assert_int_equal(fseek(file, -from_end, SEEK_END), 0);
    fputc(byte ^ 1, file);
    assert_int_equal(fclose(file), 0);
}

/* Whatever changes between writing and reading back keeps the export from being published. */
static void what_reads_back_otherwise_is_refused(void **state)
{
    static const int64_t sizes[] = { 6, 6, 2 };
    static const long places[] = { 1, 16, 32 };
    struct made m;

    (void)state;
    for (int i = 0; i < 4; i++) {
        make_parts(&m, sizes, 3);
        EXPECT_OK(open_parts(&m, below("model"), 40));
        EXPECT_OK(write_parts(&m));
        if (i < 3) {
            change_byte(below("model.writing/model-00002-of-00002.safetensors"), places[i]);
            EXPECT_FAIL(ERR_IO, "reads back otherwise than it was written",
                        export_publish(&m.export));
        } else {
            /* A file that lost all it held. */
            EXPECT_OK(file_replace(below("model.writing/model-00001-of-00002.safetensors"), "", 0));
            EXPECT_FAIL(ERR_FORMAT, "model-00001-of-00002.safetensors", export_publish(&m.export));
        }
        export_abandon(&m.export);
        expect_names(folder, "");
        release_parts(&m);
    }
}

/* ---- whose folder it is ---- */

static void folders_of_others_are_left_alone(void **state)
{
    static const int64_t sizes[] = { 4 };
    struct made m;

    (void)state;
    make_parts(&m, sizes, 1);
    EXPECT_OK(folder_make(below("theirs")));
    folder_put_text(&arena, below("theirs"), "config.json", "{}");
    EXPECT_FAIL(ERR_RECIPE, "theirs: is there and was not exported by roux (it holds config.json)",
                export_parts(&m, below("theirs"), 0));
    expect_names(below("theirs"), "config.json");
    EXPECT_OK(folder_make(below("theirs/.roux")));
    EXPECT_FAIL(ERR_RECIPE, "was not exported by roux", export_parts(&m, below("theirs"), 0));
    folder_put_text(&arena, below("theirs"), ".roux/export.json",
                    "{\"format\": \"roux export\", \"version\": 2, \"files\": []}");
    EXPECT_FAIL(ERR_RECIPE, "was not exported by roux", export_parts(&m, below("theirs"), 0));
    folder_put_text(&arena, below("theirs"), ".roux/export.json", "{\"format\": ");
    EXPECT_FAIL(ERR_RECIPE, "was not exported by roux", export_parts(&m, below("theirs"), 0));
    folder_put_text(&arena, folder, "file", "text");
    EXPECT_FAIL(ERR_RECIPE, "file: is a file; an export is a folder",
                export_parts(&m, below("file"), 0));
    assert_string_equal(text_in(below("file")), "text");
    EXPECT_FAIL(ERR_IO, "file: cannot be made", export_parts(&m, below("file/model"), 0));
    expect_names(folder, "file theirs");
    EXPECT_OK(folder_remove(below("theirs")));
    unlink(below("file"));
    release_parts(&m);
}

static void names_in_the_way_are_left_alone(void **state)
{
    static const int64_t sizes[] = { 4 };
    struct made m;

    (void)state;
    make_parts(&m, sizes, 1);
    EXPECT_OK(folder_make(below("model.writing")));
    folder_put_text(&arena, below("model.writing"), "thesis.txt", "42");
    EXPECT_FAIL(ERR_RECIPE, "model.writing: is there and was not made by roux",
                export_parts(&m, below("model"), 0));
    expect_names(below("model.writing"), "thesis.txt");
    EXPECT_OK(folder_remove(below("model.writing")));
    EXPECT_OK(export_parts(&m, below("model"), 0));
    EXPECT_OK(folder_make(below("model.replaced")));
    folder_put_text(&arena, below("model.replaced"), "thesis.txt", "42");
    EXPECT_FAIL(ERR_RECIPE, "model.replaced: is there", export_parts(&m, below("model"), 0));
    expect_names(folder, "model model.replaced");
    expect_names(below("model.replaced"), "thesis.txt");
    EXPECT_OK(folder_remove(below("model")));
    EXPECT_OK(folder_remove(below("model.replaced")));
    release_parts(&m);
}

static void an_older_export_is_replaced(void **state)
{
    static const int64_t sizes[] = { 6, 6, 2 };
    struct made m;

    (void)state;
    make_parts(&m, sizes, 3);
    EXPECT_OK(export_parts(&m, below("model"), 40));
    folder_put_text(&arena, below("model"), "tokenizer.json", "{\"a\": 1}");
    EXPECT_OK(folder_make(below("model/notes")));
    folder_put_text(&arena, below("model/notes"), "one.txt", "one");
    EXPECT_OK(export_parts(&m, below("model"), 0));
    expect_names(below("model"), ".roux config.json generation_config.json model.safetensors notes "
                                 "tokenizer.json");
    assert_string_equal(text_in(below("model/tokenizer.json")), "{\"a\": 1}");
    assert_string_equal(text_in(below("model/notes/one.txt")), "one");
    expect_names(folder, "model");
    /* Weights that we did not write would be read with ours, or instead of them. */
    folder_put_text(&arena, below("model"), "more.safetensors", "");
    EXPECT_FAIL(ERR_RECIPE, "holds more.safetensors, which is none of its files",
                export_parts(&m, below("model"), 0));
    EXPECT_OK(folder_remove(below("model")));
    release_parts(&m);
}

/* Runs that were stopped leave folders of ours; the next export clears them, with what others
 * laid into them kept. */
static void leftovers_are_cleared(void **state)
{
    static const int64_t sizes[] = { 6, 6, 2 };
    struct made m;

    (void)state;
    make_parts(&m, sizes, 3);
    EXPECT_OK(open_parts(&m, below("model"), 40)); /* and never heard of again */
    expect_names(folder, "model.writing");
    EXPECT_OK(export_parts(&m, below("model"), 0));
    expect_names(folder, "model");
    folder_put_text(&arena, below("model"), "tokenizer.json", "old");
    assert_int_equal(rename(below("model"), below("model.replaced")), 0);
    EXPECT_OK(export_parts(&m, below("model"), 40));
    expect_names(folder, "model");
    assert_string_equal(text_in(below("model/tokenizer.json")), "old");
    assert_int_equal(rename(below("model"), below("model.replaced")), 0);
    unlink(below("model.replaced/tokenizer.json"));
    EXPECT_OK(export_parts(&m, below("aside"), 0));
    assert_int_equal(rename(below("aside"), below("model")), 0);
    folder_put_text(&arena, below("model.replaced"), "vocab.json", "kept");
    EXPECT_OK(export_parts(&m, below("model"), 0));
    expect_names(folder, "model");
    assert_string_equal(text_in(below("model/vocab.json")), "kept");
    EXPECT_OK(folder_make(below("model.writing/.roux")));
    EXPECT_OK(export_parts(&m, below("model"), 0));
    expect_names(folder, "model");
    EXPECT_OK(folder_remove(below("model")));
    release_parts(&m);
}

static void names_may_be_written_in_many_ways(void **state)
{
    static const int64_t sizes[] = { 4 };
    struct made m;

    (void)state;
    make_parts(&m, sizes, 1);
    EXPECT_OK(folder_make(below("empty")));
    EXPECT_OK(export_parts(&m, below("empty"), 0));
    EXPECT_OK(export_parts(&m, below("empty/"), 0));
    EXPECT_OK(export_parts(&m, below("deep/er/model//"), 0));
    assert_true(file_is_there(below("deep/er/model/model.safetensors")));
    assert_int_equal(symlink("deep/er/model", below("link")), 0);
    EXPECT_OK(export_parts(&m, below("link"), 0));
    assert_true(file_is_there(below("link/model.safetensors")));
    expect_names(below("deep/er"), "model");
    EXPECT_FAIL(ERR_RECIPE, "is no name for an export's folder", export_parts(&m, "", 0));
    EXPECT_FAIL(ERR_RECIPE, "is no name for an export's folder",
                export_parts(&m, below("nothing/.."), 0));
    expect_names(folder, "deep empty link");
    EXPECT_OK(folder_remove(below("deep")));
    EXPECT_OK(folder_remove(below("empty")));
    unlink(below("link"));
    release_parts(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_model_is_exported_as_it_is, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(an_export_loads_again, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(weights_that_are_no_fractions_are_refused, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(a_limit_makes_several_files, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(what_is_not_finite_is_not_exported, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(files_fill_up_in_order, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(the_index_is_sorted, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(large_tensors_cross_blocks, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(what_reads_back_otherwise_is_refused, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(folders_of_others_are_left_alone, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(names_in_the_way_are_left_alone, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(an_older_export_is_replaced, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(leftovers_are_cleared, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(names_may_be_written_in_many_ways, open_folder,
                                        close_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
