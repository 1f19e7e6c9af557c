/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/mesh_xds.h"

#include <stdlib.h>

#include "base/dirs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cmd/control/join.h"
#include "cmd/control/xds_status.h"
#include "control/trust.h"
#include "identity/authority.h"
#include "identity/issued.h"
#include "identity/nodes.h"
#include "identity/pods.h"
#include "identity/service.h"
#include "identity/tokens.h"
#include "io/loop.h"
#include "kube/client/informer.h"
#include "proto/types.h"
#include "tls/cert/cred.h"
#include "tls/peer.h"
#include "xds/server.h"

#define AUDIENCE "istio-ca"

enum { INITIAL_MAX = 200 << 20, MAX_CONNS = 8192, MAX_STREAMS = 16384, MAX_NAMES = 2000000 };

/* The server's certificate is good for 30 days. */
static const uint64_t renew_ns = UINT64_C(10) * 86400 * SW_NS_PER_S;

static const struct sw_kube_gvr pods_gvr = {"", "v1", "pods", "Pod", true};

struct sw_control_mesh_xds {
    const struct sw_control_mesh_xds_opts *o;
    struct sw_loop *loop;
    struct sw_authority *authority;
    struct sw_tokens *tokens;
    struct sw_pods *pods;
    struct sw_informer *informer;
    struct sw_nodes *nodes;
    struct sw_issued *issued;
    struct sw_kube_client *client;
    struct sw_metrics_shard *metrics; /* may be NULL */
    struct sw_trust *trust;           /* writes the roots into every namespace */
    struct sw_trust *crl;             /* and the revocation list; NULL: there never was one */
    struct sw_ca_service *ca;
    struct sw_control_join *join; /* machines outside the cluster; NULL: they do not join */
    struct sw_xds_cache *cache;
    struct sw_xds_server *server;
    char *join_host;       /* name of the certificate for machines; NULL: none */
    const char **names;    /* of the certificate; ends with NULL */
    const char **accounts; /* ends with NULL */
    const char **aliases;  /* ends with NULL */
    struct sw_timer renew;
    struct sw_addr bound;
};

/* ---- who may connect ---- */

/* A connection may outlive the certificate that it was made with. */
static bool trusted_cert(const struct sw_control_mesh_xds *m, const struct sw_tls_peer *cert)
{
    const struct sw_tls_peer_id *id = cert ? sw_tls_peer_identity(cert) : NULL;

    return id && sw_wall_ns() / SW_NS_PER_S <= cert->not_after_s &&
           sw_nodes_own_domain(m->nodes, id->id.trust_domain) &&
           sw_nodes_trusted(m->nodes, id->id.ns, id->id.sa);
}

static int allow(void *arg, const struct sw_xds_client_id *id, struct sw_err *err)
{
    struct sw_control_mesh_xds *m = arg;
    struct sw_caller machine;
    const struct sw_caller *who;
    int rc;

    if (trusted_cert(m, id->cert))
        return SW_OK;
    rc = sw_control_join_node(m->join, id->token, &machine, err);
    if (rc != SW_ENOENT)
        return rc;
    rc = sw_tokens_check(m->tokens, id->token, &who, err);
    if (rc != SW_OK)
        return rc;
    if (sw_nodes_trusted(m->nodes, who->ns, who->account))
        return SW_OK;
    return sw_err_set(err, SW_ENOENT, "%.*s/%.*s is not an account of node proxies",
                      SW_SLICE_ARG(who->ns), SW_SLICE_ARG(who->account));
}

static bool revoked(void *arg, const struct sw_xds_client_id *id, struct sw_err *err)
{
    struct sw_control_mesh_xds *m = arg;
    int rc;

    if (trusted_cert(m, id->cert))
        return false;
    if (id->token.n == 0)
        return sw_err_set(err, SW_EDENIED, "its certificate has expired") != SW_OK;
    rc = sw_control_join_review(m->join, id->token, err);
    return rc == SW_ENOENT ? !sw_tokens_still_good(m->tokens, id->token, err) : rc != SW_OK;
}

