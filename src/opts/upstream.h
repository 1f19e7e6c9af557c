/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the egress filter (io/egress.h), the same for every role that has one. */
#pragma once

#include "io/egress.h"
#include "opts/opts.h"

struct sw_upstream_opts {
    struct sw_opt_list allow;
    struct sw_opt_list deny;
};

/* Two rows of an option table whose destination has a struct sw_upstream_opts at 'at'. */
#define SW_OPT_UPSTREAM(at)                                                                        \
    {"upstream-allow",                                                                             \
     "SPANWIRE_UPSTREAM_ALLOW",                                                                    \
     SW_OPT_LIST,                                                                                  \
     .offset = (at) + offsetof(struct sw_upstream_opts, allow),                                    \
     .arg = "CIDR[:PORTS]",                                                                        \
     .help = "Addresses that destinations in objects, xDS or DNS may have although they are "      \
             "loopback, link-local, multicast, unspecified, a metadata service or this machine's " \
             "('own'), which are denied otherwise. Repeats."},                                     \
    {                                                                                              \
        "upstream-deny", "SPANWIRE_UPSTREAM_DENY", SW_OPT_LIST,                                    \
            .offset = (at) + offsetof(struct sw_upstream_opts, deny), .arg = "CIDR[:PORTS]",       \
            .help = "Further addresses that they may not have; beats --upstream-allow. Repeats."   \
    }

/* As sw_egress_new, with the options' names in err. */
SW_NODISCARD struct sw_egress *sw_upstream_filter(struct sw_loop *l,
                                                  const struct sw_upstream_opts *o,
                                                  bool only_listed, struct sw_err *err);
