/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares: connections per address and per user, bytes a user has not read, and which connection is
 * evicted when there is no room. Addresses count as a whole (IPv4) or by their /64 (IPv6).
 */
#include <string.h>

#include "apiserver/front/front_int.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"

enum {
    LOG_EVERY_S = 60,
    BODY_SHARES = 8, /* so many users or addresses fill the memory of bodies */
};

/* --- counting --------------------------------------------------------------------------- */

static struct front_share *share_get(struct sw_map *m, struct sw_slice key)
{
    struct front_share *s = sw_map_get(m, key);

    if (!s) {
        s = sw_calloc(1, sizeof(*s) + key.n + 1);
        if (key.n)
            memcpy(s->key, key.p, key.n);
        s->n = key.n;
        s->in = m;
        sw_round_init(&s->waiting);
        (void)sw_map_put(m, sw_slice(s->key, s->n), s);
    }
    s->refs++;
    return s;
}

static struct front_share *share_unref(struct front_share *s)
{
    if (s && --s->refs == 0) {
        (void)sw_map_del(s->in, sw_slice(s->key, s->n));
        sw_list_unlink(&s->waiting.turn);
        sw_free(s);
    }
    return NULL;
}

void front_share_open(struct front_conn *c)
{
    const struct sw_ip *ip = &c->peer.ip;
    struct sw_slice key = sw_slice((const char *)ip->b, ip->family == 4 ? 4 : 8);

    c->place = share_get(&c->front->places, key);
    c->place->conns++;
}

static void leave_user(struct front_conn *c)
{
    if (c->user)
        c->user->conns--;
    c->user = share_unref(c->user);
}

void front_share_close(struct front_conn *c)
{
    leave_user(c);
    if (c->place)
        c->place->conns--;
    c->place = share_unref(c->place);
}

void sw_xchg_identify(struct sw_xchg *p, struct sw_slice user, bool first)
{
    struct front_xchg *x = front_xchg_of(p);
    struct front_conn *c = x->conn;
    bool waits = c && sw_list_linked(&c->queued);

    if (!x->user)
        x->user = share_get(&x->front->users, user);
    if (!c || (c->user && sw_slice_eq(sw_slice(c->user->key, c->user->n), user)))
        return;
    sw_list_unlink(&c->queued); /* of the share that it leaves, which may end */
    leave_user(c);
    c->user = share_get(&c->front->users, user);
    c->user->conns++;
    c->user->first = first;
    if (waits)
        front_share_wait(c);
}

void front_share_leave(struct front_xchg *x)
{
    x->user = share_unref(x->user);
    front_share_body_read(x);
}

/* --- turns ------------------------------------------------------------------------------ */

static struct front_share *owner(const struct front_conn *c)
{
    return c->user ? c->user : c->place;
}

bool front_share_body_fits(struct front_xchg *x, size_t n)
{
    const struct sw_front *f = x->front;

    if (!x->payer) {
        x->payer = owner(x->conn);
        x->payer->refs++;
    }
    return f->body_total + n <= f->opts.max_bodies &&
           x->payer->bodies + n <= f->opts.max_bodies / BODY_SHARES;
}

void front_share_body_read(struct front_xchg *x)
{
    if (x->payer)
        x->payer->bodies -= x->body_accounted;
    x->payer = share_unref(x->payer);
}

uint64_t front_share_spent(const struct front_conn *c)
{
    const struct front_share *s = owner(c);

    return s->turn_ns == sw_loop_now(c->front->loop) ? s->spent_ns : 0;
}

void front_share_spend(struct front_conn *c, uint64_t ns)
{
    struct front_share *s = owner(c);

    s->spent_ns = front_share_spent(c) + ns;
    s->turn_ns = sw_loop_now(c->front->loop);
}

void front_share_wait(struct front_conn *c)
{
    sw_round_add(&c->front->busy, &owner(c)->waiting, &c->queued);
}

struct front_conn *front_share_next(struct sw_front *f)
{
    struct sw_list *it = sw_round_next(&f->busy);

    return it ? SW_CONTAINER_OF(it, struct front_conn, queued) : NULL;
}

/* --- eviction ----------------------------------------------------------------------------- */

/* What would be lost with a connection, least first. */
enum worth {
    WORTH_NOTHING, /* not authenticated, and no handler is at work */
    WORTH_IDLE,    /* between requests */
    WORTH_CROWD,   /* streaming, of a user with more than a quarter of all connections */
    WORTH_BUSY,    /* streaming, of another user */
    WORTH_KEEP,
};

static bool handling(const struct front_conn *c)
{
    SW_LIST_FOREACH (it, &c->xchgs) {
        if (SW_CONTAINER_OF(it, struct front_xchg, link)->state == XCHG_HANDLE)
            return true;
    }
    return false;
}

static enum worth worth_of(const struct front_conn *c)
{
    if (!c->user)
        return handling(c) ? WORTH_KEEP : WORTH_NOTHING;
    if (front_conn_idle(c))
        return WORTH_IDLE;
    if (handling(c))
        return WORTH_KEEP;
    if (c->user->conns > c->front->opts.max_conns / 4)
        return WORTH_CROWD;
    return c->user->first ? WORTH_KEEP : WORTH_BUSY;
}

static size_t crowd(const struct front_conn *c, enum worth w)
{
    return w == WORTH_NOTHING ? c->place->conns : c->user->conns;
}

/*
 * The connection that is worth least, of those with the most company, and of these the one that
 * did nothing for longest. place: only of this address. NULL: all are worth keeping.
 */
static struct front_conn *least(struct sw_front *f, const struct front_share *place)
{
    struct front_conn *best = NULL;
    enum worth best_worth = WORTH_KEEP;

