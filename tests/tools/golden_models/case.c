/* One forward and backward pass of a case, and what must not change a bit of it; greedy tokens. */
#include "tools/golden_models/golden.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/text.h"
#include "infer/infer.h"
#include "model/model.h"

static const enum dtype reals[] = { DT_F64, DT_F32 };

/* ---- against the truth ---- */

typedef double apart_fn(const double *found, const double *truth, int64_t count);

/* The largest difference, against the largest magnitude. */
static double apart_most(const double *found, const double *truth, int64_t count)
{
    double apart = largest_difference(found, truth, count);

    return apart == 0 ? 0 : apart / largest_magnitude(truth, count);
}

static double rms_difference(const double *x, const double *y, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++) {
        sum += (x[i] - y[i]) * (x[i] - y[i]);
    }
    return count == 0 ? 0 : sqrt(sum / (double)count);
}

static double apart_rms(const double *found, const double *truth, int64_t count)
{
    double *zeros = calloc((size_t)count, sizeof *zeros), apart, size;

    check(zeros != NULL, "out of memory");
    apart = rms_difference(found, truth, count);
    size = rms_difference(truth, zeros, count);
    free(zeros);
    return apart == 0 ? 0 : apart / size;
}

static status see_gradients(const struct pass *p, struct arena *a, const struct tensor_file *f,
                            apart_fn *apart, double tolerance, struct worst *w)
{
    size_t found = 0;

    for (size_t i = 0; i < f->count; i++) {
        const char *name = f->entries[i].name + strlen("grad.");
        const struct gradient *mine;
        double *truth;
        void *entry;

        if (!text_starts(f->entries[i].name, "grad.")) {
            continue;
        }
        if (!map_find(&p->gradients, name, &entry)) {
            return fail(ERR_FORMAT, "%s has no counterpart in the model that was built",
                        f->entries[i].name);
        }
        mine = entry;
        TRY(tensor_take(f, a, f->entries[i].name, mine->count, &truth));
        worst_see(w, apart(mine->values, truth, mine->count), tolerance, name);
        found++;
    }
    if (found != p->gradients.count) {
        return fail(ERR_FORMAT, "the model has %zu weights, but %s has %zu gradients",
                    p->gradients.count, f->path, found);
    }
    return OK;
}

static status see_numbers(struct golden *g, const char *name, const struct pass *p, struct arena *a,
                          const struct tensor_file *f)
{
    const struct tolerances *t = tolerances_of(p->real);
    int64_t count = p->batch->B * p->batch->S * p->vocab;
    struct worst gradients = { 0 };
    double *logits, *loss;

    TRY(tensor_take(f, a, "logits.f64", count, &logits));
    TRY(tensor_take(f, a, "loss.f64", 1, &loss));
    TRY(see_gradients(p, a, f, apart_most, t->gradient, &gradients));
    check_figure(g, largest_difference(p->logits, logits, count), t->logits, "%s %s: logits", name,
                 real_name(p->real));
    check_figure(g, relative(p->loss, *loss), t->loss, "%s %s: loss", name, real_name(p->real));
    check_worst(g, &gradients, "%s %s: gradients", name, real_name(p->real));
    return OK;
}

/* ---- what must give the same bits ---- */

static void expect_same(struct golden *g, const char *name, const char *what,
                        const struct pass *base, struct pass *other, struct arena *a)
{
    const char *differs;

    if (check_ok(g, pass_run(other, a), "%s %s: %s", name, real_name(base->real), what)) {
        differs = pass_difference(base, other);
        check_true(g, differs == NULL, "%s %s: %s: %s%s", name, real_name(base->real), what,
                   differs == NULL ? "the same bits" : "differs in ",
                   differs == NULL ? "" : differs);
    }
    pass_release(other);
}

static struct pass like(const struct pass *p, const char *folder)
{
    return (struct pass){ .folder = folder,
                          .batch = p->batch,
                          .real = p->real,
                          .flags = p->flags,
                          .threads = p->threads };
}

/* A folder with the older configuration and links to the same weights. */
static status older_folder(const struct golden *g, const struct golden_case *c, struct arena *a,
                           const char **out)
{
    char *bytes, **names;
    size_t length, count;

    *out = arena_format(a, "%s/older-%s", g->temporary, c->name);
    if (file_is_folder(*out)) {
        return OK;
    }
    TRY(file_read(a, path_join(a, c->folder, "config.older.json"), 1 << 20, &bytes, &length));
    TRY(folder_make(*out));
    TRY(file_replace(path_join(a, *out, "config.json"), bytes, length));
    TRY(folder_list(a, c->folder, &names, &count));
    for (size_t i = 0; i < count; i++) {
        const char *link = path_join(a, *out, names[i]);

        if (text_starts(names[i], "model") &&
            symlink(path_join(a, c->folder, names[i]), link) != 0) {
            return fail(ERR_IO, "%s: %s", link, strerror(errno));
        }
    }
    return OK;
}

