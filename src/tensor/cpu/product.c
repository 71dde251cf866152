/*
 * The product that linear, attention and the head are made of.
 *
 *                 panel [terms, 1..TILE_VECS vectors] of b, packed
 *                   |   |   |                               for CHUNK rows by WIDE columns of c
 *   a  ---- rows  [ c   c   c ]   accumulators                for each block of PRODUCT_BLOCK terms
 *   (staged where   in registers                                stage a; for each panel of columns
 *    it is bf16)                                                  pack; tiles of TILE_ROWS rows
 *
 * A vector runs along the columns, so every lane is one output element and adds its terms in order:
 * tile, panel and the share of a thread change no bit. Without bf16 products both factors are
 * widened to floats as they are packed; with them a term is a pair of neighbours, in both factors.
 */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/transpose.h"

enum {
    TILE_ROWS = LANES == 16  ? 8
                : LANES == 8 ? 6
                             : 4,
    TILE_VECS = LANES == 16 ? 3 : 2,
    PANEL = TILE_VECS * LANES,
    CHUNK = 48 * TILE_ROWS,                     /* rows that share a packed panel */
    WIDE = LANES == 16 ? 8 * PANEL : 16 * PANEL /* columns that share a staged block of a */
};

/* ---- terms ---- */

#if defined(ROUX_PAIRS_avx512_bf16) || defined(ROUX_PAIRS_avx512_bf16_emulated)
#define PAIRS 1
#include "tensor/cpu/pairs.h"
#else
#define PAIRS 0
enum { PAIR = 1 }; /* terms of the sum in one */

typedef float term;
typedef float term_at __attribute__((may_alias));

static inline vec term_add(vec c, term a, vec b)
{
    return c + a * b;
}

/* Two rows of a factor as one of terms; here the second is always empty. */
static inline uvec terms_of(vec even, vec odd, bool wide)
{
    (void)odd;
    (void)wide;
    return (uvec)even;
}
#endif

/* ---- the tile ---- */

struct row {
    vec c0, c1, c2;
};

/* What becomes of the sum of a block: it is stored, added to what stands there, or it went on from
 * there. */
enum ending { STORE, ADD, CHAIN };

/* The accumulators have names because gcc keeps an array of them in memory. */
static inline __attribute__((always_inline)) void row_add(struct row *r, term a, vec b0, vec b1,
                                                          vec b2, int vecs)
{
    r->c0 = term_add(r->c0, a, b0);
    if (vecs > 1) {
        r->c1 = term_add(r->c1, a, b1);
    }
    if (vecs > 2) {
        r->c2 = term_add(r->c2, a, b2);
    }
}

static inline __attribute__((always_inline)) struct row row_begin(const float *c, int vecs,
                                                                  enum ending how)
{
    struct row r = { vec_of(0), vec_of(0), vec_of(0) };

    if (how == CHAIN) {
        r.c0 = vec_load(c);
        r.c1 = vecs > 1 ? vec_load(c + LANES) : r.c1;
        r.c2 = vecs > 2 ? vec_load(c + 2 * LANES) : r.c2;
    }
    return r;
}

static inline __attribute__((always_inline)) void vec_end(float *c, vec sum, enum ending how)
{
    vec_store(c, how == ADD ? vec_load(c) + sum : sum);
}

static inline __attribute__((always_inline)) void row_end(float *c, const struct row *r, int vecs,
                                                          enum ending how)
{
    vec_end(c, r->c0, how);
    if (vecs > 1) {
        vec_end(c + LANES, r->c1, how);
    }
    if (vecs > 2) {
        vec_end(c + 2 * LANES, r->c2, how);
    }
}

/* Terms of a row of a: `out` apart from row to row, `red` from term to term. */
struct staged {
    const term_at *at;
    int64_t out, red;
};

/* Fewer rows than a tile: the last one is computed several times over. */
static inline __attribute__((always_inline)) int64_t row_of(int64_t i, int64_t rows)
{
    return i < rows ? i : rows - 1;
}

