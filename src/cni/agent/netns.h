/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the network namespace of a pod that runs already, by its processes. */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"

/*
 * The pod uid in a cgroup path ("kubepods/.../pod<uid>", "...-pod<uid with _>.slice"); that of a
 * static pod has 32 digits without dashes. False: none.
 */
enum { SW_POD_UID_LEN = 36, SW_POD_DIGEST_LEN = 32 };
bool sw_pod_uid_of_cgroup(struct sw_slice text, char ret[SW_POD_UID_LEN + 1]);

/*
 * Looks through the processes of a proc directory for one of the pod that is in a network namespace
 * of its own, which has one of the addresses (none given: any will do). The oldest process wins.
 * The descriptor is the caller's. SW_ENOENT: no such process.
 */
SW_NODISCARD int sw_pod_netns_find(const char *proc, struct sw_slice uid, const struct sw_ip *ips,
                                   size_t n_ips, int *ret_fd, struct sw_err *err);
/*
 * Calls fn once for each network namespace that processes of pods are in, but for our own and that
 * of the host (process 1).
 */
void sw_pod_netns_each(const char *proc, void (*fn)(int netns_fd, void *arg), void *arg);
/* True when the namespace has one of the addresses, or none was given. */
bool sw_pod_netns_has(int fd, const struct sw_ip *ips, size_t n_ips);
/* User id of a running kubelet (or k3s, k0s, ...); 0 where none is found. */
unsigned sw_kubelet_uid(const char *proc);
