/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/update_int.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "io/sock.h"
#include "telemetry/metrics.h"

enum { TIMEOUT_S = 10, RESYNC_S = 300, RETRY_S = 1, RETRY_MAX_S = 60 };

static void proceed(struct sw_dns_updater *u);

static void count(struct sw_dns_updater *u, const char *result)
{
    if (u->o.metrics)
        sw_metric_add(sw_metric_get1(u->o.metrics, SW_METRIC_DNS_UPDATES, result), 1);
}

void sw_dns_updater_set(struct sw_dns_updater *u, const struct sw_dns_rrset *sets, size_t n)
{
    SW_MAP_FOREACH (slot, &u->items)
        ((struct updater_item *)slot->value)->seen = false;
    for (size_t i = 0; i < n; i++)
        if (sets[i].type == SW_DNS_TXT && sets[i].n)
            updater_take_set(u, &sets[i]);
    SW_MAP_EACH (struct updater_item, it, &u->items) {
        if (!it->seen)
            it->want = 0;
        if (it != u->current) /* that one is filed when its answer is there */
            updater_file_item(u, it);
    }
    u->given = true;
    if (u->state == UPDATER_IDLE)
        proceed(u);
}

/* ---- the connection ---- */

static void hang_up(struct sw_dns_updater *u)
{
    sw_timer_stop(u->loop, &u->timer);
    sw_watch_stop(&u->watch);
    sw_sock_close(u->fd);
    u->fd = -1;
    sw_buf_clear(&u->in);
    sw_buf_clear(&u->out);
    sw_dns_inventory_done(&u->inventory);
    if (u->current)
        updater_file_item(u, SW_TAKE(u->current));
    u->state = UPDATER_IDLE;
}

static void on_pause_end(struct sw_timer *t)
{
    struct sw_dns_updater *u = SW_CONTAINER_OF(t, struct sw_dns_updater, timer);

    u->state = UPDATER_IDLE;
    proceed(u);
}

/* Logged once per failure, and the failures come further and further apart. */
static void fail(struct sw_dns_updater *u, const char *what, const char *why)
{
    char text[SW_ADDR_TEXT];
    uint64_t wait;

    u->failures++;
    count(u, "failed");
    wait = sw_backoff_next(&u->backoff, u->o.retry_ns, RETRY_MAX_S * SW_NS_PER_S);
    sw_log_warn("dns", "update server %s: %s: %s; again in %llu ms",
                sw_addr_text(&u->o.server, text), what, why,
                (unsigned long long)(wait / SW_NS_PER_MS));
    hang_up(u);
    u->state = UPDATER_PAUSE;
    u->need_sync = true;
    sw_timer_start(u->loop, &u->timer, wait, on_pause_end);
}

static void on_deadline(struct sw_timer *t)
{
    struct sw_dns_updater *u = SW_CONTAINER_OF(t, struct sw_dns_updater, timer);

    fail(u, u->state == UPDATER_CONNECT ? "connect" : "answer", "took too long");
}

static void arm(struct sw_dns_updater *u)
{
    sw_timer_start(u->loop, &u->timer, u->o.timeout_ns, on_deadline);
}

/* ---- sending ---- */

/* Signs what w holds and queues it; state is the purpose. */
static bool send_message(struct sw_dns_updater *u, struct sw_dns_writer *w,
                         enum updater_state state)
{
    uint8_t len[2];

    u->tsig = (struct sw_dns_tsig_ctx){.now_s = sw_wall_ns() / SW_NS_PER_S};
    if (w->full || !sw_dns_tsig_sign(w, &u->o.key, 0, &u->tsig))
        return false;
    len[0] = (uint8_t)(w->n >> 8);
    len[1] = (uint8_t)w->n;
    (void)!sw_buf_append(&u->out, len, 2);
    (void)!sw_buf_append(&u->out, w->p, w->n);
    u->state = state;
    arm(u);
    return true;
}

/*
 * Which way to write it first. A name known to be ours is replaced, any other claimed; when the
 * server answers that the prerequisite does not hold, the other way is tried once.
 */
static enum sw_dns_update_kind next_kind(const struct updater_item *it)
{
    bool replace = it->have != 0;