static inline __attribute__((always_inline)) void tile_of(float *c, int64_t ldc,
                                                          const struct staged *a, const term *b,
                                                          int64_t terms, int64_t rows, int vecs,
                                                          enum ending how)
{
    const term_at *a0 = a->at, *a1 = a0 + row_of(1, rows) * a->out,
                  *a2 = a0 + row_of(2, rows) * a->out, *a3 = a0 + row_of(3, rows) * a->out,
                  *a4 = a0 + row_of(4, rows) * a->out, *a5 = a0 + row_of(5, rows) * a->out,
                  *a6 = a0 + row_of(6, rows) * a->out, *a7 = a0 + row_of(7, rows) * a->out;
    float *c1 = c + row_of(1, rows) * ldc, *c2 = c + row_of(2, rows) * ldc,
          *c3 = c + row_of(3, rows) * ldc, *c4 = c + row_of(4, rows) * ldc,
          *c5 = c + row_of(5, rows) * ldc, *c6 = c + row_of(6, rows) * ldc,
          *c7 = c + row_of(7, rows) * ldc;
    struct row r0 = row_begin(c, vecs, how), r1 = row_begin(c1, vecs, how),
               r2 = row_begin(c2, vecs, how), r3 = row_begin(c3, vecs, how),
               r4 = row_begin(c4, vecs, how), r5 = row_begin(c5, vecs, how),
               r6 = row_begin(c6, vecs, how), r7 = row_begin(c7, vecs, how);

    for (int64_t r = 0, at = 0; r < terms; r++, at += a->red) {
        vec b0 = vec_load((const float *)b), b1 = b0, b2 = b0;

        if (vecs > 1) {
            b1 = vec_load((const float *)b + LANES);
        }
        if (vecs > 2) {
            b2 = vec_load((const float *)b + 2 * LANES);
        }
        b += vecs * LANES;
        row_add(&r0, a0[at], b0, b1, b2, vecs);
        row_add(&r1, a1[at], b0, b1, b2, vecs);
        row_add(&r2, a2[at], b0, b1, b2, vecs);
        row_add(&r3, a3[at], b0, b1, b2, vecs);
        if (TILE_ROWS > 4) {
            row_add(&r4, a4[at], b0, b1, b2, vecs);
            row_add(&r5, a5[at], b0, b1, b2, vecs);
        }
        if (TILE_ROWS > 6) {
            row_add(&r6, a6[at], b0, b1, b2, vecs);
            row_add(&r7, a7[at], b0, b1, b2, vecs);
        }
    }
    row_end(c, &r0, vecs, how);
    if (rows > 1) {
        row_end(c1, &r1, vecs, how);
    }
    if (rows > 2) {
        row_end(c2, &r2, vecs, how);
    }
    if (rows > 3) {
        row_end(c3, &r3, vecs, how);
    }
    if (TILE_ROWS > 4 && rows > 4) {
        row_end(c4, &r4, vecs, how);
    }
    if (TILE_ROWS > 4 && rows > 5) {
        row_end(c5, &r5, vecs, how);
    }
    if (TILE_ROWS > 6 && rows > 6) {
        row_end(c6, &r6, vecs, how);
    }
    if (TILE_ROWS > 6 && rows > 7) {
        row_end(c7, &r7, vecs, how);
    }
}

/* One row alone, for products of few rows. */
static inline __attribute__((always_inline)) void tile_1(float *c, const struct staged *a,
                                                         const term *b, int64_t terms, int vecs,
                                                         enum ending how)
{
    struct row r = row_begin(c, vecs, how);

    for (int64_t t = 0; t < terms; t++) {
        const float *at = (const float *)b + t * vecs * LANES;

        row_add(&r, a->at[t * a->red], vec_load(at), vec_load(at + (vecs > 1 ? LANES : 0)),
                vec_load(at + (vecs > 2 ? 2 * LANES : 0)), vecs);
    }
    row_end(c, &r, vecs, how);
}

