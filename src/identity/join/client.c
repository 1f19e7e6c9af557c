/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/join/client.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/secret.h"
#include "base/time.h"
#include "base/utf8.h"
#include "http/grpc/grpc.h"
#include "identity/join/service.h"
#include "io/addr.h"
#include "io/loop.h"
#include "kube/names.h"
#include "proto/pb.h"
#include "tls/cert/cred.h"
#include "tls/cert/pemfile.h"
#include "tls/cert/x509.h"

#include <proto/join.pb-c.h>

enum { ANSWER_MAX = 1 << 20 };

static const uint64_t call_ns = 25 * SW_NS_PER_S;
static const uint64_t first_wait_ns = 200 * SW_NS_PER_MS;
static const uint64_t max_wait_ns = 3 * SW_NS_PER_S;

/* ---- roots ---- */

static int hash_of(struct sw_slice pem, uint8_t ret[SW_JOIN_HASH], struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice der = sw_pem_leaf_der(&a, pem);

    if (!der.n)
        return sw_err_set(err, SW_EINVAL, "a root certificate does not parse");
    return sw_x509_spki_sha256(der, ret, err);
}

int sw_join_root_find(struct sw_slice roots, const uint8_t hash[SW_JOIN_HASH], struct sw_slice *ret,
                      struct sw_err *err)
{
    uint8_t found[SW_JOIN_HASH];
    struct sw_slice pem;

    for (int i = 0; i < SW_TLS_ROOTS_MAX && sw_pem_next_cert(&roots, &pem) == SW_OK; i++) {
        if (hash_of(pem, found, NULL) == SW_OK && memcmp(found, hash, SW_JOIN_HASH) == 0) {
            *ret = pem;
            return SW_OK;
        }
    }
    return sw_err_set(err, SW_EDENIED,
                      "the control plane's certificate authority is not the one of the code: "
                      "interception, or a code of another fabric. The secret was "
                      "not sent");
}

int sw_join_root_hash(struct sw_slice roots, uint8_t ret[SW_JOIN_HASH], struct sw_err *err)
{
    struct sw_slice pem;

    if (sw_pem_next_cert(&roots, &pem) != SW_OK)
        return sw_err_set(err, SW_EINVAL, "there is no root certificate");
    return hash_of(pem, ret, err);
}

/* ---- one call ---- */

struct ask {
    struct sw_loop *loop;
    struct sw_buf *answer;
    enum sw_grpc_status status;
    char text[160];
    bool done;
};

static void on_message(struct sw_grpc_call *c, struct sw_slice msg, void *arg)
{
    struct ask *q = arg;

    sw_buf_clear(q->answer);
    (void)!sw_buf_append_slice(q->answer, msg);
}

static void take_status(struct ask *q, enum sw_grpc_status status, struct sw_slice message)
{
    size_t n = sw_min(message.n, sizeof(q->text) - 1);

    q->status = status;
    memcpy(q->text, message.p ? message.p : "", n);
    q->text[n] = 0;
    q->done = true;
}

static void on_done(struct sw_grpc_call *c, enum sw_grpc_status status, struct sw_slice message,
                    void *arg)
{
    struct ask *q = arg;

    take_status(q, status, message);
    sw_loop_stop(q->loop);
}

static const struct sw_grpc_ops ops = {.on_message = on_message, .on_done = on_done};

/* roots empty: the answer of any server is taken. */
static int open_client(struct sw_loop *l, struct sw_slice address, struct sw_slice roots,
                       struct sw_grpc_client **ret, struct sw_err *err)
{
    const struct sw_tls_cred_pem pem = {.roots = roots, .trust_nobody = roots.n == 0};
    struct sw_grpc_client_opts o = {.scope = "join", .insecure_skip = roots.n == 0};
    int rc = sw_authority_split(address, &o.host, &o.port, err);

