#include "cli/args.h"

#include <stdio.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { OPTIONS_MOST = 32 };

static const struct option help_option = {
    "help", 'h', OPTION_FLAG, NULL, "this text", 0, 0, false
};

/* ---- finding ---- */

static const struct option *option_find(const struct command *c, const char *name, size_t length)
{
    if (strlen(help_option.name) == length && strncmp(help_option.name, name, length) == 0) {
        return &help_option;
    }
    for (const struct option *o = c->options; o->name != NULL; o++) {
        if (strlen(o->name) == length && strncmp(o->name, name, length) == 0) {
            return o;
        }
    }
    return NULL;
}

static const struct option *letter_find(const struct command *c, const char *word)
{
    if (word[0] == 0 || word[1] != 0) {
        return NULL;
    }
    if (word[0] == help_option.letter) {
        return &help_option;
    }
    for (const struct option *o = c->options; o->name != NULL; o++) {
        if (o->letter == word[0]) {
            return o;
        }
    }
    return NULL;
}

static status unknown(const struct command *c, const char *word)
{
    const char *names[OPTIONS_MOST] = { help_option.name }, *nearest;
    size_t count = 1;
    char name[64];

    for (const struct option *o = c->options; o->name != NULL && count < OPTIONS_MOST; o++) {
        names[count++] = o->name;
    }
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    nearest = text_nearest(name + strspn(name, "-"), names, count);
    if (nearest != NULL) {
        return fail(ERR_RECIPE, "%s: unknown option %s; did you mean --%s?", c->name, name,
                    nearest);
    }
    return fail(ERR_RECIPE, "%s: unknown option %s; roux %s --help lists what there is", c->name,
                name, c->name);
}

/* ---- values ---- */

static status out_of_range(const struct command *c, const struct option *o, const char *text)
{
    if (o->low == 0 && o->high == 0) {
        return fail(ERR_RECIPE, "%s: --%s is '%s'; it takes %s", c->name, o->name, text,
                    o->kind == OPTION_INT ? "a whole number" : "a number");
    }
    return fail(ERR_RECIPE, "%s: --%s is '%s'; it takes %s from %.15g to %.15g", c->name, o->name,
                text, o->kind == OPTION_INT ? "a whole number" : "a number", o->low, o->high);
}

static status number_parse(const struct command *c, struct given *g)
{
    const struct option *o = g->option;
    char *end;

    errno = 0;
    if (o->kind == OPTION_INT) {
        g->whole = strtoll(g->text, &end, 10);
        g->number = (double)g->whole;
    } else {
        g->number = strtod(g->text, &end);
    }
    if (errno != 0 || end == g->text || *end != 0 || !isfinite(g->number) ||
        strspn(g->text, " \t\n") != 0 ||
        ((o->low != 0 || o->high != 0) && (g->number < o->low || g->number > o->high))) {
        return out_of_range(c, o, g->text);
    }
    return OK;
}

static status choice_check(const struct command *c, const struct given *g)
{
    const char *at = g->option->value;
    size_t length = strlen(g->text);

    while (at != NULL) {
        if (strcspn(at, "|") == length && strncmp(at, g->text, length) == 0) {
            return OK;
        }
        at = strchr(at, '|');
        at = at == NULL ? NULL : at + 1;
    }
    return fail(ERR_RECIPE, "%s: --%s is '%s'; it takes one of %s", c->name, g->option->name,
                g->text, g->option->value);
}

static status value_parse(const struct command *c, struct given *g)
{
    switch (g->option->kind) {
    case OPTION_INT:
    case OPTION_NUMBER:
        return number_parse(c, g);
    case OPTION_CHOICE:
        return choice_check(c, g);
    default:
        return OK;
    }
}

