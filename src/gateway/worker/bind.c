/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/worker/bind.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/vec.h"
#include "gateway/config/config.h"
#include "gateway/conn/worker.h"
#include "gateway/worker/process.h"
#include "gateway/worker/ready.h"
#include "gateway/xds/store.h"
#include "gateway/xds/xds.h"
#include "io/port.h"

enum {
    AUDIT_S = 5,         /* between two looks for programs that joined a port */
    APPLY_S = 2,         /* then the xDS server gets its answer without the workers' word */
    TEXT_MAX = 64 << 10, /* of what the xDS server gets */
};

/* A worker's last report. */
struct report {
    struct sw_msg msg;
    struct sw_gw_bind *bind;
    unsigned worker;
    uint64_t version; /* of the configuration it applied */
    size_t n;
    struct sw_gw_unbound *v; /* owned */
};

/* A port that is not, or not only, ours. One for all workers. */
struct problem {
    struct sw_slice name; /* owned: the listener's */
    struct sw_addr at;    /* as configured */
    struct sw_addr tried; /* what was to be bound */
    bool udp;
    bool shared; /* bound, and another program has it too */
    bool seen;   /* while problems are collected */
    bool looked; /* for the holder, the same */
    int sys_errno;
    uint32_t inode; /* of the holder's socket; 0: not known */
    char holder[96];
    char task[64]; /* in readiness */
};

struct sw_gw_bind {
    struct sw_gateway *gw;
    struct report **reports; /* by worker, owned; NULL: none yet */
    SW_VEC(struct problem *) problems;
    struct sw_timer audit;
    struct sw_timer apply;
    uint64_t sent_version; /* the newest configuration with other listeners */
    bool stopped;
    /* Ports of the configuration, as bits; for the audit. */
    uint64_t ports[2][65536 / 64];
};

/* ---- from a worker's thread ---- */

void sw_gw_bind_failed(struct sw_gw_worker *w, struct sw_gw_listener *l, const struct sw_addr *at,
                       const struct sw_addr *tried, int sys_errno)
{
    sw_vec_push(&w->unbound, (struct sw_gw_unbound){.listener = sw_gw_listener_ref(l),
                                                    .at = *at,
                                                    .tried = *tried,
                                                    .udp = l->kind == SW_GW_LISTEN_UDP,
                                                    .sys_errno = sys_errno});
}

static void report_free(struct report *r)
{
    for (size_t i = 0; r && i < r->n; i++)
        (void)sw_gw_listener_unref(r->v[i].listener);
    if (r)
        sw_free(r->v);
    sw_free(r);
}

static void on_report(struct sw_msg *m);

void sw_gw_bind_report(struct sw_gw_worker *w, bool always)
{
    struct report *r;

    if (w->unbound.n == 0 && !w->reported_unbound && !always)
        return;
    r = SW_NEW(struct report);
    r->bind = w->gw->bind;
    r->worker = w->index;
    r->version = w->view->config->version;
    r->n = w->unbound.n;
    r->v = w->unbound.p;
    w->reported_unbound = r->n > 0;
    w->unbound.p = NULL; /* handed over */
    sw_vec_done(&w->unbound);
    r->msg.cb = on_report;
    sw_loop_post(w->gw->process.loop, &r->msg);
}

/* ---- problems ---- */

static const char *problem_text(const struct problem *p, char *buf, size_t cap)
{
    char at[SW_ADDR_TEXT];

    (void)snprintf(buf, cap, "cannot bind '%s': %s%s%s", sw_addr_text(&p->tried, at),
                   sw_errno_text(p->sys_errno),
                   p->holder[0] ? (p->shared ? ", shared with " : ", held by ") : "", p->holder);
    return buf;
}

static void log_problem(const struct problem *p)
{
    char text[256];

    sw_log_error("gateway", "listener '%.*s': %s; %s", SW_SLICE_ARG(p->name),
                 problem_text(p, text, sizeof(text)),
                 p->shared ? "it gets a part of the connections" : "will try again");
}

