/* SPDX-License-Identifier: Apache-2.0 */
#include "apiserver/admission/quota.h"

#include <string.h>

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"

/* Of a namespace, or of one resource in it ("group/plural/ns/"). */
struct tally {
    uint64_t objects; /* what is on its way included */
    uint64_t bytes;
    size_t n;
    char key[];
};

struct api_quota {
    struct sw_api *api;
    struct api_quota_opts opts;
    struct sw_map spaces;    /* by namespace */
    struct sw_map resources; /* by the part of keys before the name */
    uint64_t refused;
};

static struct tally *tally_of(struct sw_map *m, struct sw_slice key)
{
    struct tally *t = sw_map_get(m, key);

    if (t)
        return t;
    t = sw_calloc(1, sizeof(*t) + key.n + 1);
    if (key.n)
        memcpy(t->key, key.p, key.n);
    t->n = key.n;
    (void)sw_map_put(m, sw_slice(t->key, t->n), t);
    return t;
}

static void tally_add(struct sw_map *m, struct sw_slice key, int64_t objects, int64_t bytes)
{
    struct tally *t = tally_of(m, key);

    t->objects += (uint64_t)objects;
    t->bytes += (uint64_t)bytes;
    if (t->objects == 0) {
        (void)sw_map_del(m, sw_slice(t->key, t->n));
        sw_free(t);
    }
}

/* "group/plural/ns/name": the namespace, and what stands before the name. False: has none. */
static bool split(struct sw_slice key, struct sw_slice *ret_space, struct sw_slice *ret_before)
{
    struct sw_slice rest = key;

    (void)sw_slice_cut(&rest, '/');
    if (rest.p)
        (void)sw_slice_cut(&rest, '/');
    if (!rest.p)
        return false;
    *ret_space = sw_slice_cut(&rest, '/');
    if (!rest.p)
        return false;
    *ret_before = sw_slice(key.p, (size_t)(rest.p - key.p));
    return true;
}

static void change(struct api_quota *q, struct sw_slice key, int64_t objects, int64_t bytes)
{
    struct sw_slice space;
    struct sw_slice before;

    if ((!objects && !bytes) || !split(key, &space, &before))
        return;
    tally_add(&q->spaces, space, objects, bytes);
    tally_add(&q->resources, before, objects, bytes);
}

static int64_t size_of(const struct sw_store_obj *o)
{
    return o ? (int64_t)(o->key.n + o->value.n) : 0;
}

struct api_quota *api_quota_new(struct sw_api *api, const struct api_quota_opts *o)
{
    struct api_quota *q = SW_NEW(struct api_quota);
    SW_STORE_SNAP_AUTO snap = sw_store_snapshot(api->store);

    q->api = api;
    q->opts = *o;
    SW_STORE_EACH (obj, snap, sw_slice("", 0))
        change(q, obj->key, 1, size_of(obj));
    return q;
}

void api_quota_free(struct api_quota *q)
{
    if (!q)
        return;
    SW_MAP_DRAIN(&q->spaces, sw_free);
    SW_MAP_DRAIN(&q->resources, sw_free);
    sw_free(q);
}

uint64_t api_quota_count(const struct api_quota *q, const struct api_res *res, struct sw_slice ns)
{
    SW_ARENA_AUTO a = {0};
    const struct tally *t = sw_map_get(
        &q->resources, sw_slice_str(sw_arena_printf(&a, "%s%.*s/", res->prefix, SW_SLICE_ARG(ns))));

    return t ? t->objects : 0;
}

uint64_t api_quota_refused(const struct api_quota *q)
{
    return q->refused;
}

/* --- limits ----------------------------------------------------------------------------- */

static void refuse(struct api_write *w, const char *why)
{
    struct api_req *r = w->r;

    r->api->quota->refused++;
    sw_log_info("api", "%s of %s '%.*s' in namespace '%.*s' by '%.*s' refused: %s",
                api_verb_name(r->verb), api_gr(r->arena, r->res), SW_SLICE_ARG(r->name),
                SW_SLICE_ARG(r->ns), SW_SLICE_ARG(r->user.name), why);
    api_fail_res(r, 403, "Forbidden", r->name, "%s \"%.*s\" is forbidden: %s",
                 api_gr(r->arena, r->res), SW_SLICE_ARG(r->name), why);
}

