/* SPDX-License-Identifier: Apache-2.0 */
/* The questions of the stub resolver on the wire. */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "dns/stub_int.h"
#include "io/dgram.h"
#include "io/sock.h"

enum {
    QUESTION_MAX = 320,
    STRAY_MAX = 64, /* datagrams that are no answer to ours, before a question gives up */
};

/* When a question is repeated, counted from the first: the times other clients of these records
 * use, so that servers see no more of us than of them. */
static const uint32_t stagger_ms[] = {0, 200, 300, 600, 1000, 2000, 3000};

struct attempt {
    struct sw_list link;
    struct sw_dns_entry *entry;
    struct sw_addr server;
    uint16_t id;
    bool tcp;
    bool connected;
    int fd;
    struct sw_watch watch;
    struct sw_timer deadline;
    unsigned strays;
    struct sw_buf in;  /* TCP */
    struct sw_buf out; /* TCP: what is left to send */
    struct sw_defer free;
};

static void on_udp(struct sw_watch *w, unsigned events);
static void launch(struct sw_dns_entry *e);

/* ---- ending ---- */

static void free_attempt(struct sw_defer *d)
{
    struct attempt *t = SW_CONTAINER_OF(d, struct attempt, free);

    sw_free(t);
}

static void close_attempt(struct attempt *t)
{
    struct sw_loop *l = t->entry->stub->loop;

    sw_list_unlink(&t->link);
    sw_timer_stop(l, &t->deadline);
    sw_watch_stop(&t->watch);
    sw_sock_close(t->fd);
    sw_buf_done(&t->in);
    sw_buf_done(&t->out);
    sw_loop_defer(l, &t->free, free_attempt);
}

void sw_dns_ask_stop(struct sw_dns_entry *e)
{
    sw_timer_stop(e->stub->loop, &e->stagger);
    SW_LIST_FOREACH (it, &e->attempts)
        close_attempt(SW_CONTAINER_OF(it, struct attempt, link));
}

/* This question failed; others may be under way or to come. */
static void give_up(struct attempt *t, int rc, const char *why)
{
    struct sw_dns_entry *e = t->entry;
    char text[SW_ADDR_TEXT];

    (void)sw_err_set(&e->last, rc, "%s: %s", sw_addr_text(&t->server, text), why);
    close_attempt(t);
    if (e->sent < SW_ARRAY_LEN(stagger_ms)) {
        if (e->sent < e->stub->o.n_servers)
            launch(e); /* one that was not asked yet may know */
        return;
    }
    if (sw_list_empty(&e->attempts))
        sw_dns_entry_done(e, NULL, NULL);
}

static void on_deadline(struct sw_timer *timer)
{
    give_up(SW_CONTAINER_OF(timer, struct attempt, deadline), SW_ETIME, "no answer");
}

/* ---- answers ---- */

static void to_tcp(struct attempt *t);

/* True when the question is over and t gone. */
static bool on_message(struct attempt *t, struct sw_slice msg)
{
    struct sw_dns_entry *e = t->entry;
    struct sw_arena arena = {0};
    struct sw_dns_txt_answer answer;
    int rc = sw_dns_txt_answer(&arena, msg, t->id, &e->name, &answer);

    if (rc == SW_OK && !answer.truncated &&
        (answer.rcode == SW_DNS_NOERROR || answer.rcode == SW_DNS_NXDOMAIN)) {
        sw_dns_ask_stop(e);
        sw_dns_entry_done(e, &arena, &answer);
        return true;
    }
    sw_arena_clear(&arena);
    if (rc == SW_OK && answer.truncated && !t->tcp) {
        to_tcp(t);
        return true;
    }
    if (rc == SW_EAGAIN && !t->tcp && ++t->strays < STRAY_MAX)
        return false;
    give_up(t, SW_EPROTO,
            rc == SW_OK && !answer.truncated ? sw_dns_rcode_text(answer.rcode)
                                             : "the answer makes no sense");
    return true;
}

static void on_udp(struct sw_watch *w, unsigned events)
{
    struct attempt *t = SW_CONTAINER_OF(w, struct attempt, watch);
    uint8_t buf[4096];

    (void)events;
    for (;;) {
        ssize_t n = sw_dgram_recv(t->fd, buf, sizeof(buf), NULL);

        if (n == SW_EAGAIN)
            return;
        if (n < 0) {
            give_up(t, SW_ECLOSED, "not reachable");
            return;
        }
        if (on_message(t, sw_slice(buf, (size_t)n)))
            return;
    }
}

/* ---- TCP ---- */

