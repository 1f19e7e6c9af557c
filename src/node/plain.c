/* SPDX-License-Identifier: Apache-2.0 */
/* 15006: plaintext that was on its way to the pod. Authorised without an identity, then passed on.
 */
#include "node/plain.h"

#include "base/mem.h"
#include "base/time.h"
#include "node/ledger.h"
#include "tunnel/dial.h"
#include "tunnel/pump.h"

/* Memory of its own, so that an established connection does not carry it. */
struct plain_dial {
    struct sw_dial dial;
    struct plain *plain;
};

struct plain {
    struct sw_ledger rec;
    struct sw_guard guard;
    struct sw_live live;
    struct sw_pump pump;
    struct plain_dial *dial; /* owned while connecting */
    int fd;                  /* the client's, until the pump has it */
    struct sw_defer reap;
};

static struct sw_worker *worker_of(const struct plain *p)
{
    return p->live.pod->worker;
}

static void on_reap(struct sw_defer *d)
{
    sw_free(SW_CONTAINER_OF(d, struct plain, reap));
}

static void retire(struct plain *p)
{
    struct sw_worker *w = worker_of(p);

    if (p->dial)
        sw_dial_cancel(&p->dial->dial);
    sw_free(p->dial);
    p->dial = NULL;
    sw_sock_close(p->fd);
    p->fd = -1;
    sw_list_unlink(&p->guard.link);
    sw_live_remove(w, &p->live);
    sw_metric_sub(w->sockets[SW_REPORTER_DESTINATION], 1);
    sw_loop_defer(w->loop, &p->reap, on_reap);
}

static void end(struct plain *p, enum sw_response_flag flag, const char *why)
{
    sw_ledger_close(&p->rec, flag, why);
    sw_pump_stop(&p->pump, true);
    retire(p);
}

static void on_denied(struct sw_guard *g, const char *why)
{
    end(SW_CONTAINER_OF(g, struct plain, guard), SW_FLAG_DENY,
        "connection closed due to policy change");
}

static void on_drained(struct sw_live *l, const char *why)
{
    end(SW_CONTAINER_OF(l, struct plain, live), SW_FLAG_CONNECT, why);
}

static int dialled_fd(struct sw_live *l)
{
    const struct plain *p = SW_CONTAINER_OF(l, struct plain, live);

    return p->pump.loop ? p->pump.side[1].fd : -1;
}

static const struct sw_live_ops live_ops = {.end = on_drained, .dialled = dialled_fd};

static void on_moved(struct sw_pump *pump, int from, size_t n)
{
    struct plain *p = SW_CONTAINER_OF(pump, struct plain, pump);

    sw_ledger_moved(&p->rec, from == 0 ? n : 0, from == 0 ? 0 : n);
}

static void on_done(struct sw_pump *pump, int rc)
{
    struct plain *p = SW_CONTAINER_OF(pump, struct plain, pump);

    (void)rc; /* a reset is no error of ours */
    sw_ledger_close(&p->rec, SW_FLAG_NONE, NULL);
    retire(p);
}

static const struct sw_pump_ops pump_ops = {.on_moved = on_moved, .on_done = on_done};

static void on_dialled(struct sw_dial *d, int rc, const struct sw_err *err)
{
    struct plain *p = SW_CONTAINER_OF(d, struct plain_dial, dial)->plain;
    struct sw_err failed = {0};
    struct sw_dialled dialled;
    char text[SW_ERRTEXT];

    if (rc != SW_OK) {
        end(p, SW_FLAG_CONNECT, sw_errtext_connect(err, text));
        return;
    }
    sw_dial_take(d, &dialled);
    rc = sw_pump_start(&p->pump, worker_of(p)->loop, SW_TAKE_FD(p->fd), &dialled, &pump_ops,
                       &failed);
    sw_free(p->dial);
    p->dial = NULL;
    if (rc != SW_OK)
        end(p, SW_FLAG_CONNECT, failed.msg);
}

static void dial(struct plain *p, const struct sw_addr *src, const struct sw_addr *dst)
{
    struct sw_worker *w = worker_of(p);
    struct sw_sock_opts o = sw_worker_dial_sock(w, p->live.pod);
    struct sw_dial_target t = {.to = dst, .opts = &o, .timeout_ns = SW_CONNECT_S * SW_NS_PER_S};

    if (p->live.pod->pod->transparent && !sw_ip_eq(&src->ip, &dst->ip)) {
        o.transparent = true;
        o.low_port = true; /* see sw_sock_opts */
        t.src = &src->ip;
    }
    p->dial = SW_NEW(struct plain_dial);
    p->dial->plain = p;
    sw_dial_start(&p->dial->dial, w->loop, &t, on_dialled);
}

static void open_record(struct plain *p, const struct sw_addr *src, const struct sw_addr *dst)
{
    struct sw_worker *w = worker_of(p);
    const struct sw_workload *local = p->live.pod->local;
    struct sw_ledger_info info = {
        .direction = SW_INBOUND,
        .src = *src,
        .dst = *dst,
        .src_workload = sw_state_workload_by_ip(w->state, w->env.network, &src->ip),
        .dst_workload = local,
        .service = sw_route_guess_service(w->state, local, sw_slice("", 0), dst->port),
    };

    sw_ledger_open(&p->rec, &w->book, &info);
}

void sw_plain_accept(struct sw_wpod *pod, int fd, const struct sw_addr *peer)
{
    struct sw_worker *w = pod->worker;
    struct sw_addr dst = sw_sock_original_dst(fd);
    struct sw_policy_verdict verdict;
    char reason[SW_ROUTE_REASON];
    char text[SW_ERRTEXT];
    struct plain *p;

    if (!sw_route_inbound_plain(&w->env, &dst, reason)) {
        sw_ledger_refused(&w->book, SW_INBOUND, peer, &dst, "self_call", reason);
        sw_sock_close(fd);
        return;
    }
    p = SW_NEW(struct plain);
    p->fd = fd;
    p->live = (struct sw_live){
        .inbound = true,
        .pod = pod,
        .src = *peer,
        .original_dst = dst,
        .actual_dst = dst,
        .protocol = SW_LIVE_TCP,
        .ops = &live_ops,
    };
    p->guard = (struct sw_guard){
        .pod = pod, .src_ip = &p->live.src.ip, .dst = dst, .waypoint = true, .deny = on_denied};
    /* Registered before the first decision, so a change cannot slip in between. */
    sw_list_push_back(&w->guards, &p->guard.link);
    sw_live_add(w, &p->live);
    sw_metric_add(w->sockets[SW_REPORTER_DESTINATION], 1);
    open_record(p, peer, &dst);
    if (!sw_worker_authorise(w, pod, &peer->ip, NULL, &dst, &verdict))
        end(p, SW_FLAG_DENY, sw_errtext_denied(verdict.text, text));
    else if (!sw_route_may_pass(w->state, &w->env, pod->local, &peer->ip, NULL, &dst))
        end(p, SW_FLAG_DENY,
            sw_errtext_denied("the destination has a waypoint and the caller is not it", text));
    else
        dial(p, peer, &dst);
}
