/* Every collective over 2, 3 and 4 ranks against the same computed by one. */
#include "comm/ranks.h"
#include <time.h>
#include "tensor/row_tree.h"

enum { GUARD = 64 };

/* Element i of rank r's input: magnitudes from 2^-20 to 2^20, so that another order of adding
 * gives other bits. */
static double input_at(int r, int64_t i)
{
    uint64_t x = ((uint64_t)r << 40) + (uint64_t)i;

    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 32;
    return ((double)(x & 0xffffff) - 0x800000) / 0x1000000 * (double)(1ull << (x >> 40) % 40);
}

static void put(enum dtype t, void *to, int64_t i, int r, int64_t index)
{
    double x = input_at(r, index);

    switch (t) {
    case DT_F32:
        ((float *)to)[i] = (float)x;
        break;
    case DT_F64:
        ((double *)to)[i] = x;
        break;
    case DT_I64:
        ((int64_t *)to)[i] = (int64_t)((uint64_t)(int64_t)(x * 1e12) + INT64_MAX / 2);
        break;
    default:
        memset((char *)to + i * (int64_t)dtype_bytes(t), (int)(index * 7 + r * 31) & 0xff,
               dtype_bytes(t));
    }
}

static void *input_make(enum dtype t, int r, int64_t first, int64_t n)
{
    char *bytes = malloc((size_t)n * dtype_bytes(t) + 1);

    assert_non_null(bytes);
    for (int64_t i = 0; i < n; i++) {
        put(t, bytes, i, r, first + i);
    }
    return bytes;
}

static void add_into(enum dtype t, void *to, const void *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (t == DT_F32) {
            ((float *)to)[i] += ((const float *)from)[i];
        } else if (t == DT_F64) {
            ((double *)to)[i] += ((const double *)from)[i];
        } else {
            ((uint64_t *)to)[i] += ((const uint64_t *)from)[i];
        }
    }
}

/* The sum over ranks 0 .. size-1 of elements [first, first + n), by tensor/row_tree.h's
 * depth-first walk. */
static void *sum_make(enum dtype t, int size, int64_t first, int64_t n)
{
    int levels = row_tree_levels(size);
    void *stack[40];
    int depth = 0;

    for (int64_t c = 0; c < 1 << levels; c++) {
        int r = (int)row_tree_residue(c, levels);

        stack[depth++] = input_make(t, r, first, n);
        for (int m = r + (1 << levels); m < size; m += 1 << levels) {
            void *next = input_make(t, m, first, n);

            add_into(t, stack[depth - 1], next, n);
            free(next);
        }
        for (int merges = row_tree_merges(c); merges > 0 && depth > 1; merges--) {
            depth--;
            add_into(t, stack[depth - 1], stack[depth], n);
            free(stack[depth]);
        }
    }
    assert_int_equal(depth, 1);
    return stack[0];
}

/* An output with bytes around it that nobody may touch. */
static char *output_make(size_t bytes)
{
    char *all = malloc(bytes + 2 * GUARD);

    assert_non_null(all);
    memset(all, 0x5a, bytes + 2 * GUARD);
    return all + GUARD;
}

static void output_check(char *out, const void *expected, size_t bytes)
{
    for (int i = 1; i <= GUARD; i++) {
        assert_int_equal(out[-i], 0x5a);
        assert_int_equal(out[bytes + (size_t)i - 1], 0x5a);
    }
    assert_int_equal(bytes > 0 ? memcmp(out, expected, bytes) : 0, 0);
    free(out - GUARD);
}

static void all_reduce_case(struct comm *c, enum dtype t, int64_t n, bool in_place)
{
    size_t bytes = (size_t)n * dtype_bytes(t);
    void *in = input_make(t, c->rank, 0, n);
    void *expected = sum_make(t, c->size, 0, n);
    char *out = output_make(bytes);

    if (in_place) {
        memcpy(out, in, bytes);
    }
    EXPECT_OK(comm_run(c, &(struct collective){ .kind = COMM_ALL_REDUCE,
                                                .dtype = t,
                                                .in = in_place ? (void *)out : in,
                                                .out = out,
                                                .n = n }));
    output_check(out, expected, bytes);
    free(in);
    free(expected);
}

