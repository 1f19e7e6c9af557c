/* SPDX-License-Identifier: Apache-2.0 */
/* The status of each kind of object. */
#include "control/gateway/build/build_int.h"

/* Sorted; what the conformance suite decides its tests by. */
static const char *const features[] = {
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayBackendClientCertificate",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayInfrastructurePropagation",
    "GatewayPort8080",
    "GatewayStaticAddresses",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteCORS",
    "HTTPRouteDestinationPortMatching",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteRetry",
    "HTTPRouteRetryBackendTimeout",
    "HTTPRouteRetryConnectionError",
    "HTTPRouteSchemeRedirect",
    "ListenerSet",
    "ReferenceGrant",
    "TCPRoute",
    "TLSRoute",
    "TLSRouteModeMixed",
    "TLSRouteModeTerminate",
    "UDPRoute",
};

/* The kind that a feature is about, by the beginning of its name. */
static enum sw_model_kind feature_kind(struct sw_slice feature)
{
    static const struct {
        const char *prefix;
        enum sw_model_kind kind;
    } table[] = {
        {"BackendTLSPolicy", SW_MODEL_BACKENDTLS}, {"GRPCRoute", SW_MODEL_GRPCROUTE},
        {"HTTPRoute", SW_MODEL_HTTPROUTE},         {"ListenerSet", SW_MODEL_LISTENERSET},
        {"ReferenceGrant", SW_MODEL_GRANT},        {"TCPRoute", SW_MODEL_TCPROUTE},
        {"TLSRoute", SW_MODEL_TLSROUTE},           {"UDPRoute", SW_MODEL_UDPROUTE},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(table); i++) {
        if (sw_slice_has_prefix(feature, sw_slice_str(table[i].prefix)))
            return table[i].kind;
    }
    return SW_MODEL_GATEWAY;
}

static struct cond cond_of(const char *type, struct verdict v, const char *good)
{
    if (v.reason)
        return (struct cond){type, false, v.reason, v.msg ? v.msg : ""};
    return (struct cond){type, true, good, ""};
}

/* ---- GatewayClass ---- */

void status_class(struct builder *b, const struct sw_kube_obj *class, struct verdict accepted,
                  struct verdict version)
{
    static const char *const owned[] = {"Accepted", "SupportedVersion", NULL};
    const struct cond want[] = {cond_of("Accepted", accepted, "Accepted"),
                                cond_of("SupportedVersion", version, "SupportedVersion")};
    struct sw_json *status = status_with(b->a, class, owned, want, SW_ARRAY_LEN(want));
    struct sw_json *list = sw_json_new_array(b->a);

    for (size_t i = 0; i < SW_ARRAY_LEN(features); i++) {
        if (sw_view_served(b->v, feature_kind(sw_slice_str(features[i]))))
            sw_json_push(b->a, list, SW_JSON_OF(b->a, {"name", .str = features[i]}));
    }
    sw_json_put(b->a, status, "supportedFeatures", list);
    put_status(b, SW_MODEL_CLASS, class, status);
}

/* ---- listeners ---- */

static const char *const listener_owned[] = {"Accepted",   "Programmed",           "ResolvedRefs",
                                             "Conflicted", "OverlappingTLSConfig", LISTENER_CLAIMED,
                                             NULL};

static const char no_socket[] = "no more ports can be served";
static const char pending[] = "Pending";

/* Was it so the last time it was written? */
static bool was_programmed(const struct listener *l)
{
    const struct sw_json *old = sw_json_find_item(
        sw_json_walk(l->parent->obj->json, "status", "listeners", NULL), "name", l->name);

    return cn_is_true(sw_json_find(old, "conditions"), "Programmed");
}

/* What data planes say to one of its sockets. */
static struct verdict socket_programmed(struct builder *b, const struct listener *l, size_t addr)
{
    const struct socket *s = socket_find(b, addr, l->port, l->proto == PROTO_UDP);
    const struct sw_plane_fault *f;
    bool bound = s && sw_map_get(&b->out_names, s->key);

