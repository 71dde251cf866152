/* Float numbers below the normal range, and the switch that makes zeros of them. */
#include "base/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* Results and operands: flush to zero, denormals are zero. */
enum { TINY_RESULTS = 1 << 15, TINY_OPERANDS = 1 << 6 };

unsigned thread_tiny_off(void)
{
    unsigned before = _mm_getcsr();

    _mm_setcsr(before | TINY_RESULTS | TINY_OPERANDS);
    return before;
}

void thread_tiny_restore(unsigned before)
{
    _mm_setcsr(before);
}

#else

unsigned thread_tiny_off(void)
{
    return 0;
}

void thread_tiny_restore(unsigned before)
{
    (void)before;
}

#endif
