/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/service.h"

#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/share.h"
#include "base/time.h"
#include "http/grpc/grpc.h"
#include "identity/authority.h"
#include "identity/issued.h"
#include "identity/nodes.h"
#include "identity/quota.h"
#include "identity/tokens.h"
#include "proto/pb.h"
#include "telemetry/metrics.h"
#include "tls/cert/ca.h"
#include "tls/cert/spiffe.h"
#include "tls/peer.h"

#include <proto/workload.pb-c.h>

#define PATH "/istio.v1.auth.IstioCertificateService/CreateCertificate"

enum {
    REQUEST_MAX = 128 << 10, /* bytes */
    WAITING_MAX = 1024,      /* calls whose tokens are being reviewed */
    CHAIN_FIELD = 1,
    ANSWER_MAX = 4 << 20,
};

static const uint64_t patience_ns = 10 * SW_NS_PER_S; /* for a review */

struct sw_ca_service {
    struct sw_loop *loop;
    struct sw_ca_service_opts o;
    struct sw_list calls;
    size_t n_calls;
    struct sw_quota quota;
    struct sw_log_limit strangers; /* lines about callers that were not authenticated */
    struct sw_log_limit callers;   /* about those that were */
};

/* One request. */
struct call {
    struct sw_list link;
    struct sw_ca_service *service;
    struct sw_grpc_call *grpc;
    struct sw_timer timer;
    struct sw_addr addr;
    const struct sw_tls_peer *cert; /* as long as the connection */
    char *token;                    /* wiped at the end; NULL: none */
    struct sw_buf request;
    struct sw_caller machine; /* who it is, if it is one */
    bool foreign;             /* of a cluster that is not ours */
    bool has;                 /* the message was received */
    bool complete;            /* and nothing follows it */
    bool answered;
};

/* Who asks, for what: what a refusal logs. */
struct asking {
    const struct sw_caller *who; /* NULL: authenticated by certificate, or not at all */
    struct sw_slice own;         /* the caller's identity, if known */
    struct sw_slice id;          /* the identity asked for */
};

struct sw_ca_service *sw_ca_service_new(struct sw_loop *l, const struct sw_ca_service_opts *o)
{
    struct sw_ca_service *s = SW_NEW(struct sw_ca_service);

    s->loop = l;
    s->o = *o;
    s->o.ttl_s = o->ttl_s ? o->ttl_s : 86400;
    s->o.max_ttl_s = o->max_ttl_s ? o->max_ttl_s : UINT64_C(90) * 86400;
    sw_list_init(&s->calls);
    return s;
}

void sw_ca_service_free(struct sw_ca_service *s)
{
    if (!s)
        return;
    sw_quota_done(&s->quota);
    sw_free(s);
}

static void count(const struct sw_ca_service *s, const char *result)
{
    sw_metric_count(s->o.metrics, SW_METRIC_CA_REQUESTS, result);
}

/* --- refusals --- */

static void log_refusal(struct sw_ca_service *s, const struct sw_addr *addr, const struct asking *a,
                        enum sw_grpc_status status, struct sw_slice why)
{
    struct sw_log_limit *limit = a->own.n ? &s->callers : &s->strangers;
    char text[SW_ADDR_TEXT];
    struct sw_log_line l;

    count(s, status == SW_GRPC_UNAUTHENTICATED    ? "unauthenticated"
             : status == SW_GRPC_INVALID_ARGUMENT ? "invalid"
                                                  : "failed");
    if (!sw_log_limit_take(limit, sw_loop_now(s->loop)))
        return;
    sw_log_begin(&l, SW_LOG_WARN, "ca", "certificate request refused");
    sw_log_cstr(&l, "client", sw_addr_text(addr, text));
    if (a->own.n)
        sw_log_str(&l, "caller", a->own);
    if (a->who && a->who->pod.n)
        sw_log_str(&l, "pod", a->who->pod);
    if (a->id.n)
        sw_log_str(&l, "identity", sw_slice_head(a->id, SW_SPIFFE_MAX));
    sw_log_str(&l, "reason", why);
    sw_log_limit_put(limit, &l);
    sw_log_end(&l);
}

static void refuse(struct call *c, const struct asking *a, enum sw_grpc_status status,
                   const char *text, const char *why)
{
    c->answered = true;
    log_refusal(c->service, &c->addr, a, status, sw_slice_str(why));
    sw_grpc_finish(c->grpc, status, "%s", text);
}

