/* SPDX-License-Identifier: Apache-2.0 */
/* 15001: connections of a pod to the world. Chooses the way; the other files walk it. */
#include "node/outbound.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"

static void on_reap(struct sw_defer *d)
{
    sw_free(SW_CONTAINER_OF(d, struct outbound, reap));
}

static void drop_setup(struct outbound *o)
{
    struct outbound_setup *s = o->setup;

    if (!s)
        return;
    sw_timer_stop(outbound_worker(o)->loop, &s->answer);
    sw_lookup_cancel(&s->lookup);
    sw_dial_cancel(&s->dial);
    sw_pool_cancel(&s->wait);
    sw_worker_cancel_wait(outbound_worker(o), &s->cred_wait);
    if (s->resolve)
        s->resolve->arg = NULL; /* it frees itself when the answer comes */
    (void)sw_state_unref(s->state);
    sw_free(s);
    o->setup = NULL;
}

/* ---- records ---- */

static void fill_record(const struct outbound *o, struct sw_ledger_info *info)
{
    const struct outbound_setup *s = o->setup;
    bool tunnel = s->route.kind == SW_ROUTE_HBONE || s->route.kind == SW_ROUTE_DOUBLE_HBONE;

    *info = (struct sw_ledger_info){
        .direction = SW_OUTBOUND,
        .mtls = tunnel,
        .src = o->live.src,
        .dst = s->route.target,
        .src_workload = s->local,
        .dst_workload = s->route.workload,
        .service = s->route.service,
        .hbone_addr = sw_slice_str(s->route.authority),
        .trace = &s->trace,
        .start_ns = s->start_ns,
    };
    if (tunnel) {
        info->src_identity = s->local->c->identity;
        if (s->route.workload)
            info->dst_identity = s->route.workload->c->identity;
    }
}

static void open_record(struct outbound *o)
{
    struct sw_ledger_info info;

    fill_record(o, &info);
    sw_ledger_open(&o->rec, &outbound_worker(o)->book, &info);
}

/* A tunnel in a tunnel that failed before it was known who is at its end: the gateway's record. */
static void close_record(struct outbound *o, enum sw_response_flag flag, const char *error)
{
    if (!o->rec.book && o->setup && o->setup->unopened)
        open_record(o);
    if (o->setup)
        o->setup->unopened = false;
    sw_ledger_close(&o->rec, flag, error);
}

void outbound_open_inner(struct outbound *o, struct sw_session *inner,
                         const struct sw_h2_head *head)
{
    const struct sw_tls_peer_id *peer = sw_tls_peer_identity(sw_session_peer(inner));
    struct sw_slice text = sw_h2_head_get(head, "baggage");
    struct sw_ledger_info info;
    struct sw_baggage said;

    fill_record(o, &info);
    if (text.n) {
        sw_baggage_parse(text, &said);
        info.dst_workload = NULL;
        info.dst_baggage = &said;
        info.dst_identity = peer ? peer->uri : sw_slice("", 0);
    }
    sw_ledger_open(&o->rec, &outbound_worker(o)->book, &info);
    o->setup->unopened = false;
}

/* RFC 1928 section 6. */
static void socks5_reply(struct outbound *o, uint8_t code)
{
    const uint8_t reply[10] = {5, code, 0, 1};

    if (o->socks5 && o->fd >= 0)
        (void)!sw_sock_write(o->fd, reply, sizeof(reply));
    o->socks5 = false;
}

static uint8_t socks5_code(enum sw_response_flag flag)
{
    return flag == SW_FLAG_NONE ? 0 : flag == SW_FLAG_DENY ? 2 : 5;
}

void outbound_finish(struct outbound *o, enum sw_response_flag flag, const char *error)
{
    struct sw_worker *w = outbound_worker(o);

    if (o->done)
        return;
    o->done = true;
    close_record(o, flag, error);
    outbound_fast_done(o, flag, error);
    outbound_double_abandon(o);
    /* Peers read CANCEL as an end: once bytes flowed only an error tells that some are missing. */
    if (o->streaming)
        sw_tstream_abort(&o->u.stream, o->setup ? SW_H2_CANCEL : SW_H2_CONNECT_ERROR);
    if (o->pumping)
        sw_pump_stop(&o->u.pump, flag != SW_FLAG_NONE);
    socks5_reply(o, socks5_code(flag));
    sw_sock_close(o->fd);
    o->fd = -1;
    drop_setup(o);
    sw_live_remove(w, &o->live);
    sw_metric_sub(w->sockets[SW_REPORTER_SOURCE], 1);
    sw_loop_defer(w->loop, &o->reap, on_reap);
}

