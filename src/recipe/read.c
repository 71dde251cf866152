/*
 * recipe_read: tree, overrides, then every key by the table. Values are checked one by one here; how they fit together is
 * rules.c.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "recipe/keys.h"
#include "recipe/override.h"

struct reading {
    struct recipe *out;
    struct findings *found;
    struct arena *a;
    bool is_default; /* the values read now are the table's own */
};

static void *field_of(struct recipe *r, const struct key *k)
{
    return (char *)r + k->offset;
}

/* "model.optim.lr is the text 'fast'; allowed: a number, 0 or more" */
static void refuse_value(struct reading *r, const struct key *k, const struct tree *t,
                         const char *hint)
{
    const char *path = key_path(r->a, k);
    const char *what = tree_key_is_secret(k->name) ? "of another kind" : tree_describe(r->a, t);

    check(!r->is_default, "keys.def: the default of %s is %s; allowed: %s", path, what,
          key_allowed(r->a, k));
    findings_add(r->found, FINDING_ERROR, t, path, "%s is %s; allowed: %s%s", path, what,
                 key_allowed(r->a, k), hint);
}

static bool in_range(const struct key *k, double value)
{
    double low, high;

    key_range(k, &low, &high);
    return isfinite(value) && value >= low && value <= high;
}

/* Integers, and floats that are whole: 1e3 is a good number of steps. */
static bool whole_of(const struct tree *t, int64_t *whole)
{
    if (t->kind == TREE_INT) {
        *whole = t->whole;
        return true;
    }
    if (t->kind == TREE_FLOAT && fabs(t->number) < 0x1p53 && t->number == floor(t->number)) {
        *whole = (int64_t)t->number;
        return true;
    }
    return false;
}

static bool number_of(const struct tree *t, double *number)
{
    *number = t->kind == TREE_INT ? (double)t->whole : t->number;
    return t->kind == TREE_INT || t->kind == TREE_FLOAT;
}

/* A number that somebody quoted deserves to hear it. */
static const char *quotes_hint(const struct tree *t)
{
    struct tree plain = { 0 };

    return t->kind == TREE_TEXT && tree_scalar(&plain, t->text) && plain.kind != TREE_TEXT &&
                   plain.kind != TREE_NULL
               ? "; write it without quotes"
               : "";
}

static void read_int(struct reading *r, const struct key *k, const struct tree *t)
{
    int64_t whole;

    if (!whole_of(t, &whole) || !in_range(k, (double)whole)) {
        refuse_value(r, k, t, quotes_hint(t));
        return;
    }
    *(recipe_int *)field_of(r->out, k) = whole;
}

static void read_count(struct reading *r, const struct key *k, const struct tree *t)
{
    if (t->kind == TREE_TEXT && strcmp(t->text, "auto") == 0) {
        *(recipe_count *)field_of(r->out, k) = 0;
        return;
    }
    read_int(r, k, t);
}

static void read_float(struct reading *r, const struct key *k, const struct tree *t)
{
    double number;

    if (!number_of(t, &number) || !in_range(k, number)) {
        refuse_value(r, k, t, quotes_hint(t));
        return;
    }
    *(recipe_float *)field_of(r->out, k) = number;
}

static void read_bool(struct reading *r, const struct key *k, const struct tree *t)
{
    if (t->kind != TREE_BOOL) {
        refuse_value(r, k, t, quotes_hint(t));
        return;
    }
    *(recipe_bool *)field_of(r->out, k) = t->truth;
}

static void read_text(struct reading *r, const struct key *k, const struct tree *t)
{
    if (t->kind != TREE_TEXT) {
        bool scalar = t->kind != TREE_LIST && t->kind != TREE_MAP && t->kind != TREE_NULL;

        refuse_value(r, k, t, scalar ? "; quote it if it is a text" : "");
        return;
    }
    *(recipe_text *)field_of(r->out, k) = t->text;
}

/* Precisions may be written as integers. */
static void read_choice(struct reading *r, const struct key *k, const struct tree *t)
{
    const char *text = t->kind == TREE_TEXT || t->kind == TREE_INT ? t->text : "";
    const char *nearest;

    if (!key_has_choice(k, text)) {
        nearest = key_nearest_choice(r->a, k, text);
        refuse_value(r, k, t,
                     nearest != NULL ? arena_format(r->a, "; did you mean %s?", nearest) : "");
        return;
    }
    *(recipe_choice *)field_of(r->out, k) = text;
}

static void read_texts(struct reading *r, const struct key *k, const struct tree *t)
{
    recipe_texts *list = field_of(r->out, k);
    size_t count = t->kind == TREE_LIST ? t->count : 1;
    const char **items = arena_take_array(r->a, count, sizeof *items);

    for (size_t i = 0; i < count; i++) {
        const struct tree *item = t->kind == TREE_LIST ? t->items[i] : t;

        if (item->kind != TREE_TEXT) {
            refuse_value(r, k, item, "");
            return;
        }
        items[i] = item->text;
    }
    list->item = items;
    list->count = (int)count;
}

