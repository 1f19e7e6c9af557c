/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who publishes which NodeID in the discovery DNS. A key belongs to the first Connector that has it
 * (oldest creationTimestamp, then namespace and name); others of the same key defer to it.
 * Pure: used by the controller that writes the condition and by the one that fills the zone.
 */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "base/slice.h"
#include "quic/nodeid.h"

enum sw_dns_claim_state {
    SW_DNS_CLAIM_PENDING,  /* no usable connection details, or not accepted, or going */
    SW_DNS_CLAIM_STALE,    /* not ready for too long: withdrawn, and free for others */
    SW_DNS_CLAIM_OWNER,    /* its records are published */
    SW_DNS_CLAIM_DEFERRED, /* another one of the same key is the owner */
};

struct sw_dns_claim {
    const struct sw_json *connector; /* in: the whole object */
    bool foreign; /* in: its class has a controller whose keys are not published here */
    enum sw_dns_claim_state state;
    struct sw_nodeid id;         /* but for PENDING */
    const struct sw_json *owner; /* DEFERRED: the object that owns the key */
    const struct sw_slice *txt;  /* OWNER: the records */
    size_t n_txt;
    struct sw_slice
        unready_since; /* lastTransitionTime of Ready while it is not True; else empty */
};

/*
 * Fills claims[].state and the rest; memory from the arena. stale_before: RFC 3339 in UTC with
 * seconds; a Connector not Ready since then or longer is stale. Empty: none ever is.
 */
void sw_dns_claims(struct sw_arena *a, struct sw_dns_claim *claims, size_t n,
                   struct sw_slice stale_before);

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