static void on_drained(struct sw_live *l, const char *why)
{
    outbound_finish(SW_CONTAINER_OF(l, struct outbound, live), SW_FLAG_CONNECT, why);
}

static int dialled_fd(struct sw_live *l)
{
    const struct outbound *o = SW_CONTAINER_OF(l, struct outbound, live);

    return o->pumping ? o->u.pump.side[1].fd : -1;
}

static const struct sw_live_ops live_ops = {.end = on_drained, .dialled = dialled_fd};

/* ---- bytes between two sockets ---- */

static void on_moved(struct sw_pump *p, int from, size_t n)
{
    struct outbound *o = SW_CONTAINER_OF(p, struct outbound, u.pump);

    sw_ledger_moved(&o->rec, from == 0 ? n : 0, from == 0 ? 0 : n);
    if (o->fast)
        sw_ledger_moved(&o->fast->rec, from == 0 ? n : 0, from == 0 ? 0 : n);
}

static void on_pump_done(struct sw_pump *p, int rc)
{
    struct outbound *o = SW_CONTAINER_OF(p, struct outbound, u.pump);

    (void)rc; /* a reset is no error of ours */
    o->pumping = false;
    outbound_finish(o, SW_FLAG_NONE, NULL);
}

static const struct sw_pump_ops pump_ops = {.on_moved = on_moved, .on_done = on_pump_done};

void outbound_established(struct outbound *o)
{
    socks5_reply(o, 0);
    drop_setup(o);
}

void outbound_pump(struct outbound *o, struct sw_dialled *dialled)
{
    struct sw_err err = {0};
    int rc;

    outbound_established(o);
    rc = sw_pump_start(&o->u.pump, outbound_worker(o)->loop, SW_TAKE_FD(o->fd), dialled, &pump_ops,
                       &err);
    if (rc != SW_OK)
        outbound_finish(o, SW_FLAG_CONNECT, err.msg);
    else
        o->pumping = true;
}

/* ---- choosing ---- */

static void on_tcp_dialled(struct sw_dial *d, int rc, const struct sw_err *err)
{
    struct outbound_setup *s = SW_CONTAINER_OF(d, struct outbound_setup, dial);
    struct sw_dialled dialled;
    char text[SW_ERRTEXT];

    if (rc != SW_OK) {
        outbound_retry(s->out, SW_FLAG_CONNECT, sw_errtext_io(err, text));
        return;
    }
    sw_dial_take(d, &dialled);
    outbound_pump(s->out, &dialled);
}

static void dial_tcp(struct outbound *o)
{
    struct sw_worker *w = outbound_worker(o);
    struct sw_sock_opts opts = sw_worker_dial_sock(w, o->live.pod);

    sw_dial_start(&o->setup->dial, w->loop,
                  &(struct sw_dial_target){.to = &o->setup->route.target,
                                           .opts = &opts,
                                           .timeout_ns = SW_CONNECT_S * SW_NS_PER_S},
                  on_tcp_dialled);
}

static void go(struct outbound *o)
{
    struct outbound_setup *s = o->setup;

    o->live.actual_dst = s->route.target;
    o->live.protocol = s->route.kind == SW_ROUTE_TCP     ? SW_LIVE_TCP
                       : s->route.kind == SW_ROUTE_HBONE ? SW_LIVE_HBONE
                                                         : SW_LIVE_DOUBLE_HBONE;
    s->start_ns = sw_loop_now(outbound_worker(o)->loop);
    /* Who is at the end of a tunnel in a tunnel shows when it answers. */
    s->unopened = s->route.kind == SW_ROUTE_DOUBLE_HBONE;
    if (!s->unopened)
        open_record(o);
    if (s->route.kind == SW_ROUTE_TCP)
        dial_tcp(o);
    else if (!outbound_fast(o))
        outbound_hbone(o);
}