static struct sw_xds_cache *select_cache(void *arg, const struct sw_xds_client_id *id,
                                         struct sw_err *err)
{
    struct sw_control_mesh_xds *m = arg;
    const struct sw_caller *who = sw_tokens_owner(m->tokens, id->token);
    const struct sw_tls_peer_id *peer = id->cert ? sw_tls_peer_identity(id->cert) : NULL;
    struct sw_caller other = {0};

    if (trusted_cert(m, id->cert)) {
        other = (struct sw_caller){.ns = peer->id.ns, .account = peer->id.sa};
        who = &other;
    } else if (sw_control_join_node(m->join, id->token, &other, NULL) == SW_OK) {
        who = &other;
    }
    if (!who) {
        (void)sw_err_set(err, SW_EDENIED, "the token is not good any more");
        return NULL;
    }
    return sw_nodes_check_id(id->node_id, id->node_ns, id->node_sa, who, err) == SW_OK ? m->cache
                                                                                       : NULL;
}

static void on_machine_gone(void *arg)
{
    struct sw_control_mesh_xds *m = arg;

    if (m->server)
        sw_xds_server_review(m->server);
}

static void on_answer(void *arg, bool changed)
{
    struct sw_control_mesh_xds *m = arg;

    if (m->server)
        sw_xds_server_recheck(m->server);
    if (m->server && changed)
        sw_xds_server_review(m->server);
    if (m->ca)
        sw_ca_service_recheck(m->ca);
}

/* ---- pods ---- */

static void put_pod(struct sw_control_mesh_xds *m, const struct sw_kube_obj *o)
{
    const struct sw_json *spec = sw_json_find(o->json, "spec");
    struct sw_slice account = sw_json_str(sw_json_find(spec, "serviceAccountName"));
    struct sw_slice phase = sw_json_str(sw_json_walk(o->json, "status", "phase", NULL));
    const struct sw_pod_info pod = {.ns = o->ns,
                                    .name = o->name,
                                    .uid = o->uid,
                                    .account = account.n ? account : SW_SLICE_LIT("default"),
                                    .node = sw_json_str(sw_json_find(spec, "nodeName")),
                                    .failed = sw_slice_eq_str(phase, "Failed")};

    sw_pods_set(m->pods, &pod);
}

static void on_pod(void *arg, struct sw_kube_obj *o)
{
    put_pod(arg, o);
}

static void on_pod_changed(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now)
{
    put_pod(arg, now);
}

static void on_pod_gone(void *arg, struct sw_kube_obj *o)
{
    struct sw_control_mesh_xds *m = arg;

    sw_pods_del(m->pods, o->ns, o->name);
}

/* Requests that came before wait for it. */
static void on_pods_synced(void *arg)
{
    struct sw_control_mesh_xds *m = arg;

    sw_pods_complete(m->pods);
    sw_ca_service_recheck(m->ca);
}

static const struct sw_informer_cbs pod_cbs = {
    .add = on_pod, .update = on_pod_changed, .del = on_pod_gone, .synced = on_pods_synced};

/* ---- the certificate ---- */

static void renew(struct sw_control_mesh_xds *m)
{
    struct sw_err err = {0};
    struct sw_tls_cred *cred = sw_authority_cred(m->authority, m->names, &err);

    if (cred)
        sw_xds_server_set_cred(m->server, cred);
    else
        sw_log_warn("control", "cannot renew the certificate of the mesh's port: %s", err.msg);
    (void)sw_tls_cred_unref(cred);
}

static void on_renew(struct sw_timer *t)
{
    struct sw_control_mesh_xds *m = SW_CONTAINER_OF(t, struct sw_control_mesh_xds, renew);

    renew(m);
    sw_timer_start(m->loop, &m->renew, renew_ns, on_renew);
}

/* ---- roots and revocation lists in every namespace ---- */

static struct sw_trust *hand_out(struct sw_control_mesh_xds *m, enum sw_trust_what what,
                                 struct sw_slice pem, struct sw_err *err)
{
    const char *lease = what == SW_TRUST_ISTIO_CRL ? "spanwire-mesh-crl" : "spanwire-mesh-trust";
    const struct sw_trust_opts to = {
        .what = what,
        .pem = pem,
        .election = sw_control_election(m->o->lease_ns, lease, m->o->identity)};
    struct sw_trust *t = sw_trust_new(m->client, &to, err);

