/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/status.h"

#include "control/gateway/build/build_int.h"
#include "control/mesh/allocate.h"
#include "control/mesh/index.h"
#include "control/mesh/model.h"
#include "control/mesh/names.h"
#include "control/mesh/policy/policy.h"
#include "control/mesh/policy/target.h"
#include "control/mesh/read/read.h"
#include "control/mesh/scope.h"
#include "control/mesh/waypoint.h"
#include "control/objects.h"
#include "control/runtime_int.h"
#include "kube/names.h"

#define BOUND   "istio.io/WaypointBound"
#define MISSING "istio.io/WaypointMissing"
#define VISIBLE "istio.io/VisibilityApplied"
#define ZTUNNEL "ZtunnelAccepted"
#define TARGETS "WaypointAccepted"

enum { CONDITIONS_MAX = 4 };

#define GVR(group, version, plural, name, ns)                                                      \
    &(const struct sw_kube_gvr)                                                                    \
    {                                                                                              \
        (group), (version), (plural), (name), (ns)                                                 \
    }
#define GW    "gateway.networking.k8s.io"
#define ISTIO "networking.istio.io"

const struct sw_control_kind sw_mesh_status_kinds[SW_MESH_ST_KINDS] = {
    [SW_MESH_ST_NAMESPACE] = {.gvr = GVR("", "v1", "namespaces", "Namespace", false)},
    [SW_MESH_ST_CLASS] = {.gvr = GVR(GW, "v1", "gatewayclasses", "GatewayClass", false),
                          .optional = true},
    [SW_MESH_ST_GATEWAY] = {.gvr = GVR(GW, "v1", "gateways", "Gateway", true), .optional = true},
    [SW_MESH_ST_SERVICE] = {.gvr = GVR("", "v1", "services", "Service", true),
                            .own_status = true,
                            .manager = "istio-ambient-service"},
    [SW_MESH_ST_SERVICE_ENTRY] = {.gvr = GVR(ISTIO, "v1", "serviceentries", "ServiceEntry", true),
                                  .optional = true,
                                  .manager = "istio-ambient-service"},
    [SW_MESH_ST_WORKLOAD_ENTRY] = {.gvr =
                                       GVR(ISTIO, "v1", "workloadentries", "WorkloadEntry", true),
                                   .optional = true,
                                   .own_status = true,
                                   .manager = "istio-ambient-workloadentry"},
    [SW_MESH_ST_POLICY] = {.gvr = GVR("security.istio.io", "v1", "authorizationpolicies",
                                      "AuthorizationPolicy", true),
                           .optional = true,
                           .own_status = true,
                           .manager = "istio-ambient-ztunnel-policy"},
};

/* The conditions of one object. */
struct set {
    struct sw_arena *a;
    struct cond list[CONDITIONS_MAX];
    size_t n;
};

static void add(struct set *s, const char *type, bool yes, const char *reason, const char *msg)
{
    if (s->n < CONDITIONS_MAX)
        s->list[s->n++] = (struct cond){type, yes, reason, msg};
}

static const char *reason_of(enum mesh_bind_error e)
{
    switch (e) {
    case MESH_BIND_OK:
        break;
    case MESH_BIND_NOT_READY:
        return "WaypointIsNotReady";
    case MESH_BIND_DENIED:
        return "AttachmentDenied";
    case MESH_BIND_UNSUPPORTED:
        return "UnsupportedTrafficType";
    case MESH_BIND_CROSS_NS:
        return "CrossNamespaceWaypointForbidden";
    case MESH_BIND_CANARY_WEIGHT:
        return "CanaryInvalidWeight";
    case MESH_BIND_CANARY_SAME:
        return "CanarySameAsPrimary";
    }
    return "WaypointAccepted";
}

