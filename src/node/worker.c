/* SPDX-License-Identifier: Apache-2.0 */
/* What connections use of their worker. */
#include "node/worker.h"

#include <stdio.h>

#include "base/log.h"
#include "base/time.h"

enum { TUNE_S = 20 };

struct sw_sock_opts sw_worker_sock(const struct sw_worker *w, const struct sw_wpod *p)
{
    struct sw_sock_opts o = w->sock;

    o.netns_fd = p->pod->netns_fd;
    return o;
}

struct sw_sock_opts sw_worker_dial_sock(const struct sw_worker *w, const struct sw_wpod *p)
{
    struct sw_sock_opts o = sw_worker_sock(w, p);

    o.keepalive = false;
    o.user_timeout_ms = 0;
    return o;
}

struct sw_wpod *sw_worker_pod_of(struct sw_worker *w, const struct sw_workload *wl)
{
    SW_LIST_EACH (struct sw_wpod, p, &w->pods, link) {
        if (p->local && sw_workload_same(p->local, wl))
            return p;
    }
    return NULL;
}

static void log_dry_run(const struct sw_worker *w, const struct sw_policy_verdict *v)
{
    enum sw_log_level level = w->config->log.authz_info ? SW_LOG_INFO : SW_LOG_DEBUG;

    for (size_t i = 0; i < sw_min(v->n_dry, SW_POLICY_DRY_MAX); i++)
        sw_log(level, "authz", "dry-run policy %.*s matches; enforced it would %s",
               SW_SLICE_ARG(v->dry[i]->key), v->dry_allowed ? "allow" : "deny");
}

bool sw_worker_authorise(struct sw_worker *w, const struct sw_wpod *dst, const struct sw_ip *src_ip,
                         const struct sw_spiffe *src, const struct sw_addr *to,
                         struct sw_policy_verdict *verdict)
{
    struct sw_policy_request req = {
        .src_ip = *src_ip, .src = src, .dst_ip = to->ip, .dst_port = to->port};
    struct sw_policy_set set;

    if (!dst->local) {
        char text[SW_ERRTEXT];

        *verdict = (struct sw_policy_verdict){0};
        (void)snprintf(verdict->text, sizeof(verdict->text), "%s", sw_pod_unknown(dst->pod, text));
        return false;
    }
    set = sw_state_policies_for(w->state, dst->local);
    (void)sw_policy_decide(&set, &req, verdict);
    if (verdict->n_dry)
        log_dry_run(w, verdict);
    return verdict->allowed;
}

/* ---- open connections ---- */

static void wait_to_tune(struct sw_worker *w);

/* Most connections end before keep-alive could do anything: five system calls less for those. */
static void on_tune(struct sw_timer *t)
{
    struct sw_worker *w = SW_CONTAINER_OF(t, struct sw_worker, tune);
    bool more = false;

    SW_LIST_EACH (struct sw_live, l, &w->lives, link) {
        int fd = l->tuned || !l->ops->dialled ? -1 : l->ops->dialled(l);

        more = more || (!l->tuned && fd < 0);
        if (fd >= 0) {
            sw_sock_tune(fd, &w->sock);
            l->tuned = true;
        }
    }
    if (more)
        wait_to_tune(w);
}

static void wait_to_tune(struct sw_worker *w)
{
    uint64_t delay = sw_min(TUNE_S * SW_NS_PER_S, w->config->keepalive.time_ns / 2);

    if (w->config->keepalive.on && !sw_timer_running(&w->tune))
        sw_timer_start(w->loop, &w->tune, delay, on_tune);
}

void sw_live_add(struct sw_worker *w, struct sw_live *l)
{
    sw_list_push_back(&w->lives, &l->link);
    l->pod->users++;
    w->n_lives++;
    wait_to_tune(w);
}

void sw_live_remove(struct sw_worker *w, struct sw_live *l)
{
    if (!sw_list_linked(&l->link))
        return;
    sw_list_unlink(&l->link);
    l->pod->users--;
    w->n_lives--;
}
