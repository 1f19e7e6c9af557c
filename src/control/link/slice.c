/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EndpointSlices of Imports: the addresses of data planes with the target port. Needed where no
 * pod is a data plane, so that a Service's selector finds nothing, where a Service has no
 * selector, and in merge mode, where they stand beside those of local pods.
 */
#include "base/search.h"
#include "control/link/link_int.h"
#include "io/addr.h"

/* ---- where data planes are ---- */

static void add_address(struct lk *l, struct sw_slice text)
{
    struct sw_ip ip;
    char canonical[SW_IP_TEXT];

    if (l->planes.n == LK_ADDRESSES_MAX || sw_ip_parse(text, &ip, NULL) != SW_OK)
        return;
    l->planes.p[l->planes.n++] = sw_arena_slice(l->a, sw_slice_str(sw_ip_text(&ip, canonical)));
}

static void add_pod(struct lk *l, const struct sw_kube_obj *o)
{
    const struct sw_json *status = sw_json_find(o->json, "status");
    const struct sw_json *ips = sw_json_find(status, "podIPs");

    l->pods = true;
    if (!cn_is_true(sw_json_find(status, "conditions"), "Ready"))
        return;
    for (size_t i = 0; i < sw_json_len(ips); i++)
        add_address(l, js_or(sw_json_at(ips, i), "ip", ""));
}

static void sort_once(struct lk_addrs *list)
{
    size_t kept = 0;

    sw_slice_sort(list->p, list->n);
    for (size_t i = 0; i < list->n; i++) {
        if (!kept || !sw_slice_eq(list->p[i], list->p[kept - 1]))
            list->p[kept++] = list->p[i];
    }
    list->n = kept;
}

void lk_read_planes(struct lk *l)
{
    const struct sw_json *seen = sw_json_find(l->input, "addresses");

    l->planes.p = sw_arena_array(l->a, LK_ADDRESSES_MAX, sizeof(struct sw_slice));
    SW_VIEW_EACH (o, l->v, SW_LK_POD) {
        if (sw_slice_eq(o->ns, l->conf->ns) && !cn_deleting(o))
            add_pod(l, o);
    }
    for (size_t i = 0; !l->pods && i < l->conf->n_addresses; i++)
        add_address(l, l->conf->addresses[i]);
    for (size_t i = 0; !l->pods && !l->conf->n_addresses && i < sw_json_len(seen); i++)
        add_address(l, sw_json_str(sw_json_at(seen, i)));
    sort_once(&l->planes);
}

/* ---- one slice ---- */

struct slice {
    struct sw_slice ns;
    struct sw_slice name;
    struct sw_slice service;
    struct sw_slice of; /* the data planes' slice that it follows */
    const char *type;
    const struct sw_json *endpoints;
    uint16_t port;
};

static bool same_slice(const struct sw_kube_obj *o, const struct slice *s)
{
    const struct sw_json *ports = sw_json_find(o->json, "ports");
    const struct sw_json *port = sw_json_at(ports, 0);

    struct sw_slice service = cn_meta_of(o, "labels", SW_LINK_SERVICE);

    return sw_slice_eq(service.p ? service : sw_slice("", 0), s->service) &&
           sw_slice_eq(cn_meta_of(o, "labels", SW_LINK_SLICE_OF), s->of) &&
           sw_json_len(ports) == 1 && js_int(port, "port", UINT16_MAX, 0) == s->port &&
           sw_slice_eq_str(js_or(port, "protocol", "TCP"), "TCP") &&
           sw_json_equal(sw_json_find(o->json, "endpoints"), s->endpoints, SW_JSON_EQ_VALUE);
}

static struct sw_json *ports_of(struct lk *l, uint16_t number)
{
    struct sw_json *ports = sw_json_new_array(l->a);
    struct sw_json *port = sw_json_new_object(l->a);

    sw_json_put(l->a, port, "name", sw_json_new_str(l->a, ""));
    sw_json_put(l->a, port, "port", sw_json_new_u64(l->a, number));
    sw_json_put(l->a, port, "protocol", sw_json_new_str(l->a, "TCP"));
    sw_json_push(l->a, ports, port);
    return ports;
}

