/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/cluster.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cmd/control/access.h"
#include "cmd/control/cert.h"
#include "cmd/control/gateway.h"
#include "cmd/control/pages.h"
#include "io/loop.h"
#include "kube/client/client.h"
#include "kube/client/kubeconfig.h"
#include "telemetry/admin.h"
#include "telemetry/ready.h"

enum { PAGE_MAX = 64 << 20 };

static const uint64_t look_ns = 100 * SW_NS_PER_MS;

struct sw_control_cluster {
    const struct sw_control_cluster_opts *o;
    struct sw_loop *loop;
    struct sw_arena arena;
    struct sw_kube_client *client;
    struct sw_control_access *access;
    struct sw_control_cert *cert;
    struct sw_ready *ready;
    struct sw_admin *admin;
    struct sw_control_gateway *gateway; /* borrowed; NULL: none */
    const struct sw_control_pages *pages;
    const char *lease_ns;
    struct sw_timer look; /* until it is ready */
    bool was_ready;
};

bool sw_control_cluster_wanted(const struct sw_control_cluster_opts *o)
{
    return o->kubeconfig || o->in_cluster;
}

/* ---- readiness ---- */

/* What is waited for, in words; true: nothing. */
static bool synced(struct sw_control_cluster *c, struct sw_buf *out)
{
    size_t before = out ? sw_buf_len(out) : 0;

    if (!sw_kube_synced(c->client, out))
        return false;
    if (!sw_control_cert_ready(c->cert, out))
        return false;
    if (!c->gateway || sw_control_gateway_ready(c->gateway))
        return true;
    if (out && sw_buf_len(out) == before)
        (void)!sw_buf_append_str(out, "the first configuration of data planes");
    return false;
}

/* Once ready it stays so: replicas that lost the API keep serving what they know. */
static bool pending(void *arg, struct sw_buf *out)
{
    struct sw_control_cluster *c = arg;

    return !c->was_ready && !synced(c, out);
}

static void on_look(struct sw_timer *t)
{
    struct sw_control_cluster *c = SW_CONTAINER_OF(t, struct sw_control_cluster, look);

    if (!synced(c, NULL)) {
        sw_timer_start(c->loop, &c->look, look_ns, on_look);
        return;
    }
    c->was_ready = true;
    sw_log_info("control", "ready");
}

static void on_cred(void *arg, struct sw_tls_cred *cred)
{
    struct sw_control_cluster *c = arg;

    if (c->gateway)
        sw_control_gateway_set_cred(c->gateway, cred);
}

/* ---- pages ---- */

static bool extra(struct sw_http_req *req, struct sw_http_resp *resp, void *arg)
{
    struct sw_control_cluster *c = arg;
    struct sw_buf out = {.max = PAGE_MAX};

    if (!sw_slice_eq_str(req->path, "/debug/xds"))
        return false;
    sw_control_pages_status(c->pages, &out);
    sw_http_send_buf(resp, 200, "application/json", &out);
    return true;
}

int sw_control_cluster_serve(struct sw_control_cluster *c, struct sw_control_gateway *g,
                             const struct sw_control_pages *p, struct sw_err *err)
{
    struct sw_admin_opts o = {.title = "spanwire control",
                              .admin = {c->o->admin},
                              .access = c->o->access,
                              .one_port = true,
                              .pages = c->o->pages,
                              .metrics = sw_control_pages_registry(p),
                              .ready = c->ready,
                              .pending = pending,
                              .extra = extra,
                              .arg = c};

    c->gateway = g;
    c->pages = p;
    if (g) /* it may have been renewed meanwhile */
        sw_control_gateway_set_cred(g, sw_control_cert_cred(c->cert));
    c->admin = sw_admin_new(c->loop, &o, err);
    sw_timer_start(c->loop, &c->look, 0, on_look);
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

static int open_cert(struct sw_control_cluster *c, struct sw_err *err)
{
    struct sw_control_cert_opts o = {.cert = c->o->xds_cert,
                                     .key = c->o->xds_key,
                                     .secret = c->o->xds_secret,
                                     .ns = c->lease_ns,
                                     .data = c->o->data,
                                     .names = c->o->names,
                                     .renewed = on_cred,
                                     .arg = c};

    c->cert = sw_control_cert_new(c->client, &o, err);
    return c->cert ? SW_OK : err->rc;
}

struct sw_control_cluster *sw_control_cluster_new(struct sw_loop *l,
                                                  const struct sw_control_cluster_opts *o,
                                                  struct sw_err *err)
{
    struct sw_control_cluster *c = SW_NEW(struct sw_control_cluster);

    c->o = o;
    c->loop = l;
    c->ready = sw_ready_new();
    if (connect_to(c, err) != SW_OK || open_cert(c, err) != SW_OK) {
        sw_control_cluster_free(c);
        return NULL;
    }
    c->access = sw_control_access_new(c->client, c->o->review_ns);
    return c;
}

void sw_control_cluster_close(struct sw_control_cluster *c)
{
    sw_timer_stop(c->loop, &c->look);
    sw_admin_free(c->admin);
    c->admin = NULL;
}

void sw_control_cluster_free(struct sw_control_cluster *c)
{
    if (!c)
        return;
    sw_timer_stop(c->loop, &c->look);
    sw_admin_free(c->admin);
    sw_control_access_free(c->access);
    sw_control_cert_free(c->cert);
    sw_kube_client_free(c->client);
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
    return sw_control_cert_cred(c->cert);
}

struct sw_control_access *sw_control_cluster_access(struct sw_control_cluster *c)
{
    return c->access;
}

const char *sw_control_cluster_lease_ns(const struct sw_control_cluster *c)
{
    return c->lease_ns;
}
