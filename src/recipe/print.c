/*
 * The recipe as YAML. Reading it back gives the same recipe: so what was left out and then follows
 * the model directory stays out, as a comment.
 */
#include <math.h>
#include <string.h>
#include "base/text.h"
#include "recipe/keys.h"

static const void *field_of(const struct recipe *r, const struct key *k)
{
    return (const char *)r + k->offset;
}

static bool follows_directory(const struct recipe *r, const struct key *k)
{
    return strcmp(k->section, "model") == 0 &&
           (strcmp(k->name, "rope_theta") == 0 || strcmp(k->name, "tie_word_embeddings") == 0) &&
           !recipe_given(r, strcmp(k->name, "rope_theta") == 0 ? "model.rope_theta"
                                                               : "model.tie_word_embeddings");
}

static void print_integer(const struct key *k, int64_t value, FILE *to)
{
    if (value == 0 && k->type == TYPE_COUNT) {
        fputs("auto", to);
    } else if (value == 0 && key_is_nullable(k)) {
        fputs("null", to);
    } else {
        fprintf(to, "%lld", (long long)value);
    }
}

static void print_float(double value, FILE *to)
{
    char digits[32];

    fputs(isnan(value) ? "null" : text_double(digits, value), to);
}

static void print_optional_text(const char *text, FILE *to)
{
    if (text == NULL) {
        fputs("null", to);
    } else {
        tree_print_text(text, to);
    }
}

static void print_texts(const struct text_list *list, FILE *to)
{
    if (list->count == 0) {
        fputs("null", to);
        return;
    }
    for (int i = 0; i < list->count; i++) {
        fputs(i == 0 ? "[" : ", ", to);
        tree_print_text(list->item[i], to);
    }
    fputc(']', to);
}

static void print_numbers(const struct number_list *list, FILE *to)
{
    fputc('[', to);
    for (int i = 0; i < list->count; i++) {
        fputs(i == 0 ? "" : ", ", to);
        print_float(list->item[i], to);
    }
    fputc(']', to);
}

/* A precision of digits must not become an integer: both are accepted, the text is what the
 * struct holds. */
static void print_value(const struct recipe *r, const struct key *k, FILE *to)
{
    const void *field = field_of(r, k);
    const struct amount *amount = field;

    switch (k->type) {
    case TYPE_INT:
    case TYPE_COUNT:
        print_integer(k, *(const recipe_int *)field, to);
        break;
    case TYPE_FLOAT:
        print_float(*(const recipe_float *)field, to);
        break;
    case TYPE_BOOL:
        fputs(*(const recipe_bool *)field ? "true" : "false", to);
        break;
    case TYPE_TEXT:
    case TYPE_CHOICE:
        print_optional_text(*(const recipe_text *)field, to);
        break;
    case TYPE_TEXTS:
        print_texts(field, to);
        break;
    case TYPE_NUMBERS:
        print_numbers(field, to);
        break;
    case TYPE_AMOUNT:
        if (amount->is_share) {
            print_float(amount->value, to);
        } else {
            fprintf(to, "%.0f", amount->value);
        }
        break;
    case TYPE_MAP:
        break;
    }
}

static void print_key(const struct recipe *r, const struct key *k, int indent, FILE *to)
{
    const struct tree *written = tree_at(r->tree, k->section);

    written = written != NULL ? tree_find(written, k->name) : NULL;
    fprintf(to, "%*s%s%s:", indent, "", follows_directory(r, k) ? "# " : "", k->name);
    if (k->type == TYPE_MAP && *(const recipe_map *)field_of(r, k) != NULL) {
        const struct tree *map = *(const recipe_map *)field_of(r, k);

        fputs(map->count == 0 ? " {}\n" : "\n", to);
        if (map->count > 0) {
            tree_print(map, indent + 2, to);
        }
        return;
    }
    fputc(' ', to);
    if (tree_key_is_secret(k->name)) {
        fputs(written != NULL && written->kind != TREE_NULL ? "null # not shown" : "null", to);
    } else if (k->type == TYPE_MAP || (k->type == TYPE_BOOL && key_is_nullable(k) &&
                                       (written == NULL || written->kind == TREE_NULL))) {
        fputs("null", to);
    } else {
        print_value(r, k, to);
    }
    fputc('\n', to);
}

/* Prints the names of the sections in which `to_section` lies and `from_section` does not. */
static int enter_section(const char *from_section, const char *to_section, FILE *to)
{
    size_t start = 0;
    int depth = 0;

    if (*to_section == '\0') {
        return 0;
    }
    for (;;) {
        size_t length = strcspn(to_section + start, "."), end = start + length;
        bool shared = strncmp(from_section, to_section, end) == 0 &&
                      (from_section[end] == '\0' || from_section[end] == '.');

        if (!shared) {
            fprintf(to, "%*s%.*s:\n", 2 * depth, "", (int)length, to_section + start);
        }
        depth++;
        if (to_section[end] == '\0') {
            return 2 * depth;
        }
        start = end + 1;
    }
}

void recipe_print(const struct recipe *r, FILE *to)
{
    const char *section = "";
    int indent = 0;

    for (size_t i = 0; i < key_count; i++) {
        indent = enter_section(section, keys[i].section, to);
        section = keys[i].section;
        print_key(r, &keys[i], indent, to);
    }
}
