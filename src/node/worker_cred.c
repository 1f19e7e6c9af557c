/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates of a worker's pods: how they arrive, and connections that wait for them. */
#include "base/mem.h"
#include "base/time.h"
#include "node/inbound.h"
#include "node/worker.h"

enum { CRED_WAIT_S = 10 }; /* a connection waits no longer for a certificate */

/* ---- needing ---- */

struct need {
    struct sw_msg msg;
    void (*cb)(void *arg, struct sw_pod *pod);
    void *arg;
    struct sw_pod *pod; /* a reference */
};

static void on_need(struct sw_msg *m)
{
    struct need *n = SW_CONTAINER_OF(m, struct need, msg);

    n->cb(n->arg, n->pod);
    sw_free(n);
}

void sw_worker_need_cred(struct sw_wpod *p)
{
    struct sw_worker *w = p->worker;
    struct need *n;

    if (p->needed || p->cred)
        return;
    p->needed = true;
    n = SW_NEW(struct need);
    *n = (struct need){
        .msg = {.cb = on_need}, .cb = w->on_need, .arg = w->need_arg, .pod = sw_pod_ref(p->pod)};
    sw_loop_post(w->main, &n->msg);
}

/* ---- waiting ---- */

void sw_worker_cancel_wait(struct sw_worker *w, struct sw_cred_wait *wait)
{
    if (!wait->pod)
        return;
    sw_timer_stop(w->loop, &wait->deadline);
    sw_list_unlink(&wait->link);
    wait->pod = NULL;
}

static void end_wait(struct sw_cred_wait *wait, const char *error)
{
    sw_worker_cancel_wait(wait->pod->worker, wait);
    wait->cb(wait, error);
}

static void on_wait_deadline(struct sw_timer *t)
{
    end_wait(SW_CONTAINER_OF(t, struct sw_cred_wait, deadline),
             "no certificate for the local workload in time");
}

void sw_worker_wait_cred(struct sw_wpod *p, struct sw_cred_wait *wait,
                         void (*cb)(struct sw_cred_wait *wait, const char *error))
{
    struct sw_worker *w = p->worker;

    wait->pod = p;
    wait->cb = cb;
    sw_list_push_back(&w->cred_waits, &wait->link);
    sw_timer_start(w->loop, &wait->deadline, CRED_WAIT_S * SW_NS_PER_S, on_wait_deadline);
    sw_worker_need_cred(p);
}

/* A callback may end other connections that wait, which takes them off the list. */
static void wake_waits(struct sw_worker *w, const struct sw_wpod *p)
{
    struct sw_list ready;

    if (!p->cred && !p->cred_error)
        return;
    sw_list_init(&ready);
    SW_LIST_EACH (struct sw_cred_wait, wait, &w->cred_waits, link) {
        if (wait->pod != p)
            continue;
        sw_list_unlink(&wait->link);
        sw_list_push_back(&ready, &wait->link);
    }
    while (!sw_list_empty(&ready))
        end_wait(SW_CONTAINER_OF(ready.next, struct sw_cred_wait, link), p->cred_error);
}

/* ---- arriving ---- */

void sw_worker_take_cred(struct sw_wpod *p, struct sw_tls_cred *cred, char *error)
{
    struct sw_worker *w = p->worker;

    (void)sw_tls_cred_unref(p->cred);
    sw_free(p->cred_error);
    p->cred = cred;
    p->cred_error = error;
    p->needed = false;
    if (p->cred && sw_tls_cred_has_crl(p->cred))
        sw_inbound_recheck(w);
    wake_waits(w, p);
    sw_worker_serve_parked(w);
}