/* --- signing --- */

static struct sw_slice impersonated(const Sw__IstioCertificateRequest *req)
{
    const Sw__Struct *m = req->metadata;

    for (size_t i = 0; m && i < m->n_fields; i++) {
        const Sw__Value *v = m->fields[i]->value;

        if (v && v->kind_case == SW__VALUE__KIND_STRING_VALUE &&
            sw_slice_eq_str(SW_PB_SLICE(m->fields[i]->key), "ImpersonatedIdentity"))
            return SW_PB_SLICE(v->string_value);
    }
    return sw_slice("", 0);
}

static int record(const struct sw_ca_service *s, const struct asking *a,
                  const struct sw_ca_signed *done, struct sw_err *err)
{
    const struct sw_issued_cert c = {.serial = sw_slice_str(done->serial),
                                     .id = a->id,
                                     .requester = a->own,
                                     .not_after_s = done->not_after_s};

    return s->o.issued ? sw_issued_add(s->o.issued, &c, err) : SW_OK;
}

/* Leaf, issuers one by one, and all roots in the last element. */
static int put_chain(const struct sw_ca_service *s, struct sw_slice leaf, struct sw_buf *out)
{
    const struct sw_slice *chain;
    size_t n = sw_authority_chain(s->o.authority, &chain);
    int rc = sw_pb_put_bytes(out, CHAIN_FIELD, leaf);

    for (size_t i = 0; i < n && rc == SW_OK; i++) {
        rc = sw_pb_put_head(out, CHAIN_FIELD, chain[i].n + 1);
        if (rc == SW_OK)
            rc = sw_buf_append_slice(out, chain[i]);
        if (rc == SW_OK)
            rc = sw_buf_putc(out, '\n');
    }
    return rc == SW_OK ? sw_pb_put_bytes(out, CHAIN_FIELD, sw_authority_roots(s->o.authority)) : rc;
}

static void refuse_signing(struct call *c, const struct asking *a, int rc, const struct sw_err *err)
{
    struct sw_err text;

    (void)sw_err_set(&text, rc, "CSR signing error (%s)", err->msg);
    refuse(c, a, rc == SW_EINVAL ? SW_GRPC_INVALID_ARGUMENT : SW_GRPC_INTERNAL, text.msg, err->msg);
}

/* Not only on record: that is in a pod's memory where there is no volume for it. */
static void log_issued(const struct asking *a, const struct sw_ca_signed *done)
{
    char end[SW_RFC3339_LEN];
    struct sw_log_line l;

    sw_log_begin(&l, SW_LOG_INFO, "ca", "certificate issued");
    sw_log_cstr(&l, "serial", done->serial);
    sw_log_str(&l, "identity", a->id);
    sw_log_str(&l, "caller", a->own);
    if (a->who && a->who->pod.n)
        sw_log_str(&l, "pod", a->who->pod);
    sw_log_cstr(&l, "expires", sw_rfc3339(done->not_after_s * SW_NS_PER_S, 0, end));
    sw_log_end(&l);
}

static void sign(struct call *c, const struct asking *a, const Sw__IstioCertificateRequest *req)
{
    const struct sw_ca_service *s = c->service;
    SW_BUF_AUTO leaf = {.max = SW_TLS_PEM_MAX};
    SW_BUF_AUTO out = {.max = ANSWER_MAX};
    uint64_t ttl = req->validity_duration > 0 ? (uint64_t)req->validity_duration : s->o.ttl_s;
    struct sw_ca_signed done;
    struct sw_err err = {0};
    int rc = SW_OK;

    if (ttl > s->o.max_ttl_s)
        rc = sw_err_set(&err, SW_EINVAL, "requested TTL of %llu s is more than %llu s",
                        (unsigned long long)ttl, (unsigned long long)s->o.max_ttl_s);
    if (rc == SW_OK)
        rc = sw_authority_sign(s->o.authority, &(struct sw_ca_leaf){.id = a->id, .ttl_s = ttl},
                               SW_PB_SLICE(req->csr), &leaf, &done, &err);
    if (rc == SW_OK)
        rc = record(s, a, &done, &err);
    if (rc == SW_OK && put_chain(s, sw_buf_slice(&leaf), &out) != SW_OK)
        rc = sw_err_set(&err, SW_ELIMIT, "the chain is too long");
    if (rc != SW_OK) {
        refuse_signing(c, a, rc, &err);
        return;
    }
    c->answered = true;
    count(s, "issued");
    log_issued(a, &done);
    sw_grpc_reply(c->grpc, sw_buf_slice(&out));
}

