#include "base/log.h"
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_ROOM = 8192 };

static atomic_int least_level = LOG_INFO;
static atomic_int own_rank = 0;
static atomic_int rank_count = 1;
static atomic_int file_descriptor = -1;

/* What stands before the text, and the colour of it on a terminal. */
static const struct {
    const char *name, *colour;
} level_rows[] = {
    [LOG_DEBUG] = { "debug: ", "\033[2m" },
    [LOG_INFO] = { "", "" },
    [LOG_WARNING] = { "warning: ", "\033[33m" },
    [LOG_ERROR] = { "error: ", "\033[31m" },
};

static bool stderr_has_colour(void)
{
    const char *no_colour = getenv("NO_COLOR");

    return (no_colour == NULL || no_colour[0] == '\0') && isatty(STDERR_FILENO);
}

/* One write() where the system takes all of it; the log has nowhere to report its own trouble. */
static void write_line(int fd, const char *line, size_t length)
{
    while (length > 0) {
        ssize_t done = write(fd, line, length);

        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return;
        }
        line += done;
        length -= (size_t)done;
    }
}

/* "12:34:56 [rank 3] warning: " */
static size_t format_head(char *out, size_t room, enum log_level level)
{
    time_t now = time(NULL);
    struct tm local = { 0 };
    int length;

    localtime_r(&now, &local);
    length = snprintf(out, room, "%02d:%02d:%02d ", local.tm_hour, local.tm_min, local.tm_sec);
    if (rank_count > 1) {
        length += snprintf(out + length, room - (size_t)length, "[rank %d] ", own_rank);
    }
    length += snprintf(out + length, room - (size_t)length, "%s", level_rows[level].name);
    return (size_t)length;
}

static void FORMAT(2, 0) log_line(enum log_level level, const char *format, va_list list)
{
    char line[LINE_ROOM], coloured[LINE_ROOM + 32];
    size_t length = format_head(line, sizeof line, level);
    int more = vsnprintf(line + length, sizeof line - length - 1, format, list);
    const char *colour = level_rows[level].colour;
    int fd = file_descriptor;

    if (more > 0) {
        size_t room = sizeof line - length - 1; /* one byte stays for the end of the line */

        length += (size_t)more < room ? (size_t)more : room - 1;
        if ((size_t)more >= room) {
            memset(line + length - 3, '.', 3); /* a line that was cut says so */
        }
    }
    line[length++] = '\n';
    if (colour[0] != '\0' && stderr_has_colour()) {
        int all =
            snprintf(coloured, sizeof coloured, "%s%.*s\033[0m\n", colour, (int)length - 1, line);

        write_line(STDERR_FILENO, coloured, (size_t)all);
    } else {
        write_line(STDERR_FILENO, line, length);
    }
    if (fd >= 0) {
        write_line(fd, line, length);
    }
}

void log_set_level(enum log_level least)
{
    least_level = (int)least;
}

void log_set_rank(int rank, int ranks)
{
    own_rank = rank;
    rank_count = ranks;
}

void log_set_file(int fd)
{
    file_descriptor = fd;
}

void log_debug(const char *format, ...)
{
    va_list list;

    if (least_level > (int)LOG_DEBUG) {
        return;
    }
    va_start(list, format);
    log_line(LOG_DEBUG, format, list);
    va_end(list);
}

void log_info(const char *format, ...)
{
    va_list list;

    if (least_level > (int)LOG_INFO) {
        return;
    }
    va_start(list, format);
    log_line(LOG_INFO, format, list);
    va_end(list);
}

void log_warning(const char *format, ...)
{
    va_list list;

    if (least_level > (int)LOG_WARNING) {
        return;
    }
    va_start(list, format);
    log_line(LOG_WARNING, format, list);
    va_end(list);
}

void log_error(const char *format, ...)
{
    va_list list;

    if (least_level > (int)LOG_ERROR) {
        return;
    }
    va_start(list, format);
    log_line(LOG_ERROR, format, list);
    va_end(list);
}
