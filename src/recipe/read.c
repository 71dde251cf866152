/*
 * recipe_read: tree, overrides, then every key by the table. How values fit together is
 * rules.c.
 */
#include <math.h>
#include <string.h>
#include "base/text.h"
#include "recipe/override.h"
#include "recipe/read_value.h"

/* Whether a value can be read at all; references and "???" are refused by name. */
static bool is_settled(struct reading *r, const char *path, const struct tree *t)
{
    if (t->kind == TREE_TEXT && strstr(t->text, "${") != NULL) {
        findings_add(r->found, FINDING_ERROR, t, path,
                     "%s is '%s': references are not built yet (composition of several files is "
                     "not built yet); write "
                     "the value itself",
                     path, tree_key_is_secret(path) ? "${...}" : tree_clip(r->a, t->text));
        return false;
    }
    if (t->kind == TREE_TEXT && strcmp(t->text, "???") == 0) {
        findings_add(r->found, FINDING_ERROR, t, path,
                     "%s is ???, a value that must be given: %s=...", path, path);
        return false;
    }
    for (size_t i = 0; i < t->count; i++) {
        if (!is_settled(r,
                        t->kind == TREE_MAP
                            ? path_below(r->a, path, tree_clip(r->a, t->keys[i]->text))
                            : path,
                        t->items[i])) {
            return false;
        }
    }
    return true;
}

static void refuse_unknown(struct reading *r, const char *section, const struct tree *key)
{
    static const char *const composing[] = { "defaults",       "hydra",        "recipes",
                                             "cluster",        "cluster_type", "base_results_dir",
                                             "training_config" };
    const char *path = path_below(r->a, section, tree_clip(r->a, key->text));
    const char *nearest;

    for (size_t i = 0; *section == '\0' && i < sizeof composing / sizeof composing[0]; i++) {
        if (strcmp(key->text, composing[i]) == 0) {
            findings_add(r->found, FINDING_ERROR, key, path,
                         "%s belongs to a main configuration, and composition of several files is "
                         "not built yet; give "
                         "the recipe's own file",
                         path);
            return;
        }
    }
    nearest = key_nearest(r->a, section, key->text);
    if (nearest != NULL) {
        findings_add(r->found, FINDING_ERROR, key, path, "%s is not a known key; did you mean %s?",
                     path, nearest);
    } else {
        findings_add(r->found, FINDING_ERROR, key, path,
                     "%s is not a known key (roux keys lists them)", path);
    }
}

static void read_section(struct reading *r, const char *section, const struct tree *map)
{
    for (size_t i = 0; i < map->count && r->found->count <= FINDINGS_MOST; i++) {
        const struct tree *key = map->keys[i], *value = map->items[i];
        const struct key *k = key->kind == TREE_TEXT ? key_find(section, key->text) : NULL;
        const char *path;

        if (k != NULL) {
            if (is_settled(r, key_path(r->a, k), value)) {
                read_value(r, k, value);
            }
            continue;
        }
        path = path_below(r->a, section, key->text);
        if (key->kind != TREE_TEXT || !key_is_section(path)) {
            refuse_unknown(r, section, key);
        } else if (value->kind == TREE_MAP) {
            read_section(r, path, value);
        } else if (value->kind != TREE_NULL) {
            findings_add(r->found, FINDING_ERROR, value, path,
                         "%s is %s; allowed: a map of its keys, or null", path,
                         tree_describe(r->a, value));
        }
    }
}

static void require_keys(struct reading *r)
{
    struct tree file = { .file = r->out->tree->file };
    const struct tree *model = tree_find(r->out->tree, "model");

    if (model == NULL || model->kind == TREE_NULL) {
        findings_add(r->found, FINDING_ERROR, model != NULL ? model : &file, "model",
                     "the section model is required and is not there");
    }
    for (size_t i = 0; i < key_count; i++) {
        const char *path = key_path(r->a, &keys[i]);

        if (keys[i].fallback == NULL && tree_at(r->out->tree, path) == NULL) {
            findings_add(r->found, FINDING_ERROR, &file, path, "%s is required: %s", path,
                         key_allowed(r->a, &keys[i]));
        }
    }
}

/* One note for all keys without effect. */
static void note_idle_keys(struct reading *r)
{
    struct text names = { 0 };

    for (size_t i = 0; i < key_count; i++) {
        const char *path = key_path(r->a, &keys[i]);
        const struct tree *t = keys[i].effect == EFFECT_NONE ? tree_at(r->out->tree, path) : NULL;

        if (t != NULL && t->kind != TREE_NULL) {
            text_add_format(&names, "%s%s", names.length > 0 ? ", " : "", path);
        }
    }
    if (names.length > 0) {
        findings_add(r->found, FINDING_NOTE, NULL, NULL, "without effect here: %s",
                     text_of(&names));
    }
    text_release(&names);
}

static const char *shorter_precision(const char *precision)
{
    static const char *const widths[] = { "bf16", "16", "32", "64" };

    for (size_t i = 0; precision != NULL && i < sizeof widths / sizeof widths[0]; i++) {
        if (strstr(precision, widths[i]) != NULL) {
            return widths[i];
        }
    }
    return precision;
}

