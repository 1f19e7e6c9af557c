/* SPDX-License-Identifier: Apache-2.0 */
/* One binary: finds the command and hands over. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/def.h"
#include "cmd/cmd.h"
#include "cmd/control/control.h"
#include "cmd/control/options.h"
#include "cmd/join/join.h"
#include "cmd/join/token.h"
#include "cmd/status/status.h"
#include "cmd/up/up.h"
#include "cni/agent/agent.h"
#include "cni/plugin/plugin.h"
#include "gateway/worker/gateway.h"
#include "io/sandbox.h"
#include "link/link.h"
#include "node/config.h"
#include "relay/relay.h"
#include "sidecar/sidecar.h"
#include "tls/crypto/pk.h"

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

static const struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
    const struct sw_opts_cmd *options; /* for the manual page; NULL: written by hand */
    int section;                       /* of its manual page, spanwire-NAME; 0: it has none */
    enum sw_sandbox sandbox;
} commands[] = {
    {"up", "control, relay, sidecar and gateway on this machine", sw_cmd_up, &sw_up_options, 1,
     SW_SANDBOX_SUPERVISOR},
    {"node", "encrypt and authorise the connections of workloads (HBONE)", sw_cmd_node,
     &sw_node_options, 8, SW_SANDBOX_NODE},
    {"gateway", "serve HTTP, TLS, TCP and UDP as xDS resources say", sw_cmd_gateway,
     &sw_gateway_options, 8, SW_SANDBOX_ROLE},
    {"sidecar", "carry a gateway's requests to devices, found by their key", sw_cmd_sidecar,
     &sw_sidecar_options, 8, SW_SANDBOX_ROLE},
    {"relay", "forward packets between nodes that cannot reach each other", sw_cmd_relay,
     &sw_relay_options, 8, SW_SANDBOX_ROLE},
    {"link", "carry authorised connections between clusters", sw_cmd_link, &sw_link_options, 8,
     SW_SANDBOX_ROLE},
    {"cert", "make a certificate authority, issue and explain certificates", sw_cmd_cert, NULL, 1,
     SW_SANDBOX_NONE},
    {"cni", "CNI plugin and node agent: bring pods into the mesh", sw_cmd_cni,
     &sw_cni_redirect_options, 8, SW_SANDBOX_NONE},
    {"store", "check, back up and restore the control plane's objects", sw_cmd_store,
     &sw_store_options, 8, SW_SANDBOX_NONE},
    {"control", "serve the API from an embedded store", sw_cmd_control, &sw_control_options, 8,
     SW_SANDBOX_ROLE},
    {"connector", "connect this device to the fabric by its key", sw_cmd_connector,
     &sw_connector_options, 8, SW_SANDBOX_ROLE},
    {"expose", "give a service of this machine a public name", sw_cmd_expose, &sw_expose_options, 1,
     SW_SANDBOX_ROLE},
    {"fabric", "make the certificate authority of linked sites, sign for peers", sw_cmd_fabric,
     &sw_fabric_options, 1, SW_SANDBOX_NONE},
    {"token", "make, list and revoke codes by which machines join", sw_cmd_token, &sw_token_options,
     1, SW_SANDBOX_NONE},
    {"join", "bring this machine into a fabric with such a code", sw_cmd_join, &sw_join_options, 1,
     SW_SANDBOX_AGENT},
    {"envoy", "print a bootstrap for an Envoy that we program", sw_cmd_envoy, &sw_envoy_options, 1,
     SW_SANDBOX_NONE},
    {"xds", "say what Envoy would refuse in xDS resources", sw_cmd_xds, &sw_xds_options, 1,
     SW_SANDBOX_NONE},
    {"status", "list data planes and what they accepted of their configuration", sw_cmd_status,
     &sw_status_options, 1, SW_SANDBOX_NONE},
    {"uninstall", "take an installation off a cluster, before its objects are deleted",
     sw_cmd_uninstall, &sw_uninstall_options, 8, SW_SANDBOX_ROLE},
    {"version", "print the version and those of the libraries", cmd_version, NULL, 0,
     SW_SANDBOX_NONE},
    {"help", "explain a command: spanwire help COMMAND", cmd_help, NULL, 0, SW_SANDBOX_NONE},
};

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(commands); i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

static int unknown(const char *name)
{
    (void)fprintf(stderr, "spanwire: '%.60s': unknown command (see 'spanwire help')\n", name);
    return 1;
}

static int usage(FILE *to)
{
    (void)fprintf(to, "Usage: spanwire COMMAND [options]\n\nCommands:\n");
    for (size_t i = 0; i < SW_ARRAY_LEN(commands); i++)
        (void)fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].summary);
    (void)fprintf(to, "\n'spanwire COMMAND --help' lists the options of one.\n");
    return fflush(to) == 0 ? 0 : 1;
}

static int cmd_version(int argc, char **argv)
{
    (void)printf("spanwire %s\nlibraries: %s\nP-256 and X25519: %s\n", SW_VERSION, SW_LIBRARIES,
                 sw_pk_name());
    return fflush(stdout) == 0 ? 0 : 1;
}

/* `help --man`: the commands as scdoc, for the build of spanwire(1). */
static int print_man_commands(void)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(commands); i++) {
        const struct command *c = &commands[i];

        (void)printf("*%s*\n\t%c%s.", c->name, toupper((unsigned char)c->summary[0]),
                     c->summary + 1);
        if (c->section)
            (void)printf(" See *spanwire-%s*(%d).", c->name, c->section);
        (void)printf("\n\n");
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

/* `help --man COMMAND`: the options as scdoc, for the build of the manual pages. */
static int print_man(const char *name)
{
    const struct command *c = find(name);
    const struct sw_opts_cmd *options = c ? c->options : NULL;
    SW_BUF_AUTO text = {.max = 1 << 16};

    if (strcmp(name, "cni-agent") == 0)
        options = &sw_agent_options;
    if (!options)
        return unknown(name);
    if (sw_opts_man(options, &text) != SW_OK)
        return 1;
    (void)fwrite(sw_buf_data(&text), 1, sw_buf_len(&text), stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}

static int cmd_help(int argc, char **argv)
{
    static char asked[] = "--help";
    const struct command *c;

    if (argc >= 2 && strcmp(argv[1], "--man") == 0)
        return argc >= 3 ? print_man(argv[2]) : print_man_commands();
    if (argc < 2 || strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0)
        return usage(stdout);
    c = find(argv[1]);
    if (!c)
        return unknown(argv[1]);
    return c->run(2, (char *[]){argv[1], asked, NULL});
}

int main(int argc, char **argv)
{
    const struct command *c;
    struct sw_err err = {0};

    /* As container runtimes call a plugin: by its name, without arguments. */
    if (argc == 1 && sw_cni_called() && strcmp(basename(argv[0]), SW_CNI_PLUGIN) == 0)
        return sw_cni_plugin();
    if (argc < 2) {
        (void)usage(stderr);
        return 1;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return usage(stdout);
    if (strcmp(argv[1], "--version") == 0)
        return cmd_version(argc, argv);
    c = find(argv[1]);
    if (!c)
        return unknown(argv[1]);
    /* Not a reason to refuse service: a kernel without it has what it had before. */
    if (sw_sandbox_enter(c->sandbox, &err) != SW_OK)
        (void)sw_cmd_fail(&err);
    return c->run(argc - 1, argv + 1);
}
