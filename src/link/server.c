/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of peers at the external port: TLS, who it is, which protocol. */
#include "link/server.h"

#include <string.h>

#include "base/base64.h"
#include "base/hex.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/grammar.h"
#include "http/url.h"
#include "io/sock.h"
#include "tls/cert/x509.h"
#include "tls/crypto/jws.h"

/* Connections of one peer to this worker. */
struct peer_load {
    char name[LINK_PEER_NAME];
    size_t n;
};

static void on_reap(struct sw_defer *d)
{
    struct link_server *s = SW_CONTAINER_OF(d, struct link_server, reap);

    sw_h1_free(s->h1);
    sw_buf_done(&s->body);
    sw_free(s->certificate);
    sw_free(s);
}

static void leave_load(struct link_server *s)
{
    struct peer_load *p = SW_TAKE(s->load);

    if (!p || --p->n)
        return;
    (void)sw_map_del(&s->w->peers, sw_slice_str(p->name));
    sw_free(p);
}

static bool join_load(struct link_server *s)
{
    struct link_worker *w = s->w;
    size_t max = sw_max(w->config->max_per_peer / w->link->n_workers, 1);
    struct peer_load *p = sw_map_get(&w->peers, sw_slice_str(s->peer));

    if (p && p->n >= max)
        return false;
    if (!p) {
        p = SW_NEW(struct peer_load);
        memcpy(p->name, s->peer, sizeof(p->name));
        (void)sw_map_put(&w->peers, sw_slice_str(p->name), p);
    }
    p->n++;
    s->load = p;
    return true;
}

static void handshake_over(struct link_server *s)
{
    s->w->n_handshakes -= s->handshake;
    s->handshake = false;
}

void link_server_gone(struct link_server *s)
{
    if (!sw_list_linked(&s->link))
        return;
    handshake_over(s);
    leave_load(s);
    sw_timer_stop(s->w->loop, &s->timer);
    sw_list_unlink(&s->link);
    s->w->n_servers--;
    sw_loop_defer(s->w->loop, &s->reap, on_reap);
}

/* ---- who it is ---- */

static bool first_dns(const struct sw_x509_san *san, void *arg)
{
    struct link_server *s = arg;

    if (san->kind != SW_X509_SAN_DNS || san->text.n == 0 || san->text.n >= sizeof(s->peer))
        return false;
    memcpy(s->peer, san->text.p, san->text.n);
    s->peer[san->text.n] = '\0';
    return true;
}

/* As Envoy shows a certificate to its authorisation service: PEM, percent-encoded. */
static char *encode_certificate(struct sw_slice der)
{
    SW_BUF_AUTO text = {.max = 1 << 17};
    SW_BUF_AUTO pem = {.max = 1 << 17};
    SW_BUF_AUTO out = {.max = 1 << 18};

    if (sw_base64_append(&text, der) != SW_OK)
        return NULL;
    (void)!sw_buf_append_str(&pem, "-----BEGIN CERTIFICATE-----\n");
    while (sw_buf_len(&text)) {
        size_t n = sw_min(sw_buf_len(&text), 64);

        (void)!sw_buf_append(&pem, sw_buf_data(&text), n);
        (void)!sw_buf_putc(&pem, '\n');
        sw_buf_consume(&text, n);
    }
    (void)!sw_buf_append_str(&pem, "-----END CERTIFICATE-----\n");
    (void)!sw_percent_encode(&out, sw_buf_slice(&pem));
    return sw_buf_take_str(&out);
}

/* A peer is known by the first DNS name of its certificate. */
static int on_leaf(void *arg, struct sw_slice der, struct sw_err *err)
{
    struct link_server *s = arg;
    uint8_t sum[32];

    if (!sw_x509_any_san(der, first_dns, s) || !sw_http_host_valid(sw_slice_str(s->peer)))
        return sw_err_set(err, SW_EDENIED, "certificate of the peer has no DNS name");
    sw_digest_sha256(der, sum);
    *sw_hex_write(s->fingerprint, sum, sizeof(sum)) = 0;
    if (s->w->config->form == SW_LINK_CONTROL_CLUSTERLINK && der.n < (1 << 16)) {
        sw_free(s->certificate);
        s->certificate = encode_certificate(der);
    }
    return SW_OK;
}

