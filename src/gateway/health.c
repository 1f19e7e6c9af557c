/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Active health checks, on the main loop: one checker per member and check. A member is out when a
 * check failed often enough in a row and back when it succeeded often enough; workers see a flag.
 * The same timer lets ejected members (outlier.c) back.
 */
#include <stdio.h>

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "gateway/config_int.h"
#include "gateway/config_tls.h"
#include "gateway/health_h2.h"
#include "gateway/health_tls.h"
#include "gateway/lb.h"
#include "http/client.h"
#include "http/grpc.h"
#include "tunnel/dial.h"

enum { RECEIVE_MAX = 64 * 1024 };

struct checker {
    struct sw_list link;
    struct sw_gw_health *health;
    const struct sw_gw_check *check; /* of the cluster's settings */
    struct sw_gw_member *member;     /* a reference */
    struct sw_timer timer;           /* the next check, or the deadline of this one */
    bool running;
    bool seen;  /* is in the newest version */
    bool known; /* a first result is there */
    bool down;
    uint32_t good; /* in a row */
    uint32_t bad;
    int status;
    struct sw_http_client *http;
    struct sw_http_call *call;
    struct sw_grpc_client *grpc;
    struct sw_grpc_call *rpc;
    bool grpc_serving;
    struct sw_gw_probe *probe;  /* HTTP/2 */
    struct sw_gw_tls_want want; /* with TLS */
    char *name;                 /* owned: want.host */
    struct sw_dial dial;
    struct sw_watch watch;
    int fd;
    struct sw_gw_check_tls *tls; /* TCP over TLS */
    bool said;                   /* TCP: what there is to send is sent */
    struct sw_buf in;
};

struct sw_gw_health {
    struct sw_loop *loop;
    struct sw_gw_cluster *cluster; /* a reference: the newest version */
    struct sw_list checkers;
    struct sw_timer sweep;
};

static void begin(struct checker *k);

/* ---- results ---- */

static void set_flag(struct checker *k, bool down)
{
    struct sw_gw_cluster_state *st = k->health->cluster->state;

    k->down = down;
    if (down)
        atomic_fetch_or_explicit(&k->member->health, SW_GW_FAILED_ACTIVE, memory_order_release);
    else
        atomic_fetch_and_explicit(&k->member->health, ~(uint32_t)SW_GW_FAILED_ACTIVE,
                                  memory_order_release);
    atomic_fetch_add_explicit(&st->health_version, 1, memory_order_release);
    sw_log_info("health", "'%.*s' of cluster '%.*s' is %s", SW_SLICE_ARG(k->member->text),
                SW_SLICE_ARG(k->health->cluster->spec->name), down ? "failing" : "healthy");
}

static void drop_io(struct checker *k, bool now)
{
    if (k->call)
        sw_http_call_cancel(k->call);
    k->call = NULL;
    if (k->rpc)
        sw_grpc_cancel(k->rpc);
    k->rpc = NULL;
    sw_gw_probe_free(k->probe, now);
    k->probe = NULL;
    sw_dial_cancel(&k->dial);
    sw_watch_stop(&k->watch);
    sw_gw_check_tls_free(k->tls);
    k->tls = NULL;
    k->said = false;
    if (k->fd >= 0)
        sw_sock_close(k->fd);
    k->fd = -1;
    sw_buf_clear(&k->in);
}

static void on_next(struct sw_timer *t)
{
    begin(SW_CONTAINER_OF(t, struct checker, timer));
}

static void finish(struct checker *k, bool ok, const char *why)
{
    const struct sw_gw_check *c = k->check;
    uint64_t wait = c->interval_ns;

    if (!k->running)
        return;
    k->running = false;
    drop_io(k, false);
    k->good = ok ? k->good + 1 : 0;
    k->bad = ok ? 0 : k->bad + 1;
    if (!ok)
        sw_log_debug("health", "'%.*s': %s", SW_SLICE_ARG(k->member->text), why);
    /* The first result counts at once: a new member is not left waiting, nor a dead one serving. */
    if (!k->known && !ok)
        set_flag(k, true);
    else if (k->down && ok && (k->good >= c->healthy_threshold || !k->known))
        set_flag(k, false);
    else if (!k->down && !ok && k->bad >= c->unhealthy_threshold)
        set_flag(k, true);
    k->known = true;
    if (k->down)
        wait = c->unhealthy_interval_ns;
    if (c->jitter_ns)
        wait += sw_rand_below(c->jitter_ns);
    sw_timer_start(k->health->loop, &k->timer, wait, on_next);
}

