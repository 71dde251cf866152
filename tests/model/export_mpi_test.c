/*
 * Exports from several ranks: every mesh of this many ranks writes the very bytes that one rank
 * writes, and what the writing rank cannot do, all ranks learn.
 */
#include <math.h>
#include "base/file.h"
#include "comm/ranks.h"
#include "model/model.h"

static char folder[256];

struct side {
    struct arena arena;
    struct mesh mesh;
    struct model_spec spec;
    struct model model;
    struct program p;
    struct residents residents;
    struct device d;
};

/* Odd widths, so that neither shards nor the split vocabulary come out even. */
static void side_open(struct side *s, struct comm *comm, const int size[AXIS_COUNT], bool tied)
{
    const struct kernels *kernels;
    struct memory_plan plan;
    struct model_inputs in;

    *s = (struct side){ 0 };
    EXPECT_OK(mesh_open(&s->mesh, comm, size));
    spec_default(&s->spec, family_find("llama"));
    s->spec.vocab = 131;
    s->spec.width = 28;
    s->spec.ffn = 44;
    s->spec.layers = 2;
    s->spec.heads = 4;
    s->spec.head_dim = 6;
    s->spec.max_positions = 8;
    s->spec.tied = tied;
    s->spec.attention_bias = s->spec.mlp_bias = !tied;
    EXPECT_OK(spec_finish(&s->spec, "here"));
    EXPECT_OK(kernels_find(DT_F64, &kernels));
    EXPECT_OK(model_make(&s->model, &s->arena, &s->spec, &s->mesh));
    program_init(&s->p, "judge", &s->arena, &s->mesh, DT_F64);
    in = model_inputs(&s->p, 1, 4);
    program_keep(&s->p, model_loss(&s->p, &s->model, &in, 0));
    residents_init(&s->residents, &s->arena);
    EXPECT_OK(program_plan(&s->p, &s->residents, kernels, 1, &plan));
    EXPECT_OK(device_open(&s->d, kernels, &s->mesh, 1, &s->residents));
    weights_init(s->model.weights, &s->d, &s->p, 3);
}

static void side_close(struct side *s)
{
    device_close(&s->d);
    residents_release(&s->residents);
    mesh_close(&s->mesh);
    arena_release(&s->arena);
}

static status side_export(struct side *s, const char *name, int64_t limit)
{
    return weights_export(s->model.weights, &s->spec, &s->d, &s->p,
                          path_join(&s->arena, folder, name), DT_BF16, limit);
}

static void expect_same_files(struct arena *a, const char *left, const char *right)
{
    char **names, **others;
    size_t count, other_count;

    EXPECT_OK(folder_list(a, path_join(a, folder, left), &names, &count));
    EXPECT_OK(folder_list(a, path_join(a, folder, right), &others, &other_count));
    assert_int_equal(count, other_count);
    assert_true(count > 4);
    for (size_t i = 0; i < count; i++) {
        const char *x = path_join(a, path_join(a, folder, left), names[i]);
        const char *y = path_join(a, path_join(a, folder, right), names[i]);
        char *in_x, *in_y;
        size_t length_x, length_y;

        if (file_is_folder(x)) {
            continue;
        }
        EXPECT_OK(file_read(a, x, 1 << 24, &in_x, &length_x));
        EXPECT_OK(file_read(a, y, 1 << 24, &in_y, &length_y));
        assert_int_equal(length_x, length_y);
        assert_memory_equal(in_x, in_y, length_x);
    }
}

static void every_mesh_exports_the_same_bytes(void **state)
{
    static const int one[AXIS_COUNT] = { 1, 1, 1, 1, 1 };
    struct comm alone;
    int meshes = 0;

    (void)state;
    comm_alone(&alone);
    for (int T = 1; T <= world.size && T <= 4; T *= 2) {
        for (int S = 1; T * S <= world.size; S *= 2) {
            const int size[AXIS_COUNT] = { [AXIS_TP] = T,
                                           [AXIS_EP] = 1,
                                           [AXIS_CP] = 1,
                                           [AXIS_DS] = S,
                                           [AXIS_REPLICA] = world.size / (T * S) };
            struct side many;

            side_open(&many, &world, size, meshes % 2 == 0);
            EXPECT_OK(side_export(&many, "many", 8192));
            if (world.rank == 0) {
                struct side single;

                side_open(&single, &alone, one, meshes % 2 == 0);
                EXPECT_OK(side_export(&single, "one", 8192));
                expect_same_files(&single.arena, "one", "many");
                side_close(&single);
            }
            side_close(&many);
            meshes++;
        }
    }
    assert_true(meshes >= 3);
}

static void all_ranks_learn_of_a_failure(void **state)
{
    const int size[AXIS_COUNT] = { 1, 1, 1, world.size, 1 };
    double bad = NAN;
    struct side s;
    val last;

    (void)state;
    side_open(&s, &world, size, false);
    if (world.rank == 0) {
        EXPECT_OK(folder_make(path_join(&s.arena, folder, "theirs")));
        EXPECT_OK(file_replace(path_join(&s.arena, folder, "theirs/thesis.txt"), "42", 2));
    }
    EXPECT_FAIL(ERR_RECIPE, "was not exported by roux", side_export(&s, "theirs", 0));
    EXPECT_FAIL(ERR_RECIPE, "while exporting the model to", side_export(&s, "theirs", 0));
    /* In the middle of the work, in a tensor of the last rank's shard. */
    last = program_find(&s.p, "weight.layers.1");
    if (world.rank == world.size - 1) {
        device_write(&s.d, &s.p, last, 5, 1, &bad);
    }
    EXPECT_FAIL(ERR_FORMAT, "is NaN in BF16", side_export(&s, "third", 0));
    if (world.rank == 0) {
        assert_false(file_is_there(path_join(&s.arena, folder, "third")));
        assert_false(file_is_there(path_join(&s.arena, folder, "third.writing")));
    }
    side_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mesh_exports_the_same_bytes),
        cmocka_unit_test(all_ranks_learn_of_a_failure),
    };
    const char *above = getenv("TMPDIR");
    struct collective name = {
        .kind = COMM_BROADCAST, .dtype = DT_U8, .out = folder, .n = sizeof folder
    };
    int failed;

    ranks_open();
    if (world.rank == 0) {
        snprintf(folder, sizeof folder, "%s/roux-export-XXXXXX", above == NULL ? "/tmp" : above);
        assert_non_null(mkdtemp(folder));
    }
    EXPECT_OK(comm_run(&world, &name));
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    EXPECT_OK(comm_barrier(&world));
    if (world.rank == 0) {
        EXPECT_OK(folder_remove(folder));
    }
    return ranks_close(failed);
}