static void want_slice(struct lk *l, const struct slice *s)
{
    const struct sw_kube_obj *have = sw_view_find(l->v, SW_LK_SLICE, s->ns, s->name);
    struct sw_json *obj;

    (void)sw_map_put(&l->slices,
                     cn_printf(l->a, "%.*s/%.*s", SW_SLICE_ARG(s->ns), SW_SLICE_ARG(s->name)), l);
    if (have && (cn_deleting(have) || same_slice(have, s)))
        return;
    if (have && !sw_slice_eq_str(js_or(have->json, "addressType", ""), s->type)) {
        sw_out_delete(l->out, SW_LK_SLICE, have); /* the type cannot be changed */
        return;
    }
    obj = cn_object(l->a, "discovery.k8s.io/v1", "EndpointSlice", s->ns, s->name);
    if (s->service.n)
        cn_meta(l->a, obj, "labels", SW_LINK_SERVICE, s->service);
    cn_meta(l->a, obj, "labels", SW_LINK_SLICE_MANAGED, SW_SLICE_LIT(SW_LINK_GROUP));
    cn_meta(l->a, obj, "labels", SW_LINK_SLICE_OF, s->of);
    sw_json_put(l->a, obj, "addressType", sw_json_new_str(l->a, s->type));
    sw_json_put(l->a, obj, "endpoints", sw_json_copy(l->a, s->endpoints));
    sw_json_put(l->a, obj, "ports", ports_of(l, s->port));
    sw_out_apply(l->out, SW_LK_SLICE, obj);
}

/* "clusterlink-<length of the name>-<name>-<what it follows>" */
static struct sw_slice slice_name(struct lk *l, struct sw_slice service, struct sw_slice of)
{
    return cn_printf(l->a, "clusterlink-%zu-%.*s-%.*s", service.n, SW_SLICE_ARG(service),
                     SW_SLICE_ARG(of));
}

/* ---- of addresses ---- */

static const struct sw_json *endpoints_of(struct lk *l, bool v6)
{
    struct sw_json *list = sw_json_new_array(l->a);

    for (size_t i = 0; i < l->planes.n; i++) {
        struct sw_json *e;
        struct sw_json *addresses;
        struct sw_json *conditions;

        if ((sw_slice_find(l->planes.p[i], ':') >= 0) != v6)
            continue;
        e = sw_json_new_object(l->a);
        addresses = sw_json_new_array(l->a);
        conditions = sw_json_new_object(l->a);
        sw_json_push(l->a, addresses, sw_json_new_string(l->a, l->planes.p[i]));
        sw_json_put(l->a, e, "addresses", addresses);
        sw_json_put(l->a, conditions, "ready", sw_json_new_bool(l->a, true));
        sw_json_put(l->a, e, "conditions", conditions);
        sw_json_push(l->a, list, e);
    }
    return list;
}

static void want_family(struct lk *l, struct slice *s, bool v6)
{
    const struct sw_json **kept = v6 ? &l->endpoints6 : &l->endpoints4;

    if (!*kept)
        *kept = endpoints_of(l, v6);
    if (!sw_json_len(*kept))
        return;
    s->of = v6 ? SW_SLICE_LIT("spanwire6") : SW_SLICE_LIT("spanwire");
    s->name = s->service.n ? slice_name(l, s->service, s->of)
                           : sw_slice_str(v6 ? SW_LINK_PLANES6 : SW_LINK_PLANES);
    s->type = v6 ? "IPv6" : "IPv4";
    s->endpoints = *kept;
    want_slice(l, s);
}

void lk_want_slices(struct lk *l, struct sw_slice ns, struct sw_slice service, uint16_t port)
{
    struct slice s = {.ns = ns, .service = service, .port = port};

    want_family(l, &s, false);
    want_family(l, &s, true);
}

void lk_want_planes(struct lk *l)
{
    struct slice s = {.ns = l->conf->ns, .service = sw_slice("", 0), .port = 4443};

    want_family(l, &s, false);
    want_family(l, &s, true);
}

/* ---- merge mode ---- */

static bool of_planes(const struct lk *l, const struct sw_kube_obj *o)
{
    return sw_slice_eq(o->ns, l->conf->ns) && !cn_deleting(o) &&
           sw_slice_eq_str(cn_meta_of(o, "labels", SW_LINK_SERVICE), SW_LINK_INGRESS) &&
           !sw_slice_eq_str(cn_meta_of(o, "labels", SW_LINK_SLICE_MANAGED), SW_LINK_GROUP);
}

void lk_want_merged(struct lk *l, const struct sw_link_lease *i)
{
    struct slice s = {.ns = i->import->ns, .service = i->import->name, .port = i->target};
    bool any = false;

    SW_VIEW_EACH (o, l->v, SW_LK_SLICE) {
        if (!of_planes(l, o))
            continue;
        any = true;
        s.of = o->name;
        s.name = slice_name(l, s.service, o->name);
        s.type = sw_arena_dup(l->a, js_or(o->json, "addressType", "IPv4"));
        s.endpoints = sw_json_find(o->json, "endpoints");
        if (!s.endpoints)
            s.endpoints = sw_json_new_array(l->a);
        want_slice(l, &s);
    }
    if (!any)
        lk_want_slices(l, s.ns, s.service, s.port);
}
