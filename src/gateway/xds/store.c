/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store. Every resource keeps its newest accepted bytes and the object compiled last that had
 * all it needed. 'needs' is the index from a name to the resources that mention it: a change of a
 * secret or of endpoints compiles those again and nothing else.
 */
#include "gateway/xds/store.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "gateway/config/build.h"
#include "gateway/config/config.h"
#include "gateway/config/cred.h"
#include "gateway/config/routes.h"
#include "gateway/config/tls.h"
#include "gateway/health/health.h"
#include "gateway/route/build.h"
#include "gateway/upstream/build.h"
#include "gateway/upstream/cluster.h"
#include "gateway/upstream/dns.h"
#include "gateway/xds/listener.h"
#include "gateway/xds/store_int.h"

#define DEFAULT_WARM_NS (15 * SW_NS_PER_S)
/* Connections of a listener that is gone look their routes up for as long as they drain. */
#define UNWANTED_NS (600 * SW_NS_PER_S)

const struct sw_gw_type_names sw_gw_type_names[SW_GW_TYPES] = {
    [SW_GW_TYPE_CLUSTER] = {"envoy.config.cluster.v3.Cluster", "clusters", "cluster"},
    [SW_GW_TYPE_ENDPOINTS] = {"envoy.config.endpoint.v3.ClusterLoadAssignment", "endpoints",
                              "endpoints"},
    [SW_GW_TYPE_LISTENER] = {"envoy.config.listener.v3.Listener", "listeners", "listener"},
    [SW_GW_TYPE_ROUTES] = {"envoy.config.route.v3.RouteConfiguration", "routes", "routes"},
    [SW_GW_TYPE_SECRET] = {"envoy.extensions.transport_sockets.tls.v3.Secret", "secrets", "secret"},
};

bool sw_gw_type_parse(struct sw_slice type_name, enum sw_gw_type *ret)
{
    for (int i = 0; i < SW_GW_TYPES; i++) {
        if (sw_slice_eq_str(type_name, sw_gw_type_names[i].url)) {
            *ret = (enum sw_gw_type)i;
            return true;
        }
    }
    return false;
}

/* ---- warming ---- */

static void recompile(struct sw_gw_store *s, struct sw_gw_res *r, bool give_up);

static void on_warm(struct sw_timer *t)
{
    struct sw_gw_store *s = SW_CONTAINER_OF(t, struct sw_gw_store, warm);
    uint64_t now = sw_loop_now(s->o.loop);
    bool more = false;

    for (int i = 0; i < SW_GW_TYPES; i++) {
        SW_MAP_EACH (struct sw_gw_res, r, &s->res[i]) {
            if (!r->warming)
                continue;
            if (now - r->warm_since_ns < s->o.warm_timeout_ns) {
                more = true;
                continue;
            }
            recompile(s, r, true);
            if (r->warming && !r->warm_logged) {
                r->warm_logged = true;
                sw_gw_store_changed(s, (enum sw_gw_type)i); /* the others need not wait for it */
                sw_log_warn("config", "%s '%.*s' still waits for a secret",
                            i == SW_GW_TYPE_LISTENER ? "listener" : "cluster",
                            SW_SLICE_ARG(r->name));
            }
        }
    }
    if (more)
        sw_timer_start(s->o.loop, &s->warm, SW_NS_PER_S / 4, on_warm);
}

static void set_warming(struct sw_gw_store *s, struct sw_gw_res *r, bool warming)
{
    if (warming && !r->warming && s->o.loop) {
        r->warm_since_ns = sw_loop_now(s->o.loop);
        r->warm_logged = false;
        if (!sw_timer_running(&s->warm))
            sw_timer_start(s->o.loop, &s->warm, SW_NS_PER_S / 4, on_warm);
    }
    r->warming = warming;
}