    if (!it->want)
        return SW_DNS_UPDATE_WITHDRAW;
    return replace != it->tried ? SW_DNS_UPDATE_REPLACE : SW_DNS_UPDATE_CLAIM;
}

static void send_update(struct sw_dns_updater *u, struct updater_item *it)
{
    struct sw_dns_writer w;
    char text[SW_DNS_NAME_TEXT];

    u->current = it;
    u->kind = next_kind(it);
    u->sent = it->want;
    sw_list_unlink(&it->link);
    sw_rand_bytes(&u->id, sizeof(u->id));
    sw_dns_writer_init(&w, u->scratch, sizeof(u->scratch));
    sw_dns_update_write(&w, u->id, u->kind, &u->o.zone, &it->set, u->marker);
    if (send_message(u, &w, UPDATER_UPDATE))
        return;
    sw_log_error("dns", "'%.200s' does not fit into an update: left out",
                 sw_dns_name_text(&it->set.name, text));
    u->current = NULL;
    it->have = it->want;
    proceed(u);
}

static void send_sync(struct sw_dns_updater *u)
{
    struct sw_dns_writer w;

    sw_rand_bytes(&u->id, sizeof(u->id));
    sw_dns_writer_init(&w, u->scratch, sizeof(u->scratch));
    sw_dns_axfr_question(&w, u->id, &u->o.zone);
    (void)send_message(u, &w, UPDATER_SYNC);
}

/* ---- answers ---- */

static void on_resync(struct sw_timer *t)
{
    struct sw_dns_updater *u = SW_CONTAINER_OF(t, struct sw_dns_updater, resync);

    u->need_sync = true;
    sw_timer_start(u->loop, &u->resync, u->o.resync_ns, on_resync);
    if (u->state == UPDATER_IDLE)
        proceed(u);
}

/* Without a look at the zone everything is written again: that changes nothing that is right. */
static void sync_blindly(struct sw_dns_updater *u, const char *why)
{
    char text[SW_ADDR_TEXT];

    if (!u->no_axfr)
        sw_log_warn("dns",
                    "update server %s does not transfer the zone (%s): stale records of an earlier "
                    "run are not removed",
                    sw_addr_text(&u->o.server, text), why);
    u->no_axfr = true;
    SW_MAP_EACH (struct updater_item, it, &u->items) {
        if (it->want)
            it->have = 0;
        updater_set_foreign(u, it, false);
        updater_file_item(u, it);
    }
}

static bool is_ours(struct sw_dns_updater *u, const struct sw_dns_name *name)
{
    struct sw_dns_name at;
    const struct sw_dns_inventory_name *m;

    if (!sw_dns_marker_name(name, &at))
        return false;
    sw_dns_name_lower(&at);
    m = sw_map_get(&u->inventory.names, sw_dns_name_bytes(&at));
    return m && m->n == 1 && sw_slice_eq(m->first, u->marker);
}

/* What the zone has is compared with what we want. */
static void take_inventory(struct sw_dns_updater *u)
{
    static const struct sw_slice label = SW_SLICE_LIT("\x05_iroh");

    SW_MAP_FOREACH (slot, &u->items)
        ((struct updater_item *)slot->value)->have = 0;
    SW_MAP_EACH (const struct sw_dns_inventory_name, n, &u->inventory.names) {
        if (sw_slice_has_prefix(sw_dns_name_bytes(&n->name), label) && is_ours(u, &n->name))
            updater_item_at(u, &n->name)->have = sw_dns_inventory_print(n);
    }
    SW_MAP_FOREACH (slot, &u->items) {
        updater_set_foreign(u, slot->value, false);
        updater_file_item(u, slot->value);
    }
    sw_dns_inventory_done(&u->inventory);
}

static void on_sync_message(struct sw_dns_updater *u, struct sw_slice msg, unsigned rcode)
{
    int rc;

    if (rcode != SW_DNS_NOERROR) {
        sync_blindly(u, sw_dns_rcode_text(rcode));
        u->need_sync = false;
        proceed(u);
        return;
    }
    rc = sw_dns_inventory_add(&u->inventory, msg, &u->o.zone);
    u->tsig.timers_only = true;
    if (rc == SW_OK) {
        arm(u);
        return;
    }
    if (rc != SW_EOF) {
        fail(u, "transfer", rc == SW_ELIMIT ? "too large" : "makes no sense");
        return;
    }
    u->no_axfr = false;
    u->need_sync = false;
    take_inventory(u);
    proceed(u);
}