/* --- who asks --- */

/* SW_OK with the caller in *a, SW_EPENDING, SW_ETIME or SW_EDENIED. */
static int authenticate(struct call *c, struct asking *a, struct sw_arena *arena,
                        struct sw_err *err)
{
    const struct sw_ca_service *s = c->service;
    const struct sw_tls_peer_id *peer = c->cert ? sw_tls_peer_identity(c->cert) : NULL;
    struct sw_slice td = sw_authority_trust_domain(s->o.authority);
    int rc;

    if (peer && sw_nodes_own_domain(s->o.nodes, peer->id.trust_domain)) {
        a->own = peer->uri;
        if (s->o.by_certificate && sw_wall_ns() / SW_NS_PER_S <= c->cert->not_after_s)
            return SW_OK;
        if (!c->token)
            return sw_err_set(err, SW_EDENIED, "a certificate does not renew itself: no token");
    }
    if (c->foreign)
        return sw_err_set(err, SW_EDENIED, "clusterid names another cluster");
    rc = s->o.machine ? s->o.machine(s->o.machine_arg, sw_slice_str(c->token), &c->machine, err)
                      : SW_ENOENT;
    if (rc == SW_OK)
        a->who = &c->machine;
    else if (rc == SW_ENOENT)
        rc = sw_tokens_check(s->o.tokens, sw_slice_str(c->token), &a->who, err);
    if (rc == SW_OK)
        a->own =
            sw_slice_str(sw_arena_printf(arena, "spiffe://%.*s/ns/%.*s/sa/%.*s", SW_SLICE_ARG(td),
                                         SW_SLICE_ARG(a->who->ns), SW_SLICE_ARG(a->who->account)));
    return rc;
}

/* May the caller have what it asks for? */
static int authorise(const struct call *c, struct asking *a, struct sw_slice wanted,
                     struct sw_err *err)
{
    a->id = a->own;
    if (wanted.n == 0)
        return SW_OK;
    a->id = wanted;
    if (!a->who)
        return sw_err_set(err, SW_EDENIED, "a certificate does not say which pod the caller is");
    if (a->who == &c->machine) /* a node's account would not make it one */
        return sw_slice_eq(wanted, a->own)
                   ? SW_OK
                   : sw_err_set(err, SW_EDENIED, "a machine has no identity but its own");
    return sw_nodes_may_impersonate(c->service->o.nodes, a->who, wanted, err);
}

/* Node proxies of all nodes have one account: their pods tell them apart. */
static bool within_quota(struct call *c, const struct asking *a, struct sw_arena *arena)
{
    struct sw_slice pod = a->who ? a->who->pod_uid : sw_slice("", 0);
    const char *caller =
        sw_arena_printf(arena, "%.*s %.*s", SW_SLICE_ARG(a->own), SW_SLICE_ARG(pod));

    return sw_quota_take(&c->service->quota, sw_slice_str(caller), sw_loop_now(c->service->loop));
}

static void process(struct call *c)
{
    const struct sw_pb_limits limits = {.bytes = REQUEST_MAX, .depth = 16};
    const Sw__IstioCertificateRequest *req;
    SW_ARENA_AUTO arena = {0};
    struct asking a = {0};
    struct sw_err err = {0};
    int rc;

    if (c->answered || !c->complete)
        return;
    rc = authenticate(c, &a, &arena, &err);
    if (rc == SW_EPENDING)
        return;
    if (rc == SW_ETIME) {
        refuse(c, &a, SW_GRPC_UNAVAILABLE, "tokens cannot be reviewed now", err.msg);
        return;
    }
    if (rc != SW_OK) {
        refuse(c, &a, SW_GRPC_UNAUTHENTICATED, "request authenticate failure", err.msg);
        return;
    }
    req = SW_PB_UNPACK(&arena, Sw__IstioCertificateRequest, sw__istio_certificate_request,
                       sw_buf_slice(&c->request), &limits, &err);
    if (!req)
        refuse(c, &a, SW_GRPC_INVALID_ARGUMENT, "malformed request", err.msg);
    else if ((rc = authorise(c, &a, impersonated(req), &err)) == SW_OK &&
             !within_quota(c, &a, &arena))
        refuse(c, &a, SW_GRPC_RESOURCE_EXHAUSTED, "too many certificates requested: retry later",
               "the caller requested too many certificates");
    else if (rc == SW_OK)
        sign(c, &a, req);
    else if (rc != SW_EPENDING)
        refuse(c, &a, SW_GRPC_UNAUTHENTICATED, "request impersonation authentication failure",
               err.msg);
}

