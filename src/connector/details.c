/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/details.h"

#include <string.h>

#include "base/time.h"
#include "kube/client/kinds.h"

struct sw_json *sw_details_connection(struct sw_arena *a, const struct sw_details *d)
{
    struct sw_json *out = sw_json_new_object(a);
    struct sw_json *key;
    struct sw_json *list;
    char hex[SW_NODEID_HEX];

    sw_json_put_text(a, out, "type", "PublicKey");
    key = sw_json_put_object(a, out, "publicKey");
    sw_json_put_text(a, key, "id", sw_nodeid_hex(&d->id, hex));
    sw_json_put_text(a, key, "discoveryMode", "DNS");
    if (d->relay.n)
        sw_json_put_str(a, key, "homeRelay", d->relay);
    list = sw_json_put_array(a, key, "addresses");
    for (size_t i = 0; i < d->addrs.n; i++) {
        struct sw_json *one = sw_json_push_object(a, list);
        char ip[SW_IP_TEXT];

        sw_json_put_text(a, one, "address", sw_ip_text(&d->addrs.a[i].ip, ip));
        sw_json_put(a, one, "port", sw_json_new_u64(a, d->addrs.a[i].port));
    }
    return out;
}

#define RTT_FAR_US  UINT64_C(20000)
#define RTT_NEAR_US UINT64_C(1000)

bool sw_details_path_changed(const struct sw_details_path *p, uint64_t rtt_us, const char *note)
{
    uint64_t low = sw_min(p->rtt_us, rtt_us);
    uint64_t high = sw_max(p->rtt_us, rtt_us);
    uint64_t moved = high - low;

    return moved > RTT_FAR_US || (high / 2 >= low && moved >= RTT_NEAR_US) ||
           strcmp(p->note ? p->note : "", note) != 0;
}

size_t sw_details_paths_keep(struct sw_details_path *paths, size_t n,
                             bool (*keep)(void *arg, const struct sw_nodeid *gateway), void *arg)
{
    size_t left = 0;

    for (size_t i = 0; i < n; i++)
        if (keep(arg, &paths[i].gateway))
            paths[left++] = paths[i];
    return left;
}

static struct sw_json *paths_of(struct sw_arena *a, const struct sw_details *d)
{
    struct sw_json *out = sw_json_new_array(a);

    for (size_t i = 0; i < d->n_paths; i++) {
        const struct sw_details_path *p = &d->paths[i];
        struct sw_json *one = sw_json_push_object(a, out);
        char hex[SW_NODEID_HEX];
        char at[SW_ADDR_TEXT];
        char since[SW_RFC3339_LEN];

        sw_json_put_text(a, one, "gateway", sw_nodeid_hex(&p->gateway, hex));
        sw_json_put_text(a, one, "type", p->address.ip.family ? "Direct" : "Relay");
        if (p->address.ip.family)
            sw_json_put_text(a, one, "address", sw_addr_text(&p->address, at));
        else if (p->note && p->note[0])
            sw_json_put_text(a, one, "note", p->note);
        sw_json_put(a, one, "roundTripMicroseconds", sw_json_new_u64(a, p->rtt_us));
        sw_json_put_text(a, one, "since", sw_rfc3339(p->since_ns, 0, since));
    }
    return out;
}

static const struct sw_json *by_type(const struct sw_json *list, const char *type)
{
    return sw_json_find_item(list, "type", sw_slice_str(type));
}

static void add_capability(struct sw_arena *a, struct sw_json *to, const char *type, bool ready,
                           const struct sw_json *seen, uint64_t wall_ns)
{
    const char *status = ready ? "True" : "False";
    const struct sw_json *old = by_type(sw_json_find(by_type(seen, type), "conditions"), "Ready");
    struct sw_slice since = sw_json_str(sw_json_find(old, "lastTransitionTime"));
    struct sw_json *out = sw_json_push_object(a, to);
    struct sw_json *c;
    char now[SW_RFC3339_LEN];

    if (!since.n || !sw_json_str_eq(sw_json_find(old, "status"), status))
        since = sw_slice_str(sw_rfc3339(wall_ns, 0, now));
    sw_json_put_text(a, out, "type", type);
    c = sw_json_push_object(a, sw_json_put_array(a, out, "conditions"));
    sw_json_put_text(a, c, "type", "Ready");
    sw_json_put_text(a, c, "status", status);
    sw_json_put_text(a, c, "reason", ready ? "ListenerReady" : "Disabled");
    sw_json_put_text(a, c, "message",
                     ready ? "The device serves it" : "The device does not serve it");
    sw_json_put_str(a, c, "lastTransitionTime", since);
}

struct sw_json *sw_details_capabilities(struct sw_arena *a, const struct sw_details *d,
                                        const struct sw_json *seen, uint64_t wall_ns)
{
    struct sw_json *out = sw_json_new_array(a);

    add_capability(a, out, "ConnectTCP", d->tcp, seen, wall_ns);
    add_capability(a, out, "ConnectUDP", d->udp, seen, wall_ns);
    return out;
}