/* The server rejected the prerequisite: the name is not as we thought. */
static void on_mismatch(struct sw_dns_updater *u, struct updater_item *it)
{
    char text[SW_DNS_NAME_TEXT];

    if (u->kind == SW_DNS_UPDATE_WITHDRAW) {
        it->have = 0; /* not ours any more: nothing to withdraw */
        updater_file_item(u, it);
        return;
    }
    if (!it->tried) {
        it->tried = true;
        sw_list_push_front(&u->queue, &it->link);
        return;
    }
    count(u, "foreign");
    sw_log_warn("dns", "'%.200s' belongs to another publisher: not changed",
                sw_dns_name_text(&it->set.name, text));
    updater_set_foreign(u, it, true);
    updater_file_item(u, it);
}

static void on_update_answer(struct sw_dns_updater *u, unsigned rcode)
{
    struct updater_item *it = SW_TAKE(u->current);
    char text[SW_DNS_NAME_TEXT];

    if (!it) {
        proceed(u);
        return;
    }
    switch (rcode) {
    case SW_DNS_NOERROR:
        u->done++;
        sw_backoff_reset(&u->backoff);
        count(u, "done");
        it->have = u->sent;
        updater_file_item(u, it);
        break;
    case SW_DNS_YXDOMAIN:
    case SW_DNS_YXRRSET:
    case SW_DNS_NXRRSET:
    case SW_DNS_NXDOMAIN:
        on_mismatch(u, it);
        break;
    default:
        (void)sw_dns_name_text(&it->set.name, text);
        updater_file_item(u, it);
        count(u, "refused");
        fail(u, text, sw_dns_rcode_text(rcode));
        return;
    }
    proceed(u);
}

static void on_message(struct sw_dns_updater *u, struct sw_slice msg)
{
    struct sw_dns_reader r = {.p = (const uint8_t *)msg.p, .n = msg.n};
    struct sw_dns_tsig_found found = {0};
    struct sw_dns_header h;
    int rc;

    if (sw_dns_read_header(&r, &h) != SW_OK || h.id != u->id || !(h.flags & SW_DNS_QR)) {
        fail(u, "answer", "belongs to no question of ours");
        return;
    }
    u->tsig.now_s = sw_wall_ns() / SW_NS_PER_S;
    rc = sw_dns_tsig_verify(msg, &u->o.key, 1, &u->tsig, &found);
    /* Some servers do not sign a refusal. It only costs the comparison: updates are checked. */
    if (u->state == UPDATER_SYNC && (rc == SW_OK || sw_dns_rcode_of(&h) != SW_DNS_NOERROR))
        on_sync_message(u, msg, sw_dns_rcode_of(&h));
    else if (rc == SW_EDENIED)
        fail(u, "signature",
             found.error == SW_DNS_BADVERS ? "BADSIG" : sw_dns_rcode_text(found.error));
    else if (rc != SW_OK)
        fail(u, "answer", rc == SW_ENOENT ? "is not signed" : "makes no sense");
    else
        on_update_answer(u, sw_dns_rcode_of(&h));
}

/* ---- bytes ---- */

static bool write_out(struct sw_dns_updater *u)
{
    int rc = sw_sock_write_buf(u->fd, &u->out);

    if (rc == SW_OK || rc == SW_EAGAIN)
        return true;
    fail(u, "connection", "broke");
    return false;
}

/* One whole message at a time, so that what it leads to happens with a clean buffer. */
static void read_in(struct sw_dns_updater *u)
{
    while (u->state == UPDATER_SYNC || u->state == UPDATER_UPDATE) {
        struct sw_slice have = sw_buf_slice(&u->in);
        size_t want = have.n < 2 ? 2 : 2u + ((size_t)(uint8_t)have.p[0] << 8 | (uint8_t)have.p[1]);
        char *to;
        ssize_t n;

        if (have.n >= 2 && have.n == want) {
            SW_ARENA_AUTO tmp = {0};
            struct sw_slice msg = sw_arena_slice(&tmp, sw_slice_from(have, 2));

            sw_buf_clear(&u->in);
            on_message(u, msg);
            if (u->fd >= 0 && !write_out(u))
                return;
            continue;
        }
        to = sw_buf_reserve(&u->in, want - have.n);
        n = to ? sw_sock_read(u->fd, to, want - have.n) : SW_ELIMIT;
        if (n == SW_EAGAIN)
            return;
        if (n < 0) {
            fail(u, "connection", "ended early");
            return;
        }
        sw_buf_commit(&u->in, (size_t)n);
    }
}

