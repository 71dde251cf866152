/* Runs with messages that watch their bytes, and what a run does to numbers near zero. */
#include "base/digest.h"
#include "program/op.h"
#include "support/tiny.h"

static const int one[AXIS_COUNT] = { 1, 1, 1, 1, 1 };

enum { COUNT = 1024 };

/* The sum of two numbers below the normal range, by as many threads; and of two normal ones. */
static void add(enum dtype real, int threads, const double in[2], double out[2])
{
    struct arena a = { 0 };
    struct mesh mesh;
    struct program p;
    struct residents r;
    struct memory_plan plan;
    struct device d;
    const struct kernels *k;
    val x, y;

    EXPECT_OK(mesh_imagine(&mesh, 0, one));
    EXPECT_OK(kernels_find(real, &k));
    program_init(&p, "sums", &a, &mesh, real);
    residents_init(&r, &a);
    x = program_input(&p, "x", real, shape_3(1, 2, COUNT), (struct place){ { 0 } });
    y = op_add(&p, "y", x, x);
    program_keep(&p, y);
    EXPECT_OK(program_plan(&p, &r, k, threads, &plan));
    EXPECT_OK(device_open(&d, k, &mesh, threads, &r));
    for (int64_t i = 0; i < 2 * COUNT; i++) {
        char bytes[8];

        assert_true(dtype_convert(real, bytes, DT_F64, &in[i / COUNT], 1));
        device_write(&d, &p, x, i, 1, bytes);
    }
    EXPECT_OK(program_run(&p, &d, NULL));
    for (int64_t i = 0; i < 2 * COUNT; i++) {
        char bytes[8];
        double sum;

        device_read(&d, &p, y, i, 1, bytes);
        assert_true(dtype_convert(DT_F64, &sum, real, bytes, 1));
        assert_true(i % COUNT == 0 || sum == out[i / COUNT]); /* whichever thread formed it */
        out[i / COUNT] = sum;
    }
    device_close(&d);
    residents_release(&r);
    arena_release(&a);
}

static void programs_of_floats_have_no_numbers_near_zero(void **state)
{
    volatile float least = 1e-38f;

    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        double out[2];

        add(DT_F32, threads, (double[]){ 0x1p-140, 0x1p-100 }, out);
#if defined(__x86_64__)
        assert_true(out[0] == 0);
#endif
        assert_true(out[1] == 0x1p-99);
        add(DT_F64, threads, (double[]){ 0x1p-1060, 0x1p-140 }, out);
        assert_true(out[0] == 0x1p-1059 && out[1] == 0x1p-139);
        assert_true(least * 0.1f > 0); /* the caller still has them */
    }
}

/* ---- a communicator of two whose other member sends what this one does ---- */

enum { FLIGHTS = 64, POISON = 0xa5 };

/* Between begin and wait the buffers are the message's: its input must stay, its output must not be
 * written, and nothing may be left behind. */
struct flight {
    bool flies;
    struct collective what;
    struct digest before;
};
static struct flight flights[FLIGHTS];
static int under_way, most_under_way, touched, begun;

static size_t bytes_in(const struct collective *what)
{
    return (size_t)what->n * (what->kind == COMM_REDUCE_SCATTER ? 2 : 1) * dtype_bytes(what->dtype);
}

static size_t bytes_out(const struct collective *what)
{
    return (size_t)what->n * (what->kind == COMM_GATHER ? 2 : 1) * dtype_bytes(what->dtype);
}

static status watchful_begin(struct comm *c, const struct collective *what, struct ticket *t)
{
    int i = 0;

    (void)c;
    while (flights[i].flies) {
        assert_true(++i < FLIGHTS);
    }
    flights[i] = (struct flight){ true, *what, digest_of(what->in, bytes_in(what)) };
    if (what->out != what->in) {
        memset(what->out, POISON, bytes_out(what));
    }
    t->count = i;
    under_way++;
    begun++;
    most_under_way = under_way > most_under_way ? under_way : most_under_way;
    return OK;
}

