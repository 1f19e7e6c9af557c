/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/join/service.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/time.h"
#include "identity/authority.h"
#include "identity/join/request.h"
#include "identity/join/service_int.h"
#include "kube/client/client.h"
#include "kube/client/kinds.h"
#include "proto/pb.h"
#include "telemetry/metrics.h"
#include "tls/cert/csr.h"
#include "tls/crypto/jws.h"

#include <proto/join.pb-c.h>

enum {
    CALLS_MAX = 256,
    CALLS_ADDRESS = 64, /* of one address, which so cannot take all */
    SPKI_MAX = 1024,
};

static const uint64_t patience_ns = 20 * SW_NS_PER_S;
static const uint64_t again_ns = 20 * SW_NS_PER_MS;

static const struct {
    const char *path;
    const char *name; /* for the log */
} methods[METHODS] = {
    [METHOD_ROOTS] = {SW_JOIN_ROOTS, "roots"},
    [METHOD_REDEEM] = {SW_JOIN_REDEEM, "redeem"},
    [METHOD_RENEW] = {SW_JOIN_RENEW, "renew"},
    [METHOD_LEAVE] = {SW_JOIN_LEAVE, "leave"},
};

/* ---- the end of a call ---- */

static void count(const struct sw_join_service *s, const char *result)
{
    sw_metric_count(s->o.metrics, SW_METRIC_JOIN_REQUESTS, result);
}

static const char *result_of(enum sw_grpc_status status)
{
    if (status == SW_GRPC_UNAVAILABLE || status == SW_GRPC_INTERNAL)
        return "failed";
    return status == SW_GRPC_RESOURCE_EXHAUSTED ? "limited" : "refused";
}

static void log_refusal(struct join_call *c, const char *why)
{
    char addr[SW_ADDR_TEXT];
    struct sw_log_limit *limit = &c->service->refused;
    struct sw_log_line l;

    if (!sw_log_limit_take(limit, sw_loop_now(c->service->loop)))
        return;
    sw_log_begin(&l, SW_LOG_WARN, "join", "join request refused");
    sw_log_cstr(&l, "client", sw_addr_text(&c->addr, addr));
    sw_log_cstr(&l, "method", methods[c->method].name);
    if (c->r.id.n)
        sw_log_quoted(&l, "code", sw_slice_head(c->r.id, SW_JOIN_ID_MAX));
    if (c->r.name.n)
        sw_log_str(&l, "name", c->r.name);
    sw_log_cstr(&l, "reason", why);
    sw_log_limit_put(limit, &l);
    sw_log_end(&l);
}

void join_refuse(struct join_call *c, enum sw_grpc_status status, const char *text, const char *why)
{
    struct sw_join_service *s = c->service;
    const char *result = result_of(status);

    c->answered = true;
    if (strcmp(result, "refused") == 0)
        sw_join_throttle_refused(&s->throttle, &c->addr.ip, sw_loop_now(s->loop));
    log_refusal(c, why);
    count(s, result);
    sw_grpc_finish(c->grpc, status, "%s", text);
}

void join_reply(struct join_call *c, struct sw_slice msg, const char *result)
{
    char addr[SW_ADDR_TEXT];

    c->answered = true;
    count(c->service, result);
    sw_log_limited(&c->service->granted, sw_loop_now(c->service->loop), SW_LOG_INFO, "join",
                   "%s %s: %s '%.*s' of namespace %.*s, code %.*s", sw_addr_text(&c->addr, addr),
                   result, sw_join_kind_name(c->r.kind), SW_SLICE_ARG(c->r.name),
                   SW_SLICE_ARG(c->r.ns), SW_SLICE_ARG(c->r.id));
    sw_grpc_reply(c->grpc, msg);
}

/* ---- redeeming ---- */

static void keep_record(struct join_call *c, const struct sw_join_record *r)
{
    struct sw_arena *a = &c->arena;

    c->r = *r;
    c->r.id = sw_arena_slice(a, r->id);
    c->r.ns = sw_arena_slice(a, r->ns);
    c->r.uid = sw_arena_slice(a, r->uid);
    c->r.rv = sw_arena_slice(a, r->rv);
    c->r.name = sw_arena_slice(a, r->name);
    c->r.account = sw_arena_slice(a, r->account);
    c->r.network = sw_arena_slice(a, r->network);
    c->r.address = sw_arena_slice(a, r->address);
    c->r.labels = r->labels ? sw_json_copy(a, r->labels) : NULL;
    c->r.server = sw_arena_slice(a, r->server);
    c->r.ca = sw_arena_slice(a, r->ca);
    c->r.xds_address = sw_arena_slice(a, r->xds_address);
    c->r.xds_ca = sw_arena_slice(a, r->xds_ca);
    c->r.key = sw_arena_slice(a, r->key);
}

