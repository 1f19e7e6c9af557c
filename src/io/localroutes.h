/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks that the kernel delivers to this machine: routes of type 'local' in the table 'local'
 * (ip route show table local). Those of interface addresses are there, and those that were added
 * without an address (ip route add local 10.9.0.0/16 dev lo). Other tables count only for packets
 * that a rule selects, as for transparent proxies, and are not read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "io/addr.h"

/* Where networks are collected: at most max of them. */
struct sw_localroutes {
    struct sw_cidr *p; /* borrowed */
    size_t n;
    size_t max;
    bool full; /* there were more */
};

/* Reads the table; false: the kernel gave no answer, and the content of 'to' is not valid. */
bool sw_localroutes_get(struct sw_localroutes *to);

/*
 * Adds the local networks of the messages in buf (n bytes, aligned as the kernel's). Messages that
 * are cut off or malformed end the reading. *ret_last: no more follow; *ret_failed: the kernel
 * reported an error instead, or that the table changed meanwhile.
 */
void sw_localroutes_read(const void *buf, size_t n, struct sw_localroutes *to, bool *ret_last,
                         bool *ret_failed);
