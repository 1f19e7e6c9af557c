/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of policies. A record per object, by namespace; what a workload lists is looked up, not
 * stored.
 */
#include "control/mesh/policy/policy.h"

#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/search.h"
#include "base/vec.h"
#include "control/mesh/policy/convert.h"
#include "control/mesh/policy/out.h"
#include "control/mesh/policy/peer.h"
#include "control/mesh/policy/select.h"
#include "policy/pack.h"

#define WAYPOINT_POLICY "istio_allow_waypoint_"

struct authz_rec {
    struct sw_arena arena;
    struct mesh_authz p;
};

struct peer_rec {
    struct sw_arena arena;
    struct mesh_peer p;
};

/* The policies of one namespace. */
struct space {
    char *name;                /* owned */
    struct mesh_select authz;  /* struct mesh_authz that nodes get, by their selectors */
    struct mesh_select scoped; /* struct mesh_peer of single workloads */
    SW_VEC(struct peer_rec *) peers;
    bool dirty; /* PeerAuthentications changed */
};

struct sw_mesh_policies {
    struct sw_mesh_policy_conf conf;
    struct sw_map authz; /* key -> authz_rec */
    struct sw_map peers; /* key -> peer_rec */
    struct sw_map spaces;
    struct mesh_policy_out out;
    SW_VEC(struct authz_rec *) statuses; /* to be handed out */
    bool all_peers;                      /* the mesh's own PeerAuthentication changed */
};

/* ---- namespaces ---- */

static struct space *space_of(struct sw_mesh_policies *ix, struct sw_slice ns)
{
    struct space *s = sw_map_get(&ix->spaces, ns);

    if (s)
        return s;
    s = SW_NEW(struct space);
    s->name = sw_slice_dup(ns);
    (void)sw_map_put(&ix->spaces, sw_slice(s->name, ns.n), s);
    return s;
}

static void space_free(struct space *s)
{
    mesh_select_done(&s->authz);
    mesh_select_done(&s->scoped);
    sw_vec_done(&s->peers);
    sw_free(s->name);
    sw_free(s);
}

#define UNLIST(vec, rec)                                                                           \
    do {                                                                                           \
        for (size_t at_ = 0; at_ < (vec)->n; at_++) {                                              \
            if ((vec)->p[at_] == (rec)) {                                                          \
                sw_vec_swap_remove((vec), at_);                                                    \
                break;                                                                             \
            }                                                                                      \
        }                                                                                          \
    } while (0)

static bool in_root(const struct sw_mesh_policies *ix, struct sw_slice ns)
{
    return sw_slice_eq(ns, ix->conf.root_ns);
}

/* ---- AuthorizationPolicies ---- */

/* Workloads list it: it has a selector, and nodes get it. */
static bool is_listed(const struct mesh_authz *p)
{
    return p->selector.n && p->value.p;
}

static void authz_affects(struct sw_mesh_policies *ix, const struct mesh_authz *p)
{
    if (is_listed(p))
        mesh_policy_out_affect(&ix->out, in_root(ix, p->ns) ? sw_slice("", 0) : p->ns, p->selector,
                               sw_slice("", 0));
}

static void authz_drop(struct sw_mesh_policies *ix, struct sw_slice key)
{
    struct authz_rec *r = sw_map_get(&ix->authz, key);
    struct space *s;

    if (!r)
        return;
    s = space_of(ix, r->p.ns);
    mesh_select_del(&s->authz, &r->p.selector, &r->p);
    UNLIST(&ix->statuses, r);
    authz_affects(ix, &r->p);
    mesh_policy_out_set(&ix->out, key, sw_slice(NULL, 0));
    (void)sw_map_del(&ix->authz, key);
    sw_arena_clear(&r->arena);
    sw_free(r);
}

static void authz_add(struct sw_mesh_policies *ix, struct sw_slice key, struct sw_slice ns,
                      struct sw_slice name, const struct sw_json *obj)
{
    struct authz_rec *r = SW_NEW(struct authz_rec);

    r->p.key = sw_arena_slice(&r->arena, key);
    r->p.ns = sw_arena_slice(&r->arena, ns);
    r->p.name = sw_arena_slice(&r->arena, name);
    mesh_authz_read(&r->arena, &ix->conf, obj, &r->p);
    (void)sw_map_put(&ix->authz, r->p.key, r);
    if (is_listed(&r->p)) {
        struct space *s = space_of(ix, ns);

        mesh_select_add(&s->authz, &r->p.selector, &r->p);
    }
    authz_affects(ix, &r->p);
    mesh_policy_out_set(&ix->out, key, r->p.value);
    sw_vec_push(&ix->statuses, r);
}

