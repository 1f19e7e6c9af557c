/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/waypoint.h"

#include <stdio.h>

#include "base/search.h"
#include "control/mesh/names.h"
#include "control/mesh/scope.h"
#include "kube/names.h"

/* Where a reference was found, and what it says. */
struct ref {
    struct sw_slice ns;
    struct sw_slice name;
};

static struct ref ref_of(const struct mesh_text *labels, const char *name, const char *ns,
                         struct sw_slice own)
{
    struct ref r = {.name = mesh_labels_get(labels, name), .ns = mesh_labels_get(labels, ns)};

    if (!r.ns.n)
        r.ns = own;
    return r;
}

static struct sw_slice key_of(struct sw_arena *a, const struct ref *r)
{
    return sw_name_key(a, r->ns, r->name);
}

static bool is_ref(const struct ref *r, const struct mesh_gateway *g)
{
    return sw_slice_eq(r->ns, g->ns) && sw_slice_eq(r->name, g->name);
}

bool mesh_labels_name(const struct mesh_text *labels, struct sw_slice own,
                      const struct mesh_gateway *g)
{
    const struct ref primary = ref_of(labels, MESH_USE_WAYPOINT, MESH_USE_WAYPOINT_NS, own);
    const struct ref canary = ref_of(labels, MESH_CANARY, MESH_CANARY_NS, own);

    return is_ref(&primary, g) || is_ref(&canary, g);
}

static const struct mesh_class *class_of(const struct sw_mesh_index *ix,
                                         const struct mesh_gateway *g)
{
    return g->class.n ? sw_map_get(&ix->classes, g->class) : NULL;
}

struct mesh_inbound mesh_inbound_of(const struct sw_mesh_index *ix, const struct mesh_gateway *g)
{
    const struct mesh_class *c = class_of(ix, g);
    struct sw_slice text = g->binding;
    struct mesh_inbound in = {0};
    struct sw_slice protocol;
    uint64_t port = 0;

    if (!text.p && c)
        text = mesh_str(c->binding);
    if (!text.n)
        return in;
    protocol = sw_slice_cut(&text, '/');
    in.proxy = sw_slice_eq_str(protocol, "PROXY");
    in.set = in.proxy || sw_slice_eq_str(protocol, "NONE");
    if (in.set && text.p && sw_slice_to_u64(text, UINT16_MAX, &port))
        in.port = (uint16_t)port;
    return in;
}

/* ---- may it attach? ---- */

static const struct mesh_listener *listener_of(const struct sw_mesh_index *ix,
                                               const struct mesh_gateway *g)
{
    const struct mesh_inbound in = mesh_inbound_of(ix, g);

    for (size_t i = 0; i < g->n_listeners; i++) {
        const struct mesh_listener *l = &g->listeners[i];

        if (in.set && in.port ? l->port == in.port
            : in.proxy        ? l->proxy
                              : l->hbone && l->port == MESH_HBONE_PORT)
            return l;
    }
    return NULL;
}

static bool may_attach(const struct sw_mesh_index *ix, const struct mesh_gateway *g,
                       const struct mesh_ns *ns, struct sw_arena *a)
{
    const struct mesh_listener *l = listener_of(ix, g);

    switch (l ? l->from : MESH_FROM_SAME) {
    case MESH_FROM_ALL:
        return true;
    case MESH_FROM_SELECTOR:
        return mesh_labels_match(a, &l->selector, ns->labels);
    case MESH_FROM_SAME:
        break;
    }
    return sw_slice_eq(g->ns, mesh_str(ns->name));
}

static bool handles(const struct sw_mesh_index *ix, const struct mesh_gateway *g, const char *what)
{
    const struct mesh_class *c = class_of(ix, g);
    struct sw_slice type = g->traffic;

    if (!type.p && c)
        type = mesh_str(c->traffic);
    if (!type.n)
        type = SW_SLICE_LIT("service");
    return sw_slice_eq_str(type, what) || sw_slice_eq_str(type, "all");
}

static bool has_address(const struct mesh_gateway *g)
{
    return g->hostname.n || g->ip.family;
}

static enum mesh_bind_error look_up(const struct sw_mesh_index *ix, struct sw_slice key,
                                    const struct mesh_ns *ns, const char *what, struct sw_arena *a,
                                    const struct mesh_gateway **ret)
{
    const struct mesh_gateway *g = sw_map_get(&ix->gateways, key);

    if (!g || !has_address(g))
        return MESH_BIND_NOT_READY;
    if (!may_attach(ix, g, ns, a))
        return MESH_BIND_DENIED;
    if (!handles(ix, g, what))
        return MESH_BIND_UNSUPPORTED;
    *ret = g;
    return MESH_BIND_OK;
}

static bool is_true(struct sw_slice s)
{
    static const char *const words[] = {"1", "t", "T", "true", "TRUE", "True"};

    for (size_t i = 0; i < SW_ARRAY_LEN(words); i++) {
        if (sw_slice_eq_str(s, words[i]))
            return true;
    }
    return false;
}

static bool is_held(const struct mesh_ns *ns, enum mesh_bind_error e)
{
    return (e == MESH_BIND_NOT_READY || e == MESH_BIND_DENIED) &&
           is_true(mesh_labels_get(ns->labels, MESH_HOLD));
}

/* ---- services ---- */

static void bind_canary(const struct sw_mesh_index *ix, const struct mesh_ns *ns,
                        const struct ref *r, struct sw_slice weight, struct sw_arena *a,
                        struct mesh_binding *b)
{
    uint64_t percent = 0;

