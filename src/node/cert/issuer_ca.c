/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates from a certificate authority on the network, one gRPC call each. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/secret.h"
#include "base/time.h"
#include "node/cert/ca_answer.h"
#include "node/cert/channel.h"
#include "node/cert/issuer.h"
#include "tls/cert/csr.h"

enum {
    CALL_S = 10,
    KEY_MAX = 4096,
    CSR_MAX = 8192,
};
#define METHOD "/istio.v1.auth.IstioCertificateService/CreateCertificate"

struct ca {
    struct sw_issuer base;
    struct sw_loop *loop;
    struct sw_channel *channel;
    bool impersonate;
};

struct call {
    struct ca *ca;
    struct sw_issue *issue;
    struct sw_grpc_call *grpc; /* NULL: it could not be started */
    struct sw_buf key;         /* of the request; wiped at the end */
    struct sw_tls_cred *cred;  /* of the answer */
    struct sw_err err;
    struct sw_defer fail;
};

static void call_free(struct call *c)
{
    c->issue->call = NULL;
    sw_defer_cancel(&c->fail);
    sw_buf_done_secret(&c->key);
    (void)sw_tls_cred_unref(c->cred);
    sw_free(c);
}

/* Ends the call and calls the asker back. */
static void finish(struct call *c)
{
    struct sw_issue *i = c->issue;
    struct sw_tls_cred *cred = c->cred;
    struct sw_err err = c->err;

    c->cred = NULL;
    call_free(c);
    i->cb(i, cred, &err);
}

static void on_message(struct sw_grpc_call *grpc, struct sw_slice msg, void *arg)
{
    struct call *c = arg;
    struct sw_ca_expect e = {
        .identity = c->issue->identity, .key = sw_buf_slice(&c->key), .crl = c->issue->crl};

    if (c->cred || c->err.rc != SW_OK)
        return; /* a unary call has one answer */
    c->cred = sw_ca_answer(msg, &e, &c->err);
}

/* Asked again sooner than an authority that answers. */
static bool no_answer(enum sw_grpc_status status)
{
    return status == SW_GRPC_UNAVAILABLE || status == SW_GRPC_DEADLINE_EXCEEDED;
}

static void on_done(struct sw_grpc_call *grpc, enum sw_grpc_status status, struct sw_slice message,
                    void *arg)
{
    struct call *c = arg;

    c->grpc = NULL;
    if (status != SW_GRPC_OK) {
        c->cred = sw_tls_cred_unref(c->cred);
        (void)sw_err_set(&c->err, no_answer(status) ? SW_EUNAVAIL : SW_EDENIED,
                         "%s: status %d%s%.*s", c->ca->base.name, (int)status,
                         message.n ? ": " : "", SW_SLICE_ARG_MAX(message, 100));
    } else if (!c->cred) {
        if (c->err.rc == SW_OK)
            (void)sw_err_set(&c->err, SW_EPROTO, "call ended without an answer");
        (void)sw_err_prefix(&c->err, "%s", c->ca->base.name);
    }
    finish(c);
}

static const struct sw_grpc_ops ops = {.on_message = on_message, .on_done = on_done};

static void on_fail(struct sw_defer *d)
{
    finish(SW_CONTAINER_OF(d, struct call, fail));
}

static int send_request(struct call *c)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO csr = {.max = CSR_MAX};
    struct sw_slice none = sw_slice("", 0);
    struct sw_slice msg;
    int rc = sw_csr_new(c->issue->identity, &csr, &c->key, &c->err);

    if (rc != SW_OK)
        return rc;
    c->grpc = sw_channel_call(c->ca->channel, SW_SLICE_LIT(METHOD), CALL_S * SW_NS_PER_S, &ops, c,
                              &c->err);
    if (!c->grpc)
        return SW_EINVAL;
    msg = sw_ca_request(&a, sw_buf_slice(&csr), c->issue->ttl_s,
                        c->ca->impersonate ? c->issue->identity : none);
    rc = sw_grpc_send(c->grpc, msg);
    if (rc != SW_OK) {
        sw_grpc_cancel(c->grpc);
        c->grpc = NULL;
        return sw_err_set(&c->err, rc, "cannot queue the request");
    }
    sw_grpc_end(c->grpc);
    return SW_OK;
}

static void start(struct sw_issuer *x, struct sw_issue *i)
{
    struct call *c = SW_NEW(struct call);

    c->ca = SW_CONTAINER_OF(x, struct ca, base);
    c->issue = i;
    sw_buf_init(&c->key, KEY_MAX);
    i->call = c;
    if (send_request(c) != SW_OK)
        sw_loop_defer(c->ca->loop, &c->fail, on_fail);
}

static void cancel(struct sw_issuer *x, struct sw_issue *i)
{
    struct call *c = i->call;

    if (c->grpc)
        sw_grpc_cancel(c->grpc);
    call_free(c);
}

static void ca_free(struct sw_issuer *x)
{
    struct ca *ca = SW_CONTAINER_OF(x, struct ca, base);

    sw_channel_free(ca->channel);
    sw_free(ca);
}

static const struct sw_issuer_ops issuer_ops = {.start = start, .cancel = cancel, .free = ca_free};

struct sw_issuer *sw_issuer_ca_new(struct sw_loop *l, const struct sw_issuer_ca_opts *o,
                                   struct sw_err *err)
{
    struct sw_channel_opts co = {
        .scope = "certs",
        .address = o->address,
        .root = o->root,
        .alt_name = o->alt_name,
        .token = o->token,
        .machine = o->machine,
        .cluster_id = o->cluster_id,
        .mark = o->mark,
        .header_prefix = "CA_HEADER_",
    };
    struct sw_channel *channel = sw_channel_new(l, &co, err);
    struct ca *ca;

    if (!channel)
        return NULL;
    ca = SW_NEW(struct ca);
    ca->base = (struct sw_issuer){.ops = &issuer_ops, .name = sw_channel_name(channel)};
    ca->loop = l;
    ca->channel = channel;
    ca->impersonate = o->impersonate;
    return &ca->base;
}
