/* SPDX-License-Identifier: Apache-2.0 */
/* The questions of the stub resolver on the wire. */
#include "base/mem.h"
#include "base/time.h"
#include "dns/exchange.h"
#include "dns/stub_int.h"

enum { QUESTION_MAX = 320 };

/* When a question is repeated, counted from the first: the times other clients of these records
 * use, so that servers see no more of us than of them. */
static const uint32_t stagger_ms[] = {0, 200, 300, 600, 1000, 2000, 3000};

struct attempt {
    struct sw_list link;
    struct sw_dns_entry *entry;
    struct sw_addr server;
    struct sw_dns_exchange *exchange; /* NULL: over */
};

static void launch(struct sw_dns_entry *e);

static void close_attempt(struct attempt *t)
{
    sw_dns_exchange_cancel(t->exchange);
    sw_list_unlink(&t->link);
    sw_free(t);
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
            launch(e); /* one that was not queried yet may know */
        return;
    }
    if (sw_list_empty(&e->attempts))
        sw_dns_entry_done(e, NULL, NULL);
}

static void on_answer(void *arg, int rc, struct sw_slice msg)
{
    struct attempt *t = arg;
    struct sw_dns_entry *e = t->entry;
    struct sw_arena arena = {0};
    struct sw_dns_txt_answer answer;

    t->exchange = NULL;
    if (rc != SW_OK) {
        give_up(t, rc, rc == SW_ETIME ? "no answer" : "not reachable");
        return;
    }
    rc = sw_dns_txt_answer(&arena, msg, 0, &e->name, &answer);
    if (rc == SW_OK && !answer.truncated &&
        (answer.rcode == SW_DNS_NOERROR || answer.rcode == SW_DNS_NXDOMAIN)) {
        sw_dns_ask_stop(e);
        sw_dns_entry_done(e, &arena, &answer);
        return;
    }
    sw_arena_clear(&arena);
    give_up(t, SW_EPROTO,
            rc == SW_OK && !answer.truncated ? sw_dns_rcode_text(answer.rcode)
                                             : "the answer makes no sense");
}

static void on_stagger(struct sw_timer *timer)
{
    launch(SW_CONTAINER_OF(timer, struct sw_dns_entry, stagger));
}

/* One more question. */
static void launch(struct sw_dns_entry *e)
{
    struct sw_dns_stub *s = e->stub;
    struct attempt *t = SW_NEW(struct attempt);
    uint8_t q[QUESTION_MAX];
    struct sw_dns_exchange_opts o = {
        .server = s->o.servers[e->sent % s->o.n_servers],
        .msg = sw_slice(q, sw_dns_txt_question(0, &e->name, q, sizeof(q))),
        .timeout_ns = s->o.attempt_ns,
        .sock = SW_SOCK_OPTS_INIT,
    };

    t->entry = e;
    t->server = o.server;
    sw_list_push_back(&e->attempts, &t->link);
    if (++e->sent < SW_ARRAY_LEN(stagger_ms))
        sw_timer_start(s->loop, &e->stagger,
                       (stagger_ms[e->sent] - stagger_ms[e->sent - 1]) * SW_NS_PER_MS, on_stagger);
    t->exchange = sw_dns_exchange_start(s->loop, &o, on_answer, t);
}

void sw_dns_ask_start(struct sw_dns_entry *e)
{
    e->sent = 0;
    e->last = (struct sw_err){0};
    launch(e);
}
