/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which Connector a NodeID belongs to, in the whole fabric: one, or none. A key belongs to the
 * Connector whose device signed for it last (quic/id/keyproof.h). Where none did, and only among
 * Connectors of classes that do without (SW_KEYPROOF_OFF), to the one with the recorded claim
 * (control/claims.h), else the oldest. What a status says of itself decides nothing here: its
 * writer could claim any key. Pure.
 */
#pragma once

#include "base/map.h"
#include "control/runtime.h"
#include "quic/id/keyproof.h"

/* Value of the annotation SW_KEYPROOF on a ConnectorClass: its devices cannot prove their keys. */
#define SW_KEYPROOF_OFF "NotRequired"

/* Kinds of the view. */
struct sw_connector_kinds {
    size_t connectors;
    size_t classes;
    size_t claims;
};

/* Of one view, which it borrows. */
struct sw_connector_keys {
    const struct sw_view *v;
    struct sw_connector_kinds kinds;
    struct sw_map owners; /* id in hex -> struct key_owner of the arena */
};

/* End it with sw_connector_keys_done. */
void sw_connector_keys_init(struct sw_connector_keys *k, const struct sw_view *v,
                            const struct sw_connector_kinds *kinds, struct sw_arena *a);
void sw_connector_keys_done(struct sw_connector_keys *k);
/* The owner of the key that a Connector names; NULL: it names none, or the key has no owner. */
const struct sw_kube_obj *sw_connector_key_owner(const struct sw_connector_keys *k,
                                                 const struct sw_kube_obj *connector);
/* The Connector by itself has a valid proof of its key; another may have a later one. */
bool sw_connector_key_proved(const struct sw_json *connector);
/* A class whose Connectors need no proof; NULL is none. */
bool sw_connector_class_unproved(const struct sw_kube_obj *connector_class);

/* Ready, and with a NodeID that is its own: the id (64 hex digits, borrowed). Empty otherwise. */
struct sw_slice sw_connector_online(const struct sw_connector_keys *k,
                                    const struct sw_kube_obj *connector);
/*
 * For claims: *ret_asks when the Connector may claim the key it names: it is its own, or no proof
 * exists and none is required. *ret_unproved when it may not for want of a proof.
 */
void sw_connector_key_claim(const struct sw_connector_keys *k, const struct sw_kube_obj *connector,
                            bool *ret_asks, bool *ret_unproved);
/* True when nothing of it changed that these decisions are made of. */
bool sw_connector_keys_same(const struct sw_kube_obj *x, const struct sw_kube_obj *y);