static void on_deadline(struct sw_timer *t)
{
    finish(SW_CONTAINER_OF(t, struct checker, timer), false, "timeout");
}

static struct sw_addr target(const struct checker *k)
{
    struct sw_addr a = k->member->check_addr.ip;

    if (k->check->alt_port)
        a.port = k->check->alt_port;
    return a;
}

/* ---- HTTP ---- */

/* What the check says it is for: the member's own name, the check's, the cluster's. */
static struct sw_slice check_host(const struct checker *k)
{
    struct sw_slice name = k->health->cluster->spec->name;

    if (k->member->check_host.n)
        return k->member->check_host;
    if (k->check->host.n)
        return k->check->host;
    return sw_http_host_valid(name) ? name : sw_slice(NULL, 0);
}

/* The server name as connections for requests would have it. */
static const char *server_name(struct checker *k)
{
    const struct sw_gw_tls *t = k->health->cluster->tls;
    struct sw_slice host = check_host(k);

    if (!t)
        return NULL;
    if (t->auto_sni && host.n) {
        ptrdiff_t colon = sw_slice_find(host, ':');

        k->name = sw_slice_dup(colon >= 0 ? sw_slice_head(host, (size_t)colon) : host);
    } else if (t->auto_host_sni && k->member->hostname.n) {
        k->name = sw_slice_dup(k->member->hostname);
    }
    return k->name ? k->name : t->sni;
}

static bool status_expected(const struct sw_gw_check *c, int status)
{
    for (size_t i = 0; i < c->n_expected; i++) {
        if (status >= c->expected[i].from && status < c->expected[i].to)
            return true;
    }
    return c->n_expected == 0 && status == 200;
}

static void on_http_head(struct sw_http_call *call, const struct sw_h1_msg *msg, void *arg)
{
    struct checker *k = arg;

    (void)call;
    k->status = msg->status;
}

static void on_http_body(struct sw_http_call *call, struct sw_slice data, void *arg)
{
    (void)call;
    (void)data;
    (void)arg;
}

static void on_http_done(struct sw_http_call *call, int rc, const struct sw_err *err, void *arg)
{
    struct checker *k = arg;

    (void)call;
    k->call = NULL;
    finish(k, rc == SW_OK && status_expected(k->check, k->status),
           rc == SW_OK ? "unexpected status" : err->msg);
}

static void begin_http(struct checker *k)
{
    const struct sw_gw_cluster *cl = k->health->cluster;
    struct sw_err err = {0};
    struct sw_h1_field fields[] = {
        {SW_SLICE_LIT("user-agent"), SW_SLICE_LIT("spanwire-health-check")}};
    struct sw_http_call_opts o = {
        .method = k->check->method,
        .target = k->check->path,
        .fields = fields,
        .nfields = SW_ARRAY_LEN(fields),
        .timeout_ns = k->check->timeout_ns,
        .body_max = 1 << 20,
        .on_head = on_http_head,
        .on_body = on_http_body,
        .on_done = on_http_done,
        .arg = k,
    };

    if (!k->http) {
        struct sw_addr to = target(k);
        char ip[SW_IP_TEXT];
        struct sw_http_client_opts c = {
            .scope = "health",
            .host = sw_slice_str(sw_ip_text(&to.ip, ip)),
            .port = to.port,
            .host_header = check_host(k),
            .tls = cl->tls != NULL,
            .cred = cl->tls ? cl->tls->creds[0] : NULL,
            .tls_name = k->want.host ? sw_slice_str(k->want.host) : sw_slice(NULL, 0),
            .insecure_skip_verify = cl->tls && (cl->tls->skip_verify || cl->tls->pins_only),
            .leaf_ok = cl->tls && !cl->tls->skip_verify ? sw_gw_tls_leaf_ok : NULL,
            .leaf_arg = &k->want,
            .max_conns = 1,
            .connect_timeout_ns = k->check->timeout_ns,
        };

        k->http = sw_http_client_new(k->health->loop, &c, &err);
    }
    k->call = k->http ? sw_http_call_start(k->http, &o, &err) : NULL;
    if (!k->call)
        finish(k, false, err.msg);
}

