/* `--ranks N`: this program again, under mpirun. */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static int cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* Options, then "--", then words, as they were given; --ranks is left out. */
static size_t add_words(struct arena *a, const char **argv, size_t at, const struct args *args)
{
    for (int i = 0; i < args->given_count; i++) {
        const struct given *g = &args->given[i];

        if (strcmp(g->option->name, "ranks") == 0) {
            continue;
        }
        argv[at++] = g->option->kind == OPTION_FLAG
                         ? arena_format(a, "--%s", g->option->name)
                         : arena_format(a, "--%s=%s", g->option->name, g->text);
    }
    argv[at++] = "--";
    for (int i = 0; i < args->word_count; i++) {
        argv[at++] = args->words[i];
    }
    return at;
}

static status become_mpirun(struct arena *a, const struct args *args, int ranks)
{
    static char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    const char **argv =
        arena_take_array(a, (size_t)(args->given_count + args->word_count) + 16, sizeof *argv);
    size_t at = 0;

    if (length < 0) {
        return fail(ERR_IO, "/proc/self/exe: %s", strerror(errno));
    }
    argv[at++] = "mpirun";
    if (ranks > cores()) {
        argv[at++] = "--oversubscribe";
    }
    argv[at++] = "--quiet";
    argv[at++] = "--bind-to";
    argv[at++] = "none"; /* ranks share the cores by their number of threads */
    argv[at++] = "-n";
    argv[at++] = arena_format(a, "%d", ranks);
    argv[at++] = self;
    argv[at++] = args->command->name;
    at = add_words(a, argv, at, args);
    argv[at] = NULL;
    if (geteuid() == 0) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    }
    fflush(NULL);
    execvp("mpirun", (char *const *)argv);
    if (errno == ENOENT) {
        return fail(
            ERR_UNSUPPORTED,
            "--ranks %d needs mpirun, which is not there; install Open MPI (Debian: openmpi-bin)",
            ranks);
    }
    return fail(ERR_IO, "mpirun: %s", strerror(errno));
}

status ranks_start(const struct args *args, int ranks)
{
    struct arena a = { 0 };
    status s;

    if (getenv("OMPI_COMM_WORLD_SIZE") != NULL || getenv("PMIX_RANK") != NULL) {
        return fail(ERR_RECIPE, "--ranks starts mpirun, but this process was started by a launcher "
                                "already; leave --ranks out");
    }
    s = become_mpirun(&a, args, ranks);
    arena_release(&a);
    return s;
}
