/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connectors and their Leases. A Lease is made by us and renewed by the device; while it is fresh,
 * and the key in the status is proved to be the device's (keys.h), the Connector is Ready. Nothing
 * a device says of itself is passed on before it was looked at.
 */
#include "base/search.h"
#include "base/time.h"
#include "control/connector/connector_int.h"
#include "control/dns/claims.h"
#include "quic/id/nodeid.h"

enum { HOLDER_HEX = 10, IDS_MAX = 4096 };

struct state {
    const struct sw_view *v;
    const struct sw_connector_conf *conf;
    struct sw_output *out;
    struct sw_arena *a;
    struct sw_slice gateway_ids; /* the annotation's value */
    struct sw_slice gateway_addrs;
    struct sw_connector_keys keys;
};

/* ---- what the device says of itself ---- */

static bool is_hex(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!(s.p[i] >= '0' && s.p[i] <= '9') && !(s.p[i] >= 'a' && s.p[i] <= 'f'))
            return false;
    }
    return s.n != 0;
}

/*
 * A holder begins with the first digits of its NodeID. While it holds the Lease no other device may
 * replace the key.
 */
static bool held_by_other(struct sw_slice holder, struct sw_slice id)
{
    struct sw_slice who = sw_slice_head(holder, HOLDER_HEX);

    return holder.n >= HOLDER_HEX && is_hex(who) && !sw_slice_has_prefix(id, who);
}

/* Why the details cannot be used; NULL: they can, or there are none yet (*ret_id is empty). */
static const char *check_details(const struct state *s, const struct sw_kube_obj *o,
                                 const struct cn_life *l, struct sw_slice *ret_id)
{
    struct sw_slice id =
        sw_json_str(sw_json_walk(o->json, "status", "connectionDetails", "publicKey", "id", NULL));
    struct sw_nodeid parsed;
    struct sw_err err;

    *ret_id = sw_slice("", 0);
    if (!id.n)
        return NULL;
    if (id.n != SW_NODEID_HEX - 1 || !is_hex(id) || sw_nodeid_parse(id, &parsed, &err) != SW_OK)
        return cn_text(s->a,
                       "connectionDetails.publicKey.id '%.*s' is not the public key of a device: "
                       "64 lower-case hexadecimal digits are expected.",
                       (int)sw_min(id.n, 80), id.p);
    if (l->live && held_by_other(l->holder, id))
        return cn_text(s->a,
                       "connectionDetails name the key %.*s, but the Lease is held by '%.*s'.",
                       HOLDER_HEX, id.p, SW_SLICE_ARG(l->holder));
    *ret_id = id;
    return NULL;
}

/* ---- statuses ---- */

static const char *const owned[] = {"Accepted", "Ready", "KeyProved", "IrohDNSPublished", NULL};

struct key_verdict {
    bool usable;
    struct cond proved; /* type NULL: no proof is required */
};

static struct sw_slice short_key(const struct sw_kube_obj *o)
{
    return sw_slice_head(
        sw_json_str(sw_json_walk(o->json, "status", "connectionDetails", "publicKey", "id", NULL)),
        HOLDER_HEX);
}

/* The device signed for this Connector. */
static struct key_verdict judge_proved(const struct state *s, const struct sw_kube_obj *o,
                                       const struct sw_kube_obj *owner)
{
    struct sw_slice key = short_key(o);
    struct key_verdict r = {.usable = owner == o};

    r.proved =
        (struct cond){"KeyProved", true, "Proved",
                      cn_text(s->a, "The device signed for this Connector with the key %.*s.",
                              SW_SLICE_ARG(key))};
    if (!r.usable) {
        /* Names of objects in other namespaces are not for this one to read. */
        struct sw_slice where = owner && sw_slice_eq(owner->ns, o->ns)
                                    ? cn_printf(s->a, "Connector '%.*s'", SW_SLICE_ARG(owner->name))
                                    : SW_SLICE_LIT("a Connector of another namespace");

        r.proved = (struct cond){
            "KeyProved", false, "ProvedElsewhere",
            cn_text(s->a,
                    "The device with the key %.*s signed for %.*s later. Start it for this one "
                    "again to use it here.",
                    SW_SLICE_ARG(key), SW_SLICE_ARG(where))};
    }
    return r;
}