    if (!r->name.n)
        return;
    b->canary_key = key_of(a, r);
    if (sw_slice_eq(b->canary_key, b->key)) {
        b->canary_error = MESH_BIND_CANARY_SAME;
        return;
    }
    if (weight.p && !sw_slice_to_u64(weight, 100, &percent)) {
        b->canary_error = MESH_BIND_CANARY_WEIGHT;
        return;
    }
    b->canary_error = look_up(ix, b->canary_key, ns, "service", a, &b->canary);
    if (b->canary)
        b->weight = (uint32_t)percent;
}

static void read_ingress(const struct mesh_svc *s, struct mesh_binding *b)
{
    struct sw_slice said = mesh_labels_get(s->labels, MESH_INGRESS_WAYPOINT);

    if (!said.p)
        said = mesh_labels_get(s->ns->labels, MESH_INGRESS_WAYPOINT);
    b->ingress_labelled = said.p != NULL;
    b->ingress = is_true(said);
}

struct mesh_binding mesh_bind_service(const struct sw_mesh_index *ix, const struct mesh_svc *s,
                                      struct sw_arena *a)
{
    struct mesh_binding b = {.waypoint = NULL};
    struct sw_slice own = mesh_str(s->ns->name);
    const struct mesh_text *level = s->labels;
    struct sw_slice weight = s->canary_weight;
    struct ref canary;
    struct ref r;

    if (s->gateway_managed)
        return b;
    r = ref_of(level, MESH_USE_WAYPOINT, MESH_USE_WAYPOINT_NS, own);
    if (!r.name.n) {
        level = s->ns->labels;
        weight = s->ns->canary_weight ? mesh_str(s->ns->canary_weight) : sw_slice(NULL, 0);
        r = ref_of(level, MESH_USE_WAYPOINT, MESH_USE_WAYPOINT_NS, own);
    }
    if (!r.name.n || sw_slice_eq_str(r.name, "none"))
        return b;
    b.key = key_of(a, &r);
    b.error = look_up(ix, b.key, s->ns, "service", a, &b.waypoint);
    if (b.waypoint && s->entry && s->ns->visibility == SW_MESH_VISIBILITY_NAMESPACE &&
        !sw_slice_eq(b.waypoint->ns, own)) {
        b.waypoint = NULL;
        b.error = MESH_BIND_CROSS_NS;
    }
    b.held = is_held(s->ns, b.error);
    if (!b.waypoint)
        return b;
    read_ingress(s, &b);
    canary = ref_of(level, MESH_CANARY, MESH_CANARY_NS, own);
    bind_canary(ix, s->ns, &canary, weight, a, &b);
    return b;
}

/* ---- workloads ---- */

struct mesh_binding mesh_bind_workload(const struct sw_mesh_index *ix, const struct mesh_ns *ns,
                                       const struct mesh_text *labels, struct sw_arena *a)
{
    struct mesh_binding b = {.waypoint = NULL};
    struct sw_slice own = mesh_str(ns->name);
    struct ref r = ref_of(labels, MESH_USE_WAYPOINT, MESH_USE_WAYPOINT_NS, own);
    bool inherited = !r.name.n;

    if (inherited)
        r = ref_of(ns->labels, MESH_USE_WAYPOINT, MESH_USE_WAYPOINT_NS, own);
    if (!r.name.n || sw_slice_eq_str(r.name, "none"))
        return b;
    b.key = key_of(a, &r);
    b.error = look_up(ix, b.key, ns, "workload", a, &b.waypoint);
    /* The namespace's waypoint may be there for its services alone. */
    if (inherited && b.error == MESH_BIND_UNSUPPORTED) {
        b.error = MESH_BIND_OK;
        b.key = sw_slice(NULL, 0);
    }
    b.held = is_held(ns, b.error);
    return b;
}

struct mesh_senders mesh_senders(struct sw_arena *a, size_t bindings)
{
    return (struct mesh_senders){.p = sw_arena_array(a, 2 * bindings, sizeof(struct sw_slice))};
}

void mesh_senders_add(struct mesh_senders *s, const struct mesh_binding *b)
{
    if (b->waypoint)
        s->p[s->n++] = b->waypoint->key;
    if (b->canary)
        s->p[s->n++] = b->canary->key;
}

struct sw_mesh_subject mesh_subject(const struct mesh_ns *ns, const struct mesh_text *labels,
                                    struct mesh_senders *s)
{
    size_t kept = 0;

    if (s->n > 1)
        sw_slice_sort(s->p, s->n);
    for (size_t i = 0; i < s->n; i++) {
        if (!kept || !sw_slice_eq(s->p[i], s->p[kept - 1]))
            s->p[kept++] = s->p[i];
    }
    s->n = kept;
    return (struct sw_mesh_subject){.ns = mesh_str(ns->name),
                                    .labels = mesh_str(labels),
                                    .waypoints = s->p,
                                    .n_waypoints = kept};
}

const struct mesh_gateway *mesh_instance_of(const struct sw_mesh_index *ix,
                                            const struct mesh_ns *ns,
                                            const struct mesh_text *labels)
{
    struct sw_slice name = mesh_labels_get(labels, MESH_GATEWAY_NAME);
    const struct mesh_gateway *g;
    char key[512];
    int n;

    if (!name.n)
        return NULL;
    n = snprintf(key, sizeof(key), "%.*s/%.*s", SW_SLICE_ARG(mesh_str(ns->name)),
                 SW_SLICE_ARG(name));
    if (n < 0 || (size_t)n >= sizeof(key))
        return NULL;
    g = sw_map_get(&ix->gateways, sw_slice(key, (size_t)n));
    return g && has_address(g) ? g : NULL;
}