/* A new version of what waited in vain and is not looked at any more: it may wait for less. */
static void warm_anew(struct sw_gw_store *s, struct sw_gw_res *r)
{
    if (!r->warming || !s->o.loop || sw_timer_running(&s->warm))
        return;
    r->warming = false;
    set_warming(s, r, true);
}

/* ---- clusters ---- */

static void set_cluster(struct sw_gw_store *s, struct sw_gw_res *r, struct sw_gw_members *m)
{
    struct sw_gw_cluster *old = r->cluster;

    r->cluster = sw_gw_cluster_new(r->spec, m, r->state, r->tls);
    if (r->health)
        sw_gw_health_update(r->health, r->cluster);
    else if (s->o.loop && !s->o.no_io)
        r->health = sw_gw_health_new(s->o.loop, r->cluster);
    (void)sw_gw_cluster_unref(old);
    sw_gw_store_changed_cluster(s, r->name);
}

static void on_resolved(struct sw_gw_members *m, void *arg)
{
    struct sw_gw_res *r = arg;

    set_cluster(r->store, r, m);
    (void)sw_gw_members_unref(m);
}

/* Members of a cluster from where its settings say. NULL with err. */
static struct sw_gw_members *load_members(struct sw_gw_store *s,
                                          const struct sw_gw_cluster_spec *spec,
                                          struct sw_slice inline_members,
                                          const struct sw_gw_members *old, struct sw_err *err)
{
    SW_ARENA_AUTO tmp = {0};
    struct sw_gw_build b = {.arena = &tmp, .tmp = &tmp, .err = err, .source = &s->source};
    struct sw_gw_members *m = NULL;
    bool names = spec->discovery == SW_GW_STRICT_DNS || spec->discovery == SW_GW_LOGICAL_DNS;

    if (spec->discovery == SW_GW_EDS) {
        const struct sw_gw_res *e = sw_gw_store_find(s, SW_GW_TYPE_ENDPOINTS, spec->eds_name);

        m = e ? sw_gw_build_members(&b, e->bytes, false, old, s->o.n_workers)
              : sw_gw_members_empty();
    } else if (inline_members.p) {
        m = sw_gw_build_members(&b, inline_members, names, old, s->o.n_workers);
    } else {
        m = sw_gw_members_empty();
    }
    sw_gw_build_done(&b);
    return m;
}

/* The sidecar, where the control plane's operator put it. No object can make a cluster so named. */
static bool is_connect_proxy(const struct sw_gw_cluster_spec *spec)
{
    return spec->discovery == SW_GW_STATIC &&
           (sw_slice_eq_str(spec->name, "spanwire-connect-proxy") ||
            sw_slice_eq_str(spec->name, "spanwire-connect-proxy-udp"));
}

/*
 * An Import's: data planes of links, whose addresses only the control plane writes (slices of the
 * system namespace). "import/", four names and a hash: what objects of tenants make has fewer parts
 * or another first one.
 */
static bool is_import(const struct sw_gw_cluster_spec *spec)
{
    size_t parts = 1;

    for (size_t i = 0; i < spec->name.n; i++)
        parts += spec->name.p[i] == '/';
    return spec->discovery == SW_GW_EDS && parts == 6 &&
           sw_slice_has_prefix(spec->name, SW_SLICE_LIT("import/")) &&
           sw_slice_has_prefix(spec->name, spec->eds_name);
}

static int compile_cluster(struct sw_gw_store *s, struct sw_gw_res *r, struct sw_slice bytes,
                           struct sw_gw_build *b)
{
    struct sw_gw_tls *tls;
    struct sw_slice inline_members = {NULL, 0};
    struct sw_gw_cluster_spec *spec = sw_gw_build_cluster(b, bytes, &tls, &inline_members);
    struct sw_gw_members *m;

