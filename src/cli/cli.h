/*
 * Inside the room: the table of commands, and what several of them do in the same way.
 *
 * Only this room prints errors and decides exit codes. A command returns its exit code; cli_fail
 * turns a status into one.
 */
#ifndef ROUX_CLI_CLI_H
#define ROUX_CLI_CLI_H

#include <jansson.h>
#include <stdio.h>
#include "cli/args.h"
#include "recipe/recipe.h"

extern const struct command command_bench, command_check, command_generate, command_keys,
    command_plan, command_probe, command_tokenize, command_train;

extern const struct command *const commands[];
extern const int command_count;

/* "roux: error: <fail_text>" on stderr; returns the exit code. */
int cli_fail(status s);

/* The value as indented JSON and a line end on stdout; takes the reference. */
void cli_print_json(json_t *value);

/* `roux --help`, `roux CMD --help`, the manual page. */
void help_print(FILE *to);
void help_print_command(const struct command *c, FILE *to);
void manual_print(FILE *to);

/* ---- recipes on the command line: RECIPE [KEY=VALUE]... ---- */

struct recipe_words {
    struct recipe recipe;
    struct findings found;
    int ranks; /* of the job: --ranks, else num_nodes x devices, else 0: not known */
};

/*
 * Reads and checks the recipe of words 0, 1, ... for `ranks` ranks (0: --ranks or what the recipe
 * says). ERR_RECIPE if there is an error among the findings, which the caller prints.
 */
MUST_USE status recipe_words_read(struct recipe_words *out, struct arena *a,
                                  const struct args *args, int ranks);

/* Ends this program and becomes `mpirun -n ranks` of itself with the same words, without
 * --ranks. Returns only on failure. */
MUST_USE status ranks_start(const struct args *args, int ranks);

#endif
