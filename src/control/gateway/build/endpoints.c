/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoint sets: for each wanted Service port the addresses its EndpointSlices name. Apart from
 * the rest of the build, because endpoints change far more often than anything else.
 */
#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"
#include "control/gateway/build/build_int.h"
#include "control/linkname.h"
#include "control/objects.h"
#include "io/egress.h"
#include "kube/names.h"

enum { SET_MAX = 65536, DROPPED_MAX = 256 };

struct slices {
    const struct sw_kube_obj *obj;
    struct slices *next;
};

struct ep_builder {
    const struct sw_view *v;
    struct sw_arena *a;
    struct sw_map by_service; /* "ns/name" -> struct slices */
    struct sw_connector_keys keys;
    const struct sw_kube_obj *of; /* the object that is read */
    struct sw_map seen;           /* subjects of dropped */
    SW_VEC(struct sw_model_note) dropped;
};

typedef SW_VEC(struct sw_model_endpoint) ep_list;

static void index_slices(struct ep_builder *b)
{
    SW_VIEW_EACH (o, b->v, SW_MODEL_EP_SLICE) {
        struct sw_slice svc = sw_json_str(
            sw_json_walk(o->json, "metadata", "labels", "kubernetes.io/service-name", NULL));
        struct slices *s;
        struct sw_slice key;

        if (!svc.n)
            continue;
        s = SW_ARENA_NEW(b->a, struct slices);
        s->obj = o;
        key = sw_name_key(b->a, o->ns, svc);
        s->next = sw_map_get(&b->by_service, key);
        (void)sw_map_put(&b->by_service, key, s);
    }
}

/* ---- one set ---- */

/*
 * What the API server accepted, less what it does not see through: link-local and loopback
 * addresses inside of other ones. Plain loopback is refused or accepted there.
 */
static const char *not_a_backend(struct sw_slice address)
{
    struct sw_ip ip;
    enum sw_egress_class c;

    if (sw_ip_parse(address, &ip, NULL) != SW_OK)
        return "no IP";
    c = sw_egress_classify(&ip);
    return sw_ip_is_loopback(&ip) || c == SW_EGRESS_OK ? NULL : sw_egress_class_text(c);
}

/* Other API servers accept what ours refuses: its writer believes that it is served. */
static void note_dropped(struct ep_builder *b, struct sw_slice address, const char *class)
{
    const char *kind = sw_json_find(b->of->json, "subsets") ? "endpoints" : "endpointslice";
    struct sw_slice subject =
        sw_slice_str(sw_arena_printf(b->a, "%s/%.*s/%.*s", kind, SW_SLICE_ARG(b->of->key),
                                     SW_SLICE_ARG(sw_slice_head(address, SW_IP_TEXT))));

    if (b->dropped.n >= DROPPED_MAX || sw_map_put(&b->seen, subject, b))
        return;
    sw_vec_push(&b->dropped,
                (struct sw_model_note){
                    .subject = subject,
                    .text = sw_slice_str(sw_arena_printf(
                        b->a, "%s address: never a backend; the endpoint gets no traffic", class)),
                    .refused = true});
}

static void add_address(struct ep_builder *b, ep_list *out, const struct sw_model_endpoint *e)
{
    const char *class;

    if (!e->address.n || !e->port || out->n >= SET_MAX)
        return;
    class = not_a_backend(e->address);
    if (class)
        note_dropped(b, e->address, class);
    else
        sw_vec_push(out, *e);
}

static uint16_t port_named(const struct sw_json *ports, struct sw_slice name, const char *proto)
{
    return (uint16_t)js_int(cn_port(ports, 0, name, proto), "port", UINT16_MAX, 0);
}

static void add_slice(struct ep_builder *b, ep_list *out, const struct sw_kube_obj *o,
                      struct sw_slice name, const char *proto)
{
    const struct sw_json *eps = sw_json_find(o->json, "endpoints");
    uint16_t port = port_named(sw_json_find(o->json, "ports"), name, proto);

    if (sw_slice_eq_str(js_or(o->json, "addressType", "IPv4"), "FQDN"))
        return;
    b->of = o;
    SW_JSON_ITEMS (e, eps) {
        const struct sw_json *c = sw_json_find(e, "conditions");
        const struct sw_json *ready = sw_json_find(c, "ready");
        const struct sw_json *serving = sw_json_find(c, "serving");
        bool up = !sw_json_is(ready, SW_JSON_BOOL) || ready->boolean;
        bool draining =
            !up && sw_json_true(serving) && sw_json_true(sw_json_find(c, "terminating"));
        const struct sw_json *list = sw_json_find(e, "addresses");

        /* Only the first address of an endpoint counts, says the API. */
        if (up || draining)
            add_address(b, out,
                        &(struct sw_model_endpoint){.address = sw_json_str(sw_json_at(list, 0)),
                                                    .port = port,
                                                    .zone = js_or(e, "zone", ""),
                                                    .draining = draining});
    }
}

