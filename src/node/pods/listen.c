/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets a node listens on in the namespaces of its pods. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/netns.h"
#include "node/pods/pods.h"

enum { POD_BACKLOG = 1024 };

struct probe {
    bool transparent;
};

/*
 * When a listener of a port shared with a successor closes, connections in its queue move to the
 * successor instead of being reset. /proc/sys is read-only in a container: there a mount of the
 * host's is used, which shows the settings of the namespace the thread is in. Best effort.
 */
static void allow_migration(void)
{
    static const char *const paths[] = {"/proc/sys/net/ipv4/tcp_migrate_req",
                                        "/host/proc/sys/net/ipv4/tcp_migrate_req"};

    for (size_t i = 0; i < SW_ARRAY_LEN(paths); i++) {
        SW_AUTO_FD fd = open(paths[i], O_WRONLY | O_CLOEXEC);

        if (fd >= 0 && write(fd, "1\n", 2) == 2)
            return;
    }
}

/* Runs inside the pod's namespace. */
static int probe_netns(void *arg)
{
    struct probe *p = arg;

    p->transparent = sw_sock_may_be_transparent();
    allow_migration();
    return SW_OK;
}

int node_probe_pod(const struct sw_node_config *c, struct sw_pod *p, struct sw_err *err)
{
    struct probe probe = {0};
    int rc = SW_OK;

    if (p->netns_fd >= 0)
        rc = sw_netns_run(p->netns_fd, probe_netns, &probe, err);
    else
        (void)probe_netns(&probe);
    if (rc != SW_OK)
        return sw_err_prefix(err, "pod '%s'", p->uid);
    if (c->sockets.orig_src == SW_NODE_ON && !probe.transparent)
        return sw_err_set(err, SW_EDENIED,
                          "source spoofing is required (--orig-src true) and not permitted: "
                          "CAP_NET_ADMIN is missing");
    /* Without the capability a bind to the client's address may still work (loopback). */
    p->transparent = c->sockets.orig_src != SW_NODE_OFF;
    return SW_OK;
}

static const struct {
    enum sw_listen_kind kind;
    uint16_t port;
} ports[SW_LISTEN_KINDS] = {
    [SW_LISTEN_OUTBOUND] = {SW_LISTEN_OUTBOUND, SW_PORT_OUTBOUND},
    [SW_LISTEN_PLAIN] = {SW_LISTEN_PLAIN, SW_PORT_INBOUND_PLAIN},
    [SW_LISTEN_HBONE] = {SW_LISTEN_HBONE, SW_PORT_HBONE},
    [SW_LISTEN_SOCKS5] = {SW_LISTEN_SOCKS5, SW_PORT_SOCKS5},
};

static bool wanted(const struct sw_node *n, const struct sw_pod *p, enum sw_listen_kind kind)
{
    if (p->self)
        return kind == SW_LISTEN_HBONE;
    return kind != SW_LISTEN_SOCKS5 || n->config->listen.socks5;
}

static struct sw_addr where(const struct sw_node_config *c, enum sw_listen_kind kind, uint16_t port)
{
    struct sw_addr a = {.ip = c->listen.ip, .port = port};

    if (a.ip.family)
        return a;
    a.ip.family = c->listen.ipv6 ? 6 : 4;
    if (kind == SW_LISTEN_SOCKS5) {
        a.ip.family = 4;
        a.ip.b[0] = 127;
        a.ip.b[3] = 1;
    }
    return a;
}

/* Without --port-reuse the port is ours alone: the workers share one socket. */
static int share_one(const struct sw_pod_sockets *first, size_t port, struct sw_pod_sockets *mine,
                     struct sw_err *err)
{
    int fd = fcntl(first->fd[port], F_DUPFD_CLOEXEC, 0);

    if (fd < 0)
        return sw_err_sys(err, errno, "cannot share port %u", ports[port].port);
    mine->fd[port] = fd;
    return SW_OK;
}

static int open_one(struct sw_node *n, const struct sw_pod *p, size_t port,
                    struct sw_pod_sockets *mine, struct sw_err *err)
{
    const struct sw_node_config *c = n->config;
    struct sw_addr at = where(c, ports[port].kind, ports[port].port);
    struct sw_sock_opts o = n->workers[0].sock;
    int rc;

    o.netns_fd = p->netns_fd;
    o.share = c->listen.port_reuse ? NODE_PORT_GROUP : NULL;
    o.ret_mark = &mine->mark[port];
    o.backlog = POD_BACKLOG;
    /* Peers send PINGs on HBONE connections: no keep-alive of TCP's besides. */
    o.keepalive = o.keepalive && ports[port].kind != SW_LISTEN_HBONE;
    rc = sw_sock_listen(&at, &o, &mine->fd[port], err);
    if (rc == SW_ESYS && at.ip.family == 6 && sw_ip_is_any(&at.ip) &&
        (err->sys_errno == EAFNOSUPPORT || err->sys_errno == EADDRNOTAVAIL)) {
        at.ip.family = 4; /* a kernel or namespace without IPv6 */
        rc = sw_sock_listen(&at, &o, &mine->fd[port], err);
    }
    if (rc != SW_OK && p->netns_fd >= 0)
        return sw_err_prefix(err, "pod '%s'", p->uid);
    return rc;
}

void node_close_sockets(struct sw_pod_sockets *all, size_t n)
{
    for (size_t w = 0; w < n; w++) {
        for (size_t port = 0; port < SW_LISTEN_KINDS; port++) {
            sw_sock_close(all[w].fd[port]);
            sw_sock_close(all[w].mark[port]);
        }
    }
}

/* Every worker has its own socket on each port, so the kernel spreads connections over them. */
static int open_port(struct sw_node *n, const struct sw_pod *p, size_t port,
                     struct sw_pod_sockets *all, struct sw_err *err)
{
    int rc = SW_OK;

    for (size_t w = 0; w < n->n_workers && rc == SW_OK; w++) {
        if (w > 0 && !n->config->listen.port_reuse)
            rc = share_one(&all[0], port, &all[w], err);
        else
            rc = open_one(n, p, port, &all[w], err);
    }
    return rc;
}

int node_open_sockets(struct sw_node *n, const struct sw_pod *p, struct sw_pod_sockets *all,
                      struct sw_err *err)
{
    int rc = SW_OK;

    memset(all, 0xff, n->n_workers * sizeof(*all)); /* -1 everywhere */
    for (size_t port = 0; port < SW_ARRAY_LEN(ports) && rc == SW_OK; port++) {
        if (n->config->serve.proxy && wanted(n, p, ports[port].kind))
            rc = open_port(n, p, port, all, err);
    }
    if (rc != SW_OK)
        node_close_sockets(all, n->n_workers);
    return rc;
}
