/* SPDX-License-Identifier: Apache-2.0 */
/* Both halves of the tunnel protocol on one loop, over the endpoint of fake_quic.c. */
#pragma once

#include "fake_quic.h"
#include "http/capsule.h"
#include "io/resolver.h"
#include "rig.h"
#include "tunnel/qdial.h"
#include "tunnel/qserve.h"

/* One exchange of the client half, with what it heard. */
struct call {
    struct sw_qcall q;
    struct qrig *r;
    unsigned status;
    struct sw_buf head; /* of the answer: its fields as "name=value;" */
    struct sw_buf body;
    struct sw_buf grams; /* datagrams, each closed with '|' */
    size_t take;         /* bytes to take per call; 0: all */
    bool fin;
    bool stopped;
    int ended;
    enum sw_qfail fail;
    int writables;
};

struct qrig {
    struct sw_loop *loop;
    struct fake fake;
    struct sw_quic *quic;
    struct sw_qserve *serve;
    struct sw_qserve_config sc;
    struct sw_qdial *dial;
    struct sw_qdial_config dc;
    struct sw_qconn *server_conn; /* the newest */
    struct sw_qserve_verdict verdict;
    struct sw_qserve_ask asked; /* the newest; its slices point into 'asked_text' */
    char asked_text[300];
    size_t asks;
    struct sw_qserve_record ended;
    char ended_path[64];
    size_t n_begun, n_ended;
    size_t tapped[2];
    /* Lookups: 0 found at once, -1 never, else the failure. */
    int lookup;
    size_t lookups, cancelled;
    size_t opened, closed_idle, closed_lost, dial_failures;
    size_t apart_silent, apart_full, apart_recovered;
};

static inline void q_authorise(void *arg, const struct sw_qserve_ask *ask,
                               struct sw_qserve_verdict *ret)
{
    struct qrig *r = arg;

    r->asks++;
    r->asked = *ask;
    (void)snprintf(r->asked_text, sizeof(r->asked_text), "%s %.*s %.*s %u %.*s",
                   sw_qkind_text(ask->kind), SW_SLICE_ARG(ask->method), SW_SLICE_ARG(ask->host),
                   ask->port, SW_SLICE_ARG(ask->path));
    *ret = r->verdict;
}

static inline void q_begun(void *arg, const struct sw_qserve_record *rec)
{
    struct qrig *r = arg;

    assert_true(rec->status > 0);
    r->n_begun++;
}

static inline void q_ended(void *arg, const struct sw_qserve_record *rec)
{
    struct qrig *r = arg;

    r->ended = *rec;
    r->n_ended++;
}

static inline void q_accepted(void *arg, struct sw_qconn *c)
{
    struct qrig *r = arg;

    r->server_conn = c;
    sw_qserve_adopt(r->serve, c);
}

static inline void q_resolve(void *arg, struct sw_qlookup *l)
{
    struct qrig *r = arg;
    struct sw_quic_target t = {.id = *sw_qlookup_id(l)};

    r->lookups++;
    if (r->lookup == 0)
        sw_qlookup_found(l, &t);
    else if (r->lookup > 0)
        sw_qlookup_failed(l, (enum sw_qfail)r->lookup, "not found");
}

static inline void q_cancel(void *arg, struct sw_qlookup *l)
{
    (void)l;
    ((struct qrig *)arg)->cancelled++;
}

static inline void q_set_apart(void *arg, const struct sw_nodeid *id, const char *why)
{
    struct qrig *r = arg;

    (void)id;
    r->apart_silent += strcmp(why, "silent") == 0;
    r->apart_full += strcmp(why, "full") == 0;
    r->apart_recovered += strcmp(why, "recovered") == 0;
}

static inline void q_opened(void *arg, struct sw_qconn *c)
{
    (void)c;
    ((struct qrig *)arg)->opened++;
}

static inline void q_closed(void *arg, struct sw_qconn *c, bool idle, enum sw_qfail why)
{
    struct qrig *r = arg;

    (void)c;
    r->closed_idle += idle;
    r->closed_lost += why != SW_QFAIL_NONE;
}

static inline void q_dial_failed(void *arg, const struct sw_nodeid *id, enum sw_qfail why,
                                 const char *text)
{
    (void)id;
    (void)why;
    assert_non_null(text);
    ((struct qrig *)arg)->dial_failures++;
}

static const struct sw_qdial_ops q_dial_ops = {
    .resolve = q_resolve,
    .cancel = q_cancel,
    .opened = q_opened,
    .set_apart = q_set_apart,
    .closed = q_closed,
    .dial_failed = q_dial_failed,
};

static inline struct qrig *qrig_new(void)
{
    struct qrig *r = SW_NEW(struct qrig);

    r->loop = rig_loop();
    r->quic = fake_new(&r->fake, r->loop);
    r->fake.accepted = q_accepted;
    r->fake.arg = r;
    return r;
}

/* After a test set what it wants in r->sc and r->dc. */
static inline void qrig_start(struct qrig *r)
{
    r->sc.authorise = q_authorise;
    r->sc.begun = q_begun;
    r->sc.ended = q_ended;
    r->sc.arg = r;
    r->serve = sw_qserve_new(r->loop, &r->sc);
    r->dc.quic = r->quic;
    r->dc.ops = &q_dial_ops;
    r->dc.arg = r;
    r->dial = sw_qdial_new(r->loop, &r->dc);
}