    if (t)
        sw_trust_start(t);
    return t;
}

/* Node proxies do not start with a list that they cannot read. */
static bool readable(struct sw_slice crl, struct sw_slice roots, struct sw_err *err)
{
    struct sw_tls_cred *probe =
        sw_tls_cred_new(&(struct sw_tls_cred_pem){.roots = roots, .crl = crl}, err);

    (void)sw_tls_cred_unref(probe);
    return probe != NULL;
}

static int distribute_crl(struct sw_control_mesh_xds *m, struct sw_slice roots, struct sw_err *err)
{
    struct sw_slice crl = sw_authority_crl(m->authority);
    struct sw_err why = {0};

    if (!readable(crl, roots, &why))
        sw_log_error("control",
                     "cannot read the CA's revocation list, handing out the previous: %s", why.msg);
    else if (m->crl)
        sw_trust_set(m->crl, crl);
    else if (crl.n && !(m->crl = hand_out(m, SW_TRUST_ISTIO_CRL, crl, err)))
        return err->rc;
    return SW_OK;
}

static int distribute(struct sw_control_mesh_xds *m, struct sw_err *err)
{
    struct sw_slice roots = sw_authority_roots(m->authority);

    if (m->trust)
        sw_trust_set(m->trust, roots);
    else
        m->trust = hand_out(m, SW_TRUST_ISTIO_ROOTS, roots, err);
    if (m->join)
        sw_control_join_roots(m->join);
    return m->trust ? distribute_crl(m, roots, err) : err->rc;
}

/* ---- life ---- */

/* A list with more in front, ended with NULL; the array is the caller's. */
static const char **make_list(const char *const *first, const struct sw_opt_list *more)
{
    const char **list;
    size_t n = 0;

    while (first && first[n])
        n++;
    list = SW_NEW_ARRAY(const char *, n + more->n + 2); /* room for one more */
    for (size_t i = 0; i < n; i++)
        list[i] = first[i];
    for (size_t i = 0; i < more->n; i++)
        list[n + i] = more->p[i];
    return list;
}

/*
 * Machines compare the certificate with the host of their code: that of --join-address, else the
 * address listened on.
 */
static int name_join_host(struct sw_control_mesh_xds *m, struct sw_err *err)
{
    char text[SW_IP_TEXT];
    struct sw_slice host = {0};
    uint16_t port;
    size_t n = 0;

    if (m->o->join_address) {
        if (sw_authority_split(sw_slice_str(m->o->join_address), &host, &port, err) != SW_OK)
            return sw_err_prefix(err, "--join-address: '%.80s'", m->o->join_address);
    } else if (!sw_ip_is_any(&m->o->listen.ip)) {
        host = sw_slice_str(sw_ip_text(&m->o->listen.ip, text));
    }
    m->join_host = host.n ? sw_slice_dup(host) : NULL;
    while (m->names[n])
        n++;
    m->names[n] = m->join_host;
    return SW_OK;
}

/*
 * On a cluster of others it needs rights that not every operator grants: there it is on with
 * --join-address only.
 */
static void open_join(struct sw_control_mesh_xds *m)
{
    const char *ns = m->o->lease_ns;

    if (ns && !m->o->join_address)
        return;
    m->join = sw_control_join_new(
        m->client, &(struct sw_control_join_opts){.authority = m->authority,
                                                  .metrics = m->metrics,
                                                  .peers = m->o->peers,
                                                  .address = m->o->join_address,
                                                  .system_ns = ns ? ns : SW_CONTROL_JOIN_SYSTEM_NS,
                                                  .cluster_id = m->o->cluster_id,
                                                  .on_gone = on_machine_gone,
                                                  .arg = m});
}

