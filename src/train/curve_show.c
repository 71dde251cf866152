/* Where the pictures go: into the run's folder, and to whoever sits at a terminal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/file.h"
#include "train/curve.h"

enum { COLUMNS_LEAST = 60 };

status curve_publish(const struct curve *c, const char *path, const char *title,
                     const char *details)
{
    struct text picture = { 0 };
    status s;

    curve_svg(c, title, details, &picture);
    s = file_replace(path, text_of(&picture), picture.length);
    text_release(&picture);
    return s;
}

/* As the C library would have it: the first of these that says anything. */
static bool speaks_utf8(void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);

        if (value != NULL && value[0] != 0) {
            return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
        }
    }
    return false;
}

void curve_show(const struct curve *c)
{
    struct winsize size = { 0 };
    struct text picture = { 0 };

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < COLUMNS_LEAST) {
        return;
    }
    curve_terminal(c, size.ws_col, speaks_utf8(), &picture);
    fputs(text_of(&picture), stderr);
    text_release(&picture);
}