static void on_probed(int status, const char *why, void *arg)
{
    struct checker *k = arg;

    finish(k, status && status_expected(k->check, status), status ? "unexpected status" : why);
}

static void begin_h2(struct checker *k)
{
    struct sw_err err = {0};
    struct sw_addr to = target(k);
    struct sw_gw_probe_opts o = {
        .to = to,
        .want = k->health->cluster->tls ? &k->want : NULL,
        .method = k->check->method,
        .authority = check_host(k),
        .path = k->check->path,
        .timeout_ns = k->check->timeout_ns,
        .on_done = on_probed,
        .arg = k,
    };

    k->probe = sw_gw_probe_new(k->health->loop, &o, &err);
    if (!k->probe)
        finish(k, false, err.msg);
}

/* ---- gRPC: grpc.health.v1.Health/Check ---- */

static void on_rpc_message(struct sw_grpc_call *c, struct sw_slice msg, void *arg)
{
    struct checker *k = arg;

    (void)c;
    /* HealthCheckResponse{status = 1}: SERVING is 1. */
    k->grpc_serving = msg.n >= 2 && msg.p[0] == 0x08 && msg.p[1] == 0x01;
}

static void on_rpc_end(struct sw_grpc_call *c, void *arg)
{
    (void)c;
    (void)arg;
}

static void on_rpc_done(struct sw_grpc_call *c, enum sw_grpc_status status, struct sw_slice message,
                        void *arg)
{
    struct checker *k = arg;

    (void)c;
    (void)message;
    k->rpc = NULL;
    finish(k, status == 0 && k->grpc_serving, "not serving");
}

static const struct sw_grpc_ops rpc_ops = {
    .on_message = on_rpc_message,
    .on_end = on_rpc_end,
    .on_done = on_rpc_done,
};

static void begin_grpc(struct checker *k)
{
    const struct sw_gw_cluster *cl = k->health->cluster;
    struct sw_err err = {0};
    SW_BUF_AUTO msg = {0};

    sw_buf_init(&msg, 1024);
    if (!k->grpc) {
        struct sw_addr to = target(k);
        char ip[SW_IP_TEXT];
        struct sw_grpc_client_opts o = {
            .host = sw_slice_str(sw_ip_text(&to.ip, ip)),
            .port = to.port,
            .authority = check_host(k),
            .cred = cl->tls ? cl->tls->creds[0] : NULL,
            .tls_name = k->want.host ? sw_slice_str(k->want.host) : sw_slice(NULL, 0),
            .insecure_skip = cl->tls && (cl->tls->skip_verify || cl->tls->pins_only),
            .leaf_ok = cl->tls && !cl->tls->skip_verify ? sw_gw_tls_leaf_ok : NULL,
            .leaf_arg = &k->want,
        };

        k->grpc = sw_grpc_client_new(k->health->loop, &o, &err);
    }
    k->grpc_serving = false;
    if (k->grpc)
        k->rpc = sw_grpc_call(k->grpc, SW_SLICE_LIT("/grpc.health.v1.Health/Check"),
                              sw_slice(NULL, 0), k->check->timeout_ns, &rpc_ops, k);
    if (!k->rpc ||
        (k->check->service.n &&
         sw_buf_printf(&msg, "\n%c%.*s", (char)k->check->service.n,
                       (int)sw_min(k->check->service.n, 127), k->check->service.p) < 0)) {
        finish(k, false, err.msg);
        return;
    }
    (void)!sw_grpc_send(k->rpc, sw_buf_slice(&msg));
    sw_grpc_end(k->rpc);
}

/* ---- TCP ---- */

static bool all_received(const struct checker *k)
{
    struct sw_slice have = sw_buf_slice(&k->in);

    for (size_t i = 0; i < k->check->n_receive; i++) {
        struct sw_slice want = k->check->receive[i];
        const char *at = memmem(have.p, have.n, want.p, want.n);

        if (!at)
            return false;
        have = sw_slice_from(have, (size_t)(at - have.p) + want.n);
    }
    return true;
}

