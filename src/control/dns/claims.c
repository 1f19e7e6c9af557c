/* SPDX-License-Identifier: Apache-2.0 */
#include "control/dns/claims.h"

#include "control/objects.h"
#include "quic/id/discovery.h"

static struct sw_slice meta(const struct sw_json *o, const char *field)
{
    return sw_json_str(sw_json_walk(o, "metadata", field, NULL));
}

static const struct sw_json *condition(const struct sw_json *o, const char *type)
{
    return cn_condition(sw_json_walk(o, "status", "conditions", NULL), type);
}

static bool is_false(const struct sw_json *o, const char *type)
{
    return sw_json_str_eq(sw_json_find(condition(o, type), "status"), "False");
}

/* ---- keys ---- */

/* The key that a Connector names. */
static bool read_key(const struct sw_json *o, struct sw_nodeid *ret)
{
    struct sw_slice id =
        sw_json_str(sw_json_walk(o, "status", "connectionDetails", "publicKey", "id", NULL));

    return id.n == SW_NODEID_HEX - 1 && sw_nodeid_parse(id, ret, NULL) == SW_OK &&
           !meta(o, "deletionTimestamp").n;
}

static struct sw_slice hex_of(struct sw_arena *a, const struct sw_nodeid *id)
{
    char hex[SW_NODEID_HEX];

    return sw_arena_slice(a, sw_slice_str(sw_nodeid_hex(id, hex)));
}

/* A class that does not exist covers no Connector; the condition Accepted says so. */
static bool is_foreign(const struct sw_connector_keys *k, const struct sw_json *connector)
{
    struct sw_slice class =
        sw_json_str(sw_json_walk(connector, "spec", "connectorClassName", NULL));
    const struct sw_kube_obj *o =
        class.n ? sw_view_find(k->v, k->kinds.classes, sw_slice("", 0), class) : NULL;

    return o &&
           !sw_dns_claims_of(sw_json_str(sw_json_walk(o->json, "spec", "controllerName", NULL)));
}

struct sw_dns_claim *sw_dns_claims_begin(const struct sw_view *v, const struct sw_connector_keys *k,
                                         struct sw_arena *a, size_t *ret_n)
{
    struct sw_dns_claim *claims =
        sw_arena_array(a, sw_view_count(v, k->kinds.connectors) + 1, sizeof(*claims));

    *ret_n = 0;
    SW_VIEW_EACH (o, v, k->kinds.connectors) {
        struct sw_dns_claim *c = &claims[(*ret_n)++];

        c->connector = o;
        c->foreign = is_foreign(k, o->json);
        sw_connector_key_claim(k, o, &c->asks, &c->unproved);
    }
    return claims;
}

void sw_key_claims(const struct sw_claims_in *in, const struct sw_dns_claim *claims, size_t n,
                   struct sw_output *out, struct sw_map *ret)
{
    struct sw_arena *a = sw_out_arena(out);
    struct sw_claim_ask *asks = sw_arena_array(a, n + 1, sizeof(*asks));
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        const struct sw_json *o = claims[i].connector->json;
        const struct sw_json *published = condition(o, "IrohDNSPublished");
        struct sw_nodeid id;

        if (claims[i].asks && read_key(o, &id))
            asks[count++] = (struct sw_claim_ask){
                .value = hex_of(a, &id),
                .by = claims[i].connector,
                .served = sw_json_str_eq(sw_json_find(published, "status"), "True"),
                .dormant = claims[i].foreign || is_false(o, "Accepted")};
    }
    sw_claims_decide(in, asks, count, out, ret);
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
    const struct sw_json *o = c->connector->json;
    const struct sw_json *key = sw_json_walk(o, "status", "connectionDetails", "publicKey", NULL);
    const struct sw_json *ready = condition(o, "Ready");
    struct sw_quic_target t = {0};
    struct sw_slice *txt = NULL;
    struct sw_addr *addrs;

    *c = (struct sw_dns_claim){.connector = c->connector,
                               .foreign = c->foreign,
                               .asks = c->asks,
                               .unproved = c->unproved,
                               .state = SW_DNS_CLAIM_PENDING};
    if (c->foreign || c->unproved || !read_key(o, &c->id) || is_false(o, "Accepted"))
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

static void drop_records(struct sw_dns_claim *c, enum sw_dns_claim_state state)
{
    c->state = state;
    c->txt = NULL;
    c->n_txt = 0;
}

void sw_dns_claims(struct sw_arena *a, const struct sw_map *keys, struct sw_dns_claim *claims,
                   size_t n, struct sw_slice stale_before)
{
    for (size_t i = 0; i < n; i++) {
        struct sw_dns_claim *c = &claims[i];
        const struct sw_claim *has;

        read_claim(a, c, stale_before);
        if (c->state != SW_DNS_CLAIM_OWNER && c->state != SW_DNS_CLAIM_STALE)
            continue;
        has = sw_map_get(keys, hex_of(a, &c->id));
        if (!has) {
            drop_records(c, SW_DNS_CLAIM_UNRECORDED);
        } else if (!sw_claim_is(has, c->connector)) {
            drop_records(c, SW_DNS_CLAIM_DEFERRED);
            c->owner = has;
        }
    }
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
        r.message = c->unproved
                        ? SW_SLICE_LIT("The device has not proved its key: see KeyProved")
                        : SW_SLICE_LIT("Waiting for connection details with a valid public key "
                                       "and a relay or an address");
        break;
    case SW_DNS_CLAIM_UNRECORDED:
        r.message = SW_SLICE_LIT("Waiting for the claim on the key to be recorded");
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
        /* Names of objects elsewhere are none of its business. */
        r.message =
            sw_slice_eq(c->owner->ns, c->connector->ns)
                ? sw_slice_str(sw_arena_printf(
                      a, "The key is claimed by connector '%.*s/%.*s', which has it",
                      SW_SLICE_ARG(c->owner->ns), SW_SLICE_ARG(c->owner->name)))
                : SW_SLICE_LIT("The key is claimed by a connector of another namespace, which has "
                               "it");
        break;
    }
    return r;
}

struct sw_slice sw_dns_claim_name(struct sw_arena *a, const struct sw_dns_claim *c)
{
    char z32[SW_NODEID_B32];

    return sw_slice_str(sw_arena_printf(a, "_iroh.%s", sw_nodeid_z32(&c->id, z32)));
}
