/* Errors of the system, for the files of this room: ENOENT is ERR_MISSING, the rest ERR_IO. */
#ifndef ROUX_BASE_SYSTEM_H
#define ROUX_BASE_SYSTEM_H

#include "base/status.h"

/* "path: what: reason". */
MUST_USE status fail_system(const char *path, const char *what, int error);

#endif
