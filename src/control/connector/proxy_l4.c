/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTPProxies whose annotation spanwire.dev/layer4 asks for bytes instead of requests: a public
 * port of their own ("TCP", "TCP/20022"), or their names by TLS passthrough ("TLS"). A port is one
 * of those that the control plane gives to devices, and belongs to the holder of the recorded
 * claim; it is not assigned while a Gateway of another namespace has it. See doc/decisions/0020.
 */
#include "base/hash.h"
#include "control/connector/proxy_int.h"

#define CLAIM_PREFIX "tcp/"

/* What decides about ports. */
struct ports {
    const struct sw_connector_conf *conf;
    struct sw_arena *a;
    struct sw_map recorded; /* value -> uid of the holder, a struct sw_slice */
    struct sw_map held;     /* uid -> value */
    const struct sw_map *others;
};

static struct sw_slice value_of(struct sw_arena *a, uint16_t port)
{
    return cn_printf(a, CLAIM_PREFIX "%u", port);
}

/* ---- what is asked for ---- */

static const char *read_wish(struct sw_slice text, struct hp_l4 *ret)
{
    static const struct sw_slice tcp = SW_SLICE_LIT("TCP/");
    uint64_t port = 0;

    if (!text.p)
        return NULL;
    if (sw_slice_eq_str(text, "TLS")) {
        ret->kind = HP_L4_TLS;
        return NULL;
    }
    if (sw_slice_has_prefix(text, tcp) &&
        (!sw_slice_to_u64(sw_slice_from(text, tcp.n), UINT16_MAX, &port) || !port))
        text.n = 0;
    if (!sw_slice_eq_str(text, "TCP") && !port)
        return "metadata.annotations: " SW_CONNECTOR_LAYER4
               " is one of 'TCP', 'TCP/<port>' and 'TLS'";
    ret->kind = HP_L4_TCP;
    ret->wanted = (uint16_t)port;
    return NULL;
}

static bool in_range(const struct sw_connector_conf *conf, uint16_t port)
{
    return port >= conf->port_first && port <= conf->port_last;
}

static const char *check_ports(struct sw_arena *a, const struct sw_connector_conf *conf,
                               const struct hp_l4 *l4)
{
    if (!conf->port_first)
        return "metadata.annotations: " SW_CONNECTOR_LAYER4
               ": this control plane has no ports for devices (--device-ports)";
    if (l4->wanted && !in_range(conf, l4->wanted))
        return cn_text(a,
                       "metadata.annotations: " SW_CONNECTOR_LAYER4
                       ": port %u is none of those for devices, %u to %u",
                       l4->wanted, conf->port_first, conf->port_last);
    return NULL;
}

const char *hp_l4_read(struct sw_arena *a, const struct sw_connector_conf *conf,
                       const struct sw_kube_obj *o, struct hp_l4 *ret)
{
    const struct sw_json *spec = sw_json_find(o->json, "spec");
    const struct sw_json *rules = sw_json_find(spec, "rules");
    const struct sw_json *rule = sw_json_at(rules, 0);
    const struct sw_json *b = sw_json_at(sw_json_find(rule, "backends"), 0);
    const char *bad = read_wish(cn_meta_of(o, "annotations", SW_CONNECTOR_LAYER4), ret);

    if (bad || ret->kind == HP_L4_NONE)
        return bad;
    if (conf->envoy_gateway || conf->patch_policies)
        return "metadata.annotations: " SW_CONNECTOR_LAYER4 " is not served by Envoy Gateway";
    if (sw_json_len(rules) != 1 || sw_json_len(sw_json_find(rule, "filters")) ||
        sw_json_len(sw_json_find(b, "filters")))
        return "spec.rules: layer 4 takes one rule without filters";
    if (!sw_json_find(b, "connector") ||
        sw_slice_has_prefix(js_or(b, "endpoint", ""), SW_SLICE_LIT("https:")))
        return "spec.rules[0].backends[0]: layer 4 takes an http endpoint with a connector";
    if (ret->kind == HP_L4_TLS)
        return NULL;
    if (sw_json_len(sw_json_find(spec, "hostnames")))
        return "spec.hostnames: a TCP port serves no names";
    return check_ports(a, conf, ret);
}

/* ---- ports of others ---- */

