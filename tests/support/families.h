/* The kernel families that tests try: all that this processor runs, and those it may lack, emulated. */
#ifndef ROUX_TESTS_SUPPORT_FAMILIES_H
#define ROUX_TESTS_SUPPORT_FAMILIES_H

#include "tensor/kernels.h"

enum { FAMILIES_MOST = 8 };

size_t families_all(enum dtype real, const struct kernels *out[FAMILIES_MOST]);

#endif