static void add_legacy(struct ep_builder *b, ep_list *out, const struct sw_kube_obj *o,
                       struct sw_slice name, const char *proto)
{
    const struct sw_json *subsets = sw_json_find(o->json, "subsets");

    b->of = o;
    SW_JSON_ITEMS (s, subsets) {
        const struct sw_json *list = sw_json_find(s, "addresses");
        uint16_t port = port_named(sw_json_find(s, "ports"), name, proto);

        for (size_t k = 0; k < sw_json_len(list); k++)
            add_address(b, out,
                        &(struct sw_model_endpoint){.address = js(sw_json_at(list, k), "ip"),
                                                    .port = port,
                                                    .zone = sw_slice("", 0)});
    }
}

static int by_place(const void *x, const void *y)
{
    const struct sw_model_endpoint *p = x;
    const struct sw_model_endpoint *q = y;
    int d = sw_slice_cmp(p->zone, q->zone);

    d = d ? d : sw_slice_cmp(p->address, q->address);
    d = d ? d : (int)p->port - (int)q->port;
    d = d ? d : sw_slice_cmp(p->tunnel_id, q->tunnel_id);
    return d ? d : (int)p->draining - (int)q->draining;
}

static size_t drop_twins(struct sw_model_endpoint *p, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        if (kept && sw_slice_eq(p[kept - 1].address, p[i].address) &&
            p[kept - 1].port == p[i].port && sw_slice_eq(p[kept - 1].tunnel_id, p[i].tunnel_id))
            continue;
        p[kept++] = p[i];
    }
    return kept;
}

static void collect(struct ep_builder *b, const struct sw_kube_obj *svc, uint16_t number,
                    const char *transport, ep_list *out)
{
    const struct sw_json *ports = sw_json_walk(svc->json, "spec", "ports", NULL);
    const struct slices *s = sw_map_get(&b->by_service, svc->key);
    const struct sw_kube_obj *legacy =
        s ? NULL : sw_view_find(b->v, SW_MODEL_EP_ENDPOINTS, svc->ns, svc->name);

    SW_JSON_ITEMS (p, ports) {
        struct sw_slice name = js_or(p, "name", "");

        if (js_int(p, "port", UINT16_MAX, 0) != number ||
            !sw_slice_eq_str(js_or(p, "protocol", "TCP"), transport))
            continue;
        for (const struct slices *at = s; at; at = at->next)
            add_slice(b, out, at->obj, name, transport);
        if (legacy)
            add_legacy(b, out, legacy, name, transport);
    }
}

/* The connectors' NodeIDs and what to ask them for; none of those that are offline. */
static void collect_connector(struct ep_builder *b, struct sw_slice rest, ep_list *out)
{
    struct sw_slice ns = sw_slice_cut(&rest, '/');
    struct sw_slice names = sw_slice_cut(&rest, '/');

    while (rest.n && names.p) {
        struct sw_slice name = sw_slice_cut(&names, ',');
        const struct sw_kube_obj *o = sw_view_find(b->v, SW_MODEL_EP_CONNECTOR, ns, name);
        struct sw_slice id = o ? sw_connector_online(&b->keys, o) : sw_slice("", 0);

        if (id.n)
            sw_vec_push(out, (struct sw_model_endpoint){
                                 .tunnel_target = rest, .tunnel_id = id, .tunnel_device = o->name});
    }
}

/* The addresses of one EndpointSlice. */
static void collect_slice(struct ep_builder *b, struct sw_slice rest, ep_list *out)
{
    struct sw_slice ns = sw_slice_cut(&rest, '/');
    struct sw_slice name = sw_slice_cut(&rest, '/');
    const struct sw_kube_obj *o = rest.p ? sw_view_find(b->v, SW_MODEL_EP_SLICE, ns, name) : NULL;
    const struct sw_json *p;
    uint64_t port;

    if (!o || !sw_slice_to_u64(rest, UINT16_MAX, &port) || !port)
        return;
    p = cn_port(sw_json_find(o->json, "ports"), (uint16_t)port, sw_slice(NULL, 0), "TCP");
    if (p)
        add_slice(b, out, o, js_or(p, "name", ""), "TCP");
}