static status watchful_wait(struct comm *c, struct ticket *t)
{
    struct flight *f = &flights[t->count];
    size_t width = bytes_in(&f->what);

    (void)c;
    assert_true(f->flies);
    touched += !digest_same(digest_of(f->what.in, width), f->before);
    for (size_t i = 0; f->what.out != f->what.in && i < bytes_out(&f->what); i++) {
        touched += ((const uint8_t *)f->what.out)[i] != POISON;
    }
    if (f->what.out != f->what.in) {
        memcpy(f->what.out, f->what.in,
               f->what.kind == COMM_REDUCE_SCATTER ? bytes_out(&f->what) : width);
    }
    if (f->what.kind == COMM_GATHER) {
        memcpy((uint8_t *)f->what.out + width, f->what.in, width);
    }
    f->flies = false;
    under_way--;
    return OK;
}

static size_t watchful_scratch(const struct comm *c, const struct collective *what)
{
    (void)c;
    return what->kind == COMM_GATHER ? 0 : bytes_in(what);
}

static const struct comm_ops watchful_ops = {
    .name = "watchful", .begin = watchful_begin, .wait = watchful_wait, .scratch = watchful_scratch
};

static void open_watchful(struct tiny *t, const struct tiny_options *o)
{
    static struct comm watchful = { .ops = &watchful_ops, .size = 2 };

    tiny_write(t, o);
    for (int i = 0; i < 1 << AXIS_COUNT; i++) {
        t->mesh.over[i] = &watchful;
    }
    t->p.prefetch = true;
    EXPECT_OK(tiny_plan(t, o->threads));
    EXPECT_OK(device_open(&t->d, t->kernels, &t->mesh, o->threads, &t->residents));
    weights_init(t->model.weights, &t->d, &t->p, 11);
    under_way = most_under_way = touched = begun = 0;
}

static const struct tiny_options meshes[] = {
    { .real = DT_F32, .B = 2, .S = 12, .layers = 3, .size = { [AXIS_DS] = 2 } },
    { .real = DT_F32, .B = 2, .S = 12, .layers = 2, .tied = true, .size = { [AXIS_TP] = 2 } },
    { .real = DT_BF16,
      .B = 2,
      .S = 12,
      .layers = 3,
      .flags = MODEL_REGATHER,
      .size = { [AXIS_DS] = 2, [AXIS_REPLICA] = 2 } },
    { .real = DT_F64,
      .B = 2,
      .S = 12,
      .layers = 2,
      .tied = true,
      .flags = MODEL_RECOMPUTE,
      .size = { [AXIS_TP] = 2, [AXIS_DS] = 2, [AXIS_REPLICA] = 2 } },
};
enum { MESHES = sizeof meshes / sizeof meshes[0] };

static void messages_keep_their_bytes_whatever_the_threads(void **state)
{
    (void)state;
    for (int i = 0; i < MESHES; i++) {
        struct tiny t[3];

        for (int threads = 1; threads <= 3; threads++) {
            struct tiny_options o = meshes[i];

            o.threads = threads;
            open_watchful(&t[threads - 1], &o);
            tiny_run(&t[threads - 1], 0);
            tiny_run(&t[threads - 1], 2);
            assert_int_equal(under_way, 0);
            assert_int_equal(touched, 0);
            assert_true(begun > 6);
            assert_true(most_under_way > (o.size[AXIS_DS] > 1));
            tiny_expect_same(&t[0], &t[threads - 1]);
        }
        for (int k = 0; k < 3; k++) {
            tiny_close(&t[k]);
        }
    }
}

static void a_run_that_stops_early_ends_its_messages(void **state)
{
    (void)state;
    for (int i = 0; i < MESHES; i++) {
        struct tiny_options o = meshes[i];
        struct tiny t;

        o.threads = 2;
        open_watchful(&t, &o);
        tiny_run(&t, 0);
        for (int until = 1; until < t.p.node_count; until += 3) {
            EXPECT_OK(program_run(&t.p, &t.d, &(struct run_options){ .until = until }));
            assert_int_equal(under_way, 0);
        }
        assert_int_equal(touched, 0);
        tiny_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_keep_their_bytes_whatever_the_threads),
        cmocka_unit_test(a_run_that_stops_early_ends_its_messages),
        cmocka_unit_test(programs_of_floats_have_no_numbers_near_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
