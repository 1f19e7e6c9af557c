/* SPDX-License-Identifier: Apache-2.0 */
#include "io/signal.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/sock.h"

struct sw_signals {
    struct sw_watch watch;
    int fd;
    sw_signal_cb cb;
    void *arg; /* borrowed */
};

static void on_signal(struct sw_watch *w, unsigned events)
{
    struct sw_signals *s = SW_CONTAINER_OF(w, struct sw_signals, watch);
    struct signalfd_siginfo info;

    while (read(s->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        s->cb((int)info.ssi_signo, s->arg);
}

struct sw_signals *sw_signals_new(struct sw_loop *l, const int *signos, size_t n, sw_signal_cb cb,
                                  void *arg, struct sw_err *err)
{
    struct sw_signals *s = SW_NEW(struct sw_signals);
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < n; i++)
        (void)sigaddset(&set, signos[i]);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    s->cb = cb;
    s->arg = arg;
    s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd < 0)
        (void)sw_err_sys(err, errno, "cannot receive signals");
    else if (sw_watch_start(l, &s->watch, s->fd, on_signal, err) == SW_OK)
        return s;
    sw_signals_free(s);
    return NULL;
}

void sw_signals_free(struct sw_signals *s)
{
    if (!s)
        return;
    sw_watch_stop(&s->watch);
    sw_sock_close(s->fd);
    sw_free(s);
}
