/*
 * Log lines to stderr (and a file, once one is set), each written with one write() so that ranks do
 * not mix.
 *
 * Form: "12:34:56 [rank 3] warning: text". The rank stands there only when there is more than one.
 * Levels below the threshold cost a comparison. Thread-safe. Colour on a terminal unless NO_COLOR
 * is set.
 */
#ifndef ROUX_BASE_LOG_H
#define ROUX_BASE_LOG_H

#include "base/status.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR };

/* The least level that is printed; the start value is LOG_INFO. */
void log_set_level(enum log_level least);
void log_set_rank(int rank, int ranks);

/* From now on every line also goes to this file, appended; the caller keeps ownership of the
 * descriptor. -1: none. */
void log_set_file(int fd);

void log_debug(const char *format, ...) FORMAT(1, 2);
void log_info(const char *format, ...) FORMAT(1, 2);
void log_warning(const char *format, ...) FORMAT(1, 2);
void log_error(const char *format, ...) FORMAT(1, 2);

#endif
