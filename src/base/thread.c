/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <signal.h>

int sw_thread_start(pthread_t *ret, void *(*fn)(void *arg), void *arg, const char *name)
{
    sigset_t all;
    sigset_t old;
    int rc;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(ret, NULL, fn, arg);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0)
        (void)pthread_setname_np(*ret, name);
    return rc;
}