void sw_ca_service_recheck(struct sw_ca_service *s)
{
    SW_LIST_EACH (struct call, c, &s->calls, link)
        process(c);
}

/* --- calls --- */

static void on_message(struct sw_grpc_call *g, struct sw_slice msg, void *arg)
{
    struct call *c = arg;
    SW_ARENA_AUTO arena = {0};
    struct asking a = {0};
    struct sw_err err = {0};

    if (c->answered)
        return;
    if (c->has || sw_buf_append_slice(&c->request, msg) != SW_OK) {
        (void)authenticate(c, &a, &arena, &err); /* for the log: who, if that is known by now */
        refuse(c, &a, SW_GRPC_INVALID_ARGUMENT, "more than one message, or too large",
               "more than one message, or too large");
    }
    c->has = true;
}

static void on_end(struct sw_grpc_call *g, void *arg)
{
    struct call *c = arg;

    c->complete = true;
    process(c);
}

static void on_timer(struct sw_timer *t)
{
    struct call *c = SW_CONTAINER_OF(t, struct call, timer);

    if (!c->answered)
        refuse(c, &(struct asking){0}, SW_GRPC_UNAVAILABLE, "tokens cannot be reviewed now",
               "the API did not answer in time for the token review or the list of pods");
}

static void on_done(struct sw_grpc_call *g, enum sw_grpc_status status, struct sw_slice message,
                    void *arg)
{
    struct call *c = arg;

    if (!c->answered) /* whose certificate it was is of a connection that may be gone */
        log_refusal(c->service, &c->addr, &(struct asking){0}, SW_GRPC_RESOURCE_EXHAUSTED,
                    message.n ? message
                              : SW_SLICE_LIT("the client ended the call before it was answered"));
    sw_timer_stop(c->service->loop, &c->timer);
    sw_list_unlink(&c->link);
    c->service->n_calls--;
    if (c->token)
        sw_free_secret(c->token, strlen(c->token));
    sw_buf_done(&c->request);
    sw_free(c);
}

static const struct sw_grpc_ops ops = {
    .on_message = on_message, .on_end = on_end, .on_done = on_done};

/* Calls of strangers wait, too: one client leaves places for the others. */
static bool has_place(const struct sw_ca_service *s, const struct sw_ip *from)
{
    size_t own = 0;

    SW_LIST_EACH (const struct call, c, &s->calls, link)
        own += sw_ip_same_client(&c->addr.ip, from);
    return sw_share_left(own, s->n_calls, WAITING_MAX);
}

static void open_call(struct sw_grpc_call *g, const struct sw_grpc_request *req, void *arg)
{
    struct sw_ca_service *s = arg;
    struct sw_slice cluster = sw_h2_head_get(req->head, "clusterid");
    struct call *c;

    if (!has_place(s, &req->addr.ip)) {
        log_refusal(s, &req->addr, &(struct asking){0}, SW_GRPC_RESOURCE_EXHAUSTED,
                    SW_SLICE_LIT("too many requests wait for the API's answers"));
        sw_grpc_finish(g, SW_GRPC_RESOURCE_EXHAUSTED, "too many requests wait");
        return;
    }
    c = SW_NEW(struct call);
    c->service = s;
    c->grpc = g;
    c->addr = req->addr;
    c->cert = req->cert;
    c->token = req->token.n ? sw_slice_dup(req->token) : NULL;
    sw_buf_init(&c->request, REQUEST_MAX);
    c->foreign = cluster.n && s->o.cluster.n && !sw_slice_eq(cluster, s->o.cluster);
    sw_list_push_back(&s->calls, &c->link);
    s->n_calls++;
    sw_grpc_set_max(g, REQUEST_MAX);
    sw_grpc_accept(g, &ops, c);
    sw_timer_start(s->loop, &c->timer, patience_ns, on_timer);
}

void sw_ca_service_serve(struct sw_ca_service *s, struct sw_grpc_server *g)
{
    const struct sw_grpc_method m = {.path = PATH, .open = open_call, .arg = s, .judges = true};

    sw_grpc_server_methods(g, &m, 1);
}
