/* Command-line overrides, applied to a tree. Not a door. */
#ifndef ROUX_RECIPE_OVERRIDE_H
#define ROUX_RECIPE_OVERRIDE_H

#include "recipe/recipe.h"

/*
 * Applies one token, "key=value", "+key=value", "++key=value", "~key" or "~key=value", to `root`.
 * Mistakes become findings. New nodes stand in the file "override <number>". Which keys there are
 * is not asked here: the typed reading does that.
 */
void override_apply(struct tree *root, const char *token, int number, struct findings *found,
                    struct arena *a);

/*
 * Reads the value of a token: a quoted text, a list [a, b], a map {a: b}, or a scalar typed as in
 * YAML; nothing at all is the empty text. NULL, with *problem set, if it is none of these.
 */
struct tree *override_value(struct arena *a, const char *text, const struct tree *at,
                            const char **problem);

#endif