/* A random answer of the preferred family, else of any allowed one. */
static const struct sw_ip *pick_answer(const struct sw_route_outbound *r,
                                       const struct sw_resolve *a)
{
    for (int pass = 0; pass < 2 && a->n; pass++) {
        size_t start = sw_rand_below(a->n);

        for (size_t i = 0; i < a->n; i++) {
            const struct sw_ip *ip = &a->ips[(start + i) % a->n];

            if (sw_ip_family_allowed(r->families, ip->family) &&
                (pass || ip->family == r->prefer_family))
                return ip;
        }
    }
    return NULL;
}

/* Whoever owns the name chose its addresses: those that the filter denies are left out. */
static void drop_denied(struct sw_egress *e, struct sw_resolve *a,
                        const struct sw_route_outbound *r)
{
    size_t n = 0;

    for (size_t i = 0; i < a->n; i++) {
        struct sw_addr to = {.ip = a->ips[i], .port = r->target.port};

        if (sw_egress_check(e, &to, NULL) == SW_OK)
            a->ips[n++] = a->ips[i];
    }
    a->n = n;
}

static void on_resolved(struct sw_resolve *a)
{
    struct outbound *o = a->arg;
    const struct sw_ip *ip;
    char text[SW_RESOLVE_NAME + 64];
    bool known;

    if (o) {
        o->setup->resolve = NULL;
        known = a->rc == SW_OK;
        drop_denied(outbound_worker(o)->egress, a, &o->setup->route);
        ip = known ? pick_answer(&o->setup->route, a) : NULL;
        if (ip) {
            sw_route_resolved(&o->setup->route, ip);
            go(o);
        } else {
            (void)snprintf(text, sizeof(text), "%s '%s'",
                           known && !a->n ? "all addresses are denied of" : "cannot resolve",
                           a->name);
            outbound_retry(o, SW_FLAG_CONNECT, text);
        }
    }
    sw_free(a);
}

static void count_resolve(const struct outbound *o, struct sw_slice name)
{
    const struct sw_workload *w = o->setup->local;
    struct sw_baggage own;

    sw_baggage_of(w, &own);
    {
        const struct sw_slice labels[] = {
            own.workload_name, own.service_name, own.revision, own.ns, w->c->identity,
            own.service_name,  own.revision,     own.cluster,  name,
        };

        sw_metric_add(sw_metric_get(outbound_worker(o)->shard, SW_METRIC_ON_DEMAND_DNS, labels), 1);
    }
}

static void resolve(struct outbound *o)
{
    struct sw_slice name = o->setup->route.hostname;
    struct sw_resolve *a;

    if (name.n >= SW_RESOLVE_NAME) {
        outbound_retry(o, SW_FLAG_CONNECT, "host name too long");
        return;
    }
    a = SW_NEW(struct sw_resolve);
    memcpy(a->name, name.p, name.n);
    a->loop = outbound_worker(o)->loop;
    a->cb = on_resolved;
    a->arg = o;
    o->setup->resolve = a;
    count_resolve(o, name);
    sw_resolve_start(a);
}

static void log_refusal(const struct outbound *o, const char *reason, const char *why)
{
    sw_ledger_refused(&outbound_worker(o)->book, SW_OUTBOUND, &o->live.src, &o->live.original_dst,
                      reason, why);
}

static void dropped(struct outbound *o)
{
    struct outbound_setup *s = o->setup;
    bool again = s->route.drop == SW_DROP_EXHAUSTED && s->last_error[0];
    const char *why = again ? s->last_error : s->route.reason;

    /* After a failed attempt there is a line already. */
    if (!again)
        log_refusal(o, s->route.drop == SW_DROP_SELF_CALL ? "self_call" : "no_route", why);
    outbound_finish(o, again ? s->last_flag : SW_FLAG_CONNECT, why);
}

static void choose(struct outbound *o);

static void refuse_lookup(struct outbound *o, const char *reason, const char *why)
{
    log_refusal(o, reason, why);
    outbound_finish(o, SW_FLAG_CONNECT, why);
}

