/* SPDX-License-Identifier: Apache-2.0 */
/* The pods a node serves and the sockets it listens on in their namespaces. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/netns.h"
#include "node/node_impl.h"

enum { POD_BACKLOG = 1024 };

static void pod_name(struct sw_pod *p, const struct sw_node_workload *who)
{
    p->ns = sw_strdup(who->ns);
    p->name = sw_strdup(who->name);
    p->sa = sw_strdup(who->sa);
    p->uid = sw_asprintf("%s/%s/%s", who->ns, who->name, who->sa);
    p->netns_fd = -1;
}

struct probe {
    bool transparent;
};

/* Runs inside the pod's namespace. */
static int probe_netns(void *arg)
{
    struct probe *p = arg;
    SW_AUTO_FD sysctl = -1;

    p->transparent = sw_sock_may_be_transparent();
    /*
     * When a listener of a port shared with a successor closes, connections in its queue move to
     * the successor instead of being reset. Best effort: /proc may be read-only.
     */
    sysctl = open("/proc/sys/net/ipv4/tcp_migrate_req", O_WRONLY | O_CLOEXEC);
    if (sysctl >= 0)
        (void)!write(sysctl, "1\n", 2);
    return SW_OK;
}

static int probe_pod(const struct sw_node_config *c, struct sw_pod *p, struct sw_err *err)
{
    struct probe probe = {0};
    int rc = SW_OK;

    if (p->netns_fd >= 0)
        rc = sw_netns_run(p->netns_fd, probe_netns, &probe, err);
    else
        (void)probe_netns(&probe);
    if (rc != SW_OK)
        return sw_err_prefix(err, "pod '%s'", p->uid);
    if (c->orig_src == SW_NODE_ON && !probe.transparent)
        return sw_err_set(err, SW_EDENIED,
                          "source spoofing is required (--orig-src true) and not permitted: "
                          "CAP_NET_ADMIN is missing");
    /* Without the capability a bind to the client's address may still work (loopback). */
    p->transparent = c->orig_src != SW_NODE_OFF;
    return SW_OK;
}