static void process(struct join_call *c);

static void on_again(struct sw_timer *t)
{
    struct join_call *c = SW_CONTAINER_OF(t, struct join_call, again);

    c->r = (struct sw_join_record){0}; /* read anew, into an arena that does not grow with it */
    sw_arena_clear(&c->arena);
    process(c);
}

static void on_redeemed(void *arg, struct sw_kube_reply *r)
{
    struct join_call *c = arg;
    struct sw_err err = {0};

    c->kube = NULL;
    if (r->rc == SW_OK) {
        join_grant(c);
    } else if (r->code == 409) {
        /* Another replica, or another machine, was first: what they wrote decides. */
        sw_timer_start(c->service->loop, &c->again, again_ns, on_again);
    } else if (r->code == 404) {
        join_refuse(c, SW_GRPC_PERMISSION_DENIED, "the code was revoked", "its record is deleted");
    } else {
        (void)sw_err_set(&err, r->rc, "cannot write the record: %.*s",
                         SW_SLICE_ARG_MAX(r->message, 120));
        join_refuse(c, SW_GRPC_UNAVAILABLE, "the control plane cannot write now", err.msg);
    }
}

/* One write that only succeeds on what was read: it is the moment at which one machine has it. */
static void redeem(struct join_call *c, struct sw_slice host, struct sw_slice key)
{
    char at[SW_RFC3339_LEN];
    char from[SW_ADDR_TEXT];

    c->r.key = key;
    c->r.redeemed_at = sw_arena_slice(&c->arena, sw_slice_str(sw_rfc3339(sw_wall_ns(), 0, at)));
    c->r.from = sw_arena_slice(&c->arena, sw_slice_str(sw_ip_text(&c->addr.ip, from)));
    c->r.host = host;
    c->kube = sw_kube_do(c->service->o.client,
                         &(struct sw_kube_req){.verb = SW_KUBE_PATCH,
                                               .gvr = &sw_secrets_gvr,
                                               .ns = c->r.ns,
                                               .name = sw_join_record_name(&c->r),
                                               .patch = SW_KUBE_PATCH_MERGE,
                                               .body = sw_join_record_redeem(&c->arena, &c->r),
                                               .field_manager = "spanwire-join"},
                         on_redeemed, c);
}

/* A code that is unknown and one with another secret differ in the log only. */
static void refuse_unknown(struct join_call *c, const char *why)
{
    join_refuse(c, SW_GRPC_PERMISSION_DENIED,
                "unknown join code: never created here, revoked, or with another secret", why);
}

static int read_key(struct join_call *c, struct sw_slice csr, struct sw_slice *ret,
                    struct sw_err *err)
{
    SW_BUF_AUTO spki = {.max = SPKI_MAX};
    struct sw_jws_key *key;
    int rc = sw_csr_public_key(csr, &spki, err);

    if (rc != SW_OK)
        return rc;
    key = sw_jws_key_public(sw_buf_slice(&spki), err);
    if (!key)
        return err->rc;
    sw_jws_key_free(key);
    *ret = sw_arena_slice(&c->arena, sw_buf_slice(&spki));
    return SW_OK;
}

static void judge(struct join_call *c, const struct sw_join *j, const struct sw_join_request *req)
{
    char hash[65];
    enum sw_join_verdict v;
    struct sw_slice key = {0};
    struct sw_err err = {0};

    sw_join_secret_hash(req->secret, hash);
    v = sw_join_judge(&j->r, hash, sw_slice("", 0), sw_wall_ns() / SW_NS_PER_S);
    if (v == SW_JOIN_WRONG) {
        refuse_unknown(c, sw_join_verdict_text(v));
        return;
    }
    if (read_key(c, req->csr, &key, &err) != SW_OK) {
        join_refuse(c, SW_GRPC_INVALID_ARGUMENT, err.msg, err.msg);
        return;
    }
    v = sw_join_judge(&j->r, hash, key, sw_wall_ns() / SW_NS_PER_S);
    c->csr = req->csr;
    c->gateways = req->gateways;
    keep_record(c, &j->r);
    if (v == SW_JOIN_FIRST && c->r.kind == SW_JOIN_PEER && !c->service->o.peers)
        join_refuse(c, SW_GRPC_FAILED_PRECONDITION,
                    "this control plane has no certificate authority for peers",
                    "no certificate authority for peers");
    else if (v == SW_JOIN_FIRST && c->r.kind == SW_JOIN_PEER &&
             sw_joins_has_peer(c->service->o.joins, c->r.name))
        join_refuse(c, SW_GRPC_FAILED_PRECONDITION,
                    "a site of this name has joined: after 'spanwire token delete' of its code, "
                    "join again with this one",
                    "the name is another site's");
    else if (v == SW_JOIN_FIRST)
        redeem(c, req->host, key);
    else if (v == SW_JOIN_AGAIN)
        join_grant(c);
    else
        join_refuse(c, SW_GRPC_PERMISSION_DENIED, sw_join_verdict_text(v), sw_join_verdict_text(v));
}

