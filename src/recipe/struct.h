/*
 * struct recipe: a member a section, a member a key, made from keys.def here and nowhere else. The
 * table in keys.c takes the offset of every member, so a row in the wrong section does not compile.
 */
#ifndef ROUX_RECIPE_STRUCT_H
#define ROUX_RECIPE_STRUCT_H

/* An amount that is a whole number if it was written as an integer, a share of the whole (0 to
 * 1) if as a float. */
struct amount {
    double value;
    bool is_share;
};

/* The C type of each key type. */
typedef int64_t recipe_int;
typedef int64_t recipe_count; /* an integer, or 0 for "auto" */
typedef double recipe_float;
typedef bool recipe_bool;
typedef const char *recipe_text;
typedef const char *recipe_choice;
typedef struct text_list recipe_texts;
typedef struct number_list recipe_numbers;
typedef struct amount recipe_amount;
typedef const struct tree *recipe_map; /* open: any keys; NULL if there is none */

#define FIELD_INT recipe_int
#define FIELD_COUNT recipe_count
#define FIELD_FLOAT recipe_float
#define FIELD_BOOL recipe_bool
#define FIELD_TEXT recipe_text
#define FIELD_CHOICE recipe_choice
#define FIELD_TEXTS recipe_texts
#define FIELD_NUMBERS recipe_numbers
#define FIELD_AMOUNT recipe_amount
#define FIELD_MAP recipe_map

struct recipe {
    /* what was written, overrides included; NULL if the file could not be read */
    const struct tree *tree;
#define TOP(name, type, ...) FIELD_##type name;
#define KEY(section, name, type, ...) FIELD_##type name;
#define SECTION(name) struct {
#define END(name) \
    }             \
    name;
#include "recipe/keys.def"
};

#endif
