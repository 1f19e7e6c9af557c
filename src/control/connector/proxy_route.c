/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTPRoute of an HTTPProxy: the same rules, with EndpointSlices as backends. A Host that a
 * header modifier sets becomes a rewrite, which is what Gateways understand.
 */
#include "control/connector/proxy_int.h"

/* ---- filters ---- */

static bool is_type(const struct sw_json *filter, const char *type)
{
    return sw_json_str_eq(sw_json_find(filter, "type"), type);
}

static bool is_host(const struct sw_json *header)
{
    return sw_slice_ieq(js_or(header, "name", ""), SW_SLICE_LIT("host"));
}

/* Takes Host out of a list of headers; what it was set to last. */
static struct sw_slice take_host(struct sw_json *headers)
{
    struct sw_slice host = {0};

    for (size_t i = sw_json_len(headers); i-- > 0;) {
        if (is_host(sw_json_at(headers, i))) {
            struct sw_json *h = sw_json_remove_at(headers, i);

            host = host.n ? host : js_or(h, "value", "");
        }
    }
    return host;
}

/* Takes it out of all request header modifiers; those that are empty then go too. */
static struct sw_slice take_hosts(struct sw_json *filters)
{
    struct sw_slice host = {0};

    for (size_t i = sw_json_len(filters); i-- > 0;) {
        struct sw_json *f = sw_json_at(filters, i);
        struct sw_json *m = sw_json_find(f, "requestHeaderModifier");
        struct sw_json *set = sw_json_find(m, "set");
        struct sw_json *add = sw_json_find(m, "add");
        struct sw_slice found;

        if (!is_type(f, "RequestHeaderModifier"))
            continue;
        found = take_host(set);
        found = found.n ? found : take_host(add);
        if (!found.n)
            continue;
        host = host.n ? host : found;
        if (!sw_json_len(set))
            (void)sw_json_remove(m, SW_SLICE_LIT("set"));
        if (!sw_json_len(add))
            (void)sw_json_remove(m, SW_SLICE_LIT("add"));
        if (!sw_json_len(m))
            (void)sw_json_remove_at(filters, i);
    }
    return host;
}

/* One rewrite has it all; a host that is there already stays. */
static void put_host(struct sw_arena *a, struct sw_json *filters, struct sw_slice host)
{
    struct sw_json *f = sw_json_find_item(filters, "type", SW_SLICE_LIT("URLRewrite"));
    struct sw_json *rewrite;

    if (!f) {
        f = SW_JSON_OF(a, {"type", .str = "URLRewrite"},
                       {"urlRewrite", .json = sw_json_new_object(a)});
        sw_json_push(a, filters, f);
    }
    rewrite = sw_json_find(f, "urlRewrite");
    if (!sw_json_find(rewrite, "hostname"))
        sw_json_put_str(a, rewrite, "hostname", host);
}

static struct sw_json *copy_filters(struct sw_arena *a, const struct sw_json *filters)
{
    return sw_json_is(filters, SW_JSON_ARRAY) ? sw_json_copy(a, filters) : sw_json_new_array(a);
}

/* ---- rules ---- */

struct sw_json *hp_backend_ref(struct hp *h, const struct hp_backend *b)
{
    bool eg = hp_for_envoy_gateway(h) && !b->instance.n;
    uint16_t port = b->instance.n ? b->instance_port : b->ep.port;

    return SW_JSON_OF(h->a, {"group", .str = eg ? "gateway.envoyproxy.io" : "discovery.k8s.io"},
                      {"kind", .str = eg ? "Backend" : "EndpointSlice"},
                      {"name", .text = b->instance.n ? b->instance : b->slice},
                      {"port", .json = eg ? NULL : sw_json_new_i64(h->a, port)},
                      {"weight", .json = sw_json_new_i64(h->a, 1)});
}

/*
 * Origins by name are asked for that name; what is behind a connector sees the public one unless
 * the user says otherwise.
 */
static void add_backend(struct hp *h, struct sw_json *rule, const struct sw_json *from,
                        const struct hp_backend *b, struct sw_json *filters)
{
    struct sw_json *own = copy_filters(h->a, sw_json_find(from, "filters"));
    struct sw_slice host = take_hosts(own);
    struct sw_json *ref = hp_backend_ref(h, b);

    if (host.n)
        put_host(h->a, own, host);
    else if (!b->connector.n && !b->instance.n && !b->ep.ip &&
             !sw_json_find_item(own, "type", SW_SLICE_LIT("URLRewrite")))
        put_host(h->a, filters, b->ep.host);
    if (sw_json_len(own))
        sw_json_put(h->a, ref, "filters", own);
    sw_json_put(h->a, rule, "backendRefs", sw_json_new_list(h->a, ref));
}

static struct sw_json *rule_json(struct hp *h, const struct sw_json *from,
                                 const struct hp_backend *b)
{
    struct sw_json *rule = sw_json_new_object(h->a);
    struct sw_json *filters = copy_filters(h->a, sw_json_find(from, "filters"));
    struct sw_slice host = take_hosts(filters);

    if (sw_json_find(from, "name"))
        sw_json_put(h->a, rule, "name", sw_json_copy(h->a, sw_json_find(from, "name")));
    if (sw_json_len(sw_json_find(from, "matches")))
        sw_json_put(h->a, rule, "matches", sw_json_copy(h->a, sw_json_find(from, "matches")));
    if (host.n)
        put_host(h->a, filters, host);
    if (b->used)
        add_backend(h, rule, sw_json_at(sw_json_find(from, "backends"), 0), b, filters);
    if (sw_json_len(filters))
        sw_json_put(h->a, rule, "filters", filters);
    return rule;
}

struct sw_json *hp_route(struct hp *h)
{
    const struct sw_json *rules = sw_json_find(h->spec, "rules");
    struct sw_json *parent = SW_JSON_OF(h->a, {"group", .str = GW_GROUP},
                                        {"kind", .str = "Gateway"}, {"name", .text = h->obj->name});
    struct sw_json *parents = sw_json_new_list(h->a, parent);
    struct sw_json *list = sw_json_new_array(h->a);

    if (h->l4.kind != HP_L4_NONE)
        return hp_l4_route(h, parents);
    for (size_t i = 0; i < h->n_rules; i++)
        sw_json_push(h->a, list, rule_json(h, sw_json_at(rules, i), &h->backends[i]));
    return SW_JSON_OF(h->a, {"parentRefs", .json = parents}, {"rules", .json = list});
}
