/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Services of Imports. Ours are known by their labels; one without them has its name by
 * another right and is never written. What others change in ours is put right: by an apply where
 * that is enough, otherwise (an apply takes nothing away that others added) by deleting it, after
 * which it is made anew.
 */
#include "control/link/link_int.h"

/* The only port, or NULL. */
static const struct sw_json *only_port(const struct sw_json *spec)
{
    const struct sw_json *ports = sw_json_find(spec, "ports");

    return sw_json_len(ports) == 1 ? sw_json_at(ports, 0) : NULL;
}

static bool same_port(const struct sw_json *p, const struct lk_service *s)
{
    return js_int(p, "port", UINT16_MAX, 0) == s->port &&
           js_int(p, "targetPort", UINT16_MAX, 0) == s->target &&
           sw_slice_eq_str(js_or(p, "protocol", "TCP"), "TCP") && !js_or(p, "name", "").n;
}

static bool same_selector(const struct sw_json *spec, const struct lk_service *s)
{
    const struct sw_json *selector = sw_json_find(spec, "selector");

    if (!s->selects)
        return sw_json_len(selector) == 0;
    return sw_json_len(selector) == 1 &&
           sw_json_str_eq(sw_json_find(selector, "app"), "cl-dataplane");
}

static bool same_type(const struct sw_json *spec, const struct lk_service *s)
{
    return sw_slice_eq_str(js_or(spec, "type", "ClusterIP"),
                           s->external ? "ExternalName" : "ClusterIP");
}

static bool matches(const struct sw_json *spec, const struct lk_service *s)
{
    const struct sw_json *port = only_port(spec);

    if (!same_type(spec, s) || !same_selector(spec, s))
        return false;
    if (s->external)
        return sw_slice_eq_str(js_or(spec, "externalName", ""), s->external) &&
               sw_json_len(sw_json_find(spec, "ports")) == 0;
    return port && same_port(port, s);
}

/* An apply changes our own port and what is missing; it removes nothing of others. */
static bool can_apply(const struct sw_json *spec, const struct lk_service *s)
{
    return same_type(spec, s) && sw_json_len(sw_json_find(spec, "ports")) == !s->external &&
           (same_selector(spec, s) ||
            (s->selects && sw_json_len(sw_json_find(spec, "selector")) == 0));
}

static struct sw_json *cluster_ip_spec(struct lk *l, const struct lk_service *s)
{
    struct sw_json *spec = sw_json_new_object(l->a);
    struct sw_json *ports = sw_json_new_array(l->a);
    struct sw_json *port = sw_json_new_object(l->a);
    struct sw_json *selector = sw_json_new_object(l->a);

    sw_json_put(l->a, port, "port", sw_json_new_u64(l->a, s->port));
    sw_json_put(l->a, port, "protocol", sw_json_new_str(l->a, "TCP"));
    sw_json_put(l->a, port, "targetPort", sw_json_new_u64(l->a, s->target));
    sw_json_push(l->a, ports, port);
    sw_json_put(l->a, spec, "ports", ports);
    sw_json_put(l->a, selector, "app", sw_json_new_str(l->a, "cl-dataplane"));
    if (s->selects)
        sw_json_put(l->a, spec, "selector", selector);
    sw_json_put(l->a, spec, "type", sw_json_new_str(l->a, "ClusterIP"));
    return spec;
}

static void apply(struct lk *l, const struct lk_service *s)
{
    struct sw_json *obj = cn_object(l->a, "v1", "Service", s->ns, s->name);
    struct sw_json *spec;

    cn_meta(l->a, obj, "labels", SW_LINK_MANAGED, SW_SLICE_LIT(SW_LINK_GROUP));
    cn_meta(l->a, obj, "labels", SW_LINK_IMPORT_NAME, s->import->name);
    cn_meta(l->a, obj, "labels", SW_LINK_IMPORT_NS, s->import->ns);
    if (s->external) {
        spec = sw_json_new_object(l->a);
        sw_json_put(l->a, spec, "externalName", sw_json_new_str(l->a, s->external));
        sw_json_put(l->a, spec, "type", sw_json_new_str(l->a, "ExternalName"));
    } else {
        spec = cluster_ip_spec(l, s);
    }
    sw_json_put(l->a, obj, "spec", spec);
    sw_out_apply(l->out, SW_LK_SERVICE, obj);
}

