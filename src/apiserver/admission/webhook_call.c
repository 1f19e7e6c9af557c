/* SPDX-License-Identifier: Apache-2.0 */
/* One call of a webhook: where it is, the connection to it, the review and its answer. */
#include <stdio.h>
#include <string.h>

#include "apiserver/admission/admission_request.h"
#include "apiserver/admission/webhook.h"
#include "apiserver/admission/webhook_int.h"
#include "base/base64.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/client.h"
#include "kube/client/transport.h"
#include "tls/cert/cred.h"

enum { CLIENTS_MAX = 64, CONNS_MAX = 32 };
static const uint64_t request_max_ns = 34 * SW_NS_PER_S; /* of a write, all its calls together */

/* Connections to one address, under one name and one authority. */
struct hook_client {
    struct sw_list link;
    char *key;
    struct sw_http_client *http;
    size_t calls;
};

struct api_hooks {
    struct sw_api *api;
    struct sw_list clients; /* used last comes last */
    size_t nclients;
    struct sw_defer sweep;
};

static struct api_hooks *hooks_of(struct sw_api *api)
{
    if (!api->admission.hooks) {
        api->admission.hooks = SW_NEW(struct api_hooks);
        api->admission.hooks->api = api;
        sw_list_init(&api->admission.hooks->clients);
    }
    return api->admission.hooks;
}

/* --- where ------------------------------------------------------------------------------ */

struct place {
    struct sw_slice host;
    uint16_t port;
    struct sw_slice path;
    struct sw_slice tls_name;
    struct sw_slice authority; /* as it is shown, and sent as Host */
    bool service;              /* host is what a Service or its EndpointSlices say */
};

/* The port of a slice that belongs to a port of the Service; 0 when it has none. */
static uint16_t slice_port(const struct sw_json *slice, const struct sw_json *port)
{
    const struct sw_json *list = sw_json_find(slice, "ports");
    struct sw_slice want = api_str(port, "name");

    SW_JSON_ITEMS (p, list) {
        int64_t n = 0;

        if (sw_slice_eq(api_str(p, "name"), want) && sw_json_i64(sw_json_find(p, "port"), &n) &&
            n > 0 && n <= 65535)
            return (uint16_t)n;
    }
    return 0;
}

/* A ready endpoint of the slice; those that do not say are. */
static struct sw_slice ready_address(const struct sw_json *slice)
{
    const struct sw_json *list = sw_json_find(slice, "endpoints");

    SW_JSON_ITEMS (e, list) {
        const struct sw_json *ready = sw_json_walk(e, "conditions", "ready", NULL);
        const struct sw_json *first = sw_json_find(e, "addresses");

        if ((!ready || sw_json_true(ready)) && sw_json_len(first))
            return sw_json_str(sw_json_at(first, 0));
    }
    return sw_slice("", 0);
}

static bool find_endpoint(struct api_req *r, struct sw_slice ns, struct sw_slice service,
                          const struct sw_json *port, struct place *p)
{
    const struct api_res *res = api_registry_v1(&r->api->reg, "discovery.k8s.io", "endpointslices");

    SW_STORE_EACH (o, r->snap, api_prefix(r->arena, res, ns)) {
        const struct sw_json *slice;
        const struct sw_json *of;

        if (!memmem(o->value.p, o->value.n, service.p, service.n))
            continue;
        slice = api_load(r->arena, res, o);
        of = sw_json_walk(slice, "metadata", "labels", "kubernetes.io/service-name", NULL);
        if (!of || !sw_slice_eq(sw_json_str(of), service))
            continue;
        p->host = ready_address(slice);
        p->port = slice_port(slice, port);
        if (p->host.n && p->port)
            return true;
    }
    return false;
}

