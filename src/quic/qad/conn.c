/* SPDX-License-Identifier: Apache-2.0 */
/* The turns of a connection of address discovery: packets, timers, reports, and the end. */
#include <ngtcp2/ngtcp2.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "quic/qad/qad_int.h"

enum {
    KEEPALIVE_S = 25,
    WRITES_MAX = 16, /* packets of one turn */
    SEQ_MAX = 0x3fffffff,
    AGAIN_MS = 200,    /* what is not acknowledged is sent again after this much, */
    AGAIN_DOUBLED = 6, /* and then twice as much, so often */
};

static void on_timer(struct sw_timer *t);

static struct sw_addr addr_of(const ngtcp2_addr *a)
{
    struct sockaddr_storage ss = {0};

    memcpy(&ss, a->addr, sw_min(a->addrlen, sizeof(ss)));
    return sw_addr_from_sockaddr(&ss);
}
/* ---- the end ---- */

static void end(struct sw_qadc *c, bool failed, const char *why)
{
    if (c->ended)
        return;
    c->ended = true;
    c->failed = failed;
    if (!c->why[0])
        (void)snprintf(c->why, sizeof(c->why), "%s", why);
    sw_timer_stop(c->loop, &c->timer);
}

static void send_close(struct sw_qadc *c, const ngtcp2_connection_close_error *e)
{
    ngtcp2_path_storage ps;
    ngtcp2_pkt_info pi;
    uint8_t buf[QAD_PACKET];
    ngtcp2_ssize n;
    struct sw_addr local;
    struct sw_addr to;

    ngtcp2_path_storage_zero(&ps);
    n = ngtcp2_conn_write_connection_close(c->nc, &ps.path, &pi, buf, sizeof(buf), e,
                                           sw_loop_now(c->loop));
    if (n <= 0)
        return;
    local = addr_of(&ps.path.local);
    to = addr_of(&ps.path.remote);
    c->ops->send(c, &to, &local.ip, buf, (size_t)n);
}

static void fail(struct sw_qadc *c, int liberr)
{
    ngtcp2_connection_close_error e;
    char text[QAD_WHY];

    switch (liberr) {
    case NGTCP2_ERR_DRAINING:
        ngtcp2_conn_get_connection_close_error(c->nc, &e);
        (void)snprintf(text, sizeof(text), "closed by the peer, code %#llx%s%.*s",
                       (unsigned long long)e.error_code, e.reasonlen ? ": " : "",
                       (int)sw_min(e.reasonlen, 80), e.reason ? (const char *)e.reason : "");
        /* Endpoints of iroh that end close everything with code 0, and not with QAD's 1. */
        end(c, e.type == NGTCP2_CONNECTION_CLOSE_ERROR_CODE_TYPE_TRANSPORT && e.error_code != 0,
            text);
        return;
    case NGTCP2_ERR_IDLE_CLOSE:
        end(c, !c->established, "no answer");
        return;
    case NGTCP2_ERR_HANDSHAKE_TIMEOUT:
        end(c, true, "handshake not finished in time");
        return;
    case NGTCP2_ERR_DROP_CONN:
    case NGTCP2_ERR_RETRY:
        end(c, true, "not a connection");
        return;
    case NGTCP2_ERR_CRYPTO:
        ngtcp2_connection_close_error_set_transport_error_tls_alert(
            &e, ngtcp2_conn_get_tls_alert(c->nc), NULL, 0);
        (void)snprintf(text, sizeof(text), "TLS handshake failed, alert %u",
                       ngtcp2_conn_get_tls_alert(c->nc));
        break;
    default:
        ngtcp2_connection_close_error_set_transport_error_liberr(&e, liberr, NULL, 0);
        (void)snprintf(text, sizeof(text), "%s", ngtcp2_strerror(liberr));
        break;
    }
    send_close(c, &e);
    end(c, true, text);
}

void sw_qadc_close(struct sw_qadc *c)
{
    static const char reason[] = "finished";
    ngtcp2_connection_close_error e;

    if (!c->nc || c->ended)
        return;
    ngtcp2_connection_close_error_set_application_error(
        &e, QAD_CLOSE_FINISHED, (const uint8_t *)reason, sizeof(reason) - 1);
    send_close(c, &e);
    end(c, false, "closed");
}

void sw_qadc_done(struct sw_qadc *c)
{
    sw_timer_stop(c->loop, &c->timer);
    sw_qad_tls_free(c);
    ngtcp2_conn_del(c->nc);
    c->nc = NULL;
}

/* ---- turns ---- */

static void say(struct sw_qadc *c)
{
    c->seq = (c->seq + 1) & SEQ_MAX;
    c->due = true;
    c->unacked = true;
    c->tries = 0;
}

/* The address a client is seen at changed, or is known for the first time. */
static void check_report(struct sw_qadc *c)
{
    struct sw_addr now;

    if (!c->server || !c->established || c->ended ||
        (c->peer_role != SW_QAD_RECEIVES && c->peer_role != SW_QAD_BOTH))
        return;
    now = addr_of(&ngtcp2_conn_get_path(c->nc)->remote);
    if (sw_addr_eq(&now, &c->reported))
        return;
    c->reported = now;
    say(c);
}