    if (!s || (!bound && b->planes->n))
        return (struct verdict){0};
    f = sw_map_get(&b->planes->faults, s->key);
    if (f)
        return VERDICT(b, sw_plane_reason(f), "data plane '%.*s': %.*s", SW_SLICE_ARG(f->node),
                       SW_SLICE_ARG(f->why));
    if (sw_map_get(&b->planes->held, s->key) ||
        sw_map_get(&b->planes->held,
                   sw_planes_name(b->a, s->key, l->parent->gw->parent.obj->key)) ||
        (b->planes->starting && was_programmed(l)))
        return (struct verdict){0};
    return (struct verdict){pending, b->planes->n ? "no data plane serves the listener yet"
                                                  : "no data plane is connected"};
}

static struct verdict planes_verdict(struct builder *b, const struct listener *l)
{
    struct verdict v = {0};

    for (size_t i = 0; b->planes && i < l->parent->gw->n_addrs && !v.reason; i++)
        v = socket_programmed(b, l, l->parent->gw->addrs[i]);
    return v;
}

static struct verdict listener_programmed(struct builder *b, const struct listener *l)
{
    const struct gateway *g = l->parent->gw;

    if (l->conflict.reason)
        return l->conflict;
    if (l->accepted.reason)
        return (struct verdict){"Invalid", "the listener is not accepted"};
    if (g->accepted.reason)
        return (struct verdict){"Invalid", "the Gateway is not accepted"};
    if (l->broken)
        return (struct verdict){"Invalid", l->broken};
    if (!g->n_addrs)
        return (struct verdict){"Pending", "the Gateway has no address"};
    if (l->no_socket)
        return (struct verdict){l->parent->kind == SW_MODEL_GATEWAY ? "Pending" : "PortUnavailable",
                                no_socket};
    return planes_verdict(b, l);
}

static struct sw_json *listener_status(struct builder *b, const struct listener *l,
                                       const struct sw_json *old)
{
    struct cond want[6];
    size_t n = 0;

    want[n++] = cond_of("Accepted", l->conflict.reason ? l->conflict : l->accepted, "Accepted");
    want[n++] = cond_of("Programmed", listener_programmed(b, l), "Programmed");
    if (want[1].yes && l->note)
        want[1].msg = l->note;
    want[n++] = cond_of("ResolvedRefs", l->resolved, "ResolvedRefs");
    if (l->conflict.reason)
        want[n++] = (struct cond){"Conflicted", true, l->conflict.reason, l->conflict.msg};
    if (l->overlapping_certs)
        want[n++] = (struct cond){"OverlappingTLSConfig", true, "OverlappingCertificates",
                                  "its certificate has names in common with another listener's on "
                                  "this port"};
    else if (l->overlapping)
        want[n++] = (struct cond){"OverlappingTLSConfig", true, "OverlappingHostnames",
                                  "the hostname overlaps with another listener's on this port"};
    /* Once it has its place it keeps it, whatever keeps it from serving meanwhile. */
    if (l->claimed || (!l->conflict.reason && listener_recorded(b, l)))
        want[n++] = (struct cond){LISTENER_CLAIMED, true, "Claimed", listener_place(b, l)};
    return SW_JSON_OF(b->a, {"name", .text = l->name}, {"supportedKinds", .json = l->supported},
                      {"attachedRoutes", .json = sw_json_new_u64(b->a, l->attached)},
                      {"conditions", .json = merge_conditions(b->a, sw_json_find(old, "conditions"),
                                                              listener_owned, want, n,
                                                              generation_of(l->parent->obj))});
}

static struct sw_json *listener_list(struct builder *b, const struct parent *p)
{
    const struct sw_json *old = sw_json_walk(p->obj->json, "status", "listeners", NULL);
    struct sw_json *list = sw_json_new_array(b->a);