static struct problem *find(const struct sw_gw_bind *b, const struct sw_addr *at, bool udp)
{
    SW_VEC_EACH (struct problem, p, &b->problems) {
        if (p->udp == udp && sw_addr_eq(&p->at, at))
            return p;
    }
    return NULL;
}

/* The holder's name costs a walk through /proc, so it is looked up once per socket. */
static void set_holder(struct problem *p, const struct sw_port_holder *h, bool *ret_changed)
{
    if (p->inode == h->inode && p->holder[0])
        return;
    p->inode = h->inode;
    sw_port_holder_name(h, p->holder, sizeof(p->holder));
    *ret_changed = true;
}

static void find_holder(struct sw_gw_bind *b, struct problem *p, bool *ret_changed)
{
    struct sw_port_holder h;
    int rc;

    if (p->sys_errno != EADDRINUSE || p->looked)
        return;
    p->looked = true;
    rc = sw_port_find_foreign(-1, &p->tried, p->udp, b->gw->port_group, &h, NULL);
    if (rc == SW_OK)
        set_holder(p, &h, ret_changed);
    else if (!p->holder[0])
        (void)snprintf(p->holder, sizeof(p->holder), "another process");
}

static struct problem *note(struct sw_gw_bind *b, const struct sw_gw_unbound *u, bool shared,
                            bool *ret_changed)
{
    const struct sw_gw_listener *l = u->listener;
    struct problem *p = find(b, &u->at, u->udp);

    if (!p) {
        p = SW_NEW(struct problem);
        p->name = sw_slice_copy(l->name);
        p->at = u->at;
        p->udp = u->udp;
        (void)snprintf(p->task, sizeof(p->task), "listener %.*s", SW_SLICE_ARG_MAX(l->name, 50));
        sw_vec_push(&b->problems, p);
        sw_ready_add(b->gw->process.ready, p->task);
        *ret_changed = true;
    }
    *ret_changed |= p->shared != shared || p->sys_errno != u->sys_errno;
    p->tried = u->tried;
    p->shared = shared;
    p->sys_errno = u->sys_errno;
    p->seen = true;
    return p;
}

static void problem_free(struct problem *p)
{
    sw_slice_free(&p->name);
    sw_free(p);
}

static bool task_used(const struct sw_gw_bind *b, const char *task)
{
    SW_VEC_EACH (const struct problem, p, &b->problems) {
        if (strcmp(p->task, task) == 0)
            return true;
    }
    return false;
}

/* Does the newest configuration have the listener? */
static bool is_wanted(const struct sw_gw_bind *b, struct sw_slice name)
{
    const struct sw_gw_config *c = sw_gw_store_config(b->gw->store);

    return c && sw_map_get(&c->listeners->map, name);
}

/* Drops the problems of a kind that were not seen again. */
static bool sweep(struct sw_gw_bind *b, bool shared)
{
    bool changed = false;

    for (size_t i = b->problems.n; i-- > 0;) {
        struct problem *p = b->problems.p[i];
        char at[SW_ADDR_TEXT];

        if (p->seen || p->shared != shared)
            continue;
        sw_log_info("gateway", "listener '%.*s': %s is %s", SW_SLICE_ARG(p->name),
                    sw_addr_text(&p->at, at), is_wanted(b, p->name) ? "bound" : "not needed");
        (void)sw_vec_swap_remove(&b->problems, i);
        if (!task_used(b, p->task))
            sw_ready_done(b->gw->process.ready, p->task);
        problem_free(p);
        changed = true;
    }
    return changed;
}

static void unsee(struct sw_gw_bind *b)
{
    SW_VEC_EACH (struct problem, p, &b->problems)
        p->seen = p->looked = false;
}

/* ---- to the xDS server ---- */

