/* What every test includes first: cmocka, and expectations about a status and its text. */
#ifndef ROUX_TESTS_SUPPORT_EXPECT_H
#define ROUX_TESTS_SUPPORT_EXPECT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#undef fail /* the name is ours */
#include "base/status.h"

#define EXPECT_OK(call) expect_status(OK, "", (call), #call, __FILE__, __LINE__)

/* The status is `code`, and the error text contains `part`. */
#define EXPECT_FAIL(code, part, call) \
    expect_status((code), (part), (call), #call, __FILE__, __LINE__)

static inline void expect_status(status code, const char *part, status found, const char *call,
                                 const char *file, int line)
{
    if (found != code || (code != OK && strstr(fail_text(), part) == NULL)) {
        print_error("%s: status %d, text \"%s\"; expected were %d and \"%s\"\n", call, (int)found,
                    found == OK ? "" : fail_text(), (int)code, part);
        _fail(file, line);
    }
}

/* The call ends its process with code 70 and a text on stderr that contains `part` (a check() of
 * ours). */
void expect_broken_check(void (*call)(void), const char *part);

#endif
