/* SPDX-License-Identifier: Apache-2.0 */
#include "control/gateway/plane_watch.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "control/gateway/controller.h"
#include "control/gateway/plane_peers.h"
#include "control/gateway/planes.h"
#include "xds/server.h"

/* Data planes come back after at most 30 s of back-off. */
#define START_NS        (35 * SW_NS_PER_S)
#define LINGER_NS       (10 * SW_NS_PER_S)
#define REPEAT_LEAST_NS (5 * SW_NS_PER_S)
#define REPEAT_MOST_NS  (60 * SW_NS_PER_S)
enum { TEXT_MAX = 8 << 20, NOTE_MAX = 200 << 10 }; /* annotations may have 256 KiB */

/* A listener that some data plane served. */
struct served {
    struct sw_slice name; /* owned */
    uint64_t lost_ns;     /* when the last data plane went; 0: it is served */
};

struct sw_plane_watch {
    struct sw_plane_watch_opts o;
    struct sw_plane_peers *peers; /* NULL: we are alone */
    struct sw_map served;         /* name -> struct served */
    size_t n_planes;              /* at most a moment ago */
    uint64_t lost_ns;             /* since when there are none */
    uint64_t starting_until_ns;
    struct sw_defer again;
    struct sw_timer timer;
    struct sw_timer repeat;
    uint64_t repeat_wait_ns;
};

/* One look at all of it. */
struct look {
    struct sw_plane_watch *watch;
    struct sw_planes planes;
    const struct sw_xds_snap *last; /* data planes mostly have the same */
    bool settled;                   /* some data plane answered for all it was sent */
    bool repeat;
};

static bool is_listener(void *arg, struct sw_slice name)
{
    const struct sw_plane_watch *w = arg;

    return sw_xds_snap_get(sw_xds_cache_get(w->o.cache, sw_slice_str(SW_XDS_LISTENER)), name) !=
           NULL;
}

/* A data plane for some Gateways only serves a socket for these, not for whoever shares it. */
static void hold_for_gateways(struct look *k, const struct sw_xds_plane *p)
{
    const struct sw_plane_watch_opts *o = &k->watch->o;
    struct sw_slice gateways = o->gateways_of ? o->gateways_of(o->arg, p->view) : sw_slice("", 0);

    while (gateways.n) {
        struct sw_slice gw = sw_slice_cut(&gateways, ' ');

        for (size_t i = 0; p->settled && i < p->settled->n; i++)
            sw_planes_hold(&k->planes,
                           sw_planes_name(&k->planes.arena, p->settled->res[i]->name, gw));
    }
}

static void on_plane(const struct sw_xds_plane *p, void *arg)
{
    struct look *k = arg;

    k->planes.n++;
    if (p->view.n) {
        hold_for_gateways(k, p);
        sw_planes_refusal(&k->planes, p->node_id, p->refusal, is_listener, k->watch);
        k->repeat |= p->refusal.n && !p->retries;
        return;
    }
    k->settled |= p->settled != NULL;
    k->repeat |= p->refusal.n && !p->retries;
    for (size_t i = 0; p->settled && p->settled != k->last && i < p->settled->n; i++)
        sw_planes_hold(&k->planes, p->settled->res[i]->name);
    if (p->settled)
        k->last = p->settled;
    sw_planes_refusal(&k->planes, p->node_id, p->refusal, is_listener, k->watch);
}

/* ---- what was served a moment ago ---- */

static void remember(struct sw_plane_watch *w, const struct sw_planes *planes)
{
    SW_MAP_FOREACH (it, &planes->held) {
        struct served *s = sw_map_get(&w->served, it->key);

        if (!s) {
            s = SW_NEW(struct served);
            s->name = sw_slice(sw_slice_dup(it->key), it->key.n);
            (void)sw_map_put(&w->served, s->name, s);
        }
        s->lost_ns = 0;
    }
}

static void served_free(struct served *s)
{
    sw_slice_free(&s->name);
    sw_free(s);
}

static void forget(struct sw_plane_watch *w, struct served *s)
{
    (void)sw_map_del(&w->served, s->name);
    served_free(s);
}

/* The earlier of two times; 0 is none. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
    if (!a || !b)
        return a ? a : b;
    return sw_min(a, b);
}

/* Adds what data planes that disconnected served. Returns when that ends; 0: there is nothing. */
static uint64_t linger(struct look *k, uint64_t now)
{
    uint64_t next = 0;

    SW_MAP_FOREACH (it, &k->watch->served) {
        struct served *s = it->value;

        if (sw_map_get(&k->planes.held, s->name))
            continue;
        if (s->lost_ns == 0)
            s->lost_ns = now;
        /* A data plane that answered for everything would have it. */
        if (k->settled || now - s->lost_ns >= LINGER_NS) {
            forget(k->watch, s);
            continue;
        }
        sw_planes_hold(&k->planes, s->name);
        next = earlier(next, s->lost_ns + LINGER_NS);
    }
    return next;
}

/* The same for their number, which matters to listeners that have nothing to bind. */
static uint64_t linger_number(struct look *k, uint64_t now)
{
    struct sw_plane_watch *w = k->watch;

    if (k->planes.n || !w->n_planes) {
        w->n_planes = k->planes.n;
        w->lost_ns = 0;
        return 0;
    }
    if (w->lost_ns == 0)
        w->lost_ns = now;
    if (now - w->lost_ns >= LINGER_NS) {
        w->n_planes = 0;
        return 0;
    }
    k->planes.n = w->n_planes;
    return w->lost_ns + LINGER_NS;
}

/* ---- who needs the addresses of names ---- */

struct clients {
    bool any;
    size_t n;
    struct sw_ip ips[SW_LOOKUPS_CLIENTS];
};