/* In the form Envoy refuses listeners in, so that a control plane reads both alike. */
static void notify_server(struct sw_gw_bind *b)
{
    SW_BUF_AUTO out = {.max = TEXT_MAX};
    char text[256];

    if (!b->gw->xds)
        return;
    SW_VEC_EACH (const struct problem, p, &b->problems) {
        /* Causes beyond the limit are left out: they show once the others are fixed. */
        if (sw_buf_printf(&out, "%s%.*s: %s",
                          sw_buf_len(&out) ? "\n" : "Error adding/updating listener(s) ",
                          SW_SLICE_ARG(p->name), problem_text(p, text, sizeof(text))) != SW_OK)
            break;
    }
    sw_gw_xds_set_trouble(b->gw->xds, sw_buf_slice(&out));
}

static bool all_applied(const struct sw_gw_bind *b)
{
    for (size_t i = 0; i < b->gw->n_workers; i++) {
        if (!b->reports[i] || b->reports[i]->version < b->sent_version)
            return false;
    }
    return true;
}

static void release(struct sw_gw_bind *b)
{
    sw_timer_stop(b->gw->process.loop, &b->apply);
    if (b->gw->xds)
        sw_gw_xds_applied(b->gw->xds);
}

static void on_apply(struct sw_timer *t)
{
    release(SW_CONTAINER_OF(t, struct sw_gw_bind, apply));
}

void sw_gw_bind_sent(struct sw_gw_bind *b, uint64_t version)
{
    b->sent_version = version;
    sw_timer_start(b->gw->process.loop, &b->apply, APPLY_S * SW_NS_PER_S, on_apply);
}

/* ---- reports ---- */

static void on_report(struct sw_msg *m)
{
    struct report *r = SW_CONTAINER_OF(m, struct report, msg);
    struct sw_gw_bind *b = r->bind;
    bool changed = false;

    if (b->stopped) {
        report_free(r);
        return;
    }
    report_free(b->reports[r->worker]);
    b->reports[r->worker] = r;
    unsee(b);
    for (size_t i = 0; i < b->gw->n_workers; i++) {
        const struct report *w = b->reports[i];

        for (size_t k = 0; w && k < w->n; k++) {
            bool fresh = false;
            struct problem *p = note(b, &w->v[k], false, &fresh);

            find_holder(b, p, &fresh);
            if (fresh)
                log_problem(p);
            changed |= fresh;
        }
    }
    changed |= sweep(b, false);
    if (changed) {
        notify_server(b);
        sw_gateway_log_ready(b->gw);
    }
    if (all_applied(b))
        release(b);
}

/* ---- programs that joined ---- */

static bool has_port(const struct sw_gw_bind *b, bool udp, uint16_t port)
{
    return (b->ports[udp][port / 64] >> (port % 64)) & 1;
}

static void collect_ports(struct sw_gw_bind *b, const struct sw_gw_config *c)
{
    memset(b->ports, 0, sizeof(b->ports));
    for (size_t i = 0; i < c->n_list; i++) {
        const struct sw_gw_listener *l = c->list[i];

        for (size_t k = 0; l->bind && k < l->n_addrs; k++) {
            uint16_t port = l->addrs[k].ip.port;

            if (l->addrs[k].kind == SW_GW_ADDR_IP)
                b->ports[l->kind == SW_GW_LISTEN_UDP][port / 64] |= UINT64_C(1) << (port % 64);
        }
    }
}

struct look {
    struct sw_gw_bind *bind;
    const struct sw_gw_config *config;
    bool udp;
    bool changed;
};

static void look_at(struct look *k, struct sw_gw_listener *l, const struct sw_addr *at,
                    const struct sw_port_holder *h)
{
    const struct sw_gw_unbound u = {
        .listener = l, .at = *at, .tried = *at, .udp = k->udp, .sys_errno = EADDRINUSE};
    struct problem *p = find(k->bind, at, k->udp);
    bool fresh = false;

    if (!sw_port_overlaps(at, h) || (p && !p->shared) ||
        sw_port_is_marked(-1, k->bind->gw->port_group, h->inode))
        return;
    p = note(k->bind, &u, true, &fresh);
    set_holder(p, h, &fresh);
    if (fresh)
        log_problem(p);
    k->changed |= fresh;
}