static inline void qrig_free(struct qrig *r)
{
    sw_qdial_free(r->dial);
    sw_qserve_free(r->serve);
    fake_close_all(&r->fake);
    RUN_UNTIL(r->loop, sw_list_empty(&r->fake.all));
    assert_int_equal(r->fake.streams, 0);
    fake_free(r->quic);
    sw_resolver_stop();
    rig_loop_done(r->loop);
    sw_free(r);
}

static inline void c_answered(struct sw_qcall *q, const struct sw_h1_msg *m)
{
    struct call *c = SW_CONTAINER_OF(q, struct call, q);

    c->status = (unsigned)m->status;
    for (size_t i = 0; i < m->nfields; i++)
        assert_int_equal(sw_buf_printf(&c->head, "%.*s=%.*s;", SW_SLICE_ARG(m->fields[i].name),
                                       SW_SLICE_ARG(m->fields[i].value)),
                         SW_OK);
}

static inline size_t c_data(struct sw_qcall *q, const uint8_t *p, size_t n, bool fin)
{
    struct call *c = SW_CONTAINER_OF(q, struct call, q);
    size_t k = c->take && c->take < n ? c->take : n;

    assert_true(c->status > 0);
    assert_int_equal(sw_buf_append(&c->body, p, k), SW_OK);
    if (fin && k == n)
        c->fin = true;
    return k;
}

static inline void c_writable(struct sw_qcall *q)
{
    SW_CONTAINER_OF(q, struct call, q)->writables++;
}

static inline void c_stopped(struct sw_qcall *q)
{
    SW_CONTAINER_OF(q, struct call, q)->stopped = true;
}

static inline void c_datagram(struct sw_qcall *q, const uint8_t *p, size_t n)
{
    struct call *c = SW_CONTAINER_OF(q, struct call, q);

    assert_int_equal(sw_buf_append(&c->grams, p, n), SW_OK);
    assert_int_equal(sw_buf_putc(&c->grams, '|'), SW_OK);
}

static inline void c_ended(struct sw_qcall *q, enum sw_qfail why, const char *text)
{
    struct call *c = SW_CONTAINER_OF(q, struct call, q);

    assert_non_null(text);
    c->ended++;
    c->fail = why;
}

static const struct sw_qcall_ops q_call_ops = {
    .answered = c_answered,
    .data = c_data,
    .writable = c_writable,
    .stopped = c_stopped,
    .datagram = c_datagram,
    .ended = c_ended,
};

static inline struct call *call_raw(struct qrig *r, uint8_t node, struct sw_slice head,
                                    const char *method)
{
    struct call *c = SW_NEW(struct call);
    struct sw_qcall_spec spec = {
        .head = head,
        .method = sw_slice_str(method),
        .safe = strcmp(method, "POST") != 0,
        .udp = memmem(head.p, head.n, "connect-udp", 11) != NULL,
        .answer_timeout_ns = strcmp(method, "CONNECT") == 0 ? 15 * SW_NS_PER_S : 0,
    };

    memset(spec.node.b, node, sizeof(spec.node.b));
    c->r = r;
    sw_buf_init(&c->head, 1 << 16);
    sw_buf_init(&c->body, 64 << 20);
    sw_buf_init(&c->grams, 1 << 20);
    sw_qcall_start(r->dial, &c->q, &spec, &q_call_ops);
    return c;
}

static inline struct call *call_text(struct qrig *r, uint8_t node, const char *head)
{
    char method[16] = {0};

    (void)sscanf(head, "%15s", method);
    return call_raw(r, node, sw_slice_str(head), method);
}

static inline struct call *call_connect(struct qrig *r, uint8_t node, const struct sw_addr *to)
{
    SW_BUF_AUTO head = {.max = 1024};
    char ip[SW_IP_TEXT];

    assert_int_equal(sw_qhead_put_connect(&head, sw_slice_str(sw_ip_text(&to->ip, ip)), to->port),
                     SW_OK);
    assert_int_equal(sw_h1_put_end(&head), SW_OK);
    return call_raw(r, node, sw_buf_slice(&head), "CONNECT");
}

static inline void call_free(struct call *c)
{
    sw_qcall_cancel(&c->q);
    sw_buf_done(&c->head);
    sw_buf_done(&c->body);
    sw_buf_done(&c->grams);
    sw_free(c);
}

static inline bool call_body_is(const struct call *c, const char *s)
{
    return sw_slice_eq_str(sw_buf_slice(&c->body), s);
}

/* Reads what a socket has until it says s, or fails. */
#define READ_IS(l, fd, s)                                                                          \
    do {                                                                                           \
        char got_[4096] = {0};                                                                     \
        size_t n_ = 0;                                                                             \
        int left_ = 5000;                                                                          \
        while (n_ < strlen(s) && --left_) {                                                        \
            ssize_t k_ = read((fd), got_ + n_, sizeof(got_) - 1 - n_);                             \
            if (k_ > 0)                                                                            \
                n_ += (size_t)k_;                                                                  \
            else                                                                                   \
                sw_loop_turn((l), 1);                                                              \
        }                                                                                          \
        assert_string_equal(got_, (s));                                                            \
    } while (0)

/* True once the peer of a socket finished (not: reset). */
static inline bool at_eof(int fd)
{
    char c;

    return read(fd, &c, 1) == 0;
}