    if (rc != SW_OK)
        return rc;
    o.cred = sw_tls_cred_new(&pem, err);
    if (!o.cred)
        return err->rc;
    o.max_message = ANSWER_MAX;
    *ret = sw_grpc_client_new(l, &o, err);
    (void)sw_tls_cred_unref(o.cred);
    return *ret ? SW_OK : err->rc;
}

static int outcome(const struct ask *q, const struct sw_join_at *at, struct sw_err *err)
{
    if (q->status == SW_GRPC_OK)
        return SW_OK;
    if (q->status == SW_GRPC_UNAVAILABLE || q->status == SW_GRPC_DEADLINE_EXCEEDED)
        return sw_err_set(err, SW_ETIME, "%.*s: %s", SW_SLICE_ARG_MAX(at->address, 80),
                          q->text[0] ? q->text : "no answer");
    if (q->status == SW_GRPC_RESOURCE_EXHAUSTED)
        return sw_err_set(err, SW_ELIMIT, "%s", q->text[0] ? q->text : "too many requests");
    if (q->status == SW_GRPC_UNIMPLEMENTED)
        return sw_err_set(err, SW_EPROTO, "%.*s serves no joining",
                          SW_SLICE_ARG_MAX(at->address, 80));
    return sw_err_set(err, SW_EDENIED, "%s", q->text[0] ? q->text : "refused without a reason");
}

static int ask_once(const struct sw_join_at *at, const char *method, struct sw_slice msg,
                    struct sw_buf *answer, struct sw_err *err)
{
    struct ask q = {.loop = sw_loop_new(err), .answer = answer};
    struct sw_grpc_client *client = NULL;
    struct sw_grpc_call *call;
    int rc;

    if (!q.loop)
        return err->rc;
    rc = open_client(q.loop, at->address, at->roots, &client, err);
    if (rc == SW_OK) {
        call = sw_grpc_call(client, sw_slice_str(method), at->token, call_ns, &ops, &q);
        if (sw_grpc_send(call, msg) == SW_OK)
            sw_grpc_end(call);
        while (!q.done)
            sw_loop_turn(q.loop, -1);
        rc = outcome(&q, at, err);
    }
    sw_grpc_client_free(client);
    sw_loop_free(q.loop);
    return rc;
}

/* Retries while the control plane does not answer or answers that it is busy. */
static int ask(const struct sw_join_at *at, const char *method, struct sw_slice msg,
               uint64_t until_ns, struct sw_buf *answer, struct sw_err *err)
{
    uint64_t wait = first_wait_ns;
    int rc = ask_once(at, method, msg, answer, err);

    while ((rc == SW_ETIME || rc == SW_ELIMIT) && sw_now_ns() + wait < until_ns) {
        (void)usleep((useconds_t)(wait / 1000));
        wait = sw_min(2 * wait, max_wait_ns);
        rc = ask_once(at, method, msg, answer, err);
    }
    return rc;
}

/* ---- bundles ---- */

/* False: not a text, or longer. */
static bool take(struct sw_slice text, size_t max, struct sw_slice *ret)
{
    *ret = text;
    return text.n <= max && sw_utf8_valid(text) && !memchr(text.p ? text.p : "", 0, text.n);
}

static int read_access(const Sw__JoinAccess *m, struct sw_join_bundle *b, struct sw_err *err)
{
    if (take(SW_PB_SLICE(m->server), 2048, &b->server) &&
        take(SW_PB_SLICE(m->ca), ANSWER_MAX, &b->ca) &&
        take(SW_PB_SLICE(m->token), 1 << 16, &b->token) &&
        take(SW_PB_SLICE(m->expires), 64, &b->expires) &&
        take(SW_PB_SLICE(m->xds_address), SW_JOIN_ADDRESS_MAX, &b->xds_address) &&
        take(SW_PB_SLICE(m->xds_ca), ANSWER_MAX, &b->xds_ca) && b->server.n && b->token.n)
        return SW_OK;
    return sw_err_set(err, SW_EPROTO, "the answer has no usable access to an API");
}

