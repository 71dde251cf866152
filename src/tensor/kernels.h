/*
 * The kernels: what each computes, on which bytes, in which order.
 *
 * A kernel family is a table of functions (struct kernels). The reference family is plain C,
 * compiled for float and for double (ref/); fast ones are vector code for float and bf16 (cpu/). A
 * kernel takes one struct of pointers and sizes and a team; each thread of the team calls it with the same struct
 * and computes its share. Kernels test nothing (the plan did), allocate nothing, and synchronise
 * nothing: whatever one thread reads, no other thread of the same call writes. Scratch is aligned
 * to 64 bytes and holds nothing before and after a call; its size may be 0, and a size asked for B
 * and S is enough for fewer, too.
 *
 * Letters: B sequences, S positions of a sequence, T = B*S rows, D width, H query heads, G
 * key/value heads, d head width, F feed-forward width, V vocabulary, K inner and N outer extent of
 * a product. Everything is row-major; ld* are distances between rows, in elements.
 *
 * Two number types a table: `real`, in which activations, their gradients and the weights that
 * kernels multiply with are stored (double, float or bf16), and `sum`, in which everything is added
 * and in which gradients of weights, rstd, lse, angles, logits, master weights and moments are kept
 * (double with double, else float). A bf16 kernel computes in float what it loaded, and rounds once
 * where it stores; only the operands of a product may be rounded to bf16 on the way (families with
 * bf16 products).
 *
 * Determinism: every output element is computed whole by one thread, in an order that depends on
 * the sizes alone. So the number of threads never changes a bit, and a row's result never depends
 * on its neighbours. (Where a sum skips rows by multiplying with zero, attention's hidden keys and
 * the head's positions without a target, neighbours must be finite.)
 *
 * The row tree. Gradients of weights are sums over rows: first over the positions of each sequence,
 * in order; then over the B = o * 2^k sequences (o odd): of each residue r mod 2^k, the o sequences
 * r, r + 2^k, r + 2*2^k, ... are added in that order; then r and r + 2^(k-1) are added for each r <
 * 2^(k-1), and so on down to one sum, which is added to what the gradient holds. The gradient of B
 * sequences is therefore, bit for bit, this tree over B calls of one sequence, and ranks that hold
 * every D-th sequence can finish it between them (comm/comm.h). See tensor/row_tree.h.
 */
#ifndef ROUX_TENSOR_KERNELS_H
#define ROUX_TENSOR_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/dtype.h"
#include "base/status.h"

struct team {
    int thread, threads;
};

/* This thread's part [from, to) of n items: contiguous, sizes differ by at most one. */
static inline void team_share(struct team t, int64_t n, int64_t *from, int64_t *to)
{
    *from = n * t.thread / t.threads;
    *to = n * (t.thread + 1) / t.threads;
}

/*
 * Products with a weight w [N, K] (Hugging Face's [out, in]); rows are B sequences of S.
 *
 *   forward   y [T, N, ldy]  = scale * x [T, K, ldx] w^T           (add: y += ...)
 *   dx        dx [T, K, lddx] = scale * dy [T, N, lddy] w          (add: dx += ...)
 *   dw        dw [N, K] (sum) += scale * row tree of dy^T x
 *
 * `scale` is the epilogue's: applied once to the finished sum (FP8 uses it). `scratch`:
 * linear_scratch bytes for all threads, for each of the three.
 */
struct linear_args {
    const void *x, *w, *dy;
    void *y, *dx, *dw, *scratch;
    int64_t B, S, K, N;
    int64_t ldx, ldy, lddx, lddy;
    double scale;
    bool add;
};

/*
 * bias: y [T, N, ldy] = x [T, N, ldx] + b [N]      y may be x
 *   dw: db [N] (sum) += row tree of dy [T, N, lddy]
 */
struct bias_args {
    const void *x, *b, *dy;
    void *y, *db, *scratch;
    int64_t B, S, N;
    int64_t ldx, ldy, lddy;
};

/*
 * Embedding of a vocabulary slice [first, first + rows) of the whole: w [rows, D].
 *
 *   forward   y [T, D]: row ids[t] - first of w; zeros where the id lies outside the slice
 *   dw        dw [rows, D] (sum) += row tree of dy [T, D] by id; id `pad` (-1: none) gets nothing
 */
struct embed_args {
    const int32_t *ids; /* [T] */
    const void *w, *dy;
    void *y, *dw, *scratch;
    int64_t B, S, D, rows, first, pad;
};

/*
 * y [T, D] = x / rms(x) * w, rms(x) = sqrt(mean(x^2) + eps); rstd [T] (sum) = 1 / rms, kept for the
 * derivative. y may be x. Source: Zhang and Sennrich 2019, eq. 4; eps inside the root, as Llama has
 * it.
 *
 *   dx [T, D] = rstd * (w dy - x * rstd^2 * mean(w dy x))     dx may be dy
 *   dw [D] (sum) += row tree of dy * x * rstd
 *
 * Per head: x is [T, heads, D] with the row distance ld*, rstd [T, heads]; the gain is shared, and
 * a sequence's sum runs over positions and heads. heads = 0 means one, ld* = 0 means heads * D.
 */