/* A Service: its ready endpoints, or the name it stands for. */
static const char *find_service(struct api_req *r, const struct sw_json *ref, struct place *p)
{
    struct sw_slice ns = api_str(ref, "namespace");
    struct sw_slice name = api_str(ref, "name");
    const struct sw_json *svc =
        api_in_snap(r, api_registry_core(&r->api->reg, "services"), ns, name);
    const struct sw_json *ports = sw_json_walk(svc, "spec", "ports", NULL);
    const struct sw_json *port = NULL;
    int64_t want = 443;

    if (!sw_json_i64(sw_json_find(ref, "port"), &want))
        want = 443;
    p->service = true;
    p->path = api_str(ref, "path").n ? api_str(ref, "path") : SW_SLICE_LIT("/");
    p->tls_name = sw_slice_str(
        sw_arena_printf(r->arena, "%.*s.%.*s.svc", SW_SLICE_ARG(name), SW_SLICE_ARG(ns)));
    p->authority = sw_slice_str(
        sw_arena_printf(r->arena, "%.*s:%lld", SW_SLICE_ARG(p->tls_name), (long long)want));
    if (!svc)
        return sw_arena_printf(r->arena, "service \"%.*s\" not found", SW_SLICE_ARG(name));
    if (sw_json_str_eq(sw_json_walk(svc, "spec", "type", NULL), "ExternalName")) {
        p->host = sw_json_str(sw_json_walk(svc, "spec", "externalName", NULL));
        p->port = (uint16_t)want;
        return p->host.n ? NULL : "service has no external name";
    }
    SW_JSON_ITEMS (it, ports) {
        int64_t n = 0;

        if (sw_json_i64(sw_json_find(it, "port"), &n) && n == want)
            port = it;
    }
    if (!port)
        return sw_arena_printf(r->arena, "no service port %lld found for service \"%.*s\"",
                               (long long)want, SW_SLICE_ARG(name));
    if (!find_endpoint(r, ns, name, port, p))
        return sw_arena_printf(r->arena, "no endpoints available for service \"%.*s\"",
                               SW_SLICE_ARG(name));
    return NULL;
}

static const char *find_place(struct api_req *r, const struct sw_json *cc, struct place *p)
{
    struct sw_slice url = api_str(cc, "url");
    const char *why = NULL;

    if (!url.n)
        return find_service(r, sw_json_find(cc, "service"), p);
    if (!sw_hook_url_split(r->arena, url, &p->host, &p->port, &p->path, &why))
        return why;
    p->tls_name = p->host;
    p->authority = sw_slice_str(
        sw_arena_printf(r->arena, "%.*s:%u", SW_SLICE_ARG(p->host), (unsigned)p->port));
    return NULL;
}

/* --- connections ------------------------------------------------------------------------ */

static void client_free(struct api_hooks *all, struct hook_client *c)
{
    sw_list_unlink(&c->link);
    all->nclients--;
    sw_http_client_free(c->http);
    sw_free(c->key);
    sw_free(c);
}

/* Idle ones above the bound go, from the loop: none is inside a callback then. */
static void on_sweep(struct sw_defer *d)
{
    struct api_hooks *all = SW_CONTAINER_OF(d, struct api_hooks, sweep);

    SW_LIST_EACH (struct hook_client, c, &all->clients, link) {
        if (all->nclients > CLIENTS_MAX && !c->calls)
            client_free(all, c);
    }
}

/* The authority of the configuration, or those of the system. */
static struct sw_tls_cred *make_cred(struct sw_slice bundle, struct sw_err *err)
{
    SW_BUF_AUTO pem = {.max = SW_TLS_PEM_MAX};
    struct sw_slice roots = {0};
    struct sw_tls_cred *cred = NULL;

    if (bundle.n) {
        if (sw_base64_decode(&pem, bundle) != SW_OK) {
            (void)sw_err_set(err, SW_EINVAL, "caBundle is not base64");
            return NULL;
        }
        return sw_tls_cred_new(
            &(struct sw_tls_cred_pem){.roots = sw_buf_slice(&pem), .any_identity = true}, err);
    }
    if (sw_kube_system_roots(&roots, err) == SW_OK)
        cred =
            sw_tls_cred_new(&(struct sw_tls_cred_pem){.roots = roots, .any_identity = true}, err);
    sw_free_secret((void *)(uintptr_t)roots.p, roots.n);
    return cred;
}

