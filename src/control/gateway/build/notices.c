/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that refer to something that does not exist at all, so that no controller writes their
 * status: a route without its Gateway would have no sign of it. They get Events instead. What
 * exists and belongs to another controller is not mentioned.
 */
#include "control/gateway/build/build_int.h"

void add_notice(struct builder *b, enum sw_model_kind kind, const struct sw_kube_obj *of,
                const char *reason, struct sw_slice text)
{
    sw_vec_push(&b->notices, (struct sw_model_notice){kind, of, reason, text});
}

/* True when ref is of a kind we read, and there is none of that name; *ret_ns is where. */
static bool parent_missing(const struct builder *b, const struct sw_json *ref,
                           struct sw_slice own_ns, struct sw_slice *ret_ns)
{
    struct sw_slice kind = js_or(ref, "kind", "Gateway");
    enum sw_model_kind in = SW_MODEL_GATEWAY;

    *ret_ns = js_or(ref, "namespace", "");
    if (!ret_ns->n)
        *ret_ns = own_ns;
    if (!sw_slice_eq_str(js_or(ref, "group", GW_GROUP), GW_GROUP))
        return false;
    if (sw_slice_eq_str(kind, "ListenerSet"))
        in = SW_MODEL_LISTENERSET;
    else if (!sw_slice_eq_str(kind, "Gateway"))
        return false;
    return !sw_view_find(b->v, in, *ret_ns, js(ref, "name"));
}

static struct sw_slice missing_text(struct builder *b, const char *field, const struct sw_json *ref,
                                    struct sw_slice ns)
{
    return gw_printf(b, "%s: %.*s '%.*s/%.*s' does not exist", field,
                     SW_SLICE_ARG(js_or(ref, "kind", "Gateway")), SW_SLICE_ARG(ns),
                     SW_SLICE_ARG(js(ref, "name")));
}

void notice_route(struct builder *b, const struct route *r)
{
    const struct sw_json *refs = sw_json_walk(r->obj->json, "spec", "parentRefs", NULL);

    for (size_t i = 0; i < sw_json_len(refs); i++) {
        const struct sw_json *ref = sw_json_at(refs, i);
        struct sw_slice ns;

        if (!parent_missing(b, ref, r->obj->ns, &ns))
            continue;
        add_notice(b, route_view_kinds[r->kind], r->obj, "ParentNotFound",
                   missing_text(b, sw_arena_printf(b->a, "spec.parentRefs[%zu]", i), ref, ns));
        return; /* the first says enough */
    }
}

static void notice_set(struct builder *b, const struct sw_kube_obj *o)
{
    const struct sw_json *ref = sw_json_walk(o->json, "spec", "parentRef", NULL);
    struct sw_slice ns;

    if (ref && parent_missing(b, ref, o->ns, &ns))
        add_notice(b, SW_MODEL_LISTENERSET, o, "ParentNotFound",
                   missing_text(b, "spec.parentRef", ref, ns));
}

void notice_gateways(struct builder *b)
{
    SW_VIEW_EACH (o, b->v, SW_MODEL_GATEWAY) {
        struct sw_slice class = js(sw_json_find(o->json, "spec"), "gatewayClassName");

        if (class.n && !sw_view_find(b->v, SW_MODEL_CLASS, sw_slice("", 0), class))
            add_notice(b, SW_MODEL_GATEWAY, o, "ClassNotFound",
                       gw_printf(b, "spec.gatewayClassName: GatewayClass '%.*s' does not exist",
                                 SW_SLICE_ARG(class)));
    }
    for (size_t i = 0; i < sw_view_count(b->v, SW_MODEL_LISTENERSET); i++)
        notice_set(b, sw_view_at(b->v, SW_MODEL_LISTENERSET, i));
}
