/* SPDX-License-Identifier: Apache-2.0 */
#include "control/gateway/plane_peers.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "kube/client/informer.h"

#define LABEL      "spanwire.dev/component"
#define COMPONENT  "data-planes"
#define ANNOTATION "spanwire.dev/data-planes"

enum { DURATION_S = 30, RENEW_S = 10, RETRY_S = 1, DURATION_MAX_S = 600 };

static const struct sw_kube_gvr lease_gvr = {.group = "coordination.k8s.io",
                                             .version = "v1",
                                             .resource = "leases",
                                             .kind = "Lease",
                                             .namespaced = true};

/* Another replica's Lease. */
struct peer {
    struct sw_slice key;     /* owned */
    struct sw_kube_obj *obj; /* a reference */
    uint64_t seen_ns;        /* when it changed last; our clock */
};

struct sw_plane_peers {
    struct sw_kube_client *client;
    struct sw_loop *loop;
    struct sw_informer *informer;
    struct sw_map others; /* key -> struct peer */
    char *ns;
    char *name; /* of our Lease */
    char *identity;
    struct sw_slice text; /* owned; what our data planes say */
    bool dirty;           /* it was not written yet */
    bool left;
    bool failing; /* and that was logged */
    struct sw_kube_call *call;
    struct sw_timer renew;
    struct sw_timer expire;
    void (*changed)(void *arg);
    void *arg;
};

/* ---- ours ---- */

static void write_ours(struct sw_plane_peers *p);

static void on_renew(struct sw_timer *t)
{
    write_ours(SW_CONTAINER_OF(t, struct sw_plane_peers, renew));
}

static void on_written(void *arg, struct sw_kube_reply *r)
{
    struct sw_plane_peers *p = arg;
    bool ok = r->rc == SW_OK;

    p->call = NULL;
    if (!ok && !p->failing && r->code != 409)
        sw_log_warn("gateway",
                    "cannot write Lease '%s/%s': %.*s; other replicas do not know of the data "
                    "planes connected here",
                    p->ns, p->name, SW_SLICE_ARG(r->message));
    p->failing = !ok && r->code != 409;
    p->dirty |= !ok;
    sw_timer_start(p->loop, &p->renew, (p->dirty ? RETRY_S : RENEW_S) * SW_NS_PER_S, on_renew);
}

static struct sw_json *our_lease(const struct sw_plane_peers *p, struct sw_arena *a,
                                 const struct sw_kube_obj *seen)
{
    struct sw_json *obj = sw_json_new_object(a);
    struct sw_json *meta = sw_json_new_object(a);
    struct sw_json *spec = sw_json_new_object(a);
    struct sw_json *labels = sw_json_new_object(a);
    struct sw_json *notes = sw_json_new_object(a);
    char now[SW_RFC3339_LEN];

    sw_json_put(a, labels, LABEL, sw_json_new_str(a, COMPONENT));
    sw_json_put_str(a, notes, ANNOTATION, p->text);
    sw_json_put_str(a, meta, "namespace", sw_slice_str(p->ns));
    sw_json_put_str(a, meta, "name", sw_slice_str(p->name));
    if (seen)
        sw_json_put_str(a, meta, "resourceVersion", seen->rv);
    sw_json_put(a, meta, "labels", labels);
    sw_json_put(a, meta, "annotations", notes);
    sw_json_put_str(a, spec, "holderIdentity", sw_slice_str(p->identity));
    sw_json_put(a, spec, "leaseDurationSeconds", sw_json_new_u64(a, DURATION_S));
    sw_json_put(a, spec, "renewTime", sw_json_new_str(a, sw_rfc3339(sw_wall_ns(), 1, now)));
    sw_json_put(a, obj, "apiVersion", sw_json_new_str(a, "coordination.k8s.io/v1"));
    sw_json_put(a, obj, "kind", sw_json_new_str(a, "Lease"));
    sw_json_put(a, obj, "metadata", meta);
    sw_json_put(a, obj, "spec", spec);
    return obj;
}

