/* SPDX-License-Identifier: Apache-2.0 */
/* Reading objects: fields with defaults, ages, references, namespaces. */
#include <stdarg.h>
#include <stdio.h>

#include "base/search.h"
#include "control/gateway/build/build_int.h"
#include "io/addr.h"

const char *const route_kind_names[RK_COUNT] = {
    [RK_HTTP] = "HTTPRoute", [RK_GRPC] = "GRPCRoute", [RK_TLS] = "TLSRoute",
    [RK_TCP] = "TCPRoute",   [RK_UDP] = "UDPRoute",
};

const enum sw_model_kind route_view_kinds[RK_COUNT] = {
    [RK_HTTP] = SW_MODEL_HTTPROUTE, [RK_GRPC] = SW_MODEL_GRPCROUTE, [RK_TLS] = SW_MODEL_TLSROUTE,
    [RK_TCP] = SW_MODEL_TCPROUTE,   [RK_UDP] = SW_MODEL_UDPROUTE,
};

const enum sw_model_proto route_protos[RK_COUNT] = {
    [RK_HTTP] = SW_MODEL_PROTO_HTTP1, [RK_GRPC] = SW_MODEL_PROTO_HTTP2,
    [RK_TLS] = SW_MODEL_PROTO_TCP,    [RK_TCP] = SW_MODEL_PROTO_TCP,
    [RK_UDP] = SW_MODEL_PROTO_UDP,
};

bool ref_is(const struct sw_json *ref, const char *def_group, const char *def_kind,
            const char *group, const char *kind)
{
    return sw_slice_eq_str(js_or(ref, "group", def_group), group) &&
           sw_slice_eq_str(js_or(ref, "kind", def_kind), kind);
}

/* One that says nothing admits all, so one that cannot be read must not pass for it. */
static bool selector_shaped(const struct sw_json *v)
{
    const struct sw_json *labels = sw_json_find(v, "matchLabels");
    const struct sw_json *exprs = sw_json_find(v, "matchExpressions");

    return !v || (v->type == SW_JSON_OBJECT && (!labels || labels->type == SW_JSON_OBJECT) &&
                  (!exprs || exprs->type == SW_JSON_ARRAY));
}

struct ns_rule ns_rule_read(struct builder *b, const struct sw_json *namespaces,
                            enum from otherwise)
{
    struct ns_rule r = {.from = otherwise};
    struct sw_slice from = js(namespaces, "from");
    const char *why = NULL;

    if (!from.p)
        return r;
    r.from = FROM_NONE;
    if (sw_slice_eq_str(from, "All"))
        r.from = FROM_ALL;
    else if (sw_slice_eq_str(from, "Same"))
        r.from = FROM_SAME;
    else if (sw_slice_eq_str(from, "Selector") &&
             selector_shaped(sw_json_find(namespaces, "selector")) &&
             sw_label_selector_from_json(b->a, sw_json_find(namespaces, "selector"), &r.selector,
                                         &why) == SW_OK)
        r.from = FROM_SELECTOR;
    return r;
}

bool ns_rule_admits(const struct builder *b, const struct ns_rule *r, struct sw_slice own,
                    struct sw_slice other)
{
    const struct sw_kube_obj *ns;

    switch (r->from) {
    case FROM_ALL:
        return true;
    case FROM_SAME:
        return sw_slice_eq(own, other);
    case FROM_SELECTOR:
        ns = sw_view_find(b->v, SW_MODEL_NAMESPACE, sw_slice(NULL, 0), other);
        return ns && sw_label_selector_match(&r->selector,
                                             sw_json_walk(ns->json, "metadata", "labels", NULL));
    case FROM_NONE:
        break;
    }
    return false;
}

struct sw_slice gw_printf(struct builder *b, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_list again;
    char *p;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (n < (int)sizeof(text)) {
        va_end(again);
        return sw_arena_slice(b->a, sw_slice(text, n < 0 ? 0 : (size_t)n));
    }
    /* Whole: half a pattern or half a name would be another one. */
    p = sw_arena_alloc(b->a, (size_t)n + 1);
    (void)vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return sw_slice(p, (size_t)n);
}

void **sorted_values(struct sw_arena *a, const struct sw_map *m)
{
    struct sw_map_slot **slots = sw_arena_array(a, m->n + 1, sizeof(*slots));
    void **out = sw_arena_array(a, m->n + 1, sizeof(*out));
    size_t n = 0;

    SW_MAP_FOREACH (it, m)
        slots[n++] = it;
    if (n)
        SW_SORT_POINTERS_BY(slots, n, key);
    for (size_t i = 0; i < n; i++)
        out[i] = slots[i]->value;
    return out;
}

void add_note(struct builder *b, struct sw_slice subject, struct sw_slice text)
{
    sw_vec_push(&b->notes, (struct sw_model_note){.subject = subject, .text = text});
}

/* ---- addresses of the configuration ---- */