static inline __attribute__((always_inline)) void tile_rows(float *c, int64_t ldc,
                                                            const struct staged *a, const term *b,
                                                            int64_t terms, int64_t rows, int vecs,
                                                            enum ending how)
{
    if (rows == 1) {
        tile_1(c, a, b, terms, vecs, how);
    } else {
        tile_of(c, ldc, a, b, terms, rows, vecs, how);
    }
}

static void tile(float *c, int64_t ldc, const struct staged *a, const term *b, int64_t terms,
                 int64_t rows, int vecs, enum ending how)
{
    if (vecs == 1) {
        tile_rows(c, ldc, a, b, terms, rows, 1, how);
    } else if (vecs == 2) {
        tile_rows(c, ldc, a, b, terms, rows, 2, how);
    } else {
        tile_rows(c, ldc, a, b, terms, rows, 3, how);
    }
}

/* ---- packing ---- */

static inline vec load_some(const struct factor *f, int64_t at, int64_t n)
{
    if (f->wide) {
        const float *x = (const float *)f->at + at;

        return n >= LANES ? vec_load(x) : vec_load_some(x, n);
    } else {
        const elem *x = (const elem *)f->at + at;

        return n >= LANES ? elem_load(x) : elem_load_some(x, n);
    }
}

static inline __attribute__((always_inline)) vec load_whole(const void *from, int64_t at, bool wide)
{
    return wide ? vec_load((const float *)from + at) : elem_load((const elem *)from + at);
}

/* to [terms, ld]: whole vectors of neighbours, the last term perhaps of one row alone. */
static inline __attribute__((always_inline)) void pack_vectors(term *to, int64_t ld,
                                                               const struct factor *f, int64_t at,
                                                               int64_t outs, int64_t reds,
                                                               bool wide)
{
    for (int64_t r = 0; r < reds; r += PAIR, to += ld, at += PAIR * f->red) {
        int64_t odd = PAIR == 2 && r + 1 < reds ? at + f->red : -1;

        for (int64_t i = 0; i < outs; i += LANES) {
            vec second = odd < 0 ? vec_of(0) : load_whole(f->at, odd + i, wide);

            *(uvec_at *)(to + i) = terms_of(load_whole(f->at, at + i, wide), second, wide);
        }
    }
}

/* to [terms, ld]: `outs` neighbours of a factor with out = 1, zeros up to a whole vector. */
static void pack_across(term *to, int64_t ld, const struct factor *f, int64_t out, int64_t outs,
                        int64_t red, int64_t reds)
{
    int64_t whole = outs / LANES * LANES, at = red * f->red + out;

    if (f->wide) {
        pack_vectors(to, ld, f, at, whole, reds, true);
    } else {
        pack_vectors(to, ld, f, at, whole, reds, false);
    }
    for (int64_t r = 0; whole < outs && r < reds; r += PAIR, at += PAIR * f->red) {
        vec even = load_some(f, at + whole, outs - whole), odd = vec_of(0);

        if (PAIR == 2 && r + 1 < reds) {
            odd = load_some(f, at + f->red + whole, outs - whole);
        }
        *(uvec_at *)(to + r / PAIR * ld + whole) = terms_of(even, odd, f->wide);
    }
}

/* LANES terms of one row of a factor with red = 1, from its element `red` of `reds` on. */
static inline uvec terms_along(const struct factor *f, int64_t out, int64_t red, int64_t reds)
{
    int64_t at = out * f->out + red;
#if PAIRS
    uint16_t rounded[2 * LANES];

    if (!f->wide) {
        return terms_at((const elem *)f->at + at, reds);
    }
    *(hvec_at *)rounded = vec_narrow(load_some(f, at, reds));
    *(hvec_at *)(rounded + LANES) =
        vec_narrow(reds > LANES ? load_some(f, at + LANES, reds - LANES) : vec_of(0));
    return terms_at(rounded, 2 * LANES);
#else
    return (uvec)load_some(f, at, reds);
#endif
}