static void read_gateway(struct sw_arena *a, const struct sw_kube_obj *o, struct sw_map *ret)
{
    const struct sw_json *list = sw_json_walk(o->json, "spec", "listeners", NULL);

    for (size_t i = 0; i < sw_json_len(list); i++) {
        uint16_t port = (uint16_t)js_int(sw_json_at(list, i), "port", UINT16_MAX, 0);

        if (port && !sw_json_str_eq(sw_json_find(sw_json_at(list, i), "protocol"), "UDP"))
            (void)sw_map_put(ret, value_of(a, port), (void *)(uintptr_t)o);
    }
}

static void read_others(const struct sw_view *v, struct sw_arena *a, struct sw_map *ret)
{
    static const size_t kinds[] = {SW_HP_GATEWAY, SW_HP_LISTENERSET};

    for (size_t k = 0; k < SW_ARRAY_LEN(kinds); k++) {
        SW_VIEW_EACH (o, v, kinds[k]) {
            if (!hp_is_child(v, o))
                read_gateway(a, o, ret);
        }
    }
}

/* ---- claims ---- */

static void read_recorded(const struct sw_view *v, struct ports *p)
{
    for (size_t i = 0; i < sw_view_count(v, SW_HP_CLAIM); i++) {
        const struct sw_json *spec = sw_json_find(sw_view_at(v, SW_HP_CLAIM, i)->json, "spec");
        struct sw_slice *pair;

        if (!sw_json_str_eq(sw_json_find(spec, "type"), "Port"))
            continue;
        pair = sw_arena_array(p->a, 2, sizeof(*pair));
        pair[0] = js_or(spec, "value", "");
        pair[1] = js_or(sw_json_find(spec, "holder"), "uid", "");
        (void)sw_map_put(&p->recorded, pair[0], &pair[1]);
        (void)sw_map_put(&p->held, pair[1], &pair[0]);
    }
}

/* The port of a value, if it is one for devices; else 0. */
static uint16_t port_of(const struct sw_connector_conf *conf, const struct sw_slice *value)
{
    uint64_t port = 0;

    if (!value || !sw_slice_has_prefix(*value, SW_SLICE_LIT(CLAIM_PREFIX)) ||
        !sw_slice_to_u64(sw_slice_from(*value, sizeof(CLAIM_PREFIX) - 1), UINT16_MAX, &port) ||
        !in_range(conf, (uint16_t)port))
        return 0;
    return (uint16_t)port;
}

/* What it has already, or the next free one from a place that its uid names; 0: none is free. */
static uint16_t choose(const struct ports *p, const struct sw_kube_obj *o)
{
    uint32_t n = (uint32_t)p->conf->port_last - p->conf->port_first + 1;
    uint16_t held = port_of(p->conf, sw_map_get(&p->held, o->uid));
    uint32_t start = (uint32_t)(sw_siphash13(17, 19, o->uid.p, o->uid.n) % n);

    if (held)
        return held;
    for (uint32_t i = 0; i < n; i++) {
        uint16_t port = (uint16_t)(p->conf->port_first + (start + i) % n);
        struct sw_slice value = value_of(p->a, port);

        if (!sw_map_get(&p->recorded, value) && !sw_map_get(p->others, value))
            return port;
    }
    return 0;
}

/* Another HTTPProxy has it. */
static bool is_taken(const struct ports *p, const struct sw_kube_obj *by, uint16_t port)
{
    struct sw_slice value = value_of(p->a, port);
    const struct sw_slice *uid = sw_map_get(&p->recorded, value);

    return uid ? !sw_slice_eq(*uid, by->uid) : sw_map_get(p->others, value) != NULL;
}

/* The port that an HTTPProxy asks for; 0: none, or none that it could have. */
static uint16_t port_asked(const struct ports *p, const struct sw_kube_obj *o)
{
    struct hp_l4 l4 = {0};
    uint16_t port;
    uint16_t held;

    if (cn_deleting(o) || hp_check(p->a, o) || hp_l4_read(p->a, p->conf, o, &l4) ||
        l4.kind != HP_L4_TCP)
        return 0;
    port = l4.wanted ? l4.wanted : choose(p, o);
    held = port_of(p->conf, sw_map_get(&p->held, o->uid));
    /* What it has it keeps, until it gets the other one that it asks for. */
    return port && is_taken(p, o, port) ? held : port;
}