static void write_ours(struct sw_plane_peers *p)
{
    SW_ARENA_AUTO a = {0};
    SW_AUTO_FREE char *key = sw_asprintf("%s/%s", p->ns, p->name);
    const struct sw_kube_obj *seen;
    const struct sw_json *obj;

    if (p->call || p->left || !sw_informer_synced(p->informer))
        return;
    seen = sw_informer_get(p->informer, sw_slice_str(key));
    obj = our_lease(p, &a, seen);
    p->dirty = false;
    p->call = seen ? sw_kube_update(p->client, &lease_gvr, obj, NULL, on_written, p)
                   : sw_kube_create(p->client, &lease_gvr, obj, on_written, p);
}

void sw_plane_peers_publish(struct sw_plane_peers *p, struct sw_slice text)
{
    if (sw_slice_eq(text, p->text))
        return;
    sw_slice_free(&p->text);
    p->text = sw_slice(sw_slice_dup(text), text.n);
    p->dirty = true;
    write_ours(p);
}

void sw_plane_peers_leave(struct sw_plane_peers *p)
{
    if (!p || p->left)
        return;
    p->left = true;
    sw_timer_stop(p->loop, &p->renew);
    sw_kube_call_cancel(p->call);
    p->call = sw_kube_do(p->client,
                         &(struct sw_kube_req){.verb = SW_KUBE_DELETE,
                                               .gvr = &lease_gvr,
                                               .ns = sw_slice_str(p->ns),
                                               .name = sw_slice_str(p->name)},
                         on_written, p);
}

/* ---- the others ---- */

static bool is_ours(const struct sw_plane_peers *p, const struct sw_kube_obj *o)
{
    return sw_slice_eq_str(o->name, p->name);
}

static uint64_t lasts_ns(const struct sw_kube_obj *o)
{
    int64_t s = 0;

    if (!sw_json_i64(sw_json_walk(o->json, "spec", "leaseDurationSeconds", NULL), &s) || s < 1)
        s = 1;
    return (uint64_t)sw_min(s, DURATION_MAX_S) * SW_NS_PER_S;
}

static void peer_free(struct peer *o)
{
    (void)sw_kube_obj_unref(o->obj);
    sw_slice_free(&o->key);
    sw_free(o);
}

static void drop_peer(struct sw_plane_peers *p, struct sw_slice key)
{
    struct peer *o = sw_map_del(&p->others, key);

    if (o)
        peer_free(o);
}

static void on_deleted(void *arg, struct sw_kube_reply *r)
{
    if (r->rc != SW_OK && r->rc != SW_ENOENT && r->code != 409) /* another replica was faster */
        sw_log_warn("gateway", "cannot delete the expired Lease of a replica: %.*s",
                    SW_SLICE_ARG(r->message));
}

/* Times of other machines are not compared with ours: a Lease lasts since we saw it change. */
static void on_expire(struct sw_timer *t)
{
    struct sw_plane_peers *p = SW_CONTAINER_OF(t, struct sw_plane_peers, expire);
    uint64_t now = sw_loop_now(p->loop);
    bool changed = false;

    SW_MAP_EACH (struct peer, o, &p->others) {
        if (now - o->seen_ns < lasts_ns(o->obj))
            continue;
        sw_log_info("gateway", "Lease '%.*s' of another replica expired", SW_SLICE_ARG(o->key));
        (void)sw_kube_do(p->client,
                         &(struct sw_kube_req){.verb = SW_KUBE_DELETE,
                                               .gvr = &lease_gvr,
                                               .ns = o->obj->ns,
                                               .name = o->obj->name,
                                               .if_uid = o->obj->uid},
                         on_deleted, NULL);
        drop_peer(p, o->key);
        changed = true;
    }
    sw_timer_start(p->loop, &p->expire, RETRY_S * SW_NS_PER_S, on_expire);
    if (changed)
        p->changed(p->arg);
}

