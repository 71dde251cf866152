/*
 * golden_models DIR
 *
 * Checks this build against a directory of golden model data, whatever its seeds and shapes: for
 * each case of a family that is built logits, loss and gradients, greedy tokens and 20 optimizer
 * steps; then single operations and the learning-rate schedule. The README of such a directory says
 * what its files hold and how near one must come; in double and in float.
 *
 * A line a check: figure, tolerance, place of the worst. The last line is "N passed, N failed, N
 * skipped". Exit code 0 if nothing failed and something passed, 1 if not, 2 if it was called
 * wrongly or DIR is no such directory.
 *
 * The optimizer steps are those of the program itself: $ROUX_PROGRAM, or else ../roux beside this
 * tool's folder.
 */
#include "tools/golden_models/golden.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "model/family.h"

/* Is the case's family built? Anything else was said. */
static bool case_is_built(struct golden *g, const struct golden_case *c, struct arena *a)
{
    const char *path = path_join(a, c->folder, "config.json"), *type;
    json_t *config = NULL;
    bool built;

    if (!file_is_folder(c->folder)) {
        check_skip(g, "its folder is not there", "%s", c->name);
        return false;
    }
    if (!check_ok(g, json_take(a, path, &config), "%s config.json", c->name)) {
        return false;
    }
    type = json_string_value(json_object_get(config, "model_type"));
    built = family_find(type) != NULL;
    if (!built) {
        check_skip(g, "its family is not built", "%s (%s)", c->name,
                   type == NULL ? "no model_type" : type);
    }
    json_decref(config);
    return built;
}

static void see_cases(struct golden *g, struct arena *a, json_t *index)
{
    const char *name;
    json_t *about;

    json_object_foreach(json_object_get(index, "cases"), name, about)
    {
        struct golden_case c = { .name = name, .folder = path_join(a, g->folder, name) };

        if (case_is_built(g, &c, a)) {
            golden_case_pass(g, &c);
            golden_case_generate(g, &c);
            golden_case_steps(g, &c);
        }
    }
}

static const char *program_name(struct arena *a)
{
    const char *named = getenv("ROUX_PROGRAM");
    char own[4096];
    ssize_t length;

    if (named != NULL && named[0] != '\0') {
        return named;
    }
    length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length <= 0) {
        return "roux";
    }
    own[length] = '\0';
    return path_join(a, path_folder(a, path_folder(a, own)), "roux");
}

static status temporary_folder(struct arena *a, const char **out)
{
    const char *parent = getenv("TMPDIR");
    char *path = arena_format(a, "%s/roux-golden-XXXXXX",
                              parent == NULL || parent[0] == '\0' ? "/tmp" : parent);

    *out = mkdtemp(path);
    return *out != NULL ? OK : fail(ERR_IO, "%s: %s", path, strerror(errno));
}

static status see_all(struct golden *g, struct arena *a, const char *folder)
{
    char *whole = realpath(folder, NULL);
    json_t *index = NULL;
    status s;

    if (whole == NULL) {
        return fail(ERR_MISSING, "%s: %s", folder, strerror(errno));
    }
    g->folder = arena_text(a, whole);
    free(whole);
    TRY_OR(release, s, json_take(a, path_join(a, g->folder, "index.json"), &index));
    if (!json_is_object(json_object_get(index, "cases"))) {
        s = fail(ERR_FORMAT, "%s/index.json: it has no object \"cases\"", g->folder);
        goto release;
    }
    TRY_OR(release, s, temporary_folder(a, &g->temporary));
    see_cases(g, a, index);
    golden_ops(g);
    golden_schedule(g);
    s = folder_remove(g->temporary);
release:
    json_decref(index);
    return s;
}

int main(int count, char **words)
{
    struct golden g = { 0 };
    struct arena a = { 0 };
    status s;

    if (count != 2) {
        fprintf(stderr, "usage: golden_models DIR\n");
        return 2;
    }
    g.program = program_name(&a);
    s = see_all(&g, &a, words[1]);
    if (s != OK) {
        fflush(stdout);
        fprintf(stderr,
                "golden_models: %s; DIR must be a set of golden model data, with index.json\n",
                fail_text());
    } else {
        printf("%d passed, %d failed, %d skipped\n", g.passed, g.failed, g.skipped);
    }
    arena_release(&a);
    return s != OK ? 2 : g.failed > 0 || g.passed == 0;
}
