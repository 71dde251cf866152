/* A checkpoint with any changed byte is refused, with the file named; so is one that says what
 * cannot be. */
#include "checkpoint/content.h"
#include <fcntl.h>
#include <unistd.h>
#include "base/digest.h"
#include "base/file.h"
#include "base/text.h"

#define STATE "tp0_ep0/shard0.safetensors"
#define TABLE ".roux/tp0_ep0_shard0.json"
#define MANIFEST ".roux/manifest.json"

static struct mesh mesh;
static struct arena arena;
static char *folder;

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    struct model m;
    status s;

    (void)state;
    folder = arena_format(&arena, "%s/roux_damage_XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder)) {
        return -1;
    }
    model_make(&m, &mesh, 5, true);
    s = checkpoint_save(folder, &mesh, &m.content);
    model_release(&m);
    return s == OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return folder_remove(folder) == OK ? 0 : -1;
}

/* Opens, and if that works loads everything. */
static status use(void)
{
    struct arena own = { 0 };
    struct checkpoint_info info;
    struct model m;
    status s = checkpoint_open(&info, &own, folder);

    if (s == OK) {
        model_make(&m, &mesh, 5, false);
        s = checkpoint_load(&info, &mesh, &m.content);
        model_release(&m);
    }
    arena_release(&own);
    return s;
}

static char *in_folder(const char *name)
{
    return path_join(&arena, folder, name);
}

static void bytes_at(const char *name, off_t at, char *byte, bool write)
{
    int fd = open(in_folder(name), O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write ? pwrite(fd, byte, 1, at) : pread(fd, byte, 1, at), 1);
    close(fd);
}

/* Flips a bit of every `stride`th byte, one after the other. */
static void flips(const char *name, off_t stride)
{
    uint64_t size;

    EXPECT_OK(file_size(in_folder(name), &size));
    for (off_t at = 0; at < (off_t)size; at += stride) {
        char before, after;

        bytes_at(name, at, &before, false);
        after = (char)(before ^ (1 << at % 8));
        bytes_at(name, at, &after, true);
        EXPECT_FAIL(ERR_FORMAT, in_folder(name), use());
        bytes_at(name, at, &before, true);
    }
    EXPECT_OK(use());
}

static void a_changed_byte_is_refused(void **state)
{
    (void)state;
    EXPECT_OK(use());
    flips(MANIFEST, 1);
    flips(TABLE, 1);
    flips(STATE, 61);
}

static void a_length_that_changed_is_refused(void **state)
{
    static const char *const names[] = { STATE, TABLE, MANIFEST };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = in_folder(names[i]);
        uint64_t size;
        char *bytes;
        size_t length;
        int fd;

        EXPECT_OK(file_size(path, &size));
        EXPECT_OK(file_read(&arena, path, 1 << 20, &bytes, &length));
        for (int k = 0; k < 3; k++) {
            off_t shorter[] = { 0, (off_t)size / 2, (off_t)size - 1 };

            assert_int_equal(truncate(path, shorter[k]), 0);
            EXPECT_FAIL(ERR_FORMAT, path, use());
        }
        EXPECT_OK(file_replace(path, bytes, length));
        fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
        assert_int_equal(write(fd, "\n", 1), 1);
        close(fd);
        EXPECT_FAIL(ERR_FORMAT, path, use());
        EXPECT_OK(file_replace(path, bytes, length));
        EXPECT_OK(use());
    }
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    assert_int_equal(rename(in_folder(STATE), in_folder("kept")), 0);
    EXPECT_FAIL(ERR_FORMAT, in_folder(STATE), use());
    EXPECT_OK(folder_make(in_folder(STATE)));
    EXPECT_FAIL(ERR_FORMAT, in_folder(STATE), use());
    assert_int_equal(rmdir(in_folder(STATE)), 0);
    assert_int_equal(rename(in_folder("kept"), in_folder(STATE)), 0);
    assert_int_equal(rename(in_folder(TABLE), in_folder("kept")), 0);
    EXPECT_FAIL(ERR_FORMAT, in_folder(TABLE), use());
    assert_int_equal(rename(in_folder("kept"), in_folder(TABLE)), 0);
    EXPECT_OK(use());
    assert_int_equal(unlink(in_folder(MANIFEST)), 0);
    EXPECT_FAIL(ERR_MISSING, in_folder(MANIFEST), use());
}

