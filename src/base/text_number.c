/* Numbers as people read them, and as programs read them back. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"

char *text_bytes(char out[32], uint64_t bytes)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double value = (double)bytes / 1024;
    size_t unit = 0;

    if (bytes < 1024) {
        snprintf(out, 32, "%d B", (int)bytes);
        return out;
    }
    /* What "%.1f" would show as 1024.0 belongs to the next unit. */
    while (value >= 1023.95 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    snprintf(out, 32, "%.1f %s", value, units[unit]);
    return out;
}

char *text_count(char out[32], int64_t count)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRId64, count);
    int first = digits[0] == '-' ? 1 : 0;
    char *end = out;

    for (int i = 0; i < length; i++) {
        if (i > first && (length - i) % 3 == 0) {
            *end++ = ',';
        }
        *end++ = digits[i];
    }
    *end = '\0';
    return out;
}

char *text_seconds(char out[32], double seconds)
{
    double magnitude = fabs(seconds);

    if (!isfinite(seconds) || magnitude >= 1e15) {
        snprintf(out, 32, "%g s", seconds);
    } else if (magnitude == 0 || (magnitude >= 0.0995 && magnitude < 59.95) || seconds < 0) {
        snprintf(out, 32, "%.1f s", seconds);
    } else if (magnitude < 0.0995) {
        snprintf(out, 32, "%.3g ms", seconds * 1e3);
    } else if (magnitude < 3599.5) {
        int64_t whole = llround(seconds);

        snprintf(out, 32, "%" PRId64 " min %02" PRId64 " s", whole / 60, whole % 60);
    } else {
        int64_t minutes = llround(seconds / 60);

        snprintf(out, 32, "%" PRId64 " h %02" PRId64 " min", minutes / 60, minutes % 60);
    }
    return out;
}

/* A normal double that 15 digits name is printed by "%.15g" in its fewest digits. A subnormal one
 * has fewer to begin with, so there the search starts at one. */
char *text_double(char out[32], double x)
{
    int digits = fpclassify(x) == FP_SUBNORMAL ? 1 : 15;

    if (isnan(x)) {
        memcpy(out, "nan", 4);
        return out;
    }
    if (isinf(x)) {
        snprintf(out, 32, "%s", x > 0 ? "inf" : "-inf");
        return out;
    }
    do {
        snprintf(out, 32, "%.*g", digits, x);
        digits++;
    } while (digits <= 17 && strtod(out, NULL) != x);
    if (strpbrk(out, ".e") == NULL) {
        strcat(out, ".0");
    }
    return out;
}
