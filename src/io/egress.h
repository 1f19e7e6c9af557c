/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The egress filter: to which resolved addresses a role connects on behalf of a tenant. What the
 * operator gives on the command line is not checked; what comes out of objects, xDS or DNS is.
 *
 * Denied without being listed: loopback, link-local, unspecified, multicast and broadcast
 * addresses, well-known metadata services, and the addresses of this machine, those of its local
 * routes among them, which are followed while they change; also inside IPv6 forms that carry an
 * IPv4 address (mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/addr.h"
#include "io/loop.h"

struct sw_egress;

enum sw_egress_class {
    SW_EGRESS_OK,
    SW_EGRESS_LISTED, /* in the deny list */
    SW_EGRESS_LOOPBACK,
    SW_EGRESS_LINK_LOCAL,
    SW_EGRESS_UNSPECIFIED,
    SW_EGRESS_MULTICAST, /* and broadcast */
    SW_EGRESS_METADATA,
    SW_EGRESS_OWN, /* an address of this machine */
    SW_EGRESS_CLASSES,
};

/* "loopback", "own": for metrics and log lines. */
const char *sw_egress_class_text(enum sw_egress_class c);

/* What an address is by itself, in any disguise; never LISTED or OWN. */
enum sw_egress_class sw_egress_classify(const struct sw_ip *ip);

enum { SW_EGRESS_RULES_MAX = 256 };

struct sw_egress_opts {
    /*
     * "CIDR", "ADDRESS", both with ":PORT" or ":PORT-PORT" behind (IPv6 then in brackets), or
     * "own": the addresses of this machine. The deny list beats the allow list, which beats what is
     * denied without being listed.
     */
    const char *const *allow;
    size_t n_allow;
    const char *const *deny;
    size_t n_deny;
    bool only_listed; /* nothing but the deny list is denied */
};

/*
 * Follows the machine's addresses on the loop. Checks may come from any thread. NULL: SW_EINVAL,
 * SW_ELIMIT with the rule in err.
 */
SW_NODISCARD struct sw_egress *sw_egress_new(struct sw_loop *l, const struct sw_egress_opts *o,
                                             struct sw_err *err);
/* On the loop's thread, when no thread checks any more. NULL is fine. */
void sw_egress_free(struct sw_egress *e);

/*
 * SW_OK, or SW_EDENIED with the address and the class in err: counted, and logged a few times a
 * second at most. A NULL filter permits everything.
 */
SW_NODISCARD int sw_egress_check(struct sw_egress *e, const struct sw_addr *to, struct sw_err *err);
/* The same without counting and logging. */
enum sw_egress_class sw_egress_judge(struct sw_egress *e, const struct sw_addr *to);
/* True when the allow list names it, and the deny list does not. Nothing is counted. */
bool sw_egress_allowed(struct sw_egress *e, const struct sw_addr *to);
/* How many were denied as c. */
uint64_t sw_egress_denied(const struct sw_egress *e, enum sw_egress_class c);