/* `text` with the first `from` replaced by `to`; NULL if there is none. */
static char *replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);

    return at ? arena_format(&arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from))
              : NULL;
}

/* Writes a manifest whose digest is right. */
static void forge_manifest(const char *text)
{
    const char *body = strchr(text, '\n') + 1;
    char hex[DIGEST_TEXT];
    char *whole = arena_format(&arena, "{\"digest\": \"%s\",\n%s",
                               digest_text(digest_of(body, strlen(body)), hex), body);

    EXPECT_OK(file_replace(in_folder(MANIFEST), whole, strlen(whole)));
}

/* Writes a table, and a manifest that names its new stamp. */
static void forge_table(const char *manifest, const char *old, const char *text)
{
    char old_hex[DIGEST_TEXT], hex[DIGEST_TEXT];

    EXPECT_OK(file_replace(in_folder(TABLE), text, strlen(text)));
    manifest = replaced(manifest, digest_text(digest_of(old, strlen(old)), old_hex),
                        digest_text(digest_of(text, strlen(text)), hex));
    manifest = replaced(manifest, arena_format(&arena, "\"bytes\":%zu,", strlen(old)),
                        arena_format(&arena, "\"bytes\":%zu,", strlen(text)));
    forge_manifest(manifest);
}

struct forgery {
    const char *from, *to, *says;
};

static void a_forged_manifest_is_refused(void **state)
{
    static const struct forgery forgeries[] = {
        { "\"format\":\"roux checkpoint\"", "\"format\":\"roux chessboard\"",
          "is \"roux chessboard\" version 1" },
        { "\"format\":\"roux checkpoint\"", "\"format\":7", "\"format\" is of another type" },
        { "\"version\":1", "\"version\":2", "version 2; this program reads" },
        { "\"version\":1", "\"version\":1.0", "\"version\" is of another type" },
        { "\"step\":5", "\"step\":-5", "\"step\" is -5" },
        { "\"step\":5,", "", "\"step\" is missing" },
        { "\"step\":5", "\"step\":99999999999999999999", "manifest.json:2:" },
        { "\"step\":5", "\"step\":5,\"step\":6", "duplicate" },
        { "\"tp\":1", "\"tp\":0", "\"tp\" is 0" },
        { "\"tp\":1", "\"tp\":1048577", "\"tp\" is 1048577" },
        { "\"tp\":1,\"ep\":1", "\"tp\":65536,\"ep\":65536", "multiply to more than" },
        { "\"ds\":1", "\"ds\":2", "has 1 tables; the degrees make 2" },
        { "\"degrees\":{", "\"degrees\":[],\"x\":{", "\"degrees\" is of another type" },
        { "\"tables\":[{", "\"tables\":[{},{", "has 2 tables; the degrees make 1" },
        { "\"tables\":[{", "\"tables\":[7],\"x\":[{", "a table is no object" },
        { ".roux/tp0_ep0_shard0.json", "../../etc/passwd", "names the table ../../etc/passwd" },
        { "\"state\":\"{", "\"state\":\"[", "while reading the member" },
        { "\"state\":\"{", "\"state\":7,\"x\":\"{", "\"state\" is of another type" },
        { "\"family\":\"cpu-avx512\"", "\"family\":null", "\"family\" is of another type" },
        { "\"recipe\":", "\"recipe\":\"\\u0000\",\"x\":", "manifest.json:2:" },
        { "\"family\":", "}\"family\":", "manifest.json:2:" },
        { "\"tables\":[", "\"tables\":[[[[[[[[[", "manifest.json:2:" },
    };
    char *text;
    size_t length;

    (void)state;
    EXPECT_OK(file_read(&arena, in_folder(MANIFEST), 1 << 20, &text, &length));
    for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++) {
        char *forged = replaced(text, forgeries[i].from, forgeries[i].to);

        assert_non_null(forged);
        forge_manifest(forged);
        EXPECT_FAIL(ERR_FORMAT, forgeries[i].says, use());
        EXPECT_FAIL(ERR_FORMAT, in_folder(MANIFEST), use());
    }
    forge_manifest(text);
    EXPECT_OK(use());
}

