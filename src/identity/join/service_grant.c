/* SPDX-License-Identifier: Apache-2.0 */
/* What a machine gets: by its kind a WorkloadEntry, a token of its account, or a certificate. */

#include "base/secret.h"
#include "identity/authority.h"
#include "identity/join/service_int.h"
#include "io/egress.h"
#include "kube/client/client.h"
#include "kube/client/kinds.h"
#include "kube/client/review.h"
#include "proto/pb.h"
#include "tls/cert/cred.h"

#include <proto/join.pb-c.h>

#define ISTIO "networking.istio.io"

enum { TOKEN_TTL_S = 30 * 86400 };

static const struct sw_kube_gvr entries = {ISTIO, "v1", "workloadentries", "WorkloadEntry", true};
static const struct sw_kube_gvr accounts = {"", "v1", "serviceaccounts", "ServiceAccount", true};
static const struct sw_kube_gvr token_requests = {"authentication.k8s.io", "v1", "", "TokenRequest",
                                                  false};

/* ---- the answer ---- */

static void init_bundle(const struct join_call *c, Sw__JoinBundle *b)
{
    const struct sw_authority *ca = c->service->o.authority;

    sw__join_bundle__init(b);
    b->kind = SW_PB_BYTES(sw_slice_str(sw_join_kind_name(c->r.kind)));
    b->namespace_ = SW_PB_BYTES(c->r.ns);
    b->name = SW_PB_BYTES(c->r.name);
    b->trust_domain = SW_PB_BYTES(sw_authority_trust_domain(ca));
    b->roots = SW_PB_BYTES(sw_authority_roots(ca));
}

static void send_msg(struct join_call *c, struct sw_slice msg)
{
    join_reply(c, msg, c->method == METHOD_RENEW ? "renewed" : "joined");
    sw_slice_wipe(msg); /* a copy is on its way */
}

static void send_bundle(struct join_call *c, const Sw__JoinBundle *b)
{
    send_msg(c, sw_pb_pack(&c->arena, &b->base));
}

static void fail(struct join_call *c, const struct sw_kube_reply *r, const char *what)
{
    struct sw_err err = {0};

    (void)sw_err_set(&err, r->rc, "cannot %s: %.*s", what, SW_SLICE_ARG_MAX(r->message, 140));
    join_refuse(c, r->code == 0 || r->code >= 500 ? SW_GRPC_UNAVAILABLE : SW_GRPC_INTERNAL,
                "the control plane cannot create credentials; its log has the reason", err.msg);
}

/* ---- nodes ---- */

static struct sw_slice address_of(struct join_call *c)
{
    char text[SW_IP_TEXT];

    return c->r.address.n ? c->r.address
                          : sw_arena_slice(&c->arena, sw_slice_str(sw_ip_text(&c->addr.ip, text)));
}

static void apply_entry(struct join_call *c, bool force);

static void refuse_entry(struct join_call *c)
{
    join_refuse(c, SW_GRPC_FAILED_PRECONDITION,
                "a WorkloadEntry of this name exists and is another's: delete it, then join "
                "again with the same code",
                "the WorkloadEntry exists and is another's");
}

static bool is_owner(const struct sw_json *entry, struct sw_slice uid)
{
    const struct sw_json *owners = sw_json_walk(entry, "metadata", "ownerReferences", NULL);

    return sw_json_find_item(owners, "uid", uid) != NULL;
}

/* What others wrote into the machine's own entry is put right; an entry of another is not. */
static void on_current(void *arg, struct sw_kube_reply *r)
{
    struct join_call *c = arg;

    c->kube = NULL;
    if (r->rc != SW_OK)
        fail(c, r, "read the WorkloadEntry");
    else if (is_owner(r->object, c->r.uid))
        apply_entry(c, true);
    else
        refuse_entry(c);
}

