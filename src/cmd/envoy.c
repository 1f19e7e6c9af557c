/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire envoy bootstrap`. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cmd/cmd.h"
#include "control/gateway/bootstrap.h"
#include "io/addr.h"
#include "io/filewatch.h"

enum { TOKEN_MAX = 1 << 16 };

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
     .help = "Roots for the server's certificate, as Envoy will find them. Without it the stream\n"
             "is not encrypted, which is for loopback only."},
    {"cert", NULL, SW_OPT_STR, AT(cert), .arg = "FILE",
     .help = "Certificate that Envoy shows to the server."},
    {"key", NULL, SW_OPT_STR, AT(key), .arg = "FILE", .help = "Its private key."},
    {"server-name", NULL, SW_OPT_STR, AT(sni), .arg = "NAME",
     .help = "Name that the server's certificate must be for, if not the host of --xds-addr."},
    {"token-file", NULL, SW_OPT_STR, AT(token_file), .arg = "FILE",
     .help = "A bearer token that becomes part of the output."},
    {"admin", NULL, SW_OPT_ADDR, AT(admin), .def = "127.0.0.1:19000", .arg = "IP:PORT",
     .help = "Envoy's own admin interface."},
};

const struct sw_opts_cmd sw_envoy_options = {
    .name = "envoy",
    .usage = "bootstrap [options]",
    .summary = "Prints what an Envoy has to be started with to take its configuration from\n"
               "'spanwire control': envoy -c FILE. Delta ADS over one stream with keep-alive.",
    .opts = table,
    .n = SW_ARRAY_LEN(table),
    .max_args = 1,
};

static struct sw_slice text(const char *s)
{
    return sw_slice_str(s ? s : "");
}

/* "host:port" with brackets around an IPv6 address. */
static int split(const char *in, struct sw_slice *ret_host, uint16_t *ret_port, struct sw_err *err)
{
    struct sw_slice s = sw_slice_str(in);
    ptrdiff_t colon = sw_slice_rfind(s, ':');
    uint64_t port = 0;

    if (colon <= 0 || !sw_slice_to_u64(sw_slice_from(s, (size_t)colon + 1), 65535, &port) ||
        port == 0)
        return sw_err_set(err, SW_EINVAL, "--xds-addr: '%.80s' is not HOST:PORT", in);
    s = sw_slice_head(s, (size_t)colon);
    if (s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']')
        s = sw_slice(s.p + 1, s.n - 2);
    *ret_host = s;
    *ret_port = (uint16_t)port;
    return SW_OK;
}

static int run(const struct settings *s, struct sw_arena *arena, struct sw_err *err)
{
    struct sw_envoy_bootstrap b = {.node_id = text(s->node_id),
                                   .node_cluster = text(s->node_cluster),
                                   .ca = text(s->ca),
                                   .cert = text(s->cert),
                                   .key = text(s->key),
                                   .sni = text(s->sni),
                                   .admin_port = s->admin.port};
    SW_BUF_AUTO out = {.max = 1 << 20};
    struct sw_slice file = {0};
    char admin[SW_IP_TEXT];
    int rc = split(s->xds, &b.xds_host, &b.xds_port, err);

    if (rc == SW_OK && s->token_file) {
        rc = sw_file_read(s->token_file, TOKEN_MAX, &file, err);
        if (rc == SW_OK)
            b.token = sw_slice_trim(sw_arena_slice(arena, file));
        while (b.token.n && b.token.p[b.token.n - 1] == '\n')
            b.token.n--;
        sw_free_secret((char *)(uintptr_t)file.p, file.n);
    }
    if (rc == SW_OK && s->admin.ip.family)
        b.admin_host = sw_slice_str(sw_ip_text(&s->admin.ip, admin));
    if (rc == SW_OK)
        rc = sw_envoy_bootstrap_write(&b, &out, err);
    if (rc == SW_OK)
        (void)fwrite(sw_buf_data(&out), 1, sw_buf_len(&out), stdout);
    return rc;
}

int sw_cmd_envoy(int argc, char **argv)
{
    SW_ARENA_AUTO arena = {0};
    struct settings s = {0};
    struct sw_opts_rest rest;
    struct sw_err err = {0};
    int rc = sw_opts_parse(&sw_envoy_options, &s, &arena, argc, argv, &rest, &err);

    if (rc == SW_EOF)
        return sw_cmd_help(&sw_envoy_options);
    if (rc == SW_OK && (rest.n_args != 1 || strcmp(rest.args[0], "bootstrap") != 0))
        rc = sw_err_set(&err, SW_EINVAL, "envoy: say 'bootstrap' (see 'spanwire help envoy')");
    else if (rc == SW_OK && (rc = run(&s, &arena, &err)) != SW_OK)
        (void)sw_err_prefix(&err, "envoy");
    if (rc != SW_OK)
        return sw_cmd_fail(&err);
    return fflush(stdout) == 0 ? 0 : 1;
}
