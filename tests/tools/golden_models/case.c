/* One case: a probe in every form of its folder, and greedy tokens. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "infer/infer.h"
#include "tools/golden_models/golden.h"

struct tolerance {
    double logits, loss, gradient;
};

static const struct tolerance in_double = { 1e-11, 1e-12, 2e-7 }, in_float = { 3e-5, 1e-6, 1e-5 };

/* ---- one probe ---- */

struct probing {
    struct golden *g;
    struct arena arena;
    const char *name, *model, *batch, *truth; /* of the check; folder; files */
    const char *out;
    int precision;
    bool recompute;
};

static bool probe(struct probing *p)
{
    struct comm alone;
    struct probe_report report;
    struct probe_options o = { .model = p->model, .batch = p->batch, .out = p->out, .recompute = p->recompute,
                               .real = p->precision == 64 ? DT_F64 : DT_F32 };
    status s;

    comm_alone(&alone);
    s = probe_run(&o, &alone, &p->arena, &report);
    comm_close(&alone);
    if (s != OK) {
        tally_fail(&p->g->tally, p->name, fail_text());
    }
    return s == OK;
}

static const char *check_name(struct probing *p, const char *what)
{
    return arena_format(&p->arena, "%s %d%s: %s", p->name, p->precision, p->recompute ? " recompute" : "", what);
}

static void compare_tensor(struct probing *p, const struct tensor_file *got, const char *name, const struct tensor_file *want,
                           const char *as, const char *what, double tolerance)
{
    int64_t n = 0, m = 0;
    double *x = golden_tensor(p->g, &p->arena, got, name, &n), *y = golden_tensor(p->g, &p->arena, want, as, &m);

    if (x == NULL || y == NULL || n != m) {
        golden_verdict(p->g, check_name(p, what), false, "tensors of different sizes, or missing");
    } else if (strcmp(what, "loss") == 0) {
        golden_figure(p->g, check_name(p, what), relative(x[0], y[0]), tolerance, NULL);
    } else {
        golden_figure(p->g, check_name(p, what), worst_difference(x, y, n), tolerance, NULL);
    }
}

/* Every gradient of the truth, and no other. */
static void compare_gradients(struct probing *p, const struct tensor_file *got, const struct tensor_file *want, double tolerance)
{
    double worst = 0;
    const char *at = NULL;
    size_t ours = 0, theirs = 0;

    for (size_t i = 0; i < got->count; i++) {
        ours += text_starts(got->entries[i].name, "grad.");
    }
    for (size_t i = 0; i < want->count; i++) {
        const char *name = want->entries[i].name;
        int64_t n = 0, m = 0;
        double *x, *y, d = INFINITY;

        if (!text_starts(name, "grad.")) {
            continue;
        }
        theirs++;
        x = golden_tensor(p->g, &p->arena, got, name, &n);
        y = golden_tensor(p->g, &p->arena, want, name, &m);
        if (x != NULL && y != NULL && n == m) {
            d = worst_by_largest(x, y, n);
        }
        if (!(d <= worst)) {
            worst = d;
            at = name;
        }
    }
    golden_figure(p->g, check_name(p, "gradients"), theirs == 0 ? NAN : worst, tolerance, at);
    golden_verdict(p->g, check_name(p, "names of gradients"), ours == theirs,
                   arena_format(&p->arena, "%zu of %zu", ours, theirs));
}

static void compare_with_truth(struct probing *p)
{
    const struct tolerance *t = p->precision == 64 ? &in_double : &in_float;
    struct tensor_file got = { 0 }, want = { 0 };

    if (tensor_file_open(&got, &p->arena, p->out) != OK || tensor_file_open(&want, &p->arena, p->truth) != OK) {
        tally_fail(&p->g->tally, p->name, fail_text());
    } else {
        compare_tensor(p, &got, "logits", &want, "logits.f64", "logits", t->logits);
        compare_tensor(p, &got, "loss", &want, "loss.f64", "loss", t->loss);
        compare_gradients(p, &got, &want, t->gradient);
    }
    tensor_file_close(&got);
    tensor_file_close(&want);
}

static void same_file(struct probing *p, const char *other, const char *what)
{
    char *a = NULL, *b = NULL;
    size_t n = 0, m = 0;
    bool same = file_read(&p->arena, p->out, 1 << 28, &a, &n) == OK && file_read(&p->arena, other, 1 << 28, &b, &m) == OK &&
                n == m && memcmp(a, b, n) == 0;

    golden_verdict(p->g, check_name(p, what), same, same ? "equal bits" : "bits differ");
}

/* ---- the forms of a folder ---- */

static bool is_there(const char *path)
{
    return access(path, R_OK) == 0;
}