static void process_redeem(struct join_call *c)
{
    struct sw_join_request req;
    struct sw_err err = {0};
    const struct sw_join *j;

    if (sw_join_request_read(&c->arena, sw_buf_slice(&c->request), &req, &err) != SW_OK) {
        join_refuse(c, SW_GRPC_INVALID_ARGUMENT, "malformed request", err.msg);
        return;
    }
    c->r = (struct sw_join_record){.id = req.id};
    j = sw_joins_find(c->service->o.joins, req.id);
    if (!j && !sw_joins_synced(c->service->o.joins))
        join_refuse(c, SW_GRPC_UNAVAILABLE, "the control plane is starting",
                    "records were not read yet");
    else if (!j)
        refuse_unknown(c, "no such record");
    else
        judge(c, j, &req);
}

/* ---- machines that joined ---- */

static void on_left(void *arg, struct sw_kube_reply *r)
{
    struct join_call *c = arg;
    struct sw_err err = {0};

    c->kube = NULL;
    if (r->rc == SW_OK || r->code == 404) {
        join_reply(c, sw_slice("", 0), "left");
        return;
    }
    (void)sw_err_set(&err, r->rc, "cannot delete the record: %.*s",
                     SW_SLICE_ARG_MAX(r->message, 120));
    join_refuse(c, SW_GRPC_UNAVAILABLE, "the control plane cannot write now", err.msg);
}

/* A peer's certificate is for the key that joined, and for no other. */
static int read_renewal(struct join_call *c, struct sw_err *err)
{
    struct sw_join_request req;
    struct sw_slice key;
    int rc = sw_join_renewal_read(&c->arena, sw_buf_slice(&c->request), &req, err);

    if (rc == SW_OK)
        rc = read_key(c, req.csr, &key, err);
    if (rc != SW_OK)
        return rc;
    if (!sw_slice_eq(key, c->r.key))
        return sw_err_set(err, SW_EINVAL, "the request is not for the key that joined");
    c->csr = req.csr;
    c->gateways = req.gateways;
    return SW_OK;
}

static void process_renew(struct join_call *c)
{
    struct sw_err err = {0};

    if (c->r.kind == SW_JOIN_PEER && read_renewal(c, &err) != SW_OK)
        join_refuse(c, SW_GRPC_INVALID_ARGUMENT, err.msg, err.msg);
    else
        join_grant(c);
}

static void process_machine(struct join_call *c)
{
    const struct sw_join *j = NULL;
    struct sw_err err = {0};
    struct sw_slice token = c->token ? sw_slice_str(c->token) : sw_slice("", 0);
    int rc = sw_joins_check(c->service->o.joins, token, &j, &err);

    if (rc != SW_OK) {
        join_refuse(c, rc == SW_ETIME ? SW_GRPC_UNAVAILABLE : SW_GRPC_UNAUTHENTICATED,
                    rc == SW_ETIME ? "the control plane is starting" : err.msg, err.msg);
        return;
    }
    keep_record(c, &j->r);
    if (c->method == METHOD_RENEW) {
        process_renew(c);
        return;
    }
    c->kube = sw_kube_do(c->service->o.client,
                         &(struct sw_kube_req){.verb = SW_KUBE_DELETE,
                                               .gvr = &sw_secrets_gvr,
                                               .ns = c->r.ns,
                                               .name = sw_join_record_name(&c->r),
                                               .propagation = "Background",
                                               .if_uid = c->r.uid},
                         on_left, c);
}

static void process_roots(struct join_call *c)
{
    Sw__JoinRoots m;

    sw__join_roots__init(&m);
    m.pem = SW_PB_BYTES(sw_authority_roots(c->service->o.authority));
    c->answered = true;
    sw_grpc_reply(c->grpc, sw_pb_pack(&c->arena, &m.base));
}