static void reduce_scatter_case(struct comm *c, enum dtype t, int64_t n)
{
    size_t bytes = (size_t)n * dtype_bytes(t);
    void *in = input_make(t, c->rank, 0, n * c->size);
    void *expected = sum_make(t, c->size, n * c->rank, n);
    char *out = output_make(bytes);

    EXPECT_OK(
        comm_run(c, &(struct collective){
                        .kind = COMM_REDUCE_SCATTER, .dtype = t, .in = in, .out = out, .n = n }));
    output_check(out, expected, bytes);
    free(in);
    free(expected);
}

static void gather_case(struct comm *c, enum dtype t, int64_t n)
{
    size_t bytes = (size_t)n * dtype_bytes(t);
    void *in = input_make(t, c->rank, 0, n);
    char *expected = malloc(bytes * (size_t)c->size + 1);
    char *out = output_make(bytes * (size_t)c->size);

    for (int r = 0; r < c->size; r++) {
        void *theirs = input_make(t, r, 0, n);

        memcpy(expected + bytes * (size_t)r, theirs, bytes);
        free(theirs);
    }
    EXPECT_OK(comm_run(
        c, &(struct collective){ .kind = COMM_GATHER, .dtype = t, .in = in, .out = out, .n = n }));
    output_check(out, expected, bytes * (size_t)c->size);
    free(in);
    free(expected);
}

static void broadcast_case(struct comm *c, enum dtype t, int64_t n, int root)
{
    size_t bytes = (size_t)n * dtype_bytes(t);
    void *expected = input_make(t, root, 0, n);
    char *out = output_make(bytes);

    if (c->rank == root) {
        memcpy(out, expected, bytes);
    }
    EXPECT_OK(
        comm_run(c, &(struct collective){
                        .kind = COMM_BROADCAST, .dtype = t, .out = out, .n = n, .root = root }));
    output_check(out, expected, bytes);
    free(expected);
}

static void every_case(struct comm *c)
{
    static const int64_t lengths[] = { 0, 1, 2, 3, 17, 63, 64, 65, 1000, 4099 };
    static const enum dtype sums[] = { DT_F32, DT_F64, DT_I64 };
    static const enum dtype moves[] = { DT_BF16, DT_U8, DT_F32, DT_C64 };

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (size_t t = 0; t < sizeof sums / sizeof *sums; t++) {
            all_reduce_case(c, sums[t], lengths[i], false);
            all_reduce_case(c, sums[t], lengths[i], true);
            reduce_scatter_case(c, sums[t], lengths[i]);
        }
        for (size_t t = 0; t < sizeof moves / sizeof *moves; t++) {
            gather_case(c, moves[t], lengths[i]);
            for (int root = 0; root < c->size; root++) {
                broadcast_case(c, moves[t], lengths[i], root);
            }
        }
    }
}

static void collectives_agree_with_one_rank(void **state)
{
    (void)state;
    assert_string_equal(world.ops->name, "mpi");
    every_case(&world);
}

static void collectives_agree_in_parts_of_the_world(void **state)
{
    struct comm part, single;

    (void)state;
    /* The last rank by itself, the others in reverse order: 1 and 1, or 3 and 1. */
    EXPECT_OK(comm_split(&world, world.rank == world.size - 1, world.size - world.rank, &part));
    if (world.rank < world.size - 1) {
        assert_int_equal(part.size, world.size - 1);
        assert_int_equal(part.rank, world.size - 2 - world.rank);
    } else {
        assert_int_equal(part.size, 1);
    }
    every_case(&part);
    EXPECT_OK(comm_barrier(&part));
    EXPECT_OK(comm_split(&part, part.rank, 0, &single));
    assert_int_equal(single.size, 1);
    every_case(&single);
    comm_close(&single);
    comm_close(&part);
}

