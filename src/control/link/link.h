/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links between clusters: what Peers, Exports, Imports and access policies of this site ask for. A
 * pure build on the runtime: conditions, the Services and EndpointSlices of Imports, leases of
 * target ports, resources for data planes, and facts for authorisation. An object that is not
 * valid never changes what becomes of another.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "control/linkname.h"
#include "control/linkport.h"
#include "control/runtime.h"

struct sw_link_facts;

/* Kinds of the view. */
enum sw_lk_kind {
    SW_LK_PEER,
    SW_LK_EXPORT,
    SW_LK_IMPORT,
    SW_LK_POLICY,
    SW_LK_PRIVILEGED,
    SW_LK_SERVICE,
    SW_LK_SLICE, /* EndpointSlices of Imports and of Service SW_LINK_INGRESS */
    SW_LK_POD,   /* of data planes */
    SW_LK_ROLE,  /* ClusterRoles */
    SW_LK_NAMESPACE,
    SW_LK_BACKEND, /* EndpointSlices of all Services; only with sw_link_conf.direct */
    SW_LK_KINDS,
};
extern const struct sw_control_kind sw_link_kinds[SW_LK_KINDS];
/* How many of them a configuration needs. */
#define SW_LK_COUNT(conf) ((conf)->direct ? SW_LK_KINDS : SW_LK_BACKEND)

/* The Service that other sites reach the data planes by, in the system namespace. */
#define SW_LINK_INGRESS "clusterlink"

/* Everything is borrowed. */
struct sw_link_conf {
    struct sw_slice ns;     /* system namespace [SW_LINK_NAMESPACE] */
    struct sw_slice domain; /* of the cluster's names ["cluster.local"] */
    /*
     * No DNS of a cluster and no proxy for service addresses, as with the embedded API: an Import
     * has a ClusterIP Service in its own namespace instead of the pair of an ExternalName and a
     * Service of the system namespace, and data planes get the addresses of exported Services.
     */
    bool direct;
    const struct sw_slice *addresses; /* of data planes, where no pod is one */
    size_t n_addresses;
    const struct sw_link_ports *reserved; /* never leased, besides those every data plane has */
    size_t n_reserved;
    /*
     * What spec.host of an Export may be besides Services of its own namespace: addresses, blocks,
     * names, "*.suffix", "*".
     */
    const struct sw_slice *export_hosts;
    size_t n_export_hosts;
};

/*
 * Input of the build (sw_view_input): {"reach": sw_link_reach_json, "addresses": ["10.0.0.1"]},
 * both optional; the addresses are those that data planes connect from.
 *
 * Published: resources under their type URL, notes (sw_out_note), and SW_LINK_FACTS with the hash
 * of the facts, 16 hexadecimal digits. *ret_facts gets a reference to these.
 */
#define SW_LINK_FACTS "facts"
void sw_link_build(const struct sw_view *v, const struct sw_link_conf *conf, struct sw_output *out,
                   struct sw_link_facts **ret_facts);
