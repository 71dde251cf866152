/*
 * Threads that meet: the last one to come opens the way for all.
 *
 * The OpenMP runtime has barriers, too, but there how long a thread looks before it sleeps follows
 * from the environment at the start of the program, not from the ranks that share the cores.
 */
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/threads.h"

enum { LOOKS = 1 << 14, LOOKS_IN_TURNS = 16 };

/* What OpenMP's own barriers would be told. */
static bool asked_to_sleep(void)
{
    const char *policy = getenv("OMP_WAIT_POLICY");

    return policy != NULL && strcasecmp(policy, "passive") == 0;
}

int meeting_looks(int threads)
{
    return asked_to_sleep() || threads_take_turns(threads) ? LOOKS_IN_TURNS : LOOKS;
}

static void rest(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Counted as asleep before it looks for the last time: whoever opens the way after that wakes it. */
static void sleep_until_open(struct meeting *m, uint32_t turn)
{
    atomic_fetch_add(&m->asleep, 1);
    while (atomic_load(&m->turn) == turn) {
        syscall(SYS_futex, &m->turn, FUTEX_WAIT_PRIVATE, turn, NULL, NULL, 0);
    }
    atomic_fetch_sub(&m->asleep, 1);
}

void meeting_wait(struct meeting *m, int threads, int looks)
{
    uint32_t turn = atomic_load(&m->turn);

    if (atomic_fetch_add(&m->here, 1) + 1 == (uint32_t)threads) {
        atomic_store(&m->here, 0);
        atomic_fetch_add(&m->turn, 1);
        if (atomic_load(&m->asleep) > 0) {
            syscall(SYS_futex, &m->turn, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
        }
        return;
    }
    for (int i = 0; i < looks; i++) {
        if (atomic_load_explicit(&m->turn, memory_order_acquire) != turn) {
            return;
        }
        rest();
    }
    sleep_until_open(m, turn);
}
