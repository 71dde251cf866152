/* The row tree. */
#include "tensor/cpu/cpu.h"

void NAME(tree_sum)(leaf_fn *leaf, const void *context, int64_t B, int64_t width, float *buffers)
{
    int levels = row_tree_levels(B);
    int64_t apart = (int64_t)1 << levels;
    float *top = buffers;

    for (int64_t c = 0; c < apart; c++, top += width) {
        int64_t sequence = row_tree_residue(c, levels);

        leaf(context, sequence, top);
        for (sequence += apart; sequence < B; sequence += apart) {
            leaf(context, sequence, top + width);
            add_floats(top, top + width, width);
        }
        for (int merges = row_tree_merges(c); merges > 0; merges--) {
            top -= width;
            add_floats(top, top + width, width);
        }
    }
}
