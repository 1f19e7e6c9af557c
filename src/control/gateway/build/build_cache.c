/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one build leaves for the next: routes compiled and attached, with the memory they live in,
 * and the clusters they name. A route follows from its object; from the Services it looked at,
 * which it remembers; from grants, if it refers to other namespaces, and Imports, if it refers to
 * any; from its namespace's labels;
 * from what policies and Gateways came to, which is compared by a hash; and from the objects of
 * Gateways, ListenerSets, classes and connectors. Whose Service, grant or namespace changed is
 * compiled anew; any of the rest, and everything is. What is not a route is made anew each time, so
 * that there is little to go stale.
 */
#include "base/hash.h"
#include "base/mem.h"
#include "control/gateway/build/build_int.h"
#include "control/runtime_int.h"

/* Unreferenced clusters stay until the cache is emptied; that is when. */
enum { COMPILED_MAX = 20000, CERTS_MIN = 64, CERTS_MAX = 65536 };

/* Two hashes of a pair of certificate and key that was found good; zero: a free place. */
struct good_cert {
    uint64_t hash[2];
};

struct kept_list {
    struct kept **p;
    size_t n;
    size_t at; /* of the old list: the next that may be reused */
};

struct sw_gateway_cache {
    struct sw_view *view; /* of the last build: keeps alive what is pointed to */
    struct sw_arena arena;
    struct sw_map clusters;
    struct kept_list lists[RK_COUNT];
    struct kept_list fresh[RK_COUNT]; /* of the build under way */
    size_t compiled;                  /* since it was emptied */
    uint64_t outcome;                 /* of policies and Gateways, in the last build */
    /* What is different from the last build, while one is under way. */
    struct sw_map services;   /* "ns/name" */
    struct sw_map namespaces; /* name */
    bool grants;
    bool imports;
    struct sw_gateway_cache_stats stats;
    struct good_cert *certs; /* open addressing, at most half full */
    size_t n_certs;
    size_t certs_room; /* a power of two, or 0 */
};

struct sw_gateway_cache *sw_gateway_cache_new(void)
{
    return SW_NEW(struct sw_gateway_cache);
}

static void kept_free(struct kept *k)
{
    route_done(&k->route);
    sw_arena_clear(&k->arena);
    sw_free(k);
}

static void drop_routes(struct kept_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        if (l->p[i])
            kept_free(l->p[i]);
    }
    sw_free(l->p);
    *l = (struct kept_list){0};
}

static void empty(struct sw_gateway_cache *c)
{
    for (size_t k = 0; k < RK_COUNT; k++)
        drop_routes(&c->lists[k]);
    sw_map_done(&c->clusters);
    c->clusters = (struct sw_map){0};
    sw_arena_clear(&c->arena);
    c->compiled = 0;
}

static void clear_diff(struct sw_gateway_cache *c)
{
    sw_map_done(&c->services);
    sw_map_done(&c->namespaces);
    c->services = c->namespaces = (struct sw_map){0};
    c->grants = c->imports = false;
}

void sw_gateway_cache_free(struct sw_gateway_cache *c)
{
    if (!c)
        return;
    empty(c);
    clear_diff(c);
    view_unref(c->view);
    sw_free(c->certs);
    sw_free(c);
}

struct sw_gateway_cache_stats sw_gateway_cache_stats(const struct sw_gateway_cache *c)
{
    return c->stats;
}

static bool same_at(const struct sw_kube_obj *x, const struct sw_kube_obj *y, const char *a,
                    const char *b)
{
    return sw_json_equal(sw_json_walk(x->json, a, b, NULL), sw_json_walk(y->json, a, b, NULL),
                         SW_JSON_EQ_TEXT);
}

/* Addresses are read from statuses; the rest of them is only written. */
static bool same_but_status(const struct sw_kube_obj *a, const struct sw_kube_obj *b)
{
    return a->uid.n && sw_slice_eq(a->uid, b->uid) && generation_of(a) &&
           generation_of(a) == generation_of(b) && same_at(a, b, "status", "addresses");
}

/* Of Connectors only presence, readiness and capabilities matter. */
static bool same_connector(const struct sw_kube_obj *a, const struct sw_kube_obj *b)
{
    return sw_slice_eq(a->key, b->key) && generation_of(a) == generation_of(b) &&
           same_at(a, b, "status", "capabilities") && sw_connector_keys_same(a, b) &&
           same_at(a, b, "metadata", "annotations");
}

/* True when the kind has the same objects, or those of which 'same' (NULL: never) is true. */
static bool same_kind(const struct sw_view *x, const struct sw_view *y, enum sw_model_kind kind,
                      bool (*same)(const struct sw_kube_obj *a, const struct sw_kube_obj *b))
{
    size_t n = sw_view_count(x, kind);

    if (x->kinds[kind] == y->kinds[kind])
        return true;
    if (n != sw_view_count(y, kind))
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct sw_kube_obj *a = sw_view_at(x, kind, i);
        const struct sw_kube_obj *b = sw_view_at(y, kind, i);

        if (a != b && (!same || !same(a, b)))
            return false;
    }
    return true;
}