/* ---- which protocol ---- */

static bool admitted(struct link_server *s)
{
    handshake_over(s);
    if (join_load(s))
        return true;
    link_refused(s->w, "too_many_of_peer", &s->addr, s->peer);
    return false;
}

static void on_ready(struct sw_session *session)
{
    struct link_server *s = sw_session_owner(session);
    struct sw_err err = {0};

    if (!admitted(s))
        sw_session_close(session, sw_err_set(&err, SW_ELIMIT, "too many connections"), &err);
    else if (s->draining)
        sw_session_drain(session);
}

static void on_other(struct sw_session *session)
{
    struct link_server *s = sw_session_owner(session);
    struct sw_session_parts parts;

    sw_session_take(session, &parts);
    s->session = NULL;
    if (admitted(s)) {
        link_h1_serve(s, &parts);
        return;
    }
    sw_session_parts_close(&parts);
    link_server_gone(s);
}

static void on_closed(struct sw_session *session, int rc, const struct sw_err *err, bool handshaken)
{
    struct link_server *s = sw_session_owner(session);

    s->session = NULL;
    if (s->handshake && rc != SW_OK && rc != SW_EOF)
        link_refused(s->w, rc == SW_EDENIED ? "certificate" : "handshake", &s->addr, err->msg);
    link_server_gone(s);
}

static const struct sw_session_ops session_ops = {
    .on_ready = on_ready,
    .on_other = on_other,
    .on_request = link_h2_request,
    .on_closed = on_closed,
};

static const struct sw_session_config session_config = {
    .stream_window = 4 << 20,
    .connection_window = 16 << 20,
    .max_frame = 1 << 20,
    .max_streams = 10000,
    .handshake_ns = 10 * SW_NS_PER_S,
    .ping_interval_ns = 30 * SW_NS_PER_S,
    .ping_timeout_ns = 20 * SW_NS_PER_S,
};

void link_server_accept(struct link_worker *w, int fd, const struct sw_addr *peer)
{
    struct sw_sock_opts tune = SW_SOCK_OPTS_INIT;
    struct link_server *s;
    struct sw_err err = {0};
    struct sw_tls_params tls = {
        .server = true,
        .tls12 = true,
        .web = true,
        .need_client_cert = true,
        .alpn = "h2,http/1.1",
        .leaf_ok = on_leaf,
    };

    if (w->n_handshakes >= LINK_HANDSHAKES || w->n_servers >= w->config->max_connections) {
        link_refused(w, "too_many_connections", peer, "external port is full");
        sw_sock_close(fd);
        return;
    }
    sw_sock_tune(fd, &tune);
    s = SW_NEW(struct link_server);
    s->w = w;
    s->addr = *peer;
    s->handshake = true;
    w->n_handshakes++;
    sw_list_push_back(&w->servers, &s->link);
    w->n_servers++;
    sw_buf_init(&s->body, LINK_BODY_MAX);
    tls.cred = w->snap->cred;
    tls.leaf_arg = s;
    s->session =
        sw_session_new(w->loop, fd,
                       &(struct sw_session_setup){
                           .tls = &tls, .config = &session_config, .ops = &session_ops, .owner = s},
                       &err);
    if (!s->session) {
        link_refused(w, "handshake", peer, err.msg);
        link_server_gone(s);
    }
}

/* renewed: only because of a new certificate, which connections that come again will see. */
void link_servers_drain(struct link_worker *w, bool renewed)
{
    SW_LIST_EACH (struct link_server, s, &w->servers, link) {
        s->draining |= !renewed;
        if (s->session && !s->handshake)
            sw_session_drain(s->session);
        else if (s->tconn && !renewed)
            link_h1_drain(s);
    }
}

void link_servers_kill(struct link_worker *w)
{
    struct sw_err err = {0};

    (void)sw_err_set(&err, SW_ECLOSED, "data plane ends");
    SW_LIST_EACH (struct link_server, s, &w->servers, link) {
        if (s->session) {
            sw_session_close(s->session, SW_ECLOSED, &err);
        } else {
            if (s->tconn)
                sw_tconn_close(SW_TAKE(s->tconn), true);
            if (s->current)
                link_export_end(SW_TAKE(s->current), "drained", err.msg);
            link_server_gone(s);
        }
    }
}