static void flush_statuses(struct sw_mesh_policies *ix, const struct sw_mesh_policy_sink *sink)
{
    for (size_t i = 0; i < ix->statuses.n; i++) {
        const struct mesh_authz *p = &ix->statuses.p[i]->p;

        if (sink->status)
            sink->status(sink->arg, p->ns, p->name, p->judged ? &p->condition : NULL);
    }
    ix->statuses.n = 0;
}

/* ---- PeerAuthentications ---- */

/* The one in force at a level of a namespace; NULL: none. */
static const struct mesh_peer *peer_at(const struct space *s, enum mesh_peer_level level)
{
    const struct mesh_peer *best = NULL;

    for (size_t i = 0; s && i < s->peers.n; i++) {
        const struct mesh_peer *p = &s->peers.p[i]->p;

        if (p->level == level && mesh_peer_wins(p, best))
            best = p;
    }
    return best;
}

static const struct mesh_peer *peer_of_mesh(const struct sw_mesh_policies *ix)
{
    return peer_at(sw_map_get(&ix->spaces, ix->conf.root_ns), MESH_PEER_MESH);
}

static void peer_changed(struct sw_mesh_policies *ix, const struct mesh_peer *p)
{
    switch (p->level) {
    case MESH_PEER_MESH:
        ix->all_peers = true;
        mesh_policy_out_affect(&ix->out, sw_slice("", 0), (struct mesh_selector){0},
                               sw_slice("", 0));
        break;
    case MESH_PEER_NAMESPACE:
    case MESH_PEER_WORKLOAD:
        space_of(ix, p->ns)->dirty = true;
        mesh_policy_out_affect(&ix->out, p->ns, p->selector, sw_slice("", 0));
        break;
    case MESH_PEER_IGNORED:
        break;
    }
}

static struct sw_slice converted_key(struct sw_arena *a, const struct mesh_peer *p)
{
    return sw_slice_str(sw_arena_printf(a, "%.*s/" MESH_PEER_CONVERTED "%.*s", SW_SLICE_ARG(p->ns),
                                        SW_SLICE_ARG(p->name)));
}

static struct sw_slice static_key(const struct sw_mesh_policies *ix, struct sw_arena *a)
{
    return sw_slice_str(
        sw_arena_printf(a, "%.*s/" MESH_PEER_STATIC, SW_SLICE_ARG(ix->conf.root_ns)));
}

static void peer_drop(struct sw_mesh_policies *ix, struct sw_slice key)
{
    SW_ARENA_AUTO a = {0};
    struct peer_rec *r = sw_map_get(&ix->peers, key);
    struct space *s;

    if (!r)
        return;
    s = space_of(ix, r->p.ns);
    UNLIST(&s->peers, r);
    mesh_select_del(&s->scoped, &r->p.selector, &r->p);
    peer_changed(ix, &r->p);
    mesh_policy_out_set(&ix->out, converted_key(&a, &r->p), sw_slice(NULL, 0));
    (void)sw_map_del(&ix->peers, key);
    sw_arena_clear(&r->arena);
    sw_free(r);
}

static void peer_add(struct sw_mesh_policies *ix, struct sw_slice key, struct sw_slice ns,
                     struct sw_slice name, const struct sw_json *obj)
{
    struct peer_rec *r = SW_NEW(struct peer_rec);
    struct space *s = space_of(ix, ns);
    struct sw_slice created = sw_json_str(sw_json_walk(obj, "metadata", "creationTimestamp", NULL));

    r->p.key = sw_arena_slice(&r->arena, key);
    r->p.ns = sw_arena_slice(&r->arena, ns);
    r->p.name = sw_arena_slice(&r->arena, name);
    r->p.created = sw_arena_slice(&r->arena, created);
    mesh_peer_read(&r->arena, sw_json_find(obj, "spec"), in_root(ix, ns), &r->p);
    (void)sw_map_put(&ix->peers, r->p.key, r);
    sw_vec_push(&s->peers, r);
    if (r->p.level == MESH_PEER_WORKLOAD)
        mesh_select_add(&s->scoped, &r->p.selector, &r->p);
    peer_changed(ix, &r->p);
}

/* The resources of a namespace's PeerAuthentications. */
static void convert_peers(struct sw_mesh_policies *ix, struct space *s)
{
    const struct mesh_peer *mesh = peer_of_mesh(ix);
    const struct mesh_peer *own = peer_at(s, MESH_PEER_NAMESPACE);

    for (size_t i = 0; i < s->peers.n; i++) {
        SW_ARENA_AUTO a = {0};
        const struct mesh_peer *w = &s->peers.p[i]->p;
        struct sw_slice value = {0};

        if (w->level != MESH_PEER_WORKLOAD)
            continue;
        if (mesh_peer_decide(mesh, own, w) == MESH_PEER_LISTS_CONVERTED) {
            struct sw_policy p = mesh_peer_policy(&a, mesh, own, w);

            value = sw_policy_pack(&a, &p);
        }
        mesh_policy_out_set(&ix->out, converted_key(&a, w), value);
    }
}

