/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/link_renew.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "cmd/join/state.h"
#include "identity/fabric.h"
#include "io/loop.h"
#include "telemetry/metrics.h"
#include "tls/cert/cred.h"

static const uint64_t first_wait_ns = 5 * SW_NS_PER_S;
static const uint64_t most_wait_ns = UINT64_C(3600) * SW_NS_PER_S;
static const uint64_t least_wait_ns = SW_NS_PER_S;
static const uint64_t warn_ns = UINT64_C(86400) * SW_NS_PER_S; /* between two warnings */

struct sw_control_link_renew {
    struct sw_loop *loop;
    const char *dir; /* borrowed; NULL: none */
    struct sw_metrics_shard *metrics;
    struct sw_timer timer;
    struct sw_join_renewal *renewal; /* under way */
    uint64_t ttl_s;                  /* of certificates that this site signs */
    char name[64];                   /* of the site */
    uint64_t end_s;                  /* of the certificate in use */
    uint64_t wait_ns;                /* after the last failure; 0: there was none */
};

static void on_due(struct sw_timer *t);

struct sw_control_link_renew *sw_control_link_renew_new(struct sw_loop *l, const char *dir,
                                                        uint64_t ttl_s,
                                                        struct sw_metrics_shard *metrics)
{
    struct sw_control_link_renew *r = SW_NEW(struct sw_control_link_renew);

    r->loop = l;
    r->dir = dir;
    r->ttl_s = ttl_s;
    r->metrics = metrics;
    return r;
}

void sw_control_link_renew_free(struct sw_control_link_renew *r)
{
    if (!r)
        return;
    sw_timer_stop(r->loop, &r->timer);
    sw_join_renewal_cancel(r->renewal);
    sw_free(r);
}

static void count(const struct sw_control_link_renew *r, const char *result)
{
    if (r->metrics)
        sw_metric_add(sw_metric_get1(r->metrics, SW_METRIC_LINK_FABRIC_RENEWALS, result), 1);
}

static uint64_t left_ns(const struct sw_control_link_renew *r)
{
    uint64_t now_ns = sw_wall_ns();
    uint64_t end_ns = r->end_s * SW_NS_PER_S;

    return end_ns > now_ns ? end_ns - now_ns : 0;
}

/* ---- failures ---- */

static void failed(struct sw_control_link_renew *r, const struct sw_err *err)
{
    uint64_t left = left_ns(r);
    uint64_t ns = r->wait_ns ? sw_min(2 * r->wait_ns, most_wait_ns) : first_wait_ns;

    r->wait_ns = ns;
    ns = ns - ns / 5 + sw_rand_below(ns * 2 / 5);
    if (left) /* several attempts before it ends, however short its life */
        ns = sw_min(ns, sw_max(left / 4, least_wait_ns));
    count(r, "failed");
    sw_log_warn("link",
                "fabric certificate in %s not renewed, valid for another %llu s, retrying in %llu "
                "s: %s",
                r->dir, (unsigned long long)(left / SW_NS_PER_S),
                (unsigned long long)(ns / SW_NS_PER_S), err->msg);
    sw_timer_start(r->loop, &r->timer, ns, on_due);
}

/* ---- renewing ---- */

/* The files are watched: a new certificate is read and used from there. If not, try again. */
static void renewed(struct sw_control_link_renew *r)
{
    count(r, "ok");
    sw_log_info("link", "fabric certificate in %s renewed", r->dir);
    sw_timer_start(r->loop, &r->timer, sw_max(left_ns(r) / 2, first_wait_ns), on_due);
}

static void on_renewed(void *arg, int rc, const struct sw_join_bundle *b, const struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_control_link_renew *r = arg;
    struct sw_machine m;
    struct sw_err why = {0};

    r->renewal = NULL;
    if (rc != SW_OK) {
        failed(r, err);
        return;
    }
    rc = sw_machine_load(&a, r->dir, &m, &why);
    if (rc == SW_OK)
        rc = sw_machine_save(r->dir, m.id, m.join_address, b, &why);
    if (rc != SW_OK) {
        failed(r, &why);
        return;
    }
    renewed(r);
}

/* The site that has the authority's key signs for itself. */
static void renew_own(struct sw_control_link_renew *r)
{
    struct sw_err err = {0};

    if (sw_fabric_renew(r->dir, r->name, r->ttl_s, &err) == SW_OK)
        renewed(r);
    else
        failed(r, &err);
}

static void warn(struct sw_control_link_renew *r)
{
    uint64_t left = left_ns(r);

    sw_log_warn(
        "link",
        "fabric certificate is valid for another %llu hours and is not renewed by itself, "
        "as %s was made by neither 'spanwire join' nor 'spanwire fabric create': replace it",
        (unsigned long long)(left / SW_NS_PER_S / 3600), r->dir ? r->dir : "Secret cl-peer");
    sw_timer_start(r->loop, &r->timer, warn_ns, on_due);
}

static void on_due(struct sw_timer *t)
{
    SW_ARENA_AUTO a = {0};
    struct sw_control_link_renew *r = SW_CONTAINER_OF(t, struct sw_control_link_renew, timer);
    struct sw_err err = {0};
    struct sw_machine m;
    int rc = r->dir ? sw_machine_load(&a, r->dir, &m, &err) : SW_ENOENT;

    if (rc == SW_ENOENT && r->dir && sw_fabric_signs(r->dir)) {
        renew_own(r);
        return;
    }
    if (rc == SW_ENOENT || (rc == SW_OK && m.kind != SW_JOIN_PEER)) {
        warn(r);
        return;
    }
    if (rc == SW_OK)
        r->renewal = sw_machine_renewal_start(r->loop, r->dir, &m, on_renewed, r, &err);
    if (!r->renewal)
        failed(r, &err);
}

/* Two thirds of its life, which may have been back-dated. */
static uint64_t delay_of(uint64_t begin_s, uint64_t end_s)
{
    uint64_t now_s = sw_wall_ns() / SW_NS_PER_S;
    uint64_t at_s = end_s > begin_s ? begin_s + (end_s - begin_s) / 3 * 2 : 0;

    if (at_s > now_s)
        return (at_s - now_s) * SW_NS_PER_S;
    return sw_max(end_s > now_s ? (end_s - now_s) / 3 * 2 : 0, 1) * SW_NS_PER_S;
}

void sw_control_link_renew_set(struct sw_control_link_renew *r, struct sw_slice name,
                               const struct sw_tls_cred *cred)
{
    uint64_t end_s = sw_tls_cred_not_after(cred);

    if (r->metrics)
        sw_metric_set(sw_metric_get1(r->metrics, SW_METRIC_CERT_EXPIRY, "fabric"), (int64_t)end_s);
    if (end_s == r->end_s) /* files are read more than once for one renewal */
        return;
    (void)snprintf(r->name, sizeof(r->name), "%.*s", SW_SLICE_ARG(name));
    r->end_s = end_s;
    r->wait_ns = 0;
    if (!r->renewal)
        sw_timer_start(r->loop, &r->timer, delay_of(sw_tls_cred_not_before(cred), end_s), on_due);
}