static void on_entry(void *arg, struct sw_kube_reply *r)
{
    struct join_call *c = arg;
    Sw__JoinBundle b;
    Sw__JoinNode n;

    c->kube = NULL;
    if (r->code == 409 && c->method == METHOD_RENEW && !c->forced) {
        c->kube = sw_kube_get(c->service->o.client, &entries, c->r.ns, c->r.name, on_current, c);
        return;
    }
    if (r->code == 409) {
        refuse_entry(c);
        return;
    }
    if (r->rc != SW_OK) {
        fail(c, r, "write the WorkloadEntry");
        return;
    }
    init_bundle(c, &b);
    sw__join_node__init(&n);
    n.service_account = SW_PB_BYTES(c->r.account);
    n.cluster_id = SW_PB_BYTES(c->service->o.cluster);
    n.network = SW_PB_BYTES(c->r.network);
    n.address = SW_PB_BYTES(address_of(c));
    b.role_case = SW__JOIN_BUNDLE__ROLE_NODE;
    b.node = &n;
    send_bundle(c, &b);
}

static struct sw_json *entry_of(struct join_call *c)
{
    struct sw_arena *a = &c->arena;
    struct sw_json *o = sw_kube_object_new(a, &entries, c->r.ns, c->r.name);
    struct sw_json *meta = sw_json_find(o, "metadata");
    struct sw_json *spec;

    /* Its proxy takes HBONE. */
    sw_json_put_text(a, sw_json_put_object(a, meta, "annotations"), "ambient.istio.io/redirection",
                     "enabled");
    sw_json_push(a, sw_json_put_array(a, meta, "ownerReferences"), sw_join_record_owner(a, &c->r));
    if (c->r.labels)
        sw_json_put(a, meta, "labels", sw_json_copy(a, c->r.labels));
    spec = sw_json_put_object(a, o, "spec");
    sw_json_put_str(a, spec, "address", address_of(c));
    sw_json_put_str(a, spec, "serviceAccount", c->r.account);
    if (c->r.labels)
        sw_json_put(a, spec, "labels", sw_json_copy(a, c->r.labels));
    if (c->r.network.n)
        sw_json_put_str(a, spec, "network", c->r.network);
    return o;
}

/* A manager of its own: of another machine's entry nothing is taken over. */
static void apply_entry(struct join_call *c, bool force)
{
    const char *manager = sw_arena_printf(&c->arena, "spanwire-join-%.*s", SW_SLICE_ARG(c->r.uid));

    c->forced = force;
    c->kube =
        sw_kube_apply(c->service->o.client,
                      &(struct sw_kube_apply){
                          .gvr = &entries, .obj = entry_of(c), .manager = manager, .force = force},
                      on_entry, c);
}

static void grant_node(struct join_call *c)
{
    /* An address that others cannot reach it by would only lead them astray. */
    if (!c->r.address.n && sw_egress_classify(&c->addr.ip) != SW_EGRESS_OK) {
        join_refuse(c, SW_GRPC_FAILED_PRECONDITION,
                    "the machine calls from an address that others cannot reach: make the code "
                    "with --address",
                    "the caller's address is of no use to others");
        return;
    }
    apply_entry(c, false);
}

/* ---- devices and gateways ---- */

static void on_token(void *arg, struct sw_kube_reply *r)
{
    struct join_call *c = arg;
    const struct sw_json *status = sw_json_find(r->object, "status");
    struct sw_slice token = sw_json_str(sw_json_find(status, "token"));
    Sw__JoinBundle b;
    Sw__JoinAccess n;

    c->kube = NULL;
    if (r->rc != SW_OK || !token.n) {
        fail(c, r, "get a token of its ServiceAccount");
        return;
    }
    init_bundle(c, &b);
    sw__join_access__init(&n);
    n.server = SW_PB_BYTES(c->r.server);
    n.ca = SW_PB_BYTES(c->r.ca);
    n.token = SW_PB_BYTES(token);
    n.expires = SW_PB_BYTES(sw_json_str(sw_json_find(status, "expirationTimestamp")));
    n.xds_address = SW_PB_BYTES(c->r.xds_address);
    n.xds_ca = SW_PB_BYTES(c->r.xds_ca);
    b.role_case =
        c->r.kind == SW_JOIN_DEVICE ? SW__JOIN_BUNDLE__ROLE_DEVICE : SW__JOIN_BUNDLE__ROLE_GATEWAY;
    b.device = &n;
    send_bundle(c, &b);
}