static void on_tcp_bytes(struct sw_watch *w, unsigned events)
{
    struct checker *k = SW_CONTAINER_OF(w, struct checker, watch);
    char buf[4096];
    ssize_t n;

    (void)events;
    while ((n = sw_sock_read(k->fd, buf, sizeof(buf))) > 0) {
        if (sw_buf_append(&k->in, buf, (size_t)n) < 0) {
            finish(k, false, "answer too long");
            return;
        }
        if (all_received(k)) {
            finish(k, true, "");
            return;
        }
    }
    if (n != SW_EAGAIN)
        finish(k, false, "connection closed");
}

/* The handshake alone says that somebody with the right name is there. */
static void on_tls_bytes(struct sw_watch *w, unsigned events)
{
    struct checker *k = SW_CONTAINER_OF(w, struct checker, watch);
    struct sw_err err = {0};
    int rc = sw_gw_check_tls_read(k->tls, &k->in, &err);

    (void)events;
    if (sw_gw_check_tls_open(k->tls) && !k->said) {
        int sent = k->check->send.n ? sw_gw_check_tls_write(k->tls, k->check->send, &err) : SW_OK;

        k->said = true;
        rc = sent == SW_OK ? rc : sent;
    }
    if (k->said && (rc == SW_EAGAIN || k->check->n_receive) && all_received(k))
        finish(k, true, "");
    else if (rc != SW_EAGAIN)
        finish(k, false, err.msg);
}

static void begin_tls(struct checker *k)
{
    struct sw_err err = {0};

    k->tls = sw_gw_check_tls_new(&k->want, k->fd, &err);
    if (!k->tls || sw_watch_start(k->health->loop, &k->watch, k->fd, on_tls_bytes, &err) != SW_OK)
        finish(k, false, err.msg);
}

static void on_dialled(struct sw_dial *d, int rc, const struct sw_err *err)
{
    struct checker *k = SW_CONTAINER_OF(d, struct checker, dial);
    struct sw_dialled c;
    struct sw_err e = {0};

    if (rc != SW_OK) {
        finish(k, false, rc == SW_ETIME ? "connect timeout" : err->msg);
        return;
    }
    sw_dial_take(d, &c);
    if (k->health->cluster->tls) {
        k->fd = sw_dialled_fd(&c);
        begin_tls(k);
        return;
    }
    if (k->check->send.n == 0 && k->check->n_receive == 0) {
        sw_dialled_close(&c);
        finish(k, true, "");
        return;
    }
    k->fd = sw_dialled_fd(&c);
    if (sw_sock_write(k->fd, k->check->send.p, k->check->send.n) != (ssize_t)k->check->send.n ||
        (k->check->n_receive &&
         sw_watch_start(k->health->loop, &k->watch, k->fd, on_tcp_bytes, &e) != SW_OK))
        finish(k, false, "cannot send");
    else if (k->check->n_receive == 0)
        finish(k, true, "");
    else
        on_tcp_bytes(&k->watch, SW_READ);
}

static void begin_tcp(struct checker *k)
{
    struct sw_addr to = target(k);
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;

    sw_dial_start(&k->dial, k->health->loop, &to, NULL, &o, k->check->timeout_ns, on_dialled);
}

/* Members without an IP address: a Unix socket is there or not, an internal listener always is. */
static bool begin_pipe(struct checker *k)
{
    const struct sw_gw_addr *a = &k->member->check_addr;
    struct sw_err err = {0};
    int fd = -1;
    int rc = SW_OK;

    if (a->kind == SW_GW_ADDR_IP && a->ip.ip.family)
        return false;
    if (a->kind == SW_GW_ADDR_PIPE) {
        rc = sw_sock_connect_unix(a->name.p, &fd, &err);
        sw_sock_close(fd);
    }
    finish(k, rc == SW_OK, err.msg);
    return true;
}

static void begin(struct checker *k)
{
    k->running = true;
    k->status = 0;
    if (begin_pipe(k))
        return;
    sw_timer_start(k->health->loop, &k->timer, k->check->timeout_ns, on_deadline);
    switch (k->check->kind) {
    case SW_GW_CHECK_HTTP:
        if (k->check->h2 || k->health->cluster->spec->protocol == SW_GW_UP_H2)
            begin_h2(k);
        else
            begin_http(k);
        break;
    case SW_GW_CHECK_GRPC:
        begin_grpc(k);
        break;
    case SW_GW_CHECK_TCP:
        begin_tcp(k);
        break;
    }
}

/* ---- life ---- */

