/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets of a worker and the way from accept to a filter chain: where a chain depends on
 * the ClientHello, its bytes are awaited first.
 */
#include "gateway/worker/listen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "gateway/codec/down.h"
#include "gateway/config/config.h"
#include "gateway/conn/worker.h"
#include "gateway/exchange/clients.h"
#include "gateway/l4/tcp.h"
#include "gateway/l4/udp.h"
#include "gateway/observe/stats.h"
#include "gateway/upstream/hosts.h"
#include "gateway/worker/bind.h"
#include "gateway/worker/listen_hello.h"
#include "gateway/worker/ready.h"
#include "io/proxyproto.h"
#include "io/sock.h"
#include "tls/tls.h"

#define BIND_WAIT_LEAST_NS (500 * SW_NS_PER_MS) /* before a port that is taken is tried again */
#define BIND_WAIT_MOST_NS  (8 * SW_NS_PER_S)

enum {
    UNPRIVILEGED = 1024,
    PRIVILEGED_SHIFT = 8000, /* without the right to use it, port 80 is served on 8080 */
};

struct gw_socket {
    struct sw_list link; /* worker->sockets */
    struct sw_acceptor acceptor;
    struct sw_gw_worker *worker;
    struct sw_gw_listener *listener; /* a reference; of the newest view */
    struct sw_addr at;               /* as configured */
    bool keep;                       /* while a view is applied */
};

/* A connection whose first bytes are awaited. */
struct sniff {
    struct sw_gw_down life;
    struct sw_watch watch;
    struct sw_timer deadline;
    struct sw_defer defer;
    struct sw_gw_worker *worker;
    struct sw_gw_origin from; /* its chain is not known yet */
    int fd;                   /* owned until handed on */
    uint8_t *p;               /* owned */
    size_t n;
    bool proxied; /* a PROXY header is not expected, or was read */
    bool hello;   /* a ClientHello is awaited */
};

/* ---- from chain to protocol ---- */

static void refuse_unknown(struct sw_gw_worker *w, struct sw_gw_accepted *a, bool tls)
{
    struct sw_gw_lstats *stats = sw_gw_lstats(w, a->listener->name);
    char why[320];

    if (a->sni.n)
        (void)snprintf(why, sizeof(why), "nothing is served for the name '%.*s'",
                       SW_SLICE_ARG_MAX(a->sni, 255));
    else
        (void)snprintf(why, sizeof(why), "nothing is served for %s",
                       tls ? "TLS without a name" : "what is no TLS");
    sw_gw_lstats_refused(stats, "no_chain");
    sw_gw_lstats_log_refusal(stats, "no_chain", &a->peer, why);
    sw_sock_close(a->fd);
}

static void serve(struct sw_gw_worker *w, struct sw_gw_accepted *a, const struct sw_gw_hello *hello)
{
    struct sw_gw_chain_key key = {
        .dst = a->local,
        .src = a->peer,
        .sni = hello ? hello->sni : (struct sw_slice){0},
        .tls = hello != NULL,
        .alpn = hello ? hello->alpn : NULL,
        .n_alpn = hello ? hello->n_alpn : 0,
    };

    a->sni = key.sni;
    a->chain = sw_gw_chain_find(a->listener, &key);
    if (!a->chain || (a->chain->tls && a->chain->tls->require_sni && a->sni.n == 0)) {
        refuse_unknown(w, a, hello != NULL);
        return;
    }
    switch (a->chain->kind) {
    case SW_GW_CHAIN_HTTP:
        down_start(w, a);
        break;
    case SW_GW_CHAIN_TCP:
        sw_gw_tcp_start(w, a);
        break;
    }
}

/* ---- waiting for the first bytes ---- */

static void on_sniff_free(struct sw_defer *d)
{
    struct sniff *s = SW_CONTAINER_OF(d, struct sniff, defer);

    sw_gw_origin_done(&s->from);
    sw_free(s->p);
    sw_free(s);
}

static void sniff_end(struct sniff *s)
{
    sw_watch_stop(&s->watch);
    sw_timer_stop(s->worker->loop, &s->deadline);
    sw_gw_down_remove(s->worker, &s->life);
    sw_sock_close(s->fd);
    s->fd = -1;
    sw_loop_defer(s->worker->loop, &s->defer, on_sniff_free);
}