static void long_messages_travel_in_pieces(void **state)
{
    (void)state;
    all_reduce_case(&world, DT_F32, (5 << 20) + 5, true);
    reduce_scatter_case(&world, DT_F64, (1 << 20) + 3);
    gather_case(&world, DT_U8, (5 << 20) + 1);
    broadcast_case(&world, DT_U8, (5 << 20) + 1, 1);
}

static void several_tickets_may_be_under_way(void **state)
{
    enum { FLIGHTS = 6, ROUNDS = 50, N = 501 };
    float in[FLIGHTS][N], out[FLIGHTS][N * 4];
    void *scratch[FLIGHTS];
    void *sum = sum_make(DT_F32, world.size, 0, N);

    (void)state;
    for (int f = 0; f < FLIGHTS; f++) {
        scratch[f] = aligned_alloc(64, 1 << 16);
        for (int i = 0; i < N; i++) {
            put(DT_F32, in[f], i, world.rank, i);
        }
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct ticket t[FLIGHTS];

        for (int f = 0; f < FLIGHTS; f++) {
            struct collective what = { .kind = f % 3 == 2 ? COMM_GATHER : COMM_ALL_REDUCE,
                                       .dtype = DT_F32,
                                       .in = in[f],
                                       .out = out[f],
                                       .n = N - f,
                                       .scratch = scratch[f] };

            assert_true(comm_scratch(&world, &what) <= 1 << 16);
            EXPECT_OK(comm_begin(&world, &what, &t[f]));
        }
        /* Waited for from the last to the first in odd rounds. */
        for (int i = 0; i < FLIGHTS; i++) {
            EXPECT_OK(comm_wait(&world, &t[round % 2 ? FLIGHTS - 1 - i : i]));
        }
        for (int f = 0; f < FLIGHTS; f++) {
            if (f % 3 != 2) {
                assert_memory_equal(out[f], sum, (size_t)(N - f) * sizeof(float));
            } else {
                assert_memory_equal(out[f] + (N - f) * world.rank, in[f],
                                    (size_t)(N - f) * sizeof(float));
            }
        }
        memset(out, 0, sizeof out);
    }
    for (int f = 0; f < FLIGHTS; f++) {
        free(scratch[f]);
    }
    free(sum);
}

static void agreement_names_the_first_rank_that_failed(void **state)
{
    char expected[64];

    (void)state;
    EXPECT_OK(comm_agree(&world, OK));
    for (int r = 0; r < world.size; r++) {
        status mine = world.rank >= r ? fail(ERR_IO, "disk of %d is full", world.rank) : OK;

        snprintf(expected, sizeof expected, "rank %d: disk of %d is full", r, r);
        EXPECT_FAIL(ERR_IO, expected, comm_agree(&world, mine));
        assert_string_equal(fail_text(), expected);
    }
    EXPECT_OK(comm_agree(&world, OK));
}

/* Rank 0 comes late; nobody may leave before it came. */
static void a_barrier_holds_until_all_came(void **state)
{
    int64_t came = 0, seen[4];

    (void)state;
    for (int round = 0; round < 3; round++) {
        struct timespec now;

        if (world.rank == 0) {
            nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
            clock_gettime(CLOCK_MONOTONIC, &now);
            came = now.tv_sec * 1000000000ll + now.tv_nsec;
        }
        EXPECT_OK(comm_barrier(&world));
        if (world.rank != 0) {
            clock_gettime(CLOCK_MONOTONIC, &now);
            came = now.tv_sec * 1000000000ll + now.tv_nsec;
        }
        EXPECT_OK(comm_run(
            &world, &(struct collective){
                        .kind = COMM_GATHER, .dtype = DT_I64, .in = &came, .out = seen, .n = 1 }));
        for (int r = 1; r < world.size; r++) {
            assert_true(seen[r] >= seen[0]); /* one machine, one clock */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_agree_with_one_rank),
        cmocka_unit_test(collectives_agree_in_parts_of_the_world),
        cmocka_unit_test(long_messages_travel_in_pieces),
        cmocka_unit_test(several_tickets_may_be_under_way),
        cmocka_unit_test(agreement_names_the_first_rank_that_failed),
        cmocka_unit_test(a_barrier_holds_until_all_came),
    };

    ranks_open();
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}