static ngtcp2_ssize write_one(struct sw_qadc *c, ngtcp2_path_storage *ps, uint8_t *out, size_t cap)
{
    uint8_t frame[SW_QAD_REPORT_MAX];
    ngtcp2_vec v = {.base = frame, .len = sizeof(sw_qad_ping)};
    ngtcp2_pkt_info pi;
    uint64_t now = sw_loop_now(c->loop);
    int accepted = 0;
    ngtcp2_ssize n;

    if (!c->due)
        return ngtcp2_conn_write_pkt(c->nc, &ps->path, &pi, out, cap, now);
    if (c->server)
        v.len = sw_qad_put_report(frame, &c->reported, c->seq);
    else
        memcpy(frame, sw_qad_ping, sizeof(sw_qad_ping));
    n = ngtcp2_conn_writev_datagram(c->nc, &ps->path, &pi, out, cap, &accepted,
                                    NGTCP2_WRITE_DATAGRAM_FLAG_NONE, c->seq, &v, 1, now);
    if (accepted) {
        c->due = false;
        c->again_ns = now + (sw_max(3 * sw_qadc_rtt_ns(c), AGAIN_MS * SW_NS_PER_MS)
                             << sw_min(c->tries, AGAIN_DOUBLED));
        c->tries = (uint8_t)sw_min(c->tries + 1, AGAIN_DOUBLED);
    }
    return n;
}

static void write_all(struct sw_qadc *c)
{
    for (int i = 0; i < WRITES_MAX && !c->ended; i++) {
        uint8_t buf[QAD_PACKET];
        ngtcp2_path_storage ps;
        struct sw_addr local;
        struct sw_addr to;
        ngtcp2_ssize n;

        ngtcp2_path_storage_zero(&ps);
        n = write_one(c, &ps, buf, sizeof(buf));
        if (n < 0)
            fail(c, (int)n);
        if (n <= 0)
            return;
        local = addr_of(&ps.path.local);
        to = addr_of(&ps.path.remote);
        c->ops->send(c, &to, &local.ip, buf, (size_t)n);
    }
}

static void rearm(struct sw_qadc *c)
{
    uint64_t now = sw_loop_now(c->loop);
    uint64_t due = c->ended ? UINT64_MAX : ngtcp2_conn_get_expiry(c->nc);

    if (!c->server && c->established && !c->ended) {
        if (c->ping_ns == 0)
            c->ping_ns = now + KEEPALIVE_S * SW_NS_PER_S;
        due = sw_min(due, c->ping_ns);
    }
    if (c->unacked && !c->due && !c->ended)
        due = sw_min(due, c->again_ns);
    if (due == UINT64_MAX)
        sw_timer_stop(c->loop, &c->timer);
    else
        sw_timer_start(c->loop, &c->timer, due > now ? due - now : 0, on_timer);
}

void sw_qadc_write(struct sw_qadc *c)
{
    check_report(c);
    write_all(c);
    /* The session is most of a connection's memory, and of no use once the handshake is done. */
    if (c->established && (!c->server || ngtcp2_conn_get_handshake_completed(c->nc)))
        sw_qad_tls_free(c);
    rearm(c);
    c->ops->news(c);
}

static void on_timer(struct sw_timer *t)
{
    struct sw_qadc *c = SW_CONTAINER_OF(t, struct sw_qadc, timer);
    uint64_t now = sw_loop_now(c->loop);
    int rc = 0;

    if (ngtcp2_conn_get_expiry(c->nc) <= now)
        rc = ngtcp2_conn_handle_expiry(c->nc, now);
    if (rc != 0)
        fail(c, rc);
    if (c->ping_ns && c->ping_ns <= now) {
        c->ping_ns = 0;
        say(c);
    }
    if (c->unacked && c->again_ns <= now)
        c->due = true;
    sw_qadc_write(c);
}

static struct sw_qadc_place place_of(const ngtcp2_path *p)
{
    return (struct sw_qadc_place){.local = addr_of(&p->local), .remote = addr_of(&p->remote)};
}

static bool same_place(const struct sw_qadc_place *a, const struct sw_qadc_place *b)
{
    return sw_addr_eq(&a->local, &b->local) && sw_addr_eq(&a->remote, &b->remote);
}

/* A client may move a few times, each time to a path it did not have before. */
static bool may_come_by(const struct sw_qadc *c, const struct sw_qadc_place *by)
{
    bool known = c->n_left == QAD_MOVES;

    for (size_t i = 0; i < c->n_left && !known; i++)
        known = same_place(&c->left[i], by);
    return !known;
}

static void note_move(struct sw_qadc *c, const struct sw_qadc_place *before)
{
    const struct sw_qadc_place now = place_of(ngtcp2_conn_get_path(c->nc));

    /* One that was gone back to, because no answer came from the next, is among them already. */
    if (!same_place(&now, before) && may_come_by(c, before))
        c->left[c->n_left++] = *before;
}

void sw_qadc_read(struct sw_qadc *c, const struct sw_addr *local, const struct sw_addr *from,
                  uint8_t *p, size_t n)
{
    struct sw_qadc_place by;
    struct sw_qadc_place now;
    ngtcp2_path_storage ps;
    int rc;

    if (c->ended)
        return;
    sw_qadc_path(&ps, local, from);
    by = place_of(&ps.path);
    now = place_of(ngtcp2_conn_get_path(c->nc));
    if (c->server && !same_place(&by, &now) && !may_come_by(c, &by))
        return;
    rc = sw_qadc_read_lib(c, &ps.path, p, n);
    if (rc != 0)
        fail(c, rc);
    if (c->server)
        note_move(c, &now);
    sw_qadc_write(c);
}

void sw_qadc_ping(struct sw_qadc *c)
{
    if (c->ended || !c->established)
        return;
    c->ping_ns = 0;
    say(c);
    sw_qadc_write(c);
}

uint64_t sw_qadc_rtt_ns(const struct sw_qadc *c)
{
    ngtcp2_conn_stat st;

    if (!c->nc || !c->established)
        return 0;
    ngtcp2_conn_get_conn_stat(c->nc, &st);
    return st.smoothed_rtt;
}