static void read_numbers(struct reading *r, const struct key *k, const struct tree *t)
{
    recipe_numbers *list = field_of(r->out, k);
    double *items;

    if (t->kind != TREE_LIST) {
        refuse_value(r, k, t, "");
        return;
    }
    items = arena_take_array(r->a, t->count, sizeof *items);
    for (size_t i = 0; i < t->count; i++) {
        if (!number_of(t->items[i], &items[i]) || !in_range(k, items[i])) {
            refuse_value(r, k, t->items[i], quotes_hint(t->items[i]));
            return;
        }
    }
    list->item = items;
    list->count = (int)t->count;
}

static void read_amount(struct reading *r, const struct key *k, const struct tree *t)
{
    recipe_amount *amount = field_of(r->out, k);
    double number;

    if (!number_of(t, &number) || !in_range(k, number) ||
        (t->kind == TREE_FLOAT && (number < 0 || number > 1))) {
        refuse_value(r, k, t, quotes_hint(t));
        return;
    }
    *amount = (struct amount){ .value = number, .is_share = t->kind == TREE_FLOAT };
}

static void read_map(struct reading *r, const struct key *k, const struct tree *t)
{
    if (t->kind != TREE_MAP) {
        refuse_value(r, k, t, "");
        return;
    }
    *(recipe_map *)field_of(r->out, k) = t;
}

static void read_null(struct reading *r, const struct key *k, const struct tree *t)
{
    if (!key_is_nullable(k)) {
        refuse_value(r, k, t,
                     k->fallback != NULL ? arena_format(r->a, "; left out it is %s", k->fallback)
                                         : "");
        return;
    }
    switch (k->type) {
    case TYPE_INT:
    case TYPE_COUNT:
        *(recipe_int *)field_of(r->out, k) = 0;
        break;
    case TYPE_FLOAT:
        *(recipe_float *)field_of(r->out, k) = NAN;
        break;
    case TYPE_BOOL:
        *(recipe_bool *)field_of(r->out, k) = false;
        break;
    case TYPE_TEXT:
    case TYPE_CHOICE:
        *(recipe_text *)field_of(r->out, k) = NULL;
        break;
    case TYPE_TEXTS:
        *(recipe_texts *)field_of(r->out, k) = (recipe_texts){ 0 };
        break;
    case TYPE_NUMBERS:
        *(recipe_numbers *)field_of(r->out, k) = (recipe_numbers){ 0 };
        break;
    case TYPE_AMOUNT:
        *(recipe_amount *)field_of(r->out, k) = (recipe_amount){ 0 };
        break;
    case TYPE_MAP:
        *(recipe_map *)field_of(r->out, k) = NULL;
        break;
    }
}

static void read_value(struct reading *r, const struct key *k, const struct tree *t)
{
    typedef void read_fn(struct reading * r, const struct key *k, const struct tree *t);
    static read_fn *const by_type[] = {
        [TYPE_INT] = read_int,     [TYPE_COUNT] = read_count,     [TYPE_FLOAT] = read_float,
        [TYPE_BOOL] = read_bool,   [TYPE_TEXT] = read_text,       [TYPE_CHOICE] = read_choice,
        [TYPE_TEXTS] = read_texts, [TYPE_NUMBERS] = read_numbers, [TYPE_AMOUNT] = read_amount,
        [TYPE_MAP] = read_map,
    };

    if (t->kind == TREE_NULL) {
        read_null(r, k, t);
    } else {
        by_type[k->type](r, k, t);
    }
}

static void read_defaults(struct reading *r)
{
    const struct tree nowhere = { 0 };

    r->is_default = true;
    for (size_t i = 0; i < key_count; i++) {
        const char *problem = NULL;
        const struct tree *t;

        if (keys[i].fallback == NULL) {
            continue;
        }
        t = override_value(r->a, keys[i].fallback, &nowhere, &problem);
        check(t != NULL, "keys.def: the default of %s.%s: %s", keys[i].section, keys[i].name,
              problem);
        read_value(r, &keys[i], t);
    }
    r->is_default = false;
}

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

/* model.precision, else trainer.precision, in its short form; bf16 is not built yet and computed in 32. */
static void settle_precision(struct reading *r)
{
    struct recipe *out = r->out;
    const char *key = out->model.precision != NULL ? "model.precision" : "trainer.precision";
    const char *precision = shorter_precision(
        out->model.precision != NULL ? out->model.precision : out->trainer.precision);

    if (strcmp(precision, "bf16") == 0) {
        if (!findings_have_error(r->found, key)) {
            findings_add(r->found, FINDING_WARNING, tree_at(out->tree, key), key,
                         "%s is bf16%s, which is computed as 32 here for now; trainer.precision=32 "
                         "says so too",
                         key, recipe_given(out, key) ? "" : " (its default)");
        }
        precision = "32";
    }
    out->trainer.precision = precision;
    out->model.precision = precision;
}

/* Values that follow from others, and the reference's defaults that mean something else on this machine. */
static void settle(struct reading *r)
{
    struct recipe *out = r->out;
    const struct tree *data = tree_at(out->tree, "model.data");

    settle_precision(r);
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