    if (!spec) {
        (void)sw_gw_tls_unref(tls);
        return SW_EINVAL;
    }
    spec->egress = is_connect_proxy(spec) || is_import(spec) ? NULL : s->o.egress;
    m = load_members(s, spec, inline_members, r->cluster ? r->cluster->members : NULL, b->err);
    if (!m || b->missing) {
        (void)sw_gw_members_unref(m);
        (void)sw_gw_tls_unref(tls);
        (void)sw_gw_cluster_spec_unref(spec);
        return m || b->missing ? SW_OK : SW_EINVAL;
    }
    if (!r->state)
        r->state = sw_gw_cluster_state_new(s->o.n_workers);
    (void)sw_gw_cluster_spec_unref(r->spec);
    (void)sw_gw_tls_unref(r->tls);
    sw_gw_dns_free(r->dns);
    r->dns = NULL; /* r->health continues: what is known of the members still counts */
    r->spec = spec;
    r->tls = tls;
    if (s->o.loop && !s->o.no_io &&
        (spec->discovery == SW_GW_STRICT_DNS || spec->discovery == SW_GW_LOGICAL_DNS))
        r->dns = sw_gw_dns_new(s->o.loop, spec, m, s->o.n_workers, on_resolved, r);
    if (!r->dns) /* otherwise the first answer activates it; an old version serves meanwhile */
        set_cluster(s, r, m);
    (void)sw_gw_members_unref(m);
    return SW_OK;
}

/* ---- compiling ---- */

static int compile(struct sw_gw_store *s, struct sw_gw_res *r, struct sw_slice bytes, bool give_up,
                   struct sw_err *err)
{
    SW_ARENA_AUTO tmp = {0};
    struct sw_gw_build b = {
        .arena = &tmp, .tmp = &tmp, .err = err, .source = &s->source, .give_up = give_up};
    int rc = SW_OK;

    if (r->type == SW_GW_TYPE_LISTENER) {
        struct sw_gw_listener *l = sw_gw_build_listener(&b, bytes);

        rc = l ? SW_OK : SW_EINVAL;
        if (l && !b.missing) {
            (void)sw_gw_listener_unref(r->listener);
            r->listener = sw_gw_listener_ref(l);
            sw_gw_store_changed(s, r->type);
        }
        (void)sw_gw_listener_unref(l);
    } else if (r->type == SW_GW_TYPE_ROUTES) {
        struct sw_gw_routes *t = sw_gw_build_routes(&b, bytes, r->routes);

        rc = t ? SW_OK : SW_EINVAL;
        if (t) {
            (void)sw_gw_routes_unref(r->routes);
            r->routes = t;
            sw_gw_store_changed(s, r->type);
        }
    } else if (r->type == SW_GW_TYPE_CLUSTER) {
        rc = compile_cluster(s, r, bytes, &b);
    }
    if (rc == SW_OK) {
        sw_gw_replace_deps(s, r, &b);
        set_warming(s, r, b.missing);
    }
    sw_gw_build_done(&b);
    return rc;
}

/* Something r needs changed, or it waited long enough. Its bytes were accepted before. */
static void recompile(struct sw_gw_store *s, struct sw_gw_res *r, bool give_up)
{
    struct sw_err err = {0};

    if (compile(s, r, r->bytes, give_up, &err) == SW_OK)
        return;
    s->refused[r->type]++;
    sw_log_warn("config", "'%.*s' rejected, keeping the previous version: %s",
                SW_SLICE_ARG(r->name), err.msg);
}

/*
 * Users of a name are built once all of an update is there: a listener with a hundred certificates
 * that come together is compiled once.
 */
static void mark_users(struct sw_gw_store *s, enum sw_gw_type t, struct sw_slice name)
{
    const struct sw_gw_need *n = sw_map_get(&s->needs[t], name);

    for (size_t i = 0; n && i < n->users.n; i++) {
        struct sw_gw_res *u = n->users.p[i];

        if (u->touched || (t == SW_GW_TYPE_ROUTES && !u->warming))
            continue; /* the listener refers to the table by name */
        u->touched = true;
        sw_vec_push(&s->touched, u);
    }
}