/* Refuses what would pass a limit of the namespace. */
static bool within(struct api_write *w, const char *what, uint64_t used, uint64_t more,
                   uint64_t limit)
{
    if (!limit || used + more <= limit)
        return true;
    refuse(w, sw_arena_printf(w->r->arena,
                              "exceeded quota: the limit of every namespace, requested: %s=%llu, "
                              "used: %s=%llu, limited: %s=%llu",
                              what, (unsigned long long)more, what, (unsigned long long)used, what,
                              (unsigned long long)limit));
    return false;
}

/* The limit of every namespace. Cluster administrators may exceed it. */
static bool space_ok(struct api_write *w, struct sw_slice space, int64_t objects, int64_t bytes)
{
    const struct api_quota *q = w->r->api->quota;
    const struct tally *t = sw_map_get(&q->spaces, space);

    return api_in_groups(&w->r->user, SW_SLICE_LIT("system:masters")) ||
           ((objects <= 0 || within(w, "objects", t ? t->objects : 0, 1, q->opts.objects)) &&
            (bytes <= 0 || within(w, "bytes", t ? t->bytes : 0, (uint64_t)bytes, q->opts.bytes)));
}

/* One ResourceQuota against one more object of the request's resource. */
static bool quota_ok(struct api_write *w, const struct sw_json *quota)
{
    struct api_req *r = w->r;
    const struct sw_json *spec = sw_json_find(quota, "spec");
    const struct sw_json *hard = sw_json_find(spec, "hard");
    uint64_t used = api_quota_count(r->api->quota, r->res, r->ns);

    if (sw_json_len(sw_json_find(spec, "scopes")) || sw_json_find(spec, "scopeSelector"))
        return true; /* about some pods only */
    SW_JSON_MEMBERS (m, hard) {
        struct sw_slice group;
        struct sw_slice plural = sw_quota_counts(m->key, &group);
        uint64_t limit;

        if (!sw_slice_eq_str(plural, r->res->plural) || !sw_slice_eq_str(group, r->res->group) ||
            !sw_quota_number(m->value, &limit) || used + 1 <= limit)
            continue;
        refuse(w, sw_arena_printf(r->arena,
                                  "exceeded quota: %.*s, requested: %.*s=1, used: %.*s=%llu, "
                                  "limited: %.*s=%llu",
                                  SW_SLICE_ARG(api_meta_str(quota, "name")), SW_SLICE_ARG(m->key),
                                  SW_SLICE_ARG(m->key), (unsigned long long)used,
                                  SW_SLICE_ARG(m->key), (unsigned long long)limit));
        return false;
    }
    return true;
}

static bool quotas_ok(struct api_write *w)
{
    struct api_req *r = w->r;
    const struct api_res *res = api_registry_core(&r->api->reg, "resourcequotas");
    SW_STORE_SNAP_AUTO snap = NULL;

    if (!api_quota_count(r->api->quota, res, r->ns))
        return true;
    snap = sw_store_snapshot(r->api->store);
    SW_STORE_EACH (o, snap, api_prefix(r->arena, res, r->ns)) {
        const struct sw_json *quota = api_load(r->arena, res, o);

        if (quota && !quota_ok(w, quota))
            return false;
    }
    return true;
}

bool api_quota_take(struct api_write *w, size_t size)
{
    struct api_req *r = w->r;
    const struct sw_store_obj *cur =
        w->expect && r->snap ? sw_store_snap_get(r->snap, w->key) : NULL;
    int64_t objects = w->remove || cur ? 0 : 1;
    int64_t bytes = w->remove ? 0 : (int64_t)(w->key.n + size) - size_of(cur);
    struct sw_slice space;
    struct sw_slice before;

    w->took_objects = w->took_bytes = 0;
    if (!split(w->key, &space, &before))
        return true;
    if (r->x && (!space_ok(w, space, objects, bytes) || (objects && !quotas_ok(w))))
        return false;
    w->took_objects = objects;
    w->took_bytes = bytes > 0 ? bytes : 0;
    change(r->api->quota, w->key, w->took_objects, w->took_bytes);
    return true;
}

void api_quota_settle(struct api_write *w, const struct sw_store_result *res)
{
    int64_t objects = -w->took_objects;
    int64_t bytes = -w->took_bytes;

    w->took_objects = w->took_bytes = 0;
    if (res && res->rc == SW_OK) {
        objects += (res->obj ? 1 : 0) - (res->prev ? 1 : 0);
        bytes += size_of(res->obj) - size_of(res->prev);
    }
    change(w->r->api->quota, w->key, objects, bytes);
}

void api_quota_removed(struct sw_api *api, const struct sw_store_result *res)
{
    if (res->rc == SW_OK && res->prev)
        change(api->quota, res->prev->key, -1, -size_of(res->prev));
}
