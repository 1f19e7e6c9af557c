/* SPDX-License-Identifier: Apache-2.0 */
/* Linux network namespaces: naming, entering and leaving them, one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Opens a namespace by path ("/run/netns/x", "/proc/7/ns/net"). SW_ENOENT when there is nothing,
 * SW_EINVAL when it is not a network namespace. The descriptor is the caller's.
 */
SW_NODISCARD int sw_netns_open(const char *path, int *ret_fd, struct sw_err *err);

/*
 * Moves the calling thread into the namespace and runs fn there; the way back is taken in any
 * case, and a failed way back aborts (nothing may run in a namespace it does not know).
 * Returns fn's result, or SW_ESYS when entering was refused.
 */
SW_NODISCARD int sw_netns_run(int fd, int (*fn)(void *arg), void *arg, struct sw_err *err);

struct sw_netns_socket {
    int family;
    int type;
    int protocol;
};
/*
 * A socket of the namespace (netns_fd below 0: of the thread's own), O_CLOEXEC and O_NONBLOCK.
 * *ret_fd is -1 and errno says why when the kernel makes none. SW_OK, or SW_ESYS when entering was
 * refused.
 */
SW_NODISCARD int sw_netns_socket(int netns_fd, struct sw_netns_socket kind, int *ret_fd,
                                 struct sw_err *err);