static void touch_users(struct sw_gw_store *s, enum sw_gw_type t)
{
    for (size_t i = 0; i < s->touched.n; i++) {
        struct sw_gw_res *u = s->touched.p[i];

        u->touched = false;
        if (t == SW_GW_TYPE_ENDPOINTS && !u->warming && u->cluster) {
            struct sw_err err = {0};
            struct sw_gw_members *m =
                load_members(s, u->spec, sw_slice(NULL, 0), u->cluster->members, &err);

            if (m)
                set_cluster(s, u, m);
            (void)sw_gw_members_unref(m);
            continue;
        }
        recompile(s, u, false);
    }
    s->touched.n = 0;
}

/* ---- updates ---- */

static void res_free(struct sw_gw_store *s, struct sw_gw_res *r)
{
    sw_list_unlink(&r->unwanted);
    sw_gw_drop_deps(s, r);
    (void)sw_gw_listener_unref(r->listener);
    (void)sw_gw_routes_unref(r->routes);
    sw_gw_dns_free(r->dns);
    sw_gw_health_free(r->health);
    sw_gw_stats_leave(s, r);
    (void)sw_gw_cluster_unref(r->cluster);
    (void)sw_gw_cluster_spec_unref(r->spec);
    (void)sw_gw_cluster_state_unref(r->state);
    (void)sw_gw_tls_unref(r->tls);
    if (r->type == SW_GW_TYPE_SECRET && r->bytes.n)
        explicit_bzero((char *)(uintptr_t)r->bytes.p, r->bytes.n);
    sw_slice_free(&r->bytes);
    sw_slice_free(&r->name);
    sw_slice_free(&r->version);
    sw_free(r);
}

/* Checks what has no object of its own: an assignment that no cluster uses yet, a secret. */
static int check(struct sw_gw_store *s, enum sw_gw_type t, struct sw_slice bytes,
                 struct sw_err *err)
{
    SW_ARENA_AUTO tmp = {0};
    struct sw_slice name;

    if (t == SW_GW_TYPE_SECRET)
        return sw_gw_check_secret(bytes, &name, &tmp, err);
    if (t == SW_GW_TYPE_ENDPOINTS) {
        struct sw_gw_build b = {.arena = &tmp, .tmp = &tmp, .err = err, .source = &s->source};
        struct sw_gw_members *m = sw_gw_build_members(&b, bytes, false, NULL, 1);

        sw_gw_build_done(&b);
        if (!m)
            return SW_EINVAL;
        (void)sw_gw_members_unref(m);
    }
    return SW_OK;
}

static void replace_slice(struct sw_slice *old, struct sw_slice now)
{
    struct sw_slice copy = sw_slice_copy(now);

    sw_slice_free(old);
    *old = copy;
}

/* Sent before the server knew that it is not subscribed to any more. */
static bool is_unasked(const struct sw_gw_store *s, enum sw_gw_type t, struct sw_slice name)
{
    return s->o.on_wanted && t != SW_GW_TYPE_CLUSTER && t != SW_GW_TYPE_LISTENER &&
           !sw_map_get(&s->needs[t], name);
}

static int put(struct sw_gw_store *s, enum sw_gw_type t, const struct sw_gw_resource *in,
               struct sw_err *err)
{
    struct sw_gw_res *r = sw_gw_store_find(s, t, in->name);
    bool fresh = r == NULL;
    int rc = SW_OK;