/* It did not, and the owner of the key, if there is one, is not disclosed to other tenants. */
static struct key_verdict judge_unproved(const struct state *s, const struct sw_kube_obj *o,
                                         const struct sw_kube_obj *class, enum sw_keyproof p)
{
    struct key_verdict r = {0};

    if (!sw_connector_class_unproved(class) && p == SW_KEYPROOF_NO_KEY) {
        r.proved = (struct cond){"KeyProved", false, "Pending",
                                 "The device has not reported its key yet."};
        return r;
    }
    if (!sw_connector_class_unproved(class)) {
        r.proved = (struct cond){
            "KeyProved", false, "NotProved",
            cn_text(s->a,
                    "The device has not proved its key: %s. Devices of this version do when they "
                    "start; for others an administrator can set the annotation " SW_KEYPROOF
                    ": " SW_KEYPROOF_OFF " on ConnectorClass '%.*s'.",
                    sw_keyproof_text(p), SW_SLICE_ARG(class->name))};
        return r;
    }
    r.usable = p == SW_KEYPROOF_NO_KEY || sw_connector_key_owner(&s->keys, o) == o;
    if (!r.usable)
        r.proved = (struct cond){"KeyProved", false, "OwnedElsewhere",
                                 cn_text(s->a,
                                         "The device has not proved its key: %s. Another "
                                         "Connector has the key.",
                                         sw_keyproof_text(p))};
    return r;
}

static struct key_verdict judge_key(const struct state *s, const struct sw_kube_obj *o,
                                    const struct sw_kube_obj *class)
{
    enum sw_keyproof p = sw_keyproof_check(o->json, NULL);

    return p == SW_KEYPROOF_VALID ? judge_proved(s, o, sw_connector_key_owner(&s->keys, o))
                                  : judge_unproved(s, o, class, p);
}

static struct cond ready_condition(const struct cn_life *l, const char *invalid,
                                   const struct key_verdict *key)
{
    if (!l->live)
        return (struct cond){"Ready", false, "ConnectorNotReady", l->why};
    if (invalid)
        return (struct cond){"Ready", false, "InvalidConnectionDetails", invalid};
    if (!key->usable)
        return (struct cond){"Ready", false, "KeyNotProved", key->proved.msg};
    return (struct cond){"Ready", true, "ConnectorReady", "The connector renews its Lease."};
}

/* Leases are renewed all the time, and as a rule nothing follows from it. */
static void write_status(const struct state *s, const struct sw_kube_obj *o,
                         const struct sw_kube_obj *lease, const struct cond *want, size_t n)
{
    struct sw_slice ref = sw_json_str(sw_json_walk(o->json, "status", "leaseRef", "name", NULL));
    bool refer = lease && !sw_slice_eq(ref, lease->name);
    struct sw_json *status;

    if (!refer && same_conditions(cn_conditions(o), owned, want, n, generation_of(o)))
        return;
    status = status_with(s->a, o, owned, want, n);
    if (refer)
        sw_json_put(s->a, status, "leaseRef", SW_JSON_OF(s->a, {"name", .text = lease->name}));
    sw_out_status(s->out, SW_CN_CONNECTOR, o, status);
}

static bool annotated(const struct sw_kube_obj *o, const char *key, struct sw_slice value)
{
    struct sw_slice have = cn_meta_of(o, "annotations", key);

    return have.p && sw_slice_eq(have, value);
}

/* Only when something is different: others have annotations there too. */
static void put_annotations(const struct state *s, const struct sw_kube_obj *o)
{
    struct sw_slice relay = s->conf->relay_url;
    struct sw_json *obj;

    if (annotated(o, SW_CONNECTOR_GATEWAY_IDS, s->gateway_ids) &&
        sw_slice_eq(cn_meta_of(o, "annotations", SW_CONNECTOR_GATEWAY_ADDRS), s->gateway_addrs) &&
        (!relay.n || annotated(o, SW_CONNECTOR_RELAY, relay)))
        return;
    obj = cn_object(s->a, CN_API, "Connector", o->ns, o->name);
    /* Of exactly this one: nothing may come back because of us. */
    sw_json_put_str(s->a, sw_json_find(obj, "metadata"), "uid", o->uid);
    cn_meta(s->a, obj, "annotations", SW_CONNECTOR_GATEWAY_IDS, s->gateway_ids);
    if (s->gateway_addrs.n)
        cn_meta(s->a, obj, "annotations", SW_CONNECTOR_GATEWAY_ADDRS, s->gateway_addrs);
    if (relay.n)
        cn_meta(s->a, obj, "annotations", SW_CONNECTOR_RELAY, relay);
    sw_out_apply(s->out, SW_CN_CONNECTOR, obj);
}

