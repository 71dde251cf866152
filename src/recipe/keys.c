#include "recipe/keys.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"

#define REQUIRED NULL

const struct key keys[] = {
#define TOP(name, type, fallback, allowed, help, effect) \
    { "", #name, TYPE_##type, fallback, allowed, EFFECT_##effect, offsetof(struct recipe, name) },
#define KEY(section, name, type, fallback, allowed, help, effect) \
    { #section,                                                   \
      #name,                                                      \
      TYPE_##type,                                                \
      fallback,                                                   \
      allowed,                                                    \
      EFFECT_##effect,                                            \
      offsetof(struct recipe, section.name) },
#define SECTION(name)
#define END(name)
#include "recipe/keys.def"
};
const size_t key_count = sizeof keys / sizeof keys[0];

#undef REQUIRED
#define REQUIRED "required"
#define TYPE_WORD_INT "integer"
#define TYPE_WORD_COUNT "integer or auto"
#define TYPE_WORD_FLOAT "float"
#define TYPE_WORD_BOOL "true or false"
#define TYPE_WORD_TEXT "text"
#define TYPE_WORD_CHOICE "choice"
#define TYPE_WORD_TEXTS "list of texts"
#define TYPE_WORD_NUMBERS "list of numbers"
#define TYPE_WORD_AMOUNT "integer or share"
#define TYPE_WORD_MAP "map, open"
#define EFFECT_WORD_WORKS "works"
#define EFFECT_WORD_LATER "not built yet"
#define EFFECT_WORD_NONE "no effect here"

static const struct key_row rows[] = {
#define TOP(name, type, fallback, allowed, help, effect) \
    { "", #name, TYPE_WORD_##type, fallback, allowed, help, EFFECT_WORD_##effect },
#define KEY(section, name, type, fallback, allowed, help, effect) \
    { #section, #name, TYPE_WORD_##type, fallback, allowed, help, EFFECT_WORD_##effect },
#define SECTION(name)
#define END(name)
#include "recipe/keys.def"
};

size_t recipe_keys(const struct key_row **out)
{
    *out = rows;
    return sizeof rows / sizeof rows[0];
}

const struct key *key_find(const char *section, const char *name)
{
    for (size_t i = 0; i < key_count; i++) {
        if (strcmp(keys[i].name, name) == 0 && strcmp(keys[i].section, section) == 0) {
            return &keys[i];
        }
    }
    return NULL;
}

bool key_is_section(const char *path)
{
    size_t length = strlen(path);

    for (size_t i = 0; i < key_count; i++) {
        const char *section = keys[i].section;

        if (strncmp(section, path, length) == 0 &&
            (section[length] == '\0' || section[length] == '.')) {
            return true;
        }
    }
    return false;
}

const char *path_below(struct arena *a, const char *section, const char *name)
{
    return *section == '\0' ? arena_text(a, name) : arena_format(a, "%s.%s", section, name);
}

const char *key_path(struct arena *a, const struct key *k)
{
    return path_below(a, k->section, k->name);
}

bool key_is_nullable(const struct key *k)
{
    return (k->fallback != NULL && strcmp(k->fallback, "null") == 0) ||
           text_ends(k->allowed, "|null");
}

void key_range(const struct key *k, double *low, double *high)
{
    const char *dots = strstr(k->allowed, "..");

    *low = -INFINITY;
    *high = INFINITY;
    if (dots != NULL) {
        *low = strtod(k->allowed, NULL);
        if (dots[2] != '\0' && dots[2] != '|') {
            *high = strtod(dots + 2, NULL);
        }
    }
}

bool key_has_choice(const struct key *k, const char *text)
{
    size_t length = strlen(text);

    for (const char *choice = k->allowed; length > 0 && *choice != '\0';) {
        size_t end = strcspn(choice, "|");

        if (end == length && memcmp(choice, text, end) == 0) {
            return true;
        }
        choice += end + (choice[end] == '|');
    }
    return false;
}

const char *key_nearest_choice(struct arena *a, const struct key *k, const char *wrong)
{
    const char *names[16];
    size_t count = 0;

    if (strlen(wrong) > 64) {
        return NULL;
    }
    for (const char *choice = k->allowed;
         *choice != '\0' && count < sizeof names / sizeof names[0];) {
        size_t end = strcspn(choice, "|");

        names[count++] = arena_text_n(a, choice, end);
        choice += end + (choice[end] == '|');
    }
    return text_nearest(wrong, names, count);
}

static const char *range_words(struct arena *a, const struct key *k, const char *noun)
{
    double low, high;

    key_range(k, &low, &high);
    if (isinf(low)) {
        return noun;
    }
    if (isinf(high)) {
        return arena_format(a, "%s, %.0f or more", noun, low);
    }
    return arena_format(a, "%s, %.0f to %.0f", noun, low, high);
}

static const char *choice_words(struct arena *a, const struct key *k)
{
    struct text words = { 0 };
    const char *result;

    for (const char *c = k->allowed; *c != '\0'; c++) {
        if (*c == '|') {
            text_add(&words, ", ");
        } else {
            text_add_char(&words, *c);
        }
    }
    result = arena_format(a, strchr(k->allowed, '|') != NULL ? "one of %s" : "%s", text_of(&words));
    text_release(&words);
    return result;
}

static const char *type_words(struct arena *a, const struct key *k)
{
    switch (k->type) {
    case TYPE_INT:
        return range_words(a, k, "an integer");
    case TYPE_COUNT:
        return range_words(a, k, "auto, or an integer");
    case TYPE_FLOAT:
        return range_words(a, k, "a number");
    case TYPE_BOOL:
        return "true or false";
    case TYPE_TEXT:
        return "a text";
    case TYPE_CHOICE:
        return choice_words(a, k);
    case TYPE_TEXTS:
        return "a text or a list of texts";
    case TYPE_NUMBERS:
        return range_words(a, k, "a list of numbers, each");
    case TYPE_AMOUNT:
        return arena_format(a, "%s, or a float from 0.0 to 1.0", range_words(a, k, "an integer"));
    case TYPE_MAP:
        return "a map";
    }
    return "";
}

const char *key_allowed(struct arena *a, const struct key *k)
{
    return arena_format(a, "%s%s", type_words(a, k), key_is_nullable(k) ? ", or null" : "");
}

/* The names of keys and sections directly in `section`. */
static size_t names_in(struct arena *a, const char *section, const char **names)
{
    size_t count = 0, length = strlen(section);

    for (size_t i = 0; i < key_count; i++) {
        const char *in = keys[i].section;

        if (strcmp(in, section) == 0) {
            names[count++] = keys[i].name;
        } else if (strncmp(in, section, length) == 0 && (length == 0 || in[length] == '.')) {
            const char *child = in + length + (length > 0);

            names[count++] = arena_text_n(a, child, strcspn(child, "."));
        }
    }
    return count;
}

const char *key_nearest(struct arena *a, const char *section, const char *name)
{
    const char **names, *nearest, *where = NULL;
    size_t count;

    if (strlen(name) > 64) {
        return NULL; /* nobody means that; and distances take time */
    }
    for (size_t i = 0; i < key_count; i++) {
        if (strcmp(keys[i].name, name) == 0) {
            where = where == NULL ? key_path(a, &keys[i])
                                  : arena_format(a, "%s or %s", where, key_path(a, &keys[i]));
        }
    }
    names = arena_take_array(a, key_count, sizeof *names);
    count = names_in(a, section, names);
    nearest = text_nearest(name, names, count);
    if (nearest != NULL) {
        nearest = path_below(a, section, nearest);
        return where == NULL ? nearest : arena_format(a, "%s, or %s", nearest, where);
    }
    if (where != NULL) {
        return where;
    }
    for (size_t i = 0; i < key_count; i++) {
        names[i] = keys[i].name;
    }
    nearest = text_nearest(name, names, key_count);
    for (size_t i = 0; nearest != NULL && i < key_count; i++) {
        if (names[i] == nearest) {
            return key_path(a, &keys[i]);
        }
    }
    return NULL;
}
