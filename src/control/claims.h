/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has a host name, a device's key or a public port. A claim is an object of the API (Claim,
 * cluster-scoped), made when a name is given away: its name follows from what is claimed and its
 * spec cannot be changed, so the API itself refuses a second owner, whatever replicas do at the
 * same time. It stays with its holder (namespace, name and uid) until that is gone or does not ask
 * for it any more.
 *
 * Pure, as the builds that call it are: recorded claims are part of the view, new ones and those
 * that are over are part of the output.
 */
#pragma once

#include "base/map.h"
#include "control/runtime.h"

extern const struct sw_kube_gvr sw_claim_gvr;

enum sw_claim_type {
    SW_CLAIM_HOSTNAME, /* an HTTPProxy's */
    SW_CLAIM_KEY,
    SW_CLAIM_INGRESS_HOST, /* a Hostname too; beside an HTTPProxy's, which goes first */
    SW_CLAIM_PORT,         /* "tcp/<port>" */
};

/* An object that asks for something. */
struct sw_claim_ask {
    struct sw_slice value; /* borrowed; of one spelling: claims are compared byte by byte */
    const struct sw_kube_obj *by;
    /* Its status says that it has it already. Counts only while nothing is recorded: objects of a
     * data directory older than claims stay served. */
    bool served;
    bool dormant; /* cannot use it now: keeps what it has, and gets nothing */
};

struct sw_claims_in {
    enum sw_claim_type type;
    const struct sw_view *v;
    size_t claims;  /* kind of the view: Claims */
    size_t holders; /* kind of the view: what asks */
    const char *holder_kind;
    bool record; /* write to out; else only look */
};

/* What was found out about one value. */
struct sw_claim {
    struct sw_slice value;
    struct sw_slice ns; /* of the holder, like name and uid */
    struct sw_slice name;
    struct sw_slice uid;
    /* NULL: recorded for an object that the view does not have, or that does not ask for it. */
    const struct sw_kube_obj *holder;
};

/*
 * Fills ret: value -> struct sw_claim in the output's arena. A value that is not in it has no owner
 * yet: its claim is being written. Of several that ask for a free value the one that is served
 * already gets it, then the oldest. Sorts asks. The caller ends the map.
 */
void sw_claims_decide(const struct sw_claims_in *in, struct sw_claim_ask *asks, size_t n,
                      struct sw_output *out, struct sw_map *ret);

/* True when the claim is this object's. False for NULL. */
bool sw_claim_is(const struct sw_claim *c, const struct sw_kube_obj *o);

/* "host-<hash>", "ingress-<hash>", "key-<value>" or "port-tcp-<port>": metadata.name of the claim.
 * In the arena. */
struct sw_slice sw_claim_name(struct sw_arena *a, enum sw_claim_type type, struct sw_slice value);

/* The Claim of a value for an object, to be applied. In the arena. */
struct sw_json *sw_claim_object(struct sw_arena *a, enum sw_claim_type type, struct sw_slice value,
                                const char *holder_kind, const struct sw_kube_obj *o);
/*
 * True when the view has seen the holder of the recorded claim at least as it was when it claimed.
 * Before that a holder that is not there, or does not ask, may be one that the watch has not
 * delivered yet.
 */
bool sw_claim_seen(const struct sw_view *v, size_t holders, const struct sw_kube_obj *claim);
