/* roux keys: the key table. */
#include <fnmatch.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"

static const struct option options[] = {
    { "json", 0, OPTION_FLAG, NULL, "the rows as a JSON array", 0, 0, false },
    { 0 },
};

static const struct example examples[] = {
    { "keys", "every key" },
    { "keys lr", "keys with lr in their name" },
    { "keys 'model.optim.*'", "the keys of a section" },
    { "keys --json", "the whole table for a program" },
    { 0 },
};

static const char *path_of(struct arena *a, const struct key_row *row)
{
    return *row->section == 0 ? row->name : arena_format(a, "%s.%s", row->section, row->name);
}

/* A pattern of the shell if it has a * or ?, else a part of the name; capitals do not matter. */
static bool matches(const char *path, const char *pattern)
{
    return strpbrk(pattern, "*?[") != NULL ? fnmatch(pattern, path, FNM_CASEFOLD) == 0
                                           : strcasestr(path, pattern) != NULL;
}

static void print_allowed(const char *allowed)
{
    const char *dots = strstr(allowed, "..");

    if (dots == NULL) {
        printf("%s", allowed);
    } else if (dots[2] == 0 || dots[2] == '|') {
        printf("%.*s or more%s", (int)(dots - allowed), allowed, dots[2] == 0 ? "" : ", or null");
    } else {
        int high = (int)strcspn(dots + 2, "|");

        printf("%.*s to %.*s%s", (int)(dots - allowed), allowed, high, dots + 2,
               dots[2 + high] == 0 ? "" : ", or null");
    }
}

static void print_row(struct arena *a, const struct key_row *row)
{
    printf("%s\n    %s", path_of(a, row), row->type);
    if (*row->allowed != 0) {
        printf(": ");
        print_allowed(row->allowed);
    }
    printf("; default %s", row->fallback);
    if (strcmp(row->effect, "works") != 0) {
        printf("; %s", row->effect);
    }
    printf("\n    %s\n", row->help);
}

static json_t *row_json(struct arena *a, const struct key_row *row)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "key", path_of(a, row), "type", row->type,
                     "default", row->fallback, "allowed", row->allowed, "effect", row->effect,
                     "help", row->help);
}

static status no_match(struct arena *a, const struct key_row *rows, size_t count,
                       const char *pattern)
{
    const char **names = arena_take_array(a, 2 * count, sizeof *names), *nearest;

    for (size_t i = 0; i < count; i++) {
        names[i] = path_of(a, &rows[i]);
        names[count + i] = rows[i].name;
    }
    nearest = text_nearest(pattern, names, 2 * count);
    return fail(ERR_RECIPE, "no key matches '%s'%s%s%s", pattern,
                nearest == NULL ? "; roux keys lists all of them" : "; did you mean ",
                nearest == NULL ? "" : nearest, nearest == NULL ? "" : "?");
}

static status keys(const struct args *args, struct arena *a)
{
    const char *pattern = args->word_count > 0 ? args->words[0] : "";
    bool json = args_has(args, "json");
    json_t *list = json ? json_array() : NULL;
    const struct key_row *rows;
    size_t count = recipe_keys(&rows), found = 0;

    for (size_t i = 0; i < count; i++) {
        if (!matches(path_of(a, &rows[i]), pattern)) {
            continue;
        }
        found++;
        if (json) {
            json_array_append_new(list, row_json(a, &rows[i]));
        } else {
            print_row(a, &rows[i]);
        }
    }
    if (found == 0) {
        json_decref(list);
        return no_match(a, rows, count, pattern);
    }
    if (json) {
        cli_print_json(list);
    }
    return OK;
}

static int run(const struct args *args)
{
    struct arena a = { 0 };
    status s = keys(args, &a);

    arena_release(&a);
    return s == OK ? 0 : cli_fail(s);
}

const struct command command_keys = {
    .name = "keys",
    .words = "[PATTERN]",
    .summary = "list the keys of a recipe",
    .about = "Every key with its type, what it may be, its default, and what it means. PATTERN is "
             "a part of the dotted name, or a "
             "pattern of the shell.",
    .options = options,
    .examples = examples,
    .least = 0,
    .most = 1,
    .run = run,
};