    for (size_t i = 0; i < p->n_listeners; i++) {
        const struct listener *l = &p->listeners[i];

        sw_json_push(b->a, list, listener_status(b, l, sw_json_find_item(old, "name", l->name)));
    }
    return list;
}

/* Unlike in a Gateway, an entry of a ListenerSet whose certificate is missing is not valid. */
static size_t count_valid(const struct parent *p)
{
    bool set = p->kind == SW_MODEL_LISTENERSET;
    size_t n = 0;

    for (size_t i = 0; i < p->n_listeners; i++) {
        const struct listener *l = &p->listeners[i];

        n += !l->conflict.reason && !l->accepted.reason && !(set && l->broken);
    }
    return n;
}

static size_t count_programmed(struct builder *b, const struct parent *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n_listeners; i++)
        n += !listener_programmed(b, &p->listeners[i]).reason;
    return n;
}

/* The first listener that is fine but for the data planes; no reason: none. */
static struct verdict first_fault(struct builder *b, const struct parent *p)
{
    for (size_t i = 0; b->planes && i < p->n_listeners; i++) {
        const struct listener *l = &p->listeners[i];
        struct verdict v = planes_verdict(b, l);

        if (v.reason && listener_programmed(b, l).reason == v.reason)
            return VERDICT(b, v.reason, "listener '%.*s': %s", SW_SLICE_ARG(l->name), v.msg);
    }
    return (struct verdict){0};
}

static bool lacks_sockets(const struct parent *p)
{
    for (size_t i = 0; i < p->n_listeners; i++) {
        if (p->listeners[i].no_socket)
            return true;
    }
    return false;
}

/* ---- Gateways ---- */

static struct sw_json *address_list(struct builder *b, const struct gateway *g)
{
    struct sw_json *list = sw_json_new_array(b->a);

    for (size_t i = 0; i < g->n_addrs; i++) {
        const struct sw_model_address *at = &b->conf->addrs[g->addrs[i]];

        sw_json_push(b->a, list,
                     SW_JSON_OF(b->a, {"type", .str = at->hostname ? "Hostname" : "IPAddress"},
                                {"value", .text = at->address}));
    }
    return list;
}

static struct cond gateway_accepted(const struct gateway *g, size_t good)
{
    struct cond c = cond_of("Accepted", g->accepted, "Accepted");

    if (c.yes && good < g->parent.n_listeners) {
        c.yes = good > 0;
        c.reason = "ListenersNotValid";
        c.msg = good ? "some listeners are not valid" : "no listener is valid";
    }
    return c;
}

static struct cond gateway_programmed(struct builder *b, const struct gateway *g, bool accepted,
                                      size_t serving)
{
    struct verdict fault;

    if (!accepted)
        return (struct cond){"Programmed", false, "Invalid", "the Gateway is not accepted"};
    if (g->programmed.reason)
        return cond_of("Programmed", g->programmed, "");
    if (!g->n_addrs)
        return (struct cond){"Programmed", false, "AddressNotAssigned", "there are no addresses"};
    if (!serving && lacks_sockets(&g->parent))
        return (struct cond){"Programmed", false, "NoResources", no_socket};
    fault = first_fault(b, &g->parent);
    if (!serving && fault.reason)
        return cond_of("Programmed", fault, "");
    if (!serving)
        return (struct cond){"Programmed", false, "Invalid", "no listener can be served"};
    /* A listener that comes up in a moment is not worth a write of its own. */
    if (!fault.reason || strcmp(fault.reason, pending) == 0)
        fault.msg = "";
    return (struct cond){"Programmed", true, "Programmed", fault.msg};
}

static bool any_insecure(const struct parent *p)
{
    for (size_t i = 0; i < p->n_listeners; i++) {
        if (p->listeners[i].client_mode == SW_MODEL_CLIENT_INSECURE)
            return true;
    }
    return false;
}

static bool insecure_frontend(const struct gateway *g)
{
    bool yes = any_insecure(&g->parent);

    for (size_t i = 0; i < g->n_sets; i++)
        yes |= !g->sets[i]->refused.reason && any_insecure(g->sets[i]);
    return yes;
}