static void next_ip(struct sw_ip *ip)
{
    for (size_t i = sw_ip_len(ip); i-- > 0;) {
        if (++ip->b[i])
            return;
    }
}

struct addr_list {
    struct sw_arena *a;
    struct sw_model_address *p;
    size_t n;
};

static int add_addr(struct addr_list *l, const struct sw_ip *ip, const struct sw_ip *bind,
                    struct sw_err *err)
{
    char text[SW_IP_TEXT];

    if (l->n == SW_GATEWAY_ADDRS_MAX)
        return sw_err_set(err, SW_ELIMIT, "more than %d addresses", SW_GATEWAY_ADDRS_MAX);
    l->p[l->n].address = sw_arena_slice(l->a, sw_slice_str(sw_ip_text(ip, text)));
    l->p[l->n++].bind = sw_arena_slice(l->a, sw_slice_str(sw_ip_text(bind, text)));
    return SW_OK;
}

static int add_range(struct addr_list *l, struct sw_slice text, struct sw_err *err)
{
    struct sw_cidr c;
    struct sw_ip ip;
    size_t bits;
    size_t count;
    int rc = sw_cidr_parse(text, &c, err);

    if (rc != SW_OK)
        return rc;
    bits = sw_ip_len(&c.ip) * 8 - c.len;
    if (bits > 12)
        return sw_err_set(err, SW_ELIMIT, "'%.*s' has more than %d addresses", SW_SLICE_ARG(text),
                          SW_GATEWAY_ADDRS_MAX);
    ip = c.ip;
    count = (size_t)1 << bits;
    if (bits > 1) { /* neither the network's own address nor, in IPv4, the broadcast */
        next_ip(&ip);
        count -= c.ip.family == 4 ? 2 : 1;
    }
    for (size_t i = 0; i < count && rc == SW_OK; i++) {
        rc = add_addr(l, &ip, &ip, err);
        next_ip(&ip);
    }
    return rc;
}

/* A load balancer's name: where data planes listen for it cannot be guessed. */
static int add_hostname(struct addr_list *l, struct sw_slice name, const struct sw_ip *bind,
                        struct sw_err *err)
{
    char text[SW_IP_TEXT];

    if (l->n == SW_GATEWAY_ADDRS_MAX)
        return sw_err_set(err, SW_ELIMIT, "more than %d addresses", SW_GATEWAY_ADDRS_MAX);
    l->p[l->n++] = (struct sw_model_address){
        .address = sw_arena_slice(l->a, name),
        .hostname = true,
        .bind = sw_arena_slice(l->a, sw_slice_str(sw_ip_text(bind, text)))};
    return SW_OK;
}

/* No wildcard, and no IP address with a slip of the pen: top-level domains have a letter. */
static bool is_hostname(struct sw_slice name)
{
    struct sw_slice last = sw_slice_from(name, (size_t)(sw_slice_rfind(name, '.') + 1));
    bool letter = false;

    for (size_t i = 0; i < last.n; i++)
        letter |= last.p[i] < '0' || last.p[i] > '9';
    return letter && name.p[0] != '*' && host_valid(name);
}

static int add_item(struct addr_list *l, struct sw_slice item, struct sw_err *err)
{
    ptrdiff_t eq = sw_slice_find(item, '=');
    struct sw_slice name = eq < 0 ? item : sw_slice_head(item, (size_t)eq);
    struct sw_ip ip;
    struct sw_ip bind;
    bool is_ip;
    int rc;

    if (sw_slice_find(item, '/') >= 0)
        return add_range(l, item, err);
    rc = sw_ip_parse(name, &ip, err);
    is_ip = rc == SW_OK;
    if (!is_ip && !is_hostname(name))
        return rc;
    if (!is_ip && eq < 0)
        return sw_err_set(err, SW_EINVAL, "hostname '%.*s' needs '=BIND', the address to listen on",
                          SW_SLICE_ARG(name));
    bind = ip;
    if (eq >= 0 && sw_ip_parse(sw_slice_from(item, (size_t)eq + 1), &bind, err) != SW_OK)
        return err->rc;
    return is_ip ? add_addr(l, &ip, &bind, err) : add_hostname(l, name, &bind, err);
}

int sw_gateway_addrs_parse(struct sw_arena *a, struct sw_slice in, struct sw_model_address **ret,
                           size_t *ret_n, struct sw_err *err)
{
    struct addr_list l = {.a = a};

    l.p = sw_arena_array(a, SW_GATEWAY_ADDRS_MAX, sizeof(*l.p));
    while (in.p) {
        struct sw_slice item = sw_slice_trim(sw_slice_cut(&in, ','));
        int rc = add_item(&l, item, err);

        if (rc != SW_OK)
            return rc;
    }
    if (!l.n)
        return sw_err_set(err, SW_EINVAL, "a gateway needs an address");
    *ret = l.p;
    *ret_n = l.n;
    return SW_OK;
}
