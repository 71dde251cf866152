/* The key table as the code of this room sees it. Not a door. */
#ifndef ROUX_RECIPE_KEYS_H
#define ROUX_RECIPE_KEYS_H

#include "recipe/recipe.h"

enum key_type {
    TYPE_INT,
    TYPE_COUNT,
    TYPE_FLOAT,
    TYPE_BOOL,
    TYPE_TEXT,
    TYPE_CHOICE,
    TYPE_TEXTS,
    TYPE_NUMBERS,
    TYPE_AMOUNT,
    TYPE_MAP
};
enum key_effect { EFFECT_WORKS, EFFECT_LATER, EFFECT_NONE };

struct key {
    const char *section, *name; /* "model.optim", "lr"; "" at the top */
    enum key_type type;
    const char *fallback; /* NULL: required */
    const char *allowed;
    enum key_effect effect;
    size_t offset; /* of the member in struct recipe */
};

extern const struct key keys[];
extern const size_t key_count;

const struct key *key_find(const char *section, const char *name); /* NULL if there is none */
bool key_is_section(const char *path);
bool key_is_nullable(const struct key *k);
const char *key_path(struct arena *a, const struct key *k);

/* The limits of a number; an open upper end is INFINITY. */
void key_range(const struct key *k, double *low, double *high);

/* Whether `text` is one of the choices. */
bool key_has_choice(const struct key *k, const char *text);

/* The choice nearest to `wrong`, or NULL. */
const char *key_nearest_choice(struct arena *a, const struct key *k, const char *wrong);

/* "an integer, 1 to 4096, or null": what the key takes, in words. */
const char *key_allowed(struct arena *a, const struct key *k);

/* The dotted path of the key or section that may be meant by `name` in `section`, or NULL. */
const char *key_nearest(struct arena *a, const char *section, const char *name);

/* "a" or "a.b". */
const char *path_below(struct arena *a, const char *section, const char *name);

#endif