/* The certificate for backends and the listeners' own references, in that order. */
static struct cond gateway_resolved(const struct gateway *g)
{
    for (size_t i = 0; i < g->parent.n_listeners && !g->resolved.reason; i++) {
        if (g->parent.listeners[i].resolved.reason)
            return (struct cond){"ResolvedRefs", false, "ListenersNotResolved",
                                 "references of a listener cannot be resolved"};
    }
    return cond_of("ResolvedRefs", g->resolved, "ResolvedRefs");
}

static void status_gateway(struct builder *b, struct gateway *g, size_t serving_sets)
{
    static const char *const owned[] = {"Accepted", "Programmed", "ResolvedRefs",
                                        "InsecureFrontendValidationMode", NULL};
    const struct sw_kube_obj *o = g->parent.obj;
    struct sw_json *status = sw_json_new_object(b->a);
    struct cond want[4];
    size_t n = 3;

    want[0] = gateway_accepted(g, count_valid(&g->parent));
    want[1] = gateway_programmed(b, g, want[0].yes, count_programmed(b, &g->parent) + serving_sets);
    want[2] = gateway_resolved(g);
    if (insecure_frontend(g))
        want[n++] = (struct cond){"InsecureFrontendValidationMode", true, "ConfigurationChanged",
                                  "client certificates are asked for but not enforced"};
    if (g->n_addrs || sw_json_len(sw_json_walk(o->json, "status", "addresses", NULL)))
        sw_json_put(b->a, status, "addresses", address_list(b, g));
    sw_json_put(b->a, status, "conditions",
                merge_conditions(b->a, cn_conditions(o), owned, want, n, generation_of(o)));
    sw_json_put(b->a, status, "listeners", listener_list(b, &g->parent));
    sw_json_put(b->a, status, "attachedListenerSets", sw_json_new_u64(b->a, g->attached_sets));
    put_status(b, SW_MODEL_GATEWAY, o, status);
}

/* ---- ListenerSets ---- */

static void set_conditions(struct builder *b, const struct parent *p, struct cond want[2])
{
    static const struct verdict none = {"ListenersNotValid", "no listener is valid"};
    size_t good = count_valid(p);
    size_t serving = p->refused.reason ? 0 : count_programmed(b, p);
    struct verdict fault = p->refused.reason ? (struct verdict){0} : first_fault(b, p);

    want[0] = cond_of("Accepted", p->refused, "Accepted");
    want[1] = (struct cond){"Programmed", true, "Programmed", ""};
    if (p->refused.reason) {
        want[1] = (struct cond){"Programmed", false, p->refused_programmed, p->refused.msg};
    } else if (!good) {
        want[0] = cond_of("Accepted", none, "");
        want[1] = cond_of("Programmed", none, "");
    } else if (!serving && lacks_sockets(p)) {
        want[1] = (struct cond){"Programmed", false, "PortUnavailable", no_socket};
    } else if (!serving && fault.reason) {
        want[1] = cond_of("Programmed", fault, "");
    } else if (!serving) {
        want[1] = (struct cond){"Programmed", false, "Invalid", "no listener can be served"};
    } else if (good < p->n_listeners) {
        want[0].reason = "Accepted";
        want[0].msg = "some listeners are not valid";
    }
}

/* Returns true when it brings its Gateway a listener that serves. */
static bool status_set(struct builder *b, struct parent *p)
{
    static const char *const owned[] = {"Accepted", "Programmed", NULL};
    const struct sw_kube_obj *o = p->obj;
    struct sw_json *status = sw_json_new_object(b->a);
    struct cond want[2];

    set_conditions(b, p, want);
    p->gw->attached_sets += want[0].yes;
    sw_json_put(b->a, status, "conditions",
                merge_conditions(b->a, cn_conditions(o), owned, want, 2, generation_of(o)));
    /* Nothing is known of listeners that may not attach. */
    if (!p->refused.reason || sw_json_len(sw_json_walk(o->json, "status", "listeners", NULL)))
        sw_json_put(b->a, status, "listeners",
                    p->refused.reason ? sw_json_new_array(b->a) : listener_list(b, p));
    put_status(b, SW_MODEL_LISTENERSET, o, status);
    return want[1].yes;
}