struct sw_json *sw_details_patch(struct sw_arena *a, const struct sw_details *d,
                                 const struct sw_json *obj, uint64_t wall_ns)
{
    const struct sw_json *status = sw_json_find(obj, "status");
    const struct sw_json *seen = sw_json_find(status, "connectionDetails");
    struct sw_json *connection = sw_details_connection(a, d);
    const struct sw_json *old = sw_json_find(status, "capabilities");
    struct sw_json *capabilities = sw_details_capabilities(a, d, old, wall_ns);
    struct sw_json *patch = sw_json_new_object(a);

    if (!sw_json_equal(sw_json_find(seen, "publicKey"), sw_json_find(connection, "publicKey"),
                       SW_JSON_EQ_VALUE) ||
        !sw_json_str_eq(sw_json_find(seen, "type"), "PublicKey")) {
        struct sw_json *key = sw_json_find(connection, "publicKey");

        /* A merge patch keeps what it does not name. */
        if (!d->relay.n && sw_json_walk(seen, "publicKey", "homeRelay", NULL))
            sw_json_put(a, key, "homeRelay", sw_json_new_null(a));
        sw_json_put(a, patch, "connectionDetails", connection);
    } else if (d->write_paths) {
        connection = sw_json_put_object(a, patch, "connectionDetails");
    }
    if (d->write_paths)
        sw_json_put(a, connection, "paths", paths_of(a, d));
    if (!sw_json_equal(old, capabilities, SW_JSON_EQ_VALUE))
        sw_json_put(a, patch, "capabilities", capabilities);
    return sw_json_len(patch) ? patch : NULL;
}

struct sw_json *sw_details_connector(struct sw_arena *a, struct sw_slice ns, struct sw_slice name,
                                     struct sw_slice class_name, struct sw_slice host,
                                     struct sw_slice os)
{
    struct sw_json *obj = sw_kube_object_new(a, &sw_connector_gvr, ns, name);
    struct sw_json *meta = sw_json_find(obj, "metadata");
    struct sw_json *notes;

    if (!name.n)
        sw_json_put_text(a, meta, "generateName", "datum-connect-");
    if (sw_slice_has_suffix(host, SW_SLICE_LIT(".local")))
        host.n -= sizeof(".local") - 1;
    notes = sw_json_put_object(a, meta, "annotations");
    sw_json_put_str(a, notes, "datum.net/device-name", host);
    sw_json_put_str(a, notes, "datum.net/device-os", os);
    sw_json_put_str(a, sw_json_put_object(a, obj, "spec"), "connectorClassName", class_name);
    return obj;
}

static struct sw_slice name_of(const struct sw_json *obj)
{
    return sw_json_str(sw_json_walk(obj, "metadata", "name", NULL));
}

struct sw_slice sw_details_pick_class(const struct sw_json *list)
{
    const struct sw_json *items = sw_json_find(list, "items");

    SW_JSON_ITEMS (it, items) {
        if (sw_slice_eq_str(name_of(it), "datum-connect"))
            return name_of(it);
    }
    return name_of(sw_json_at(items, 0));
}

const struct sw_json *sw_details_pick_connector(const struct sw_json *list, struct sw_slice name)
{
    const struct sw_json *items = sw_json_find(list, "items");
    const struct sw_json *best = NULL;

    SW_JSON_ITEMS (one, items) {
        struct sw_slice made =
            sw_json_str(sw_json_walk(one, "metadata", "creationTimestamp", NULL));

        if (sw_json_walk(one, "metadata", "deletionTimestamp", NULL))
            continue;
        if (name.n && sw_slice_eq(name_of(one), name))
            return one;
        if (!best || sw_slice_cmp(made, sw_json_str(sw_json_walk(best, "metadata",
                                                                 "creationTimestamp", NULL))) < 0)
            best = one;
    }
    return best;
}

struct sw_slice sw_condition(const struct sw_json *conditions, const char *type,
                             struct sw_slice *ret_reason, struct sw_slice *ret_message)
{
    const struct sw_json *c = by_type(conditions, type);
    struct sw_slice status = sw_json_str(sw_json_find(c, "status"));

    *ret_reason = sw_json_str(sw_json_find(c, "reason"));
    *ret_message = sw_json_str(sw_json_find(c, "message"));
    return status.p ? status : SW_SLICE_LIT("");
}

bool sw_condition_current(const struct sw_json *obj, const char *type)
{
    const struct sw_json *c = by_type(sw_json_walk(obj, "status", "conditions", NULL), type);
    int64_t generation = 0;
    int64_t observed = 0;

    if (!sw_json_i64(sw_json_find(c, "observedGeneration"), &observed) ||
        !sw_json_i64(sw_json_walk(obj, "metadata", "generation", NULL), &generation))
        return true;
    return observed >= generation;
}

bool sw_condition_true(const struct sw_json *obj, const char *type)
{
    const struct sw_json *c = by_type(sw_json_walk(obj, "status", "conditions", NULL), type);

    return sw_json_str_eq(sw_json_find(c, "status"), "True") && sw_condition_current(obj, type);
}

struct sw_json *sw_details_undo(struct sw_arena *a, const struct sw_json *before,
                                const struct sw_json *now)
{
    struct sw_json *out = sw_json_new_object(a);
    const struct sw_json_member *m;

    for (size_t i = 0; (m = sw_json_member_at(before, i)); i++) {
        const struct sw_json *is = sw_json_get(now, m->key);
        bool objects = sw_json_is(is, SW_JSON_OBJECT) && sw_json_is(m->value, SW_JSON_OBJECT);

        sw_json_set(a, out, m->key,
                    objects ? sw_details_undo(a, m->value, is) : sw_json_copy(a, m->value));
    }
    for (size_t i = 0; (m = sw_json_member_at(now, i)); i++) {
        if (!sw_json_get(before, m->key))
            sw_json_set(a, out, m->key, sw_json_new_null(a));
    }
    return out;
}