static const char *conflict(struct lk *l, const struct sw_kube_obj *have)
{
    struct sw_slice by = cn_meta_of(have, "labels", SW_LINK_MANAGED);

    if (!by.p)
        by = sw_slice("", 0);
    return cn_text(l->a, "Service '%.*s' exists and is managed by '%.*s', not for this Import.",
                   SW_SLICE_ARG(have->key), SW_SLICE_ARG(by));
}

enum lk_state lk_want_service(struct lk *l, const struct lk_service *s, const char **ret_why)
{
    const struct sw_kube_obj *have = sw_view_find(l->v, SW_LK_SERVICE, s->ns, s->name);
    const struct sw_json *spec;

    (void)sw_map_put(&l->services,
                     cn_printf(l->a, "%.*s/%.*s", SW_SLICE_ARG(s->ns), SW_SLICE_ARG(s->name)), l);
    if (!have) {
        apply(l, s);
        return LK_UNDER_WAY;
    }
    if (!sw_link_service_of(have->json, s->import->ns, s->import->name)) {
        *ret_why = conflict(l, have);
        return LK_CONFLICT;
    }
    spec = sw_json_find(have->json, "spec");
    if (cn_deleting(have))
        return LK_UNDER_WAY;
    if (matches(spec, s))
        return LK_THERE;
    if (can_apply(spec, s))
        apply(l, s);
    else
        sw_out_delete(l->out, SW_LK_SERVICE, have);
    return LK_UNDER_WAY;
}

/* Any tenant can write the labels: only what we would have given this name is ours to delete. */
static bool is_ours(struct lk *l, const struct sw_kube_obj *o)
{
    struct sw_slice name = cn_meta_of(o, "labels", SW_LINK_IMPORT_NAME);
    struct sw_slice ns = cn_meta_of(o, "labels", SW_LINK_IMPORT_NS);

    if (!name.n || !ns.n || !sw_link_service_of(o->json, ns, name))
        return false;
    if (sw_slice_eq(o->ns, ns))
        return sw_slice_eq(o->name, name);
    return sw_slice_eq(o->ns, l->conf->ns) &&
           sw_slice_eq(o->name, sw_link_service_name(l->a, ns, name));
}

static bool is_stale_slice(struct lk *l, const struct sw_kube_obj *o)
{
    struct sw_slice service = cn_meta_of(o, "labels", SW_LINK_SERVICE);

    if (sw_map_get(&l->slices, o->key) || cn_deleting(o) ||
        !sw_slice_eq_str(cn_meta_of(o, "labels", SW_LINK_SLICE_MANAGED), SW_LINK_GROUP))
        return false;
    return !service.n || !sw_map_get(&l->pending, cn_printf(l->a, "%.*s/%.*s", SW_SLICE_ARG(o->ns),
                                                            SW_SLICE_ARG(service)));
}

void lk_sweep(struct lk *l)
{
    SW_VIEW_EACH (o, l->v, SW_LK_SERVICE) {
        if (!sw_map_get(&l->services, o->key) && !sw_map_get(&l->pending, o->key) &&
            !cn_deleting(o) && is_ours(l, o))
            sw_out_delete(l->out, SW_LK_SERVICE, o);
    }
    SW_VIEW_EACH (o, l->v, SW_LK_SLICE) {
        if (is_stale_slice(l, o))
            sw_out_delete(l->out, SW_LK_SLICE, o);
    }
}
