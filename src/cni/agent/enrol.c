/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/agent/enrol.h"

#define MODE_LABEL "istio.io/dataplane-mode"

static struct sw_slice meta(const struct sw_json *o, const char *map, const char *key)
{
    return sw_json_str(sw_json_walk(o, "metadata", map, key, NULL));
}

bool sw_enrol_by_namespace(const struct sw_json *ns)
{
    return sw_slice_eq_str(meta(ns, "labels", MODE_LABEL), "ambient");
}

static const char *by_labels(const struct sw_json *pod, const struct sw_json *ns)
{
    struct sw_slice own = meta(pod, "labels", MODE_LABEL);

    if (sw_slice_eq_str(own, "ambient"))
        return NULL;
    if (!sw_enrol_by_namespace(ns))
        return "neither the pod nor its namespace has " MODE_LABEL "=ambient";
    return sw_slice_eq_str(own, "none") ? "the pod has " MODE_LABEL "=none" : NULL;
}

/* What no label of the namespace changes. */
static const char *never(const struct sw_json *pod, const char *const *excluded, size_t n_excluded)
{
    struct sw_slice name = sw_json_str(sw_json_walk(pod, "metadata", "namespace", NULL));

    if (sw_json_true(sw_json_walk(pod, "spec", "hostNetwork", NULL)))
        return "the pod uses the host's network";
    if (sw_json_walk(pod, "metadata", "annotations", "sidecar.istio.io/status", NULL))
        return "the pod has a sidecar";
    if (sw_slice_eq_str(meta(pod, "labels", "app"), "ztunnel"))
        return "the pod is a node proxy";
    for (size_t i = 0; i < n_excluded; i++) {
        if (sw_slice_eq_str(name, excluded[i]))
            return "the namespace is excluded";
    }
    return NULL;
}

const char *sw_enrol_why_not(const struct sw_json *pod, const struct sw_json *ns,
                             const char *const *excluded, size_t n_excluded)
{
    const char *why = never(pod, excluded, n_excluded);

    return why ? why : by_labels(pod, ns);
}

bool sw_enrol_up_to_namespace(const struct sw_json *pod, const char *const *excluded,
                              size_t n_excluded)
{
    struct sw_slice own = meta(pod, "labels", MODE_LABEL);

    return !never(pod, excluded, n_excluded) && !sw_slice_eq_str(own, "ambient") &&
           !sw_slice_eq_str(own, "none");
}

struct sw_slice sw_enrol_static_uid(const struct sw_json *pod)
{
    return meta(pod, "annotations", "kubernetes.io/config.mirror");
}

bool sw_enrol_has_uid(const struct sw_json *pod, struct sw_slice uid)
{
    return sw_slice_eq(sw_json_str(sw_json_walk(pod, "metadata", "uid", NULL)), uid) ||
           sw_slice_eq(sw_enrol_static_uid(pod), uid);
}

bool sw_enrol_terminal(const struct sw_json *pod)
{
    const struct sw_json *phase = sw_json_walk(pod, "status", "phase", NULL);

    return sw_json_str_eq(phase, "Failed") || sw_json_str_eq(phase, "Succeeded");
}

struct sw_slice sw_enrol_state(const struct sw_json *pod)
{
    return meta(pod, "annotations", SW_ENROL_ANNOTATION);
}

size_t sw_enrol_ips(const struct sw_json *pod, struct sw_ip *ret)
{
    const struct sw_json *list = sw_json_walk(pod, "status", "podIPs", NULL);
    size_t n = 0;

    for (size_t i = 0; i < sw_json_len(list) && n < SW_ENROL_IPS_MAX; i++) {
        struct sw_slice ip = sw_json_str(sw_json_find(sw_json_at(list, i), "ip"));

        n += sw_ip_parse(ip, &ret[n], NULL) == SW_OK;
    }
    if (n == 0)
        n = sw_ip_parse(sw_json_str(sw_json_walk(pod, "status", "podIP", NULL)), &ret[0], NULL) ==
            SW_OK;
    return n;
}