static struct sw_slice said(const struct sw_kube_obj *o)
{
    return sw_json_str(sw_json_walk(o->json, "metadata", "annotations", ANNOTATION, NULL));
}

static void on_add(void *arg, struct sw_kube_obj *o)
{
    struct sw_plane_peers *p = arg;
    struct peer *have = sw_map_get(&p->others, o->key);
    bool same = have && sw_slice_eq(said(have->obj), said(o));

    if (is_ours(p, o)) {
        if (p->dirty)
            write_ours(p);
        return;
    }
    if (!have) {
        have = SW_NEW(struct peer);
        have->key = sw_slice(sw_slice_dup(o->key), o->key.n);
        (void)sw_map_put(&p->others, have->key, have);
    }
    (void)sw_kube_obj_unref(have->obj);
    have->obj = sw_kube_obj_ref(o);
    have->seen_ns = sw_loop_now(p->loop);
    if (!same)
        p->changed(p->arg);
}

static void on_update(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    on_add(arg, now);
}

static void on_del(void *arg, struct sw_kube_obj *last)
{
    struct sw_plane_peers *p = arg;

    if (is_ours(p, last)) {
        write_ours(p);
        return;
    }
    drop_peer(p, last->key);
    p->changed(p->arg);
}

static void on_synced(void *arg)
{
    struct sw_plane_peers *p = arg;

    write_ours(p);
    p->changed(p->arg);
}

void sw_plane_peers_add(const struct sw_plane_peers *p, struct sw_planes *to)
{
    SW_MAP_FOREACH (it, &p->others)
        sw_planes_read(to, said(((const struct peer *)it->value)->obj));
}

bool sw_plane_peers_synced(const struct sw_plane_peers *p)
{
    return sw_informer_synced(p->informer);
}

/* ---- life ---- */

static char *made_up(void)
{
    char host[200] = "control";

    (void)!gethostname(host, sizeof(host) - 1);
    return sw_asprintf("%s_%016" PRIx64, host, sw_rand_u64());
}

struct sw_plane_peers *sw_plane_peers_new(struct sw_kube_client *c, struct sw_slice ns,
                                          struct sw_slice identity, void (*changed)(void *arg),
                                          void *arg)
{
    static const struct sw_informer_cbs cbs = {
        .add = on_add, .update = on_update, .del = on_del, .synced = on_synced};
    struct sw_plane_peers *p = SW_NEW(struct sw_plane_peers);
    struct sw_informer_opts o = {
        .gvr = &lease_gvr, .ns = ns, .label_selector = LABEL "=" COMPONENT, .slim = true};

    p->client = c;
    p->loop = sw_kube_client_loop(c);
    p->ns = sw_slice_dup(ns);
    p->identity = identity.n ? sw_slice_dup(identity) : made_up();
    p->name = sw_asprintf("spanwire-planes-%016" PRIx64,
                          sw_siphash13(0, 0, p->identity, strlen(p->identity)));
    p->changed = changed;
    p->arg = arg;
    p->informer = sw_informer_new(c, &o, &cbs, p);
    sw_informer_start(p->informer);
    sw_timer_start(p->loop, &p->expire, RETRY_S * SW_NS_PER_S, on_expire);
    return p;
}

void sw_plane_peers_free(struct sw_plane_peers *p)
{
    if (!p)
        return;
    sw_informer_free(p->informer);
    sw_kube_call_cancel(p->call);
    sw_timer_stop(p->loop, &p->renew);
    sw_timer_stop(p->loop, &p->expire);
    SW_MAP_DRAIN(&p->others, peer_free);
    sw_slice_free(&p->text);
    sw_free(p->ns);
    sw_free(p->name);
    sw_free(p->identity);
    sw_free(p);
}
