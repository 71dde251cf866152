/*
 * Errors as values.
 *
 * The first function that knows of a mistake made by the user or the world calls fail() with a text
 * that names the thing and the remedy; those above pass the code on or add context with
 * fail_while(). Only the cli room prints. Our own mistakes are check(): they end the process with
 * code 70.
 *
 * The text lives in thread-local memory until the next fail() of the same thread.
 */
#ifndef ROUX_BASE_STATUS_H
#define ROUX_BASE_STATUS_H

#include <stdbool.h>
#include <stddef.h>

#define MUST_USE __attribute__((warn_unused_result))
#define FORMAT(at, from) __attribute__((format(printf, at, from)))

typedef enum status {
    OK = 0,
    ERR_RECIPE,      /* the recipe or the command line asks for something that cannot be: exit 2 */
    ERR_UNSUPPORTED, /* a sound wish that is not built here: exit 2 */
    ERR_MEMORY,      /* the plan does not fit the device: exit 3 */
    ERR_MISSING,     /* a data or model file, object, tensor is not there: exit 4 */
    ERR_FORMAT,      /* bytes were read but do not mean what they should: exit 4 */
    ERR_IO,          /* disk or network said no: exit 5 */
    ERR_PEER,        /* another rank failed or went away: exit 6 */
    ERR_DIVERGED,    /* too many steps in a row without a usable gradient: exit 7 */
    ERR_PLAN,        /* a shape, type or place does not fit another: our own fault, exit 70 */
    ERR_STOPPED      /* stopped by a signal or the time limit after saving: exit 75 */
} status;

/* Sets this thread's error text and returns `code`. */
MUST_USE status fail(status code, const char *format, ...) FORMAT(2, 3);

/* The analyser of clang-tidy sees one file at a time and would else suppose that fail() may return
 * OK. */
#ifdef __clang_analyzer__
void fail_reads(const char *format, ...) FORMAT(1, 2);
#define fail(code, ...) (fail_reads(__VA_ARGS__), (code))
#endif

/* Adds "(while ...)" behind this thread's error text and returns `code`; OK passes through. */
MUST_USE status fail_while(status code, const char *format, ...) FORMAT(2, 3);

/* This thread's error text; "" if nothing failed yet. Borrowed until its next fail(). */
const char *fail_text(void);

/* The process exit code of a status, as the table in docs/troubleshooting.md has it. */
int status_exit_code(status code);

#define TRY(call)             \
    do {                      \
        status try_ = (call); \
        if (try_ != OK) {     \
            return try_;      \
        }                     \
    } while (0)

/* For functions that must clean up: on failure stores the code in `s` and jumps. */
#define TRY_OR(label, s, call) \
    do {                       \
        (s) = (call);          \
        if ((s) != OK) {       \
            goto label;        \
        }                      \
    } while (0)

/* Our own mistake: prints file, line and the text to stderr and ends the process with code 70.
 * Always on. */
#define check(condition, ...)                              \
    do {                                                   \
        if (!(condition)) {                                \
            check_failed(__FILE__, __LINE__, __VA_ARGS__); \
        }                                                  \
    } while (0)

_Noreturn void check_failed(const char *file, int line, const char *format, ...) FORMAT(3, 4);

#endif
