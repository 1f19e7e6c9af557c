/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/connector.h"

#include <sys/stat.h>

#include "base/hex.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "control/connector/controller.h"
#include "quic/id/nodeid.h"
#include "tls/cert/ca.h"
#include "tls/crypto/jws.h"

/* A name of its own: a client that trusts public names must not be led to trust the API's, or back.
 */
#define CA_DIR    "connect-ca"
#define CA_DOMAIN "connect.spanwire"

struct sw_control_connector {
    struct sw_arena arena;
    struct sw_ca *ca;
    struct sw_connector_controller *controller;
};

/* As in certificates: lower case, no wildcard, no dots around. */
static bool domain_ok(struct sw_slice d)
{
    struct sw_slice rest = d;

    if (d.n == 0 || d.n > 253)
        return false;
    while (rest.p) {
        struct sw_slice label = sw_slice_cut(&rest, '.');

        if (label.n == 0 || label.n > 63)
            return false;
        for (size_t i = 0; i < label.n; i++) {
            char ch = label.p[i];

            if (!((ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9') || ch == '-'))
                return false;
        }
    }
    return true;
}

/* Domains the CA may sign names of: the fabric's, and this machine's own. */
static int read_domains(struct sw_control_connector *c, const struct sw_control_connector_opts *o,
                        struct sw_connector_conf *conf, struct sw_err *err)
{
    struct sw_slice *list = sw_arena_array(&c->arena, o->cert_domains.n + 2, sizeof(*list));
    size_t n = 0;

    list[n++] = sw_slice_str(o->target_domain);
    for (size_t i = 0; i < o->cert_domains.n; i++)
        list[n++] = sw_slice_str(o->cert_domains.p[i]);
    for (size_t i = 0; i < n; i++) {
        if (!domain_ok(list[i]))
            return sw_err_set(err, SW_EINVAL, "%s '%.*s' is not a domain in lower case",
                              i ? "--certificate-domain" : "--target-domain",
                              SW_SLICE_ARG_MAX(list[i], 100));
    }
    list[n++] = SW_SLICE_LIT("localhost");
    conf->cert_domains = list;
    conf->n_cert_domains = n;
    return SW_OK;
}

/* A CA of before, or of another list of domains: the same key, another certificate. */
static int narrow_ca(struct sw_control_connector *c, const struct sw_ca_scope *s, const char *dir,
                     struct sw_err *err)
{
    bool renewed = false;
    int rc = sw_ca_narrow(c->ca, s, &renewed, err);

    if (rc == SW_OK && renewed)
        rc = sw_ca_save_cert(c->ca, dir, err);
    if (rc == SW_OK && renewed)
        sw_log_warn("connector",
                    "%s/" SW_CA_ROOT_CERT " was renewed with the domains it may sign for as name "
                    "constraints; clients should trust the new one instead",
                    dir);
    return rc;
}

static int open_ca(struct sw_control_connector *c, const char *data,
                   const struct sw_connector_conf *conf, struct sw_err *err)
{
    const struct sw_ca_scope scope = {.trust_domain = SW_SLICE_LIT(CA_DOMAIN),
                                      .domains = conf->cert_domains,
                                      .n_domains = conf->n_cert_domains};
    char *dir SW_AUTO_FREE = sw_asprintf("%s/" CA_DIR, data);
    char *cert SW_AUTO_FREE = sw_asprintf("%s/" SW_CA_ROOT_CERT, dir);
    struct stat st;

    if (stat(cert, &st) == 0) {
        c->ca = sw_ca_load(dir, err);
        return c->ca ? narrow_ca(c, &scope, dir, err) : err->rc;
    }
    c->ca = sw_ca_new_scoped(&scope, UINT64_C(10) * 365 * 86400, err);
    return c->ca ? sw_ca_save(c->ca, dir, err) : err->rc;
}

static struct sw_slice issuer(struct sw_control_connector *c)
{
    uint8_t h[32];
    char text[16];

    sw_digest_sha256(sw_ca_root_pem(c->ca), h);
    (void)sw_hex_write(text, h, 8);
    return sw_arena_slice(&c->arena, sw_slice(text, sizeof(text)));
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

/* "20000-20999": none below 1024, where the gateways' own listeners are. */
static int read_ports(const char *text, struct sw_connector_conf *conf, struct sw_err *err)
{
    struct sw_slice last = sw_slice_str(text);
    struct sw_slice first = sw_slice_cut(&last, '-');
    uint64_t from = 0;
    uint64_t to = 0;

    if (!text || !text[0])
        return SW_OK;
    if (!sw_slice_to_u64(first, UINT16_MAX, &from) || !sw_slice_to_u64(last, UINT16_MAX, &to) ||
        from < 1024 || to < from)
        return sw_err_set(err, SW_EINVAL,
                          "--device-ports '%.40s': FIRST-LAST is needed, from 1024 to 65535", text);
    conf->port_first = (uint16_t)from;
    conf->port_last = (uint16_t)to;
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
        .election = sw_control_election(o->lease_ns, "spanwire-connector", o->identity),
    };
    int rc = read_ids(c, &o->gateway_ids, &co.conf, err);

    if (rc == SW_OK)
        rc = read_ports(o->device_ports, &co.conf, err);
    if (rc == SW_OK && o->certificates && o->data) {
        rc = read_domains(c, o, &co.conf, err);
        if (rc == SW_OK)
            rc = open_ca(c, o->data, &co.conf, err);
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