static bool needs_hello(const struct sw_gw_listener *l)
{
    if (l->tls_inspector || (l->default_chain && l->default_chain->tls))
        return true;
    for (size_t i = 0; i < l->n_chains; i++) {
        if (l->chains[i].tls)
            return true;
    }
    return false;
}

/*
 * The listener as it is now: rules may have changed while the first bytes were awaited. NULL: it is
 * gone, or looks for other first bytes.
 */
static struct sw_gw_listener *newest(const struct sniff *s)
{
    struct sw_gw_listener *l =
        sw_map_get(&s->worker->view->config->listeners->map, s->from.listener->name);

    if (!l || l->kind != s->from.listener->kind ||
        l->proxy_protocol != s->from.listener->proxy_protocol || needs_hello(l) != s->hello)
        return NULL;
    return l;
}

static void sniff_refuse(struct sniff *s, const char *reason, const char *why)
{
    struct sw_gw_lstats *stats = sw_gw_lstats(s->worker, s->from.listener->name);

    sw_gw_lstats_refused(stats, reason);
    sw_gw_lstats_log_refusal(stats, reason, &s->from.peer, why);
}

static void sniff_decide(struct sniff *s, const struct sw_gw_hello *hello)
{
    struct sw_gw_accepted a = {
        .listener = newest(s),
        .fd = SW_TAKE_FD(s->fd),
        .peer = s->from.peer,
        .local = s->from.local,
        .pre = sw_slice(s->p, s->n),
        .metadata = s->from.metadata,
        .keep = s->from.keep,
    };

    sw_watch_stop(&s->watch);
    if (a.listener) {
        serve(s->worker, &a, hello);
    } else {
        sniff_refuse(s, "listener_changed", "its listener changed before its first bytes");
        sw_sock_close(a.fd);
    }
    sniff_end(s);
}

/*
 * Removes the PROXY header and trusts it. Restricting the clients is up to the network: a listener
 * with this filter is for balancers only.
 */
static int sniff_proxy(struct sniff *s)
{
    struct sw_proxy_head head;
    int rc = sw_proxy_read(sw_slice(s->p, s->n), &head);

    if (rc == SW_ENOENT && s->from.listener->proxy_optional)
        rc = SW_OK;
    if (rc == SW_EAGAIN)
        return rc;
    if (rc != SW_OK) {
        sniff_refuse(s, "proxy_header", "no valid PROXY header");
        return rc;
    }
    s->proxied = true;
    if (head.src.ip.family) {
        s->from.peer = head.src;
        s->from.local = head.dst;
    }
    s->n -= head.len;
    memmove(s->p, s->p + head.len, s->n);
    return SW_OK;
}

/* What is to be known of the first bytes, one after the other. */
static void sniff_look(struct sniff *s)
{
    struct sw_gw_hello hello;
    int rc;

    if (!s->proxied) {
        rc = sniff_proxy(s);
        if (rc == SW_EAGAIN)
            return;
        if (rc != SW_OK) {
            sniff_end(s);
            return;
        }
    }
    if (!s->hello) {
        sniff_decide(s, NULL);
        return;
    }
    if (s->n == 0)
        return;
    rc = sw_gw_hello_parse(sw_slice(s->p, s->n), &hello);
    if (rc != SW_EAGAIN)
        sniff_decide(s, rc == SW_OK ? &hello : NULL);
}

static void sniff_read(struct sniff *s)
{
    ssize_t n = sw_sock_read(s->fd, s->worker->rx, SW_GW_FIRST_MAX - s->n);

    if (n == SW_EAGAIN)
        return;
    if (n <= 0) {
        sniff_end(s);
        return;
    }
    s->p = sw_realloc(s->p, s->n + (size_t)n);
    memcpy(s->p + s->n, s->worker->rx, (size_t)n);
    s->n += (size_t)n;
    sniff_look(s);
}

static void on_sniff(struct sw_watch *w, unsigned events)
{
    sniff_read(SW_CONTAINER_OF(w, struct sniff, watch));
}