static void same_bits(struct golden *g, const struct golden_case *c, const struct rows *rows,
                      const struct pass *base, struct arena *a)
{
    struct pass other = like(base, c->folder);
    const char *sharded = path_join(a, c->folder, "sharded"), *older;
    struct batch batch;

    other.flags ^= MODEL_RECOMPUTE;
    other.threads = 2;
    expect_same(g, c->name, "layers recomputed, two threads", base, &other, a);
    if (rows->positions != NULL) {
        other = like(base, c->folder);
        rows_batch(rows, a, PACKED_BY_POSITIONS, &batch);
        other.batch = &batch;
        expect_same(g, c->name, "documents by position_ids alone", base, &other, a);
    }
    if (file_is_there(path_join(a, c->folder, "config.older.json")) &&
        check_ok(g, older_folder(g, c, a, &older), "%s config.older.json", c->name)) {
        other = like(base, older);
        expect_same(g, c->name, "config.older.json", base, &other, a);
    }
    if (file_is_folder(sharded)) {
        other = like(base, sharded);
        expect_same(g, c->name, "sharded/", base, &other, a);
    }
}

/* ---- the passes of a case ---- */

static void pass_in(struct golden *g, const struct golden_case *c, const struct rows *rows,
                    const struct tensor_file *f, enum dtype real)
{
    struct arena a = { 0 };
    struct batch batch;
    struct pass p = { .folder = c->folder, .batch = &batch, .real = real, .threads = 1 };

    rows_batch(rows, &a, PACKED_BY_DOCUMENTS, &batch);
    if (check_ok(g, pass_run(&p, &a), "%s %s: pass", c->name, real_name(real)) &&
        check_ok(g, see_numbers(g, c->name, &p, &a, f), "%s %s: pass", c->name, real_name(real))) {
        same_bits(g, c, rows, &p, &a);
    }
    pass_release(&p);
    arena_release(&a);
}

/* The README's row for bf16 compute: logits (largest difference, rms), loss (relative), gradients (rms
 * by tensor, relative). The library's own bf16 run is stored; ours is off by at most twice as much. */
static status see_bf16(struct golden *g, const char *name, const struct pass *p, struct arena *a,
                       const struct tensor_file *f)
{
    int64_t count = p->batch->B * p->batch->S * p->vocab;
    struct worst gradients = { 0 };
    double *truth, *theirs, *loss;

    TRY(tensor_take(f, a, "logits.f64", count, &truth));
    TRY(tensor_take(f, a, "logits.bf16", count, &theirs));
    TRY(tensor_take(f, a, "loss.f64", 1, &loss));
    TRY(see_gradients(p, a, f, apart_rms, 0.1, &gradients));
    check_figure(g, largest_difference(p->logits, truth, count), 0.25, "%s: logits", name);
    check_figure(g, rms_difference(p->logits, truth, count), 0.03, "%s: logits, rms", name);
    check_figure(g, largest_difference(p->logits, truth, count),
                 2 * largest_difference(theirs, truth, count),
                 "%s: logits, at most twice the library's bf16", name);
    check_figure(g, rms_difference(p->logits, truth, count),
                 2 * rms_difference(theirs, truth, count),
                 "%s: logits, rms, at most twice the library's bf16", name);
    check_figure(g, relative(p->loss, *loss), 3e-3, "%s: loss", name);
    check_worst(g, &gradients, "%s: gradients, rms by tensor", name);
    return OK;
}

/* By every family of this processor. */
static void compute_in_bf16(struct golden *g, const char *folder, const char *label,
                            const struct batch *batch, const struct tensor_file *f)
{
    const struct kernels *all[8];
    size_t n = kernels_all(DT_BF16, all);
    const char *before = getenv("ROUX_ISA");
    struct arena a = { 0 };

    before = before == NULL ? NULL : arena_text(&a, before);
    for (size_t i = 0; i < n; i++) {
        struct pass p = { .folder = folder, .batch = batch, .real = DT_BF16, .threads = 1 };
        const char *name = arena_format(&a, "%s bf16 by %s", label, all[i]->family);

        setenv("ROUX_ISA", all[i]->family, 1);
        if (check_ok(g, pass_run(&p, &a), "%s: pass", name)) {
            (void)check_ok(g, see_bf16(g, name, &p, &a, f), "%s: pass", name);
        }
        pass_release(&p);
    }
    if (before == NULL) {
        unsetenv("ROUX_ISA");
    } else {
        setenv("ROUX_ISA", before, 1);
    }
    arena_release(&a);
}

