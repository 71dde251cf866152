/* The sum over members in the order of the row tree. Inner to this room. */
#ifndef ROUX_COMM_SUM_H
#define ROUX_COMM_SUM_H

#include <stdint.h>
#include "base/dtype.h"

/*
 * out [n] = the sum of parts[0 .. members-1], n elements each, in this order: with members = o *
 * 2^k, o odd, part r gets r + 2^k, r + 2 * 2^k, ... added for r < 2^k; then r gets r + 2^(k-1), and
 * so on down to one. F32, F64, or I64 (wraps). `out` may be one of the parts. Every part is read
 * once, `out` is written once.
 */
void members_sum(enum dtype dtype, void *out, const void *const *parts, int members, int64_t n);

#endif