/* to [outs, ld]: rows of a factor with red = 1. */
static void pack_rows(term *to, int64_t ld, const struct factor *f, int64_t out, int64_t outs,
                      int64_t red, int64_t reds)
{
    int64_t terms = (reds + PAIR - 1) / PAIR;

    for (int64_t i = 0; i < outs; i++, to += ld) {
        for (int64_t t = 0; t < terms; t += LANES) {
            uvec x = terms_along(f, out + i, red + t * PAIR, reds - t * PAIR);

            if (terms - t >= LANES) {
                *(uvec_at *)(to + t) = x;
            } else {
                memcpy(to + t, &x, (size_t)(terms - t) * sizeof *to);
            }
        }
    }
}

/* to [terms, ld]: `outs` rows of a factor with red = 1, turned; zeros up to a whole vector. */
static void pack_turned(term *to, int64_t ld, const struct factor *f, int64_t out, int64_t outs,
                        int64_t red, int64_t reds)
{
    int64_t terms = (reds + PAIR - 1) / PAIR;

    for (int64_t t = 0; t < terms; t += LANES) {
        for (int64_t j = 0; j < outs; j += LANES) {
            uvec x[LANES];

            for (int i = 0; i < LANES; i++) {
                x[i] = j + i < outs ? terms_along(f, out + j + i, red + t * PAIR, reds - t * PAIR)
                                    : (uvec)vec_of(0);
            }
            transpose(x);
            for (int i = 0; i < LANES && t + i < terms; i++) {
                *(uvec_at *)(to + (t + i) * ld + j) = x[i];
            }
        }
    }
}

static void panel_pack(term *to, int64_t ld, const struct factor *f, int64_t out, int64_t outs,
                       int64_t red, int64_t reds)
{
    if (f->out == 1) {
        pack_across(to, ld, f, out, outs, red, reds);
    } else {
        pack_turned(to, ld, f, out, outs, red, reds);
    }
}

/* Whether a tile can read the rows of a where they lie: as terms, and not so far apart that every
 * one of them begins in a page and a cache set of its own. */
static bool lies_ready(const struct factor *f, int64_t red)
{
    bool terms = PAIR == 1 ? f->wide || ELEM_WIDE : !f->wide && red % 2 == 0 && f->out % 2 == 0;

    return f->red == 1 && terms && f->out <= 4 * red;
}

static struct staged stage(term *to, const struct factor *f, int64_t out, int64_t outs, int64_t red,
                           int64_t reds)
{
    size_t width = f->wide ? sizeof(float) : sizeof(elem);
    int64_t ld;

    if (lies_ready(f, reds)) {
        const char *at = (const char *)f->at + (size_t)(out * f->out + red) * width;

        return (struct staged){ (const term_at *)(const void *)at, f->out / PAIR, 1 };
    }
    if (f->out == 1) {
        ld = (outs + LANES - 1) / LANES * LANES;
        pack_across(to, ld, f, out, outs, red, reds);
        return (struct staged){ to, 1, ld };
    }
    ld = (reds + PAIR - 1) / PAIR;
    pack_rows(to, ld, f, out, outs, red, reds);
    return (struct staged){ to, ld, 1 };
}

/* ---- blocks ---- */

struct scratch {
    term *panel, *stage;
    float *sums;
};

