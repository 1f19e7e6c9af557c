/* SPDX-License-Identifier: Apache-2.0 */
/* Gateways, as waypoints and as doors to other networks. */
#include "base/hash.h"
#include "base/mem.h"
#include "control/mesh/names.h"
#include "control/mesh/read/read.h"
#include "control/objects.h"
#include "kube/names.h"

enum { ADDRESSES_MAX = 16 };

static void read_allowed(struct mesh_gateway *g, struct mesh_listener *l, const struct sw_json *v)
{
    const struct sw_json *spaces = sw_json_walk(v, "allowedRoutes", "namespaces", NULL);
    const struct sw_json *selector = sw_json_find(spaces, "selector");
    struct sw_slice from = js_or(spaces, "from", "Same");
    const char *why;

    if (sw_slice_eq_str(from, "All"))
        l->from = MESH_FROM_ALL;
    /* What is parsed borrows from the tree. A selector that cannot be read leaves Same. */
    if (sw_slice_eq_str(from, "Selector") &&
        sw_label_selector_from_json(&g->arena, selector ? sw_json_copy(&g->arena, selector) : NULL,
                                    &l->selector, &why) == SW_OK)
        l->from = MESH_FROM_SELECTOR;
}

static void read_listeners(struct mesh_gateway *g, const struct sw_json *list)
{
    size_t n = sw_json_is(list, SW_JSON_ARRAY) ? sw_min(sw_json_len(list), MESH_LISTENERS_MAX) : 0;

    g->listeners = sw_arena_array(&g->arena, n + 1, sizeof(*g->listeners));
    for (size_t i = 0; i < n; i++) {
        const struct sw_json *v = sw_json_at(list, i);
        struct mesh_listener *l = &g->listeners[g->n_listeners++];
        struct sw_slice protocol = js_or(v, "protocol", "");

        l->port = (uint16_t)js_int(v, "port", UINT16_MAX, 0);
        l->hbone = sw_slice_eq_str(protocol, "HBONE");
        l->proxy = sw_slice_eq_str(protocol, "istio.io/PROXY");
        l->terminates =
            sw_json_is(sw_json_find(v, "tls"), SW_JSON_OBJECT) &&
            sw_slice_eq_str(js_or(sw_json_find(v, "tls"), "mode", "Terminate"), "Terminate");
        read_allowed(g, l, v);
    }
}

static void read_status(struct mesh_gateway *g, const struct sw_json *list)
{
    size_t n = sw_json_is(list, SW_JSON_ARRAY) ? sw_min(sw_json_len(list), ADDRESSES_MAX) : 0;
    struct sw_slice *all = sw_arena_array(&g->arena, n + 1, sizeof(*all));

    for (size_t i = 0; i < n; i++) {
        const struct sw_json *v = sw_json_at(list, i);
        struct sw_slice type = js_or(v, "type", "IPAddress");
        struct sw_slice value = sw_arena_slice(&g->arena, js_or(v, "value", ""));
        struct sw_ip ip;
        struct sw_err err;

        if (!mesh_read_is_name(value))
            continue;
        if (sw_slice_eq_str(type, "Hostname")) {
            g->hostname = g->hostname.n ? g->hostname : value;
        } else if (sw_slice_eq_str(type, "IPAddress") && sw_ip_parse(value, &ip, &err) == SW_OK) {
            g->ip = g->ip.family ? g->ip : ip;
        } else {
            continue;
        }
        all[g->n_status++] = value;
    }
    g->status = all;
}

static struct sw_slice keep(struct mesh_gateway *g, struct sw_slice s)
{
    return s.p ? sw_arena_slice(&g->arena, s) : s;
}

/* Statuses of Gateways change all the time, with each route: what is read here rarely does. */
static uint64_t digest_of(const struct sw_json *obj, const struct mesh_meta *m)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_json *const parts[] = {sw_json_find(obj, "spec"), m->labels, m->annotations,
                                           sw_json_walk(obj, "status", "addresses", NULL)};
    uint64_t h = 0;

    for (size_t i = 0; i < SW_ARRAY_LEN(parts); i++) {
        struct sw_slice text = parts[i] ? sw_json_text(&a, parts[i], NULL) : sw_slice("", 0);
        const uint64_t both[] = {h, sw_hash(text.p, text.n)};

        h = sw_hash(both, sizeof(both));
    }
    return h;
}

struct mesh_gateway *mesh_read_gateway(const struct sw_json *obj, const struct mesh_meta *m)
{
    struct mesh_gateway *g = SW_NEW(struct mesh_gateway);
    const struct sw_json *spec = sw_json_find(obj, "spec");
    struct sw_slice account = js_or(m->annotations, MESH_GATEWAY_ACCOUNT, "");

    g->key = sw_name_key(&g->arena, m->ns, m->name);
    g->ns = sw_slice_head(g->key, m->ns.n);
    g->name = sw_slice_from(g->key, m->ns.n + 1);
    g->class = keep(g, js_or(spec, "gatewayClassName", ""));
    g->traffic = keep(g, js(m->labels, MESH_WAYPOINT_FOR));
    g->binding = keep(g, js(m->annotations, MESH_INBOUND_BINDING));
    if (mesh_read_is_name(js_or(m->labels, MESH_NETWORK, "")))
        g->network = keep(g, js(m->labels, MESH_NETWORK));
    g->locality = (struct mesh_locality){.region = keep(g, js_or(m->labels, MESH_REGION, "")),
                                         .zone = keep(g, js_or(m->labels, MESH_ZONE, "")),
                                         .subzone = keep(g, js_or(m->labels, MESH_SUBZONE, ""))};
    if (account.n)
        g->account = keep(g, account);
    else if (sw_slice_eq_str(g->class, MESH_CLASS_REMOTE))
        g->account =
            sw_slice_str(sw_arena_printf(&g->arena, "%.*s-istio-remote", SW_SLICE_ARG(g->name)));
    else
        g->account = g->name;
    read_listeners(g, sw_json_find(spec, "listeners"));
    read_status(g, sw_json_walk(obj, "status", "addresses", NULL));
    g->digest = digest_of(obj, m);
    return g;
}

void mesh_gateway_free(struct mesh_gateway *g)
{
    if (!g)
        return;
    sw_arena_clear(&g->arena);
    sw_free(g);
}
