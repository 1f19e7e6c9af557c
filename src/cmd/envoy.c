/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire envoy`: configuration for Envoys. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/secret.h"
#include "cmd/cmd.h"
#include "control/envoy/bootstrap.h"
#include "control/envoy/tunnel.h"
#include "http/bearer.h"
#include "io/addr.h"
#include "quic/id/nodeid.h"

struct settings {
    const char *node_id;
    const char *node_cluster;
    const char *xds;
    const char *ca;
    const char *cert;
    const char *key;
    const char *sni;
    const char *token_file;
    struct sw_addr admin;
    const char *connect_proxy;
    bool connect_http2;
    const char *name;
    const char *ns;
    const char *id;
    const char *target;
    struct sw_addr listen;
};

#define AT(field) .offset = offsetof(struct settings, field)

static const struct sw_opt table[] = {
    {"node-id", "SPANWIRE_NODE_ID", SW_OPT_STR, AT(node_id), .def = "envoy", .arg = "ID",
     .help = "Name of this Envoy, as 'spanwire status' shows it."},
    {"node-cluster", NULL, SW_OPT_STR, AT(node_cluster), .def = "spanwire", .arg = "NAME",
     .help = "Group that this Envoy belongs to."},
    {"xds-addr", NULL, SW_OPT_STR, AT(xds), .def = "127.0.0.1:15012", .arg = "HOST:PORT",
     .help = "Where 'spanwire control' serves xDS."},
    {"ca", NULL, SW_OPT_STR, AT(ca), .arg = "FILE",
     .help = "Roots for the server's certificate, as Envoy will find them. Without it the stream "
             "is not encrypted, which is for loopback only."},
    {"cert", NULL, SW_OPT_STR, AT(cert), .arg = "FILE",
     .help = "Certificate that Envoy shows to the server."},
    {"key", NULL, SW_OPT_STR, AT(key), .arg = "FILE", .help = "Its private key."},
    {"server-name", NULL, SW_OPT_STR, AT(sni), .arg = "NAME",
     .help = "Name that the server's certificate must be for, if not the host of --xds-addr."},
    {"token-file", NULL, SW_OPT_STR, AT(token_file), .arg = "FILE",
     .help = "A bearer token that becomes part of the output."},
    {"admin", NULL, SW_OPT_ADDR, AT(admin), .arg = "IP:PORT",
     .help = "Envoy's own admin interface; none unless given: a tenant's name that resolves to "
             "loopback would reach it."},
    {.type = SW_OPT_GROUP, .help = "Connectors ('patch' and 'tunnel')"},
    {"connect-proxy", NULL, SW_OPT_STR, AT(connect_proxy), .def = "127.0.0.1:15040",
     .arg = "ADDR|PATH", .help = "Where 'spanwire sidecar' takes CONNECT requests."},
    {"connect-http2", NULL, SW_OPT_BOOL, AT(connect_http2), .def = "true",
     .help = "Speak HTTP/2 to it: one connection for all tunnels."},
    {"name", NULL, SW_OPT_STR, AT(name), .def = "spanwire", .arg = "NAME",
     .help = "patch: name of the EnvoyProxy."},
    {"namespace", NULL, SW_OPT_STR, AT(ns), .def = "envoy-gateway-system", .arg = "NAME",
     .help = "patch: its namespace."},
    {"connector-id", NULL, SW_OPT_STR, AT(id), .arg = "NODEID",
     .help = "tunnel: public key of the connector."},
    {"target", NULL, SW_OPT_STR, AT(target), .arg = "HOST:PORT",
     .help = "tunnel: what is reached through it, as the device sees it."},
    {"listen", NULL, SW_OPT_ADDR, AT(listen), .def = "0.0.0.0:10000", .arg = "IP:PORT",
     .help = "tunnel: where Envoy takes connections for it."},
};

const struct sw_opts_cmd sw_envoy_options = {
    .name = "envoy",
    .usage = "bootstrap|patch|tunnel [options]",
    .summary = "Prints configuration for Envoys: 'bootstrap' to take everything else from\n"
               "'spanwire control' (delta ADS over one stream with keep-alive), 'patch' an\n"
               "EnvoyProxy that lets Envoy Gateway reach connectors, 'tunnel' an Envoy for one\n"
               "connector.",
    SW_OPTS_OF(table),
    .max_args = 1,
};

static struct sw_slice text(const char *s)
{
    return sw_slice_str(s ? s : "");
}

static int proxy_conf(const struct settings *s, struct sw_arena *arena,
                      struct sw_model_xds_conf *ret, struct sw_err *err)
{
    struct sw_addr at;
    int rc;

    ret->connect_proxy_h2 = s->connect_http2;
    ret->connect_proxy = text(s->connect_proxy);
    if (s->connect_proxy[0] == '/')
        return SW_OK;
    rc = sw_addr_parse(ret->connect_proxy, &at, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, "--connect-proxy");
    ret->connect_proxy = sw_slice_str(sw_ip_text(&at.ip, sw_arena_alloc(arena, SW_IP_TEXT)));
    ret->connect_proxy_port = at.port;
    return SW_OK;
}

static int run_patch(const struct settings *s, struct sw_arena *arena, struct sw_buf *out,
                     struct sw_err *err)
{
    struct sw_model_xds_conf conf = {0};
    int rc = proxy_conf(s, arena, &conf, err);

    return rc == SW_OK ? sw_envoy_patch_write(&conf, text(s->ns), text(s->name), out, err) : rc;
}

static int run_tunnel(const struct settings *s, struct sw_arena *arena, struct sw_buf *out,
                      struct sw_err *err)
{
    struct sw_envoy_tunnel t = {.target = text(s->target), .port = s->listen.port};
    char listen[SW_IP_TEXT];
    char hex[SW_NODEID_HEX];
    struct sw_nodeid id;
    int rc = proxy_conf(s, arena, &t.conf, err);

    if (rc == SW_OK && (!s->id || !s->target))
        rc = sw_err_set(err, SW_EINVAL, "tunnel needs --connector-id and --target");
    if (rc == SW_OK && sw_nodeid_parse(text(s->id), &id, err) != SW_OK)
        rc = sw_err_prefix(err, "--connector-id");
    if (rc != SW_OK)
        return rc;
    t.id = sw_slice_str(sw_nodeid_hex(&id, hex));
    t.listen = sw_slice_str(sw_ip_text(&s->listen.ip, listen));
    return sw_envoy_tunnel_write(&t, out, err);
}

static int run_bootstrap(const struct settings *s, struct sw_arena *arena, struct sw_buf *out,
                         struct sw_err *err)
{
    struct sw_envoy_bootstrap b = {.node_id = text(s->node_id),
                                   .node_cluster = text(s->node_cluster),
                                   .ca = text(s->ca),
                                   .cert = text(s->cert),
                                   .key = text(s->key),
                                   .sni = text(s->sni),
                                   .admin_port = s->admin.port};
    struct sw_slice token = {0};
    char admin[SW_IP_TEXT];
    int rc = sw_cmd_host_port("--xds-addr", s->xds, &b.xds_host, &b.xds_port, err);

    if (rc == SW_OK && s->token_file) {
        rc = sw_bearer_read(s->token_file, &token, err);
        b.token = token;
    }
    if (rc == SW_OK && s->admin.ip.family)
        b.admin_host = sw_slice_str(sw_ip_text(&s->admin.ip, admin));
    if (rc == SW_OK)
        rc = sw_envoy_bootstrap_write(&b, out, err);
    sw_slice_free_secret(&token);
    return rc;
}

static int run(void *settings, const struct sw_opts_rest *rest, struct sw_arena *arena,
               struct sw_err *err)
{
    static const struct {
        const char *name;
        int (*print)(const struct settings *s, struct sw_arena *arena, struct sw_buf *out,
                     struct sw_err *err);
    } verbs[] = {{"bootstrap", run_bootstrap}, {"patch", run_patch}, {"tunnel", run_tunnel}};
    SW_BUF_AUTO out = {.max = 1 << 20};

    for (size_t i = 0; rest->n_args && i < SW_ARRAY_LEN(verbs); i++) {
        int rc;

        if (strcmp(rest->args[0], verbs[i].name) != 0)
            continue;
        rc = verbs[i].print(settings, arena, &out, err);
        if (rc == SW_OK)
            (void)fwrite(sw_buf_data(&out), 1, sw_buf_len(&out), stdout);
        return rc;
    }
    return sw_err_set(err, SW_EINVAL,
                      "say 'bootstrap', 'patch' or 'tunnel' (see 'spanwire help envoy')");
}

int sw_cmd_envoy(int argc, char **argv)
{
    struct settings s = {0};

    return sw_cmd_run(&sw_envoy_options, (struct sw_args){argc, argv}, &s, run);
}
