/* Families as rows. A new one is a row in family.c, and layers only where it has some of its
 * own. */
#ifndef ROUX_MODEL_FAMILY_H
#define ROUX_MODEL_FAMILY_H

#include "model/spec.h"

struct family {
    const char *name;         /* "llama": config.json's model_type */
    const char *architecture; /* "LlamaForCausalLM" */
    /* what a recipe's model_type may say, separated by blanks: "llama_v3 llama_v2 ..." */
    const char *recipe_types;
    bool biases_optional; /* attention_bias and mlp_bias are read from the configuration */
};

extern const struct family families[];
extern const int family_count;

const struct family *family_find(
    const char *model_type); /* by config.json's word; NULL if not built */
const struct family *family_of_recipe(const char *model_type); /* by the recipe's word */

#endif
