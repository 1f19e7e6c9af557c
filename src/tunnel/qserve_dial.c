/* SPDX-License-Identifier: Apache-2.0 */
/* From a host and port to a connected socket: the name is looked up, its addresses are tried. */
#include "base/mem.h"
#include "io/sock.h"
#include "tunnel/qserve_int.h"

static void try_next(struct qs_exchange *x, const char *reason);

void qs_dial_cancel(struct qs_exchange *x)
{
    if (x->resolve)
        x->resolve->arg = NULL; /* its answer frees it */
    x->resolve = NULL;
    sw_dial_cancel(&x->dial);
}

static void unreachable(struct qs_exchange *x, const char *reason)
{
    qs_refuse(x, 502, "Origin Is Unreachable", reason);
}

static void on_dialled(struct sw_dial *d, int rc, const struct sw_err *err)
{
    struct qs_exchange *x = SW_CONTAINER_OF(d, struct qs_exchange, dial);
    struct sw_dialled done;

    if (rc != SW_OK) {
        try_next(x, rc == SW_ETIME ? "origin_timeout" : "origin_unreachable");
        return;
    }
    sw_dial_take(d, &done);
    qs_connected(x, &done, &x->addrs[x->next_addr - 1]);
}

static void try_next(struct qs_exchange *x, const char *reason)
{
    static const struct sw_sock_opts opts = SW_SOCK_OPTS_INIT;
    uint64_t now = sw_loop_now(x->v->loop);
    uint64_t left = x->dial_deadline_ns > now ? x->dial_deadline_ns - now : 0;
    size_t tries = x->n_addrs - x->next_addr;

    if (tries == 0 || left == 0) {
        unreachable(x, reason);
        return;
    }
    if (x->head.kind == SW_QKIND_UDP) { /* nothing to wait for */
        qs_connected(x, NULL, &x->addrs[x->next_addr++]);
        return;
    }
    sw_dial_start(&x->dial, x->v->loop,
                  &(struct sw_dial_target){
                      .to = &x->addrs[x->next_addr++], .opts = &opts, .timeout_ns = left / tries},
                  on_dialled);
}

static void on_resolved(struct sw_resolve *r)
{
    struct qs_exchange *x = r->arg;

    if (x) {
        x->resolve = NULL;
        x->n_addrs = 0;
        for (size_t i = 0; i < r->n && x->n_addrs < SW_ARRAY_LEN(x->addrs); i++) {
            struct sw_addr a = {.ip = r->ips[i], .port = x->head.port};

            if (qs_permits(x, &a))
                x->addrs[x->n_addrs++] = a;
        }
        if (r->rc != SW_OK || r->n == 0)
            unreachable(x, "origin_unknown");
        else if (x->n_addrs == 0)
            qs_refuse(x, 403, NULL, "address_denied");
        else
            try_next(x, "origin_unreachable");
    }
    sw_free(r);
}

static void on_timeout(struct sw_timer *t)
{
    struct qs_exchange *x = SW_CONTAINER_OF(t, struct qs_exchange, timer);

    qs_dial_cancel(x);
    unreachable(x, "origin_timeout");
}

static void resolve(struct qs_exchange *x)
{
    struct sw_resolve *r;

    if (x->head.host.n >= SW_RESOLVE_NAME) {
        unreachable(x, "origin_unknown");
        return;
    }
    r = SW_NEW(struct sw_resolve);
    r->loop = x->v->loop;
    r->cb = on_resolved;
    r->arg = x;
    memcpy(r->name, x->head.host.p, x->head.host.n);
    x->resolve = r;
    sw_resolve_start(r);
}

void qs_dial(struct qs_exchange *x)
{
    struct sw_dialled idle;
    struct sw_ip ip;

    if (qs_pool_take(x, &idle, &x->to)) {
        qs_http_start(x, &idle, true);
        return;
    }
    x->n_addrs = x->next_addr = 0;
    x->dial_deadline_ns = sw_loop_now(x->v->loop) + x->v->c.dial_timeout_ns;
    sw_timer_start(x->v->loop, &x->timer, x->v->c.dial_timeout_ns, on_timeout);
    if (x->verdict.dial.ip.family) {
        x->addrs[0] = x->verdict.dial;
    } else if (sw_ip_parse(x->head.host, &ip, NULL) == SW_OK) {
        x->addrs[0] = (struct sw_addr){.ip = ip, .port = x->head.port};
    } else {
        resolve(x);
        return;
    }
    x->n_addrs = 1;
    try_next(x, "origin_unreachable");
}
