/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How connections end: the reason is recorded, sent to the peer and reported to the application,
 * and a grave keeps the IDs for a while so that late packets are not answered like those of an
 * unknown connection.
 */
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/time.h"
#include "quic/cid.h"
#include "quic/conn.h"
#include "quic/handshake.h"
#include "quic/path_int.h"
#include "quic/send.h"
#include "quic/stream.h"

#define LINGER_NS (30 * SW_NS_PER_S)

void sw_qconn_end_half_open(struct sw_qconn *c)
{
    if (!c->shake.half_open)
        return;
    c->q->conn.half_open--;
    c->shake.half_open = false;
    sw_list_unlink(&c->half);
}

/*
 * What failed in its handshake counts on while it lies in its grave: first packets that are made to
 * fail have to meet a Retry, too.
 */
static void count_failure(struct sw_qconn *c)
{
    if (!c->shake.half_open)
        return;
    sw_qconn_end_half_open(c);
    c->shake.failed = true;
    c->q->conn.n_failures++;
    sw_list_push_back(&c->q->conn.failures, &c->half);
}

bool sw_qconn_drop_half_open(struct sw_quic *q)
{
    struct sw_list *m =
        sw_list_empty(&q->conn.failures) ? q->conn.halves.next : q->conn.failures.next;
    struct sw_qconn *c;

    if (m == &q->conn.halves)
        return false;
    c = SW_CONTAINER_OF(m, struct sw_qconn, half);
    if (c->nc) {
        sw_qconn_fail(c, SW_QCLOSE_FAILED, 0, "others wait");
        c->end.quiet = true;
        sw_qconn_bury(c);
    }
    sw_qconn_free(c);
    return true;
}

void sw_qconn_fail(struct sw_qconn *c, enum sw_qclose_kind kind, uint64_t code, const char *text)
{
    if (c->end.closing || c->gone)
        return;
    c->end.closing = true;
    c->end.code = code;
    c->end.why.kind = kind;
    c->end.why.code = code;
    (void)snprintf(c->end.reason, sizeof(c->end.reason), "%s", text);
    c->end.why.text = sw_slice_str(c->end.reason);
    sw_qconn_note(c);
}

/* The error code and reason that the peer closed with. */
static void fail_remote(struct sw_qconn *c)
{
    ngtcp2_connection_close_error e;
    enum sw_qclose_kind kind = SW_QCLOSE_TRANSPORT;
    size_t n;

    ngtcp2_conn_get_connection_close_error(c->nc, &e);
    if (e.type == NGTCP2_CONNECTION_CLOSE_ERROR_CODE_TYPE_APPLICATION)
        kind = SW_QCLOSE_APP;
    else if (c->was_reset)
        kind = SW_QCLOSE_RESET;
    sw_qconn_fail(c, kind, e.error_code, c->was_reset ? "stateless reset" : "");
    if (!c->was_reset && e.reason) {
        n = sw_min(e.reasonlen, sizeof(c->end.reason) - 1);
        memcpy(c->end.reason, e.reason, n);
        c->end.why.text = sw_slice(c->end.reason, n);
    }
    c->end.quiet = true;
}

void sw_qconn_fail_lib(struct sw_qconn *c, int liberr)
{
    uint64_t code;

    if (c->end.closing)
        return;
    switch (liberr) {
    case NGTCP2_ERR_DRAINING:
        fail_remote(c);
        return;
    case NGTCP2_ERR_IDLE_CLOSE:
        sw_qconn_fail(c, SW_QCLOSE_IDLE, 0, "idle timeout");
        c->end.quiet = true;
        return;
    case NGTCP2_ERR_HANDSHAKE_TIMEOUT:
        sw_qconn_fail(c, SW_QCLOSE_TIMEOUT, 0, "no answer in time");
        return;
    case NGTCP2_ERR_DROP_CONN:
    case NGTCP2_ERR_RETRY:
        sw_qconn_fail(c, SW_QCLOSE_FAILED, 0, "not a connection");
        c->end.quiet = true;
        return;
    case NGTCP2_ERR_CRYPTO:
        code = NGTCP2_CRYPTO_ERROR | ngtcp2_conn_get_tls_alert(c->nc);
        sw_qconn_fail(c, c->shake.wrong_key ? SW_QCLOSE_IDENTITY : SW_QCLOSE_FAILED, code,
                      c->shake.wrong_key ? "the peer has another key" : "handshake failed");
        return;
    default:
        code = ngtcp2_err_infer_quic_transport_error_code(liberr);
        sw_qconn_fail(c, SW_QCLOSE_FAILED, code, ngtcp2_strerror(liberr));
        return;
    }
}

