/* SPDX-License-Identifier: Apache-2.0 */
/* What clients made of the Listeners they were sent. */
#include <string.h>

#include "base/time.h"
#include "xds/server_int.h"

enum { SETTLED_S = 5 };

void xds_server_changed(struct sw_xds_server *s)
{
    if (s->o.on_change)
        s->o.on_change(s->o.arg);
}

/*
 * Endpoints come and go all the time and do not decide whether a listener works. Where routes do
 * too, an answer about the Listeners that is not new is enough.
 */
static bool all_settled(const struct xds_stream *st, const struct xds_sub *listeners)
{
    if (xds_sub_settled(listeners) &&
        sw_loop_now(st->server->loop) - listeners->sent_ns > SETTLED_S * SW_NS_PER_S)
        return true;
    SW_LIST_EACH (const struct xds_sub, u, &st->subs, link) {
        if (u->kind->rank && strcmp(u->url, SW_XDS_ENDPOINT) != 0 && !xds_sub_settled(u))
            return false;
    }
    return true;
}

/* The Listeners' subscription of a stream; NULL: it takes none. */
static const struct xds_sub *listeners_of(const struct xds_stream *st)
{
    return st->cache ? xds_sub_find(st, sw_slice_str(SW_XDS_LISTENER)) : NULL;
}

void xds_stream_settle(struct xds_stream *st)
{
    const struct xds_sub *u = listeners_of(st);

    if (!u || sw_xds_cache_held(st->cache) || st->settled == u->base || !all_settled(st, u))
        return;
    sw_xds_snap_set(&st->settled, sw_xds_snap_ref(u->base));
    xds_server_changed(st->server);
}

void sw_xds_server_planes(struct sw_xds_server *s,
                          void (*fn)(const struct sw_xds_plane *p, void *arg), void *arg)
{
    SW_LIST_EACH (const struct xds_stream, st, &s->streams, link) {
        const struct xds_sub *u = listeners_of(st);

        if (!u)
            continue;
        fn(&(struct sw_xds_plane){.node_id = st->node_id,
                                  .view = sw_slice_str(st->view),
                                  .addr = st->addr,
                                  .settled = st->settled,
                                  .refusal = sw_slice_str(u->detail),
                                  .retries = u->retries},
           arg);
    }
}

void sw_xds_server_clients(struct sw_xds_server *s,
                           void (*fn)(const struct sw_xds_client_id *id, void *arg), void *arg)
{
    SW_LIST_EACH (const struct xds_stream, st, &s->streams, link) {
        const struct sw_xds_client_id id = xds_stream_id(st);

        if (st->cache)
            fn(&id, arg);
    }
}

void sw_xds_server_repeat(struct sw_xds_server *s, const char *type, struct sw_slice name)
{
    SW_LIST_EACH (struct xds_stream, st, &s->streams, link) {
        struct xds_sub *u = st->cache ? xds_sub_find(st, sw_slice_str(type)) : NULL;

        if (!u || !u->nack || u->retries || u->pending || !xds_sub_wants(u, name))
            continue;
        if (st->delta)
            xds_sub_echo(u, name);
        else
            u->answer = true; /* state of the world is sent whole */
        xds_stream_wake(st);
    }
}