    if (in->name.n == 0)
        return sw_err_set(err, SW_EINVAL, "resource without a name");
    if (is_unasked(s, t, in->name))
        return SW_OK;
    if (r && !sw_list_linked(&r->unwanted) && sw_slice_eq(r->bytes, in->bytes)) {
        replace_slice(&r->version, in->version);
        return SW_OK;
    }
    if (fresh) {
        r = SW_NEW(struct sw_gw_res);
        r->store = s;
        r->type = t;
        r->name = sw_slice_copy(in->name);
        sw_list_init(&r->unwanted);
    }
    if (t == SW_GW_TYPE_SECRET || t == SW_GW_TYPE_ENDPOINTS)
        rc = check(s, t, in->bytes, err);
    else
        rc = compile(s, r, in->bytes, false, err);
    if (rc < 0) {
        if (fresh)
            res_free(s, r);
        return rc;
    }
    sw_list_unlink(&r->unwanted);
    warm_anew(s, r);
    replace_slice(&r->bytes, in->bytes);
    replace_slice(&r->version, in->version);
    if (fresh)
        (void)sw_map_put(&s->res[t], r->name, r);
    if (fresh && t == SW_GW_TYPE_CLUSTER)
        sw_vec_push(&s->shard_res[sw_gw_shard_of(r->name)], r);
    if (t != SW_GW_TYPE_CLUSTER && t != SW_GW_TYPE_LISTENER)
        mark_users(s, t, r->name);
    return SW_OK;
}

static void leave_shard(struct sw_gw_store *s, const struct sw_gw_res *r)
{
    unsigned i = sw_gw_shard_of(r->name);

    for (size_t k = 0; k < s->shard_res[i].n; k++) {
        if (s->shard_res[i].p[k] == r) {
            (void)sw_vec_swap_remove(&s->shard_res[i], k);
            break;
        }
    }
    sw_gw_store_changed_cluster(s, r->name);
}

/* The server says there is no such resource: its users need not wait for it. */
static void report_absent(struct sw_gw_store *s, enum sw_gw_type t, struct sw_slice name)
{
    const struct sw_gw_need *n = sw_map_get(&s->needs[t], name);

    if (t != SW_GW_TYPE_ENDPOINTS && t != SW_GW_TYPE_ROUTES)
        return;
    for (size_t i = 0; n && i < n->users.n; i++) {
        if (n->users.p[i]->warming && s->o.loop)
            n->users.p[i]->warm_since_ns = 0;
    }
}

static void drop(struct sw_gw_store *s, enum sw_gw_type t, struct sw_slice name)
{
    struct sw_gw_res *r = sw_gw_store_find(s, t, name);

    if (!r || sw_list_linked(&r->unwanted))
        report_absent(s, t, name);
    if (!r)
        return;
    (void)sw_map_del(&s->res[t], r->name);
    if (t == SW_GW_TYPE_CLUSTER)
        leave_shard(s, r);
    /* Who used endpoints or a secret keeps what it was built from; its next version waits for them.
     */
    if (t != SW_GW_TYPE_ENDPOINTS && t != SW_GW_TYPE_SECRET)
        sw_gw_store_changed(s, t);
    res_free(s, r);
}

/*
 * Otherwise what is asked for again under the same name would be taken for the answer: routes of a
 * listener that was deleted, which may have been another tenant's.
 */
void sw_gw_store_unwant(struct sw_gw_store *s, enum sw_gw_type t, struct sw_slice name)
{
    struct sw_gw_res *r = sw_gw_store_find(s, t, name);

    if (!r)
        return;
    if (t != SW_GW_TYPE_ROUTES) {
        drop(s, t, name);
        return;
    }
    r->unwanted_ns = s->o.loop ? sw_loop_now(s->o.loop) : 0;
    sw_list_unlink(&r->unwanted);
    sw_list_push_back(&s->unwanted, &r->unwanted);
}

static void sweep_unwanted(struct sw_gw_store *s)
{
    uint64_t now = s->o.loop ? sw_loop_now(s->o.loop) : 0;

    while (!sw_list_empty(&s->unwanted)) {
        struct sw_gw_res *r = SW_CONTAINER_OF(s->unwanted.next, struct sw_gw_res, unwanted);

        if (now - r->unwanted_ns < UNWANTED_NS)
            return;
        drop(s, r->type, r->name);
    }
}

