/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which Service has which cluster IP and node port. The stored Services are the truth; this is an
 * index of them, made at first use, with what writes under way have taken. An entry is believed
 * only while its Service is being written or still names it, so nothing has to be given back.
 */
#include <stdio.h>
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/verbs/verbs_int.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "kube/builtin/service.h"

/* Longer than any write takes. */
static const uint64_t pending_ns = 30 * SW_NS_PER_S;

struct api_pool {
    struct sw_map taken; /* address or port -> struct entry */
    bool loaded;
};

struct entry {
    char id[48];
    char *key;         /* of the Service; owned */
    uint64_t until_ns; /* a write is under way until then; 0: stored */
};

/* The Service that requests an address or port. */
struct asker {
    struct sw_api *api;
    struct sw_slice key;
    bool is_new; /* what is stored under its key is another one's */
};

static bool is_service(const struct api_res *res)
{
    return res->builtin && strcmp(res->builtin->type, "Service") == 0;
}

static void take(struct api_pool *p, struct sw_slice id, struct sw_slice key, uint64_t until_ns)
{
    struct entry *x = sw_map_get(&p->taken, id);

    if (!id.p || id.n >= sizeof(x->id))
        return;
    if (!x) {
        x = SW_NEW(struct entry);
        memcpy(x->id, id.p, id.n);
        (void)sw_map_put(&p->taken, sw_slice(x->id, id.n), x);
    }
    sw_free(x->key);
    x->key = sw_slice_dup(key);
    x->until_ns = until_ns;
}

static void forget(struct api_pool *p, struct entry *x)
{
    (void)sw_map_del(&p->taken, sw_slice_str(x->id));
    sw_free(x->key);
    sw_free(x);
}

/* True when the stored Service still names what the entry says it has. */
static bool still_named(struct sw_api *api, const struct entry *x)
{
    struct sw_store_obj *o = sw_store_get(api->store, sw_slice_str(x->key));
    char text[80];
    bool ip = strpbrk(x->id, ".:") != NULL;
    bool found;

    if (!o)
        return false;
    (void)snprintf(text, sizeof(text), ip ? "\"%s\"" : "odePort\":%s", x->id);
    found = memmem(o->value.p, o->value.n, text, strlen(text)) != NULL;
    sw_store_obj_unref(o);
    return found;
}

static bool taken(struct asker *by, struct sw_slice id)
{
    struct api_pool *p = by->api->pool;
    struct entry *x = sw_map_get(&p->taken, id);

    if (!x || (sw_slice_eq_str(by->key, x->key) && (!by->is_new || x->until_ns)))
        return false;
    if (x->until_ns > sw_now_ns() || still_named(by->api, x))
        return true;
    forget(p, x);
    return false;
}

static bool ip_taken(void *arg, struct sw_slice ip)
{
    return taken(arg, ip);
}

static bool port_taken(void *arg, uint16_t port)
{
    char text[8];

    (void)snprintf(text, sizeof(text), "%u", port);
    return taken(arg, sw_slice_str(text));
}

/* Calls f for everything a Service has. */
static void each_id(const struct sw_json *svc, void (*f)(void *arg, struct sw_slice id), void *arg)
{
    const struct sw_json *spec = sw_json_find(svc, "spec");
    const struct sw_json *ips = sw_json_find(spec, "clusterIPs");
    const struct sw_json *ports = sw_json_find(spec, "ports");
    const struct sw_json *v = sw_json_find(spec, "healthCheckNodePort");

    SW_JSON_ITEMS (it, ips) {
        if (!sw_json_str_eq(it, "None") && sw_json_str(it).n)
            f(arg, sw_json_str(it));
    }
    if (sw_json_is(v, SW_JSON_NUMBER))
        f(arg, v->text);
    SW_JSON_ITEMS (it, ports) {
        v = sw_json_find(it, "nodePort");
        if (sw_json_is(v, SW_JSON_NUMBER))
            f(arg, v->text);
    }
}

struct marking {
    struct api_pool *p;
    struct sw_slice key;
    uint64_t until_ns;
    bool gone;
};

static void mark(void *arg, struct sw_slice id)
{
    struct marking *m = arg;
    struct entry *x = sw_map_get(&m->p->taken, id);

    if (!m->gone)
        take(m->p, id, m->key, m->until_ns);
    else if (x && sw_slice_eq_str(m->key, x->key))
        forget(m->p, x);
}

static void load(struct sw_api *api)
{
    SW_STORE_SNAP_AUTO snap = sw_store_snapshot(api->store);

    api->pool->loaded = true;
    SW_STORE_EACH (o, snap, SW_SLICE_LIT("/services/")) {
        SW_ARENA_AUTO a = {0};
        struct marking m = {.p = api->pool, .key = o->key};

        each_id(api_parse_stored(&a, o), mark, &m);
    }
}

bool api_service_settle(struct api_write *w, struct sw_json *svc, const struct sw_json *old)
{
    struct api_req *r = w->r;
    struct asker by = {.api = r->api, .key = w->key, .is_new = !old};
    struct sw_service_pool pool = {
        .arg = &by, .ip_taken = ip_taken, .port_taken = port_taken, .random = sw_rand_below};
    struct sw_field_errs e;
    struct sw_texts warnings = {.arena = r->arena};
    const char *why = NULL;
    int rc;

    if (!is_service(r->res) || r->sub.n)
        return true;
    if (!r->api->pool)
        r->api->pool = SW_NEW(struct api_pool);
    if (!r->api->pool->loaded)
        load(r->api);
    if (!old) { /* the status of a new one is ours */
        struct sw_json *none = sw_json_new_object(r->arena);

        sw_json_put(r->arena, svc, "status", SW_JSON_OF(r->arena, {"loadBalancer", .json = none}));
    }
    sw_field_errs_init(&e, r->arena);
    rc = sw_service_settle(r->arena, svc, old, &pool, &e, &why);
    if (rc == SW_EINVAL) {
        api_invalid(r, api_meta_str(svc, "name"), &e);
        return false;
    }
    if (rc != SW_OK) {
        api_internal_error(r, why);
        return false;
    }
    sw_service_warnings(svc, &warnings);
    for (size_t i = 0; i < warnings.n && w->tries <= 1; i++)
        api_warn(r, "%s", warnings.p[i]);
    return true;
}

void api_service_submitted(struct api_write *w)
{
    struct marking m = {.p = w->r->api->pool, .key = w->key, .until_ns = sw_now_ns() + pending_ns};

    if (is_service(w->r->res) && m.p && !w->remove)
        each_id(w->obj, mark, &m);
}

void api_service_written(struct api_write *w)
{
    struct marking m = {.p = w->r->api->pool, .key = w->key, .gone = w->remove};

    if (is_service(w->r->res) && m.p)
        each_id(w->obj, mark, &m);
}

void api_pool_free(struct api_pool *p)
{
    if (!p)
        return;
    SW_MAP_EACH (struct entry, x, &p->taken) {
        sw_free(x->key);
        sw_free(x);
    }
    sw_map_done(&p->taken);
    sw_free(p);
}
