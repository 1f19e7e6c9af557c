/* SPDX-License-Identifier: Apache-2.0 */
#include "control/dns/claims.h"

#include <stdlib.h>

#include "base/map.h"
#include "quic/discovery.h"

static struct sw_slice meta(const struct sw_json *o, const char *field)
{
    return sw_json_str(sw_json_walk(o, "metadata", field, NULL));
}

static const struct sw_json *condition(const struct sw_json *o, const char *type)
{
    const struct sw_json *list = sw_json_walk(o, "status", "conditions", NULL);

    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *c = sw_json_at(list, i);

        if (sw_json_str_eq(sw_json_find(c, "type"), type))
            return c;
    }
    return NULL;
}

/* ---- one Connector ---- */

static size_t read_addrs(const struct sw_json *list, struct sw_addr out[SW_QUIC_ADDRS_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < sw_json_len(list) && n < SW_QUIC_ADDRS_MAX; i++) {
        const struct sw_json *v = sw_json_at(list, i);
        uint64_t port;

        if (!sw_json_u64(sw_json_find(v, "port"), &port) || !port || port > 65535 ||
            sw_ip_parse(sw_json_str(sw_json_find(v, "address")), &out[n].ip, NULL) != SW_OK)
            continue;
        out[n++].port = (uint16_t)port;
    }
    return n;
}

/* What the Connector by itself could publish. */
static void read_claim(struct sw_arena *a, struct sw_dns_claim *c, struct sw_slice stale_before)
{
    const struct sw_json *o = c->connector;
    const struct sw_json *key = sw_json_walk(o, "status", "connectionDetails", "publicKey", NULL);
    const struct sw_json *ready = condition(o, "Ready");
    struct sw_slice id = sw_json_str(sw_json_find(key, "id"));
    struct sw_quic_target t = {0};
    struct sw_slice *txt = NULL;
    struct sw_addr *addrs;

    *c =
        (struct sw_dns_claim){.connector = o, .foreign = c->foreign, .state = SW_DNS_CLAIM_PENDING};
    if (c->foreign || id.n != SW_NODEID_HEX - 1 || sw_nodeid_parse(id, &c->id, NULL) != SW_OK ||
        meta(o, "deletionTimestamp").n ||
        sw_json_str_eq(sw_json_find(condition(o, "Accepted"), "status"), "False"))
        return;
    addrs = sw_arena_array(a, SW_QUIC_ADDRS_MAX, sizeof(*addrs));
    t.id = c->id;
    t.relay = sw_json_str(sw_json_find(key, "homeRelay"));
    t.addrs = addrs;
    t.n_addrs = read_addrs(sw_json_find(key, "addresses"), addrs);
    c->n_txt = sw_discovery_write(a, &t, &txt);
    c->txt = txt;
    if (!c->n_txt)
        return;
    c->state = SW_DNS_CLAIM_OWNER;
    if (ready && !sw_json_str_eq(sw_json_find(ready, "status"), "True"))
        c->unready_since = sw_json_str(sw_json_find(ready, "lastTransitionTime"));
    /* Texts of one form and one zone compare like the times they mean. */
    if (stale_before.n && c->unready_since.n &&
        sw_slice_cmp(sw_slice_head(c->unready_since, 19), sw_slice_head(stale_before, 19)) <= 0)
        c->state = SW_DNS_CLAIM_STALE;
}

/* ---- all of them ---- */

/* Older first; the same age by namespace and name. */
static int precedence(const void *x, const void *y)
{
    const struct sw_json *a = (*(struct sw_dns_claim *const *)x)->connector;
    const struct sw_json *b = (*(struct sw_dns_claim *const *)y)->connector;
    int d = sw_slice_cmp(meta(a, "creationTimestamp"), meta(b, "creationTimestamp"));

    if (!d)
        d = sw_slice_cmp(meta(a, "namespace"), meta(b, "namespace"));
    return d ? d : sw_slice_cmp(meta(a, "name"), meta(b, "name"));
}

void sw_dns_claims(struct sw_arena *a, struct sw_dns_claim *claims, size_t n,
                   struct sw_slice stale_before)
{
    struct sw_dns_claim **order = sw_arena_array(a, n + 1, sizeof(struct sw_dns_claim *));
    struct sw_map owners = {0};

    for (size_t i = 0; i < n; i++) {
        read_claim(a, &claims[i], stale_before);
        order[i] = &claims[i];
    }
    qsort(order, n, sizeof(struct sw_dns_claim *), precedence);
    for (size_t i = 0; i < n; i++) {
        struct sw_dns_claim *c = order[i];
        struct sw_slice key = sw_slice(c->id.b, sizeof(c->id.b));
        const struct sw_dns_claim *owner;

        if (c->state != SW_DNS_CLAIM_OWNER)
            continue;
        owner = sw_map_get(&owners, key);
        if (owner) {
            c->state = SW_DNS_CLAIM_DEFERRED;
            c->owner = owner->connector;
            c->txt = NULL;
            c->n_txt = 0;
        } else {
            (void)sw_map_put(&owners, key, c);
        }
    }
    sw_map_done(&owners);
}

bool sw_dns_claims_of(struct sw_slice controller)
{
    return sw_slice_eq_str(controller, "networking.datumapis.com/datum-connect") ||
           sw_slice_eq_str(controller, "networking.datumapis.com/iroh-quic-tunnel");
}

struct sw_dns_claim_condition sw_dns_claim_condition(struct sw_arena *a,
                                                     const struct sw_dns_claim *c)
{
    struct sw_dns_claim_condition r = {.status = "False", .reason = "Pending"};

    switch (c->state) {
    case SW_DNS_CLAIM_PENDING:
        r.message = SW_SLICE_LIT("Waiting for connection details with a valid public key and a "
                                 "relay or an address");
        break;
    case SW_DNS_CLAIM_STALE:
        r.message = sw_slice_str(
            sw_arena_printf(a, "Withdrawn: the connector has not been ready since %.*s",
                            SW_SLICE_ARG(c->unready_since)));
        break;
    case SW_DNS_CLAIM_OWNER:
        r.status = "True";
        r.reason = "Owner";
        r.message = sw_slice_str(
            sw_arena_printf(a, "Published as %.*s", SW_SLICE_ARG(sw_dns_claim_name(a, c))));
        break;
    case SW_DNS_CLAIM_DEFERRED:
        r.reason = "DeferredToOwner";
        r.message = sw_slice_str(sw_arena_printf(
            a, "The key is published for connector '%.*s/%.*s', which had it first",
            SW_SLICE_ARG(meta(c->owner, "namespace")), SW_SLICE_ARG(meta(c->owner, "name"))));
        break;
    }
    return r;
}

struct sw_slice sw_dns_claim_name(struct sw_arena *a, const struct sw_dns_claim *c)
{
    char z32[SW_NODEID_B32];

    return sw_slice_str(sw_arena_printf(a, "_iroh.%s", sw_nodeid_z32(&c->id, z32)));
}