static const char *text_of(struct sw_arena *a, enum mesh_bind_error e, struct sw_slice key,
                           const char *type)
{
    switch (e) {
    case MESH_BIND_OK:
        break;
    case MESH_BIND_NOT_READY:
        return sw_arena_printf(a, "waypoint \"%.*s\" is not ready", SW_SLICE_ARG(key));
    case MESH_BIND_DENIED:
        return sw_arena_printf(a,
                               "we are not permitted to attach to waypoint \"%.*s\" (missing "
                               "allowedRoutes?)",
                               SW_SLICE_ARG(key));
    case MESH_BIND_UNSUPPORTED:
        return sw_arena_printf(a,
                               "attempting to bind to traffic type \"%s\" which the waypoint "
                               "\"%.*s\" does not support",
                               type, SW_SLICE_ARG(key));
    case MESH_BIND_CROSS_NS:
        return sw_arena_printf(a,
                               "cannot bind to waypoint \"%.*s\" in another namespace: "
                               "cross-namespace waypoint binding is not permitted for a "
                               "ServiceEntry with NAMESPACE visibility",
                               SW_SLICE_ARG(key));
    case MESH_BIND_CANARY_WEIGHT:
        return sw_arena_printf(a,
                               "canary waypoint \"%.*s\" has an invalid weight; must be an integer "
                               "in [0,100]",
                               SW_SLICE_ARG(key));
    case MESH_BIND_CANARY_SAME:
        return sw_arena_printf(a, "canary waypoint \"%.*s\" must differ from the primary waypoint",
                               SW_SLICE_ARG(key));
    }
    return "";
}

static const char *ingress_text(const struct mesh_binding *b)
{
    if (b->ingress)
        return ". Ingress traffic will traverse the waypoint";
    return b->ingress_labelled ? ". Ingress traffic is not using the waypoint, set the "
                                 "istio.io/ingress-use-waypoint label to true if desired."
                               : "";
}

/* 'type' is what kind of traffic the object is: "service" or "workload". */
static void add_bound(struct set *s, const struct mesh_binding *b, const char *type)
{
    const char *canary = "";

    if (!b->key.n)
        return;
    if (!b->waypoint) {
        add(s, BOUND, false, reason_of(b->error), text_of(s->a, b->error, b->key, type));
        return;
    }
    if (b->canary_error != MESH_BIND_OK)
        canary = sw_arena_printf(s->a, ". Canary waypoint not attached: %s",
                                 text_of(s->a, b->canary_error, b->canary_key, type));
    add(s, BOUND, true, reason_of(MESH_BIND_OK),
        sw_arena_printf(s->a, "Successfully attached to waypoint %.*s%s%s", SW_SLICE_ARG(b->key),
                        ingress_text(b), canary));
}

/* What a missing waypoint means for traffic: no condition says it. */
static void notice_missing(struct sw_output *out, size_t kind, const struct sw_kube_obj *o,
                           const struct mesh_binding *b)
{
    if (!b->key.n || b->waypoint)
        return;
    sw_out_notice(out, kind, o, b->held ? "WaypointHoldsTraffic" : "WaypointBypassed",
                  sw_slice_str(sw_arena_printf(
                      sw_out_arena(out),
                      b->held ? "connections are refused until waypoint %.*s is ready"
                              : "connections bypass waypoint %.*s and its policies; label the "
                                "namespace " MESH_HOLD "=true to refuse them instead",
                      SW_SLICE_ARG(b->key))));
}

/* Without an address a host is found by no client of the DNS proxy. */
static void notice_refused(struct sw_output *out, const struct mesh_allocation *given)
{
    if (given->refused)
        sw_out_notice(out, SW_MESH_ST_SERVICE_ENTRY, given->of, "AddressesExhausted",
                      sw_slice_str(sw_arena_printf(
                          sw_out_arena(out),
                          "%zu addresses were not allocated: the block is full, or namespace "
                          "'%.*s' has as many as are left for all others",
                          given->refused, SW_SLICE_ARG(given->of->ns))));
}

static void add_entry(struct set *s, const struct mesh_svc *e, const struct mesh_binding *b)
{
    enum sw_mesh_visibility visibility = e->ns->visibility;

    if (e->wildcard && !b->waypoint)
        add(s, MISSING, true, "NoWaypointForWildcardService",
            "ServiceEntry will not apply until it is bound to a valid waypoint.");
    else if (e->racing && !b->waypoint)
        add(s, MISSING, true, "NoWaypointForRacingConnectStrategy",
            "ServiceEntry has a non-default connect strategy but no waypoint bound. A waypoint is "
            "required for connect strategies to take effect for ambient clients.");
    if (visibility == SW_MESH_VISIBILITY_PUBLIC)
        add(s, VISIBLE, true, "Public", "ServiceEntry is visible to the entire mesh (PUBLIC).");
    if (visibility == SW_MESH_VISIBILITY_NAMESPACE)
        add(s, VISIBLE, true, "Namespace",
            "ServiceEntry is visible only within its own namespace (NAMESPACE), per mesh "
            "serviceEntryVisibility.");
}

