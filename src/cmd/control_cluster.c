/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control_cluster.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cmd/control_access.h"
#include "cmd/control_gateway.h"
#include "io/filewatch.h"
#include "io/loop.h"
#include "kube/client.h"
#include "kube/kubeconfig.h"
#include "telemetry/admin.h"
#include "telemetry/ready.h"
#include "tls/ca.h"
#include "tls/cred.h"

/* Who may read this URL of the API, by RBAC, may have the configuration of the data planes. */
#define XDS_URL "/xds"
#define CA_DIR  "xds-ca"

enum { NAMES_MAX = 64, PEM_MAX = 1 << 20, PAGE_MAX = 64 << 20 };

struct sw_control_cluster {
    const struct sw_control_cluster_opts *o;
    struct sw_loop *loop;
    struct sw_arena arena;
    struct sw_kube_client *client;
    struct sw_control_access *access;
    struct sw_tls_cred *cred;
    struct sw_filewatch *watch;
    struct sw_ready *ready;
    struct sw_metrics *metrics; /* where there is no gateway's */
    struct sw_admin *admin;
    struct sw_control_gateway *gateway; /* borrowed; NULL: none */
    const char *lease_ns;
};

bool sw_control_cluster_wanted(const struct sw_control_cluster_opts *o)
{
    return o->kubeconfig || o->in_cluster;
}

/* ---- the xDS server's credential ---- */

static struct sw_tls_cred *cred_from(struct sw_slice chain, struct sw_slice key, struct sw_err *err)
{
    /* Clients show tokens, not certificates. */
    return sw_tls_cred_new(
        &(struct sw_tls_cred_pem){
            .chain = chain, .key = key, .any_identity = true, .trust_nobody = true},
        err);
}

static struct sw_tls_cred *cred_from_files(const struct sw_control_cluster_opts *o,
                                           struct sw_err *err)
{
    struct sw_slice chain = {0};
    struct sw_slice key = {0};
    struct sw_tls_cred *cred = NULL;

    if (sw_file_read(o->xds_cert, PEM_MAX, &chain, err) == SW_OK &&
        sw_file_read(o->xds_key, PEM_MAX, &key, err) == SW_OK)
        cred = cred_from(chain, key, err);
    sw_slice_free(&chain);
    if (key.n)
        explicit_bzero((char *)(uintptr_t)key.p, key.n);
    sw_slice_free(&key);
    return cred;
}

static void on_files(void *arg)
{
    struct sw_control_cluster *c = arg;
    struct sw_err err = {0};
    struct sw_tls_cred *cred = cred_from_files(c->o, &err);

    if (!cred) {
        sw_log_warn("control", "the xDS server keeps its certificate: %s", err.msg);
        return;
    }
    (void)sw_tls_cred_unref(c->cred);
    c->cred = cred;
    if (c->gateway)
        sw_control_gateway_set_cred(c->gateway, cred);
    sw_log_info("control", "the xDS server has a new certificate");
}

static struct sw_ca *open_ca(const char *dir, struct sw_err *err)
{
    char *cert SW_AUTO_FREE = sw_asprintf("%s/" SW_CA_ROOT_CERT, dir);
    struct sw_ca *ca;
    struct stat st;

    if (stat(cert, &st) == 0)
        return sw_ca_load(dir, err);
    ca = sw_ca_new(SW_SLICE_LIT("spanwire.local"), UINT64_C(10) * 365 * 86400, err);
    if (ca && sw_ca_save(ca, dir, err) != SW_OK) {
        sw_ca_free(ca);
        return NULL;
    }
    return ca;
}

static struct sw_tls_cred *cred_of_our_own(struct sw_control_cluster *c, struct sw_err *err)
{
    char *dir SW_AUTO_FREE = sw_asprintf("%s/" CA_DIR, c->o->data);
    struct sw_ca *ca;
    const char *names[NAMES_MAX + 5] = {"localhost", "127.0.0.1", "::1"};
    char host[256] = "";
    size_t n = 3;
    SW_BUF_AUTO chain = {0};
    SW_BUF_AUTO key = {0};
    struct sw_tls_cred *cred = NULL;

    (void)mkdir(c->o->data, 0700); /* what is wrong with it shows when the CA is made in it */
    ca = open_ca(dir, err);
    if (!ca)
        return NULL;
    if (gethostname(host, sizeof(host) - 1) == 0 && host[0])
        names[n++] = host;
    for (size_t i = 0; i < c->o->names->n && i < NAMES_MAX; i++)
        names[n++] = c->o->names->p[i];
    sw_buf_init(&chain, PEM_MAX);
    sw_buf_init(&key, PEM_MAX);
    if (sw_ca_issue_web(ca,
                        &(struct sw_ca_web){.cn = "spanwire-xds",
                                            .sans = names,
                                            .server = true,
                                            .ttl_s = UINT64_C(365) * 86400},
                        &chain, &key, err) == SW_OK)
        cred = cred_from(sw_buf_slice(&chain), sw_buf_slice(&key), err);
    sw_ca_free(ca);
    if (cred)
        sw_log_info("control", "data planes verify the xDS server with %s/" SW_CA_ROOT_CERT, dir);
    return cred;
}

