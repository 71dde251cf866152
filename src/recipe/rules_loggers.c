#include <string.h>
#include "recipe/rules.h"

#define OPTIONS "exp_manager.summary_writer_kwargs"

static void check_folder(const struct checking *c, const struct tree *value)
{
    if (value->kind == TREE_NULL || (value->kind == TREE_TEXT && value->text[0] != 0)) {
        return;
    }
    rule_say(c, FINDING_ERROR, OPTIONS ".save_dir",
             OPTIONS ".save_dir is %s; allowed: the name of a folder, or null for the run's own",
             value->kind == TREE_TEXT ? "empty" : tree_describe(c->found->arena, value));
}

static void check_option(const struct checking *c, const struct tree *key, const struct tree *value)
{
    const char *name = tree_clip(c->found->arena, key->text);

    if (strcmp(key->text, "save_dir") == 0) {
        check_folder(c, value);
    } else if (strcmp(key->text, "log_dir") == 0) {
        rule_say(c, FINDING_ERROR, OPTIONS ".log_dir",
                 OPTIONS ".log_dir is not allowed: the folder follows from the experiment; use "
                         "save_dir");
    } else if (strcmp(key->text, "name") == 0) {
        rule_say(c, FINDING_NOTE, OPTIONS ".name",
                 OPTIONS ".name does nothing: exp_manager.name is used");
    } else {
        rule_say(c, FINDING_WARNING, OPTIONS, OPTIONS ".%s does nothing; known here: save_dir",
                 name);
    }
}

void rules_of_loggers(const struct checking *c)
{
    const struct recipe *r = c->r;
    const struct tree *options = r->exp_manager.summary_writer_kwargs;

    if (!r->exp_manager.create_tensorboard_logger || options == NULL || options->kind != TREE_MAP) {
        return;
    }
    for (size_t i = 0; i < options->count; i++) {
        check_option(c, options->keys[i], options->items[i]);
    }
}