/* Nothing that all compiled routes follow from is different, as far as objects show. */
static bool same_world(const struct sw_view *x, const struct sw_view *y)
{
    if (!same_kind(x, y, SW_MODEL_CLASS, NULL) || !same_kind(x, y, SW_MODEL_CONNECTORCLASS, NULL) ||
        !same_kind(x, y, SW_MODEL_CLAIM, NULL))
        return false;
    if (!same_kind(x, y, SW_MODEL_CONNECTOR, same_connector) ||
        !same_kind(x, y, SW_MODEL_BACKENDSLICE, NULL) ||
        !same_kind(x, y, SW_MODEL_ADVERTISEMENT, NULL))
        return false;
    if (x->kinds[SW_MODEL_CONFIGMAP] != y->kinds[SW_MODEL_CONFIGMAP] && slices_have_cas(y))
        return false;
    /* Their statuses change whenever a route comes or goes. */
    return same_kind(x, y, SW_MODEL_GATEWAY, same_but_status) &&
           same_kind(x, y, SW_MODEL_LISTENERSET, same_but_status);
}

/* ---- what is different ---- */

/* Keys of objects that came, went, or differ in a member ('of' may be NULL). */
static void diff(const struct sw_view *x, const struct sw_view *y, enum sw_model_kind kind,
                 const char *member, const char *of, struct sw_map *ret)
{
    size_t nx = sw_view_count(x, kind);
    size_t ny = sw_view_count(y, kind);
    size_t i = 0;
    size_t k = 0;

    if (x->kinds[kind] == y->kinds[kind])
        return;
    while (i < nx && k < ny) {
        const struct sw_kube_obj *a = sw_view_at(x, kind, i);
        const struct sw_kube_obj *b = sw_view_at(y, kind, k);
        int order = sw_slice_cmp(a->key, b->key);

        if (order != 0 || (a != b && !same_at(a, b, member, of)))
            (void)sw_map_put(ret, order < 0 ? a->key : b->key, ret);
        i += order <= 0;
        k += order >= 0;
    }
    for (; i < nx; i++)
        (void)sw_map_put(ret, sw_view_at(x, kind, i)->key, ret);
    for (; k < ny; k++)
        (void)sw_map_put(ret, sw_view_at(y, kind, k)->key, ret);
}

static void find_diff(struct sw_gateway_cache *c, const struct sw_view *v)
{
    struct sw_map grants = {0};

    diff(c->view, v, SW_MODEL_SERVICE, "spec", NULL, &c->services);
    diff(c->view, v, SW_MODEL_NAMESPACE, "metadata", "labels", &c->namespaces);
    diff(c->view, v, SW_MODEL_GRANT, "spec", NULL, &grants);
    c->grants = grants.n > 0;
    /* One Import's lease depends on all others. */
    c->imports = c->view->kinds[SW_MODEL_IMPORT] != v->kinds[SW_MODEL_IMPORT];
    sw_map_done(&grants);
}

static bool is_stale(const struct sw_gateway_cache *c, const struct route *r)
{
    if ((c->grants && r->crossing) || (c->imports && r->importing) ||
        (c->namespaces.n && sw_map_get(&c->namespaces, r->obj->ns)))
        return true;
    for (size_t i = 0; c->services.n && i < r->looked_at.n; i++) {
        if (sw_map_get(&c->services, r->looked_at.p[i]))
            return true;
    }
    return false;
}

/* ---- what Gateways and policies came to ---- */

static uint64_t mix(uint64_t h, struct sw_slice s)
{
    return sw_siphash13(h, s.n, s.p ? s.p : "", s.n);
}

static uint64_t mix_str(uint64_t h, const char *s)
{
    return mix(h, sw_slice_str(s ? s : ""));
}

static uint64_t parents_outcome(const struct builder *b)
{
    uint64_t h = b->parent_list.n;

    SW_VEC_EACH (const struct parent, p, &b->parent_list) {
        h = mix(h, p->obj->key);
        h = mix_str(h, p->refused.reason);
        h = mix(h, p->gw->client_cert);
    }
    return h;
}

static uint64_t policy_outcome(const struct builder *b, struct sw_slice key, const struct policy *p)
{
    uint64_t h = mix(1, key);

    h = mix(h, p->obj->key);
    h = mix_str(h, p->accepted.reason);
    h = mix(h, p->tls.sni);
    h = mix(h, p->tls.ca);
    h = mix(h, ca_bundle(b, p->tls.ca)); /* in the names of clusters */
    for (size_t i = 0; i < p->tls.n_sans; i++)
        h = mix(h + (uint64_t)p->tls.sans[i].kind, p->tls.sans[i].value);
    return h;
}

/* Names are not in order here: what is added up must not mind. */
static uint64_t outcome_of(const struct builder *b)
{
    uint64_t h = parents_outcome(b);

    SW_MAP_FOREACH (it, &b->policies)
        h += policy_outcome(b, it->key, it->value);
    return h + b->policy_list.n;
}

