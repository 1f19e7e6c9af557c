/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redirection of a pod's TCP connections to the node proxy, by nftables rules and a routing rule
 * inside the pod's network namespace. Marks, tables and order are those of Istio's ambient mode.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "io/addr.h"

enum { SW_REDIRECT_IFS_MAX = 16, SW_REDIRECT_TEXT_MAX = 16384 };

struct sw_redirect {
    bool dns;            /* also capture DNS for a proxy on 15053 */
    bool ipv6;           /* rules and routes for IPv6 too */
    bool whole_machine;  /* our own namespace is meant: the proxy runs in it */
    bool inbound;        /* capture what comes in, for 15006 */
    struct sw_ip probe4; /* health probes come from here and are left alone */
    struct sw_ip probe6;
    const char *const *virtual_ifs; /* borrowed: what comes in here counts as outbound */
    size_t n_virtual_ifs;
};

/* The defaults: IPv6 on, inbound on, DNS off, Istio's probe addresses. */
void sw_redirect_init(struct sw_redirect *r);
/* Refuses interface names that are none and too many of them. */
SW_NODISCARD int sw_redirect_check(const struct sw_redirect *r, struct sw_err *err);

/*
 * Input for `nft -f -` that replaces whatever is there in one transaction, so that applying twice
 * gives the same state and no packet sees half of the rules.
 */
SW_NODISCARD int sw_redirect_ruleset(const struct sw_redirect *r, struct sw_buf *out);
/* Input for `nft -f -` that removes exactly the three tables, whether they exist or not. */
SW_NODISCARD int sw_redirect_removal(struct sw_buf *out);
/* Rules and routing commands for people to read; touches nothing. */
SW_NODISCARD int sw_redirect_show(const struct sw_redirect *r, struct sw_buf *out);

/*
 * Puts the redirection into the namespace. On failure the rules are as before and routes added
 * by this call are taken back. SW_EINVAL also for our own namespace and that of the first process,
 * unless whole_machine is set: it would cut the host off. SW_ENOENT: nft or ip is not installed;
 * SW_ESYS: not permitted.
 */
SW_NODISCARD int sw_redirect_apply(int netns_fd, const struct sw_redirect *r, struct sw_err *err);
/* SW_OK when the redirection is there, SW_ENOENT with what is missing when it is not. */
SW_NODISCARD int sw_redirect_verify(int netns_fd, struct sw_err *err);
/* Runs a script of nft in the namespace (-1: here); all of it or nothing. */
SW_NODISCARD int sw_redirect_run(int netns_fd, struct sw_slice script, struct sw_err *err);
/* Takes it out again; what is not there is no error. */
SW_NODISCARD int sw_redirect_remove(int netns_fd, struct sw_err *err);
