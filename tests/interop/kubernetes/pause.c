/* SPDX-License-Identifier: Apache-2.0 */
/* The first process of a node and of a pod: it collects what others left, and ends when told to. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_end(int signo)
{
    (void)signo;
    _exit(0);
}

static void on_child(int signo)
{
    (void)signo;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

int main(void)
{
    struct sigaction end = {.sa_handler = on_end};
    struct sigaction child = {.sa_handler = on_child, .sa_flags = SA_NOCLDSTOP | SA_RESTART};

    if (sigaction(SIGTERM, &end, NULL) != 0 || sigaction(SIGINT, &end, NULL) != 0 ||
        sigaction(SIGCHLD, &child, NULL) != 0)
        return 1;
    for (;;)
        (void)pause();
}
