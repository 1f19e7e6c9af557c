/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `spanwire cni agent` and what follows from them. */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "cni/agent/agent.h"
#include "cni/plugin/plugin.h"
#include "opts/admin.h"
#include "opts/process.h"

#define AT(field) .offset = offsetof(struct sw_agent_config, field)

static const struct sw_opt table[] = {
    {.type = SW_OPT_GROUP, .help = "Where"},
    {"node-name", "NODE_NAME", SW_OPT_STR, AT(node_name), .arg = "NAME", .flags = SW_OPT_NEEDED,
     .help = "Name of this node in the API: only its pods are looked after."},
    {"kubeconfig", NULL, SW_OPT_STR, AT(kubeconfig), .arg = "FILE",
     .help = "How to reach the API [$KUBECONFIG, a pod's service account, ~/.kube/config]."},
    {"context", NULL, SW_OPT_STR, AT(context), .arg = "NAME",
     .help = "Context of the kubeconfig [the current one]."},
    {"pod-namespace", "POD_NAMESPACE", SW_OPT_STR, AT(pod_namespace), .arg = "NAME",
     .help = "Namespace the agent itself runs in: its pods start without asking the agent."},
    {"daemonset", NULL, SW_OPT_STR, AT(daemonset), .arg = "NAME",
     .help =
         "The DaemonSet that runs the agent, in --pod-namespace. When the agent is ended and it "
         "is being deleted, everything is taken off the node; otherwise everything stays."},
    {"zds-socket", "ZDS_SOCKET", SW_OPT_STR, AT(zds_socket), .def = "/var/run/ztunnel/ztunnel.sock",
     .arg = "PATH", .help = "Socket at which node proxies connect (their INPOD_UDS)."},
    {"plugin-socket", NULL, SW_OPT_STR, AT(plugin_socket),
     .def = "/var/run/spanwire-cni/plugin.sock", .arg = "PATH",
     .help = "Socket at which the plugin connects."},
    {"run-dir", NULL, SW_OPT_STR, AT(run_dir), .def = "/var/run/spanwire-cni", .arg = "DIR",
     .help = "What is remembered of pods while the node runs."},
    {"node-state-dir", NULL, SW_OPT_STR, AT(node_state_dir), .arg = "DIR",
     .help = "What the node proxy keeps on the host (its --state-dir): removed when everything is "
             "taken off the node."},
    {"host-proc", NULL, SW_OPT_STR, AT(host_proc), .def = "/proc", .arg = "DIR",
     .help = "The host's /proc: pods that run already are found by their processes."},
    {"host-netns", NULL, SW_OPT_STR, AT(host_netns), .arg = "PATH",
     .help = "Network namespace of the host, such as /host/proc/1/ns/net [our own]."},
    {"netns-prefix", NULL, SW_OPT_STR, AT(netns_prefix), .def = "", .arg = "DIR",
     .help = "Put in front of the runtime's namespace paths where the host's root is mounted "
             "elsewhere (/host)."},

    {.type = SW_OPT_GROUP, .help = "Which pods, and how"},
    {"exclude-namespace", "EXCLUDE_NAMESPACES", SW_OPT_LIST, AT(excluded), .def = "kube-system",
     .arg = "NAME",
     .help = "Pods of these namespaces never belong to the mesh, whatever their labels. May be "
             "repeated."},
    {"dns", "AMBIENT_DNS_CAPTURE", SW_OPT_BOOL, AT(dns), .def = "true", .arg = "BOOL",
     .help = "Redirect DNS to port 15053 of the node proxy, unless the pod's annotation "
             "ambient.istio.io/dns-capture says otherwise."},
    {"ipv6", "AMBIENT_IPV6", SW_OPT_BOOL, AT(ipv6), .def = "true", .arg = "BOOL",
     .help = "Rules and routes for IPv6 too."},
    {"probes", NULL, SW_OPT_BOOL, AT(probes), .def = "true", .arg = "BOOL",
     .help = "Let the kubelet's probes reach enrolled pods, by a rule on the host."},
    {"probe-uid", NULL, SW_OPT_STR, AT(probe_uid_text), .arg = "UID",
     .help = "User the kubelet runs as [that of a running kubelet, otherwise 0]."},
    {"wait", NULL, SW_OPT_DURATION, AT(wait_ns), .def = "20s", .min = 100,
     .help =
         "How long the start of a pod is held while it cannot join the mesh, before the runtime "
         "is asked to retry."},
    {"verify", NULL, SW_OPT_DURATION, AT(verify_ns), .def = "60s", .min = 100,
     .help = "How often the rules of pods and of the host are checked, and repaired where another "
             "program removed them."},

    {.type = SW_OPT_GROUP, .help = "The plugin on the host"},
    {"install", NULL, SW_OPT_BOOL, AT(install), .def = "true", .arg = "BOOL",
     .help = "Install the plugin and add it to the network configuration, and keep both so."},
    {"plugin", NULL, SW_OPT_STR, AT(plugin), .arg = "FILE",
     .help = "The program to install as the plugin [spanwire-cni beside this program, which needs "
             "no libraries of the host; otherwise this program]."},
    {"cni-bin-dir", NULL, SW_OPT_STR, AT(bin_dir), .def = "/opt/cni/bin", .arg = "DIR",
     .help = "Plugins of the container runtime."},
    {"cni-conf-dir", NULL, SW_OPT_STR, AT(conf_dir), .def = "/etc/cni/net.d", .arg = "DIR",
     .help = "Network configurations of the container runtime."},
    {"cni-conf-name", "CNI_CONF_NAME", SW_OPT_STR, AT(conf_name), .arg = "FILE",
     .help = "The configuration to add the plugin to [the first valid one]."},

    {.type = SW_OPT_GROUP, .help = "Admin and logs"},
    {"admin-addr", NULL, SW_OPT_ADDR, AT(admin_addr), .def = "127.0.0.1:15014",
     .help = "Metrics, readiness and admin pages."},
    {"pages-addr", NULL, SW_OPT_ADDR, AT(pages_addr),
     .help = "Metrics and readiness a second time, for probes and scrapers from elsewhere."},
    SW_OPT_ADMIN(offsetof(struct sw_agent_config, access)),
    {"log-level", "SPANWIRE_LOG", SW_OPT_STR, AT(log_level), .def = "info", .arg = "FILTER",
     .help = "Log filter, such as 'info' or 'info,zds=debug'."},
    {"log-format", "LOG_FORMAT", SW_OPT_ENUM, AT(log_format), .def = "plain",
     .choices = sw_log_formats, .help = "Log format."},
};

