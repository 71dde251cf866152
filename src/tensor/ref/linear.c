/* Products with a weight; see tensor/kernels.h. */
#include <string.h>

#include "tensor/ref/ref.h"

void NAME(linear)(const struct linear_args *a, struct team t)
{
    struct product p = {
        .a = a->x,
        .a_row = a->ldx,
        .a_red = 1,
        .b = a->w,
        .b_red = 1,
        .b_col = a->K,
        .c = a->y,
        .ldc = a->ldy,
        .rows = a->B * a->S,
        .cols = a->N,
        .red = a->K,
        .scale = (real)a->scale,
        .add = a->add,
    };

    NAME(product_share)(&p, t);
}

void NAME(linear_dx)(const struct linear_args *a, struct team t)
{
    struct product p = {
        .a = a->dy,
        .a_row = a->lddy,
        .a_red = 1,
        .b = a->w,
        .b_red = a->K,
        .b_col = 1,
        .c = a->dx,
        .ldc = a->lddx,
        .rows = a->B * a->S,
        .cols = a->K,
        .red = a->N,
        .scale = (real)a->scale,
        .add = a->add,
    };

    NAME(product_share)(&p, t);
}

/*
 * dw in tiles of OUTER_ROWS x OUTER_COLS, each walked through the whole row tree by one thread, its
 * buffers in a cache:
 *
 *   scratch  [threads][tree_buffers(B)][OUTER_ROWS][OUTER_COLS]
 */
enum { OUTER_ROWS = 32, OUTER_COLS = 64, OUTER_TILE = OUTER_ROWS * OUTER_COLS };

struct outer_tile {
    const struct outer_sum *o;
    int64_t row, rows, col, cols;
};

/* The tile's sum over one sequence: one chain through its positions, in blocks whose dy is packed.
 * */
static void outer_leaf(const void *context, int64_t sequence, real *sum)
{
    _Alignas(64) real dy[PRODUCT_BLOCK * OUTER_ROWS];
    const struct outer_tile *tile = context;
    const struct outer_sum *o = tile->o;

    for (int64_t s = 0; s < o->S; s += PRODUCT_BLOCK) {
        int64_t red = o->S - s < PRODUCT_BLOCK ? o->S - s : PRODUCT_BLOCK, t = sequence * o->S + s;
        struct product p = {
            .a = dy,
            .a_row = 1,
            .a_red = OUTER_ROWS,
            .b = o->x + t * o->ldx + tile->col,
            .b_red = o->ldx,
            .b_col = 1,
            .c = sum,
            .ldc = OUTER_COLS,
            .rows = tile->rows,
            .cols = tile->cols,
            .red = red,
            .scale = 1,
            .chain = true,
            .resume = s > 0,
        };

        for (int64_t r = 0; r < red; r++) {
            memcpy(dy + r * OUTER_ROWS, o->dy + (t + r) * o->lddy + tile->row,
                   (size_t)tile->rows * sizeof(real));
        }
        NAME(product)(&p);
    }
}

size_t NAME(outer_scratch)(int64_t B, int threads)
{
    return (size_t)threads * (size_t)tree_buffers(B) * OUTER_TILE * sizeof(real);
}

void NAME(outer_sum)(const struct outer_sum *o, struct team t)
{
    int64_t rows = (o->N + OUTER_ROWS - 1) / OUTER_ROWS,
            cols = (o->K + OUTER_COLS - 1) / OUTER_COLS, from, to;
    real *buffers = (real *)o->scratch + t.thread * tree_buffers(o->B) * OUTER_TILE;

    team_share(t, rows * cols, &from, &to);
    for (int64_t i = from; i < to; i++) {
        struct outer_tile tile = { .o = o,
                                   .row = i / cols * OUTER_ROWS,
                                   .col = i % cols * OUTER_COLS };

        tile.rows = o->N - tile.row < OUTER_ROWS ? o->N - tile.row : OUTER_ROWS;
        tile.cols = o->K - tile.col < OUTER_COLS ? o->K - tile.col : OUTER_COLS;
        NAME(tree_sum)(outer_leaf, &tile, o->B, OUTER_TILE, buffers);
        for (int64_t n = 0; n < tile.rows; n++) {
            real *dw = o->dw + (tile.row + n) * o->K + tile.col;

            for (int64_t k = 0; k < tile.cols; k++) {
                dw[k] += o->scale * buffers[n * OUTER_COLS + k];
            }
        }
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
        .scale = (real)a->scale,
        .scratch = a->scratch,
    };

    NAME(outer_sum)(&o, t);
}

size_t NAME(linear_scratch)(const struct linear_args *a, int threads)
{
    return NAME(outer_scratch)(a->B, threads);
}