int sw_gw_store_update(struct sw_gw_store *s, const struct sw_gw_delta *d, struct sw_err *err)
{
    enum sw_gw_type t = d->type;
    int rc = SW_OK;

    for (size_t i = 0; i < d->n_changed; i++) {
        struct sw_slice name = d->changed[i].name;
        struct sw_err one = {0};

        if (put(s, t, &d->changed[i], &one) == SW_OK)
            continue;
        sw_log_warn("config", "%s '%.*s' refused: %s", sw_gw_type_names[t].url,
                    SW_SLICE_ARG_MAX(name, 100), one.msg);
        s->refused[t]++;
        if (rc == SW_OK)
            rc = sw_err_set(err, SW_EINVAL, "%.*s: %s", SW_SLICE_ARG_MAX(name, 60), one.msg);
    }
    touch_users(s, t);
    for (size_t i = 0; i < d->n_removed; i++)
        drop(s, t, d->removed[i]);
    sw_gw_stats_sweep(s);
    sweep_unwanted(s);
    s->seen[t] = true;
    if (s->version == 0 && t == SW_GW_TYPE_LISTENER)
        sw_gw_store_changed(s, t); /* an empty set is an answer too */
    return rc;
}

void sw_gw_store_on_wanted(struct sw_gw_store *s,
                           void (*fn)(enum sw_gw_type t, struct sw_slice name, bool wanted,
                                      void *arg),
                           void *arg)
{
    s->o.on_wanted = fn;
    s->wanted_arg = arg;
}

bool sw_gw_store_ready(const struct sw_gw_store *s)
{
    if (!s->seen[SW_GW_TYPE_LISTENER])
        return false;
    SW_MAP_EACH (const struct sw_gw_res, r, &s->res[SW_GW_TYPE_LISTENER]) {
        if (r->warming && !r->listener && !r->warm_logged)
            return false;
    }
    return true;
}

/* ---- life ---- */

static bool find_resource(const struct sw_gw_source *src, enum sw_gw_type t, struct sw_slice name,
                          struct sw_slice *ret_bytes)
{
    const struct sw_gw_res *r = sw_gw_store_find(src->store, t, name);

    if (!r || sw_list_linked(&r->unwanted))
        return false;
    *ret_bytes = r->bytes;
    return true;
}

struct sw_gw_store *sw_gw_store_new(const struct sw_gw_store_opts *o)
{
    struct sw_gw_store *s = SW_NEW(struct sw_gw_store);

    s->o = *o;
    sw_list_init(&s->unwanted);
    s->wanted_arg = o->arg;
    s->source = (struct sw_gw_source){.find = find_resource, .store = s, .creds = &s->creds};
    if (s->o.warm_timeout_ns == 0)
        s->o.warm_timeout_ns = DEFAULT_WARM_NS;
    if (s->o.n_workers == 0)
        s->o.n_workers = 1;
    return s;
}

void sw_gw_store_free(struct sw_gw_store *s)
{
    if (!s)
        return;
    sw_defer_cancel(&s->publish);
    if (s->o.loop)
        sw_timer_stop(s->o.loop, &s->warm);
    s->o.on_wanted = NULL;
    for (int i = 0; i < SW_GW_TYPES; i++) {
        SW_MAP_FOREACH (it, &s->res[i])
            res_free(s, it->value);
        sw_map_done(&s->res[i]);
        (void)sw_gw_set_unref(s->sets[i]);
    }
    for (int i = 0; i < SW_GW_TYPES; i++)
        sw_map_done(&s->needs[i]);
    for (int i = 0; i < SW_GW_SHARDS; i++)
        sw_vec_done(&s->shard_res[i]);
    (void)sw_gw_shards_unref(s->shards);
    (void)sw_gw_config_unref(s->current);
    sw_gw_creds_free(&s->creds);
    sw_gw_stats_done(s);
    sw_vec_done(&s->touched);
    sw_free(s);
}
