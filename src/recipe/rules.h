/* The rules between keys, one function a subject. Not a door. */
#ifndef ROUX_RECIPE_RULES_H
#define ROUX_RECIPE_RULES_H

#include "recipe/recipe.h"

struct checking {
    const struct recipe *r;
    struct findings *found;
    int ranks; /* 0: not known */
    /* keys whose values were refused when they were read: rules have nothing to say of them */
    const char **broken;
    int broken_count;
};

/* Adds a finding at the key's place, or at the file if it was not written; nothing if the key is
 * broken. */
void rule_say(const struct checking *c, enum finding_kind kind, const char *key, const char *format,
              ...) FORMAT(4, 5);

void rules_of_model(const struct checking *c); /* family, sizes, source of the weights */
void rules_of_ranks(const struct checking *c); /* degrees and divisibility */
void rules_of_training(
    const struct checking *c);                   /* data, schedule, validation, checkpoints, time */
void rules_of_loggers(const struct checking *c); /* options of TensorBoard's event files */
void rules_of_wishes(const struct checking *c);  /* what is known but not built yet */

#endif