/* The same weights with the configuration as older files have it. */
static const char *older_folder(struct probing *p, const char *folder)
{
    const char *made = arena_format(&p->arena, "%s/older", p->g->work), *work = made;
    char here[PATH];
    const char *whole = folder[0] == '/' || getcwd(here, sizeof here) == NULL ? folder : arena_format(&p->arena, "%s/%s", here, folder);

    if (folder_remove(made) != OK || folder_make(made) != OK ||
        symlink(arena_format(&p->arena, "%s/config.older.json", whole), arena_format(&p->arena, "%s/config.json", work)) != 0 ||
        symlink(arena_format(&p->arena, "%s/model.safetensors", whole), arena_format(&p->arena, "%s/model.safetensors", work)) != 0) {
        return NULL;
    }
    return made;
}

static void probe_equal(struct probing *p, const char *model, const char *base, const char *what)
{
    struct probing other = *p;

    other.model = model;
    other.precision = 64;
    other.out = arena_format(&p->arena, "%s/other.safetensors", p->g->work);
    if (model == NULL) {
        tally_fail(&p->g->tally, what, "the folder could not be made");
    } else if (probe(&other)) {
        same_file(&other, base, what);
    }
}

static void probe_forms(struct probing *p, const char *folder)
{
    const char *base = arena_format(&p->arena, "%s/64.safetensors", p->g->work);
    const char *sharded = arena_format(&p->arena, "%s/sharded", folder), *rounded = arena_format(&p->arena, "%s/bf16", folder);

    p->precision = 32;
    p->out = arena_format(&p->arena, "%s/32.safetensors", p->g->work);
    if (probe(p)) {
        compare_with_truth(p);
    }
    p->precision = 64;
    p->out = base;
    if (!probe(p)) {
        return;
    }
    compare_with_truth(p);
    p->recompute = true;
    probe_equal(p, p->model, base, "as without");
    p->recompute = false;
    if (is_there(arena_format(&p->arena, "%s/config.older.json", folder))) {
        probe_equal(p, older_folder(p, folder), base, "config.older.json");
    }
    if (is_there(sharded)) {
        probe_equal(p, sharded, base, "sharded");
    }
    if (is_there(rounded)) {
        struct probing other = *p;

        other.name = arena_format(&p->arena, "%s bf16 weights", p->name);
        other.model = rounded;
        other.truth = arena_format(&p->arena, "%s/case.safetensors", rounded);
        other.out = arena_format(&p->arena, "%s/bf16.safetensors", p->g->work);
        if (probe(&other)) {
            compare_with_truth(&other);
        }
    }
}

/* ---- greedy tokens ---- */

struct collected {
    const json_t *want;
    size_t count;
    bool same;
};

static status collect(void *user, int64_t id)
{
    struct collected *c = user;

    c->same = c->same && id == json_integer_value(json_array_get(c->want, c->count));
    c->count++;
    return OK;
}

static void check_sequence(struct probing *p, const json_t *sequence, size_t number)
{
    const json_t *prompt = json_object_get(sequence, "prompt");
    struct collected c = { .want = json_object_get(sequence, "tokens"), .same = true };
    int64_t *ids = arena_take_array(&p->arena, json_array_size(prompt) + 1, sizeof *ids);
    struct generate_options o = { .model = p->model, .prompt = ids, .prompt_count = (int64_t)json_array_size(prompt),
                                  .most = (int64_t)json_array_size(c.want), .real = p->precision == 64 ? DT_F64 : DT_F32 };
    struct generate_report report;
    const char *name = check_name(p, arena_format(&p->arena, "greedy tokens %zu", number));

    for (size_t i = 0; i < json_array_size(prompt); i++) {
        ids[i] = json_integer_value(json_array_get(prompt, i));
    }
    if (generate_run(&o, collect, &c, &report) != OK) {
        tally_fail(&p->g->tally, name, fail_text());
    } else {
        golden_verdict(p->g, name, c.same && c.count == json_array_size(c.want), c.same ? "exact" : "another token");
    }
}

static void generate_all(struct probing *p, const char *folder)
{
    json_t *file = golden_json(p->g, arena_format(&p->arena, "%s/generate.json", folder)), *sequence;
    size_t i;

    for (p->precision = 32; p->precision <= 64; p->precision += 32) {
        json_array_foreach(json_object_get(file, "sequences"), i, sequence) {
            check_sequence(p, sequence, i);
        }
    }
    json_decref(file);
}

void golden_case(struct golden *g, const char *name)
{
    struct probing p = { .g = g, .name = name };
    const char *folder = arena_format(&p.arena, "%s/%s", g->folder, name);

    p.model = folder;
    p.batch = p.truth = arena_format(&p.arena, "%s/case.safetensors", folder);
    probe_forms(&p, folder);
    generate_all(&p, folder);
    arena_release(&p.arena);
}