/* Rounded weights: in double, which the truth of bf16/ is for, and computed in bf16. */
static void pass_of_bf16(struct golden *g, const struct golden_case *c, const struct rows *rows)
{
    struct arena a = { 0 };
    struct tensor_file f = { .fd = -1 };
    const char *folder = path_join(&a, c->folder, "bf16"),
               *name = arena_format(&a, "%s/bf16", c->name);
    struct batch batch;
    struct pass p = { .folder = folder, .batch = &batch, .real = DT_F64, .threads = 1 };

    if (!file_is_folder(folder)) {
        arena_release(&a);
        return;
    }
    rows_batch(rows, &a, PACKED_BY_DOCUMENTS, &batch);
    if (check_ok(g, tensor_file_open(&f, &a, path_join(&a, folder, "case.safetensors")), "%s",
                 name)) {
        if (check_ok(g, pass_run(&p, &a), "%s 64: pass", name)) {
            (void)check_ok(g, see_numbers(g, name, &p, &a, &f), "%s 64: pass", name);
        }
        compute_in_bf16(g, folder, name, &batch, &f);
        tensor_file_close(&f);
    }
    pass_release(&p);
    arena_release(&a);
}

void golden_case_pass(struct golden *g, const struct golden_case *c)
{
    struct arena a = { 0 };
    struct tensor_file f = { .fd = -1 };
    struct rows rows;

    if (check_ok(g, tensor_file_open(&f, &a, path_join(&a, c->folder, "case.safetensors")),
                 "%s case.safetensors", c->name)) {
        if (check_ok(g, rows_read(&rows, &a, &f, ""), "%s case.safetensors", c->name)) {
            for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
                pass_in(g, c, &rows, &f, reals[i]);
            }
            pass_of_bf16(g, c, &rows);
        }
        tensor_file_close(&f);
    }
    arena_release(&a);
}

/* ---- greedy tokens ---- */

struct expected {
    const json_t *tokens;
    size_t at, wrong;
};

static status see_token(void *user, int64_t id)
{
    struct expected *e = user;

    e->wrong += json_integer_value(json_array_get(e->tokens, e->at)) != id;
    e->at++;
    return OK;
}

static status generate(const struct golden_case *c, const json_t *prompt, struct expected *e,
                       enum dtype real)
{
    struct generate_options o = { .model = c->folder,
                                  .real = real,
                                  .threads = 1,
                                  .prompt_count = (int64_t)json_array_size(prompt),
                                  .most = (int64_t)json_array_size(e->tokens) };
    struct generate_report report;
    struct arena a = { 0 };
    int64_t *ids = arena_take_array(&a, json_array_size(prompt), sizeof *ids);
    status s;

    for (size_t i = 0; i < json_array_size(prompt); i++) {
        ids[i] = json_integer_value(json_array_get(prompt, i));
    }
    o.prompt = ids;
    s = generate_run(&o, see_token, e, &report);
    arena_release(&a);
    return s;
}

static void generate_in(struct golden *g, const struct golden_case *c, const json_t *sequences,
                        enum dtype real)
{
    for (size_t i = 0; i < json_array_size(sequences); i++) {
        const json_t *sequence = json_array_get(sequences, i);
        struct expected e = { .tokens = json_object_get(sequence, "tokens") };
        size_t count = json_array_size(e.tokens);

        if (check_ok(g, generate(c, json_object_get(sequence, "prompt"), &e, real),
                     "%s %s: greedy tokens %zu", c->name, real_name(real), i)) {
            e.wrong += count - e.at;
            check_true(g, e.wrong == 0 && count > 0,
                       "%s %s: greedy tokens %zu: %zu of %zu differ, at most 0", c->name,
                       real_name(real), i, e.wrong, count);
        }
    }
}

void golden_case_generate(struct golden *g, const struct golden_case *c)
{
    struct arena a = { 0 };
    const char *path = path_join(&a, c->folder, "generate.json");
    json_t *j = NULL;

    if (!file_is_there(path)) {
        check_skip(g, "generate.json is not there", "%s greedy tokens", c->name);
    } else if (check_ok(g, json_take(&a, path, &j), "%s generate.json", c->name)) {
        const json_t *sequences = json_object_get(j, "sequences");

        if (json_array_size(sequences) == 0) {
            check_true(g, false, "%s generate.json: it has no sequences", c->name);
        }
        for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
            generate_in(g, c, sequences, reals[i]);
        }
    }
    json_decref(j);
    arena_release(&a);
}