/* Not knowing is no reason to let it pass: the destination may be one that has to be protected. */
static void on_lookup(struct sw_lookup *l, enum sw_lookup_end end)
{
    struct outbound_setup *s = SW_CONTAINER_OF(l, struct outbound_setup, lookup);
    struct outbound *o = s->out;
    struct sw_worker *w = outbound_worker(o);
    char text[SW_ERRTEXT];

    if (end == SW_LOOKUP_TIMEOUT) {
        refuse_lookup(o, "lookup_timeout", "destination lookup timed out");
        return;
    }
    if (end == SW_LOOKUP_LIMIT) {
        refuse_lookup(o, "lookup_limit", "too many destinations are subscribed to");
        return;
    }
    (void)sw_state_unref(s->state);
    s->state = sw_state_ref(w->state);
    s->local = o->live.pod->local;
    if (s->local)
        choose(o);
    else
        refuse_lookup(o, "unknown_workload", sw_pod_unknown(o->live.pod->pod, text));
}

static bool wait_for_lookup(struct outbound *o)
{
    struct outbound_setup *s = o->setup;
    struct sw_worker *w = outbound_worker(o);
    char *key;

    if (!w->lookups.ask || s->n_tried)
        return false;
    key = sw_lookup_missing(&w->lookups, s->state, s->local, &o->live.original_dst);
    if (key)
        sw_lookup_start(&w->lookups, &s->lookup, key, on_lookup);
    return key != NULL;
}

static void choose(struct outbound *o)
{
    struct outbound_setup *s = o->setup;
    struct sw_worker *w = outbound_worker(o);
    struct sw_route_tried tried = {s->tried, s->n_tried};

    if (wait_for_lookup(o))
        return;
    sw_route_outbound(s->state, &w->env, s->local, &o->live.original_dst, &tried, &s->route);
    if (s->route.kind == SW_ROUTE_DROP)
        dropped(o);
    else if (s->route.hostname.n)
        resolve(o);
    else
        go(o);
}

void outbound_retry(struct outbound *o, enum sw_response_flag flag, const char *error)
{
    struct outbound_setup *s = o->setup;
    bool can = s->route.service && s->route.workload && s->n_tried + 1 < OUTBOUND_TRIES;

    if (!can) {
        outbound_finish(o, flag, error);
        return;
    }
    (void)snprintf(s->last_error, sizeof(s->last_error), "%s", error);
    s->last_flag = flag;
    /* Every attempt has its own record: what was tried stays visible. */
    close_record(o, flag, error);
    sw_log_debug("outbound", "retrying on another endpoint: %s", error);
    s->tried[s->n_tried++] = s->route.workload;
    choose(o);
}

void sw_outbound_start(struct sw_wpod *p, int fd, const struct sw_addr *peer,
                       const struct sw_addr *dst, bool socks5)
{
    struct sw_worker *w = p->worker;
    struct outbound *o = SW_NEW(struct outbound);
    uint64_t random[3] = {sw_rand_u64(), sw_rand_u64(), sw_rand_u64()}; /* an id, no secret */

    o->fd = fd;
    o->socks5 = socks5;
    o->live = (struct sw_live){
        .pod = p,
        .src = *peer,
        .original_dst = *dst,
        .actual_dst = *dst,
        .protocol = SW_LIVE_TCP,
        .ops = &live_ops,
    };
    sw_live_add(w, &o->live);
    sw_metric_add(w->sockets[SW_REPORTER_SOURCE], 1);
    o->setup = SW_NEW(struct outbound_setup);
    o->setup->out = o;
    o->setup->state = sw_state_ref(w->state);
    o->setup->local = p->local;
    sw_trace_make(NULL, (const uint8_t *)random, &o->setup->trace);
    if (!p->local) {
        char text[SW_ERRTEXT];

        log_refusal(o, "unknown_workload", sw_pod_unknown(p->pod, text));
        outbound_finish(o, SW_FLAG_CONNECT, NULL);
        return;
    }
    choose(o);
}

void sw_outbound_accept(struct sw_wpod *p, int fd, const struct sw_addr *peer)
{
    struct sw_addr dst = sw_sock_original_dst(fd);

    sw_outbound_start(p, fd, peer, &dst, false);
}