    SW_LIST_EACH (struct front_conn, c, &f->conns, link) {
        enum worth w = worth_of(c);
        size_t mine = w == WORTH_KEEP ? 0 : crowd(c, w);
        size_t theirs = best ? crowd(best, best_worth) : 0;

        if (w == WORTH_KEEP || (place && c->place != place) || c->in_step)
            continue;
        if (!best || w < best_worth ||
            (w == best_worth &&
             (mine > theirs || (mine == theirs && c->active_ns < best->active_ns)))) {
            best = c;
            best_worth = w;
        }
    }
    return best;
}

bool front_share_log(struct sw_front *f)
{
    if (sw_loop_now(f->loop) < f->quiet_until_ns)
        return false;
    f->quiet_until_ns = sw_loop_now(f->loop) + LOG_EVERY_S * SW_NS_PER_S;
    return true;
}

static void log_full(struct sw_front *f, const char *what, const struct sw_addr *peer)
{
    char text[SW_ADDR_TEXT];

    if (!front_share_log(f))
        return;
    sw_log_warn("api", "%s (%zu open): connection from %s", what, f->nconns,
                sw_addr_text(peer, text));
}

static bool evict(struct sw_front *f, const struct front_share *place, const char *what)
{
    struct front_conn *c = least(f, place);

    if (!c)
        return false;
    log_full(f, what, &c->peer);
    f->counts.evicted++;
    front_conn_close(c);
    return true;
}

bool front_share_room(struct sw_front *f, const struct sw_addr *peer)
{
    struct sw_slice key = sw_slice((const char *)peer->ip.b, peer->ip.family == 4 ? 4 : 8);
    const struct front_share *place = sw_map_get(&f->places, key);

    if (place && place->conns >= f->opts.max_conns_addr && !sw_ip_is_loopback(&peer->ip) &&
        !evict(f, place, "too many connections of one address, closing its idle ones")) {
        log_full(f, "too many connections of one address, closing the new one", peer);
        f->counts.refused++;
        return false;
    }
    if (f->nconns >= f->opts.max_conns &&
        !evict(f, NULL, "too many connections, closing idle ones, unauthenticated ones first")) {
        log_full(f, "too many connections, closing the new one", peer);
        f->counts.refused++;
        return false;
    }
    return true;
}

bool front_share_make_room(struct sw_accept_group *g)
{
    return evict(SW_CONTAINER_OF(g, struct sw_front, accept), NULL,
                 "few file descriptors left, closing idle connections");
}

/* --- unread answers --------------------------------------------------------------------- */

bool front_share_fits(const struct front_xchg *x, size_t n)
{
    const struct sw_front *f = x->front;

    /* Small answers are always sent: refusals, and those to other requests meanwhile. */
    if (x->user && x->user->out && x->user->out + n > f->opts.max_out_user &&
        (n > FRONT_TINY || x->user->out > 2 * f->opts.max_out_user))
        return false;
    return f->out_total + n <= f->opts.max_out ||
           (n <= FRONT_SMALL && f->out_total <= 2 * f->opts.max_out);
}

static void on_unread(struct sw_timer *t);

static void arm_unread(struct sw_front *f)
{
    if (!sw_list_empty(&f->unread) && !sw_timer_running(&f->unread_timer))
        sw_timer_start(f->loop, &f->unread_timer, f->opts.write_timeout_ns / 8 + 1, on_unread);
}

/* Nothing of it was taken for too long: the stream ends, or with HTTP/1 the connection. */
static void cut(struct front_xchg *x)
{
    struct front_conn *c = x->conn;
    char text[SW_ADDR_TEXT];

    x->front->counts.unread++;
    sw_log_info("api", "closing %s of %s: %zu bytes not read for %llu s",
                c->h2 ? "a stream" : "the connection", sw_addr_text(&c->peer, text),
                sw_buf_len(&x->out),
                (unsigned long long)(x->front->opts.write_timeout_ns / SW_NS_PER_S));
    if (!c->h2) {
        front_conn_close(c);
        return;
    }
    sw_h2_reset(c->h2, x->id, SW_H2_CANCEL);
    front_wake(c);
}

static void on_unread(struct sw_timer *t)
{
    struct sw_front *f = SW_CONTAINER_OF(t, struct sw_front, unread_timer);
    uint64_t now = sw_loop_now(f->loop);
    struct sw_list *it;

    /* The one whose bytes moved last stands last. A cut may take others of its connection along. */
    for (it = f->unread.next; it != &f->unread; it = f->unread.next) {
        struct front_xchg *x = SW_CONTAINER_OF(it, struct front_xchg, unread);

        if (now - x->moved_ns < f->opts.write_timeout_ns)
            break;
        sw_list_unlink(it);
        if (x->conn)
            cut(x);
    }
    arm_unread(f);
}

void front_share_account(struct front_xchg *x, size_t out)
{
    struct sw_front *f = x->front;

    if (x->user)
        x->user->out = x->user->out - x->out_accounted + out;
    f->out_total = f->out_total - x->out_accounted + out;
    if (out == 0) {
        sw_list_unlink(&x->unread);
    } else if (out < x->out_accounted || x->out_accounted == 0) {
        x->moved_ns = sw_loop_now(f->loop);
        sw_list_unlink(&x->unread);
        sw_list_push_back(&f->unread, &x->unread);
        arm_unread(f);
    }
    x->out_accounted = out;
}

void sw_front_stats(const struct sw_front *f, struct sw_front_stats *ret)
{
    *ret = f->counts;
    ret->conns = f->nconns;
    ret->unread_bytes = f->out_total;
}
