/* The lines of the golden tools: one a case, and the count at the end. */
#ifndef ROUX_TESTS_TALLY_H
#define ROUX_TESTS_TALLY_H

#include <stdarg.h>
#include <stdio.h>

struct tally {
    int passed, failed, skipped;
};

/* `why` is printed behind the case; NULL for a case that needs no word. */
static inline void tally_pass(struct tally *t, const char *name, const char *why)
{
    t->passed++;
    printf("pass %s%s%s\n", name, why == NULL ? "" : ": ", why == NULL ? "" : why);
}

static inline void tally_fail(struct tally *t, const char *name, const char *why)
{
    t->failed++;
    printf("FAIL %s: %s\n", name, why);
}

static inline void tally_skip(struct tally *t, const char *name, const char *why)
{
    t->skipped++;
    printf("skip %s: %s\n", name, why);
}

/* The closing line, and the exit code. A run without a single case has proved nothing. */
static inline int tally_close(const struct tally *t)
{
    printf("%d passed, %d failed", t->passed, t->failed);
    if (t->skipped > 0) {
        printf(", %d skipped", t->skipped);
    }
    printf("\n");
    return t->failed > 0 || t->passed == 0;
}

#endif