static void a_forged_table_is_refused(void **state)
{
    static const struct forgery forgeries[] = {
        { "roux table 1", "roux table 2", "this program reads \"roux table 1\"" },
        { "\"file\":\"tp0_ep0/shard0", "\"file\":\"../../etc/shard0",
          "speaks of the file ../../etc" },
        { "\"header_bytes\":4096", "\"header_bytes\":4097", "a header of 4097 bytes" },
        { "\"header_bytes\":4096", "\"header_bytes\":99999999999",
          "\"header_bytes\" is 99999999999" },
        { "\"header_bytes\":4096", "\"header_bytes\":0", "\"header_bytes\" is 0" },
        { "\"buffers\":[", "\"buffers\":[7,", "a buffer is no object" },
        { "\"buffers\":[", "\"buffers\":7,\"x\":[", "\"buffers\" is of another type" },
        { "\"dtype\":\"F32\"", "\"dtype\":\"F4\"", "the unknown dtype F4" },
        { "\"dtype\":\"F32\"", "\"dtype\":\"F33\"", "the unknown dtype F33" },
        { "\"begin\":4096", "\"begin\":8192", "\"begin\" is 8192" },
        { "\"begin\":4096,\"bytes\":", "\"begin\":4096,\"bytes\":99", "\"bytes\" is 99" },
        { "\"blocks\":[", "\"blocks\":[\"00000000000000000000000000000000\",",
          "block digests; 1 are needed" },
        { "\"blocks\":[\"", "\"blocks\":[\"z", "a digest of 32 hexadecimal digits" },
        { "\"slices\":[", "\"slices\":[7,", "is no object" },
        { "\"shape\":[96,40]", "\"shape\":[95,40]", "no rectangle" },
        { "\"shape\":[96,40]", "\"shape\":[96,40,1]", "no rectangle" },
        { "\"shape\":[96,40]", "\"shape\":[96,40,1,1,1]", "has 5 dimensions" },
        { "\"shape\":[96,40]", "\"shape\":[9223372036854775807,40]", "no rectangle" },
        { "\"shape\":[96,40]", "\"shape\":[-96,40]", "integers that are not negative" },
        { "\"from\":[0,0]", "\"from\":[97,0]", "no rectangle" },
        { "\"to\":[96,40]", "\"to\":[96,41]", "no rectangle" },
        { "\"first\":0", "\"first\":3841", "\"first\" is 3841" },
        { "\"count\":3840", "\"count\":3841", "\"count\" is 3841" },
        { "\"at\":0", "\"at\":999999999", "\"at\" is 999999999" },
        { "\"at\":0", "\"at\":9000", "does not fit into buffer root.weight" },
    };
    /* Sound in itself, so it reads as a checkpoint of another model. */
    static const struct forgery renamed = { "\"tensor\":\"model.embed", "\"tensor\":\"moodel.embed",
                                            "model.embed_tokens.weight (weight) is not in" };
    char *manifest, *table;
    size_t length;

    (void)state;
    EXPECT_OK(file_read(&arena, in_folder(MANIFEST), 1 << 20, &manifest, &length));
    EXPECT_OK(file_read(&arena, in_folder(TABLE), 1 << 20, &table, &length));
    for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++) {
        char *forged = replaced(table, forgeries[i].from, forgeries[i].to);

        assert_non_null(forged);
        forge_table(manifest, table, forged);
        EXPECT_FAIL(ERR_FORMAT, forgeries[i].says, use());
    }
    forge_table(manifest, table, replaced(table, renamed.from, renamed.to));
    EXPECT_FAIL(ERR_RECIPE, renamed.says, use());
    forge_table(manifest, table, table);
    EXPECT_OK(use());
}

