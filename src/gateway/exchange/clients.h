/* SPDX-License-Identifier: Apache-2.0 */
/* What clients began on a worker, of any protocol: drained, renewed, evicted, killed alike. */
#pragma once

#include <stdbool.h>

#include "base/list.h"
#include "gateway/config/config.h"
#include "gateway/exchange/exchange.h"

struct sw_gw_accepted;
struct sw_gw_lstats;
struct sw_gw_worker;

/* Where a connection came from, for as long as it lasts. */
struct sw_gw_origin {
    struct sw_gw_listener *listener; /* a reference */
    const struct sw_gw_chain *chain; /* of the listener */
    struct sw_gw_host *keep;         /* a reference; NULL: none */
    const struct sw_json *metadata;
    struct sw_addr peer;
    struct sw_addr local;
    struct sw_slice sni; /* owned; empty: none seen */
};

void sw_gw_origin_init(struct sw_gw_origin *o, const struct sw_gw_accepted *a);
void sw_gw_origin_done(struct sw_gw_origin *o);
/* Tells an exchange of it, all but the server name. */
static inline void sw_gw_origin_tell(const struct sw_gw_origin *o, struct sw_exchange *x)
{
    x->from.listener = sw_gw_listener_ref(o->listener);
    x->from.chain = o->chain;
    x->from.peer = o->peer;
    x->from.local = o->local;
    x->from.metadata = o->metadata;
}

/*
 * Anything a client began that keeps a worker from being idle, of any protocol. Linked while it
 * lives. A drain lets each finish; the deadline kills what is left.
 */
struct sw_gw_down {
    struct sw_list link;
    struct sw_gw_lstats *stats; /* counts the connection while it is linked; NULL: not counted */
    void (*drain)(struct sw_gw_down *d);
    void (*kill)(struct sw_gw_down *d);
    /* A new view arrived; NULL: does not care. */
    void (*renew)(struct sw_gw_down *d);
    /* Closes the connection at once if it is idle; false: it is not. NULL: it never is. */
    bool (*evict)(struct sw_gw_down *d);
};

void sw_gw_down_add(struct sw_gw_worker *w, struct sw_gw_down *d);
void sw_gw_down_remove(struct sw_gw_worker *w, struct sw_gw_down *d);
/* It became idle: of those that are it is evicted last. */
void sw_gw_down_idle(struct sw_gw_worker *w, struct sw_gw_down *d);