static int64_t block_of(int64_t red)
{
    return red < PRODUCT_BLOCK ? red : PRODUCT_BLOCK;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Floats of each part: [panel][stage][sums of a chunk; of one tile where there is one block of
 * terms]. Loads and stores of whole vectors may pass the end of a row. */
struct sizes {
    size_t panel, stage, sums;
};

static struct sizes sizes_of(int64_t rows, int64_t red)
{
    size_t terms = (size_t)(block_of(red) + LANES),
           chunk = (size_t)(least(rows, CHUNK) + 2 * LANES);

    return (struct sizes){ terms * PANEL, terms * chunk,
                           red > PRODUCT_BLOCK ? chunk * WIDE : TILE_ROWS * PANEL };
}

size_t NAME(product_scratch)(int64_t rows, int64_t red)
{
    struct sizes s = sizes_of(rows, red);

    return ((s.panel + s.stage + s.sums) * sizeof(float) + 63) / 64 * 64;
}

static struct scratch scratch_of(const struct product *p)
{
    struct sizes n = sizes_of(p->rows, p->red);
    struct scratch s = { .panel = p->scratch };

    s.stage = s.panel + n.panel;
    s.sums = (float *)(s.stage + n.stage);
    return s;
}

/* The next panel of n columns: all vectors spread evenly over the fewest panels. */
static int panel_vecs(int64_t n)
{
    int64_t vecs = (n + LANES - 1) / LANES, panels = (vecs + TILE_VECS - 1) / TILE_VECS;

    return (int)((vecs + panels - 1) / panels);
}

static inline void store_some(const struct product *p, int64_t at, vec x, int64_t n)
{
    if (p->wide && n >= LANES) {
        vec_store((float *)p->c + at, x);
    } else if (p->wide) {
        vec_store_some((float *)p->c + at, x, n);
    } else if (n >= LANES) {
        elem_store((elem *)p->c + at, x);
    } else {
        elem_store_some((elem *)p->c + at, x, n);
    }
}

/* The finished sums of rows by cols to their place. */
static void finish(const struct product *p, const float *sums, int64_t ld, int64_t row,
                   int64_t rows, int64_t col, int64_t cols)
{
    struct factor c = { p->c, 0, 1, p->wide };

    for (int64_t i = 0; i < rows; i++, sums += ld) {
        int64_t at = (row + i) * p->ldc + col, j = 0;

        for (; !p->add && !p->wide && j + LANES <= cols; j += LANES) {
            elem_store((elem *)p->c + at + j, vec_load(sums + j) * p->scale);
        }
        for (; j < cols; j += LANES) {
            vec x = vec_load(sums + j) * p->scale;

            store_some(p, at + j, p->add ? x + load_some(&c, at + j, cols - j) : x, cols - j);
        }
    }
}

/* c itself holds the sums of whole panels of floats; others lie in the scratch until the last
 * block. */
static bool sums_in_place(const struct product *p, int64_t cols, int vecs)
{
    return p->wide && p->scale == 1 && cols == vecs * LANES &&
           !(p->add && p->chain && p->red > PRODUCT_BLOCK);
}

static enum ending ending_of(const struct product *p, int64_t red, bool in_place)
{
    bool begins = red == 0 && !p->resume;

    if (in_place && p->add) {
        return ADD;
    }
    return begins ? STORE : p->chain ? CHAIN : ADD;
}

struct panel {
    int64_t row, rows, col, cols, red, reds, base;
    int vecs;
};

/* One block of terms of one panel of columns. */
static void panel_tiles(const struct product *p, const struct scratch *s, const struct staged *a,
                        const struct panel *q)
{
    bool in_place = sums_in_place(p, q->cols, q->vecs), last = q->red + q->reds == p->red;
    enum ending how = ending_of(p, q->red, in_place);
    bool kept = p->red > PRODUCT_BLOCK;
    int64_t terms = (q->reds + PAIR - 1) / PAIR;
    struct factor c = { p->c, 0, 1, true };

    for (int64_t i = 0; i < q->rows; i += TILE_ROWS) {
        int64_t rows = q->rows - i < TILE_ROWS ? q->rows - i : TILE_ROWS;
        struct staged own = { a->at + i * a->out, a->out, a->red };
        float *sums = kept ? s->sums + i * WIDE + q->base : s->sums;
        int64_t ld = kept ? WIDE : PANEL;

        if (in_place) {
            tile((float *)p->c + (q->row + i) * p->ldc + q->col, p->ldc, &own, s->panel, terms,
                 rows, q->vecs, how);
            continue;
        }
        if (q->red == 0 && p->resume) {
            for (int64_t k = 0; k < rows; k++) {
                for (int64_t j = 0; j < q->cols; j += LANES) {
                    vec_store(sums + k * ld + j,
                              load_some(&c, (q->row + i + k) * p->ldc + q->col + j, q->cols - j));
                }
            }
        }
        tile(sums, ld, &own, s->panel, terms, rows, q->vecs, how);
        if (last) {
            finish(p, sums, ld, q->row + i, rows, q->col, q->cols);
        }
    }
}

/* At most CHUNK rows and WIDE columns. */
static void product_block(const struct product *p, const struct scratch *s, int64_t row,
                          int64_t rows, int64_t col, int64_t cols)
{
    for (int64_t red = 0; red < p->red; red += PRODUCT_BLOCK) {
        struct panel q = { .row = row, .rows = rows, .red = red };
        struct staged a;

        q.reds = p->red - red < PRODUCT_BLOCK ? p->red - red : PRODUCT_BLOCK;
        a = stage(s->stage, &p->a, row, rows, red, q.reds);
        for (int64_t at = 0; at < cols; at += q.cols) {
            q.vecs = panel_vecs(cols - at);
            q.cols = cols - at < q.vecs * LANES ? cols - at : q.vecs * LANES;
            q.col = col + at;
            q.base = at;
            panel_pack(s->panel, q.vecs * LANES, &p->b, q.col, q.cols, red, q.reds);
            panel_tiles(p, s, &a, &q);
        }
    }
}

void NAME(product)(const struct product *p)
{
    struct scratch s = scratch_of(p);

    for (int64_t row = 0; row < p->rows; row += CHUNK) {
        int64_t rows = p->rows - row < CHUNK ? p->rows - row : CHUNK;

        for (int64_t col = 0; col < p->cols; col += WIDE) {
            product_block(p, &s, row, rows, col, p->cols - col < WIDE ? p->cols - col : WIDE);
        }
    }
}

/* ---- shares ---- */

static int64_t units_of(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit;
}

/* What one of `parts` of the columns by one of `others` of the rows takes: its elements, and what is
 * packed for each block of them (an element packed costs about as much as PACKING of the product). */
static int64_t part_cost(const struct product *p, int parts, int others)
{
    enum { PACKING = 8 };
    int64_t rows = units_of(units_of(p->rows, TILE_ROWS), others) * TILE_ROWS,
            cols = units_of(units_of(p->cols, LANES), parts) * LANES;
    int64_t stages = lies_ready(&p->a, block_of(p->red)) ? 0 : units_of(cols, WIDE);

    return rows * cols + PACKING * (rows * stages + cols * units_of(rows, CHUNK));
}

/* Over how many of the threads the columns are split, the rows over the others. */
static int column_parts(const struct product *p, int threads)
{
    int best = 1;

    for (int parts = 2; parts <= threads; parts++) {
        if (threads % parts == 0 &&
            part_cost(p, parts, threads / parts) < part_cost(p, best, threads / best)) {
            best = parts;
        }
    }
    return best;
}

/* Part `index` of `parts` of n, in whole units. */
static void part_of(int64_t n, int64_t unit, int index, int parts, int64_t *from, int64_t *to)
{
    team_share((struct team){ index, parts }, units_of(n, unit), from, to);
    *from = *from * unit;
    *to = *to * unit < n ? *to * unit : n;
}

void NAME(product_share)(const struct product *p, struct team t)
{
    int columns = column_parts(p, t.threads), rows = t.threads / columns;
    struct product own = *p;
    int64_t row, row_end, col, col_end;
    size_t a_width = p->a.wide ? sizeof(float) : sizeof(elem),
           b_width = p->b.wide ? sizeof(float) : sizeof(elem),
           c_width = p->wide ? sizeof(float) : sizeof(elem);

    part_of(p->rows, TILE_ROWS, t.thread / columns, rows, &row, &row_end);
    part_of(p->cols, LANES, t.thread % columns, columns, &col, &col_end);
    own.a.at = (const char *)p->a.at + (size_t)(row * p->a.out) * a_width;
    own.b.at = (const char *)p->b.at + (size_t)(col * p->b.out) * b_width;
    own.c = (char *)p->c + (size_t)(row * p->ldc + col) * c_width;
    own.rows = row_end - row;
    own.cols = col_end - col;
    own.scratch = (char *)p->scratch + (size_t)t.thread * NAME(product_scratch)(p->rows, p->red);
    NAME(product)(&own);
}
