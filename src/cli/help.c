/* Help and the manual page, both from the table of commands. */
#include <string.h>

#include "cli/cli.h"

enum { COLUMN = 26, WIDTH = 100 };

static const struct {
    int code;
    const char *what;
} exit_codes[] = {
    { 0, "done" },
    { 2, "the recipe or the command line is wrong, or asks for something that is not built" },
    { 3, "the plan does not fit this machine" },
    { 4, "data or a model is missing or damaged" },
    { 5, "disk or network said no" },
    { 6, "another rank was lost" },
    { 7, "training diverged" },
    { 70, "our own fault: please report it" },
    { 75, "stopped by a signal after saving: the same command goes on" },
};
enum { EXIT_CODES = sizeof exit_codes / sizeof exit_codes[0] };

static const struct {
    const char *name, *what;
} variables[] = {
    { "NO_COLOR", "no colours, whatever the terminal" },
    { "OMP_NUM_THREADS",
      "threads of a rank; else all cores, shared among the ranks of the machine" },
    { "ROUX_ISA", "the kernel family to use instead of the widest: scalar, avx2, avx512" },
    { "ROUX_MODULES", "the folder of roux-mpi.so, where it is not beside the program" },
};
enum { VARIABLES = sizeof variables / sizeof variables[0] };

/* ---- text ---- */

/* Words of `text`, broken before the right margin; the first line begins at `column`, further
 * ones are indented to `indent`. */
static void print_wrapped(FILE *to, const char *text, int column, int indent)
{
    while (*text != 0) {
        int length = (int)strcspn(text, " \n");

        if (column > indent && column + 1 + length > WIDTH) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', to);
            column++;
        }
        fprintf(to, "%.*s", length, text);
        column += length;
        text += length;
        if (*text == '\n') {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        }
        text += *text != 0;
    }
    fputc('\n', to);
}

static void print_row(FILE *to, const char *left, const char *right)
{
    int length = fprintf(to, "  %s", left);

    if (length >= COLUMN) {
        fprintf(to, "\n%*s", COLUMN, "");
    } else {
        fprintf(to, "%*s", COLUMN - length, "");
    }
    print_wrapped(to, right, COLUMN, COLUMN);
}

static void print_option(FILE *to, const struct option *o)
{
    char left[96], letter[8] = "", right[256];

    if (o->letter != 0) {
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    }
    snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->value == NULL ? "" : " ",
             o->value == NULL ? "" : o->value);
    snprintf(right, sizeof right, "%s%s", o->help, o->required ? " (required)" : "");
    print_row(to, left, right);
}

void help_print_command(const struct command *c, FILE *to)
{
    fprintf(to, "roux %s: %s\n\nusage: roux %s [OPTION]...%s%s\n\n", c->name, c->summary, c->name,
            *c->words != 0 ? " " : "", c->words);
    print_wrapped(to, c->about, 0, 0);
    fputs("\noptions:\n", to);
    for (const struct option *o = c->options; o->name != NULL; o++) {
        print_option(to, o);
    }
    print_row(to, "-h, --help", "this text");
    fputs("\nexamples:\n", to);
    for (const struct example *e = c->examples; e->line != NULL; e++) {
        fprintf(to, "  roux %s\n      %s\n", e->line, e->what);
    }
}

void help_print(FILE *to)
{
    fputs("roux " ROUX_VERSION ": trains language models from recipes\n\n"
          "usage: roux COMMAND [OPTION]... [WORD]...\n\ncommands:\n",
          to);
    for (int i = 0; i < command_count; i++) {
        print_row(to, commands[i]->name, commands[i]->summary);
    }
    fputs("\n  roux COMMAND --help       what it takes, with examples\n"
          "  roux --version            the version\n\nexit codes:\n",
          to);
    for (int i = 0; i < EXIT_CODES; i++) {
        fprintf(to, "  %-4d%s\n", exit_codes[i].code, exit_codes[i].what);
    }
    fputs("\nfirst steps:\n"
          "  roux tokenize --bytes book.txt --out data --width 256\n"
          "  roux check recipe.yaml model.data.train_dir=data/train\n"
          "  roux train recipe.yaml model.data.train_dir=data/train\n",
          to);
}

/* ---- the manual page ---- */

/* roff reads backslashes, and dots and quotes at the beginning of a line. */
static void print_roff(FILE *to, const char *text)
{
    bool begins = true;

    for (; *text != 0; text++) {
        if (begins && (*text == '.' || *text == '\'')) {
            fputs("\\&", to);
        }
        if (*text == '\\') {
            fputs("\\e", to);
        } else if (*text == '-') {
            fputs("\\-", to);
        } else {
            fputc(*text, to);
        }
        begins = *text == '\n';
    }
}

static void print_roff_line(FILE *to, const char *before, const char *text, const char *after)
{
    fputs(before, to);
    print_roff(to, text);
    fputs(after, to);
}

static void manual_option(FILE *to, const struct option *o)
{
    fputs(".TP\n", to);
    if (o->letter != 0) {
        fprintf(to, "\\fB\\-%c\\fR, ", o->letter);
    }
    print_roff_line(to, "\\fB\\-\\-", o->name, "\\fR");
    if (o->value != NULL) {
        print_roff_line(to, " \\fI", o->value, "\\fR");
    }
    print_roff_line(to, "\n", o->help, o->required ? " (required)\n" : "\n");
}

static void manual_command(FILE *to, const struct command *c)
{
    print_roff_line(to, ".SS roux ", c->name, " [\\fIOPTION\\fR]... ");
    print_roff_line(to, "", c->words, "\n");
    print_roff_line(to, "", c->about, "\n");
    for (const struct option *o = c->options; o->name != NULL; o++) {
        manual_option(to, o);
    }
    for (const struct example *e = c->examples; e->line != NULL; e++) {
        print_roff_line(to, ".PP\n", e->what, ":\n.PP\n.RS\n.nf\n");
        print_roff_line(to, "roux ", e->line, "\n.fi\n.RE\n");
    }
}

void manual_print(FILE *to)
{
    fputs(".\\\" Made by `roux --manual`; do not edit.\n"
          ".TH ROUX 1 \"\" \"roux " ROUX_VERSION "\" \"User Commands\"\n"
          ".SH NAME\nroux \\- trains language models from recipes\n"
          ".SH SYNOPSIS\n\\fBroux\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR]... [\\fIWORD\\fR]...\n"
          ".SH DESCRIPTION\n",
          to);
    fputs("A recipe in YAML says which model is trained on which data, and how. \\fBroux\\fR "
          "checks it, plans its memory,\n"
          "and is the trainer that the job runs. Options and words may stand in any order; what "
          "follows \\fB\\-\\-\\fR is\n"
          "never an option. Overrides are written \\fIkey=value\\fR, \\fI+key=value\\fR, "
          "\\fI++key=value\\fR or \\fI~key\\fR.\n"
          ".SH COMMANDS\n",
          to);
    for (int i = 0; i < command_count; i++) {
        manual_command(to, commands[i]);
    }
    fputs(".SH EXIT STATUS\n", to);
    for (int i = 0; i < EXIT_CODES; i++) {
        fprintf(to, ".TP\n%d\n", exit_codes[i].code);
        print_roff_line(to, "", exit_codes[i].what, "\n");
    }
    fputs(".SH ENVIRONMENT\n", to);
    for (int i = 0; i < VARIABLES; i++) {
        fprintf(to, ".TP\n\\fB%s\\fR\n", variables[i].name);
        print_roff_line(to, "", variables[i].what, "\n");
    }
}