int node_open_pods(struct sw_node *n, struct sw_err *err)
{
    const struct sw_node_config *c = n->config;
    size_t most = c->n_pods + 2;
    int rc;

    n->pods = SW_NEW_ARRAY(struct sw_pod, most);
    if (c->mode == SW_NODE_DEDICATED)
        pod_name(&n->pods[n->n_pods++], &c->workload);
    for (size_t i = 0; c->mode == SW_NODE_SHARED && i < c->n_pods; i++) {
        struct sw_pod *p = &n->pods[n->n_pods++];

        pod_name(p, &c->pods[i].who);
        rc = sw_netns_open(c->pods[i].netns, &p->netns_fd, err);
        if (rc != SW_OK)
            return sw_err_prefix(err, "pod '%s'", p->uid);
    }
    if (c->self_proxy) {
        struct sw_node_workload self = {c->pod_namespace, c->pod_name, c->service_account};
        struct sw_pod *p = &n->pods[n->n_pods++];

        pod_name(p, &self);
        p->self = true;
    }
    for (size_t i = 0; i < n->n_pods; i++) {
        rc = probe_pod(c, &n->pods[i], err);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

void node_close_pods(struct sw_node *n)
{
    for (size_t i = 0; i < n->n_pods; i++) {
        struct sw_pod *p = &n->pods[i];

        sw_free(p->uid);
        sw_free(p->ns);
        sw_free(p->name);
        sw_free(p->sa);
        sw_sock_close(p->netns_fd);
    }
    sw_free(n->pods);
}

static const struct {
    enum sw_listen_kind kind;
    uint16_t port;
} ports[] = {
    {SW_LISTEN_OUTBOUND, SW_PORT_OUTBOUND},
    {SW_LISTEN_PLAIN, SW_PORT_INBOUND_PLAIN},
    {SW_LISTEN_HBONE, SW_PORT_HBONE},
    {SW_LISTEN_SOCKS5, SW_PORT_SOCKS5},
};

static bool wanted(const struct sw_node *n, const struct sw_pod *p, enum sw_listen_kind kind)
{
    if (p->self)
        return kind == SW_LISTEN_HBONE;
    return kind != SW_LISTEN_SOCKS5 || n->config->socks5;
}

static struct sw_addr where(const struct sw_node_config *c, enum sw_listen_kind kind, uint16_t port)
{
    struct sw_addr a = {.ip = c->listen_ip, .port = port};

    if (a.ip.family)
        return a;
    a.ip.family = c->ipv6 ? 6 : 4;
    if (kind == SW_LISTEN_SOCKS5) {
        a.ip.family = 4;
        a.ip.b[0] = 127;
        a.ip.b[3] = 1;
    }
    return a;
}

/* Without --port-reuse the port is ours alone: the workers share one socket. */
static int share_one(struct sw_node *n, size_t pod, size_t port, struct sw_worker *w,
                     struct sw_err *err)
{
    const struct sw_worker *first = &n->workers[0];

    for (size_t i = 0; i < first->n_listeners; i++) {
        const struct sw_listener *l = &first->listeners[i];
        int fd;

        if (l->pod != &first->pods[pod] || l->kind != ports[port].kind)
            continue;
        fd = fcntl(l->fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            return sw_err_sys(err, errno, "cannot share port %u", ports[port].port);
        sw_worker_add_listener(w, pod, l->kind, fd, -1);
        return SW_OK;
    }
    return SW_OK;
}

static int open_one(struct sw_node *n, size_t pod, size_t port, struct sw_worker *w,
                    struct sw_err *err)
{
    const struct sw_node_config *c = n->config;
    struct sw_pod *p = &n->pods[pod];
    struct sw_addr at = where(c, ports[port].kind, ports[port].port);
    struct sw_sock_opts o = w->sock;
    int mark = -1;
    int fd;
    int rc;

    if (!c->port_reuse && w != &n->workers[0])
        return share_one(n, pod, port, w, err);
    o.netns_fd = p->netns_fd;
    o.share = c->port_reuse ? NODE_PORT_GROUP : NULL;
    o.ret_mark = &mark;
    o.backlog = POD_BACKLOG;
    /* Peers send PINGs on HBONE connections: no keep-alive of TCP's besides. */
    o.keepalive = o.keepalive && ports[port].kind != SW_LISTEN_HBONE;
    rc = sw_sock_listen(&at, &o, &fd, err);
    if (rc == SW_ESYS && at.ip.family == 6 && sw_ip_is_any(&at.ip) &&
        (err->sys_errno == EAFNOSUPPORT || err->sys_errno == EADDRNOTAVAIL)) {
        at.ip.family = 4; /* a kernel or namespace without IPv6 */
        rc = sw_sock_listen(&at, &o, &fd, err);
    }
    if (rc != SW_OK)
        return p->netns_fd >= 0 ? sw_err_prefix(err, "pod '%s'", p->uid) : rc;
    sw_worker_add_listener(w, pod, ports[port].kind, fd, mark);
    return SW_OK;
}

/* Every worker has its own socket on each port, so the kernel spreads connections over them. */
int node_open_listeners(struct sw_node *n, struct sw_err *err)
{
    for (size_t w = 0; w < n->n_workers; w++) {
        for (size_t pod = 0; pod < n->n_pods; pod++) {
            for (size_t port = 0; port < SW_ARRAY_LEN(ports); port++) {
                int rc = SW_OK;

                if (wanted(n, &n->pods[pod], ports[port].kind))
                    rc = open_one(n, pod, port, &n->workers[w], err);
                if (rc != SW_OK)
                    return rc;
            }
        }
    }
    return SW_OK;
}