void status_gateways(struct builder *b)
{
    SW_VEC_EACH (struct gateway, g, &b->gateways) {
        size_t serving = 0;

        for (size_t k = 0; k < g->n_sets; k++)
            serving += status_set(b, g->sets[k]);
        status_gateway(b, g, serving);
    }
}

/* ---- routes ---- */

static const char *const route_owned[] = {"Accepted", "ResolvedRefs", "PartiallyInvalid", NULL};

static size_t route_conditions(struct builder *b, const struct route *r,
                               const struct route_parent *p, struct cond want[3])
{
    want[0] = cond_of("Accepted", p->accepted, "Accepted");
    want[1] = cond_of("ResolvedRefs", r->resolved, "ResolvedRefs");
    if (!want[0].yes || !r->n_bad_rules)
        return 2;
    want[2] = (struct cond){"PartiallyInvalid", true, "UnsupportedValue",
                            sw_arena_printf(b->a, "Dropped Rule: %s", r->bad_rule.msg)};
    return 3;
}

static bool is_ours(const struct builder *b, const struct sw_json *entry)
{
    return sw_slice_eq(js(entry, "controllerName"), b->conf->controller);
}

/* Our entry of a list whose member 'key' is this reference; NULL: there is none. */
static const struct sw_json *find_entry(const struct builder *b, const struct sw_json *list,
                                        const char *key, const struct sw_json *ref)
{
    SW_JSON_ITEMS (e, list) {
        if (is_ours(b, e) && sw_json_equal(sw_json_find(e, key), ref, SW_JSON_EQ_VALUE))
            return e;
    }
    return NULL;
}

/* True when the status already says all of it and nothing else of ours. */
static bool route_unchanged(struct builder *b, const struct route *r,
                            const struct route_parent *parents, size_t n)
{
    const struct sw_json *have = sw_json_walk(r->obj->json, "status", "parents", NULL);
    int64_t generation = generation_of(r->obj);
    size_t ours = 0;

    for (size_t i = 0; i < sw_json_len(have); i++)
        ours += is_ours(b, sw_json_at(have, i));
    if (ours != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct sw_json *e = find_entry(b, have, "parentRef", parents[i].ref);
        struct cond want[3];
        size_t k = route_conditions(b, r, &parents[i], want);

        if (!e || !same_conditions(sw_json_find(e, "conditions"), route_owned, want, k, generation))
            return false;
    }
    return true;
}

static struct sw_json *parent_entry(struct builder *b, const struct route *r,
                                    const struct route_parent *p, const struct sw_json *old)
{
    struct cond want[3];
    size_t n = route_conditions(b, r, p, want);

    return SW_JSON_OF(
        b->a, {"parentRef", .json = sw_json_copy(b->a, p->ref)},
        {"controllerName", .text = b->conf->controller},
        {"conditions", .json = merge_conditions(b->a, sw_json_find(old, "conditions"), route_owned,
                                                want, n, generation_of(r->obj))});
}

static const struct route_parent *find_wanted(const struct route_parent *parents, size_t n,
                                              const struct sw_json *ref)
{
    for (size_t i = 0; i < n; i++) {
        if (sw_json_equal(parents[i].ref, ref, SW_JSON_EQ_VALUE))
            return &parents[i];
    }
    return NULL;
}

/* Entries keep their places, those of others untouched: two controllers must not push each other
 * around. */
