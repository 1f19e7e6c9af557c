/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How each gateway reached the device last, for the Connector's status. Only a change of path is
 * reported: connections come and go with requests, and the API does not need those.
 */
#include <string.h>

#include "base/time.h"
#include "connector/connector_int.h"

#define SETTLE_NS (2 * SW_NS_PER_S)  /* a connection that begins on a relay moves soon */
#define GAP_NS    (10 * SW_NS_PER_S) /* between two writes */

static struct sw_details_path *find_path(struct sw_connector *c, const struct sw_nodeid *id)
{
    for (size_t i = 0; i < c->published.n; i++)
        if (sw_nodeid_eq(&c->published.paths[i].gateway, id))
            return &c->published.paths[i];
    return NULL;
}

/* A free place, else that of the gateway that has not changed for the longest. */
static struct sw_details_path *place(struct sw_connector *c)
{
    struct sw_details_path *oldest = &c->published.paths[0];

    if (c->published.n < SW_DETAILS_PATHS)
        return &c->published.paths[c->published.n++];
    for (size_t i = 1; i < c->published.n; i++)
        if (c->published.paths[i].since_ns < oldest->since_ns)
            oldest = &c->published.paths[i];
    return oldest;
}

static void measure(struct sw_connector *c)
{
    SW_LIST_FOREACH (it, &c->conns) {
        const struct sw_qconn *q = SW_CONTAINER_OF(it, struct conn, link)->q;
        struct sw_details_path *p = find_path(c, sw_qconn_peer(q));

        if (p)
            p->rtt_us = sw_qconn_rtt_ns(q) / SW_NS_PER_US;
    }
}

static void on_settled(struct sw_timer *t)
{
    struct sw_connector *c = SW_CONTAINER_OF(t, struct sw_connector, published.timer);

    measure(c);
    c->published.told_ns = sw_loop_now(c->loop);
    c->published.seq++;
    connector_publish(c);
}

void connector_path_seen(struct sw_connector *c, const struct sw_qconn *q)
{
    struct sw_addr at = sw_qconn_addr(q);
    struct sw_details_path *p = find_path(c, sw_qconn_peer(q));
    uint64_t since = sw_loop_now(c->loop) - c->published.told_ns;

    if (p && sw_addr_eq(&p->address, &at))
        return;
    if (!p)
        p = place(c);
    *p = (struct sw_details_path){
        .gateway = *sw_qconn_peer(q), .address = at, .since_ns = sw_wall_ns()};
    if (!sw_timer_running(&c->published.timer))
        sw_timer_start(c->loop, &c->published.timer,
                       c->published.told_ns && since < GAP_NS ? sw_max(GAP_NS - since, SETTLE_NS)
                                                              : SETTLE_NS,
                       on_settled);
}
