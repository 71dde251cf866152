/* Time: a monotonic clock for intervals, the wall clock for names and logs. */
#ifndef ROUX_BASE_CLOCK_H
#define ROUX_BASE_CLOCK_H

#include <stdint.h>

double clock_seconds(void);      /* monotonic, since some start */
double clock_wall_seconds(void); /* since 1970, UTC */

/* "2026-11-30_22-51-00", local time. */
char *clock_stamp(char out[32]);

#endif