/*
 * Where data planes of links are, with the port of one Import: slices of the system namespace,
 * which no tenant writes.
 */
static void collect_import(struct ep_builder *b, struct sw_slice rest, ep_list *out)
{
    static const char *const names[] = {SW_LINK_PLANES, SW_LINK_PLANES6};
    struct sw_slice ns = sw_slice_cut(&rest, '/');
    size_t from = out->n;
    uint64_t port;

    (void)sw_slice_cut(&rest, '/');
    (void)sw_slice_cut(&rest, '/');
    if (!sw_slice_to_u64(rest, UINT16_MAX, &port))
        return;
    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        const struct sw_kube_obj *o =
            sw_view_find(b->v, SW_MODEL_EP_SLICE, ns, sw_slice_str(names[i]));

        if (o)
            add_slice(b, out, o, sw_slice("", 0), "TCP");
    }
    for (size_t i = from; i < out->n; i++)
        out->p[i].port = (uint16_t)port;
}

/* "ns/service/port", or "ns/service/port+udp" */
static void collect_service(struct ep_builder *b, struct sw_slice rest, ep_list *out)
{
    struct sw_slice ns = sw_slice_cut(&rest, '/');
    struct sw_slice name = sw_slice_cut(&rest, '/');
    const struct sw_kube_obj *svc = sw_view_find(b->v, SW_MODEL_EP_SERVICE, ns, name);
    bool udp = sw_slice_has_suffix(rest, SW_SLICE_LIT(SW_MODEL_UDP_SET));
    uint64_t port;

    if (udp)
        rest.n -= sizeof(SW_MODEL_UDP_SET) - 1;
    if (svc && sw_slice_to_u64(rest, UINT16_MAX, &port))
        collect(b, svc, (uint16_t)port, udp ? "UDP" : "TCP", out);
}

/* A set by its name: of a Service, or with a first word that says of what else. */
static void collect_named(struct ep_builder *b, struct sw_slice name, ep_list *out)
{
    static const struct sw_slice connector = SW_SLICE_LIT(SW_MODEL_CONNECTOR_SET);
    static const struct sw_slice slice = SW_SLICE_LIT(SW_MODEL_SLICE_SET);
    static const struct sw_slice import = SW_SLICE_LIT(SW_MODEL_IMPORT_SET);
    size_t parts = 1;

    /* A Service's has three parts, whatever its namespace is called. */
    for (size_t i = 0; i < name.n; i++)
        parts += name.p[i] == '/';
    if (parts == 3)
        collect_service(b, name, out);
    else if (sw_slice_has_prefix(name, connector))
        collect_connector(b, sw_slice_from(name, connector.n), out);
    else if (sw_slice_has_prefix(name, slice))
        collect_slice(b, sw_slice_from(name, slice.n), out);
    else if (sw_slice_has_prefix(name, import))
        collect_import(b, sw_slice_from(name, import.n), out);
}

static const struct sw_model_endpoints *make_set(struct ep_builder *b, struct sw_slice name)
{
    struct sw_model_endpoints *set = SW_ARENA_NEW(b->a, struct sw_model_endpoints);
    ep_list list = {0};

    collect_named(b, name, &list);
    if (list.n > 1)
        qsort(list.p, list.n, sizeof(*list.p), by_place);
    list.n = drop_twins(list.p, list.n);
    set->name = sw_arena_slice(b->a, name);
    set->p = CN_COPY_VEC(b->a, &list);
    set->n = list.n;
    sw_vec_done(&list);
    return set;
}

void sw_gateway_endpoints(const struct sw_view *v, const struct sw_slice *names, size_t n,
                          struct sw_arena *a, struct sw_endpoint_model *ret)
{
    struct ep_builder b = {.v = v, .a = a};
    const struct sw_model_endpoints **sets = sw_arena_array(a, n + 1, sizeof(*sets));

    index_slices(&b);
    sw_connector_keys_init(&b.keys, v,
                           &(const struct sw_connector_kinds){SW_MODEL_EP_CONNECTOR,
                                                              SW_MODEL_EP_CONNECTORCLASS,
                                                              SW_MODEL_EP_CLAIM},
                           a);
    for (size_t i = 0; i < n; i++)
        sets[i] = make_set(&b, names[i]);
    ret->sets = sets;
    ret->n_sets = n;
    ret->dropped = CN_COPY_VEC(a, &b.dropped);
    ret->n_dropped = b.dropped.n;
    sw_vec_done(&b.dropped);
    sw_map_done(&b.seen);
    sw_map_done(&b.by_service);
    sw_connector_keys_done(&b.keys);
}
