/* SPDX-License-Identifier: Apache-2.0 */
/* Life: the key, the endpoint, the listeners, and dispatch of accepted connections. */
#include "sidecar/sidecar.h"

#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/time.h"
#include "http/bearer.h"
#include "http/grammar.h"
#include "io/sock.h"
#include "quic/path.h"
#include "quic/quic.h"
#include "sidecar/sidecar_int.h"
#include "tls/cert/cred.h"
#include "tls/cert/rawkey.h"

enum { PREFACE = 24 };
static const char preface[PREFACE + 1] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
static const uint64_t sniff_ns = 10 * SW_NS_PER_S;
static const uint64_t poll_ns = 50 * SW_NS_PER_MS;

/* A connection whose first bytes have not shown yet which protocol it speaks. */
struct side_sniff {
    struct sw_list link;
    struct sw_sidecar *s;
    struct sw_watch watch;
    struct sw_timer timer;
    int fd;
    enum side_source source;
};

/* ---- which protocol ---- */

static void sniff_end(struct side_sniff *n, int keep_fd)
{
    sw_list_unlink(&n->link);
    sw_watch_stop(&n->watch);
    sw_timer_stop(n->s->loop, &n->timer);
    if (!keep_fd)
        sw_sock_close(n->fd);
    n->s->n_conns--;
    sw_free(n);
}

static void sniff(struct side_sniff *n)
{
    struct sw_sidecar *s = n->s;
    enum side_source source = n->source;
    char buf[PREFACE];
    ssize_t k = sw_sock_peek(n->fd, buf, sizeof(buf));
    int fd = n->fd;

    if (k == SW_EAGAIN)
        return;
    if (k <= 0) {
        sniff_end(n, false);
        return;
    }
    if (memcmp(buf, preface, (size_t)k) != 0) {
        sniff_end(n, true);
        side_h1_serve(s, fd, source);
    } else if (k == PREFACE) {
        sniff_end(n, true);
        side_h2_serve(s, fd, source, false);
    }
}

static void on_sniff(struct sw_watch *w, unsigned events)
{
    sniff(SW_CONTAINER_OF(w, struct side_sniff, watch));
}

static void on_sniff_timeout(struct sw_timer *t)
{
    sniff_end(SW_CONTAINER_OF(t, struct side_sniff, timer), false);
}

static void sniff_start(struct sw_sidecar *s, int fd, enum side_source source)
{
    struct side_sniff *n = SW_NEW(struct side_sniff);
    struct sw_err err = {0};

    n->s = s;
    n->fd = fd;
    n->source = source;
    s->n_conns++;
    sw_list_push_back(&s->sniffing, &n->link);
    if (sw_watch_start(s->loop, &n->watch, fd, on_sniff, &err) != SW_OK) {
        sniff_end(n, false);
        return;
    }
    sw_timer_start(s->loop, &n->timer, sniff_ns, on_sniff_timeout);
    sniff(n);
}

static void on_accept(struct sw_acceptor *a, int fd, const struct sw_addr *peer)
{
    struct side_listener *l = SW_CONTAINER_OF(a, struct side_listener, acceptor);
    struct sw_sidecar *s = SW_CONTAINER_OF(a->group, struct sw_sidecar, accept);
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;

    if (s->n_conns >= s->c->max_clients) {
        struct side_refusal why = {503, "too_many_clients", "the connection was closed"};

        side_denied(s, &why);
        sw_sock_close(fd);
        return;
    }
    if (l->source == SIDE_TCP)
        sw_sock_tune(fd, &o);
    if (l->tls)
        side_h2_serve(s, fd, l->source, true);
    else
        sniff_start(s, fd, l->source);
}

/* ---- listeners ---- */

static int open_unix(struct side_listener *l, const char *path, int *ret_fd, struct sw_err *err)
{
    int rc = sw_sock_listen_unix(SOCK_STREAM, path, 0660, ret_fd, err);

    l->source = SIDE_UDS;
    l->path = rc == SW_OK ? sw_strdup(path) : NULL;
    return rc;
}

static int open_tcp(struct sw_sidecar *s, struct side_listener *l, const char *text, int *ret_fd,
                    struct sw_err *err)
{
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    struct sw_addr at;
    int rc = sw_addr_parse(sw_slice_str(text), &at, err);