/* Writes what differs; addresses may be NULL: not ours to say. */
static void put(struct sw_output *out, size_t kind, const struct sw_kube_obj *o,
                const struct set *s, const struct sw_json *addresses)
{
    static const char *const of_bindings[] = {BOUND, MISSING, VISIBLE, NULL};
    static const char *const of_policies[] = {ZTUNNEL, TARGETS, NULL};
    const char *const *owned = kind == SW_MESH_ST_POLICY ? of_policies : of_bindings;
    const struct sw_json *status = sw_json_find(o->json, "status");
    const struct sw_json *have = sw_json_find(status, "conditions");
    const struct sw_json *given = sw_json_find(status, "addresses");
    struct sw_json *now = sw_json_new_object(s->a);

    if (!same_conditions(have, owned, s->list, s->n, generation_of(o)))
        sw_json_put(s->a, now, "conditions",
                    merge_conditions(s->a, have, owned, s->list, s->n, generation_of(o)));
    if (addresses && (sw_json_len(addresses) || sw_json_len(given)) &&
        !json_within(addresses, given))
        sw_json_put(s->a, now, "addresses", sw_json_copy(s->a, addresses));
    if (sw_json_len(now))
        sw_out_status(out, kind, o, now);
}

static void fill(struct sw_mesh_index *ix, const struct sw_view *v)
{
    static const enum sw_mesh_kind kinds[SW_MESH_ST_POLICY] = {
        [SW_MESH_ST_NAMESPACE] = SW_MESH_NAMESPACE,
        [SW_MESH_ST_CLASS] = SW_MESH_CLASS,
        [SW_MESH_ST_GATEWAY] = SW_MESH_GATEWAY,
        [SW_MESH_ST_SERVICE] = SW_MESH_SERVICE,
        [SW_MESH_ST_SERVICE_ENTRY] = SW_MESH_SERVICE_ENTRY,
        [SW_MESH_ST_WORKLOAD_ENTRY] = SW_MESH_WORKLOAD_ENTRY,
    };

    for (size_t k = 0; k < SW_MESH_ST_POLICY; k++) {
        for (size_t i = 0; i < sw_view_count(v, k); i++)
            sw_mesh_index_set(ix, kinds[k], sw_view_at(v, k, i)->json, NULL);
    }
}

static void services(const struct sw_view *v, const struct sw_mesh_status_conf *conf,
                     const struct sw_mesh_index *ix, struct sw_output *out, bool entry)
{
    struct sw_arena *a = sw_out_arena(out);
    size_t kind = entry ? SW_MESH_ST_SERVICE_ENTRY : SW_MESH_ST_SERVICE;
    const struct mesh_allocation *given =
        entry && conf->allocate ? mesh_allocate(v, conf, a) : NULL;

    for (size_t i = 0; i < sw_view_count(v, kind); i++) {
        const struct sw_kube_obj *o = sw_view_at(v, kind, i);
        const struct mesh_svc *svc =
            sw_map_get(entry ? &ix->service_entries : &ix->services, o->key);
        struct set s = {.a = a};

        if (svc && !mesh_is_hidden(svc)) {
            const struct mesh_binding b = mesh_bind_service(ix, svc, a);

            add_bound(&s, &b, "service");
            notice_missing(out, kind, o, &b);
            if (entry)
                add_entry(&s, svc, &b);
        }
        if (given)
            notice_refused(out, &given[i]);
        put(out, kind, o, &s, given ? given[i].addresses : NULL);
    }
}

static void workload_entries(const struct sw_view *v, const struct sw_mesh_index *ix,
                             struct sw_output *out)
{
    struct sw_arena *a = sw_out_arena(out);

    SW_VIEW_EACH (o, v, SW_MESH_ST_WORKLOAD_ENTRY) {
        const struct mesh_workload *w = sw_map_get(&ix->workload_entries, o->key);
        struct set s = {.a = a};

        if (w) {
            const struct mesh_binding b = mesh_bind_workload(ix, w->group->ns, w->group->labels, a);

            add_bound(&s, &b, "workload");
        }
        put(out, SW_MESH_ST_WORKLOAD_ENTRY, o, &s, NULL);
    }
}

/* ---- policies ---- */

