/*
 * Command lines from tables: the same rows are parsed, shown by --help and made into the manual
 * page. Inner to this room.
 *
 *   --option value, --option=value, -q for options with a letter; what follows "--" is never an option. The last of several
 *   wins. Options and other words may stand in any order, so overrides (key=value, +key=value, ~key) need no "--".
 */
#ifndef ROUX_CLI_ARGS_H
#define ROUX_CLI_ARGS_H

#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/status.h"

enum option_kind { OPTION_FLAG, OPTION_TEXT, OPTION_INT, OPTION_NUMBER, OPTION_CHOICE };

struct option {
    const char *name; /* without "--" */
    char letter;      /* 0: none */
    enum option_kind kind;
    const char *value; /* what stands for it in help: "N"; a CHOICE has its words here: "32|64" */
    const char *help;
    double low, high; /* of numbers; both 0: any */
    bool required;
};

struct example {
    const char *line, *what; /* `line` without "roux " */
};

struct args;

struct command {
    const char *name, *words;         /* "train", "RECIPE [KEY=VALUE]..." */
    const char *summary, *about;      /* a line; a paragraph or more */
    const struct option *options;     /* the last one has no name */
    const struct example *examples;   /* the last one has no line */
    int least, most;                  /* other words; most -1: any number */
    int (*run)(const struct args *a); /* returns the exit code */
};

enum { ARGS_GIVEN = 32 };

struct given {
    const struct option *option;
    const char *text;
    int64_t whole;
    double number;
};

struct args {
    const struct command *command;
    struct given given[ARGS_GIVEN];
    int given_count;
    const char **words;
    int word_count;
    bool help; /* asked for: nothing else was checked */
};

/* `argv` from the command's name on. ERR_RECIPE naming the option, the nearest one, or what it
 * takes. */
MUST_USE status args_parse(struct args *out, struct arena *a, const struct command *c, int argc,
                           char **argv);

bool args_has(const struct args *a, const char *name);
const char *args_text(const struct args *a, const char *name, const char *fallback);
int64_t args_int(const struct args *a, const char *name, int64_t fallback);
double args_number(const struct args *a, const char *name, double fallback);

#endif