static void on_event(struct sw_watch *w, unsigned events)
{
    struct sw_dns_updater *u = SW_CONTAINER_OF(w, struct sw_dns_updater, watch);
    struct sw_err err = {0};

    if (u->state == UPDATER_CONNECT) {
        int rc = sw_sock_connect_result(u->fd, &err);

        if (rc == SW_EAGAIN)
            return;
        if (rc != SW_OK) {
            fail(u, "connect", err.msg);
            return;
        }
        proceed(u);
    }
    if (u->fd >= 0 && write_out(u))
        read_in(u);
}

static void dial(struct sw_dns_updater *u)
{
    const struct sw_sock_opts so = SW_SOCK_OPTS_INIT;
    struct sw_err err = {0};

    u->state = UPDATER_CONNECT;
    arm(u);
    if (sw_sock_connect(&u->o.server, NULL, &so, &u->fd, &err) != SW_OK ||
        sw_watch_start(u->loop, &u->watch, u->fd, on_event, &err) != SW_OK)
        fail(u, "connect", err.msg);
}

/* What comes next. Called with nothing under way: idle, or connected and the last answer read. */
static void proceed(struct sw_dns_updater *u)
{
    if (!u->given)
        return;
    if (!u->need_sync && sw_list_empty(&u->queue)) {
        if (u->fd >= 0)
            hang_up(u);
        sw_backoff_reset(&u->backoff);
        return;
    }
    if (u->fd < 0)
        dial(u);
    else if (u->need_sync)
        send_sync(u);
    else
        send_update(u, SW_CONTAINER_OF(u->queue.next, struct updater_item, link));
}

/* ---- life ---- */

struct sw_dns_updater *sw_dns_updater_new(struct sw_loop *l, const struct sw_dns_updater_opts *o)
{
    struct sw_dns_updater *u = SW_NEW(struct sw_dns_updater);

    u->loop = l;
    u->o = *o;
    u->o.timeout_ns = o->timeout_ns ? o->timeout_ns : TIMEOUT_S * SW_NS_PER_S;
    u->o.resync_ns = o->resync_ns ? o->resync_ns : RESYNC_S * SW_NS_PER_S;
    u->o.retry_ns = o->retry_ns ? o->retry_ns : RETRY_S * SW_NS_PER_S;
    (void)snprintf(u->owner, sizeof(u->owner), "%s", o->owner);
    u->marker = sw_dns_marker_rdata(&u->arena, u->owner);
    u->fd = -1;
    u->need_sync = true;
    sw_list_init(&u->queue);
    sw_buf_init(&u->in, 2 + SW_DNS_MSG_MAX);
    sw_buf_init(&u->out, (size_t)2 * (2 + SW_DNS_MSG_MAX));
    sw_timer_start(l, &u->resync, u->o.resync_ns, on_resync);
    return u;
}

struct sw_dns_updater_stats sw_dns_updater_stats(const struct sw_dns_updater *u)
{
    struct sw_dns_updater_stats s = {.foreign = u->foreign,
                                     .done = u->done,
                                     .failures = u->failures,
                                     .idle = u->state == UPDATER_IDLE && u->given};

    SW_MAP_EACH (const struct updater_item, it, &u->items) {
        s.wanted += it->want != 0;
        s.pending += it->want != it->have;
    }
    return s;
}

void sw_dns_updater_free(struct sw_dns_updater *u)
{
    if (!u)
        return;
    hang_up(u);
    sw_timer_stop(u->loop, &u->resync);
    SW_MAP_FOREACH (slot, &u->items)
        updater_free_item(u, slot->value);
    sw_map_done(&u->items);
    sw_buf_done(&u->in);
    sw_buf_done(&u->out);
    sw_arena_clear(&u->arena);
    sw_free(u);
}