static struct hook_client *client_for(struct api_req *r, const struct place *p,
                                      struct sw_slice bundle, struct sw_err *err)
{
    struct api_hooks *all = hooks_of(r->api);
    const char *key = sw_arena_printf(r->arena, "%.*s %u %d %.*s %.*s %.*s", SW_SLICE_ARG(p->host),
                                      (unsigned)p->port, p->service, SW_SLICE_ARG(p->tls_name),
                                      SW_SLICE_ARG(p->authority), SW_SLICE_ARG(bundle));
    struct sw_http_client_opts o = {.scope = "webhook",
                                    .host = p->host,
                                    .port = p->port,
                                    .tls = true,
                                    .tls_name = p->tls_name,
                                    .host_header = p->authority,
                                    .max_conns = CONNS_MAX,
                                    .egress = p->service ? r->api->egress : NULL};
    struct hook_client *c;

    SW_LIST_EACH (struct hook_client, known, &all->clients, link) {
        if (strcmp(known->key, key) != 0)
            continue;
        sw_list_unlink(&known->link);
        sw_list_push_back(&all->clients, &known->link);
        return known;
    }
    o.cred = make_cred(bundle, err);
    if (!o.cred)
        return NULL;
    c = SW_NEW(struct hook_client);
    c->http = sw_http_client_new(r->api->loop, &o, err);
    sw_tls_cred_unref(o.cred);
    if (!c->http) {
        sw_free(c);
        return NULL;
    }
    c->key = sw_slice_dup(sw_slice_str(key));
    sw_list_push_back(&all->clients, &c->link);
    if (++all->nclients > CLIENTS_MAX)
        sw_loop_defer(r->api->loop, &all->sweep, on_sweep);
    return c;
}

void api_webhooks_free(struct sw_api *api)
{
    struct api_hooks *all = api->admission.hooks;

    api->admission.hook_set = hook_set_unref(api->admission.hook_set);
    if (!all)
        return;
    sw_defer_cancel(&all->sweep);
    SW_LIST_FOREACH (it, &all->clients)
        client_free(all, SW_CONTAINER_OF(it, struct hook_client, link));
    sw_free(all);
    api->admission.hooks = NULL;
}

/* --- the review ------------------------------------------------------------------------- */

static struct sw_slice review_text(struct hook_call *c)
{
    struct api_req *r = c->q.r;
    struct sw_arena *a = r->arena;
    struct sw_json *req = sw_admission_request(r, c->q.op, c->as);
    struct sw_json *object = sw_admission_object(r, c->as, c->q.object);
    struct sw_json *old = sw_admission_object(r, c->as, c->q.old);

    sw_json_put(a, req, "uid", sw_json_new_str(a, c->uid));
    sw_json_put(a, req, "object", object ? object : sw_json_new_null(a));
    sw_json_put(a, req, "oldObject", old ? old : sw_json_new_null(a));
    return sw_json_text(a,
                        SW_JSON_OF(a, {"kind", .str = "AdmissionReview"},
                                   {"apiVersion", .str = "admission.k8s.io/v1"},
                                   {"request", .json = req}),
                        NULL);
}

/* --- the call --------------------------------------------------------------------------- */

static void on_head(struct sw_http_call *call, const struct sw_h1_msg *msg, void *arg)
{
    struct hook_call *c = arg;

    c->status = msg->status;
}

static void on_body(struct sw_http_call *call, struct sw_slice data, void *arg)
{
    struct hook_call *c = arg;

    if (sw_buf_append_slice(&c->body, data) != SW_OK)
        c->why = "response is too long";
}