/* Listens with a certificate of the authority, which is there. */
static int open_server(struct sw_control_mesh_xds *m, struct sw_err *err)
{
    struct sw_tls_cred *cred = sw_authority_cred(m->authority, m->names, err);
    struct sw_xds_server_opts so = {.cred = cred,
                                    .metrics = m->metrics,
                                    .allow = allow,
                                    .revoked = revoked,
                                    .select = select_cache,
                                    .arg = m,
                                    .max_conns = MAX_CONNS,
                                    .max_streams = MAX_STREAMS,
                                    .max_names = MAX_NAMES,
                                    .max_initial = INITIAL_MAX,
                                    .review_ns = m->o->review_ns};

    if (!cred)
        return err->rc;
    m->server = sw_xds_server_new(m->loop, &so, err);
    (void)sw_tls_cred_unref(cred);
    if (!m->server)
        return err->rc;
    sw_ca_service_serve(m->ca, sw_xds_server_grpc(m->server));
    sw_timer_start(m->loop, &m->renew, renew_ns, on_renew);
    if (sw_xds_server_listen(m->server, &m->o->listen, &m->bound, err) != SW_OK)
        return err->rc;
    if (m->join)
        sw_control_join_serve(m->join, sw_xds_server_grpc(m->server), &m->bound);
    return SW_OK;
}

static void on_authority(void *arg)
{
    struct sw_control_mesh_xds *m = arg;
    struct sw_err err = {0};
    char text[SW_ADDR_TEXT];

    if (distribute(m, &err) != SW_OK)
        sw_log_warn("control", "cannot hand out the roots of the mesh: %s", err.msg);
    if (m->server) {
        renew(m);
    } else if (open_server(m, &err) == SW_OK) {
        sw_log_info("control", "mesh on %s", sw_addr_text(&m->bound, text));
    } else {
        sw_log_error("control", "cannot open the mesh's port: %s", err.msg);
        sw_loop_stop(m->loop);
    }
}

static int open_authority(struct sw_control_mesh_xds *m, struct sw_err *err)
{
    char *dir SW_AUTO_FREE = m->o->ca_dir ? sw_strdup(m->o->ca_dir)
                                          : sw_asprintf("%s/mesh-ca", m->o->data ? m->o->data : "");
    char *record SW_AUTO_FREE = sw_asprintf("%s/issued.jsonl", m->o->data ? m->o->data : dir);
    const struct sw_authority_opts ao = {.dir = m->o->ca_secret ? NULL : dir,
                                         .client = m->client,
                                         .secret_ns = m->o->root_ns,
                                         .trust_domain = sw_slice_str(m->o->trust_domain),
                                         .wait_s = m->o->rotate_ns / SW_NS_PER_S,
                                         .linger_s = m->o->max_ttl_ns / SW_NS_PER_S,
                                         .metrics = m->metrics,
                                         .on_change = on_authority,
                                         .arg = m};

    if (!m->o->ca_dir && !m->o->data && !m->o->ca_secret)
        return sw_err_set(err, SW_EINVAL, "--mesh-listen needs --ca-dir, --ca-secret or --data");
    if (m->o->ca_dir && m->o->ca_secret)
        return sw_err_set(err, SW_EINVAL, "--ca-dir and --ca-secret exclude each other");
    m->authority = sw_authority_new(m->loop, &ao, err);
    if (!m->authority)
        return err->rc;
    if (!m->o->ca_dir && !m->o->data)
        return SW_OK; /* no place for a record but the log */
    if (m->o->data && sw_make_dirs(m->o->data, err) != SW_OK)
        return err->rc;
    m->issued = sw_issued_open(record, 0, err);
    return m->issued ? SW_OK : err->rc;
}