    if (rc != SW_OK)
        return sw_err_set(err, SW_EINVAL, "neither a path nor an address");
    l->source = SIDE_TCP;
    l->tls = s->cred != NULL && !sw_ip_is_loopback(&at.ip);
    if (!sw_ip_is_loopback(&at.ip) && !(s->c->allow_remote && s->cred))
        return sw_err_set(err, SW_EINVAL,
                          "not a loopback address: whoever reaches it could dial every node. "
                          "Needs --allow-remote with --tls-cert, --tls-key and --tls-ca");
    return sw_sock_listen(&at, &o, ret_fd, err);
}

static int open_listener(struct sw_sidecar *s, const char *text, struct sw_err *err)
{
    struct side_listener *l = &s->listeners[s->n_listeners];
    struct sw_slice t = sw_slice_str(text);
    struct sw_addr bound;
    char at[SW_ADDR_TEXT];
    int fd = -1;
    int rc;

    *l = (struct side_listener){.acceptor.fd = -1};
    if (sw_slice_has_prefix(t, SW_SLICE_LIT("unix:")))
        rc = open_unix(l, text + 5, &fd, err);
    else if (sw_slice_find(t, '/') >= 0)
        rc = open_unix(l, text, &fd, err);
    else
        rc = open_tcp(s, l, text, &fd, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, "--listen '%.100s'", text);
    s->n_listeners++;
    rc = sw_accept_open(&s->accept, &l->acceptor, fd, on_accept, err);
    if (rc != SW_OK)
        return rc;
    bound = sw_sock_local(fd);
    sw_log_info("sidecar", "listening on %s%s", l->path ? l->path : sw_addr_text(&bound, at),
                l->tls ? " (TLS)" : "");
    return SW_OK;
}

static void close_listeners(struct sw_sidecar *s)
{
    for (size_t i = 0; i < s->n_listeners; i++) {
        struct side_listener *l = &s->listeners[i];

        if (l->path)
            (void)unlink(l->path);
        sw_free(l->path);
    }
    s->n_listeners = 0;
    sw_accept_done(&s->accept);
}

/* ---- beginning ---- */

static int read_cred(struct sw_sidecar *s, struct sw_err *err)
{
    const struct sw_sidecar_config *c = s->c;
    const char *names[3] = {c->tls_cert, c->tls_key, c->tls_ca};
    struct sw_slice text[3] = {{0}};
    int rc = SW_OK;

    if (!c->tls_cert && !c->tls_key && !c->tls_ca)
        return SW_OK;
    for (int i = 0; i < 3 && rc == SW_OK; i++) {
        if (!names[i])
            rc = sw_err_set(err, SW_EINVAL, "--tls-cert, --tls-key and --tls-ca go together");
        else
            rc = sw_file_read(names[i], SW_TLS_PEM_MAX, &text[i], err);
    }
    if (rc == SW_OK) {
        s->cred = sw_tls_cred_new(
            &(struct sw_tls_cred_pem){
                .chain = text[0], .key = text[1], .roots = text[2], .any_identity = true},
            err);
        rc = s->cred ? SW_OK : err->rc;
    }
    if (text[1].n)
        explicit_bzero((void *)(uintptr_t)text[1].p, text[1].n);
    for (int i = 0; i < 3; i++)
        sw_slice_free(&text[i]);
    return rc;
}

/* "NAME=ALIAS" */
static int read_aliases(struct sw_sidecar *s, struct sw_err *err)
{
    if (s->c->aliases.n > SIDE_ALIASES_MAX)
        return sw_err_set(err, SW_ELIMIT, "more than %d --header-alias", SIDE_ALIASES_MAX);
    for (size_t i = 0; i < s->c->aliases.n; i++) {
        struct sw_slice rest = sw_slice_str(s->c->aliases.p[i]);
        struct side_alias *a = &s->aliases.p[s->aliases.n++];

        a->name = sw_slice_cut(&rest, '=');
        a->alias = rest;
        if (!sw_http_token_valid(a->name) || !sw_http_token_valid(a->alias))
            return sw_err_set(err, SW_EINVAL, "--header-alias '%.80s': not NAME=ALIAS",
                              s->c->aliases.p[i]);
    }
    return SW_OK;
}

static int read_token(struct sw_sidecar *s, struct sw_err *err)
{
    int rc;

    if (!s->c->relay_token_file)
        return SW_OK;
    rc = sw_bearer_read(s->c->relay_token_file, &s->relay_token, err);
    return rc == SW_OK ? rc : sw_err_prefix(err, "--relay-token-file");
}

static bool on_relay_allowed(void *arg, struct sw_slice url)
{
    return side_relays_allow(((struct sw_sidecar *)arg)->relays, url);
}