void cache_check(struct builder *b)
{
    struct sw_gateway_cache *c = b->cache;
    uint64_t outcome = outcome_of(b);

    if (c->view && outcome != c->outcome) {
        /* No cluster has been made in this build so far. */
        empty(c);
        b->clusters = (struct sw_map){0};
    }
    c->outcome = outcome;
}

void cache_begin(struct builder *b)
{
    struct sw_gateway_cache *c = b->cache;

    if (!c->view || c->compiled > COMPILED_MAX + 2 * c->lists[RK_HTTP].n ||
        !same_world(c->view, b->v))
        empty(c);
    else
        find_diff(c, b->v);
    b->keep = &c->arena;
    b->clusters = c->clusters;
    SW_MAP_FOREACH (it, &b->clusters) {
        struct own_cluster *own = own_cluster(it->value);

        own->used = false;
        own->c.sticky = false;
    }
    for (size_t k = 0; k < RK_COUNT; k++) {
        size_t n = sw_view_count(b->v, route_view_kinds[k]);

        c->lists[k].at = 0;
        c->fresh[k] = (struct kept_list){.p = SW_NEW_ARRAY(struct kept *, n + 1)};
    }
}

/* Both lists are ordered by key, so what is not passed over is found by going forward. */
static struct kept *take(const struct sw_gateway_cache *c, struct kept_list *l,
                         const struct sw_kube_obj *o)
{
    while (l->at < l->n) {
        struct kept *k = l->p[l->at];

        if (k->route.obj == o && is_stale(c, &k->route))
            return NULL;
        if (k->route.obj == o) {
            l->p[l->at++] = NULL;
            return k;
        }
        if (sw_slice_cmp(k->route.obj->key, o->key) > 0)
            return NULL;
        l->at++;
    }
    return NULL;
}

struct kept *cache_route(struct builder *b, enum route_kind kind, const struct sw_kube_obj *o)
{
    struct sw_gateway_cache *c = b->cache;
    struct kept *k = take(c, &c->lists[kind], o);

    if (!k) {
        k = SW_NEW(struct kept);
        k->route = (struct route){.obj = o, .kind = kind, .arena = &k->arena};
        c->compiled++;
        c->stats.compiled++;
    }
    c->fresh[kind].p[c->fresh[kind].n++] = k;
    for (size_t i = 0; i < k->route.sticky.n; i++)
        k->route.sticky.p[i]->sticky = true;
    return k;
}

void cache_end(struct builder *b)
{
    struct sw_gateway_cache *c = b->cache;

    for (size_t k = 0; k < RK_COUNT; k++) {
        drop_routes(&c->lists[k]);
        c->lists[k] = c->fresh[k];
        c->fresh[k] = (struct kept_list){0};
    }
    c->clusters = b->clusters;
    b->clusters = (struct sw_map){0};
    clear_diff(c);
    view_unref(c->view);
    c->view = view_ref((struct sw_view *)(uintptr_t)b->v);
}

struct sw_model_memo *new_memo(const struct builder *b, const struct route *r)
{
    struct sw_model_memo *m;

    if (!b->cache)
        return NULL;
    m = SW_ARENA_NEW(r->arena, struct sw_model_memo);
    m->arena = r->arena;
    return m;
}

/* Where these hashes are, or the free place where they belong. */
static struct good_cert *cert_place(const struct sw_gateway_cache *c, const uint64_t hash[2])
{
    size_t at = hash[0] & (c->certs_room - 1);

    while ((c->certs[at].hash[0] || c->certs[at].hash[1]) &&
           memcmp(c->certs[at].hash, hash, sizeof(c->certs[at].hash)) != 0)
        at = (at + 1) & (c->certs_room - 1);
    return &c->certs[at];
}

bool cache_cert_known(const struct builder *b, const uint64_t hash[2])
{
    const struct sw_gateway_cache *c = b->cache;

    return c && c->certs_room && (hash[0] || hash[1]) && cert_place(c, hash)->hash[0] == hash[0] &&
           cert_place(c, hash)->hash[1] == hash[1];
}

/* Twice the room; when that would be too much, everything is looked into once more instead. */
static void grow_certs(struct sw_gateway_cache *c)
{
    struct good_cert *old = c->certs;
    size_t n = c->certs_room;
    bool full = n >= CERTS_MAX;

    c->certs_room = full ? CERTS_MIN : sw_max(2 * n, CERTS_MIN);
    c->certs = sw_calloc(c->certs_room, sizeof(*c->certs));
    if (full)
        c->n_certs = 0;
    for (size_t i = 0; i < n && !full; i++) {
        if (old[i].hash[0] || old[i].hash[1])
            *cert_place(c, old[i].hash) = old[i];
    }
    sw_free(old);
}

void cache_cert_add(struct builder *b, const uint64_t hash[2])
{
    struct sw_gateway_cache *c = b->cache;

    if (!c)
        return;
    c->stats.certs++;
    if (2 * (c->n_certs + 1) > c->certs_room)
        grow_certs(c);
    memcpy(cert_place(c, hash)->hash, hash, 2 * sizeof(*hash));
    c->n_certs++;
}
