#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"

/* In the order of help: first what a run needs, then what looks closer. */
const struct command *const commands[] = { &command_check,    &command_plan,  &command_train,
                                           &command_tokenize, &command_probe, &command_generate,
                                           &command_bench,    &command_keys };
const int command_count = (int)(sizeof commands / sizeof commands[0]);

int cli_fail(status s)
{
    const char *plain = getenv("NO_COLOR");
    bool colour = isatty(STDERR_FILENO) && (plain == NULL || *plain == 0);

    fflush(stdout);
    fprintf(stderr, "%sroux: error:%s %s\n", colour ? "\033[31m" : "", colour ? "\033[0m" : "",
            fail_text());
    return status_exit_code(s);
}

void cli_print_json(json_t *value)
{
    check(value != NULL, "out of memory");
    json_dumpf(value, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(value);
}

/* As the recipe says; 0 where it leaves the devices open. */
static int ranks_of_recipe(const struct recipe *r)
{
    int64_t devices = r->trainer.devices,
            nodes = r->trainer.num_nodes > 0 ? r->trainer.num_nodes : 1;

    return devices > 0 && devices <= INT32_MAX / nodes ? (int)(devices * nodes) : 0;
}

status recipe_words_read(struct recipe_words *out, struct arena *a, const struct args *args,
                         int ranks)
{
    status s;

    *out = (struct recipe_words){ .found = { .arena = a } };
    s = recipe_read(&out->recipe, &out->found, a, args->words[0], args->words + 1,
                    args->word_count - 1);
    if (s != OK && s != ERR_RECIPE) {
        return s;
    }
    out->ranks = ranks > 0 ? ranks : (int)args_int(args, "ranks", 0);
    if (out->ranks == 0 && out->recipe.tree != NULL) {
        out->ranks = ranks_of_recipe(&out->recipe);
    }
    recipe_check(&out->recipe, &out->found, out->ranks);
    if (findings_errors(&out->found) > 0) {
        return fail(ERR_RECIPE, "%s: %d error%s", args->words[0], findings_errors(&out->found),
                    findings_errors(&out->found) == 1 ? "" : "s");
    }
    return s;
}