static void process(struct join_call *c)
{
    if (c->answered)
        return;
    if (c->method == METHOD_ROOTS)
        process_roots(c);
    else if (c->method == METHOD_REDEEM)
        process_redeem(c);
    else
        process_machine(c);
}

/* ---- calls ---- */

static void on_message(struct sw_grpc_call *g, struct sw_slice msg, void *arg)
{
    struct join_call *c = arg;

    if (c->answered)
        return;
    if (c->has || sw_buf_append_slice(&c->request, msg) != SW_OK)
        join_refuse(c, SW_GRPC_INVALID_ARGUMENT, "more than one message, or too large",
                    "more than one message, or too large");
    c->has = true;
}

static void on_end(struct sw_grpc_call *g, void *arg)
{
    process(arg);
}

static void on_deadline(struct sw_timer *t)
{
    struct join_call *c = SW_CONTAINER_OF(t, struct join_call, deadline);

    if (!c->answered)
        join_refuse(c, SW_GRPC_UNAVAILABLE, "the control plane did not answer in time",
                    "the API did not answer in time, or the request never ended");
}

static void on_done(struct sw_grpc_call *g, enum sw_grpc_status status, struct sw_slice message,
                    void *arg)
{
    struct join_call *c = arg;

    sw_timer_stop(c->service->loop, &c->deadline);
    sw_timer_stop(c->service->loop, &c->again);
    sw_kube_call_cancel(c->kube);
    sw_list_unlink(&c->link);
    c->service->n_calls--;
    if (c->token)
        sw_free_secret(c->token, strlen(c->token));
    sw_buf_done_secret(&c->request);
    sw_arena_clear(&c->arena);
    sw_free(c);
}

static const struct sw_grpc_ops ops = {
    .on_message = on_message, .on_end = on_end, .on_done = on_done};

static bool is_full(const struct sw_join_service *s, const struct sw_ip *from)
{
    size_t n = 0;

    SW_LIST_EACH (const struct join_call, c, &s->calls, link)
        n += sw_ip_same_client(&c->addr.ip, from);
    return s->n_calls >= CALLS_MAX || n >= CALLS_ADDRESS;
}

static void open_call(struct sw_grpc_call *g, const struct sw_grpc_request *req, void *arg)
{
    const struct join_entry *entry = arg;
    struct sw_join_service *s = entry->service;
    struct join_call *c;

    if (is_full(s, &req->addr.ip)) {
        count(s, "limited");
        sw_grpc_finish(g, SW_GRPC_RESOURCE_EXHAUSTED, "too many machines join at once");
        return;
    }
    c = SW_NEW(struct join_call);
    c->service = s;
    c->grpc = g;
    c->method = entry->method;
    c->addr = req->addr;
    c->token = req->token.n ? sw_slice_dup(req->token) : NULL;
    sw_buf_init(&c->request, SW_JOIN_REQUEST_MAX);
    sw_list_push_back(&s->calls, &c->link);
    s->n_calls++;
    sw_grpc_set_max(g, SW_JOIN_REQUEST_MAX);
    sw_grpc_accept(g, &ops, c);
    sw_timer_start(s->loop, &c->deadline, patience_ns, on_deadline);
    if (!sw_join_throttle_ok(&s->throttle, &c->addr.ip, sw_loop_now(s->loop)))
        join_refuse(c, SW_GRPC_RESOURCE_EXHAUSTED, "too many refused requests: wait a few seconds",
                    "too many refused requests of this address");
}

/* ---- life ---- */

struct sw_join_service *sw_join_service_new(struct sw_loop *l, const struct sw_join_service_opts *o)
{
    struct sw_join_service *s = SW_NEW(struct sw_join_service);

    s->loop = l;
    s->o = *o;
    sw_list_init(&s->calls);
    return s;
}

void sw_join_service_free(struct sw_join_service *s)
{
    if (!s)
        return;
    sw_join_throttle_done(&s->throttle);
    sw_free(s);
}

void sw_join_service_serve(struct sw_join_service *s, struct sw_grpc_server *g)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(methods); i++) {
        s->entries[i] = (struct join_entry){.service = s, .method = (enum join_method)i};
        sw_grpc_server_methods(
            g,
            &(struct sw_grpc_method){
                .path = methods[i].path, .open = open_call, .arg = &s->entries[i], .judges = true},
            1);
    }
}
