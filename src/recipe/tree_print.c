/* Trees as YAML: block style, containers that are empty in flow style, texts plain only where
 * nobody could misread them. */
#include <ctype.h>
#include <math.h>
#include <string.h>
#include "base/text.h"
#include "recipe/tree.h"

bool tree_key_is_secret(const char *name)
{
    static const char *const ends[] = { "token", "password", "secret", "api_key", "access_key" };

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (text_ends(name, ends[i])) {
            return true;
        }
    }
    return false;
}

/* Whether `text`, unquoted, reads back as itself under YAML 1.1 and 1.2 alike, in block and in
 * flow. */
static bool is_plain(const char *text)
{
    static const char *const words[] = { "y",   "Y",        "n",        "N",   "inf",
                                         "nan", "infinity", "Infinity", "Inf", "NaN" };
    struct tree t = { 0 };

    if (!isalpha((unsigned char)*text) && *text != '/' && *text != '_' && *text != '.') {
        return false; /* whatever begins like a number, a date or a sign */
    }
    for (const char *c = text; *c != '\0'; c++) {
        if (!isalnum((unsigned char)*c) && strchr("_-./", *c) == NULL) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(text, words[i]) == 0) {
            return false;
        }
    }
    return strcmp(text, "...") != 0 && tree_scalar(&t, text) && t.kind == TREE_TEXT;
}

void tree_print_text(const char *text, FILE *to)
{
    bool simple = true;

    if (is_plain(text)) {
        fputs(text, to);
        return;
    }
    for (const char *c = text; *c != '\0'; c++) {
        simple = simple && (unsigned char)*c >= 0x20 && (unsigned char)*c < 0x7f;
    }
    fputc(simple ? '\'' : '"', to);
    for (const char *c = text; *c != '\0'; c++) {
        if (simple) {
            fputs(*c == '\'' ? "''" : (char[2]){ *c, '\0' }, to);
        } else if (*c == '"' || *c == '\\') {
            fprintf(to, "\\%c", *c);
        } else if (*c == '\n') {
            fputs("\\n", to);
        } else if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            fprintf(to, "\\x%02x", (unsigned char)*c);
        } else if (strncmp(c, "\xc2\x85", 2) == 0 || strncmp(c, "\xe2\x80\xa8", 3) == 0 ||
                   strncmp(c, "\xe2\x80\xa9", 3) == 0) {
            fputs(*c == '\xc2'     ? "\\N"
                  : c[2] == '\xa8' ? "\\L"
                                   : "\\P",
                  to); /* line breaks to YAML 1.1 */
            c += *c == '\xc2' ? 1 : 2;
        } else {
            fputc(*c, to);
        }
    }
    fputc(simple ? '\'' : '"', to);
}

static void print_number(double number, FILE *to)
{
    char digits[32];

    if (isnan(number)) {
        fputs(".nan", to);
    } else if (isinf(number)) {
        fputs(number < 0 ? "-.inf" : ".inf", to);
    } else {
        fputs(text_double(digits, number), to);
    }
}

static void print_scalar(const struct tree *t, FILE *to)
{
    switch (t->kind) {
    case TREE_BOOL:
        fputs(t->truth ? "true" : "false", to);
        break;
    case TREE_INT:
        fprintf(to, "%lld", (long long)t->whole);
        break;
    case TREE_FLOAT:
        print_number(t->number, to);
        break;
    case TREE_TEXT:
        tree_print_text(t->text, to);
        break;
    default:
        fputs("null", to);
        break;
    }
}

static bool is_container(const struct tree *t)
{
    return t->kind == TREE_LIST || t->kind == TREE_MAP;
}

/* What stands behind "key:" or "-": a scalar on the same line, a container below. */
static void print_value(const struct tree *t, int indent, FILE *to)
{
    if (!is_container(t)) {
        fputc(' ', to);
        print_scalar(t, to);
        fputc('\n', to);
    } else if (t->count == 0) {
        fputs(t->kind == TREE_LIST ? " []\n" : " {}\n", to);
    } else {
        fputc('\n', to);
        tree_print(t, indent, to);
    }
}

void tree_print(const struct tree *t, int indent, FILE *to)
{
    if (!is_container(t) || t->count == 0) {
        fprintf(to, "%*s", indent, "");
        if (is_container(t)) {
            fputs(t->kind == TREE_LIST ? "[]" : "{}", to);
        } else {
            print_scalar(t, to);
        }
        fputc('\n', to);
        return;
    }
    for (size_t i = 0; i < t->count; i++) {
        fprintf(to, "%*s", indent, "");
        if (t->kind == TREE_LIST) {
            fputc('-', to);
        } else {
            print_scalar(t->keys[i], to);
            fputc(':', to);
        }
        if (t->kind == TREE_MAP && t->keys[i]->kind == TREE_TEXT &&
            tree_key_is_secret(t->keys[i]->text)) {
            fputs(" null # not shown\n", to);
        } else {
            print_value(t->items[i], indent + 2, to);
        }
    }
}
