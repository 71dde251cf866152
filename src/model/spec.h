/*
 * What a model is: sizes, kinds, constants. One plain struct for all families; a family is a row
 * (model/family.h) that says how Hugging Face names and configures it.
 */
#ifndef ROUX_MODEL_SPEC_H
#define ROUX_MODEL_SPEC_H

#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/status.h"

enum rope_kind { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3 };
enum { ROPE_KINDS = ROPE_LLAMA3 + 1 };

struct rope_spec {
    enum rope_kind kind;
    double theta, factor, low, high; /* factor for linear and llama3, low and high for llama3 */
    int64_t original;                /* original_max_position_embeddings */
};

enum { SPEC_EOS = 8 };

struct model_spec {
    const struct family *family;
    int64_t vocab, width, ffn, layers, heads, groups, head_dim, max_positions;
    double eps, init_std;
    struct rope_spec rope;
    bool tied, attention_bias, mlp_bias;
    int64_t window;   /* 0 = none */
    int64_t pad, bos; /* -1 = none */
    int64_t eos[SPEC_EOS];
    int eos_count;
};

/* From-scratch defaults of the family (facts: table of families), for a recipe to overlay. */
void spec_default(struct model_spec *s, const struct family *family);

/* Completes what follows from the rest (head_dim and groups, where they are 0) and checks it: 1
 * to 10,000 layers, every other extent 1 to 2^24, heads divisible by groups, an even head_dim, at
 * most 2^56 parameters, so that no later sum of bytes overflows; finite numbers in their ranges.
 * ERR_RECIPE; `where` names the source in the message. */
MUST_USE status spec_finish(struct model_spec *s, const char *where);

const char *rope_kind_name(
    enum rope_kind kind); /* "default", "linear", "llama3": config.json's rope_type */

/* inv_freq [head_dim / 2] after scaling. Source: facts of this project; llama3 scaling as
 * Hugging Face has it. */
void rope_frequencies(const struct rope_spec *r, int64_t head_dim, double *inv_freq);

/* Distinct parameters; a tied embedding counts once. */
int64_t spec_parameters(const struct model_spec *s);

#endif
