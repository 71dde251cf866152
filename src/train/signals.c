/* The first SIGTERM or SIGINT is a wish that the ranks agree on at the next step; the second is
 * an order. */
#include <signal.h>
#include <unistd.h>

#include "train/trainer.h"

static volatile sig_atomic_t asked;

static void on_signal(int number)
{
    if (asked != 0) {
        _exit(128 + number);
    }
    asked = number;
}

void train_catch_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

int train_stop_signal(void)
{
    return asked;
}