struct verdicts {
    const struct sw_view *view;
    const struct sw_mesh_index *ix;
    struct sw_output *out;
    struct sw_slice root_ns;
};

/* The waypoint of a service of either kind. False: there is no such service. */
static bool bound_to(const struct verdicts *v, const struct sw_map *of, struct sw_slice ns,
                     struct sw_slice name, struct sw_slice *ret)
{
    struct sw_arena *a = sw_out_arena(v->out);
    const struct mesh_svc *s = sw_map_get(of, sw_name_key(a, ns, name));

    if (s && mesh_is_hidden(s))
        return false;
    if (s) {
        const struct mesh_binding b = mesh_bind_service(v->ix, s, a);

        *ret = b.waypoint ? b.waypoint->key : sw_slice("", 0);
    }
    return s != NULL;
}

static bool find_service(void *arg, struct sw_slice ns, struct sw_slice name, struct sw_slice *ret)
{
    const struct verdicts *v = arg;

    return bound_to(v, &v->ix->services, ns, name, ret);
}

static bool find_entry(void *arg, struct sw_slice ns, struct sw_slice name, struct sw_slice *ret)
{
    const struct verdicts *v = arg;

    return bound_to(v, &v->ix->service_entries, ns, name, ret);
}

static bool find_waypoint(void *arg, struct sw_slice ns, struct sw_slice name)
{
    const struct verdicts *v = arg;
    const struct mesh_gateway *g =
        sw_map_get(&v->ix->gateways, sw_name_key(sw_out_arena(v->out), ns, name));

    return g && (g->hostname.n || g->ip.family);
}

static bool find_class(void *arg, struct sw_slice name, struct sw_slice *ret)
{
    const struct verdicts *v = arg;
    const struct sw_kube_obj *o = sw_view_find(v->view, SW_MESH_ST_CLASS, sw_slice("", 0), name);

    if (o)
        *ret = js_or(sw_json_find(o->json, "spec"), "controllerName", "");
    return o != NULL;
}

static void on_verdict(void *arg, struct sw_slice ns, struct sw_slice name,
                       const struct sw_mesh_condition *c)
{
    const struct verdicts *v = arg;
    const struct sw_kube_obj *o = sw_view_find(v->view, SW_MESH_ST_POLICY, ns, name);
    const struct sw_mesh_target_lookup lookup = {.service = find_service,
                                                 .entry = find_entry,
                                                 .waypoint = find_waypoint,
                                                 .class = find_class,
                                                 .arg = arg};
    struct set s = {.a = sw_out_arena(v->out)};
    struct sw_mesh_condition target;

    if (!o)
        return;
    if (c)
        add(&s, c->type, c->status, c->reason, sw_arena_dup(s.a, c->message));
    if (sw_mesh_policy_targets(s.a, o->json, v->root_ns, &lookup, &target))
        add(&s, target.type, target.status, target.reason, sw_arena_dup(s.a, target.message));
    put(v->out, SW_MESH_ST_POLICY, o, &s, NULL);
}

static void policies(const struct sw_view *v, const struct sw_mesh_policy_conf *conf,
                     const struct sw_mesh_index *ix, struct sw_output *out)
{
    struct sw_mesh_policies *all = sw_mesh_policies_new(conf);
    struct verdicts verdicts = {v, ix, out,
                                conf->root_ns.n ? conf->root_ns : SW_SLICE_LIT("istio-system")};
    const struct sw_mesh_policy_sink sink = {.status = on_verdict, .arg = &verdicts};

    for (size_t i = 0; i < sw_view_count(v, SW_MESH_ST_POLICY); i++)
        sw_mesh_policies_set(all, SW_MESH_AUTHORIZATION_POLICY,
                             sw_view_at(v, SW_MESH_ST_POLICY, i)->json);
    sw_mesh_policies_flush(all, &sink);
    sw_mesh_policies_free(all);
}

void sw_mesh_status_build(const struct sw_view *v, const struct sw_mesh_status_conf *conf,
                          struct sw_output *out)
{
    struct sw_mesh_index *ix = sw_mesh_index_new(&conf->mesh);

    fill(ix, v);
    services(v, conf, ix, out, false);
    services(v, conf, ix, out, true);
    workload_entries(v, ix, out);
    policies(v, &conf->policy, ix, out);
    sw_mesh_index_free(ix);
}
