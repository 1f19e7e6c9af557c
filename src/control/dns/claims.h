/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which Connector has which key (NodeID), and who publishes it in the discovery DNS. A key belongs
 * to the Connector that a recorded claim names (control/claims.h); others of the same key defer to
 * it. Pure: used by the controller that writes the condition and by the one that fills the zone.
 */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "base/slice.h"
#include "control/claims.h"
#include "control/device/keys.h"
#include "quic/id/nodeid.h"

enum sw_dns_claim_state {
    SW_DNS_CLAIM_PENDING,    /* no usable connection details, or not accepted, or going */
    SW_DNS_CLAIM_UNRECORDED, /* it would be the owner, but its claim is not recorded yet */
    SW_DNS_CLAIM_STALE,      /* not ready for too long: withdrawn, but the key stays its own */
    SW_DNS_CLAIM_OWNER,      /* its records are published */
    SW_DNS_CLAIM_DEFERRED,   /* another one of the same key is the owner */
};

struct sw_dns_claim {
    const struct sw_kube_obj *connector; /* in */
    bool foreign;  /* in: its class has a controller whose keys are not published here */
    bool asks;     /* in: it may claim its key, and 'unproved': it has not proved it, and would */
    bool unproved; /* have to; both by sw_connector_key_claim (control/device/keys.h) */
    enum sw_dns_claim_state state;
    struct sw_nodeid id;          /* but for PENDING */
    const struct sw_claim *owner; /* DEFERRED: who has the key */
    const struct sw_slice *txt;   /* OWNER: the records */
    size_t n_txt;
    struct sw_slice
        unready_since; /* lastTransitionTime of Ready while it is not True; else empty */
};

/* What goes in, of all Connectors of the view that the keys are of; in the arena. */
struct sw_dns_claim *sw_dns_claims_begin(const struct sw_view *v, const struct sw_connector_keys *k,
                                         struct sw_arena *a, size_t *ret_n);

/*
 * Who has which key: ret is hex of the key -> struct sw_claim, as sw_claims_decide makes it from
 * the Connectors of claims (what is in is set) that are not being deleted and may
 * claim their key (asks). Foreign and not accepted ones keep a key and get none. in->record: claims
 * are written to out.
 */
void sw_key_claims(const struct sw_claims_in *in, const struct sw_dns_claim *claims, size_t n,
                   struct sw_output *out, struct sw_map *ret);

/*
 * Fills claims[].state and the rest; memory from the arena. keys: as sw_key_claims makes it.
 * stale_before: RFC 3339 in UTC with seconds; a Connector not Ready since then or longer is stale.
 * Empty: none ever is.
 */
void sw_dns_claims(struct sw_arena *a, const struct sw_map *keys, struct sw_dns_claim *claims,
                   size_t n, struct sw_slice stale_before);

/* True for the controllers (spec.controllerName of a ConnectorClass) whose keys are published. */
bool sw_dns_claims_of(struct sw_slice controller);

/* The condition IrohDNSPublished that a claim deserves. */
struct sw_dns_claim_condition {
    const char *status; /* "True" or "False" */
    const char *reason;
    struct sw_slice message; /* in the arena */
};
struct sw_dns_claim_condition sw_dns_claim_condition(struct sw_arena *a,
                                                     const struct sw_dns_claim *c);
/* "_iroh.<z32>", relative to the zone; in the arena. */
struct sw_slice sw_dns_claim_name(struct sw_arena *a, const struct sw_dns_claim *c);
