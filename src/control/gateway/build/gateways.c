/* SPDX-License-Identifier: Apache-2.0 */
/* GatewayClasses, Gateways with their addresses, and the ListenerSets that attach to them. */
#include <stdio.h>
#include <stdlib.h>

#include "control/gateway/build/build_int.h"
#include "io/addr.h"

/* ---- classes ---- */

/* Bundles whose kinds are read: in v1, or in the older versions of kinds.c. */
static bool known_bundle(struct sw_slice version)
{
    static const char *const known[] = {"v1.2.", "v1.3.", "v1.4.", "v1.5.", "v1.6."};

    for (size_t i = 0; i < SW_ARRAY_LEN(known); i++) {
        if (sw_slice_has_prefix(version, sw_slice_str(known[i])))
            return true;
    }
    return false;
}

/* The definitions an API serves say which bundle they are from; without any there is no doubt. */
static struct verdict judge_version(struct builder *b)
{
    SW_VIEW_EACH (crd, b->v, SW_MODEL_CRD) {
        struct sw_slice v =
            sw_json_str(sw_json_walk(crd->json, "metadata", "annotations",
                                     "gateway.networking.k8s.io/bundle-version", NULL));

        if (!known_bundle(v))
            return VERDICT(b, "UnsupportedVersion",
                           "%.*s is of bundle version '%.*s'; v1.2 to v1.6 are known",
                           SW_SLICE_ARG(crd->name), SW_SLICE_ARG(v));
    }
    return (struct verdict){0};
}

void build_classes(struct builder *b)
{
    struct verdict version = judge_version(b);

    SW_VIEW_EACH (c, b->v, SW_MODEL_CLASS) {
        const struct sw_json *spec = sw_json_find(c->json, "spec");
        const struct sw_json *params = sw_json_find(spec, "parametersRef");
        struct verdict accepted = {0};

        if (!sw_slice_eq(js(spec, "controllerName"), b->conf->controller))
            continue;
        if (params)
            accepted = VERDICT(b, "InvalidParameters", "parameters of kind '%.*s' are not known",
                               SW_SLICE_ARG(js_or(params, "kind", "")));
        (void)sw_map_put(&b->classes, c->name, (void *)(uintptr_t)c);
        status_class(b, c, accepted, version);
    }
}

/* ---- addresses ---- */

static bool addr_index(const struct sw_gateway_conf *conf, bool hostname, struct sw_slice text,
                       size_t *ret)
{
    struct sw_ip ip;
    char canon[SW_IP_TEXT];
    struct sw_err err;

    if (!hostname) {
        if (sw_ip_parse(text, &ip, &err) != SW_OK)
            return false;
        text = sw_slice_str(sw_ip_text(&ip, canon));
    }
    for (size_t i = 0; i < conf->n_addrs; i++) {
        if (conf->addrs[i].hostname == hostname && sw_slice_ieq(conf->addrs[i].address, text)) {
            *ret = i;
            return true;
        }
    }
    return false;
}

static void add_address(struct gateway *g, size_t at)
{
    for (size_t i = 0; i < g->n_addrs; i++) {
        if (g->addrs[i] == at)
            return;
    }
    g->addrs[g->n_addrs++] = at;
}

/* What the Gateway asks for by value; without a wish nothing is added. */
static void read_addresses(struct builder *b, struct gateway *g)
{
    const struct sw_json *list = sw_json_find(g->spec, "addresses");
    size_t n = sw_min(sw_json_len(list), 16);

    g->addrs = sw_arena_array(b->a, n + 1, sizeof(*g->addrs));
    for (size_t i = 0; i < n; i++) {
        const struct sw_json *item = sw_json_at(list, i);
        struct sw_slice type = js_or(item, "type", "IPAddress");
        struct sw_slice value = js(item, "value");
        bool hostname = sw_slice_eq_str(type, "Hostname");
        size_t at;

        if (!hostname && !sw_slice_eq_str(type, "IPAddress")) {
            g->accepted = VERDICT(b, "UnsupportedAddress",
                                  "addresses of type '%.*s' are not supported", SW_SLICE_ARG(type));
            continue;
        }
        if (!value.n)
            continue;
        if (addr_index(b->conf, hostname, value, &at))
            add_address(g, at);
        else if (!g->programmed.reason)
            g->programmed =
                VERDICT(b, "AddressNotUsable", "'%.*s' is none of the addresses served here",
                        SW_SLICE_ARG(value));
    }
}

