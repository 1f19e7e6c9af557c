/* SPDX-License-Identifier: Apache-2.0 */
#include "node/inbound.h"

#include "base/rand.h"
#include "base/time.h"
#include "io/proxyproto.h"

static void trace_of(struct sw_slice header, struct sw_trace *ret)
{
    struct sw_trace parent;
    uint64_t random[3] = {sw_rand_u64(), sw_rand_u64(), sw_rand_u64()}; /* an id, no secret */

    if (sw_trace_parse(header, &parent))
        *ret = parent;
    else
        sw_trace_make(NULL, (const uint8_t *)random, ret);
}

/* Who the caller is for telemetry; a gateway's address says nothing about the client behind it. */
static const struct sw_workload *caller(struct sw_worker *w, const struct sw_inbound_ask *ask)
{
    struct sw_slice own = w->env.network;

    if (ask->from_network.p && !sw_slice_ieq(ask->from_network, own))
        return NULL;
    return sw_state_workload_by_ip(w->state, own, &ask->peer.ip);
}

static void open_record(struct sw_worker *w, const struct sw_inbound_ask *ask,
                        const struct sw_route_inbound *route, struct sw_ledger *rec)
{
    struct sw_baggage said;
    struct sw_trace trace;
    struct sw_ledger_info info = {
        .direction = SW_INBOUND,
        .mtls = true,
        .src = ask->peer,
        .dst = ask->conn_dst, /* like the client's line; where it leads is the authority */
        .src_workload = caller(w, ask),
        .dst_workload = ask->dst->local,
        .service = route->service,
        .src_identity = ask->src_uri,
        .hbone_addr = ask->authority,
        .trace = &trace,
    };

    trace_of(ask->traceparent, &trace);
    if (ask->dst->local)
        info.dst_identity = ask->dst->local->c->identity;
    if (w->config->tunnel.response_baggage && ask->baggage.n) {
        sw_baggage_parse(ask->baggage, &said);
        info.src_baggage = &said;
    }
    sw_ledger_open(rec, &w->book, &info);
}

unsigned sw_inbound_judge(struct sw_worker *w, const struct sw_inbound_ask *ask,
                          struct sw_ledger *rec, struct sw_route_inbound *route)
{
    struct sw_route_inbound_request req = {
        .local = ask->dst->local,
        .conn_dst = ask->conn_dst,
        .peer_ip = ask->peer.ip,
        .src = ask->src,
        .authority = ask->authority,
        .forwarded = ask->forwarded,
    };
    struct sw_policy_verdict verdict;
    char text[SW_ERRTEXT];

    if (!req.local) {
        sw_ledger_refused(&w->book, SW_INBOUND, &ask->peer, &ask->conn_dst, "unknown_workload",
                          sw_pod_unknown(ask->dst->pod, text));
        return 503;
    }
    sw_route_inbound_hbone(w->state, &w->env, &req, route);
    if (route->status != 200 && route->early) {
        sw_ledger_refused(&w->book, SW_INBOUND, &ask->peer, &ask->conn_dst, "bad_request",
                          route->reason);
        return (unsigned)route->status;
    }
    open_record(w, ask, route, rec);
    if (route->status != 200) {
        sw_ledger_close(rec, SW_FLAG_DENY, sw_errtext_denied(route->reason, text));
        return (unsigned)route->status;
    }
    if (!sw_worker_authorise(w, ask->dst, &ask->peer.ip, ask->src, &route->rbac_dst, &verdict)) {
        sw_ledger_close(rec, SW_FLAG_DENY, sw_errtext_denied(verdict.text, text));
        return 401;
    }
    return 200;
}

void sw_inbound_dial(struct sw_worker *w, const struct sw_wpod *dst,
                     const struct sw_route_inbound *route, struct sw_dial *d, sw_dial_cb cb)
{
    struct sw_sock_opts o = sw_worker_dial_sock(w, dst);
    struct sw_dial_target t = {
        .to = &route->connect, .opts = &o, .timeout_ns = SW_CONNECT_S * SW_NS_PER_S};

    if (!route->from_loopback && dst->pod->transparent && !dst->pod->self &&
        !sw_ip_eq(&route->spoof.ip, &route->connect.ip)) {
        o.transparent = true;
        t.src = &route->spoof.ip;
    }
    sw_dial_start(d, w->loop, &t, cb);
}

bool sw_inbound_send_proxy_header(int fd, const struct sw_route_inbound *route,
                                  const struct sw_addr *peer, struct sw_slice src_uri)
{
    uint8_t head[SW_PROXY_V2_MAX];
    size_t n;

    if (!route->proxy_protocol)
        return true;
    n = sw_proxy_v2_write(peer, &route->proxy_dst, src_uri, head);
    return n && sw_sock_write(fd, head, n) == (ssize_t)n;
}