struct rmsnorm_args {
    const void *x, *w, *dy;
    void *y, *rstd, *dx, *dw, *scratch;
    int64_t B, S, D;
    int64_t heads, ldx, ldy, lddy, lddx;
    double eps;
};

/*
 * Angles: out [T, d] (sum): for p < d/2, out[t][p] = cos(position[t] * inv_freq[p]), out[t][d/2 + p] =
 * sin(...); the angle in double, the result rounded once.
 */
struct rope_angles_args {
    const int32_t *positions; /* [T] */
    const double *inv_freq;   /* [d/2] */
    void *out;
    int64_t T, d;
};

/*
 * Rotates the first `heads` heads of each row of x [T, width, ld = width], copies the rest of the
 * row. y may be x. Half-split: y[p] = x[p] cos - x[p + d/2] sin, y[p + d/2] = x[p + d/2] cos + x[p]
 * sin; `inverse` turns back (the derivative). Source: Su et al. 2021, in the layout of Hugging
 * Face's Llama.
 */
struct rope_args {
    const void *x, *angles; /* angles [T, d] */
    void *y;
    int64_t T, width, heads, d;
    bool inverse;
};

/*
 * Causal attention with grouped heads: query head h uses key/value head h / (H / G).
 *
 *   q [T, H, d], k and v [T, G, d], each with its own row distance; o [T, H, d] with ldo
 *   position i of a sequence attends to j with  max(start[i], i - window + 1) <= j <= i   (window 0: no limit)
 *   o = sum_j softmax_j(scale * q.k_j) v_j; lse [B, H, S] (sum) = log of the softmax's denominator, kept for the derivative
 *
 * starts [T]: the first position (within its sequence) of the document that position i belongs to;
 * NULL: all zero. Derivative from q, k, v, o, lse and do (dout); dq, dk, dv are written (not added
 * to); do and they have their own row distances. scratch: attention_scratch bytes for all threads. Source: Vaswani
 * et al. 2017; the derivative through lse and sum(do * o): Dao et al. 2022, section B.4.
 */
struct attention_args {
    const void *q, *k, *v, *dout;
    const int32_t *starts;
    void *o, *lse, *dq, *dk, *dv, *scratch;
    int64_t B, S, H, G, d, window;
    int64_t ldq, ldk, ldv, ldo, lddq, lddk, lddv, lddo;
    double scale;
};

/*
 * h [T, 2F] = gate | up.  y [T, F] = silu(gate) * up;  dh [T, 2F] from dy [T, F]; dh may be h.
 * Source: Shazeer 2020; exact for gates of any size (no overflow).
 */
struct swiglu_args {
    const void *h, *dy;
    void *y, *dh;
    int64_t T, F;
};

/* y = a + b, `count` elements; y may be either. add: of type real; add_sums: of type sum. */
struct add_args {
    const void *a, *b;
    void *y;
    int64_t count;
};

/*
 * Head and cross-entropy over a vocabulary slice: logits [T, rows] = x [T, D] w [rows, D]^T never
 * exist whole, only in chunks of `chunk` rows a thread. Ids of the slice are first .. first + rows
 * - 1; only the leading `valid` rows of w are real words (the rest pads the split vocabulary and
 * never enters a softmax). targets [T]: the id scored at this position, or -1 for none (labels are
 * shifted and -100 is mapped by the caller).
 *
 *   stats     stats [T, 3] double: the largest logit of the slice, sum of exp(logit - largest), the target's logit (0 if
 *             it lies in another slice)
 *   merge     from stats of `slices` slices [slices, T, 3], in order: lse [T] double and loss [B] double: the sum over
 *             the sequence's positions, in order, of lse - target logit where there is a target
 *   backward  from lse: per position p = exp(logit - lse) - [target]; dx [T, D] = p w (this slice's part),
 *             dw [rows, D] (sum) += row tree of p^T x. Positions without a target contribute nothing, exactly.
 *   learn     lse, loss and backward of a single slice in one pass over the logits; `stats` is not written
 *   logits    logits [T, valid] (sum) with ldl
 *
 * A team shares `scratch` (head_scratch bytes for any of the four, enough also for fewer rows;
 * merge uses none). backward and learn form dw, so they are called in steps with a barrier between:
 * see struct kernels. Either of dx and dw may be NULL: it is not wanted. The
 * scratch holds p of all rows for as many words as `slab_bytes` allow (0: 256 MiB); if these are
 * not all words, learn forms the logits twice. That changes no bit.
 */
