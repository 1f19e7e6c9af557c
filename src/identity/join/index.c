/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/join/index.h"

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/time.h"
#include "identity/join/token.h"
#include "kube/client/informer.h"
#include "kube/client/kinds.h"
#include "tls/crypto/jws.h"

enum { KEEP_S = 3600, SWEEP_MAX = 100 }; /* records deleted in one sweep */

static const uint64_t sweep_ns = 60 * SW_NS_PER_S;

struct sw_joins {
    struct sw_kube_client *client;
    struct sw_loop *loop;
    struct sw_joins_opts o;
    struct sw_informer *informer;
    struct sw_map records; /* struct sw_join by id */
    struct sw_timer sweep;
};

static uint64_t now_s(void)
{
    return sw_wall_ns() / SW_NS_PER_S;
}

static void join_free(struct sw_join *j)
{
    sw_jws_key_free(j->key);
    sw_arena_clear(&j->arena);
    sw_free(j);
}

static void del(struct sw_joins *x, struct sw_slice id)
{
    struct sw_join *j = sw_map_del(&x->records, id);
    bool machine = j && j->key;

    if (j)
        join_free(j);
    if (machine && x->o.on_gone)
        x->o.on_gone(x->o.arg);
}

static struct sw_join *parse(const struct sw_joins *x, const struct sw_kube_obj *o,
                             struct sw_err *err)
{
    struct sw_join *j = SW_NEW(struct sw_join);
    int rc = sw_join_record_read(&j->arena, o->json, &j->r, err);

    if (rc == SW_OK && j->r.kind == SW_JOIN_PEER && !sw_slice_eq(o->ns, x->o.system_ns))
        rc = sw_err_set(err, SW_EDENIED, "records of peers count in the namespace %.*s only",
                        SW_SLICE_ARG(x->o.system_ns));
    if (rc == SW_OK && j->r.key.n) {
        j->key = sw_jws_key_public(j->r.key, err);
        rc = j->key ? SW_OK : err->rc;
    }
    if (rc == SW_OK)
        return j;
    join_free(j);
    return NULL;
}

static void on_set(void *arg, struct sw_kube_obj *o)
{
    struct sw_joins *x = arg;
    struct sw_err err = {0};
    struct sw_join *old = sw_map_get(&x->records, o->key);
    struct sw_join *j = parse(x, o, &err);

    if (!j) {
        sw_log_warn("join", "Secret '%.*s' is not a join record, ignored: %s", SW_SLICE_ARG(o->key),
                    err.msg);
        del(x, o->key);
        return;
    }
    if (old && old->key && (!j->key || !sw_slice_eq(old->r.key, j->r.key)))
        del(x, o->key); /* another machine's from now on */
    else if (old)
        join_free(sw_map_del(&x->records, o->key));
    (void)sw_map_put(&x->records, j->r.id, j);
}

static void on_del(void *arg, struct sw_kube_obj *o)
{
    del(arg, o->key);
}

static const struct sw_informer_cbs cbs = {.set = on_set, .del = on_del};

/* ---- unused codes ---- */

static void on_swept(void *arg, struct sw_kube_reply *r)
{
    if (r->rc != SW_OK && r->code != 404 && r->code != 409)
        sw_log_warn("join", "cannot delete an expired join code: %.*s", SW_SLICE_ARG(r->message));
}

/* Every replica does it: only the record that was read is deleted, so it happens once. */
static void on_sweep(struct sw_timer *t)
{
    struct sw_joins *x = SW_CONTAINER_OF(t, struct sw_joins, sweep);
    size_t n = 0;

    SW_MAP_EACH (const struct sw_join, j, &x->records) {
        if (j->key || now_s() < j->r.expires_s + KEEP_S || n++ >= SWEEP_MAX)
            continue;
        (void)sw_kube_do(x->client,
                         &(struct sw_kube_req){.verb = SW_KUBE_DELETE,
                                               .gvr = &sw_secrets_gvr,
                                               .ns = j->r.ns,
                                               .name = sw_join_record_name(&j->r),
                                               .if_uid = j->r.uid,
                                               .if_resource_version = j->r.rv},
                         on_swept, x);
    }
    sw_timer_start(x->loop, &x->sweep, sweep_ns, on_sweep);
}

/* ---- life ---- */

struct sw_joins *sw_joins_new(struct sw_kube_client *client, const struct sw_joins_opts *o)
{
    struct sw_joins *x = SW_NEW(struct sw_joins);

    x->client = client;
    x->loop = sw_kube_client_loop(client);
    x->o = *o;
    x->informer =
        sw_informer_new(client,
                        &(struct sw_informer_opts){
                            .gvr = &sw_secrets_gvr, .label_selector = SW_JOIN_LABEL, .slim = true},
                        &cbs, x);
    sw_informer_start(x->informer);
    sw_timer_start(x->loop, &x->sweep, sweep_ns, on_sweep);
    return x;
}

void sw_joins_free(struct sw_joins *x)
{
    if (!x)
        return;
    sw_timer_stop(x->loop, &x->sweep);
    sw_informer_free(x->informer);
    SW_MAP_DRAIN(&x->records, join_free);
    sw_free(x);
}

bool sw_joins_synced(const struct sw_joins *x)
{
    return sw_informer_synced(x->informer);
}

bool sw_joins_has_peer(const struct sw_joins *x, struct sw_slice name)
{
    SW_MAP_EACH (const struct sw_join, j, &x->records) {
        if (j->key && j->r.kind == SW_JOIN_PEER && sw_slice_eq(j->r.name, name))
            return true;
    }
    return false;
}

const struct sw_join *sw_joins_find(const struct sw_joins *x, struct sw_slice id)
{
    return sw_map_get(&x->records, id);
}

/* ---- machines ---- */

static int find_machine(const struct sw_joins *x, struct sw_arena *a, struct sw_slice token,
                        const struct sw_join **ret, struct sw_err *err)
{
    struct sw_slice id = sw_machine_token_id(a, token);

    if (!id.p)
        return sw_err_set(err, SW_ENOENT, "not a machine's token");
    *ret = sw_joins_find(x, id);
    if (!*ret && !sw_joins_synced(x))
        return sw_err_set(err, SW_ETIME, "the records of machines were not read yet");
    if (!*ret || !(*ret)->key)
        return sw_err_set(err, SW_EDENIED, "no machine '%.*s' has joined, or it was removed",
                          SW_SLICE_ARG_MAX(id, SW_JOIN_ID_MAX));
    return SW_OK;
}

int sw_joins_check(const struct sw_joins *x, struct sw_slice token, const struct sw_join **ret,
                   struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_join *j;
    int rc = find_machine(x, &a, token, &j, err);

    if (rc == SW_OK)
        rc = sw_machine_token_verify(j->key, token, j->r.id, x->o.trust_domain, now_s(), err);
    if (rc == SW_OK)
        *ret = j;
    return rc;
}

bool sw_joins_still_good(const struct sw_joins *x, struct sw_slice token, struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice payload;
    const struct sw_join *j;
    int rc = find_machine(x, &a, token, &j, err);

    if (rc == SW_ETIME)
        return true;
    return rc == SW_OK && sw_jws_verify(j->key, &a, token, &payload, err) == SW_OK;
}