/* model.precision, else trainer.precision, in its short form. */
static void settle_precision(struct recipe *out)
{
    const char *precision = shorter_precision(
        out->model.precision != NULL ? out->model.precision : out->trainer.precision);

    out->trainer.precision = precision;
    out->model.precision = precision;
}

/* Values that follow from others, and the reference's defaults that mean something else on this
 * machine. */
static void settle(struct reading *r)
{
    struct recipe *out = r->out;
    const struct tree *data = tree_at(out->tree, "model.data");

    settle_precision(out);
    if (out->model.num_layers != 0) {
        out->model.num_hidden_layers = out->model.num_layers;
    }
    if (out->model.num_heads != 0) {
        out->model.num_attention_heads = out->model.num_heads;
    }
    if (isnan(out->model.rms_norm_eps)) {
        out->model.rms_norm_eps = out->model.layernorm_epsilon;
    }
    if (out->model.max_position_embeddings == 0) {
        out->model.max_position_embeddings = out->model.max_context_width;
    }
    if (out->model.lr_decay_iters == 0 || !recipe_given(out, "model.lr_decay_iters")) {
        out->model.lr_decay_iters = out->trainer.max_steps;
    }
    if (data == NULL || data->kind == TREE_NULL ||
        strcmp(out->model.data.dataset_type, "synthetic") == 0) {
        out->model.data.use_synthetic_data = true;
    }
    if (!recipe_given(out, "model.fp8")) {
        findings_add(r->found, FINDING_NOTE, NULL, "model.fp8",
                     "model.fp8 is left out: off on this device (the reference would turn it on)");
        out->model.fp8 = false;
    }
}

static status findings_status(const struct findings *f, const char *path, int before)
{
    int errors = findings_errors(f) - before;
    const struct finding *first = f->items;

    if (errors == 0) {
        return OK;
    }
    while (first->kind != FINDING_ERROR) {
        first++;
    }
    if (errors > 1) {
        return fail(ERR_RECIPE, "%s: %d errors, the first: %s", path, errors, first->text);
    }
    if (first->line == 0) {
        return fail(ERR_RECIPE, "%s: %s", first->file != NULL ? first->file : path, first->text);
    }
    return fail(ERR_RECIPE, "%s:%d:%d: %s", first->file, first->line, first->column, first->text);
}

/* What the tree's reading had to say. */
static void add_faults(struct reading *r, const char *name, const struct tree_faults *faults)
{
    for (int i = 0; i < faults->count; i++) {
        const struct tree_fault *fault = &faults->item[i];
        struct tree at = { .file = arena_text(r->a, name),
                           .line = fault->line,
                           .column = fault->column };

        findings_add(r->found, FINDING_ERROR, &at, NULL, "%s", fault->text);
    }
}

static void read_root(struct reading *r, struct tree *root, const char *const *overrides,
                      int override_count)
{
    if (root->kind == TREE_LIST) {
        findings_add(r->found, FINDING_ERROR, root, NULL,
                     "the file is a list, a map of keys is needed");
        return;
    }
    for (int i = 0; i < override_count; i++) {
        override_apply(root, overrides[i], i + 1, r->found, r->a);
    }
    r->out->tree = root;
    read_section(r, "", root);
    require_keys(r);
    note_idle_keys(r);
    settle(r);
}

/* `bytes` is NULL where the file `name` is to be read. */
static status read_recipe(struct reading *r, const char *name, const char *bytes, size_t length,
                          const char *const *overrides, int override_count)
{
    struct tree_faults faults;
    struct tree *root = NULL;
    int before = findings_errors(r->found);
    status s;

    r->found->arena = r->found->arena != NULL ? r->found->arena : r->a;
    *r->out = (struct recipe){ 0 };
    read_defaults(r);
    s = bytes == NULL ? tree_read(&root, &faults, r->a, name)
                      : tree_parse(&root, &faults, r->a, name, bytes, length);
    if (s != OK) {
        add_faults(r, name, &faults);
    }
    if (root != NULL) {
        read_root(r, root, overrides, override_count);
    }
    return findings_status(r->found, name, before);
}

status recipe_read(struct recipe *out, struct findings *found, struct arena *a, const char *path,
                   const char *const *overrides, int override_count)
{
    struct reading r = { .out = out, .found = found, .a = a };

    return read_recipe(&r, path, NULL, 0, overrides, override_count);
}

status recipe_parse(struct recipe *out, struct findings *found, struct arena *a, const char *name,
                    const char *bytes, size_t length, const char *const *overrides,
                    int override_count)
{
    struct reading r = { .out = out, .found = found, .a = a };

    check(bytes != NULL, "recipe_parse without a text");
    return read_recipe(&r, name, bytes, length, overrides, override_count);
}

bool recipe_given(const struct recipe *r, const char *key)
{
    return r->tree != NULL && tree_at(r->tree, key) != NULL;
}
