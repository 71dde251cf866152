#include "recipe/read_value.h"
#include <math.h>
#include <string.h>
#include "recipe/override.h"

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

void read_value(struct reading *r, const struct key *k, const struct tree *t)
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

void read_defaults(struct reading *r)
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