struct sw_slice sw_enrol_account(const struct sw_json *pod)
{
    struct sw_slice sa = sw_json_str(sw_json_walk(pod, "spec", "serviceAccountName", NULL));

    return sa.n ? sa : SW_SLICE_LIT("default");
}

void sw_enrol_redirect(const struct sw_json *pod, struct sw_arena *a, struct sw_redirect *r)
{
    struct sw_slice dns = meta(pod, "annotations", "ambient.istio.io/dns-capture");
    struct sw_slice list = meta(pod, "annotations", "istio.io/reroute-virtual-interfaces");
    const char **names = sw_arena_array(a, SW_REDIRECT_IFS_MAX, sizeof(*names));

    if (sw_slice_eq_str(dns, "true"))
        r->dns = true;
    else if (sw_slice_eq_str(dns, "false"))
        r->dns = false;
    if (sw_slice_eq_str(meta(pod, "annotations", "ambient.istio.io/bypass-inbound-capture"),
                        "true"))
        r->inbound = false;
    r->n_virtual_ifs = 0;
    while (list.p && list.n && r->n_virtual_ifs < SW_REDIRECT_IFS_MAX) {
        struct sw_slice one = sw_slice_trim(sw_slice_cut(&list, ','));

        if (one.n)
            names[r->n_virtual_ifs++] = sw_arena_dup(a, one);
    }
    r->virtual_ifs = names;
}

/* ---- probes ---- */

struct ports {
    uint16_t *p;
    size_t n;
};

static void add_port(struct ports *to, uint64_t port)
{
    if (port == 0 || port > 65535 || to->n >= SW_ENROL_PORTS_MAX)
        return;
    for (size_t i = 0; i < to->n; i++) {
        if (to->p[i] == port)
            return;
    }
    to->p[to->n++] = (uint16_t)port;
}

/* A number, or the name of a port of the container. */
static void add_named(struct ports *to, const struct sw_json *container, const struct sw_json *port)
{
    const struct sw_json *list = sw_json_find(container, "ports");
    uint64_t n;

    if (sw_json_u64(port, &n)) {
        add_port(to, n);
        return;
    }
    for (size_t i = 0; port && i < sw_json_len(list); i++) {
        const struct sw_json *at = sw_json_at(list, i);

        if (sw_slice_eq(sw_json_str(sw_json_find(at, "name")), sw_json_str(port)) &&
            sw_json_u64(sw_json_find(at, "containerPort"), &n))
            add_port(to, n);
    }
}

static void add_handler(struct ports *to, const struct sw_json *container,
                        const struct sw_json *handler)
{
    static const char *const kinds[] = {"httpGet", "tcpSocket", "grpc"};

    for (size_t i = 0; handler && i < SW_ARRAY_LEN(kinds); i++)
        add_named(to, container, sw_json_walk(handler, kinds[i], "port", NULL));
}

static void add_containers(struct ports *to, const struct sw_json *list)
{
    static const char *const probes[] = {"livenessProbe", "readinessProbe", "startupProbe"};

    SW_JSON_ITEMS (c, list) {
        for (size_t k = 0; k < SW_ARRAY_LEN(probes); k++)
            add_handler(to, c, sw_json_find(c, probes[k]));
        add_handler(to, c, sw_json_walk(c, "lifecycle", "postStart", NULL));
        add_handler(to, c, sw_json_walk(c, "lifecycle", "preStop", NULL));
    }
}

size_t sw_enrol_probe_ports(const struct sw_json *pod, uint16_t *ret)
{
    struct ports to = {.p = ret};

    add_containers(&to, sw_json_walk(pod, "spec", "containers", NULL));
    add_containers(&to, sw_json_walk(pod, "spec", "initContainers", NULL));
    return to.n;
}