struct head_args {
    const void *x, *w;
    const int32_t *targets;
    const double *stats_in, *lse_in;
    double *stats, *lse, *loss;
    void *dx, *dw, *logits, *scratch;
    int64_t B, S, D, rows, first, valid, slices, ldl, slab_bytes;
};

/*
 * AdamW on `count` elements of type sum, decoupled decay, one group. Source: Loshchilov and Hutter 2019; the
 * order of operations is torch.optim.AdamW's:
 *
 *   w *= 1 - lr * decay;  m = b1 m + (1 - b1) g s;  v = b2 v + (1 - b2) (g s)^2;
 *   w -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
 *
 * s scales the gradient sum to the clipped mean. All hyper-parameters are double and rounded where
 * they meet reals. `copy`, where it is not NULL, gets the new w in type real. g is zeroed in the
 * same pass, for the next step's sums.
 */
struct adamw_args {
    void *w, *m, *v, *g, *copy;
    int64_t count;
    /* correction_i = 1 - beta_i^t */
    double lr, decay, beta1, beta2, eps, correction1, correction2, scale;
};

/* sums [count / 1024] double: of each block of 1,024 elements of g (type sum), the sum of squares
 * in double, in a fixed order. */
struct norm_args {
    const void *g;
    double *sums;
    int64_t blocks;
};

/* copy [count] (real) = w [count] (sum), rounded to nearest even. */
struct cast_args {
    const void *w;
    void *copy;
    int64_t count;
};

/* One kernel family in one number type. Every slot is filled. */
struct kernels {
    const char *family;   /* "scalar", "avx2", ... */
    enum dtype real, sum; /* F64 and F64, F32 and F32, or BF16 and F32 */

    void (*linear)(const struct linear_args *a, struct team t);
    void (*linear_dx)(const struct linear_args *a, struct team t);
    void (*linear_dw)(const struct linear_args *a, struct team t);
    size_t (*linear_scratch)(const struct linear_args *a, int threads);

    void (*bias)(const struct bias_args *a, struct team t);
    void (*bias_dw)(const struct bias_args *a, struct team t);
    size_t (*bias_scratch)(const struct bias_args *a, int threads);

    void (*embed)(const struct embed_args *a, struct team t);
    void (*embed_dw)(const struct embed_args *a, struct team t);
    size_t (*embed_scratch)(const struct embed_args *a, int threads);

    void (*rmsnorm)(const struct rmsnorm_args *a, struct team t);
    void (*rmsnorm_dx)(const struct rmsnorm_args *a, struct team t);
    void (*rmsnorm_dw)(const struct rmsnorm_args *a, struct team t);
    size_t (*rmsnorm_scratch)(const struct rmsnorm_args *a, int threads);

    void (*rope_angles)(const struct rope_angles_args *a, struct team t);
    void (*rope)(const struct rope_args *a, struct team t);

    void (*attention)(const struct attention_args *a, struct team t);
    void (*attention_d)(const struct attention_args *a, struct team t);
    size_t (*attention_scratch)(const struct attention_args *a, int threads);

    void (*swiglu)(const struct swiglu_args *a, struct team t);
    void (*swiglu_d)(const struct swiglu_args *a, struct team t);
    void (*add)(const struct add_args *a, struct team t);
    void (*add_sums)(const struct add_args *a, struct team t);

    void (*head_stats)(const struct head_args *a, struct team t);
    void (*head_merge)(const struct head_args *a, struct team t);
    void (*head_logits)(const struct head_args *a, struct team t);
    /* Backward in steps: step s of head_steps(a) is called by every thread, with a barrier after
     * each. When `learn` is set, lse and loss are formed on the way (slices must be 1). */
    void (*head_backward)(const struct head_args *a, bool learn, int64_t step, struct team t);
    int64_t (*head_steps)(const struct head_args *a);
    size_t (*head_scratch)(const struct head_args *a, int threads);

    void (*adamw)(const struct adamw_args *a, struct team t);
    void (*norm)(const struct norm_args *a, struct team t);
    void (*cast)(const struct cast_args *a, struct team t);
};

/* The type that a table of this `real` adds in. */
static inline enum dtype kernels_sum(enum dtype real)
{
    return real == DT_F64 ? DT_F64 : DT_F32;
}

/* "64", "32" or "bf16", and back; DT_NONE for another word. */
const char *precision_name(enum dtype real);
enum dtype precision_find(const char *name);

/*
 * The best family of this processor for the type `real`, or the one named by the
 * environment variable ROUX_ISA. ERR_RECIPE if that name is unknown or the processor lacks it; the
 * text lists what there is.
 */
MUST_USE status kernels_find(enum dtype real, const struct kernels **out);

/* The family of that name. ERR_RECIPE as above. */
MUST_USE status kernels_named(enum dtype real, const char *name, const struct kernels **out);

/* All families that this processor can run, for the tests. */
size_t kernels_all(enum dtype real, const struct kernels *out[8]);

#endif
