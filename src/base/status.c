#include "base/status.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef fail /* status.h has a substitute for the analyser */

enum { FAIL_TEXT_ROOM = 4096 };

static _Thread_local char fail_buffer[FAIL_TEXT_ROOM];

/* A text that does not fit ends in dots, so that nobody takes the cut for the end. */
static void mark_cut(char *buffer, size_t room)
{
    memcpy(buffer + room - 4, "...", 4);
}

/* Formats beside the old text first: arguments may well be the text of the error before. */
status fail(status code, const char *format, ...)
{
    char fresh[FAIL_TEXT_ROOM];
    va_list list;
    int length;

    va_start(list, format);
    length = vsnprintf(fresh, sizeof fresh, format, list);
    va_end(list);
    if (length < 0) {
        strcpy(fresh, "an error whose text could not be formatted");
    } else if ((size_t)length >= sizeof fresh) {
        mark_cut(fresh, sizeof fresh);
    }
    memcpy(fail_buffer, fresh, strlen(fresh) + 1);
    return code;
}

status fail_while(status code, const char *format, ...)
{
    char context[FAIL_TEXT_ROOM];
    size_t used = strlen(fail_buffer);
    va_list list;
    int length;

    if (code == OK) {
        return OK;
    }
    va_start(list, format);
    length = vsnprintf(context, sizeof context, format, list);
    va_end(list);
    if (length < 0) {
        return code;
    }
    length = snprintf(fail_buffer + used, sizeof fail_buffer - used, " (while %s)", context);
    if (length < 0 || (size_t)length >= sizeof fail_buffer - used) {
        mark_cut(fail_buffer, sizeof fail_buffer);
    }
    return code;
}

const char *fail_text(void)
{
    return fail_buffer;
}

int status_exit_code(status code)
{
    switch (code) {
    case OK:
        return 0;
    case ERR_RECIPE:
    case ERR_UNSUPPORTED:
        return 2;
    case ERR_MEMORY:
        return 3;
    case ERR_MISSING:
    case ERR_FORMAT:
        return 4;
    case ERR_IO:
        return 5;
    case ERR_PEER:
        return 6;
    case ERR_DIVERGED:
        return 7;
    case ERR_PLAN:
        return 70;
    case ERR_STOPPED:
        return 75;
    }
    return 70;
}

/* Leaves without running exit handlers: they may wait for threads or ranks that are in the same
 * trouble. */
void check_failed(const char *file, int line, const char *format, ...)
{
    va_list list;

    fprintf(stderr, "%s:%d: internal error: ", file, line);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    fflush(NULL);
    _Exit(70);
}
