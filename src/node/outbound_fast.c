/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A destination on the same node: the tunnel would lead back into this process, so it is cut short.
 * The checks, counters and log lines are those of both ends of the tunnel; only the bytes skip it.
 */
#include <stdio.h>

#include "base/mem.h"
#include "node/inbound.h"
#include "node/outbound.h"

void outbound_fast_done(struct outbound *o, enum sw_response_flag flag, const char *error)
{
    struct outbound_fast *f = o->fast;

    if (!f)
        return;
    o->fast = NULL;
    sw_ledger_close(&f->rec, flag, error);
    sw_list_unlink(&f->guard.link);
    f->cred = sw_tls_cred_unref(f->cred);
    sw_free(f);
}

static void on_denied(struct sw_guard *g, const char *why)
{
    struct outbound_fast *f = SW_CONTAINER_OF(g, struct outbound_fast, guard);

    outbound_finish(f->out, SW_FLAG_DENY, "connection closed due to policy change");
}

static void on_dialled(struct sw_dial *d, int rc, const struct sw_err *err)
{
    struct outbound_setup *s = SW_CONTAINER_OF(d, struct outbound_setup, dial);
    struct outbound *o = s->out;
    struct outbound_fast *f = o->fast;
    struct sw_dialled dialled;
    char text[SW_ERRTEXT];

    if (rc != SW_OK) {
        outbound_fast_done(o, SW_FLAG_CONNECT, sw_errtext_connect(err, text));
        outbound_retry(o, SW_FLAG_CONNECT, sw_errtext_status(503, text));
        return;
    }
    sw_dial_take(d, &dialled);
    if (!sw_inbound_send_proxy_header(dialled.fd, &f->route, &o->live.src,
                                      sw_tls_cred_uri(f->cred))) {
        sw_dialled_close(&dialled);
        outbound_finish(o, SW_FLAG_CONNECT, "cannot write the PROXY header");
        return;
    }
    outbound_pump(o, &dialled);
}

static unsigned judge(struct outbound *o, struct sw_wpod *dst, struct outbound_fast *f)
{
    struct outbound_setup *s = o->setup;
    SW_BUF_AUTO forwarded = {.max = 1024};
    char trace[SW_TRACE_TEXT];
    struct sw_inbound_ask ask = {
        .dst = dst,
        .peer = o->live.src,
        .conn_dst = s->route.target,
        .src = sw_tls_cred_id(f->cred),
        .src_uri = sw_tls_cred_uri(f->cred),
        .authority = sw_slice_str(s->route.authority),
        .traceparent = sw_slice_str(sw_trace_text(&s->trace, trace)),
    };

    if (s->route.service &&
        sw_forwarded_build(&o->live.src, s->route.service->hostname, &forwarded) == SW_OK)
        ask.forwarded = sw_buf_slice(&forwarded);
    return sw_inbound_judge(outbound_worker(o), &ask, &f->rec, &f->route);
}

/*
 * Would the two certificates accept each other? The chains are our own; what a handshake would look
 * at besides is the trust domain, and the revocations where there are any: those take the tunnel.
 */
static bool trusts(const struct sw_tls_cred *dst, const struct sw_tls_cred *src)
{
    const struct sw_spiffe *a = sw_tls_cred_id(src);
    const struct sw_spiffe *b = sw_tls_cred_id(dst);

    return a && b && sw_slice_eq(a->trust_domain, b->trust_domain) && !sw_tls_cred_has_crl(dst) &&
           !sw_tls_cred_has_crl(src);
}

bool outbound_fast(struct outbound *o)
{
    struct sw_worker *w = outbound_worker(o);
    const struct sw_route_outbound *r = &o->setup->route;
    struct sw_wpod *dst = r->workload ? sw_worker_pod_of(w, r->workload) : NULL;
    struct outbound_fast *f;
    unsigned status;
    char text[SW_ERRTEXT];

    if (!w->config->tunnel.fast_path || r->kind != SW_ROUTE_HBONE || !r->authority_is_target ||
        r->via_waypoint || r->via_gateway || !dst || dst->pod->self || !o->live.pod->cred ||
        !dst->cred || !trusts(dst->cred, o->live.pod->cred))
        return false;
    f = SW_NEW(struct outbound_fast);
    f->out = o;
    f->cred = sw_tls_cred_ref(o->live.pod->cred);
    sw_list_init(&f->guard.link);
    o->fast = f;
    sw_metric_add(w->fast_path, 1);
    status = judge(o, dst, f);
    if (status != 200) {
        outbound_finish(o, SW_FLAG_CONNECT, sw_errtext_status(status, text));
        return true;
    }
    f->guard = (struct sw_guard){
        .pod = dst,
        .src_ip = &o->live.src.ip,
        .src = sw_tls_cred_id(f->cred),
        .dst = f->route.rbac_dst,
        .waypoint = f->route.by_address && !f->route.proxy_protocol,
        .deny = on_denied,
    };
    sw_list_push_back(&w->guards, &f->guard.link);
    sw_inbound_dial(w, dst, &f->route, &o->setup->dial, on_dialled);
    return true;
}
