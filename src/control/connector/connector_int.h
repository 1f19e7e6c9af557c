/* SPDX-License-Identifier: Apache-2.0 */
/* What the connector builds share. Not for others. */
#pragma once

#include "control/claims.h"
#include "control/connector/connector.h"
#include "control/device/keys.h"
#include "control/gateway/build/build_int.h" /* conditions */
#include "control/objects.h"

#define CN_API  SW_CONNECTOR_GROUP "/v1alpha1"
#define HP_API  SW_CONNECTOR_GROUP "/v1alpha"
#define GW_API  GW_GROUP "/v1"
#define MANAGED "app.kubernetes.io/managed-by"
#define PROXY   "spanwire.dev/httpproxy" /* label of what is made for one */

/* ---- objects.c ---- */

/* Makes 'of' the controlling owner. */
void cn_own(struct sw_arena *a, struct sw_json *obj, const struct sw_kube_obj *of, const char *api,
            const char *kind);
bool cn_owned_by(const struct sw_kube_obj *o, struct sw_slice uid);
/* Wall clock nanoseconds; false when it is no time. */
bool cn_time(struct sw_slice text, uint64_t *ret);
/* For the log and a counter, once for as long as it is so. */
void cn_note(struct sw_output *out, const char *reason, const char *kind,
             const struct sw_kube_obj *of, const char *text);

/* ---- defaults.c: what every fabric has ---- */

void cn_defaults(const struct sw_view *v, const struct sw_connector_conf *conf,
                 struct sw_output *out);

/* ---- lease.c ---- */

/* What a Lease says of its device. */
struct cn_life {
    bool live;
    const char *why; /* not live */
    struct sw_slice holder;
    uint64_t until_ns; /* wall clock */
};

/* Wants the Lease of this Connector where it is missing, or has another duration. */
void cn_want_lease(const struct sw_connector_conf *conf, const struct sw_kube_obj *o,
                   const struct sw_kube_obj *lease, struct sw_output *out);
/* lease is the one of its name; NULL: there is none. */
struct cn_life cn_lease_life(const struct sw_view *v, const struct sw_kube_obj *o,
                             const struct sw_kube_obj *lease);

/* ---- takeover.c: who may replace a device by another ---- */

void cn_takeover(const struct sw_view *v, struct sw_output *out);

/* ---- gateways.c ---- */

/* The annotation's value. In the arena; empty: no gateway says where it is. */
struct sw_slice cn_gateway_addresses(const struct sw_view *v, struct sw_arena *a);

/* ---- relays.c ---- */

void cn_relays(const struct sw_view *v, const struct sw_connector_conf *conf,
               struct sw_output *out);

/* ---- advertisement.c ---- */

void cn_advertisements(const struct sw_view *v, struct sw_output *out);

enum cn_advertised {
    CN_ADVERTISED,
    CN_NOT_ADVERTISED, /* advertisements there are, but none has it */
    CN_NO_ADVERTISEMENT,
};
/* An advertisement of a Connector. */
struct cn_advert {
    const struct sw_kube_obj *obj;
    struct cn_advert *next;
};
/* "ns/connector" -> struct cn_advert in the arena. The caller ends the map. */
void cn_advert_index(const struct sw_view *v, struct sw_arena *a, struct sw_map *ret);
/* Whether one of these has host and port (TCP). */
enum cn_advertised cn_advertised(const struct cn_advert *list, struct sw_slice host, uint16_t port);
/* One service address against a host; DNS names may have wildcards. */
bool cn_address_matches(struct sw_slice pattern, struct sw_slice host);