static int open_identity(struct sw_control_mesh_xds *m, struct sw_err *err)
{
    const struct sw_nodes_opts no = {.accounts = m->accounts,
                                     .trust_domain = sw_slice_str(m->o->trust_domain),
                                     .aliases = m->aliases,
                                     .pods = sw_pods_source(m->pods)};

    m->nodes = sw_nodes_new(&no, err);
    if (!m->nodes)
        return sw_err_prefix(err, "--mesh-node-account");
    m->tokens = sw_tokens_new(
        m->client,
        &(struct sw_tokens_opts){.audience = AUDIENCE, .on_answer = on_answer, .arg = m});
    open_join(m);
    m->ca = sw_ca_service_new(
        m->loop, &(struct sw_ca_service_opts){.authority = m->authority,
                                              .tokens = m->tokens,
                                              .nodes = m->nodes,
                                              .issued = m->issued,
                                              .metrics = m->metrics,
                                              .cluster = sw_slice_str(m->o->cluster_id),
                                              .machine = m->join ? sw_control_join_node : NULL,
                                              .machine_arg = m->join,
                                              .by_certificate = m->o->by_certificate,
                                              .ttl_s = m->o->ttl_ns / SW_NS_PER_S,
                                              .max_ttl_s = m->o->max_ttl_ns / SW_NS_PER_S});
    m->informer = sw_informer_new(
        m->client, &(struct sw_informer_opts){.gvr = &pods_gvr, .hollow = true}, &pod_cbs, m);
    sw_informer_start(m->informer);
    return SW_OK;
}

static struct sw_xds_cache *new_cache(void)
{
    struct sw_xds_cache *c = sw_xds_cache_new();

    sw_xds_cache_offer(c, SW_TYPE_ADDRESS);
    sw_xds_cache_offer(c, SW_TYPE_AUTHORIZATION);
    sw_xds_cache_await(c, SW_TYPE_ADDRESS);
    sw_xds_cache_await(c, SW_TYPE_AUTHORIZATION);
    return c;
}

struct sw_control_mesh_xds *sw_control_mesh_xds_new(struct sw_kube_client *client,
                                                    struct sw_metrics_shard *metrics,
                                                    const struct sw_control_mesh_xds_opts *o,
                                                    struct sw_err *err)
{
    static const char *const first[] = {"istiod.istio-system.svc",
                                        "istiod-remote.istio-system.svc",
                                        "istio-pilot.istio-system.svc",
                                        "localhost",
                                        "127.0.0.1",
                                        "::1",
                                        NULL};
    struct sw_control_mesh_xds *m = SW_NEW(struct sw_control_mesh_xds);

    m->o = o;
    m->client = client;
    m->metrics = metrics;
    m->loop = sw_kube_client_loop(client);
    m->names = make_list(first, &o->names);
    m->accounts = make_list(NULL, &o->node_accounts);
    m->aliases = make_list(NULL, &o->trust_aliases);
    m->pods = sw_pods_new();
    m->cache = new_cache();
    if (name_join_host(m, err) == SW_OK && open_authority(m, err) == SW_OK &&
        open_identity(m, err) == SW_OK &&
        (!sw_authority_ready(m->authority) ||
         (distribute(m, err) == SW_OK && open_server(m, err) == SW_OK)))
        return m;
    sw_control_mesh_xds_free(m);
    return NULL;
}

void sw_control_mesh_xds_free(struct sw_control_mesh_xds *m)
{
    if (!m)
        return;
    sw_timer_stop(m->loop, &m->renew);
    sw_xds_server_free(m->server);
    sw_xds_cache_free(m->cache);
    sw_ca_service_free(m->ca);
    sw_control_join_free(m->join);
    sw_informer_free(m->informer);
    sw_trust_free(m->trust);
    sw_trust_free(m->crl);
    sw_tokens_free(m->tokens);
    sw_nodes_free(m->nodes);
    sw_pods_free(m->pods);
    sw_issued_close(m->issued);
    sw_authority_free(m->authority);
    sw_free(m->names);
    sw_free(m->join_host);
    sw_free(m->accounts);
    sw_free(m->aliases);
    sw_free(m);
}

struct sw_xds_cache *sw_control_mesh_xds_cache(const struct sw_control_mesh_xds *m)
{
    return m->cache;
}

struct sw_addr sw_control_mesh_xds_addr(const struct sw_control_mesh_xds *m)
{
    return m->bound;
}

void sw_control_mesh_xds_status(const struct sw_control_mesh_xds *m, struct sw_jw *w)
{
    if (m->server)
        sw_control_put_clients(w, m->server);
}
