/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On demand (XDS_ON_DEMAND): connections that wait, on their worker, until the control plane has
 * answered for their destination. The main thread asks; all workers get the answer, after the
 * snapshot that has it.
 */
#pragma once

#include <stdbool.h>

#include "base/list.h"
#include "base/map.h"
#include "io/loop.h"
#include "node/route.h"
#include "telemetry/metrics.h"

enum sw_lookup_end {
    SW_LOOKUP_ANSWERED, /* look into the worker's snapshot again */
    SW_LOOKUP_TIMEOUT,
    SW_LOOKUP_LIMIT, /* too much is subscribed to already */
};

/* Of one worker. */
struct sw_lookup_book {
    struct sw_loop *loop;
    struct sw_metrics_shard *shard;
    struct sw_list waiting;
    struct sw_map answered; /* key -> its own copy */
    struct sw_map chosen;   /* asked for because others named them or called: the same */
    /* Asks the control plane; from any thread. NULL: everything is known without asking. */
    void (*ask)(void *arg, struct sw_slice key);
    void *arg;
};

/* A connection that waits. Zero before it is used. */
struct sw_lookup {
    struct sw_list link;
    struct sw_timer deadline;
    struct sw_lookup_book *of; /* NULL: it does not wait */
    char *key;
    /* Ends the wait; may start the next. */
    void (*cb)(struct sw_lookup *l, enum sw_lookup_end end);
};

/*
 * What a connection of 'source' to 'dst' needs and the snapshot lacks: the address itself, or the
 * waypoint or gateway it has to go through. A key to ask for, the caller's; NULL: nothing is
 * missing that was not asked for before.
 */
char *sw_lookup_missing(const struct sw_lookup_book *ls, const struct sw_state *s,
                        const struct sw_workload *source, const struct sw_addr *dst);
/* Who calls, and what the tunnel is for. */
struct sw_lookup_inbound {
    const struct sw_workload *local;
    struct sw_slice network; /* the node's own */
    struct sw_ip peer;       /* family 0: its address says nothing (a gateway's) */
    struct sw_ip conn_dst;
    struct sw_slice authority;
};

/*
 * The same for a tunnel that arrives: the waypoints that may call the local workload, the service
 * or address the authority names, and the caller, for the log. Addresses of callers and authorities
 * are asked for up to a bound: their number is not ours to choose.
 */
char *sw_lookup_missing_inbound(struct sw_lookup_book *ls, const struct sw_state *s,
                                const struct sw_lookup_inbound *q);
/* Waits for 'key', which it takes over. */
void sw_lookup_start(struct sw_lookup_book *ls, struct sw_lookup *l, char *key,
                     void (*cb)(struct sw_lookup *l, enum sw_lookup_end end));
/* Waits no more; cb does not come. Harmless when it does not wait. */
void sw_lookup_cancel(struct sw_lookup *l);
/* The answer to a key, on the worker's thread. */
void sw_lookup_found(struct sw_lookup_book *ls, struct sw_slice key, enum sw_lookup_end end);
/* What was answered is asked for again, which costs a message where the answer still holds. */
void sw_lookup_forget(struct sw_lookup_book *ls);
/* Frees what is remembered of answers. */
void sw_lookup_book_done(struct sw_lookup_book *ls);
