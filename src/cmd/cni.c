/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire cni redirect apply|remove|show`, `cni agent`, `cni uninstall`, and the plugin itself.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cni/agent/agent.h"
#include "cni/plugin/plugin.h"
#include "cni/redirect.h"
#include "io/netns.h"
#include "io/sandbox.h"

struct settings {
    const char *netns;
    bool dns;
    bool ipv6;
    bool inbound;
    struct sw_opt_list virtual_ifs;
    struct sw_opt_list probe_ips;
};

#define AT(field) .offset = offsetof(struct settings, field)

static const struct sw_opt table[] = {
    {"netns", NULL, SW_OPT_STR, AT(netns), .arg = "PATH",
     .help = "Network namespace of the pod, such as /run/netns/NAME or /proc/PID/ns/net. Needed by "
             "apply and remove."},
    {"dns", NULL, SW_OPT_BOOL, AT(dns), .def = "false", .arg = "BOOL",
     .help = "Redirect DNS to port 15053 too, where the node answers for the mesh and forwards the "
             "rest."},
    {"ipv6", NULL, SW_OPT_BOOL, AT(ipv6), .def = "true", .arg = "BOOL",
     .help = "Rules and routes for IPv6 too."},
    {"inbound", NULL, SW_OPT_BOOL, AT(inbound), .def = "true", .arg = "BOOL",
     .help = "Capture connections to the pod. --no-inbound leaves them alone."},
    {"virtual-interface", NULL, SW_OPT_LIST, AT(virtual_ifs), .arg = "NAME",
     .help = "Connections that come in on this interface (of a virtual machine, say) are treated "
             "as outbound. May be repeated."},
    {"probe-ip", NULL, SW_OPT_LIST, AT(probe_ips), .arg = "IP",
     .help = "Where health probes come from; they are never captured. Once per family. Default "
             "169.254.7.127 and fd16:9254:7127:1337:ffff:ffff:ffff:ffff."},
};

const struct sw_opts_cmd sw_cni_redirect_options = {
    .name = "cni redirect",
    .usage = "apply|remove|show [options]",
    .summary = "Redirects the TCP connections of a pod to the node proxy, with nftables rules and\n"
               "a routing rule inside its network namespace. apply replaces what is there in one\n"
               "step, remove takes out exactly that, show prints it and touches nothing.",
    .epilogue = "apply and remove need root (CAP_NET_ADMIN and CAP_SYS_ADMIN), nft and ip.\n"
                "'spanwire cni agent --help' and 'spanwire cni uninstall --help' list the options "
                "of the\nnode agent; called by a container runtime, 'spanwire cni' is a plugin.",
    SW_OPTS_OF(table),
    .max_args = 1,
};

static int probe_addresses(const struct settings *s, struct sw_redirect *r, struct sw_err *err)
{
    if (s->probe_ips.n) {
        r->probe4.family = 0;
        r->probe6.family = 0;
    }
    for (size_t i = 0; i < s->probe_ips.n; i++) {
        struct sw_ip ip;
        struct sw_ip *at;
        int rc = sw_ip_parse(sw_slice_str(s->probe_ips.p[i]), &ip, err);

        if (rc != SW_OK)
            return sw_err_prefix(err, "--probe-ip");
        at = ip.family == 4 ? &r->probe4 : &r->probe6;
        if (at->family)
            return sw_err_set(err, SW_EINVAL, "--probe-ip: two IPv%d addresses", ip.family);
        *at = ip;
    }
    return SW_OK;
}

static int build(const struct settings *s, struct sw_redirect *r, struct sw_err *err)
{
    sw_redirect_init(r);
    r->dns = s->dns;
    r->ipv6 = s->ipv6;
    r->inbound = s->inbound;
    r->virtual_ifs = s->virtual_ifs.p;
    r->n_virtual_ifs = s->virtual_ifs.n;
    if (probe_addresses(s, r, err) != SW_OK)
        return err->rc;
    return sw_redirect_check(r, err);
}

static int show(const struct sw_redirect *r, struct sw_err *err)
{
    SW_BUF_AUTO text = {.max = SW_REDIRECT_TEXT_MAX};

    if (sw_redirect_show(r, &text) != SW_OK)
        return sw_err_set(err, SW_ELIMIT, "the rules are too long");
    (void)fwrite(sw_buf_data(&text), 1, sw_buf_len(&text), stdout);
    return fflush(stdout) == 0 ? SW_OK : sw_err_set(err, SW_ESYS, "cannot write the rules");
}

static int change(const char *verb, const char *netns, const struct sw_redirect *r,
                  struct sw_err *err)
{
    SW_AUTO_FD fd = -1;
    int rc;

    if (!netns)
        return sw_err_set(err, SW_EINVAL, "%s needs --netns PATH", verb);
    rc = sw_netns_open(netns, &fd, err);
    if (rc != SW_OK)
        return rc;
    if (strcmp(verb, "apply") == 0)
        return sw_redirect_apply(fd, r, err);
    return sw_redirect_remove(fd, err);
}

static int run(void *settings, const struct sw_opts_rest *rest, struct sw_arena *arena,
               struct sw_err *err)
{
    const struct settings *s = settings;
    struct sw_redirect r;
    const char *verb = rest->n_args ? rest->args[0] : "";
    int rc = build(s, &r, err);

    if (rc != SW_OK)
        return rc;
    if (strcmp(verb, "show") == 0)
        return show(&r, err);
    if (strcmp(verb, "apply") != 0 && strcmp(verb, "remove") != 0)
        return sw_err_set(err, SW_EINVAL, "say apply, remove or show (see 'spanwire help cni')");
    return change(verb, s->netns, &r, err);
}

static int redirect(int argc, char **argv)
{
    struct settings s = {0};

    return sw_cmd_run(&sw_cni_redirect_options, (struct sw_args){argc, argv}, &s, run);
}

static int agent(int argc, char **argv,
                 int (*run_it)(const struct sw_agent_config *c, struct sw_err *err))
{
    struct sw_agent_config c;
    struct sw_err err = {0};
    int rc = sw_agent_config_read(&c, argc, argv, &err);
    int status;

    if (rc == SW_OK)
        rc = sw_cmd_start_log(c.log_level, c.log_format, &err);
    if (rc == SW_OK) {
        rc = run_it(&c, &err);
        if (rc != SW_OK)
            (void)sw_err_prefix(&err, "cni %s", argv[0]);
    }
    status = sw_cmd_end(&sw_agent_options, rc, &err);
    sw_agent_config_done(&c);
    return status;
}

int sw_cmd_cni(int argc, char **argv)
{
    const char *verb = argc >= 2 ? argv[1] : "";
    struct sw_err err = {0};

    if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0)
        return sw_cmd_help(&sw_cni_redirect_options);
    if (argc < 2 && sw_cni_called())
        return sw_cni_plugin();
    if (strcmp(verb, "redirect") == 0)
        return redirect(argc - 1, argv + 1);
    if (strcmp(verb, "agent") == 0) {
        if (sw_sandbox_enter(SW_SANDBOX_AGENT, &err) != SW_OK)
            (void)sw_cmd_fail(&err);
        return agent(argc - 1, argv + 1, sw_agent_run);
    }
    if (strcmp(verb, "uninstall") == 0)
        return agent(argc - 1, argv + 1, sw_agent_uninstall);
    (void)fprintf(stderr, "spanwire: cni: the command is 'cni redirect apply|remove|show', "
                          "'cni agent' or 'cni uninstall'\n");
    return 1;
}
