/* roux: finds the command and calls it. Nothing here is heavy: --help must answer at once. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"

static const struct command *command_find(const char *name)
{
    for (int i = 0; i < command_count; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

static int unknown_command(const char *word)
{
    const char *names[32], *nearest;

    for (int i = 0; i < command_count; i++) {
        names[i] = commands[i]->name;
    }
    nearest = text_nearest(word, names, (size_t)command_count);
    if (nearest != NULL) {
        return cli_fail(fail(ERR_RECIPE, "unknown command '%s'; did you mean %s?", word, nearest));
    }
    return cli_fail(
        fail(ERR_RECIPE, "unknown command '%s'; roux --help lists what there is", word));
}

static int run_command(const struct command *c, int argc, char **argv)
{
    struct arena a = { 0 };
    struct args args;
    status s = args_parse(&args, &a, c, argc, argv);
    int code = 0;

    if (s != OK) {
        code = cli_fail(s);
    } else if (args.help) {
        help_print_command(c, stdout);
    } else {
        code = c->run(&args);
    }
    arena_release(&a);
    return code;
}

static int dispatch(int argc, char **argv)
{
    const char *word = argc < 2 ? "" : argv[1];
    const struct command *c = command_find(word);

    if (c != NULL) {
        return run_command(c, argc - 1, argv + 1);
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        puts("roux " ROUX_VERSION);
    } else if (strcmp(word, "--manual") == 0) {
        manual_print(stdout);
    } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
               strcmp(word, "help") == 0) {
        c = argc > 2 ? command_find(argv[2]) : NULL;
        if (argc > 2 && c == NULL) {
            return unknown_command(argv[2]);
        }
        if (c != NULL) {
            help_print_command(c, stdout);
        } else {
            help_print(stdout);
        }
    } else if (argc < 2) {
        help_print(stderr);
        return 2;
    } else if (word[0] == '-') {
        return cli_fail(
            fail(ERR_RECIPE, "unknown option %s; roux --help lists what there is", word));
    } else {
        return unknown_command(word);
    }
    return 0;
}

/* What was printed but could not be written is a failure of its own; a reader that went away is
 * none. */
static int close_output(int code)
{
    bool broken = ferror(stdout) != 0;

    errno = 0;
    broken = fflush(stdout) != 0 || broken;
    if (!broken || errno == EPIPE) {
        return code;
    }
    code = code != 0 ? code : status_exit_code(ERR_IO);
    fprintf(stderr, "roux: error: standard output: %s\n",
            errno != 0 ? strerror(errno) : "not all could be written");
    return code;
}

/* Where a standard file is closed, the next file that is opened would get its number, and what is
 * said would be written into it. Reading only: what cannot be said still is a failure. */
static void hold_standard_files(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDONLY);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) {
        close(fd);
    }
}

int main(int argc, char **argv)
{
    hold_standard_files();
    return close_output(dispatch(argc, argv));
}
