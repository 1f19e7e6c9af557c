/* SPDX-License-Identifier: Apache-2.0 */
/* BackendTLSPolicies: which Services use TLS, and which names their certificates must have. */
#include <stdio.h>
#include <stdlib.h>

#include "control/gateway/build/build_int.h"
#include "http/grammar.h"

enum { ANCESTORS_MAX = 16, SAN_MAX = 253 };

static struct sw_slice target_key(char *buf, size_t cap, struct sw_slice ns, struct sw_slice name,
                                  struct sw_slice section)
{
    int n = snprintf(buf, cap, "%.*s/%.*s|%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(name),
                     SW_SLICE_ARG(section));

    return sw_slice(buf, sw_min((size_t)n, cap - 1));
}

static void invalid(struct policy *p, const char *reason, const char *msg)
{
    if (!p->accepted.reason)
        p->accepted = (struct verdict){reason, msg};
}

static bool uri_valid(struct sw_slice s)
{
    return s.n && s.n <= SAN_MAX && sw_http_value_valid(s);
}

static void read_sans(struct builder *b, struct policy *p, const struct sw_json *list)
{
    size_t n = sw_min(sw_json_len(list), 5);
    struct sw_model_san *sans = sw_arena_array(b->a, n + 1, sizeof(*sans));

    for (size_t i = 0; i < n; i++) {
        const struct sw_json *s = sw_json_at(list, i);
        bool uri = sw_slice_eq_str(js(s, "type"), "URI");

        sans[i].kind = uri ? SW_MODEL_SAN_URI : SW_MODEL_SAN_DNS;
        sans[i].value = js_or(s, uri ? "uri" : "hostname", "");
        if (!(uri ? uri_valid(sans[i].value) : host_valid(sans[i].value)))
            invalid(p, "Invalid", "a subjectAltName without a value that can be compared");
    }
    if (!n) { /* without names of its own the certificate is for the host asked for */
        sans[0] = (struct sw_model_san){SW_MODEL_SAN_DNS, p->tls.sni};
        n = 1;
    }
    p->tls.sans = sans;
    p->tls.n_sans = n;
}

static void read_validation(struct builder *b, struct policy *p)
{
    static const struct ca_reasons why = {"InvalidCACertificateRef", "InvalidKind", NULL};
    const struct sw_json *v = sw_json_walk(p->obj->json, "spec", "validation", NULL);
    const struct sw_json *refs = sw_json_find(v, "caCertificateRefs");
    const struct ref_from from = {"BackendTLSPolicy", p->obj->ns};
    struct sw_slice known = js_or(v, "wellKnownCACertificates", "");

    p->tls.sni = js_or(v, "hostname", "");
    if (!host_valid(p->tls.sni) || p->tls.sni.p[0] == '*')
        invalid(p, "Invalid", "validation needs a hostname");
    read_sans(b, p, sw_json_find(v, "subjectAltNames"));
    if (sw_json_len(refs)) {
        if (known.n)
            invalid(p, "Invalid",
                    "caCertificateRefs and wellKnownCACertificates exclude each other");
        if (!resolve_cas(b, &from, refs, &why, &p->tls.ca, &p->resolved))
            invalid(p, "NoValidCACertificate", "none of the CA certificates can be used");
    } else if (!sw_slice_eq_str(known, "System")) {
        invalid(p, "Invalid",
                known.n ? sw_arena_printf(b->a, "well-known certificates '%.*s' are not known",
                                          SW_SLICE_ARG(known))
                        : "validation needs CA certificates");
    }
}

/* A policy in the list of those that name a Service. */
struct policy_link {
    struct policy *policy;
    struct policy_link *next;
};

static void link_target(struct builder *b, struct policy *p, struct sw_slice service)
{
    struct sw_slice key =
        gw_printf(b, "%.*s/%.*s", SW_SLICE_ARG(p->obj->ns), SW_SLICE_ARG(service));
    struct policy_link *l = SW_ARENA_NEW(b->a, struct policy_link);

    l->policy = p;
    l->next = sw_map_get(&b->targets, key);
    if (l->next && l->next->policy == p)
        return; /* another of its ports */
    (void)sw_map_put(&b->targets, key, l);
}

static void take_targets(struct builder *b, struct policy *p)
{
    const struct sw_json *refs = sw_json_walk(p->obj->json, "spec", "targetRefs", NULL);

    for (size_t i = 0; i < sw_json_len(refs) && i < 16; i++) {
        const struct sw_json *ref = sw_json_at(refs, i);
        char buf[1024];
        struct sw_slice key = target_key(buf, sizeof(buf), p->obj->ns, js(ref, "name"),
                                         js_or(ref, "sectionName", ""));
        const struct policy *other = sw_map_get(&b->policies, key);

        if (!ref_is(ref, "", "Service", "", "Service"))
            continue;
        link_target(b, p, js(ref, "name"));
        if (other && other != p)
            invalid(p, "Conflicted",
                    sw_arena_printf(
                        b->a, "BackendTLSPolicy '%.*s' has the same target and takes precedence",
                        SW_SLICE_ARG(other->obj->key)));
        else
            (void)sw_map_put(&b->policies, sw_arena_slice(b->a, key), p);
    }
}

void build_policies(struct builder *b)
{
    for (size_t i = 0; i < sw_view_count(b->v, SW_MODEL_BACKENDTLS); i++) {
        struct policy *p = SW_ARENA_NEW(b->a, struct policy);

        p->obj = sw_view_at(b->v, SW_MODEL_BACKENDTLS, i);
        sw_vec_push(&b->policy_list, p);
    }
    if (b->policy_list.n > 1)
        qsort(b->policy_list.p, b->policy_list.n, sizeof(*b->policy_list.p),
              cn_oldest_holder_first);
    SW_VEC_EACH (struct policy, p, &b->policy_list) {
        /* The loser of a conflict need not be valid besides, and reports the conflict. */
        take_targets(b, p);
        read_validation(b, p);
    }
}

struct policy *policy_for(const struct builder *b, struct sw_slice ns, struct sw_slice service,
                          struct sw_slice port_name)
{
    char buf[1024];
    struct policy *p = NULL;

    if (!b->policies.n)
        return NULL;
    if (port_name.n)
        p = sw_map_get(&b->policies, target_key(buf, sizeof(buf), ns, service, port_name));
    return p ? p
             : sw_map_get(&b->policies, target_key(buf, sizeof(buf), ns, service, sw_slice("", 0)));
}

static void add_ancestor(struct builder *b, struct policy *p, struct gateway *gw)
{
    if (!p->ancestors)
        p->ancestors = sw_arena_array(b->a, ANCESTORS_MAX, sizeof(struct gateway *));
    for (size_t i = 0; i < p->n_ancestors; i++) {
        if (p->ancestors[i] == gw)
            return;
    }
    if (p->n_ancestors < ANCESTORS_MAX)
        p->ancestors[p->n_ancestors++] = gw;
}

void policy_used(struct builder *b, struct sw_slice service_key, struct gateway *gw)
{
    for (struct policy_link *l = sw_map_get(&b->targets, service_key); l; l = l->next) {
        struct policy *p = l->policy;

        if (!sw_view_find(b->v, SW_MODEL_SERVICE, p->obj->ns,
                          sw_slice_from(service_key, p->obj->ns.n + 1)))
            invalid(p, "TargetNotFound", "there is no such Service");
        add_ancestor(b, p, gw);
    }
}
