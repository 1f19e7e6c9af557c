/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host names to addresses by the system's resolver, on threads of their own so that no worker ever
 * blocks, and several of them so that one name without an answer does not hold up the others.
 * Answers arrive as messages on the caller's loop.
 */
#pragma once

#include "io/addr.h"
#include "io/loop.h"

enum { SW_RESOLVE_MAX = 16, SW_RESOLVE_NAME = 256, SW_RESOLVER_THREADS = 4 };

struct sw_resolve;
typedef void (*sw_resolve_cb)(struct sw_resolve *r);

/* One question; heap memory of the asker, freed by it from the callback on. */
struct sw_resolve {
    struct sw_msg msg; /* on the way back */
    struct sw_resolve *next;
    struct sw_loop *loop;
    sw_resolve_cb cb;
    void *arg; /* the asker sets it to NULL when it lost interest; checked in its cb */
    char name[SW_RESOLVE_NAME];
    int rc; /* SW_OK, SW_ENOENT, SW_EINVAL (no host name), SW_ELIMIT (too many questions waiting) */
    bool unknown; /* with SW_ENOENT: no server answered, or one failed; the name may well exist */
    size_t n;
    struct sw_ip ips[SW_RESOLVE_MAX];
};

/*
 * A lookup that was started, as below. A name that is too long is answered with SW_EINVAL.
 */
SW_NODISCARD struct sw_resolve *sw_resolve_new(struct sw_loop *l, struct sw_slice name,
                                               sw_resolve_cb cb, void *arg);
/*
 * Starts a lookup; r->name, loop, cb and arg are set by the caller. The callback always comes, from
 * the loop. A name that sw_host_parse refuses reaches no resolver.
 */
void sw_resolve_start(struct sw_resolve *r);
/*
 * Ends the threads; waiting lookups fail with SW_ENOENT, also one that the system's resolver has
 * not returned from, which is not waited for.
 */
void sw_resolver_stop(void);