/* A device names addresses to be probed: the filter that judges those of its Connector decides. */
static bool on_probe_allowed(void *arg, const struct sw_addr *a)
{
    return sw_egress_check(((struct sw_sidecar *)arg)->egress, a, NULL) == SW_OK;
}

static void on_mapped(void *arg)
{
    side_places_changed(arg);
}

static int open_endpoint(struct sw_sidecar *s, struct sw_err *err)
{
    struct sw_quic_config q = {
        .bind = s->c->bind,
        .max_conns = s->c->max_nodes + 64,
        .max_buffered = (uint64_t)s->c->max_buffered << 20,
        .congestion = (enum sw_qcc)s->c->congestion,
        .dial_ns = s->c->dial_ns,
        .datagrams = true,
        .relay_ca_file = s->c->relay_ca,
        .relay_token = s->relay_token,
        .relay_token_for = sw_slice_str(s->c->relay),
        .relay_sign_over_tls = s->c->relay_sign_over_tls,
        .relay_allowed = on_relay_allowed,
        .relay_refused = side_relay_refused,
        .answer_asks = true,
        .probe_allowed = on_probe_allowed,
        .mapped = on_mapped,
        .arg = s,
    };
    char hex[SW_NODEID_HEX];

    s->relays = side_relays_new(s->c, err);
    if (!s->relays)
        return err->rc;
    s->key = sw_rawkey_open(s->c->key_file, err);
    if (!s->key)
        return sw_err_prefix(err, "--key-file");
    q.key = s->key;
    s->quic = sw_quic_new(s->loop, &q, err);
    if (!s->quic)
        return err->rc;
    side_places_start(s);
    if (s->c->relay)
        sw_quic_set_home_relay(s->quic, sw_slice_str(s->c->relay));
    sw_log_info("sidecar", "node id %s", sw_nodeid_hex(sw_sidecar_id(s), hex));
    return SW_OK;
}

/* ---- connections to nodes ---- */

static void on_resolve(void *arg, struct sw_qlookup *l)
{
    side_where_resolve(((struct sw_sidecar *)arg)->where, l);
}

static void on_cancel(void *arg, struct sw_qlookup *l)
{
    side_where_cancel(((struct sw_sidecar *)arg)->where, l);
}

static void log_conn(struct sw_qconn *q, const char *what)
{
    struct sw_addr at = sw_qconn_addr(q);
    char id[SW_NODEID_SHORT];
    char text[SW_ADDR_TEXT];

    sw_log_info("sidecar", "%s: %s (%s)", sw_nodeid_short(sw_qconn_peer(q), id), what,
                at.ip.family ? sw_addr_text(&at, text) : "relay");
}

static void on_opened(void *arg, struct sw_qconn *q)
{
    side_conn_opened(arg, sw_qconn_path(q));
    side_event(arg, "opened");
    log_conn(q, "connected");
}

static void on_set_apart(void *arg, const struct sw_nodeid *id, const char *why)
{
    side_event(arg, why);
}

static void on_path(void *arg, struct sw_qconn *q)
{
    side_event(arg, "path_changed");
    log_conn(q, "path changed");
}

static void on_closed(void *arg, struct sw_qconn *q, bool idle, enum sw_qfail why)
{
    side_conn_closed(arg, sw_qconn_path(q), idle, why != SW_QFAIL_NONE);
    side_event(arg, why != SW_QFAIL_NONE ? "lost" : "closed");
    log_conn(q, idle ? "closed, idle" : why != SW_QFAIL_NONE ? "lost" : "closed");
}

static void on_dial_failed(void *arg, const struct sw_nodeid *id, enum sw_qfail why,
                           const char *text)
{
    struct sw_sidecar *s = arg;

    side_event(s, "dial_failed");
    if (why == SW_QFAIL_DIAL_TIMEOUT || why == SW_QFAIL_DIAL_FAILED || why == SW_QFAIL_IDENTITY)
        side_where_failed(s->where, id);
}

bool side_may(const struct sw_sidecar *s, const struct side_out *o, struct side_refusal *why)
{
    if (o->kind != SIDE_UDP || !s->api || !side_api_refuses_udp(s->api, &o->node))
        return true;
    *why = (struct side_refusal){403, "udp_not_offered",
                                 "the connector does not report the capability ConnectUDP"};
    return false;
}