/* Content that asks for what the checkpoint does not have. */
static void what_is_not_stored_is_named(void **state)
{
    static float out[8192];
    static const struct {
        struct slice want;
        enum dtype dtype;
        status code;
        const char *says;
    } cases[] = {
        { { "model.norm.weight", "moment3", 1, { 37 }, { 0 }, { 37 }, 0, 37, 0 },
          DT_F32,
          ERR_RECIPE,
          "tensor model.norm.weight (moment3) is not in the checkpoint" },
        { { "model.norm.weights", "weight", 1, { 37 }, { 0 }, { 37 }, 0, 37, 0 },
          DT_F32,
          ERR_RECIPE,
          "tensor model.norm.weights (weight) is not in the checkpoint" },
        { { "model.norm.weight", "weight", 1, { 38 }, { 0 }, { 38 }, 0, 38, 0 },
          DT_F32,
          ERR_RECIPE,
          "has the shape [37]" },
        { { "model.norm.weight", "weight", 1, { 37 }, { 0 }, { 36 }, 0, 36, 0 },
          DT_F32,
          ERR_FORMAT,
          "the rectangle [0] to [36]" },
        { { "model.norm.weight", "weight", 1, { 37 }, { 0 }, { 37 }, 0, 37, 0 },
          DT_F16,
          ERR_RECIPE,
          "is stored as F32; here it is F16" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct checkpoint_buffer b = { "b", cases[i].dtype, out, 64, &cases[i].want, 1 };
        struct checkpoint_content c = { .buffers = &b, .buffer_count = 1 };
        struct checkpoint_info info;

        EXPECT_OK(checkpoint_open(&info, &arena, folder));
        EXPECT_FAIL(cases[i].code, cases[i].says, checkpoint_load(&info, &mesh, &c));
    }
}

/* A tensor of which some elements were never written. */
static void a_hole_is_named(void **state)
{
    float bytes[64] = { 0 };
    struct slice part[2] = { { "t", "weight", 1, { 20 }, { 0 }, { 20 }, 0, 7, 0 },
                             { "t", "weight", 1, { 20 }, { 0 }, { 20 }, 11, 9, 7 } };
    struct slice want = { "t", "weight", 1, { 20 }, { 0 }, { 20 }, 3, 17, 0 };
    struct checkpoint_buffer b = { "b", DT_F32, bytes, 64, part, 2 };
    struct checkpoint_content c = { 5, "f", "r", "{}", &b, 1 };
    struct checkpoint_info info;

    (void)state;
    EXPECT_OK(checkpoint_save(folder, &mesh, &c));
    EXPECT_OK(checkpoint_open(&info, &arena, folder));
    b.slices = &want;
    b.slice_count = 1;
    EXPECT_FAIL(ERR_FORMAT, "elements 7 to 11 of tensor t (weight) are in none of its files",
                checkpoint_load(&info, &mesh, &c));
    want.count = 4; /* 3 .. 7 are there */
    EXPECT_OK(checkpoint_load(&info, &mesh, &c));
}

/* Padding that nobody reads is verified as well, also where a whole block of it follows. */
static void altered_padding_is_refused(void **state)
{
    int64_t n = 2ll * DIGEST_BLOCK;
    struct slice part = { "t", "weight", 1, { 20 }, { 0 }, { 20 }, 0, 20, 0 };
    struct checkpoint_buffer b = { "b", DT_U8, calloc(1, (size_t)n), n, &part, 1 };
    struct checkpoint_content c = { 5, "f", "r", "{}", &b, 1 };
    struct checkpoint_info info;
    char one = 1;

    (void)state;
    EXPECT_OK(checkpoint_save(folder, &mesh, &c));
    EXPECT_OK(checkpoint_open(&info, &arena, folder));
    EXPECT_OK(checkpoint_load(&info, &mesh, &c));
    bytes_at(STATE, 4096 + DIGEST_BLOCK + 77, &one, true);
    EXPECT_FAIL(ERR_FORMAT, STATE, checkpoint_load(&info, &mesh, &c));
    free(b.bytes);
}

static void a_checkpoint_replaced_meanwhile_is_refused(void **state)
{
    struct checkpoint_info info;
    struct model m;

    (void)state;
    EXPECT_OK(checkpoint_open(&info, &arena, folder));
    model_make(&m, &mesh, 6, true);
    EXPECT_OK(checkpoint_save(folder, &mesh, &m.content));
    EXPECT_FAIL(ERR_FORMAT, "it held step 5, now 6", checkpoint_load(&info, &mesh, &m.content));
    model_release(&m);
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(a_changed_byte_is_refused),
        IN_PLACE(a_length_that_changed_is_refused),
        IN_PLACE(a_missing_file_is_named),
        IN_PLACE(a_forged_manifest_is_refused),
        IN_PLACE(a_forged_table_is_refused),
        IN_PLACE(what_is_not_stored_is_named),
        IN_PLACE(a_hole_is_named),
        IN_PLACE(altered_padding_is_refused),
        IN_PLACE(a_checkpoint_replaced_meanwhile_is_refused),
    };
    int failed;

    comm_alone(&world);
    if (mesh_open(&mesh, &world, (int[]){ 1, 1, 1, 1, 1 }) != OK) {
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    mesh_close(&mesh);
    comm_close(&world);
    arena_release(&arena);
    return failed;
}
