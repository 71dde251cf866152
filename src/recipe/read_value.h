/* One value by its row of the table. Not a door. */
#ifndef ROUX_RECIPE_READ_VALUE_H
#define ROUX_RECIPE_READ_VALUE_H

#include "recipe/keys.h"

struct reading {
    struct recipe *out;
    struct findings *found;
    struct arena *a;
    bool is_default; /* the values read now are the table's own */
};

/* Sets the member of `k` from `t`; what does not fit becomes a finding and leaves the member as
 * it was. */
void read_value(struct reading *r, const struct key *k, const struct tree *t);

/* Sets all members to the table's defaults. A default that does not fit its own row is our
 * mistake. */
void read_defaults(struct reading *r);

#endif