static void on_sniff_deadline(struct sw_timer *t)
{
    struct sniff *s = SW_CONTAINER_OF(t, struct sniff, deadline);

    /* Waiting must not be a way around the PROXY header. */
    if (s->from.listener->continue_on_timeout && (s->proxied || s->from.listener->proxy_optional)) {
        sniff_decide(s, NULL);
        return;
    }
    sniff_refuse(s, "first_bytes_timeout", "its first bytes took too long");
    sniff_end(s);
}

static void sniff_drain(struct sw_gw_down *d)
{
    (void)d; /* it has a deadline of its own, and its request is still welcome */
}

static void sniff_kill(struct sw_gw_down *d)
{
    sniff_end(SW_CONTAINER_OF(d, struct sniff, life));
}

static void sniff_start(struct sw_gw_worker *w, const struct sw_gw_accepted *a)
{
    struct sniff *s = SW_NEW(struct sniff);
    struct sw_err err = {0};
    uint64_t wait = a->listener->filters_timeout_ns;

    s->worker = w;
    s->fd = a->fd;
    s->life = (struct sw_gw_down){.drain = sniff_drain, .kill = sniff_kill};
    if (sw_watch_start(w->loop, &s->watch, s->fd, on_sniff, &err) != SW_OK) {
        sw_log_warn("gateway", "%s", err.msg);
        sw_sock_close(s->fd);
        sw_free(s);
        return;
    }
    sw_gw_origin_init(&s->from, a);
    s->proxied = !a->listener->proxy_protocol;
    s->hello = needs_hello(a->listener);
    sw_gw_down_add(w, &s->life);
    sw_timer_start(w->loop, &s->deadline, wait ? wait : 15 * SW_NS_PER_S, on_sniff_deadline);
    sniff_read(s);
}

void sw_gw_accept_fd(struct sw_gw_worker *w, struct sw_gw_accepted *a)
{
    const struct sw_gw_listener *l = a->listener;

    a->local = l->original_dst ? sw_sock_original_dst(a->fd) : sw_sock_local(a->fd);
    if (l->proxy_protocol || needs_hello(l))
        sniff_start(w, a);
    else
        serve(w, a, NULL);
}

/* ---- accepting ---- */

static void on_accept(struct sw_acceptor *a, int fd, const struct sw_addr *peer)
{
    static const struct sw_sock_opts opts = SW_SOCK_OPTS_INIT;
    struct gw_socket *s = SW_CONTAINER_OF(a, struct gw_socket, acceptor);
    struct sw_gw_accepted accepted = {.listener = s->listener, .fd = fd, .peer = *peer};

    sw_sock_tune(fd, &opts);
    sw_gw_accept_fd(s->worker, &accepted);
}

/* ---- opening and closing ---- */

static void socket_close(struct gw_socket *s)
{
    sw_accept_finish(&s->acceptor);
    sw_list_unlink(&s->link);
    (void)sw_gw_listener_unref(s->listener);
    sw_free(s);
}

/* *at becomes the address that was tried last. */
static int open_port(const struct sw_gw_worker *w, const struct sw_gw_listener *l,
                     struct sw_addr *at, int *ret_fd, int *ret_mark, struct sw_err *err)
{
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    char text[SW_ADDR_TEXT];
    int rc;

    o.share = w->port_group;
    o.ret_mark = ret_mark;
    o.unnamed = true; /* the main thread looks for the holder */
    o.transparent = l->transparent;
    o.freebind = l->freebind;
    o.keepalive = l->keepalive.on;
    o.keepalive_time_s = l->keepalive.time_s;
    o.keepalive_interval_s = l->keepalive.interval_s;
    o.keepalive_retries = l->keepalive.probes;
    o.backlog = l->backlog ? (int)sw_min(l->backlog, 65535) : 4096;
    rc = sw_sock_listen(at, &o, ret_fd, err);
    if (rc == SW_ESYS && err->sys_errno == EACCES && at->port && at->port < UNPRIVILEGED) {
        at->port = (uint16_t)(at->port + PRIVILEGED_SHIFT);
        rc = sw_sock_listen(at, &o, ret_fd, err);
        if (rc == SW_OK && w->index == 0)
            sw_log_info(
                "gateway",
                "listener '%.*s': using %s, binding its own port needs CAP_NET_BIND_SERVICE",
                SW_SLICE_ARG(l->name), sw_addr_text(at, text));
    }
    return rc;
}