/* How the key's publication goes; see control/dns. */
static struct cond dns_condition(const struct state *s, const struct sw_kube_obj *o,
                                 const struct sw_dns_claim *claim)
{
    struct sw_dns_claim_condition c = sw_dns_claim_condition(s->a, claim);
    uint64_t since;

    if (claim->state == SW_DNS_CLAIM_OWNER && s->conf->dns_stale_ns &&
        cn_time(claim->unready_since, &since))
        sw_out_expires(s->out, since + s->conf->dns_stale_ns + SW_NS_PER_S);
    if (claim->state == SW_DNS_CLAIM_DEFERRED)
        cn_note(s->out, c.reason, "connector", o, c.message.p);
    return (struct cond){"IrohDNSPublished", c.status[0] == 'T', c.reason,
                         sw_arena_dup(s->a, c.message)};
}

/*
 * A Connector whose key is published goes only after its claim did. Claims of what is being deleted
 * count no more, here and for the zone, so there is nothing to wait for but having seen it; and
 * where no keys are published nothing may hold it.
 */
static void want_finalizer(const struct state *s, const struct sw_kube_obj *o, bool claims)
{
    sw_out_finalizer(s->out, SW_CN_CONNECTOR, o, SW_SLICE_LIT(SW_CONNECTOR_DNS_CLEANUP),
                     claims && !cn_deleting(o));
}

static void build_one(const struct state *s, const struct sw_kube_obj *o,
                      const struct sw_dns_claim *claim)
{
    struct sw_slice class = sw_json_str(sw_json_walk(o->json, "spec", "connectorClassName", NULL));
    /* Of its name, whatever status.leaseRef says: others may write that, and Leases of others. */
    const struct sw_kube_obj *lease = sw_view_find(s->v, SW_CN_LEASE, o->ns, o->name);
    const struct sw_kube_obj *of;
    struct cond want[5];
    struct key_verdict key;
    size_t n = 0;
    struct cn_life l;
    struct sw_slice id;
    const char *invalid;
    bool ours;

    want_finalizer(s, o, claim != NULL);
    if (cn_deleting(o))
        return;
    of = class.n ? sw_view_find(s->v, SW_CN_CLASS, sw_slice("", 0), class) : NULL;
    if (!of) {
        want[n++] =
            (struct cond){"Accepted", false, "ConnectorClassNotFound",
                          cn_text(s->a, "There is no ConnectorClass '%.*s'.", SW_SLICE_ARG(class))};
        want[n++] = (struct cond){"Ready", false, "ConnectorNotReady",
                                  "Waiting for ConnectorClass to be resolved."};
        cn_note(s->out, want[0].reason, "connector", o, want[0].msg);
        write_status(s, o, NULL, want, n);
        return;
    }
    want[n++] = (struct cond){"Accepted", true, "Accepted", "Connector class resolved"};
    ours = lease && cn_owned_by(lease, o->uid);
    cn_want_lease(s->conf, o, lease, s->out);
    l = cn_lease_life(s->v, o, lease);
    if (l.live)
        sw_out_expires(s->out, l.until_ns + 1);
    invalid = check_details(s, o, &l, &id);
    key = judge_key(s, o, of);
    if (invalid)
        cn_note(s->out, "InvalidConnectionDetails", "connector", o, invalid);
    else if (l.live && id.n && !key.usable)
        cn_note(s->out, "KeyNotProved", "connector", o, key.proved.msg);
    else if (l.live && id.n)
        sw_out_publish(s->out, SW_CONNECTOR_ONLINE, o->key, id);
    want[n++] = ready_condition(&l, invalid, &key);
    if (key.proved.type)
        want[n++] = key.proved;
    if (claim)
        want[n++] = dns_condition(s, o, claim);
    write_status(s, o, ours ? lease : NULL, want, n);
    put_annotations(s, o);
}