static int open_cred(struct sw_control_cluster *c, struct sw_err *err)
{
    if (!c->o->xds_cert != !c->o->xds_key)
        return sw_err_set(err, SW_EINVAL, "--xds-cert and --xds-key go together");
    if (!c->o->xds_cert && !c->o->data)
        return sw_err_set(err, SW_EINVAL, "a certificate needs --xds-cert, or --data for a CA");
    c->cred = c->o->xds_cert ? cred_from_files(c->o, err) : cred_of_our_own(c, err);
    if (c->cred && c->o->xds_cert)
        c->watch = sw_filewatch_new(c->loop, c->o->xds_cert, on_files, c, err);
    return c->cred && (c->watch || !c->o->xds_cert) ? SW_OK : err->rc;
}

/* ---- pages ---- */

static bool extra(struct sw_http_req *req, struct sw_http_resp *resp, void *arg)
{
    struct sw_control_cluster *c = arg;
    struct sw_buf out = {.max = PAGE_MAX};

    if (!c->gateway || !sw_slice_eq_str(req->path, "/debug/xds"))
        return false;
    sw_control_gateway_status(c->gateway, &out);
    sw_http_send_buf(resp, 200, "application/json", &out);
    return true;
}

int sw_control_cluster_serve(struct sw_control_cluster *c, struct sw_control_gateway *g,
                             struct sw_err *err)
{
    struct sw_admin_opts o = {.title = "spanwire control",
                              .admin = {c->o->admin},
                              .one_port = true,
                              .metrics = g ? sw_control_gateway_registry(g) : c->metrics,
                              .ready = c->ready,
                              .extra = extra,
                              .arg = c};

    c->gateway = g;
    c->admin = sw_admin_new(c->loop, &o, err);
    return c->admin ? SW_OK : err->rc;
}

struct sw_addr sw_control_cluster_addr(const struct sw_control_cluster *c)
{
    return sw_admin_addr(c->admin);
}

/* ---- life ---- */

static int connect_to(struct sw_control_cluster *c, struct sw_err *err)
{
    struct sw_kube_config config = {0};
    int rc = c->o->kubeconfig ? sw_kubeconfig_load(c->o->kubeconfig, c->o->context, &config, err)
                              : sw_kube_config_in_cluster(NULL, &config, err);

    if (rc != SW_OK)
        return rc;
    c->client = sw_kube_client_new(c->loop, &config, NULL, err);
    if (!c->client)
        return err->rc;
    c->lease_ns =
        c->o->lease_ns ? c->o->lease_ns : sw_arena_dup(&c->arena, sw_kube_client_ns(c->client));
    return SW_OK;
}

struct sw_control_cluster *sw_control_cluster_new(struct sw_loop *l,
                                                  const struct sw_control_cluster_opts *o,
                                                  struct sw_err *err)
{
    struct sw_control_cluster *c = SW_NEW(struct sw_control_cluster);

    c->o = o;
    c->loop = l;
    c->ready = sw_ready_new();
    c->metrics = sw_metrics_new(&(struct sw_metrics_opts){.component = "control"});
    if (connect_to(c, err) != SW_OK || open_cred(c, err) != SW_OK) {
        sw_control_cluster_free(c);
        return NULL;
    }
    c->access = sw_control_access_new(c->client, XDS_URL);
    return c;
}

void sw_control_cluster_free(struct sw_control_cluster *c)
{
    if (!c)
        return;
    sw_admin_free(c->admin);
    sw_control_access_free(c->access);
    sw_kube_client_free(c->client);
    sw_filewatch_free(c->watch);
    (void)sw_tls_cred_unref(c->cred);
    sw_metrics_free(c->metrics);
    sw_ready_free(c->ready);
    sw_arena_clear(&c->arena);
    sw_free(c);
}

struct sw_kube_client *sw_control_cluster_client(struct sw_control_cluster *c)
{
    return c->client;
}

struct sw_tls_cred *sw_control_cluster_cred(struct sw_control_cluster *c)
{
    return c->cred;
}

struct sw_control_access *sw_control_cluster_access(struct sw_control_cluster *c)
{
    return c->access;
}

const char *sw_control_cluster_lease_ns(const struct sw_control_cluster *c)
{
    return c->lease_ns;
}
