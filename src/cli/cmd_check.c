/* roux check: all that can be said of a recipe without the machines of the job. */
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "model/family.h"
#include "store/safetensors.h"
#include "train/train.h"

static const struct option options[] = {
    { "ranks", 0, OPTION_INT, "N", "check for N ranks; else trainer.num_nodes x trainer.devices", 1,
      65536, false },
    { "json", 0, OPTION_FLAG, NULL, "findings as one JSON object", 0, 0, false },
    { 0 },
};

static const struct example examples[] = {
    { "check recipe.yaml", "all findings, each with file, line and column" },
    { "check recipe.yaml --ranks 16 model.shard_degree=8",
      "whether the degrees fit a job of 16 ranks" },
    { "check recipe.yaml --json", "for a program: {\"ok\": ..., \"findings\": [...]}" },
    { 0 },
};

static void check_folder(struct recipe_words *w, const char *key, const char *path)
{
    const struct tree *at = tree_at(w->recipe.tree, key);

    if (path == NULL || path[0] == 0 || strstr(path, "://") != NULL || file_is_folder(path)) {
        return;
    }
    findings_add(&w->found, FINDING_ERROR, at, key, "%s: %s %s", key, path,
                 file_is_there(path) ? "is not a folder"
                                     : "is not there; make it, or name another folder");
}

static void check_folders(struct recipe_words *w)
{
    const struct recipe *r = &w->recipe;

    if (!r->model.data.use_synthetic_data) {
        for (int i = 0; i < r->model.data.train_dir.count; i++) {
            check_folder(w, "model.data.train_dir", r->model.data.train_dir.item[i]);
        }
        for (int i = 0; i < r->model.data.val_dir.count; i++) {
            check_folder(w, "model.data.val_dir", r->model.data.val_dir.item[i]);
        }
    }
    check_folder(w, "model.hf_model_name_or_path", r->model.hf_model_name_or_path);
    check_folder(w, "exp_manager.resume_from_checkpoint", r->exp_manager.resume_from_checkpoint);
}

/* The files that hold the weights: complete, and each a valid safetensors header. */
static status check_weights(struct arena *a, const char *folder)
{
    struct tensor_folder f = { 0 };
    status s = tensor_folder_open(&f, a, folder);

    tensor_folder_close(&f);
    return s;
}

/* What only building the job's spec finds out: the model folder's configuration, and what
 * follows from both. */
static void check_spec(struct recipe_words *w, struct arena *a, struct train_spec *spec)
{
    status s = train_spec_make(spec, a, &w->recipe, w->ranks > 0 ? w->ranks : 1);

    if (s == OK && spec->pretrained) {
        s = check_weights(a, spec->hf_folder);
    }
    if (s != OK) {
        findings_add(&w->found, FINDING_ERROR, NULL, NULL, "%s", fail_text());
    }
}

static int count_of(const struct findings *f, enum finding_kind kind)
{
    int count = 0;

    for (int i = 0; i < f->count; i++) {
        count += f->items[i].kind == kind;
    }
    return count;
}

static json_t *finding_json(const struct finding *f)
{
    static const char *const kinds[] = { "error", "warning", "note" };

    return json_pack("{s:s, s:s?, s:i, s:i, s:s?, s:s}", "kind", kinds[f->kind], "file", f->file,
                     "line", f->line, "column", f->column, "key", f->key, "text", f->text);
}

static void print_json(const struct recipe_words *w)
{
    json_t *list = json_array();

    for (int i = 0; i < w->found.count; i++) {
        json_array_append_new(list, finding_json(&w->found.items[i]));
    }
    cli_print_json(json_pack("{s:b, s:i, s:i, s:i, s:o}", "ok", findings_errors(&w->found) == 0,
                             "errors", findings_errors(&w->found), "warnings",
                             count_of(&w->found, FINDING_WARNING), "notes",
                             count_of(&w->found, FINDING_NOTE), "findings", list));
}

static void print_text(const struct recipe_words *w, const struct train_spec *spec,
                       const char *path)
{
    char parameters[32];

    if (w->found.count > 0) {
        findings_print(&w->found, stdout);
    }
    if (findings_errors(&w->found) > 0 || spec->model.family == NULL) {
        return;
    }
    printf("ok: %s: %s, %s parameters", path, spec->model.family->name,
           text_count(parameters, spec_parameters(&spec->model)));
    if (w->ranks > 0) {
        printf(", %d rank%s", w->ranks, w->ranks == 1 ? "" : "s");
    }
    printf("\nnext: roux plan %s, roux train %s\n", path, path);
}

static int check_all(const struct args *args, struct arena *a)
{
    struct recipe_words w;
    struct train_spec spec = { 0 };
    status s = recipe_words_read(&w, a, args, 0);

    if (s != OK && s != ERR_RECIPE) {
        return cli_fail(s);
    }
    if (w.recipe.tree != NULL) {
        check_folders(&w);
    }
    if (findings_errors(&w.found) == 0) {
        check_spec(&w, a, &spec);
    }
    if (args_has(args, "json")) {
        print_json(&w);
    } else {
        print_text(&w, &spec, args->words[0]);
    }
    return findings_errors(&w.found) > 0 ? status_exit_code(ERR_RECIPE) : 0;
}

static int run(const struct args *args)
{
    struct arena a = { 0 };
    int code = check_all(args, &a);

    arena_release(&a);
    return code;
}

const struct command command_check = {
    .name = "check",
    .words = "RECIPE [KEY=VALUE]...",
    .summary = "check a recipe: all findings at once",
    .about = "Reads the recipe with its overrides and tries every rule that needs no other "
             "machine: keys, types, ranges, what fits "
             "with what, and whether the folders it names are there. Prints a finding a line, in "
             "the order of the file; exit code 2 "
             "if one of them is an error.",
    .options = options,
    .examples = examples,
    .least = 1,
    .most = -1,
    .run = run,
};