/* ---- gateways ---- */

static bool valid_id(struct sw_slice id)
{
    struct sw_nodeid parsed;
    struct sw_err err;

    return id.n == SW_NODEID_HEX - 1 && is_hex(id) && sw_nodeid_parse(id, &parsed, &err) == SW_OK;
}

/* All gateways that say who they are, sorted, each once. */
static struct sw_slice gateway_ids(const struct state *s)
{
    size_t count = sw_view_count(s->v, SW_CN_IDENTITY);
    struct sw_slice *ids =
        sw_arena_array(s->a, s->conf->n_gateway_ids + count + 1, sizeof(struct sw_slice));
    SW_BUF_AUTO text = {0};
    size_t n = 0;

    for (size_t i = 0; i < s->conf->n_gateway_ids; i++)
        ids[n++] = s->conf->gateway_ids[i];
    for (size_t i = 0; i < count; i++) {
        const struct sw_kube_obj *o = sw_view_at(s->v, SW_CN_IDENTITY, i);
        struct sw_slice id = sw_json_str(sw_json_walk(o->json, "data", "id", NULL));

        /* Whoever may write elsewhere does not get to call devices by that. */
        if (sw_slice_eq_str(o->ns, SW_CONNECTOR_SYSTEM_NS) && valid_id(id) && !cn_deleting(o))
            ids[n++] = id;
    }
    sw_slice_sort(ids, n);
    sw_buf_init(&text, (size_t)IDS_MAX * SW_NODEID_HEX);
    for (size_t i = 0; i < n; i++) {
        if (i && sw_slice_eq(ids[i], ids[i - 1]))
            continue;
        if (sw_buf_printf(&text, "%s%.*s", sw_buf_len(&text) ? "," : "", SW_SLICE_ARG(ids[i])) !=
            SW_OK)
            break;
    }
    return sw_arena_slice(s->a, sw_buf_slice(&text));
}

/* Who has which key, and how its publication goes. */
static struct sw_dns_claim *dns_claims(const struct state *s, struct sw_map *keys)
{
    const struct sw_claims_in in = {.type = SW_CLAIM_KEY,
                                    .v = s->v,
                                    .claims = SW_CN_CLAIM,
                                    .holders = SW_CN_CONNECTOR,
                                    .holder_kind = "Connector",
                                    .record = true};
    size_t n;
    struct sw_dns_claim *claims = sw_dns_claims_begin(s->v, &s->keys, s->a, &n);
    uint64_t now = sw_view_wall_ns(s->v);
    char before[SW_RFC3339_LEN] = "";

    if (s->conf->dns_stale_ns && now > s->conf->dns_stale_ns)
        (void)sw_rfc3339(now - s->conf->dns_stale_ns, 0, before);
    sw_key_claims(&in, claims, n, s->out, keys);
    sw_dns_claims(s->a, keys, claims, n, sw_arena_slice(s->a, sw_slice_str(before)));
    return claims;
}

void sw_connector_build(const struct sw_view *v, const struct sw_connector_conf *conf,
                        struct sw_output *out)
{
    struct state s = {.v = v, .conf = conf, .out = out, .a = sw_out_arena(out)};
    struct sw_map keys = {0};
    struct sw_dns_claim *claims;

    sw_connector_keys_init(
        &s.keys, v, &(const struct sw_connector_kinds){SW_CN_CONNECTOR, SW_CN_CLASS, SW_CN_CLAIM},
        s.a);
    claims = dns_claims(&s, &keys);
    cn_defaults(v, conf, out);
    cn_takeover(v, out);
    s.gateway_ids = gateway_ids(&s);
    s.gateway_addrs = cn_gateway_addresses(v, s.a);
    for (size_t i = 0; i < sw_view_count(v, SW_CN_CONNECTOR); i++)
        build_one(&s, sw_view_at(v, SW_CN_CONNECTOR, i),
                  conf->dns && !claims[i].foreign ? &claims[i] : NULL);
    sw_map_done(&keys);
    sw_connector_keys_done(&s.keys);
}
