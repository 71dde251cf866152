/* Finds out who started this process and, if it was an MPI launcher, opens roux-mpi.so. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/text.h"
#include "comm/comm.h"
#include "comm/mpi.h"

#define MODULE "roux-mpi.so"
#define INSTALL "install Open MPI 4.1 or newer (Debian: openmpi-bin libopenmpi3)"

/* Who started us, by the environment it leaves. */
struct launcher {
    const char *name; /* NULL: nobody who starts several */
    int size;         /* 0: not told */
};

static status size_parse(const char *variable, const char *text, int *size)
{
    char *end = NULL;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end || value < 1 || value > INT_MAX / 4) {
        return fail(
            ERR_UNSUPPORTED,
            "the environment variable %s of the launcher is \"%s\", not a number of processes; "
            "start with mpirun or srun --mpi=pmix, or unset it to run alone",
            variable, text);
    }
    *size = (int)value;
    return OK;
}

static status launcher_find(struct launcher *l)
{
    const char *text;

    *l = (struct launcher){ 0 };
    text = getenv("OMPI_COMM_WORLD_SIZE");
    if (text) {
        l->name = "mpirun";
        return size_parse("OMPI_COMM_WORLD_SIZE", text, &l->size);
    }
    text = getenv("PMI_SIZE");
    if (text) {
        l->name = "mpiexec";
        return size_parse("PMI_SIZE", text, &l->size);
    }
    text = getenv("SLURM_STEP_NUM_TASKS");
    if (text && getenv("SLURM_PROCID")) {
        TRY(size_parse("SLURM_STEP_NUM_TASKS", text, &l->size));
        if (getenv("PMIX_RANK")) {
            l->name = "srun";
            return OK;
        }
        if (l->size > 1) {
            return fail(ERR_UNSUPPORTED,
                        "srun started %d tasks without PMIx, so they cannot find each other; "
                        "start them with srun --mpi=pmix",
                        l->size);
        }
        return OK;
    }
    if (getenv("PMIX_RANK")) {
        l->name = "a PMIx launcher";
    }
    return OK;
}

/* $ROUX_MODULES, the program's own folder, ../lib/roux beside it. NULL if the module is in none
 * of them. */
static const char *module_find(struct arena *a, struct text *places)
{
    char self[PATH_MAX] = "";
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    const char *home = length > 0 ? path_folder(a, self) : ".";
    const char *folders[] = { getenv("ROUX_MODULES"), home, path_join(a, home, "../lib/roux") };

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *path;

        if (!folders[i] || !*folders[i]) {
            continue;
        }
        path = path_join(a, folders[i], MODULE);
        if (file_is_there(path)) {
            return path;
        }
        text_add_format(places, "%s%s", places->length > 0 ? ", " : "", folders[i]);
    }
    return NULL;
}

/* Its libraries' symbols must be visible to the plug-ins that Open MPI opens itself: hence
 * RTLD_GLOBAL. */
static status module_open(const char *path, const struct transport **out)
{
    void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    const struct transport *t;

    if (!module) {
        return fail(ERR_UNSUPPORTED, "%s: %s; " INSTALL, path, dlerror());
    }
    t = dlsym(module, TRANSPORT_SYMBOL);
    if (!t || t->version != TRANSPORT_VERSION) {
        dlclose(module);
        return fail(ERR_UNSUPPORTED,
                    "%s: is of another version than this program; install both together", path);
    }
    *out = t;
    return OK;
}

static status world_open(struct comm *out, const struct launcher *l, const char *path)
{
    static bool opened;
    const struct transport *t = NULL;
    struct transport_group group = { 0 };
    const char *text;

    check(!opened, "the world is opened a second time");
    TRY(module_open(path, &t));
    opened = true;
    text = t->open(&group);
    if (text) {
        return fail(ERR_IO, "%s: %s", path, text);
    }
    if (l->size > 0 && group.size != l->size) {
        int size = group.size;

        t->free(&group);
        t->close();
        return fail(ERR_UNSUPPORTED,
                    "%s started %d processes, but MPI sees %d: the launcher belongs to another MPI "
                    "than %s; "
                    "use the mpirun of Open MPI, or srun --mpi=pmix",
                    l->name, l->size, size, path);
    }
    mpi_world(out, t, group);
    return OK;
}

static status world_find(struct comm *out, struct arena *a, struct text *places)
{
    struct launcher l;
    const char *path;

    TRY(launcher_find(&l));
    if (!l.name) {
        comm_alone(out);
        return OK;
    }
    path = module_find(a, places);
    if (path) {
        return world_open(out, &l, path);
    }
    if (l.size == 1) {
        comm_alone(out);
        return OK;
    }
    return fail(ERR_UNSUPPORTED,
                "%s started more than one process, but the module " MODULE
                " is not there (looked in %s); build or install it beside the program, or name its "
                "folder in "
                "ROUX_MODULES; " INSTALL,
                l.name, text_of(places));
}

status comm_world(struct comm *out)
{
    struct arena a = { 0 };
    struct text places = { 0 };
    status s;

    *out = (struct comm){ 0 };
    s = world_find(out, &a, &places);
    text_release(&places);
    arena_release(&a);
    return s;
}