/* The place of an option's value: a new one, or that of an earlier use, which it replaces. */
static struct given *given_place(struct args *a, const struct option *o)
{
    for (int i = 0; i < a->given_count; i++) {
        if (a->given[i].option == o) {
            return &a->given[i];
        }
    }
    check(a->given_count < ARGS_GIVEN, "%s has more options than args.h has room for",
          a->command->name);
    return &a->given[a->given_count++];
}

/* ---- the walk ---- */

/* argv[*i] is an option; its value may be the next word. */
static status option_take(struct args *a, int argc, char **argv, int *i)
{
    const char *word = argv[*i], *equals = strchr(word, '=');
    bool is_long = word[1] == '-';
    const struct option *o =
        is_long ? option_find(a->command, word + 2,
                              equals == NULL ? strlen(word + 2) : (size_t)(equals - word - 2))
                : letter_find(a->command, word + 1);
    struct given *g;

    if (o == NULL) {
        return unknown(a->command, word);
    }
    if (o == &help_option) {
        a->help = true;
        return OK;
    }
    g = given_place(a, o);
    g->option = o;
    g->text = "";
    if (o->kind == OPTION_FLAG) {
        return is_long && equals != NULL
                   ? fail(ERR_RECIPE, "%s: --%s takes no value", a->command->name, o->name)
                   : OK;
    }
    if (is_long && equals != NULL) {
        g->text = equals + 1;
    } else if (*i + 1 < argc) {
        g->text = argv[++*i];
    } else {
        return fail(ERR_RECIPE, "%s: --%s needs a value: %s", a->command->name, o->name, o->value);
    }
    return value_parse(a->command, g);
}

static status complete(const struct args *a)
{
    const struct command *c = a->command;

    for (const struct option *o = c->options; o->name != NULL; o++) {
        if (o->required && !args_has(a, o->name)) {
            return fail(ERR_RECIPE, "%s: --%s %s is missing (%s); see roux %s --help", c->name,
                        o->name, o->value, o->help, c->name);
        }
    }
    if (a->word_count < c->least) {
        return fail(ERR_RECIPE, "%s: %s is missing; usage: roux %s [OPTION]... %s", c->name,
                    c->words, c->name, c->words);
    }
    if (c->most >= 0 && a->word_count > c->most) {
        return fail(ERR_RECIPE, "%s: unexpected '%s'; usage: roux %s [OPTION]... %s", c->name,
                    a->words[c->most], c->name, c->words);
    }
    return OK;
}

status args_parse(struct args *out, struct arena *a, const struct command *c, int argc, char **argv)
{
    bool options = true;

    *out = (struct args){ .command = c,
                          .words = arena_take_array(a, (size_t)argc + 1, sizeof(char *)) };
    for (int i = 1; i < argc && !out->help; i++) {
        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (options && argv[i][0] == '-' && argv[i][1] != 0) {
            TRY(option_take(out, argc, argv, &i));
        } else {
            out->words[out->word_count++] = argv[i];
        }
    }
    return out->help ? OK : complete(out);
}

/* ---- asking ---- */

static const struct given *given_find(const struct args *a, const char *name)
{
    check(option_find(a->command, name, strlen(name)) != NULL, "%s has no option %s",
          a->command->name, name);
    for (int i = 0; i < a->given_count; i++) {
        if (strcmp(a->given[i].option->name, name) == 0) {
            return &a->given[i];
        }
    }
    return NULL;
}

bool args_has(const struct args *a, const char *name)
{
    return given_find(a, name) != NULL;
}

const char *args_text(const struct args *a, const char *name, const char *fallback)
{
    const struct given *g = given_find(a, name);

    return g == NULL ? fallback : g->text;
}

int64_t args_int(const struct args *a, const char *name, int64_t fallback)
{
    const struct given *g = given_find(a, name);

    return g == NULL ? fallback : g->whole;
}

double args_number(const struct args *a, const char *name, double fallback)
{
    const struct given *g = given_find(a, name);

    return g == NULL ? fallback : g->number;
}
