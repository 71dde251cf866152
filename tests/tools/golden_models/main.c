/*
 * golden_models DIR: checks what DIR holds, in the form that tests/golden/models/README.md describes: cases of families that
 * are built, single operations, learning rates. A line a check, with figure and tolerance; exit code 1 if one failed.
 *
 * ROUX_PROGRAM names the program whose steps are checked; else it is ../roux beside this one.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "model/family.h"
#include "tools/golden_models/golden.h"

void golden_figure(struct golden *g, const char *name, double figure, double tolerance, const char *at)
{
    char text[GOLDEN_WHY];

    snprintf(text, sizeof text, "%.2e of %.2e%s%s", figure, tolerance, at == NULL ? "" : " at ", at == NULL ? "" : at);
    golden_verdict(g, name, figure <= tolerance, text);
}

void golden_verdict(struct golden *g, const char *name, bool good, const char *why)
{
    if (good) {
        tally_pass(&g->tally, name, why);
    } else {
        tally_fail(&g->tally, name, why);
    }
    fflush(stdout);
}

json_t *golden_json(struct golden *g, const char *path)
{
    json_error_t error;
    json_t *value = json_load_file(path, 0, &error);

    if (value == NULL) {
        tally_fail(&g->tally, path, error.text);
    }
    return value;
}

double golden_number(const json_t *from, const char *key, double fallback)
{
    const json_t *value = json_object_get(from, key);

    return json_is_number(value) ? json_number_value(value) : fallback;
}

double *golden_tensor(struct golden *g, struct arena *a, const struct tensor_file *f, const char *name, int64_t *count)
{
    const struct tensor_entry *e = tensor_file_find(f, name);
    double *values;

    if (e == NULL) {
        tally_fail(&g->tally, name, f->path == NULL ? "no file" : "no such tensor");
        return NULL;
    }
    values = arena_take_array(a, (size_t)e->count, sizeof *values);
    *count = e->count;
    if (tensor_file_read(f, e, 0, e->count, DT_F64, values) != OK) {
        tally_fail(&g->tally, name, fail_text());
        return NULL;
    }
    return values;
}

double worst_difference(const double *got, const double *want, int64_t count)
{
    double worst = 0;

    for (int64_t i = 0; i < count; i++) {
        double d = fabs(got[i] - want[i]);

        worst = d > worst || isnan(d) ? d : worst;
        if (isnan(d)) {
            break;
        }
    }
    return worst;
}

double worst_by_largest(const double *got, const double *want, int64_t count)
{
    double worst = worst_difference(got, want, count), largest = 0;

    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(want[i]));
    }
    return worst == 0 ? 0 : worst / largest;
}

double relative(double got, double want)
{
    return got == want ? 0 : fabs(got - want) / fabs(want);
}

/* The family by config.json's word; NULL where it is not built. */
static bool is_built(struct golden *g, const char *name, char type[64])
{
    char path[PATH];
    json_t *config;
    bool built;

    snprintf(path, sizeof path, "%s/%s/config.json", g->folder, name);
    config = golden_json(g, path);
    snprintf(type, 64, "%s", config == NULL ? "" : json_string_value(json_object_get(config, "model_type")));
    built = *type != 0 && family_find(type) != NULL;
    json_decref(config);
    return built;
}

static void all_cases(struct golden *g)
{
    char path[PATH], type[64];
    json_t *index, *unused;
    const char *name;

    snprintf(path, sizeof path, "%s/index.json", g->folder);
    index = golden_json(g, path);
    json_object_foreach(json_object_get(index, "cases"), name, unused) {
        if (is_built(g, name, type)) {
            golden_case(g, name);
            golden_steps(g, name, name, 64);
            golden_steps(g, name, name, 32);
        } else if (*type != 0) {
            tally_skip(&g->tally, name, arena_format(&(struct arena) { 0 }, "the family %s is not built", type));
        }
    }
    json_decref(index);
}

static void find_program(const char *self)
{
    const char *slash = strrchr(self, '/');
    char path[PATH];

    if (getenv("ROUX_PROGRAM") == NULL) {
        snprintf(path, sizeof path, "%.*s/../roux", slash == NULL ? 1 : (int)(slash - self), slash == NULL ? "." : self);
        setenv("ROUX_PROGRAM", path, 1);
    }
}

int main(int argc, char **argv)
{
    const char *temporary = getenv("TMPDIR");
    char work[PATH];
    struct golden g = { .folder = argc == 2 ? argv[1] : NULL, .work = work };

    if (argc != 2) {
        fprintf(stderr, "usage: golden_models DIR\n");
        return 2;
    }
    find_program(argv[0]);
    log_set_level(LOG_ERROR);
    snprintf(work, sizeof work, "%s/golden_models.XXXXXX", temporary != NULL ? temporary : "/tmp");
    if (mkdtemp(work) == NULL) {
        perror(work);
        return 1;
    }
    golden_schedule(&g);
    golden_kernels(&g);
    all_cases(&g);
    if (folder_remove(work) != OK) {
        fprintf(stderr, "%s\n", fail_text());
    }
    return tally_close(&g.tally);
}