void hp_claim_ports(const struct sw_view *v, const struct sw_connector_conf *conf,
                    struct sw_output *out, struct hp_names *ret)
{
    const struct sw_claims_in in = HP_CLAIMS_IN(v, SW_CLAIM_PORT);
    struct ports p = {.conf = conf, .a = sw_out_arena(out), .others = &ret->other_ports};
    size_t count = sw_view_count(v, SW_HP_PROXY);
    struct sw_claim_ask *asks = sw_arena_array(p.a, count + 1, sizeof(*asks));
    size_t n = 0;

    read_others(v, p.a, &ret->other_ports);
    read_recorded(v, &p);
    for (size_t i = 0; i < count; i++) {
        const struct sw_kube_obj *o = sw_view_at(v, SW_HP_PROXY, i);
        uint16_t port = port_asked(&p, o);

        if (port)
            asks[n++] = (struct sw_claim_ask){.value = value_of(p.a, port), .by = o};
    }
    sw_claims_decide(&in, asks, n, out, &ret->ports);
    for (size_t i = 0; i < n; i++) {
        struct sw_claim *c = sw_map_get(&ret->ports, asks[i].value);

        if (sw_claim_is(c, asks[i].by))
            (void)sw_map_put(&ret->held_ports, asks[i].by->uid, c);
    }
    sw_map_done(&p.recorded);
    sw_map_done(&p.held);
}

void hp_read_port(struct hp *h)
{
    const struct sw_claim *c;

    if (h->l4.kind != HP_L4_TCP)
        return;
    h->l4.state = HP_NAME_UNRECORDED;
    c = h->l4.wanted ? sw_map_get(&h->names->ports, value_of(h->a, h->l4.wanted))
                     : sw_map_get(&h->names->held_ports, h->obj->uid);
    if (sw_claim_is(c, h->obj)) {
        h->l4.state = HP_NAME_OURS;
        h->l4.port = port_of(h->conf, &c->value);
    } else if (c) {
        h->l4.state = HP_NAME_IN_USE;
        h->l4.holder = hp_holder_text(h, c->ns, c->name);
    } else if (h->l4.wanted && sw_map_get(&h->names->other_ports, value_of(h->a, h->l4.wanted))) {
        h->l4.state = HP_NAME_IN_USE;
        h->l4.holder = "a Gateway";
    }
}

/* ---- what is made ---- */

size_t hp_route_kind(const struct hp *h, const char **ret_kind)
{
    static const struct {
        size_t kind;
        const char *name;
    } kinds[] = {
        [HP_L4_NONE] = {SW_HP_ROUTE, "HTTPRoute"},
        [HP_L4_TCP] = {SW_HP_TCPROUTE, "TCPRoute"},
        [HP_L4_TLS] = {SW_HP_TLSROUTE, "TLSRoute"},
    };

    *ret_kind = kinds[h->l4.kind].name;
    return kinds[h->l4.kind].kind;
}

struct sw_json *hp_l4_route(struct hp *h, struct sw_json *parents)
{
    struct sw_json *refs = sw_json_new_list(h->a, hp_backend_ref(h, &h->backends[0]));
    struct sw_json *rule = SW_JSON_OF(h->a, {"backendRefs", .json = refs});
    struct sw_json *names = sw_json_new_array(h->a);

    for (size_t i = 0; h->l4.kind == HP_L4_TLS && i < h->n_hosts; i++) {
        if (h->hosts[i].state == HP_NAME_OURS)
            sw_json_push(h->a, names, sw_json_new_string(h->a, h->hosts[i].name));
    }
    return SW_JSON_OF(h->a, {"parentRefs", .json = parents},
                      {"hostnames", .json = sw_json_len(names) ? names : NULL},
                      {"rules", .json = sw_json_new_list(h->a, rule)});
}

struct sw_slice hp_url(struct hp *h)
{
    unsigned http = 80u + h->conf->port_offset;
    unsigned https = 443u + h->conf->port_offset;

    switch (h->l4.kind) {
    case HP_L4_TCP:
        return cn_printf(h->a, "tcp://%.*s:%u", SW_SLICE_ARG(h->hosts[0].name), h->l4.port);
    case HP_L4_TLS:
        return cn_printf(h->a, "tls://%.*s:%u", SW_SLICE_ARG(h->hosts[0].name), https);
    case HP_L4_NONE:
        break;
    }
    if (http == 80)
        return cn_printf(h->a, "http://%.*s", SW_SLICE_ARG(h->hosts[0].name));
    return cn_printf(h->a, "http://%.*s:%u", SW_SLICE_ARG(h->hosts[0].name), http);
}