/* Writes and keeps the close packet. */
static void send_close(struct sw_qconn *c)
{
    ngtcp2_connection_close_error e;
    ngtcp2_path_storage ps;
    ngtcp2_pkt_info pi;
    ngtcp2_ssize n;
    const uint8_t *text = (const uint8_t *)c->end.reason;
    size_t text_n = strlen(c->end.reason);

    ngtcp2_connection_close_error_default(&e);
    if (c->end.app)
        ngtcp2_connection_close_error_set_application_error(&e, c->end.code, text, text_n);
    else
        ngtcp2_connection_close_error_set_transport_error(&e, c->end.code, text, text_n);
    ngtcp2_path_storage_zero(&ps);
    n = ngtcp2_conn_write_connection_close(c->nc, &ps.path, &pi, c->q->scratch.tx, QUIC_MTU, &e,
                                           sw_quic_now(c->q));
    if (n <= 0)
        return;
    (void)sw_qpath_send(c, sw_qpath_id(&ps.path), 0, c->q->scratch.tx, (size_t)n, (size_t)n);
    c->end.words = sw_malloc((size_t)n);
    c->end.words_n = (size_t)n;
    memcpy(c->end.words, c->q->scratch.tx, (size_t)n);
}

static void free_dgrams(struct sw_list *l)
{
    SW_LIST_EACH (struct sw_qdgram, d, l, link)
        sw_free(d);
    sw_list_init(l);
}

bool sw_qconn_lingers(struct sw_qconn *c)
{
    bool unread = false;

    if (c->end.why.kind == SW_QCLOSE_LOCAL || c->gone)
        return false;
    SW_LIST_EACH (struct sw_qstream, s, &c->streams.all, link)
        unread = unread || sw_qstream_unread(s);
    if (!unread)
        return false;
    /* on_timer ends it. */
    if (!c->end.linger)
        sw_timer_start(c->q->loop, &c->timer, LINGER_NS, sw_qconn_on_timer);
    c->end.linger = true;
    return true;
}

void sw_qconn_bury(struct sw_qconn *c)
{
    struct sw_quic *q = c->q;
    uint64_t stay = 0;

    if (c->nc) {
        stay = 3 * ngtcp2_conn_get_pto(c->nc);
        if (c->end.closing && !c->end.quiet)
            send_close(c);
    }
    count_failure(c);
    if (c->shake.known)
        q->conn.n_known--;
    sw_list_unlink(&c->dirty);
    sw_list_unlink(&c->event);
    sw_list_unlink(&c->link);
    sw_timer_stop(q->loop, &c->timer);
    q->conn.n--;
    SW_LIST_EACH (struct sw_qstream, s, &c->streams.all, link)
        sw_qstream_lost(s);
    if (!c->gone) {
        c->gone = true;
        if (!c->shake.told)
            q->stats.failed++;
        if (c->ops && c->ops->closed)
            c->ops->closed(c, &c->end.why);
    }
    free_dgrams(&c->dgrams.in);
    free_dgrams(&c->dgrams.out);
    sw_qsilence_end(c);
    sw_qhs_free(c->hs);
    c->hs = NULL;
    if (c->nc)
        ngtcp2_conn_del(c->nc);
    c->nc = NULL;
    sw_qreach_free(c);
    if (c->dial)
        sw_free(c->dial->flight);
    sw_free(c->dial);
    c->dial = NULL;
    /*
     * Its IDs stay known for a while, so that late packets do not look like those of an unknown
     * connection.
     */
    sw_list_push_back(&q->conn.graves, &c->link);
    sw_timer_start(q->loop, &c->timer, sw_min(stay, 3 * SW_NS_PER_S), sw_qconn_on_timer);
}

void sw_qconn_free(struct sw_qconn *c)
{
    sw_timer_stop(c->q->loop, &c->timer);
    if (c->shake.failed)
        c->q->conn.n_failures--;
    sw_list_unlink(&c->half);
    sw_list_unlink(&c->link);
    sw_qcid_remove_all(c);
    if (c->dialled)
        sw_slice_free(&c->alpn);
    sw_free(c->end.words);
    sw_free(c);
}