static struct sw_json *parent_list(struct builder *b, const struct route *r,
                                   const struct route_parent *parents, size_t n)
{
    const struct sw_json *have = sw_json_walk(r->obj->json, "status", "parents", NULL);
    struct sw_json *list = sw_json_new_array(b->a);

    SW_JSON_ITEMS (e, have) {
        const struct sw_json *ref = sw_json_find(e, "parentRef");
        const struct route_parent *p = find_wanted(parents, n, ref);

        if (e && !is_ours(b, e))
            sw_json_push(b->a, list, sw_json_copy(b->a, e));
        else if (p && find_entry(b, have, "parentRef", ref) == e)
            sw_json_push(b->a, list, parent_entry(b, r, p, e));
    }
    for (size_t i = 0; i < n && sw_json_len(list) < 32; i++) {
        if (!find_entry(b, have, "parentRef", parents[i].ref))
            sw_json_push(b->a, list, parent_entry(b, r, &parents[i], NULL));
    }
    return list;
}

struct sw_json *route_status(struct builder *b, const struct route *r,
                             const struct route_parent *parents, size_t n)
{
    if (route_unchanged(b, r, parents, n))
        return NULL;
    return SW_JSON_OF(b->a, {"parents", .json = parent_list(b, r, parents, n)});
}

/* ---- policies ---- */

static const char *const policy_owned[] = {"Accepted", "ResolvedRefs", NULL};

static struct sw_json *ancestor_ref(struct builder *b, const struct gateway *g)
{
    const struct sw_kube_obj *o = g->parent.obj;

    return SW_JSON_OF(b->a, {"group", .str = GW_GROUP}, {"kind", .str = "Gateway"},
                      {"name", .text = o->name}, {"namespace", .text = o->ns});
}

static struct sw_json *ancestor_entry(struct builder *b, const struct policy *p,
                                      struct sw_json *ref, const struct sw_json *old)
{
    const struct cond want[] = {cond_of("Accepted", p->accepted, "Accepted"),
                                cond_of("ResolvedRefs", p->resolved, "ResolvedRefs")};

    return SW_JSON_OF(
        b->a, {"ancestorRef", .json = ref}, {"controllerName", .text = b->conf->controller},
        {"conditions", .json = merge_conditions(b->a, sw_json_find(old, "conditions"), policy_owned,
                                                want, 2, generation_of(p->obj))});
}

static struct gateway *wanted_ancestor(const struct policy *p, const struct sw_json *ref)
{
    for (size_t i = 0; i < p->n_ancestors; i++) {
        const struct sw_kube_obj *o = p->ancestors[i]->parent.obj;

        if (sw_slice_eq(js(ref, "name"), o->name) && sw_slice_eq(js(ref, "namespace"), o->ns))
            return p->ancestors[i];
    }
    return NULL;
}

static void status_policy(struct builder *b, const struct policy *p)
{
    const struct sw_json *have = sw_json_walk(p->obj->json, "status", "ancestors", NULL);
    struct sw_json *list = sw_json_new_array(b->a);

    SW_JSON_ITEMS (e, have) {
        struct gateway *g = wanted_ancestor(p, sw_json_find(e, "ancestorRef"));

        if (e && !is_ours(b, e))
            sw_json_push(b->a, list, sw_json_copy(b->a, e));
        else if (g && find_entry(b, have, "ancestorRef", ancestor_ref(b, g)) == e)
            sw_json_push(b->a, list, ancestor_entry(b, p, ancestor_ref(b, g), e));
    }
    for (size_t i = 0; i < p->n_ancestors && sw_json_len(list) < 16; i++) {
        struct sw_json *ref = ancestor_ref(b, p->ancestors[i]);

        if (!find_entry(b, have, "ancestorRef", ref))
            sw_json_push(b->a, list, ancestor_entry(b, p, ref, NULL));
    }
    if (sw_json_len(list) || sw_json_len(have))
        put_status(b, SW_MODEL_BACKENDTLS, p->obj, SW_JSON_OF(b->a, {"ancestors", .json = list}));
}

void status_policies(struct builder *b)
{
    for (size_t i = 0; i < b->policy_list.n; i++)
        status_policy(b, b->policy_list.p[i]);
}
