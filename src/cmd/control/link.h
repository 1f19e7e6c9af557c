/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links between clusters in `spanwire control`: the port where the site's data planes find xDS and
 * authorisation, the site's and the fabric's certificates, and what decisions are made of.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "control/linkport.h"
#include "io/addr.h"
#include "opts/opts.h"

struct sw_control_link;
struct sw_egress;
struct sw_kube_client;
struct sw_metrics_shard;
struct sw_xds_cache;

struct sw_control_link_opts {
    struct sw_addr listen;           /* family 0: nowhere */
    const char *fabric;              /* directory; NULL: the Secret 'cl-peer' */
    const char *site;                /* directory; NULL: DATA/link-site */
    const char *ns;                  /* the system namespace */
    uint64_t peer_ttl_ns;            /* of certificates for sites that join */
    struct sw_opt_list labels;       /* "k=v" of this site */
    struct sw_opt_list addresses;    /* where data planes are reached */
    struct sw_opt_list gateways;     /* the same for other sites, "HOST:PORT" */
    struct sw_opt_list export_hosts; /* that Exports may name besides Services of their own */
    const char *ports;               /* target ports that Imports may have, "FIRST-LAST" */
    bool known_peers_only;
    /* Not flags of their own: */
    struct sw_link_ports outside[2]; /* of 'ports' */
    size_t n_outside;
    bool direct;          /* see sw_link_conf */
    const char *lease_ns; /* NULL: we are alone and lead */
    const char *identity; /* in the lease */
    const char *data;
    struct sw_egress *egress;
};

/* Everything is borrowed and must outlive it, o included; metrics may be NULL. NULL with err. */
SW_NODISCARD struct sw_control_link *sw_control_link_new(struct sw_kube_client *client,
                                                         struct sw_metrics_shard *metrics,
                                                         const struct sw_control_link_opts *o,
                                                         struct sw_err *err);
/* NULL is fine. */
void sw_control_link_free(struct sw_control_link *l);
struct sw_addr sw_control_link_addr(const struct sw_control_link *l);