static int read_node(const Sw__JoinNode *m, struct sw_join_bundle *b, struct sw_err *err)
{
    if (take(SW_PB_SLICE(m->service_account), 253, &b->account) &&
        take(SW_PB_SLICE(m->cluster_id), 253, &b->cluster) &&
        take(SW_PB_SLICE(m->network), 253, &b->network) &&
        take(SW_PB_SLICE(m->address), 64, &b->address) && b->account.n)
        return SW_OK;
    return sw_err_set(err, SW_EPROTO, "the answer has no usable service account");
}

static int read_peer(const Sw__JoinPeer *m, struct sw_join_bundle *b, struct sw_err *err)
{
    if (!take(SW_PB_SLICE(m->certificate), ANSWER_MAX, &b->certificate) ||
        !take(SW_PB_SLICE(m->roots), ANSWER_MAX, &b->peer_roots) || !b->certificate.n ||
        !b->peer_roots.n || m->n_gateways > SW_JOIN_GATEWAYS_MAX)
        return sw_err_set(err, SW_EPROTO, "the answer has no usable certificate of a peer");
    for (size_t i = 0; i < m->n_gateways; i++) {
        b->gateways.at[i] = SW_PB_SLICE(m->gateways[i]);
        if (!sw_join_gateway_ok(b->gateways.at[i]))
            return sw_err_set(err, SW_EPROTO, "a gateway of the answer is not an address");
    }
    b->gateways.n = m->n_gateways;
    b->site = SW_PB_SLICE(m->site);
    if (b->site.n && sw_name_dns1123_label(b->site).n)
        return sw_err_set(err, SW_EPROTO, "the answer's site has no name of a peer");
    return SW_OK;
}

static int read_role(const Sw__JoinBundle *m, struct sw_join_bundle *b, struct sw_err *err)
{
    static const Sw__JoinBundle__RoleCase cases[] = {
        [SW_JOIN_NODE] = SW__JOIN_BUNDLE__ROLE_NODE,
        [SW_JOIN_DEVICE] = SW__JOIN_BUNDLE__ROLE_DEVICE,
        [SW_JOIN_GATEWAY] = SW__JOIN_BUNDLE__ROLE_GATEWAY,
        [SW_JOIN_PEER] = SW__JOIN_BUNDLE__ROLE_PEER,
    };

    if (m->role_case != cases[b->kind])
        return sw_err_set(err, SW_EPROTO, "the answer is not for a %s", sw_join_kind_name(b->kind));
    switch (b->kind) {
    case SW_JOIN_NODE:
        return read_node(m->node, b, err);
    case SW_JOIN_DEVICE:
        return read_access(m->device, b, err);
    case SW_JOIN_GATEWAY:
        return read_access(m->gateway, b, err);
    case SW_JOIN_PEER:
        return read_peer(m->peer, b, err);
    }
    return sw_err_set(err, SW_EPROTO, "the answer is for a kind that is not known");
}

int sw_join_bundle_read(struct sw_arena *a, struct sw_slice msg, struct sw_join_bundle *ret,
                        struct sw_err *err)
{
    const struct sw_pb_limits limits = {.bytes = ANSWER_MAX, .depth = 3};
    const Sw__JoinBundle *m = SW_PB_UNPACK(a, Sw__JoinBundle, sw__join_bundle, msg, &limits, err);
    struct sw_join_bundle b = {0};
    int rc;

    if (!m)
        return sw_err_prefix(err, "the answer does not parse");
    if (!sw_join_kind_parse(SW_PB_SLICE(m->kind), &b.kind))
        return sw_err_set(err, SW_EPROTO, "the answer is for a kind that is not known");
    if (!take(SW_PB_SLICE(m->namespace_), 253, &b.ns) ||
        !take(SW_PB_SLICE(m->name), 253, &b.name) ||
        !take(SW_PB_SLICE(m->trust_domain), 255, &b.trust_domain) ||
        !take(SW_PB_SLICE(m->roots), ANSWER_MAX, &b.roots) || !b.ns.n || !b.name.n || !b.roots.n)
        return sw_err_set(err, SW_EPROTO, "the answer lacks a name or the roots");
    rc = read_role(m, &b, err);
    if (rc == SW_OK)
        *ret = b;
    return rc;
}