static void on_socket(const struct sw_port_holder *h, void *arg)
{
    struct look *k = arg;

    if (!has_port(k->bind, k->udp, h->at.port))
        return;
    for (size_t i = 0; i < k->config->n_list; i++) {
        struct sw_gw_listener *l = k->config->list[i];

        if (!l->bind || (l->kind == SW_GW_LISTEN_UDP) != k->udp)
            continue;
        for (size_t a = 0; a < l->n_addrs; a++) {
            if (l->addrs[a].kind == SW_GW_ADDR_IP && l->addrs[a].ip.port == h->at.port)
                look_at(k, l, &l->addrs[a].ip, h);
        }
    }
}

static void on_audit(struct sw_timer *t)
{
    struct sw_gw_bind *b = SW_CONTAINER_OF(t, struct sw_gw_bind, audit);
    const struct sw_gw_config *c = b->gw->store ? sw_gw_store_config(b->gw->store) : NULL;
    struct look k = {.bind = b, .config = c};
    int rc = SW_OK;

    sw_timer_start(b->gw->process.loop, &b->audit, AUDIT_S * SW_NS_PER_S, on_audit);
    if (!c || b->gw->process.crew.draining)
        return;
    collect_ports(b, c);
    unsee(b);
    for (int udp = 0; udp < 2 && rc == SW_OK; udp++) {
        k.udp = udp;
        rc = sw_port_holders(-1, 0, udp, on_socket, &k, NULL);
    }
    if (rc == SW_OK)
        k.changed |= sweep(b, true);
    if (k.changed)
        notify_server(b);
}

/* ---- pages ---- */

int sw_gw_bind_page(const struct sw_gw_bind *b, struct sw_buf *out)
{
    const struct sw_gw_config *c = sw_gw_store_config(b->gw->store);
    int rc = SW_OK;

    for (size_t i = 0; c && i < c->n_list; i++) {
        const struct sw_gw_listener *l = c->list[i];

        for (size_t k = 0; l->bind && k < l->n_addrs && rc == SW_OK; k++) {
            const struct problem *p;
            char at[SW_ADDR_TEXT];
            char text[256];

            if (l->addrs[k].kind != SW_GW_ADDR_IP)
                continue;
            p = find(b, &l->addrs[k].ip, l->kind == SW_GW_LISTEN_UDP);
            rc = sw_buf_printf(out, "%.*s::%s%s%s\n", SW_SLICE_ARG(l->name),
                               sw_addr_text(&l->addrs[k].ip, at), p ? " " : "",
                               p ? problem_text(p, text, sizeof(text)) : "");
        }
    }
    return rc;
}

size_t sw_gw_bind_count(const struct sw_gw_bind *b)
{
    size_t n = 0;

    for (size_t i = 0; i < b->gw->n_workers; i++)
        n += b->reports[i] ? b->reports[i]->n : 0;
    SW_VEC_EACH (const struct problem, p, &b->problems)
        n += p->shared;
    return n;
}

/* ---- life ---- */

struct sw_gw_bind *sw_gw_bind_new(struct sw_gateway *g)
{
    struct sw_gw_bind *b = SW_NEW(struct sw_gw_bind);

    b->gw = g;
    b->reports = SW_NEW_ARRAY(struct report *, g->n_workers + 1);
    sw_timer_start(g->process.loop, &b->audit, AUDIT_S * SW_NS_PER_S, on_audit);
    return b;
}

void sw_gw_bind_stop(struct sw_gw_bind *b)
{
    if (!b)
        return;
    b->stopped = true;
    sw_timer_stop(b->gw->process.loop, &b->audit);
    sw_timer_stop(b->gw->process.loop, &b->apply);
}

void sw_gw_bind_free(struct sw_gw_bind *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->gw->n_workers; i++)
        report_free(b->reports[i]);
    sw_free(b->reports);
    SW_VEC_EACH (struct problem, p, &b->problems)
        problem_free(p);
    sw_vec_done(&b->problems);
    sw_free(b);
}