static void settle_peers(struct sw_mesh_policies *ix)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice value = {0};

    SW_MAP_FOREACH (it, &ix->spaces) {
        struct space *s = it->value;

        if (s->dirty || ix->all_peers)
            convert_peers(ix, s);
        s->dirty = false;
        if (s->authz.buckets.n + s->peers.n == 0) {
            (void)sw_map_del(&ix->spaces, it->key);
            space_free(s);
        }
    }
    ix->all_peers = false;
    if (ix->peers.n) {
        struct sw_policy p = mesh_peer_static(&a, ix->conf.root_ns);

        value = sw_policy_pack(&a, &p);
    }
    mesh_policy_out_set(&ix->out, static_key(ix, &a), value);
}

/* ---- changes ---- */

struct sw_mesh_policies *sw_mesh_policies_new(const struct sw_mesh_policy_conf *conf)
{
    struct sw_mesh_policies *ix = SW_NEW(struct sw_mesh_policies);

    ix->conf = *conf;
    if (!ix->conf.root_ns.n)
        ix->conf.root_ns = SW_SLICE_LIT("istio-system");
    if (!ix->conf.trust_domain.n)
        ix->conf.trust_domain = SW_SLICE_LIT("cluster.local");
    return ix;
}

void sw_mesh_policies_free(struct sw_mesh_policies *ix)
{
    const struct sw_mesh_policy_sink nowhere = {0};

    if (!ix)
        return;
    SW_MAP_FOREACH (it, &ix->authz)
        authz_drop(ix, it->key);
    SW_MAP_FOREACH (it, &ix->peers)
        peer_drop(ix, it->key);
    sw_mesh_policies_flush(ix, &nowhere);
    mesh_policy_out_done(&ix->out);
    sw_map_done(&ix->authz);
    sw_map_done(&ix->peers);
    sw_map_done(&ix->spaces);
    sw_vec_done(&ix->statuses);
    sw_free(ix);
}

static void drop(struct sw_mesh_policies *ix, enum sw_mesh_policy_kind kind, struct sw_slice key)
{
    switch (kind) {
    case SW_MESH_AUTHORIZATION_POLICY:
        authz_drop(ix, key);
        break;
    case SW_MESH_PEER_AUTHENTICATION:
        peer_drop(ix, key);
        break;
    }
}

static struct sw_slice key_of(struct sw_arena *a, struct sw_slice ns, struct sw_slice name)
{
    return sw_slice_str(sw_arena_printf(a, "%.*s/%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(name)));
}

/* The names of the mesh's own policies have underscores, which those of objects cannot have. */
static bool is_name(struct sw_slice s)
{
    return s.n > 0 && s.n <= 253 && sw_slice_find(s, '/') < 0 && sw_slice_find(s, '_') < 0 &&
           sw_slice_find(s, '\n') < 0 && !memchr(s.p, '\0', s.n);
}

static bool of_revision(const struct sw_mesh_policies *ix, const struct sw_json *obj)
{
    const struct sw_json *v = sw_json_walk(obj, "metadata", "labels", "istio.io/rev", NULL);

    return !ix->conf.revision.n || !v || sw_slice_eq(sw_json_str(v), ix->conf.revision);
}

void sw_mesh_policies_set(struct sw_mesh_policies *ix, enum sw_mesh_policy_kind kind,
                          const struct sw_json *obj)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice ns = sw_json_str(sw_json_walk(obj, "metadata", "namespace", NULL));
    struct sw_slice name = sw_json_str(sw_json_walk(obj, "metadata", "name", NULL));
    struct sw_slice key;

    if (!is_name(ns) || !is_name(name))
        return;
    key = key_of(&a, ns, name);
    drop(ix, kind, key);
    if (!of_revision(ix, obj))
        return;
    switch (kind) {
    case SW_MESH_AUTHORIZATION_POLICY:
        authz_add(ix, key, ns, name, obj);
        break;
    case SW_MESH_PEER_AUTHENTICATION:
        peer_add(ix, key, ns, name, obj);
        break;
    }
}

void sw_mesh_policies_del(struct sw_mesh_policies *ix, enum sw_mesh_policy_kind kind,
                          struct sw_slice ns, struct sw_slice name)
{
    SW_ARENA_AUTO a = {0};