/* Never from inside a callback of its own: only new versions of the cluster and its end come here.
 */
static void checker_stop(struct checker *k)
{
    k->running = false;
    sw_timer_stop(k->health->loop, &k->timer);
    drop_io(k, true);
    sw_list_unlink(&k->link);
    atomic_fetch_and_explicit(&k->member->health, ~(uint32_t)SW_GW_FAILED_ACTIVE,
                              memory_order_release);
    sw_http_client_free(k->http);
    sw_grpc_client_free(k->grpc);
    sw_buf_done(&k->in);
    sw_free(k->name);
    (void)sw_gw_member_unref(k->member);
    sw_free(k);
}

static struct checker *find(struct sw_gw_health *h, const struct sw_gw_member *m,
                            const struct sw_gw_check *c)
{
    for (struct sw_list *it = h->checkers.next; it != &h->checkers; it = it->next) {
        struct checker *k = SW_CONTAINER_OF(it, struct checker, link);

        if (k->member == m && k->check == c)
            return k;
    }
    return NULL;
}

static void want(struct sw_gw_health *h, struct sw_gw_member *m, const struct sw_gw_check *c)
{
    struct checker *k = find(h, m, c);

    if (!k) {
        k = SW_NEW(struct checker);
        k->health = h;
        k->member = sw_gw_member_ref(m);
        k->check = c;
        k->fd = -1;
        k->want = (struct sw_gw_tls_want){.tls = h->cluster->tls, .host = server_name(k)};
        sw_buf_init(&k->in, RECEIVE_MAX);
        sw_list_init(&k->link);
        sw_list_push_back(&h->checkers, &k->link);
        /* Not all in one turn. */
        sw_timer_start(h->loop, &k->timer, sw_rand_below(c->interval_ns / 8 + 1), on_next);
    }
    k->seen = true;
}

void sw_gw_health_update(struct sw_gw_health *h, struct sw_gw_cluster *c)
{
    struct sw_gw_cluster *old = h->cluster;
    struct sw_list *next;

    h->cluster = sw_gw_cluster_ref(c);
    for (struct sw_list *it = h->checkers.next; it != &h->checkers; it = it->next)
        SW_CONTAINER_OF(it, struct checker, link)->seen = false;
    for (size_t i = 0; i < c->members->n_localities; i++) {
        for (size_t k = 0; k < c->members->localities[i].n; k++) {
            struct sw_gw_member *m = c->members->localities[i].endpoints[k].member;

            for (size_t n = 0; n < c->spec->n_checks && !m->no_active_check; n++)
                want(h, m, &c->spec->checks[n]);
        }
    }
    for (struct sw_list *it = h->checkers.next; it != &h->checkers; it = next) {
        struct checker *k = SW_CONTAINER_OF(it, struct checker, link);

        next = it->next;
        if (!k->seen)
            checker_stop(k);
    }
    (void)sw_gw_cluster_unref(old);
}

static void on_sweep(struct sw_timer *t)
{
    struct sw_gw_health *h = SW_CONTAINER_OF(t, struct sw_gw_health, sweep);
    uint64_t every = h->cluster->spec->outlier.interval_ns;

    (void)sw_gw_outlier_sweep(h->cluster, sw_loop_now(h->loop));
    sw_timer_start(h->loop, &h->sweep, every ? every : SW_NS_PER_S, on_sweep);
}

struct sw_gw_health *sw_gw_health_new(struct sw_loop *l, struct sw_gw_cluster *c)
{
    struct sw_gw_health *h;

    if (c->spec->n_checks == 0 && !c->spec->outlier.on)
        return NULL;
    h = SW_NEW(struct sw_gw_health);
    h->loop = l;
    sw_list_init(&h->checkers);
    sw_gw_health_update(h, c);
    if (c->spec->outlier.on)
        sw_timer_start(l, &h->sweep, c->spec->outlier.interval_ns + 1, on_sweep);
    return h;
}

void sw_gw_health_free(struct sw_gw_health *h)
{
    if (!h)
        return;
    while (!sw_list_empty(&h->checkers))
        checker_stop(SW_CONTAINER_OF(h->checkers.next, struct checker, link));
    sw_timer_stop(h->loop, &h->sweep);
    (void)sw_gw_cluster_unref(h->cluster);
    sw_free(h);
}