static int take_bundle(struct sw_buf *answer, struct sw_arena *a, struct sw_join_bundle *ret,
                       struct sw_err *err)
{
    int rc = sw_join_bundle_read(a, sw_buf_slice(answer), ret, err);

    if (answer->p)
        explicit_bzero(answer->p, answer->cap);
    return rc;
}

/* ---- the calls ---- */

static int learn_root(const struct sw_join_code *code, uint64_t until_ns, struct sw_arena *a,
                      struct sw_slice *ret, struct sw_err *err)
{
    const struct sw_pb_limits limits = {.bytes = ANSWER_MAX, .depth = 2};
    const struct sw_join_at at = {.address = sw_slice_str(code->address)};
    SW_BUF_AUTO answer = {.max = ANSWER_MAX};
    const Sw__JoinRoots *m;
    int rc = ask(&at, SW_JOIN_ROOTS, sw_slice("", 0), until_ns, &answer, err);

    if (rc != SW_OK)
        return rc;
    m = SW_PB_UNPACK(a, Sw__JoinRoots, sw__join_roots, sw_buf_slice(&answer), &limits, err);
    if (!m)
        return sw_err_prefix(err, "the answer does not parse");
    return sw_join_root_find(SW_PB_SLICE(m->pem), code->root, ret, err);
}

static void put_self(const struct sw_join_self *self, struct sw_arena *a, Sw__JoinRequest *m)
{
    size_t n = self->gateways ? self->gateways->n : 0;

    m->csr = SW_PB_BYTES(self->csr);
    m->n_gateways = n;
    m->gateways = sw_arena_array(a, n + 1, sizeof(*m->gateways));
    for (size_t i = 0; i < n; i++)
        m->gateways[i] = SW_PB_BYTES(self->gateways->at[i]);
}

static struct sw_slice request_of(const struct sw_join_code *code, const struct sw_join_self *self,
                                  struct sw_arena *a)
{
    Sw__JoinRequest m;
    char host[254] = "";

    if (gethostname(host, sizeof(host) - 1) != 0)
        host[0] = 0;
    sw__join_request__init(&m);
    put_self(self, a, &m);
    m.id = SW_PB_BYTES(sw_slice_str(code->id));
    m.secret = SW_PB_BYTES(sw_slice(code->secret, SW_JOIN_SECRET));
    m.host = SW_PB_BYTES(sw_slice_str(host));
    return sw_pb_pack(a, &m.base);
}

int sw_join_redeem(const struct sw_join_code *code, const struct sw_join_self *self,
                   uint64_t patience_ns, struct sw_arena *a, struct sw_join_bundle *ret,
                   struct sw_err *err)
{
    uint64_t until = sw_now_ns() + patience_ns;
    struct sw_join_at at = {.address = sw_slice_str(code->address)};
    SW_BUF_AUTO answer = {.max = ANSWER_MAX};
    struct sw_slice msg;
    int rc = learn_root(code, until, a, &at.roots, err);

    if (rc != SW_OK)
        return rc;
    msg = request_of(code, self, a);
    rc = ask(&at, SW_JOIN_REDEEM, msg, until, &answer, err);
    sw_slice_wipe(msg);
    if (rc == SW_OK)
        rc = take_bundle(&answer, a, ret, err);
    if (rc == SW_OK && ret->kind != code->kind)
        rc = sw_err_set(err, SW_EPROTO, "the answer is not for what the code is for");
    return rc;
}

static struct sw_slice renewal_of(const struct sw_join_self *self, struct sw_arena *a)
{
    Sw__JoinRequest m;

    sw__join_request__init(&m);
    if (self)
        put_self(self, a, &m);
    return sw_pb_pack(a, &m.base);
}

