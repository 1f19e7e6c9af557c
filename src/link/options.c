/* SPDX-License-Identifier: Apache-2.0 */
#include "link/link.h"

#define AT(field) .offset = offsetof(struct sw_link_config, field)
#define PROCESS   offsetof(struct sw_link_config, process)

static const char *const forms[] = {
    [SW_LINK_CONTROL_OURS] = "spanwire", [SW_LINK_CONTROL_CLUSTERLINK] = "clusterlink", NULL};

static const struct sw_opt table[] = {
    {.type = SW_OPT_GROUP, .help = "Control plane"},
    {"control", "SPANWIRE_LINK_CONTROL", SW_OPT_STR, AT(control), .arg = "HOST:PORT",
     .flags = SW_OPT_NEEDED, .help = "Control plane of this site (port 4444 of ClusterLink's)."},
    {"site", "SPANWIRE_LINK_SITE", SW_OPT_STR, AT(site), .arg = "DIR", .flags = SW_OPT_NEEDED,
     .help = "Directory with ca.pem, dataplane.pem and dataplane.key of the site's authority; read "
             "again when they change."},
    {"control-form", "SPANWIRE_LINK_CONTROL_FORM", SW_OPT_ENUM, AT(form), .def = "spanwire",
     .choices = forms,
     .help = "What the control plane speaks: that of this program, or ClusterLink's."},
    {"control-name", "SPANWIRE_LINK_CONTROL_NAME", SW_OPT_STR, AT(control_name),
     .def = "cl-controlplane", .arg = "NAME",
     .help = "Name the control plane's certificate must be for."},
    {"authorise-timeout", "SPANWIRE_LINK_AUTHORISE_TIMEOUT", SW_OPT_DURATION, AT(authorise_ns),
     .def = "5s", .min = 10, .max = 60000, .help = "For an answer of the control plane."},
    {.type = SW_OPT_GROUP, .help = "Traffic"},
    {"listen", "SPANWIRE_LINK_LISTEN", SW_OPT_LIST, AT(listen), .arg = "ADDRESS",
     .help = "External address for other sites, with TLS of the fabric [[::]:4443]. Repeats."},
    {"import-address", "SPANWIRE_LINK_IMPORT_ADDRESS", SW_OPT_LIST, AT(import_address), .arg = "IP",
     .help = "Where imports listen; the port is the control plane's [all addresses]. Repeats."},
    {"max-connections", "SPANWIRE_LINK_MAX_CONNECTIONS", SW_OPT_U32, AT(max_connections),
     .def = "50000", .min = 1, .arg = "N",
     .help = "Connections at once; further ones are refused."},
    {"max-connections-per-peer", "SPANWIRE_LINK_MAX_CONNECTIONS_PER_PEER", SW_OPT_U32,
     AT(max_per_peer), .def = "10000", .min = 1, .arg = "N",
     .help = "TLS connections of one other site at once."},
    {"connect-timeout", "SPANWIRE_LINK_CONNECT_TIMEOUT", SW_OPT_DURATION, AT(connect_ns),
     .def = "2s", .min = 10, .max = 60000,
     .help = "For a TCP connection to a gateway of another site, or to an exported service."},
    {"pool-unused-release", "SPANWIRE_LINK_POOL_UNUSED_RELEASE", SW_OPT_DURATION,
     AT(pool_unused_ns), .def = "5m", .min = 1,
     .help = "How long a connection to another site is kept without tunnels."},
    SW_OPT_UPSTREAM(offsetof(struct sw_link_config, upstream)),
    {.type = SW_OPT_GROUP, .help = "Process"},
    SW_OPT_WORKERS(PROCESS),
    {"drain-time", "SPANWIRE_DRAIN_TIME", SW_OPT_DURATION, AT(process.drain_ns), .def = "30s",
     .help = "How long connections may take to end after SIGTERM."},
    SW_OPT_AEAD(offsetof(struct sw_link_config, aead)),
    {"port-group", "SPANWIRE_PORT_GROUP", SW_OPT_STR, AT(port_group), .arg = "NAME",
     .help = "Processes with the same name may listen on the same ports at once, as a successor "
             "does before the old process drains; by default those with the same --control."},
    {.type = SW_OPT_GROUP, .help = "Operation"},
    {"admin-addr", "SPANWIRE_ADMIN_ADDR", SW_OPT_ADDR, AT(process.admin_addr),
     .def = "127.0.0.1:15000", .help = "Admin pages: /config_dump, /logging, /quitquitquit."},
    SW_OPT_ADMIN(PROCESS + offsetof(struct sw_process_config, access)),
    {"stats-addr", "SPANWIRE_STATS_ADDR", SW_OPT_ADDR, AT(process.stats_addr), .def = "[::]:15020",
     .help = "Metrics."},
    {"ready-addr", "SPANWIRE_READY_ADDR", SW_OPT_ADDR, AT(process.ready_addr), .def = "[::]:15021",
     .help = "Readiness (ClusterLink's data planes use port 4445)."},
    SW_OPT_LOG(PROCESS, "link", "Form of the log lines."),
};

const struct sw_opts_cmd sw_link_options = {
    .name = "link",
    .usage = "--control HOST:PORT --site DIR [options]",
    .summary =
        "Carries connections between sites: clients of imports to other sites, and those of\n"
        "other sites to exported services, each authorised by both sites' control planes.\n"
        "Compatible with ClusterLink.",
    .epilogue = "SIGTERM drains; a second process started on the same ports takes over first.\n"
                "See spanwire-link(8).",
    .opts = table,
    .n = SW_ARRAY_LEN(table),
    .config_file = true,
};

int sw_link_config_read(struct sw_link_config *c, int argc, char **argv, struct sw_err *err)
{
    *c = (struct sw_link_config){0};
    return sw_opts_parse(&sw_link_options, c, &c->arena, (struct sw_args){argc, argv}, NULL, err);
}

void sw_link_config_done(struct sw_link_config *c)
{
    sw_arena_clear(&c->arena);
}
