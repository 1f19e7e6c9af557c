/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control_connector.h"

#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "control/connector/controller.h"
#include "quic/nodeid.h"
#include "tls/ca.h"
#include "tls/jws.h"

/* A name of its own: nobody who trusts public names may be led to trust the API's, or back. */
#define CA_DIR    "connect-ca"
#define CA_DOMAIN "connect.spanwire"

struct sw_control_connector {
    struct sw_arena arena;
    struct sw_ca *ca;
    struct sw_connector_controller *controller;
};

static int open_ca(struct sw_control_connector *c, const char *data, struct sw_err *err)
{
    char *dir SW_AUTO_FREE = sw_asprintf("%s/" CA_DIR, data);
    char *cert SW_AUTO_FREE = sw_asprintf("%s/" SW_CA_ROOT_CERT, dir);
    struct stat st;

    if (stat(cert, &st) == 0) {
        c->ca = sw_ca_load(dir, err);
        return c->ca ? SW_OK : err->rc;
    }
    c->ca = sw_ca_new(SW_SLICE_LIT(CA_DOMAIN), UINT64_C(10) * 365 * 86400, err);
    return c->ca ? sw_ca_save(c->ca, dir, err) : err->rc;
}

static struct sw_slice issuer(struct sw_control_connector *c)
{
    uint8_t h[32];

    sw_digest_sha256(sw_ca_root_pem(c->ca), h);
    return sw_slice_str(sw_arena_printf(&c->arena, "%02x%02x%02x%02x%02x%02x%02x%02x", h[0], h[1],
                                        h[2], h[3], h[4], h[5], h[6], h[7]));
}

static int read_ids(struct sw_control_connector *c, const struct sw_opt_list *in,
                    struct sw_connector_conf *conf, struct sw_err *err)
{
    struct sw_slice *ids;
    size_t n = 0;

    while (in->p && in->p[n])
        n++;
    ids = sw_arena_array(&c->arena, n + 1, sizeof(*ids));
    for (size_t i = 0; i < n; i++) {
        struct sw_nodeid id;
        char *hex = sw_arena_alloc(&c->arena, SW_NODEID_HEX);

        if (sw_nodeid_parse(sw_slice_str(in->p[i]), &id, err) != SW_OK)
            return sw_err_prefix(err, "--gateway-id");
        ids[i] = sw_slice_str(sw_nodeid_hex(&id, hex));
    }
    conf->gateway_ids = ids;
    conf->n_gateway_ids = n;
    return SW_OK;
}

static int start(struct sw_control_connector *c, struct sw_kube_client *client,
                 struct sw_metrics_shard *metrics, const struct sw_control_connector_opts *o,
                 struct sw_err *err)
{
    struct sw_connector_controller_opts co = {
        .conf = {.lease_s = (uint32_t)sw_max(o->lease / SW_NS_PER_S, 1),
                 .gateway_class = sw_slice_str(o->gateway_class),
                 .gateway_controller = sw_slice_str(o->gateway_controller),
                 .target_domain = sw_slice_str(o->target_domain),
                 .relay_url = sw_slice_str(o->relay_url ? o->relay_url : ""),
                 .port_offset = (uint16_t)o->port_offset,
                 .dns = o->dns,
                 .dns_stale_ns = o->dns_stale_ns,
                 .envoy_gateway = o->envoy_gateway,
                 .patch_policies = o->patch_policies},
        .metrics = metrics,
        .threaded = true,
        .lease_ns = sw_slice_str(o->lease_ns ? o->lease_ns : ""),
        .lease_name = o->lease_ns ? SW_SLICE_LIT("spanwire-connector") : sw_slice("", 0),
        .identity = sw_slice_str(o->identity ? o->identity : ""),
    };
    int rc = read_ids(c, &o->gateway_ids, &co.conf, err);

    if (rc == SW_OK && o->certificates && o->data) {
        rc = open_ca(c, o->data, err);
        if (rc == SW_OK)
            co.conf.issuer = issuer(c);
    }
    if (rc != SW_OK)
        return rc;
    co.ca = c->ca;
    c->controller = sw_connector_controller_new(client, &co, err);
    if (!c->controller)
        return err->rc;
    sw_connector_controller_start(c->controller);
    return SW_OK;
}

struct sw_control_connector *sw_control_connector_new(struct sw_kube_client *client,
                                                      struct sw_metrics_shard *metrics,
                                                      const struct sw_control_connector_opts *o,
                                                      struct sw_err *err)
{
    struct sw_control_connector *c = SW_NEW(struct sw_control_connector);

    if (start(c, client, metrics, o, err) != SW_OK) {
        sw_control_connector_free(c);
        return NULL;
    }
    return c;
}

struct sw_connector_controller *sw_control_connector_of(struct sw_control_connector *c)
{
    return c->controller;
}

void sw_control_connector_stop(struct sw_control_connector *c, void (*done)(void *arg), void *arg)
{
    sw_connector_controller_stop(c->controller, done, arg);
}

void sw_control_connector_free(struct sw_control_connector *c)
{
    if (!c)
        return;
    sw_connector_controller_free(c->controller);
    sw_ca_free(c->ca);
    sw_arena_clear(&c->arena);
    sw_free(c);
}