/* The address it had before, if it may keep it. */
static bool former_address(const struct builder *b, const struct gateway *g, const size_t *users,
                           size_t *ret)
{
    const struct sw_json *had = sw_json_walk(g->parent.obj->json, "status", "addresses", NULL);

    bool hostname = sw_json_str_eq(sw_json_find(sw_json_at(had, 0), "type"), "Hostname");

    return addr_index(b->conf, hostname, js(sw_json_at(had, 0), "value"), ret) && !users[*ret];
}

static size_t least_used(const struct builder *b, const size_t *users)
{
    size_t best = 0;

    for (size_t i = 1; i < b->conf->n_addrs && users[best]; i++) {
        if (users[i] < users[best])
            best = i;
    }
    return best;
}

/*
 * Each Gateway an address of its own while there are any, afterwards they share. First those that
 * ask for one, then those that have one, oldest first: so a Gateway keeps its address when another
 * comes or goes.
 */
static void assign_addresses(struct builder *b)
{
    size_t *users = sw_arena_array(b->a, b->conf->n_addrs + 1, sizeof(*users));
    size_t at;

    if (!b->conf->n_addrs)
        return;
    SW_VEC_EACH (struct gateway, g, &b->gateways) {
        for (size_t k = 0; k < g->n_addrs; k++)
            users[g->addrs[k]]++;
    }
    SW_VEC_EACH (struct gateway, g, &b->gateways) {
        if (g->n_addrs || g->programmed.reason || !former_address(b, g, users, &at))
            continue;
        add_address(g, at);
        users[at]++;
    }
    SW_VEC_EACH (struct gateway, g, &b->gateways) {
        if (g->n_addrs || g->programmed.reason)
            continue;
        at = least_used(b, users);
        add_address(g, at);
        users[at]++;
    }
}

/* ---- Gateways ---- */

static void read_client_cert(struct builder *b, struct gateway *g)
{
    const struct sw_json *ref =
        sw_json_walk(g->spec, "tls", "backend", "clientCertificateRef", NULL);

    if (!ref)
        return;
    g->resolved = resolve_cert(b, &(struct ref_from){"Gateway", g->parent.obj->ns}, ref,
                               "InvalidClientCertificateRef", &g->client_cert);
}

static void add_parent(struct builder *b, const char *prefix, struct parent *p)
{
    p->number = b->parent_list.n;
    sw_vec_push(&b->parent_list, p);
    (void)sw_map_put(&b->parents, gw_printf(b, "%s|%.*s", prefix, SW_SLICE_ARG(p->obj->key)), p);
}

static void read_gateway(struct builder *b, const struct sw_kube_obj *o,
                         const struct sw_kube_obj *class)
{
    struct gateway *g = SW_ARENA_NEW(b->a, struct gateway);
    const struct sw_json *params;

    g->parent.obj = o;
    g->parent.kind = SW_MODEL_GATEWAY;
    g->parent.gw = g;
    g->spec = sw_json_find(o->json, "spec");
    g->sets_ns =
        ns_rule_read(b, sw_json_walk(g->spec, "allowedListeners", "namespaces", NULL), FROM_NONE);
    read_addresses(b, g);
    params = sw_json_walk(g->spec, "infrastructure", "parametersRef", NULL);
    if (params)
        g->accepted = VERDICT(b, "InvalidParameters",
                              "parameters of kind '%.*s' are not "
                              "known",
                              SW_SLICE_ARG(js_or(params, "kind", "")));
    /* Its status must say so: it may have been served until its class was spoilt. */
    if (!g->accepted.reason && sw_json_walk(class->json, "spec", "parametersRef", NULL))
        g->accepted = (struct verdict){"InvalidParameters", "its GatewayClass is not accepted"};
    read_client_cert(b, g);
    sw_vec_push(&b->gateways, g);
    add_parent(b, "gateway", &g->parent);
}

