/* Whether products of bf16 pairs are worth having on this processor. */
#ifndef ROUX_TENSOR_PAIR_RATE_H
#define ROUX_TENSOR_PAIR_RATE_H

#include <stdbool.h>

/* Runs both kinds of instruction for some 50 microseconds: is a bf16 dot product (two products a
 * lane) faster than two float ones? For processors that have both. The answer is kept. */
bool pairs_pay(void);

#endif
