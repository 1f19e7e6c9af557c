/* SPDX-License-Identifier: Apache-2.0 */
/* Putting the server together and taking it apart. */
#include "apiserver/server.h"

#include <errno.h>
#include <fcntl.h>

#include "apiserver/admission/admission_metrics.h"
#include "apiserver/admission/policies.h"
#include "apiserver/admission/quota.h"
#include "apiserver/admission/webhook.h"
#include "apiserver/api/fair.h"
#include "apiserver/api/work.h"
#include "apiserver/auth/auth.h"
#include "apiserver/boot/boot_int.h"
#include "apiserver/boot/fabric.h"
#include "apiserver/dispatch.h"
#include "apiserver/docs/docs.h"
#include "apiserver/gc/gc.h"
#include "apiserver/verbs/verbs.h"
#include "base/dirs.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/sock.h"
#include "tls/cert/ca.h"
#include "tls/cert/cred.h"
#include "tls/crypto/jws.h"

static int open_store(struct sw_api *api, const struct sw_api_config *c, struct sw_err *err)
{
    SW_AUTO_FREE char *path = sw_asprintf("%s/store.db", c->data_dir);
    struct sw_store_opts o = {.relaxed_sync = c->relaxed_sync,
                              .keep_events = c->keep_events,
                              .keep_ms = c->keep_events_ms,
                              .compact_every_ms =
                                  c->keep_events_ms < 30000 ? c->keep_events_ms : 0};

    if (sw_make_dirs(c->data_dir, err) != SW_OK)
        return err->rc;
    api->store = sw_store_open(path, &o, err);
    if (!api->store)
        return err->rc;
    api->feed = sw_store_feed_new(api->store, api->loop);
    return SW_OK;
}

static int open_audit(struct sw_api *api, const struct sw_api_config *c, struct sw_err *err)
{
    if (!c->audit_log)
        return SW_OK;
    api->audit_fd = open(c->audit_log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (api->audit_fd < 0)
        return sw_err_sys(err, errno, "cannot open '%s'", c->audit_log);
    return SW_OK;
}

/* Requests are looked at from the loop only, so the port may be taken before the rest is there. */
static void discard(void *arg, struct sw_arena *a)
{
    api_work_discard(((struct sw_api *)arg)->work, a);
}

static int start_front(struct sw_api *api, const struct sw_api_config *c, struct sw_tls_cred *cred,
                       struct sw_err *err)
{
    char text[SW_ADDR_TEXT];
    int rc;

    api->front =
        sw_front_new(api->loop, &(struct sw_front_opts){.cred = cred,
                                                        .max_conns = c->max_conns,
                                                        .max_conns_addr = c->max_conns_addr,
                                                        .write_timeout_ns = c->unread_timeout_ns,
                                                        .handler = api_on_request,
                                                        .discard = discard,
                                                        .arg = api});
    rc = sw_front_listen(api->front, &c->listen, &api->bound, err);
    if (rc != SW_OK)
        return rc;
    if (c->advertise) {
        api->advertise = sw_arena_dup(&api->arena, sw_slice_str(c->advertise));
    } else {
        struct sw_addr at = api->bound;

        if (sw_ip_is_any(&at.ip))
            at.ip = (struct sw_ip){.family = 4, .b = {127, 0, 0, 1}};
        api->advertise = sw_arena_dup(&api->arena, sw_slice_str(sw_addr_text(&at, text)));
    }
    return api_pki_kubeconfig(api, c, err);
}

struct sw_api *sw_api_new(struct sw_loop *l, const struct sw_api_config *c, struct sw_err *err)
{
    struct sw_api *api = SW_NEW(struct sw_api);
    struct sw_tls_cred *cred = NULL;
    int rc;

    api->loop = l;
    api->dispatch = &api_dispatch;
    api->audit_fd = -1;
    api->loopback_endpoints = c->loopback_endpoints;
    api->egress = c->egress;
    api->issuer = "https://kubernetes.default.svc.cluster.local";
    sw_list_init(&api->watches);
    sw_list_init(&api->futures);
    sw_list_init(&api->internals);
    api_registry_init(&api->reg);
    api->work = api_work_new(api, &(struct api_work_opts){.deadline_ns = c->work_deadline_ns}, err);
    rc = api->work ? open_store(api, c, err) : err->rc;
    if (rc == SW_OK)
        rc = open_audit(api, c, err);
    if (rc == SW_OK)
        rc = api_pki_load(api, c, &cred, err);
    if (rc == SW_OK)
        rc = start_front(api, c, cred, err);
    if (rc == SW_OK) {
        api->authz = api_authz_new(api);
        api->fair = api_fair_new(c->max_inflight, c->max_watches);
        api->revoker = api_revoker_new(api);
        api->docs = api_docs_new();
        api_crds_load(api);
        api->quota = api_quota_new(
            api, &(struct api_quota_opts){.objects = c->space_objects, .bytes = c->space_bytes});
        api->gc = api_gc_new(api);
        if (c->accounts)
            api->accounts = api_accounts_new(api, c);
        api_bootstrap(api);
        if (c->fabric_kinds)
            api_fabric_install(api);
    }
    api->cred = cred;
    if (rc == SW_OK)
        return api;
    sw_api_free(api);
    return NULL;
}

bool sw_api_ready(const struct sw_api *a)
{
    return a->phase.ready;
}

struct sw_addr sw_api_addr(const struct sw_api *a)
{
    return a->bound;
}

void sw_api_stop(struct sw_api *a, uint64_t deadline_ns, void (*on_done)(void *arg), void *arg)
{
    a->phase.stopping = true;
    api_watches_end(a, NULL);
    sw_front_stop(a->front, deadline_ns, on_done, arg);
}

/* Writes under way answer their requests: those must live until then. */
static void close_store(struct sw_api *a)
{
    struct sw_store *s = a->store;

    api_watches_end(a, NULL);
    api_gc_stop(a->gc);
    if (a->feed)
        sw_store_feed_free(a->feed);
    a->feed = NULL;
    a->store = NULL;
    if (s)
        sw_store_close(s);
    for (int i = 0; i < 1000 && a->writes; i++)
        sw_loop_turn(a->loop, 10);
}

void sw_api_free(struct sw_api *a)
{
    if (!a)
        return;
    a->phase.stopping = true;
    a->phase.closing = true;
    api_work_stop(a->work);
    api_webhooks_free(a);
    close_store(a);
    api_futures_end(a);
    sw_front_free(a->front);
    api_work_free(a->work);
    sw_defer_cancel(&a->walk.turn);
    api_gc_free(a->gc);
    SW_LIST_FOREACH (it, &a->internals)
        api_internal_drop(SW_CONTAINER_OF(it, struct api_req, link));
    api_revoker_free(a->revoker);
    api_accounts_free(a->accounts);
    api_authz_free(a->authz);
    api_fair_free(a->fair);
    api_quota_free(a->quota);
    api_docs_free(a->docs);
    api_pool_free(a->pool);
    api_policies_free(a->admission.policies);
    api_admission_metrics_free(a);
    api_registry_done(&a->reg);
    sw_ca_free(a->ca);
    sw_jws_key_free(a->token_key);
    api_tokens_done(&a->tokens);
    sw_close_indirect(&a->audit_fd);
    sw_tls_cred_unref(a->cred);
    sw_arena_clear(&a->arena);
    sw_free(a);
}
