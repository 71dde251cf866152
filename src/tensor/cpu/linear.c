/* Products with a weight; see tensor/kernels.h. */
#include "tensor/cpu/cpu.h"

void NAME(linear)(const struct linear_args *a, struct team t)
{
    struct product p = {
        .a = { a->x, a->ldx, 1, false },
        .b = { a->w, a->K, 1, false },
        .c = a->y,
        .ldc = a->ldy,
        .rows = a->B * a->S,
        .cols = a->N,
        .red = a->K,
        .scale = (float)a->scale,
        .wide = ELEM_WIDE,
        .add = a->add,
        .scratch = a->scratch,
    };

    NAME(product_share)(&p, t);
}

void NAME(linear_dx)(const struct linear_args *a, struct team t)
{
    struct product p = {
        .a = { a->dy, a->lddy, 1, false },
        .b = { a->w, 1, a->K, false },
        .c = a->dx,
        .ldc = a->lddx,
        .rows = a->B * a->S,
        .cols = a->K,
        .red = a->N,
        .scale = (float)a->scale,
        .wide = ELEM_WIDE,
        .add = a->add,
        .scratch = a->scratch,
    };

    NAME(product_share)(&p, t);
}

/*
 * dw in blocks of at most OUTER_ROWS x OUTER_COLS, each walked through the whole row tree by one
 * thread, its buffers in a cache:
 *
 *   scratch  [threads] { product_scratch; [tree_buffers(B)][OUTER_ROWS][OUTER_COLS] }
 */
enum {
    OUTER_ROWS = 144,
    OUTER_COLS = 288,
    ROW_UNIT = 24, /* whole tiles and vectors in every family */
    COL_UNIT = 16
};

struct outer_block {
    const struct outer_sum *o;
    void *scratch;
    int64_t row, rows, col, cols;
};

/* The block's sum over one sequence: one chain through its positions. */
static void outer_leaf(const void *context, int64_t sequence, float *sum)
{
    const struct outer_block *block = context;
    const struct outer_sum *o = block->o;
    int64_t t = sequence * o->S;
    struct product p = {
        .a = { o->dy + t * o->lddy + block->row, 1, o->lddy, false },
        .b = { o->x + t * o->ldx + block->col, 1, o->ldx, false },
        .c = sum,
        .ldc = OUTER_COLS,
        .rows = block->rows,
        .cols = block->cols,
        .red = o->S,
        .scale = 1,
        .wide = true,
        .chain = true,
        .scratch = block->scratch,
    };

    NAME(product)(&p);
}

static int64_t units_of(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit;
}

/* Elements of a buffer: of the largest block there is. */
static int64_t block_size(int64_t N)
{
    int64_t rows = units_of(N, ROW_UNIT) * ROW_UNIT;

    return (rows < OUTER_ROWS ? rows : OUTER_ROWS) * OUTER_COLS;
}

static size_t thread_scratch(int64_t B, int64_t S, int64_t N)
{
    return NAME(product_scratch)(OUTER_ROWS, S) +
           (size_t)(tree_buffers(B) * block_size(N)) * sizeof(float);
}

size_t NAME(outer_scratch)(int64_t B, int64_t S, int64_t N, int threads)
{
    return (size_t)threads * thread_scratch(B, S, N);
}

/* How many blocks each way. */
struct grid {
    int64_t rows, cols;
};

/* What the busiest thread does: the elements of its blocks, and what it packs for them (an element
 * packed costs about as much as PACKING of the product). */
static int64_t grid_cost(const struct outer_sum *o, struct grid g, int threads)
{
    enum { PACKING = 8 };
    int64_t most = units_of(g.rows * g.cols, threads),
            rows = units_of(units_of(o->N, ROW_UNIT), g.rows) * ROW_UNIT,
            cols = units_of(units_of(o->K, COL_UNIT), g.cols) * COL_UNIT;

    return most * (rows * cols + PACKING * (rows + cols));
}

/* The fewest blocks; where these do not keep all threads busy, the best of somewhat more. */
static struct grid grid_of(const struct outer_sum *o, int threads)
{
    struct grid least = { units_of(o->N, OUTER_ROWS), units_of(o->K, OUTER_COLS) }, best = least;
    int64_t rows = units_of(o->N, ROW_UNIT), cols = units_of(o->K, COL_UNIT);

    if (least.rows * least.cols >= 16 * threads) {
        return least;
    }
    for (int64_t r = least.rows; r <= rows && r <= least.rows + threads; r++) {
        for (int64_t c = least.cols; c <= cols && c <= least.cols + threads; c++) {
            struct grid g = { r, c };

            if (grid_cost(o, g, threads) < grid_cost(o, best, threads)) {
                best = g;
            }
        }
    }
    return best;
}

/* Where block i of n begins, all spread evenly in whole units. */
static int64_t block_edge(int64_t extent, int64_t unit, int64_t i, int64_t n)
{
    int64_t at = units_of(extent, unit) * i / n * unit;

    return at < extent ? at : extent;
}

static void block_add(const struct outer_block *b, const float *sum)
{
    for (int64_t n = 0; n < b->rows; n++, sum += OUTER_COLS) {
        float *dw = b->o->dw + (b->row + n) * b->o->K + b->col;
        int64_t k = 0;

        for (; k + LANES <= b->cols; k += LANES) {
            vec_store(dw + k, vec_load(dw + k) + b->o->scale * vec_load(sum + k));
        }
        if (k < b->cols) {
            vec_store_some(dw + k,
                           vec_load_some(dw + k, b->cols - k) + b->o->scale * vec_load(sum + k),
                           b->cols - k);
        }
    }
}

void NAME(outer_sum)(const struct outer_sum *o, struct team t)
{
    struct grid g = grid_of(o, t.threads);
    char *own = (char *)o->scratch + (size_t)t.thread * thread_scratch(o->B, o->S, o->N);
    float *buffers = (float *)(void *)(own + NAME(product_scratch)(OUTER_ROWS, o->S));
    int64_t from, to;

    team_share(t, g.rows * g.cols, &from, &to);
    for (int64_t i = from; i < to; i++) {
        struct outer_block block = { .o = o,
                                     .scratch = own,
                                     .row = block_edge(o->N, ROW_UNIT, i / g.cols, g.rows),
                                     .col = block_edge(o->K, COL_UNIT, i % g.cols, g.cols) };

        block.rows = block_edge(o->N, ROW_UNIT, i / g.cols + 1, g.rows) - block.row;
        block.cols = block_edge(o->K, COL_UNIT, i % g.cols + 1, g.cols) - block.col;
        NAME(tree_sum)(outer_leaf, &block, o->B, block_size(o->N), buffers);
        block_add(&block, buffers);
    }
}

void NAME(linear_dw)(const struct linear_args *a, struct team t)
{
    struct outer_sum o = {
        .dy = a->dy,
        .lddy = a->lddy,
        .x = a->x,
        .ldx = a->ldx,
        .dw = a->dw,
        .B = a->B,
        .S = a->S,
        .N = a->N,
        .K = a->K,
        .scale = (float)a->scale,
        .scratch = a->scratch,
    };

    NAME(outer_sum)(&o, t);
}

/* Enough for each of the three. */
size_t NAME(linear_scratch)(const struct linear_args *a, int threads)
{
    int64_t longest = a->K > a->N ? a->K : a->N;
    size_t product = (size_t)threads * NAME(product_scratch)(a->B * a->S, longest),
           outer = NAME(outer_scratch)(a->B, a->S, a->N, threads);

    return product > outer ? product : outer;
}
