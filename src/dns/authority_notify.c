/* SPDX-License-Identifier: Apache-2.0 */
/* NOTIFY (RFC 1996): sent to secondaries at once and repeated until they answer. */
#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "dns/authority_int.h"
#include "io/dgram.h"
#include "io/sock.h"

enum { TRIES = 6, FIRST_S = 1 };

static void send_notify(struct dns_notify *n);

void dns_notify_stop(struct dns_notify *n)
{
    if (!n->authority)
        return;
    sw_timer_stop(n->authority->loop, &n->timer);
    sw_watch_stop(&n->watch);
    sw_sock_close(n->fd);
    n->fd = -1;
}

static void finish(struct dns_notify *n, const char *result)
{
    dns_count(n->authority, SW_METRIC_DNS_NOTIFIES, result);
    dns_notify_stop(n);
    n->tries = 0;
    if (n->again) {
        n->again = false;
        send_notify(n);
    }
}

/* Its answer counts; that it may be forged only spares us repetitions. */
static bool is_answer(const struct dns_notify *n, struct sw_slice msg)
{
    struct sw_dns_reader r = {.p = (const uint8_t *)msg.p, .n = msg.n};
    struct sw_dns_header h;

    return sw_dns_read_header(&r, &h) == SW_OK && h.id == n->id && (h.flags & SW_DNS_QR) &&
           sw_dns_opcode_of(&h) == SW_DNS_NOTIFY;
}

static void on_answer(struct sw_watch *w, unsigned events)
{
    struct dns_notify *n = SW_CONTAINER_OF(w, struct dns_notify, watch);
    uint8_t buf[SW_DNS_UDP_SIZE];
    char text[SW_ADDR_TEXT];

    for (;;) {
        ssize_t k = sw_dgram_recv(n->fd, buf, sizeof(buf), NULL);

        if (k < 0)
            return; /* refused by the host, too: the timer tries again */
        if (!is_answer(n, sw_slice(buf, (size_t)k)))
            continue;
        if (buf[3] & 15)
            sw_log_warn("dns", "secondary %s answers NOTIFY with %s", sw_addr_text(&n->to, text),
                        sw_dns_rcode_text(buf[3] & 15));
        finish(n, buf[3] & 15 ? "refused" : "acknowledged");
        return;
    }
}

static void on_timer(struct sw_timer *t)
{
    struct dns_notify *n = SW_CONTAINER_OF(t, struct dns_notify, timer);
    char text[SW_ADDR_TEXT];

    if (n->tries < TRIES) {
        send_notify(n);
        return;
    }
    sw_log_warn("dns", "secondary %s does not answer NOTIFY; it polls by SOA refresh",
                sw_addr_text(&n->to, text));
    finish(n, "lost");
}

static size_t write_notify(struct dns_notify *n, uint8_t *out, size_t cap)
{
    struct sw_dns_authority *a = n->authority;
    const struct sw_dns_rrset *soa = sw_dns_zone_soa(a->zone);
    struct sw_dns_question q = {.name = soa->name, .type = SW_DNS_SOA, .class = SW_DNS_IN};
    struct sw_dns_tsig_ctx ctx = {.now_s = sw_wall_ns() / SW_NS_PER_S};
    struct sw_dns_writer w;

    sw_dns_writer_init(&w, out, cap);
    sw_dns_put_header(&w,
                      &(struct sw_dns_header){
                          .id = n->id, .flags = SW_DNS_NOTIFY << 11 | SW_DNS_AA, .qd = 1, .an = 1});
    sw_dns_put_question(&w, &q);
    (void)sw_dns_put_rr(&w, &soa->name, SW_DNS_SOA, SW_DNS_IN, soa->ttl, soa->rdata[0]);
    if (a->o.n_keys)
        (void)sw_dns_tsig_sign(&w, &a->o.keys[0], 0, &ctx);
    return w.full ? 0 : w.n;
}

static void send_notify(struct dns_notify *n)
{
    struct sw_dns_authority *a = n->authority;
    uint8_t msg[SW_DNS_UDP_SIZE];
    size_t len;

    if (n->fd < 0) {
        sw_rand_bytes(&n->id, sizeof(n->id));
        if (sw_dgram_connect(&n->to, NULL, &n->fd, NULL) == SW_OK &&
            sw_watch_start(a->loop, &n->watch, n->fd, on_answer, NULL) != SW_OK) {
            sw_sock_close(n->fd);
            n->fd = -1;
        }
    }
    len = write_notify(n, msg, sizeof(msg));
    if (n->fd >= 0 && len)
        (void)sw_dgram_send(n->fd, msg, len, NULL);
    sw_timer_start(a->loop, &n->timer, (FIRST_S * SW_NS_PER_S) << n->tries, on_timer);
    n->tries++;
}

void dns_notify_all(struct sw_dns_authority *a)
{
    for (size_t i = 0; i < a->o.n_secondaries; i++) {
        struct dns_notify *n = &a->notifies[i];

        /*
         * A secondary with a NOTIFY under way gets another afterwards, once, however many changes
         * came.
         */
        if (n->tries)
            n->again = true;
        else
            send_notify(n);
    }
}