/* ---- ListenerSets ---- */

static struct gateway *set_gateway(const struct builder *b, const struct sw_kube_obj *o)
{
    const struct sw_json *ref = sw_json_walk(o->json, "spec", "parentRef", NULL);
    struct sw_slice ns = js_or(ref, "namespace", "");
    struct sw_slice name = js(ref, "name");
    char key[1024];
    int n;

    if (!ns.n)
        ns = o->ns;
    if (!ref_is(ref, GW_GROUP, "Gateway", GW_GROUP, "Gateway") || ns.n + name.n > 900)
        return NULL;
    n = snprintf(key, sizeof(key), "gateway|%.*s/%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(name));
    return sw_map_get(&b->parents, sw_slice(key, (size_t)n));
}

static void read_set(struct builder *b, const struct sw_kube_obj *o, struct gateway *g)
{
    struct parent *p = SW_ARENA_NEW(b->a, struct parent);

    p->obj = o;
    p->kind = SW_MODEL_LISTENERSET;
    p->gw = g;
    if (!ns_rule_admits(b, &g->sets_ns, g->parent.obj->ns, o->ns)) {
        p->refused = (struct verdict){"NotAllowed", "the Gateway does not allow this ListenerSet"};
        p->refused_programmed = "NotAllowed";
    } else if (g->accepted.reason) {
        p->refused = (struct verdict){"ParentNotAccepted", "the Gateway is not accepted"};
        p->refused_programmed = "ParentNotProgrammed";
    }
    g->sets[g->n_sets++] = p;
    add_parent(b, "set", p);
}

static void read_sets(struct builder *b)
{
    size_t n = sw_view_count(b->v, SW_MODEL_LISTENERSET);

    /* Room first: sets are counted on their Gateways, then read. */
    for (size_t i = 0; i < n; i++) {
        struct gateway *g = set_gateway(b, sw_view_at(b->v, SW_MODEL_LISTENERSET, i));

        if (g)
            g->n_sets++;
    }
    SW_VEC_EACH (struct gateway, g, &b->gateways) {
        g->sets = sw_arena_array(b->a, g->n_sets + 1, sizeof(*g->sets));
        g->n_sets = 0;
    }
    for (size_t i = 0; i < n; i++) {
        const struct sw_kube_obj *o = sw_view_at(b->v, SW_MODEL_LISTENERSET, i);
        struct gateway *g = set_gateway(b, o);

        if (g)
            read_set(b, o, g);
    }
    SW_VEC_EACH (struct gateway, g, &b->gateways) {
        if (g->n_sets > 1)
            qsort(g->sets, g->n_sets, sizeof(*g->sets), cn_oldest_holder_first);
    }
}

void build_gateways(struct builder *b)
{
    SW_VIEW_EACH (o, b->v, SW_MODEL_GATEWAY) {
        const struct sw_kube_obj *class = sw_map_get(
            &b->classes, sw_json_str(sw_json_walk(o->json, "spec", "gatewayClassName", NULL)));

        if (class)
            read_gateway(b, o, class);
    }
    if (b->gateways.n > 1)
        qsort(b->gateways.p, b->gateways.n, sizeof(*b->gateways.p), cn_oldest_holder_first);
    assign_addresses(b);
    read_sets(b);
    SW_VEC_EACH (struct gateway, g, &b->gateways) {
        read_listeners(b, &g->parent);
        for (size_t k = 0; k < g->n_sets; k++)
            read_listeners(b, g->sets[k]);
    }
}