static const char *read_answer(struct hook_call *c, int rc, const struct sw_err *err)
{
    struct api_req *r = c->q.r;
    const struct sw_review_sent sent = {.api_version = "admission.k8s.io/v1",
                                        .uid = sw_slice_str(c->uid),
                                        .mutating = c->hook->mutating};
    struct sw_err bad = {0};

    if (rc == SW_ETIME)
        return sw_arena_printf(r->arena, "failed to call webhook: context deadline exceeded");
    if (rc != SW_OK)
        return sw_arena_printf(r->arena, "failed to call webhook: %s", err ? err->msg : "");
    if (c->why)
        return sw_arena_printf(r->arena, "failed to call webhook: %s", c->why);
    if (c->status != 200)
        return sw_arena_printf(r->arena, "failed to call webhook: HTTP status %d", c->status);
    if (sw_review_parse(r->arena, sw_buf_slice(&c->body), &sent, &c->answer, &bad) != SW_OK)
        return sw_arena_printf(r->arena, "received invalid webhook response: %s", bad.msg);
    return NULL;
}

static void on_done(struct sw_http_call *call, int rc, const struct sw_err *err, void *arg)
{
    struct hook_call *c = arg;

    c->client->calls--;
    c->why = read_answer(c, rc, err);
    sw_buf_done(&c->body);
    if (!c->why && !c->answer.allowed)
        hook_count(c->q.r->api, c->hook, API_HOOK_REJECTED);
    c->done(c);
}

/* What is left of the time a write may take. */
static uint64_t time_left(const struct api_req *r, const struct hook *h)
{
    const struct api_req *asker = sw_admission_asker(r);
    uint64_t spent = sw_now_ns() - asker->begin_ns;
    uint64_t most = (uint64_t)h->timeout_s * SW_NS_PER_S;

    if (spent >= request_max_ns)
        return 1;
    return sw_min(most, request_max_ns - spent);
}

bool hook_call_start(struct hook_call *c)
{
    struct api_req *r = c->q.r;
    const struct sw_json *cc = sw_json_find(c->hook->def, "clientConfig");
    struct sw_h1_field fields[] = {
        {SW_SLICE_LIT("Content-Type"), SW_SLICE_LIT("application/json")},
        {SW_SLICE_LIT("Accept"), SW_SLICE_LIT("application/json")},
        {SW_SLICE_LIT("User-Agent"), SW_SLICE_LIT("kube-apiserver-admission")}};
    struct sw_http_call_opts o = {.method = SW_SLICE_LIT("POST"),
                                  .fields = fields,
                                  .nfields = SW_ARRAY_LEN(fields),
                                  .has_body = true,
                                  .timeout_ns = time_left(r, c->hook),
                                  .body_max = SW_REVIEW_BODY_MAX,
                                  .on_head = on_head,
                                  .on_body = on_body,
                                  .on_done = on_done,
                                  .arg = c};
    struct sw_err err = {0};
    struct place p = {0};

    hook_count(r->api, c->hook, API_HOOK_CALLED);
    c->uid = api_uuid(r->arena);
    c->body = (struct sw_buf){.max = SW_REVIEW_BODY_MAX};
    c->why = find_place(r, cc, &p);
    if (c->why)
        return false;
    c->client = client_for(r, &p, api_str(cc, "caBundle"), &err);
    o.target = sw_slice_str(sw_arena_printf(r->arena, "%.*s?timeout=%llds", SW_SLICE_ARG(p.path),
                                            (long long)c->hook->timeout_s));
    o.body = review_text(c);
    if (c->client && sw_http_call_start(c->client->http, &o, &err)) {
        c->client->calls++;
        return true;
    }
    c->why = sw_arena_printf(r->arena, "failed to call webhook: %s", err.msg);
    return false;
}

bool hook_call_failed(struct hook_call *c)
{
    hook_count(c->q.r->api, c->hook, API_HOOK_FAILED);
    sw_log_warn("webhook", "webhook '%.*s' of '%.*s' failed: %s; the request is %s (failurePolicy)",
                SW_SLICE_ARG(c->hook->name), SW_SLICE_ARG(c->hook->config), c->why,
                c->hook->fail ? "refused" : "admitted");
    return !c->hook->fail;
}
