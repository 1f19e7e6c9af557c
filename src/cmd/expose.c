/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire expose PORT|URL`: a service of this machine gets a public name. */
#include "connector/expose/expose.h"

#include "base/log.h"
#include "cmd/cmd.h"

#define AT(field) .offset = offsetof(struct sw_expose_config, field)

static const struct sw_opt table[] = {
    {.type = SW_OPT_GROUP, .help = "The name"},
    {"hostname", NULL, SW_OPT_LIST, AT(hostnames), .arg = "NAME",
     .help = "Public name of the service; may be repeated [a name made by the control plane]."},
    {"name", NULL, SW_OPT_STR, AT(name), .arg = "NAME",
     .help = "Name of the HTTPProxy and the advertisement [machine and port, 'laptop-3000']."},
    {"port", NULL, SW_OPT_U32, AT(port), .arg = "N", .max = 65535,
     .help = "Public port of a tcp:// service, one of those that the control plane gives to "
             "devices [any that is free]."},
    {"tls-name", NULL, SW_OPT_LIST, AT(tls_names), .arg = "NAME",
     .help = "Public name of a tcp:// service that speaks TLS itself: instead of a port of its own "
             "it gets the connections whose server name (SNI) is NAME; may be repeated."},
    {"ca", NULL, SW_OPT_STR, AT(ca), .arg = "FILE",
     .help = "CA certificates (PEM) that the certificate of an https:// service must be from [the "
             "gateway's system roots]."},
    {"label", NULL, SW_OPT_STR, AT(label), .arg = "TEXT", .help = "A name for people."},
    {"https-redirect", NULL, SW_OPT_BOOL, AT(redirect), .def = "false",
     .help = "Send requests for http:// to https://, which the gateways must serve."},
    {"rm", NULL, SW_OPT_BOOL, AT(rm), .def = "false",
     .help = "Remove everything at the end instead of keeping the name."},
    {"inspect", NULL, SW_OPT_BOOL, AT(c.inspect), .def = "true",
     .help =
         "Keep the last requests with headers and the beginning of their bodies, in memory, and "
         "show them on a page of the status address."},
    {"inspect-secrets", NULL, SW_OPT_BOOL, AT(c.inspect_secrets), .def = "false",
     .help = "Show the values of headers that carry secrets there, too."},
    {"json", NULL, SW_OPT_BOOL, AT(json), .def = "false",
     .help = "Print events as JSON, one per line."},
    {"verify", NULL, SW_OPT_BOOL, AT(verify), .def = "true",
     .help = "Ask the gateway for the name once it should work (HEAD /)."},
    {"timeout", NULL, SW_OPT_DURATION, AT(timeout_ns), .def = "10m",
     .help = "How long it may take to become ready; 0: no limit."},
    SW_CONNECTOR_OPTS_API(struct sw_expose_config, c),
    SW_CONNECTOR_OPTS_NET(struct sw_expose_config, c),
    SW_CONNECTOR_OPTS_POLICY(struct sw_expose_config, c),
    SW_CONNECTOR_OPTS_RUN(struct sw_expose_config, c, "127.0.0.1:0", "1s", "warn"),
};

const struct sw_opts_cmd sw_expose_options = {
    .name = "expose",
    .usage = "PORT|HOST:PORT|URL [options]",
    .summary = "Gives a service of this machine a public name: connects the device to the fabric,\n"
               "makes the objects, prints the URL, and shows the requests that come.",
    .epilogue = "Ctrl-C ends it; the name stays and the same command takes it up again, unless\n"
                "--rm was given. See spanwire-expose(1).",
    SW_OPTS_OF(table),
    .max_args = 1,
};

int sw_cmd_expose(int argc, char **argv)
{
    SW_ARENA_AUTO arena = {0};
    struct sw_expose_config c = {0};
    struct sw_opts_rest rest = {0};
    struct sw_err err = {0};
    int rc =
        sw_opts_parse(&sw_expose_options, &c, &arena, (struct sw_args){argc, argv}, &rest, &err);

    if (rc == SW_EOF)
        return sw_cmd_help(&sw_expose_options);
    if (rc == SW_OK && rest.n_args != 1)
        rc = sw_err_set(&err, SW_EINVAL,
                        "expose: what? A port, HOST:PORT or URL (http, https, tcp) is needed");
    if (rc == SW_OK)
        rc = sw_cmd_start_log(c.c.log_level, c.c.log_format, &err);
    if (rc != SW_OK)
        return sw_cmd_bad_use(&err);
    c.target = rest.args[0];
    rc = sw_expose_run(&c, &arena, &err);
    sw_log_stop();
    if (rc == SW_OK)
        return 0;
    return rc == SW_EINVAL ? sw_cmd_bad_use(&err) : sw_cmd_fail(&err);
}
