/*
 * The product that linear, attention and the head are made of.
 *
 *            panel [256, 2 vectors] of b, packed      for 256 rows of c
 *                  |   |                                for each panel of columns
 *   a  ---- 4 x  [ c   c ]   accumulators                 for each block of 256 terms
 *                            in registers                   pack, then tiles of 4 rows
 *
 * A vector runs along the columns, so every lane is one output element and adds its terms in order:
 * the width of the vectors, the tile and the share of a thread change no bit.
 */
#include <string.h>

#include "tensor/ref/ref.h"

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif

typedef real vector __attribute__((vector_size(VECTOR_BYTES), may_alias));

enum {
    LANES = VECTOR_BYTES / sizeof(real),
    PANEL = 2 * LANES, /* columns of a panel */
    CHUNK = 256        /* rows that share a packed panel */
};

/* One row of a tile: sums [PANEL] += the block's sum from zero, or carries the chain on. */
static inline void tile_1(vector *sums, const real *a, int64_t a_red, const vector *b, int64_t red,
                          bool chain)
{
    vector c0 = chain ? sums[0] : (vector){ 0 };
    vector c1 = chain ? sums[1] : (vector){ 0 };

    for (int64_t r = 0; r < red; r++) {
        c0 += a[r * a_red] * b[2 * r];
        c1 += a[r * a_red] * b[2 * r + 1];
    }
    if (!chain) {
        c0 += sums[0];
        c1 += sums[1];
    }
    sums[0] = c0;
    sums[1] = c1;
}

/* Four rows; the accumulators have names because gcc keeps an array of them in memory. */
static inline void tile_4(vector *sums, const real *a, int64_t a_row, int64_t a_red,
                          const vector *b, int64_t red, bool chain)
{
    const vector zero = { 0 };
    vector c00 = chain ? sums[0] : zero, c01 = chain ? sums[1] : zero;
    vector c10 = chain ? sums[2] : zero, c11 = chain ? sums[3] : zero;
    vector c20 = chain ? sums[4] : zero, c21 = chain ? sums[5] : zero;
    vector c30 = chain ? sums[6] : zero, c31 = chain ? sums[7] : zero;
    const real *a0 = a, *a1 = a + a_row, *a2 = a + 2 * a_row, *a3 = a + 3 * a_row;

    for (int64_t r = 0; r < red; r++) {
        vector b0 = b[2 * r], b1 = b[2 * r + 1];
        int64_t at = r * a_red;

        c00 += a0[at] * b0;
        c01 += a0[at] * b1;
        c10 += a1[at] * b0;
        c11 += a1[at] * b1;
        c20 += a2[at] * b0;
        c21 += a2[at] * b1;
        c30 += a3[at] * b0;
        c31 += a3[at] * b1;
    }
    if (!chain) {
        c00 += sums[0];
        c01 += sums[1];
        c10 += sums[2];
        c11 += sums[3];
        c20 += sums[4];
        c21 += sums[5];
        c30 += sums[6];
        c31 += sums[7];
    }
    sums[0] = c00;
    sums[1] = c01;
    sums[2] = c10;
    sums[3] = c11;
    sums[4] = c20;
    sums[5] = c21;
    sums[6] = c30;
    sums[7] = c31;
}

/* panel [red, PANEL] = b(0 .. red, 0 .. cols), zeros in the columns beyond. */
static void pack(real *panel, const real *b, int64_t b_red, int64_t b_col, int64_t red,
                 int64_t cols)
{
    enum { STRIP = 16 };

    if (cols == PANEL && b_col == 1) {
        for (int64_t r = 0; r < red; r++) {
            memcpy(panel + r * PANEL, b + r * b_red, PANEL * sizeof(real));
        }
        return;
    }
    if (cols < PANEL) {
        memset(panel, 0, (size_t)red * PANEL * sizeof(real));
    }
    for (int64_t from = 0; from < red; from += STRIP) {
        int64_t to = from + STRIP < red ? from + STRIP : red;

        for (int64_t j = 0; j < cols; j++) {
            for (int64_t r = from; r < to; r++) {
                panel[r * PANEL + j] = b[r * b_red + j * b_col];
            }
        }
    }
}

static void load_sums(real *sums, const real *c, int64_t ldc, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            sums[i * PANEL + j] = c[i * ldc + j];
        }
    }
}

static void store_sums(const struct product *p, real *c, const real *sums, int64_t rows,
                       int64_t cols)
{
    for (int64_t i = 0; i < rows; i++) {
        const real *from = sums + i * PANEL;
        real *to = c + i * p->ldc;

        if (p->add) {
            for (int64_t j = 0; j < cols; j++) {
                to[j] += p->scale * from[j];
            }
        } else {
            for (int64_t j = 0; j < cols; j++) {
                to[j] = p->scale * from[j];
            }
        }
    }
}

static void tiles(const struct product *p, vector *sums, const real *a, const vector *panel,
                  int64_t rows, int64_t red)
{
    int64_t i = 0;

    for (; i + PRODUCT_ROWS <= rows; i += PRODUCT_ROWS) {
        tile_4(sums + 2 * i, a + i * p->a_row, p->a_row, p->a_red, panel, red, p->chain);
    }
    for (; i < rows; i++) {
        tile_1(sums + 2 * i, a + i * p->a_row, p->a_red, panel, red, p->chain);
    }
}

/* At most CHUNK rows and PANEL columns of c. */
static void product_panel(const struct product *p, int64_t row, int64_t rows, int64_t col,
                          int64_t cols)
{
    _Alignas(64) real panel[PRODUCT_BLOCK * PANEL];
    _Alignas(64) real sums[CHUNK * PANEL];
    real *c = p->c + row * p->ldc + col;

    memset(sums, 0, (size_t)rows * PANEL * sizeof(real));
    if (p->resume) {
        load_sums(sums, c, p->ldc, rows, cols);
    }
    for (int64_t r = 0; r < p->red; r += PRODUCT_BLOCK) {
        int64_t red = p->red - r < PRODUCT_BLOCK ? p->red - r : PRODUCT_BLOCK;

        pack(panel, p->b + r * p->b_red + col * p->b_col, p->b_red, p->b_col, red, cols);
        tiles(p, (vector *)sums, p->a + row * p->a_row + r * p->a_red, (const vector *)panel, rows,
              red);
    }
    store_sums(p, c, sums, rows, cols);
}

void NAME(product)(const struct product *p)
{
    for (int64_t row = 0; row < p->rows; row += CHUNK) {
        int64_t rows = p->rows - row < CHUNK ? p->rows - row : CHUNK;

        for (int64_t col = 0; col < p->cols; col += PANEL) {
            int64_t cols = p->cols - col < PANEL ? p->cols - col : PANEL;

            product_panel(p, row, rows, col, cols);
        }
    }
}

void NAME(product_share)(const struct product *p, struct team t)
{
    struct product own = *p;
    bool by_rows = p->rows >= 16 * PRODUCT_ROWS * t.threads;
    int64_t unit = by_rows ? PRODUCT_ROWS : PANEL, n = by_rows ? p->rows : p->cols, from, to;

    team_share(t, (n + unit - 1) / unit, &from, &to);
    from *= unit;
    to = to * unit < n ? to * unit : n;
    if (by_rows) {
        own.a += from * p->a_row;
        own.c += from * p->ldc;
        own.rows = to - from;
    } else {
        own.b += from * p->b_col;
        own.c += from;
        own.cols = to - from;
    }
    NAME(product)(&own);
}