static const struct sw_qdial_ops dial_ops = {
    .resolve = on_resolve,
    .cancel = on_cancel,
    .opened = on_opened,
    .set_apart = on_set_apart,
    .path = on_path,
    .closed = on_closed,
    .dial_failed = on_dial_failed,
};

static int start(struct sw_sidecar *s, struct sw_err *err)
{
    struct sw_qdial_config d = {
        .max_conns = s->c->max_nodes,
        .idle_ns = s->c->idle_ns,
        .lookup_timeout_ns = s->c->dial_ns,
        .wait_ns = s->c->answer_ns,
        .ops = &dial_ops,
        .arg = s,
    };
    int rc = s->c->listen.n
                 ? read_cred(s, err)
                 : sw_err_set(err, SW_EINVAL, "--listen is needed: a path or an address");

    if (rc == SW_OK)
        rc = read_aliases(s, err);
    if (rc == SW_OK)
        rc = read_token(s, err);
    if (rc == SW_OK)
        rc = open_endpoint(s, err);
    if (rc != SW_OK)
        return rc;
    d.quic = s->quic;
    s->dial = sw_qdial_new(s->loop, &d);
    s->where = side_where_new(s, err);
    if (!s->where)
        return err->rc;
    if (s->c->kubeconfig) {
        s->api = side_api_new(s, err);
        if (!s->api)
            return err->rc;
    }
    if (s->c->listen.n > SIDE_LISTENERS_MAX)
        return sw_err_set(err, SW_ELIMIT, "more than %d --listen", SIDE_LISTENERS_MAX);
    for (size_t i = 0; i < s->c->listen.n && rc == SW_OK; i++)
        rc = open_listener(s, s->c->listen.p[i], err);
    return rc;
}

struct sw_sidecar *sw_sidecar_new(struct sw_loop *l, const struct sw_sidecar_config *c,
                                  struct sw_metrics *metrics, struct sw_ready *ready,
                                  struct sw_err *err)
{
    struct sw_sidecar *s = SW_NEW(struct sw_sidecar);

    s->loop = l;
    s->c = c;
    s->ready = ready;
    sw_accept_init(&s->accept, l, "sidecar");
    sw_list_init(&s->sniffing);
    sw_list_init(&s->h1);
    sw_list_init(&s->h2);
    sw_list_init(&s->h2x);
    side_stats_init(s, metrics);
    s->egress = sw_upstream_filter(l, &c->upstream, false, err);
    if (s->egress && start(s, err) == SW_OK)
        return s;
    sw_sidecar_free(s);
    return NULL;
}

struct sw_egress *sw_sidecar_egress(const struct sw_sidecar *s)
{
    return s->egress;
}

/* ---- the end ---- */

void sw_sidecar_free(struct sw_sidecar *s)
{
    if (!s)
        return;
    close_listeners(s);
    SW_LIST_EACH (struct side_sniff, n, &s->sniffing, link)
        sniff_end(n, false);
    side_h1_kill_all(s);
    side_h2_kill_all(s);
    side_api_free(s->api);
    sw_qdial_free(s->dial);
    side_where_free(s->where);
    sw_addr_watch_free(s->places.watch);
    if (s->quic)
        sw_quic_free(s->quic);
    side_relays_free(s->relays);
    sw_egress_free(s->egress);
    sw_rawkey_free(s->key);
    (void)sw_tls_cred_unref(s->cred);
    sw_slice_free_secret(&s->relay_token);
    sw_timer_stop(s->loop, &s->poll);
    side_stats_done(s);
    sw_free(s);
}

static void on_poll(struct sw_timer *t)
{
    struct sw_sidecar *s = SW_CONTAINER_OF(t, struct sw_sidecar, poll);

    if (s->n_requests || s->n_conns) {
        sw_timer_start(s->loop, &s->poll, poll_ns, on_poll);
        return;
    }
    s->done(s->done_arg);
}

void sw_sidecar_drain(struct sw_sidecar *s, void (*done)(void *arg), void *arg)
{
    if (s->draining)
        return;
    s->draining = true;
    s->done = done;
    s->done_arg = arg;
    close_listeners(s);
    SW_LIST_EACH (struct side_sniff, n, &s->sniffing, link)
        sniff_end(n, false);
    side_h1_drain(s);
    side_h2_drain(s);
    sw_timer_start(s->loop, &s->poll, 0, on_poll);
}

const struct sw_nodeid *sw_sidecar_id(const struct sw_sidecar *s)
{
    return sw_rawkey_id(s->key);
}

size_t sw_sidecar_active(const struct sw_sidecar *s)
{
    return s->n_requests;
}