static void on_client(const struct sw_xds_client_id *id, void *arg)
{
    struct clients *c = arg;

    if (id->resolves)
        return;
    c->any = true;
    for (size_t i = 0; i < c->n; i++) {
        if (memcmp(&c->ips[i], &id->addr.ip, sizeof(id->addr.ip)) == 0)
            return;
    }
    if (c->n < SW_ARRAY_LEN(c->ips))
        c->ips[c->n++] = id->addr.ip;
}

/* After a start clients come back that count on what they got before. */
static void notify_clients(struct sw_plane_watch *w, uint64_t now)
{
    struct clients c = {0};
    enum sw_lookups_mode mode = now < w->starting_until_ns ? SW_LOOKUPS_QUIET : SW_LOOKUPS_OFF;

    sw_xds_server_clients(w->o.server, on_client, &c);
    sw_gateway_controller_clients(w->o.controller, c.any ? SW_LOOKUPS_ON : mode, c.ips, c.n);
}

/* ---- telling ---- */

static void notify_peers(struct sw_plane_watch *w, const struct sw_planes *planes)
{
    SW_BUF_AUTO text = {.max = NOTE_MAX};

    if (w->peers && sw_planes_write(planes, &text) == SW_OK)
        sw_plane_peers_publish(w->peers, sw_buf_slice(&text));
}

static void notify_controller(struct sw_plane_watch *w, const struct sw_planes *planes)
{
    SW_BUF_AUTO text = {.max = TEXT_MAX};

    if (sw_planes_write(planes, &text) == SW_OK)
        sw_gateway_controller_planes(w->o.controller, sw_buf_slice(&text));
}

static void on_repeat(struct sw_timer *t);

static void keep_repeating(struct sw_plane_watch *w, bool needed)
{
    if (!needed) {
        sw_timer_stop(w->o.loop, &w->repeat);
        w->repeat_wait_ns = 0;
    } else if (!sw_timer_running(&w->repeat)) {
        w->repeat_wait_ns =
            w->repeat_wait_ns ? sw_min(w->repeat_wait_ns * 2, REPEAT_MOST_NS) : REPEAT_LEAST_NS;
        sw_timer_start(w->o.loop, &w->repeat, w->repeat_wait_ns, on_repeat);
    }
}

static void on_timer(struct sw_timer *t);

static void look(struct sw_plane_watch *w)
{
    struct look k = {.watch = w};
    uint64_t now = sw_loop_now(w->o.loop);
    uint64_t next;

    sw_xds_server_planes(w->o.server, on_plane, &k);
    remember(w, &k.planes);
    next = earlier(linger(&k, now), linger_number(&k, now));
    notify_peers(w, &k.planes);
    if (w->peers)
        sw_plane_peers_add(w->peers, &k.planes);
    k.planes.starting = (now < w->starting_until_ns && !k.settled) ||
                        (w->peers && !sw_plane_peers_synced(w->peers));
    if (now < w->starting_until_ns)
        next = earlier(next, w->starting_until_ns);
    notify_controller(w, &k.planes);
    notify_clients(w, now);
    keep_repeating(w, k.repeat);
    sw_timer_stop(w->o.loop, &w->timer);
    if (next)
        sw_timer_start(w->o.loop, &w->timer, next - now + SW_NS_PER_MS, on_timer);
    sw_planes_done(&k.planes);
}

static void on_timer(struct sw_timer *t)
{
    look(SW_CONTAINER_OF(t, struct sw_plane_watch, timer));
}

static void on_again(struct sw_defer *d)
{
    look(SW_CONTAINER_OF(d, struct sw_plane_watch, again));
}

void sw_plane_watch_changed(struct sw_plane_watch *w)
{
    if (w)
        sw_loop_defer(w->o.loop, &w->again, on_again);
}

static void on_peers(void *arg)
{
    sw_plane_watch_changed(arg);
}

/* ---- listeners that were refused ---- */

static void repeat_faults(const struct sw_xds_plane *p, void *arg)
{
    struct sw_plane_watch *w = arg;
    struct sw_planes planes = {0};

    if (!p->retries)
        sw_planes_refusal(&planes, p->node_id, p->refusal, is_listener, w);
    SW_MAP_FOREACH (it, &planes.faults)
        sw_xds_server_repeat(w->o.server, SW_XDS_LISTENER, it->key);
    sw_planes_done(&planes);
}

static void on_repeat(struct sw_timer *t)
{
    struct sw_plane_watch *w = SW_CONTAINER_OF(t, struct sw_plane_watch, repeat);

    sw_xds_server_planes(w->o.server, repeat_faults, w);
    sw_plane_watch_changed(w);
}

/* ---- life ---- */

struct sw_plane_watch *sw_plane_watch_new(const struct sw_plane_watch_opts *o)
{
    struct sw_plane_watch *w = SW_NEW(struct sw_plane_watch);

    w->o = *o;
    w->starting_until_ns = sw_loop_now(o->loop) + START_NS;
    if (o->lease_ns.n)
        w->peers = sw_plane_peers_new(o->client, o->lease_ns, o->identity, on_peers, w);
    look(w);
    return w;
}

void sw_plane_watch_leave(struct sw_plane_watch *w)
{
    if (w)
        sw_plane_peers_leave(w->peers);
}

void sw_plane_watch_free(struct sw_plane_watch *w)
{
    if (!w)
        return;
    sw_plane_peers_free(w->peers);
    sw_defer_cancel(&w->again);
    sw_timer_stop(w->o.loop, &w->timer);
    sw_timer_stop(w->o.loop, &w->repeat);
    SW_MAP_DRAIN(&w->served, served_free);
    sw_free(w);
}