/* Bound to the record: when it is deleted, the token is void. */
static void grant_access(struct join_call *c)
{
    struct sw_arena *a = &c->arena;
    struct sw_json *spec;
    struct sw_json *o = sw_kube_review_new(a, &token_requests, &spec);

    sw_json_put(a, spec, "expirationSeconds", sw_json_new_u64(a, TOKEN_TTL_S));
    sw_json_put(a, spec, "boundObjectRef", sw_join_record_owner(a, &c->r));
    c->kube = sw_kube_do(c->service->o.client,
                         &(struct sw_kube_req){.verb = SW_KUBE_CREATE,
                                               .gvr = &accounts,
                                               .ns = c->r.ns,
                                               .name = c->r.account,
                                               .sub = "token",
                                               .body = o},
                         on_token, c);
}

/* ---- peers ---- */

static void on_peer(void *arg, struct sw_kube_reply *r)
{
    struct join_call *c = arg;

    c->kube = NULL;
    if (r->code == 409)
        join_refuse(c, SW_GRPC_FAILED_PRECONDITION,
                    "a Peer of this name exists, with other gateways: delete it, then join again "
                    "with the same code",
                    "the Peer exists and is another's");
    else if (r->rc != SW_OK)
        fail(c, r, "write the Peer");
    else
        send_msg(c, c->msg);
}

/* The Peer is there before the site gets its certificate. */
static void announce_peer(struct join_call *c)
{
    const struct sw_join_peers *p = c->service->o.peers;
    struct sw_json *o;

    if (!c->gateways.n || !p->object) {
        send_msg(c, c->msg);
        return;
    }
    o = p->object(p->arg, &c->arena, c->r.name, &c->gateways);
    c->kube = sw_kube_apply(
        c->service->o.client,
        &(struct sw_kube_apply){.gvr = p->gvr, .obj = o, .manager = "spanwire-join"}, on_peer, c);
}

static void grant_peer(struct join_call *c)
{
    const struct sw_join_peers *p = c->service->o.peers;
    SW_BUF_AUTO certificate = {.max = SW_TLS_PEM_MAX};
    SW_BUF_AUTO roots = {.max = SW_TLS_PEM_MAX};
    struct sw_join_peer_cert cert = {.certificate = &certificate, .roots = &roots};
    struct sw_err err = {0};
    Sw__JoinBundle b;
    Sw__JoinPeer n;
    size_t count = 0;

    if (!p) {
        join_refuse(c, SW_GRPC_FAILED_PRECONDITION,
                    "this control plane has no certificate authority for peers",
                    "no certificate authority for peers");
        return;
    }
    if (p->sign(p->arg, c->r.name, c->csr, &cert, &err) != SW_OK) {
        join_refuse(c, SW_GRPC_INTERNAL, "the certificate of the peer could not be signed",
                    err.msg);
        return;
    }
    init_bundle(c, &b);
    sw__join_peer__init(&n);
    n.certificate = SW_PB_BYTES(sw_buf_slice(&certificate));
    n.roots = SW_PB_BYTES(sw_buf_slice(&roots));
    while (cert.gateways && cert.gateways[count])
        count++;
    n.n_gateways = count;
    n.gateways = sw_arena_array(&c->arena, count + 1, sizeof(*n.gateways));
    for (size_t i = 0; i < count; i++)
        n.gateways[i] = SW_PB_BYTES(sw_slice_str(cert.gateways[i]));
    n.site = SW_PB_BYTES(sw_slice_str(cert.site ? cert.site : ""));
    b.role_case = SW__JOIN_BUNDLE__ROLE_PEER;
    b.peer = &n;
    c->msg = sw_pb_pack(&c->arena, &b.base);
    announce_peer(c);
}

void join_grant(struct join_call *c)
{
    switch (c->r.kind) {
    case SW_JOIN_NODE:
        grant_node(c);
        break;
    case SW_JOIN_DEVICE:
    case SW_JOIN_GATEWAY:
        grant_access(c);
        break;
    case SW_JOIN_PEER:
        grant_peer(c);
        break;
    }
}