    drop(ix, kind, key_of(&a, ns, name));
}

void sw_mesh_policies_flush(struct sw_mesh_policies *ix, const struct sw_mesh_policy_sink *sink)
{
    settle_peers(ix);
    mesh_policy_out_resources(&ix->out, sink);
    flush_statuses(ix, sink);
    mesh_policy_out_scopes(&ix->out, sink);
}

/* ---- waypoints ---- */

static struct sw_slice waypoint_name(struct sw_arena *a, struct sw_slice ns, struct sw_slice name)
{
    return sw_slice_str(
        sw_arena_printf(a, WAYPOINT_POLICY "%.*s_%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(name)));
}

void sw_mesh_policies_set_waypoint(struct sw_mesh_policies *ix, struct sw_slice ns,
                                   struct sw_slice name, const struct sw_slice *accounts, size_t n)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice own = waypoint_name(&a, ns, name);
    struct sw_slice key = key_of(&a, ns, own);
    struct sw_slice *sorted = sw_arena_array(&a, n, sizeof(*sorted));
    bool was = sw_mesh_waypoint_policy(ix, ns, name, &a).n > 0;
    struct sw_slice value = {0};

    if (!ix->conf.allow_waypoints || !is_name(ns) || !is_name(name))
        return;
    for (size_t i = 0; i < n; i++)
        sorted[i] = accounts[i];
    if (n > 1)
        sw_slice_sort(sorted, n);
    if (n)
        value = mesh_authz_waypoint(&a, &ix->conf, ns, own, sorted, n);
    mesh_policy_out_set(&ix->out, key, value);
    if (was != (n > 0))
        mesh_policy_out_affect(&ix->out, sw_slice("", 0), (struct mesh_selector){0},
                               key_of(&a, ns, name));
}

struct sw_slice sw_mesh_waypoint_policy(const struct sw_mesh_policies *ix, struct sw_slice ns,
                                        struct sw_slice name, struct sw_arena *a)
{
    struct sw_slice key = key_of(a, ns, waypoint_name(a, ns, name));

    return mesh_policy_out_has(&ix->out, key) ? key : sw_slice("", 0);
}

/* ---- what workloads list ---- */

typedef SW_VEC(struct sw_slice) keys;

static void add_key(void *arg, const void *value)
{
    const struct mesh_authz *p = value;
    keys *k = arg;

    sw_vec_push(k, p->key);
}

static void take_older(void *arg, const void *value)
{
    const struct mesh_peer **best = arg;

    if (mesh_peer_wins(value, *best))
        *best = value;
}

/* The PeerAuthentication of its own that is in force for the workload; NULL: none. */
static const struct mesh_peer *peer_of_workload(const struct space *s,
                                                const struct sw_mesh_label *labels, size_t n)
{
    const struct mesh_peer *best = NULL;

    if (s)
        mesh_select_each(&s->scoped, labels, n, take_older, &best);
    return best;
}

static struct sw_slice peer_key(const struct sw_mesh_policies *ix, const struct space *s,
                                const struct mesh_peer *own, struct sw_arena *a)
{
    switch (mesh_peer_decide(peer_of_mesh(ix), peer_at(s, MESH_PEER_NAMESPACE), own)) {
    case MESH_PEER_LISTS_NONE:
        break;
    case MESH_PEER_LISTS_STATIC:
        return static_key(ix, a);
    case MESH_PEER_LISTS_CONVERTED:
        return converted_key(a, own);
    }
    return sw_slice("", 0);
}

/* Joined by newlines, in the arena. */
static struct sw_slice lines(struct sw_arena *a, const keys *k)
{
    size_t n = 0;
    size_t at = 0;
    char *text;

    for (size_t i = 0; i < k->n; i++)
        n += k->p[i].n + 1;
    text = sw_arena_alloc(a, n);
    for (size_t i = 0; i < k->n; i++) {
        memcpy(text + at, k->p[i].p, k->p[i].n);
        at += k->p[i].n;
        text[at++] = '\n';
    }
    return sw_slice(text, at ? at - 1 : 0);
}

struct sw_slice sw_mesh_workload_policies(const struct sw_mesh_policies *ix, struct sw_slice ns,
                                          const struct sw_mesh_label *labels, size_t n,
                                          struct sw_arena *a)
{
    const struct space *s = sw_map_get(&ix->spaces, ns);
    const struct space *root = sw_map_get(&ix->spaces, ix->conf.root_ns);
    struct sw_slice text;
    struct sw_slice peer;
    keys k = {0};

    if (s)
        mesh_select_each(&s->authz, labels, n, add_key, &k);
    if (root && root != s)
        mesh_select_each(&root->authz, labels, n, add_key, &k);
    if (k.n > 1)
        sw_slice_sort(k.p, k.n);
    peer = peer_key(ix, s, peer_of_workload(s, labels, n), a);
    if (peer.n)
        sw_vec_push(&k, peer);
    text = lines(a, &k);
    sw_vec_done(&k);
    return text;
}