static void socket_open(struct sw_gw_worker *w, struct sw_gw_listener *l, const struct sw_addr *at)
{
    struct gw_socket *s = SW_NEW(struct gw_socket);
    struct sw_addr tried = *at;
    struct sw_err err = {0};
    SW_AUTO_FD mark = -1;
    int fd;
    int rc = open_port(w, l, &tried, &fd, &mark, &err);

    if (rc == SW_OK)
        rc = sw_accept_open(&w->accept, &s->acceptor, fd, on_accept, &err);
    if (rc != SW_OK) {
        sw_gw_bind_failed(w, l, at, &tried, err.sys_errno);
        sw_free(s);
        return;
    }
    s->acceptor.mark = SW_TAKE_FD(mark);
    s->worker = w;
    s->listener = sw_gw_listener_ref(l);
    s->at = *at;
    s->keep = true;
    sw_list_push_back(&w->sockets, &s->link);
}

/* The socket that can serve l; one with other options is closed once another one is open. */
static struct gw_socket *find(const struct sw_gw_worker *w, const struct sw_gw_listener *l,
                              const struct sw_addr *at)
{
    SW_LIST_EACH (struct gw_socket, s, &w->sockets, link) {
        if (sw_addr_eq(&s->at, at) && s->listener->socket_hash == l->socket_hash)
            return s;
    }
    return NULL;
}

static void apply_listener(struct sw_gw_worker *w, struct sw_gw_listener *l)
{
    for (size_t i = 0; i < l->n_addrs; i++) {
        struct gw_socket *s;

        if (l->addrs[i].kind != SW_GW_ADDR_IP)
            continue;
        s = find(w, l, &l->addrs[i].ip);
        if (!s) {
            socket_open(w, l, &l->addrs[i].ip);
            continue;
        }
        s->keep = true;
        (void)sw_gw_listener_ref(l);
        (void)sw_gw_listener_unref(s->listener);
        s->listener = l;
    }
}

static void on_bind_retry(struct sw_timer *t)
{
    sw_gw_listen_apply(SW_CONTAINER_OF(t, struct sw_gw_worker, bind_retry), false);
}

/* A port that is taken may become free: it is tried again, less and less often. */
static void retry_unbound(struct sw_gw_worker *w, bool fresh)
{
    if (w->unbound.n == 0) {
        sw_timer_stop(w->loop, &w->bind_retry);
        w->bind_wait_ns = 0;
        return;
    }
    if (fresh || w->bind_wait_ns == 0)
        w->bind_wait_ns = BIND_WAIT_LEAST_NS;
    else
        w->bind_wait_ns = sw_min(w->bind_wait_ns * 2, BIND_WAIT_MOST_NS);
    sw_timer_start(w->loop, &w->bind_retry, w->bind_wait_ns, on_bind_retry);
}

void sw_gw_listen_apply(struct sw_gw_worker *w, bool fresh)
{
    SW_LIST_EACH (struct gw_socket, s, &w->sockets, link)
        s->keep = false;
    SW_MAP_EACH (struct sw_gw_listener, l, &w->view->config->listeners->map) {
        if (l->kind == SW_GW_LISTEN_TCP && l->bind)
            apply_listener(w, l);
    }
    sw_gw_udp_apply(w);
    SW_LIST_EACH (struct gw_socket, s, &w->sockets, link) {
        if (!s->keep)
            socket_close(s);
    }
    retry_unbound(w, fresh);
    sw_gw_bind_report(w, fresh);
    if (!w->serves)
        sw_gateway_worker_serves(w->gw);
    w->serves = true;
}

void sw_gw_listen_close(struct sw_gw_worker *w)
{
    sw_timer_stop(w->loop, &w->bind_retry);
    SW_LIST_EACH (struct gw_socket, s, &w->sockets, link)
        socket_close(s);
    sw_accept_done(&w->accept);
}
