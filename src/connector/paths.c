/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How each gateway reached the device last, for the Connector's status. A change of path is
 * reported at once, of the round trip or of the note within a minute: connections come and go with
 * requests, and the API does not need those.
 */

#include "base/time.h"
#include "connector/connector_int.h"

#define SETTLE_NS (2 * SW_NS_PER_S)  /* a connection that begins on a relay moves soon */
#define GAP_NS    (10 * SW_NS_PER_S) /* between two writes */
#define PROBED_NS (15 * SW_NS_PER_S) /* until a round of probes found why a path stays relayed */
#define AGAIN_NS  (60 * SW_NS_PER_S) /* between looks for round trips that changed */

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

/* The newest connection of that path; NULL: it is closed, or goes another way by now. */
static const struct sw_qconn *conn_of(const struct sw_connector *c, const struct sw_details_path *p)
{
    const struct sw_qconn *found = NULL;

    SW_LIST_EACH (const struct conn, k, &c->conns, link) {
        struct sw_addr at = sw_qconn_addr(k->q);

        if (sw_nodeid_eq(sw_qconn_peer(k->q), &p->gateway) && sw_addr_eq(&at, &p->address))
            found = k->q;
    }
    return found;
}

static void measure(struct sw_connector *c)
{
    for (size_t i = 0; i < c->published.n; i++) {
        struct sw_details_path *p = &c->published.paths[i];
        const struct sw_qconn *q = conn_of(c, p);

        if (!q)
            continue;
        p->rtt_us = sw_qconn_rtt_ns(q) / SW_NS_PER_US;
        p->note = sw_qconn_path_note(q);
    }
}

static bool any_changed(const struct sw_connector *c)
{
    for (size_t i = 0; i < c->published.n; i++) {
        const struct sw_details_path *p = &c->published.paths[i];
        const struct sw_qconn *q = conn_of(c, p);

        if (q &&
            sw_details_path_changed(p, sw_qconn_rtt_ns(q) / SW_NS_PER_US, sw_qconn_path_note(q)))
            return true;
    }
    return false;
}

static bool is_current(void *arg, const struct sw_nodeid *gateway)
{
    const struct sw_connector *c = arg;

    if (c->config->open || sw_peers_has(&c->admit.peers, gateway))
        return true;
    SW_LIST_EACH (const struct conn, k, &c->conns, link) {
        if (sw_nodeid_eq(sw_qconn_peer(k->q), gateway))
            return true;
    }
    return false;
}

static void publish(struct sw_connector *c)
{
    measure(c);
    c->published.told_ns = sw_loop_now(c->loop);
    c->published.seq++;
    connector_publish(c);
}

static void on_again(struct sw_timer *t)
{
    struct sw_connector *c = SW_CONTAINER_OF(t, struct sw_connector, published.again);
    size_t before = c->published.n;

    c->published.n = sw_details_paths_keep(c->published.paths, c->published.n, is_current, c);
    if (sw_timer_running(&c->published.timer)) /* about to be written anyway */
        return;
    if (c->published.n != before || any_changed(c))
        publish(c);
    if (c->published.n)
        sw_timer_start(c->loop, &c->published.again, AGAIN_NS, on_again);
}

void connector_review_paths(struct sw_connector *c)
{
    if (c->published.n)
        sw_timer_start(c->loop, &c->published.again, SETTLE_NS, on_again);
}

static void on_settled(struct sw_timer *t)
{
    struct sw_connector *c = SW_CONTAINER_OF(t, struct sw_connector, published.timer);
    bool relayed = false;

    publish(c);
    for (size_t i = 0; i < c->published.n; i++)
        relayed |= !c->published.paths[i].address.ip.family;
    sw_timer_start(c->loop, &c->published.again, relayed ? PROBED_NS : AGAIN_NS, on_again);
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
