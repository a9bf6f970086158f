/* Signals.  Until training begins they end the program at once; from then on the first one asks it
 * to stop after the current step and to write what was asked for, and Ctrl-C after that ends it
 * at once.  In both cases the exit code is 128 + signal.
 *
 * A write into a closed pipe is a request to stop as well: the models are worth more than what
 * nobody reads.  A file over the size limit (SIGXFSZ) is an error of that write. */
#include "tools/hftrun.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t deferred, asked;

static void on_signal(int sig)
{
    if (!deferred || (asked && sig == SIGINT))
        _exit(128 + sig);
    if (!asked)
        asked = sig;
}

void signals_begin(void)
{
    static const int stops[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, old;
    sigemptyset(&sa.sa_mask);
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        /* nohup, and programs that wish for EPIPE, have set theirs to be ignored. */
        const bool keeps = stops[i] == SIGHUP || stops[i] == SIGPIPE;
        if (keeps && sigaction(stops[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN)
            continue;
        sigaction(stops[i], &sa, NULL);
    }
    sa.sa_handler = SIG_IGN;
    sigaction(SIGXFSZ, &sa, NULL);
}

void signals_defer(void)
{
    deferred = 1;
}

int signals_asked(void)
{
    return asked;
}