const struct sw_opts_cmd sw_agent_options = {
    .name = "cni agent",
    .usage = "[options]",
    .summary = "The node agent: decides by Istio's labels which pods of this node belong to the\n"
               "mesh, redirects their connections and hands their network namespaces to the node\n"
               "proxy. Installs the CNI plugin, which holds new pods until they are redirected.",
    .epilogue = "Needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_PTRACE), nft and ip.",
    .opts = table,
    .n = SW_ARRAY_LEN(table),
    .config_file = true,
};

/* The agent's own namespace counts as excluded: it could not start otherwise. */
static void exclude_own(struct sw_agent_config *c)
{
    const char **all = sw_arena_array(&c->arena, c->excluded.n + 1, sizeof(*all));

    if (!c->pod_namespace || !c->pod_namespace[0])
        return;
    for (size_t i = 0; i < c->excluded.n; i++) {
        if (strcmp(c->excluded.p[i], c->pod_namespace) == 0)
            return;
        all[i] = c->excluded.p[i];
    }
    all[c->excluded.n++] = c->pod_namespace;
    c->excluded.p = all;
}

/* The plugin in the directory of this program; NULL: there is none. */
static const char *find_plugin(struct sw_arena *a)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
    ptrdiff_t end = n > 0 ? sw_slice_rfind(sw_slice(self, (size_t)n), '/') : -1;
    const char *path = end >= 0 ? sw_arena_printf(a, "%.*s/" SW_CNI_PLUGIN, (int)end, self) : NULL;

    return path && access(path, X_OK) == 0 ? path : NULL;
}

int sw_agent_config_read(struct sw_agent_config *c, int argc, char **argv, struct sw_err *err)
{
    struct sw_opts_rest rest;
    uint64_t uid;
    int rc;

    *c = (struct sw_agent_config){0};
    rc = sw_opts_parse(&sw_agent_options, c, &c->arena, (struct sw_args){argc, argv}, &rest, err);
    if (rc != SW_OK)
        return rc;
    if (c->probe_uid_text &&
        !sw_slice_to_u64(sw_slice_str(c->probe_uid_text), UINT32_MAX - 1, &uid))
        return sw_err_set(err, SW_EINVAL, "cni agent: --probe-uid: '%.40s' is not a user id",
                          c->probe_uid_text);
    exclude_own(c);
    if (!c->plugin)
        c->plugin = find_plugin(&c->arena);
    return SW_OK;
}

void sw_agent_config_done(struct sw_agent_config *c)
{
    sw_arena_clear(&c->arena);
}