int sw_join_renew(const struct sw_join_at *at, const struct sw_join_self *self,
                  uint64_t patience_ns, struct sw_arena *a, struct sw_join_bundle *ret,
                  struct sw_err *err)
{
    SW_BUF_AUTO answer = {.max = ANSWER_MAX};
    int rc = ask(at, SW_JOIN_RENEW, renewal_of(self, a), sw_now_ns() + patience_ns, &answer, err);

    return rc == SW_OK ? take_bundle(&answer, a, ret, err) : rc;
}

/* ---- renewal on a loop that runs ---- */

struct sw_join_renewal {
    struct ask q;
    struct sw_arena arena;
    struct sw_join_at at; /* its address, for messages */
    struct sw_grpc_client *client;
    struct sw_buf answer;
    struct sw_defer end;
    bool cancelled; /* the call ends with its client */
    sw_join_renewal_cb done;
    void *arg;
};

void sw_join_renewal_cancel(struct sw_join_renewal *r)
{
    if (!r)
        return;
    sw_defer_cancel(&r->end);
    r->cancelled = true;
    sw_grpc_client_free(r->client);
    sw_buf_done_secret(&r->answer);
    sw_arena_clear(&r->arena);
    sw_free(r);
}

/* A client is not freed in a callback of its call. */
static void on_renewal_end(struct sw_defer *d)
{
    struct sw_join_renewal *r = SW_CONTAINER_OF(d, struct sw_join_renewal, end);
    SW_ARENA_AUTO a = {0};
    sw_join_renewal_cb done = r->done;
    void *arg = r->arg;
    struct sw_join_bundle b = {0};
    struct sw_err err = {0};
    int rc = outcome(&r->q, &r->at, &err);

    if (rc == SW_OK)
        rc = take_bundle(&r->answer, &a, &b, &err);
    sw_join_renewal_cancel(r);
    done(arg, rc, rc == SW_OK ? &b : NULL, &err);
}

static void on_renewal_done(struct sw_grpc_call *c, enum sw_grpc_status status,
                            struct sw_slice message, void *arg)
{
    struct ask *q = arg;
    struct sw_join_renewal *r = SW_CONTAINER_OF(q, struct sw_join_renewal, q);

    take_status(q, status, message);
    if (!r->cancelled)
        sw_loop_defer(q->loop, &r->end, on_renewal_end);
}

static const struct sw_grpc_ops renewal_ops = {.on_message = on_message,
                                               .on_done = on_renewal_done};

struct sw_join_renewal *sw_join_renewal_start(struct sw_loop *l, const struct sw_join_at *at,
                                              const struct sw_join_self *self,
                                              sw_join_renewal_cb done, void *arg,
                                              struct sw_err *err)
{
    struct sw_join_renewal *r = SW_NEW(struct sw_join_renewal);
    struct sw_grpc_call *call;

    r->q = (struct ask){.loop = l, .answer = &r->answer};
    r->done = done;
    r->arg = arg;
    sw_buf_init(&r->answer, ANSWER_MAX);
    r->at.address = sw_arena_slice(&r->arena, at->address);
    if (open_client(l, at->address, at->roots, &r->client, err) != SW_OK) {
        sw_join_renewal_cancel(r);
        return NULL;
    }
    call = sw_grpc_call(r->client, SW_SLICE_LIT(SW_JOIN_RENEW), at->token, call_ns, &renewal_ops,
                        &r->q);
    if (sw_grpc_send(call, renewal_of(self, &r->arena)) == SW_OK)
        sw_grpc_end(call);
    return r;
}

int sw_join_leave(const struct sw_join_at *at, uint64_t patience_ns, struct sw_err *err)
{
    SW_BUF_AUTO answer = {.max = ANSWER_MAX};

    return ask(at, SW_JOIN_LEAVE, sw_slice("", 0), sw_now_ns() + patience_ns, &answer, err);
}