/* False: t is gone. */
static bool tcp_write(struct attempt *t)
{
    while (sw_buf_len(&t->out)) {
        ssize_t n = sw_sock_write(t->fd, sw_buf_data(&t->out), sw_buf_len(&t->out));

        if (n == SW_EAGAIN)
            return true;
        if (n < 0) {
            give_up(t, SW_ECLOSED, "the connection broke");
            return false;
        }
        sw_buf_consume(&t->out, (size_t)n);
    }
    return true;
}

static void tcp_read(struct attempt *t)
{
    for (;;) {
        struct sw_slice have = sw_buf_slice(&t->in);
        size_t want = have.n < 2 ? 2 : 2u + ((size_t)(uint8_t)have.p[0] << 8 | (uint8_t)have.p[1]);
        char *to;
        ssize_t n;

        if (have.n >= 2 && have.n == want) {
            (void)on_message(t, sw_slice_from(have, 2));
            return;
        }
        to = sw_buf_reserve(&t->in, want - have.n);
        n = to ? sw_sock_read(t->fd, to, want - have.n) : SW_ELIMIT;
        if (n == SW_EAGAIN)
            return;
        if (n < 0) {
            give_up(t, SW_ECLOSED, "the connection ended early");
            return;
        }
        sw_buf_commit(&t->in, (size_t)n);
    }
}

static void on_tcp(struct sw_watch *w, unsigned events)
{
    struct attempt *t = SW_CONTAINER_OF(w, struct attempt, watch);

    (void)events;
    if (!t->connected) {
        int rc = sw_sock_connect_result(t->fd, NULL);

        if (rc == SW_EAGAIN)
            return;
        if (rc != SW_OK) {
            give_up(t, SW_ECLOSED, "no TCP connection");
            return;
        }
        t->connected = true;
    }
    if (tcp_write(t))
        tcp_read(t);
}

/* The same question over TCP, within the same time. */
static void to_tcp(struct attempt *t)
{
    const struct sw_sock_opts so = SW_SOCK_OPTS_INIT;
    uint8_t q[2 + QUESTION_MAX];
    size_t n = sw_dns_txt_question(t->id, &t->entry->name, q + 2, QUESTION_MAX);
    int fd;

    sw_watch_stop(&t->watch);
    sw_sock_close(t->fd);
    t->fd = -1;
    t->tcp = true;
    q[0] = (uint8_t)(n >> 8);
    q[1] = (uint8_t)n;
    if (sw_sock_connect(&t->server, NULL, &so, &fd, NULL) != SW_OK ||
        sw_buf_append(&t->out, q, n + 2) != SW_OK) {
        give_up(t, SW_ECLOSED, "no TCP connection");
        return;
    }
    t->fd = fd;
    if (sw_watch_start(t->entry->stub->loop, &t->watch, fd, on_tcp, NULL) != SW_OK)
        give_up(t, SW_ESYS, "out of watches");
}

/* ---- asking ---- */

static void on_stagger(struct sw_timer *timer)
{
    launch(SW_CONTAINER_OF(timer, struct sw_dns_entry, stagger));
}

static struct attempt *new_attempt(struct sw_dns_entry *e)
{
    struct attempt *t = SW_NEW(struct attempt);

    t->entry = e;
    t->fd = -1;
    t->server = e->stub->o.servers[e->sent % e->stub->o.n_servers];
    sw_rand_bytes(&t->id, sizeof(t->id));
    sw_buf_init(&t->in, 2 + SW_DNS_MSG_MAX);
    sw_buf_init(&t->out, 2 + QUESTION_MAX);
    sw_list_push_back(&e->attempts, &t->link);
    return t;
}

/* One more question. */
static void launch(struct sw_dns_entry *e)
{
    struct sw_dns_stub *s = e->stub;
    struct attempt *t = new_attempt(e);
    uint8_t q[QUESTION_MAX];
    size_t n = sw_dns_txt_question(t->id, &e->name, q, sizeof(q));

    if (++e->sent < SW_ARRAY_LEN(stagger_ms))
        sw_timer_start(s->loop, &e->stagger,
                       (stagger_ms[e->sent] - stagger_ms[e->sent - 1]) * SW_NS_PER_MS, on_stagger);
    sw_timer_start(s->loop, &t->deadline, s->o.attempt_ns, on_deadline);
    if (sw_dgram_connect(&t->server, &t->fd, NULL) != SW_OK)
        give_up(t, SW_ECLOSED, "no route");
    else if (sw_watch_start(s->loop, &t->watch, t->fd, on_udp, NULL) != SW_OK)
        give_up(t, SW_ESYS, "out of watches");
    else if (sw_dgram_send(t->fd, q, n, NULL) == SW_ESYS)
        give_up(t, SW_ESYS, "cannot send");
}

void sw_dns_ask_start(struct sw_dns_entry *e)
{
    e->sent = 0;
    e->last = (struct sw_err){0};
    launch(e);
}
