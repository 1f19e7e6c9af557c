/* SPDX-License-Identifier: Apache-2.0 */
#include "link/control.h"

#include "base/mem.h"
#include "http/grpc/grpc.h"
#include "http/h2client.h"
#include "telemetry/metrics.h"

enum { ASKS_MAX = 4096 }; /* under way at once, per worker */

static const char *const kinds[] = {
    [LINK_ASK_EGRESS] = "egress",
    [LINK_ASK_INGRESS] = "ingress",
    [LINK_ASK_TOKEN] = "token",
    [LINK_ASK_HEALTH] = "health",
};

struct link_control *link_control_new(const struct link_control_opts *o, struct sw_err *err)
{
    struct link_control *c = SW_NEW(struct link_control);

    c->o = *o;
    if ((o->clusterlink ? link_check_open(c, err) : link_http_open(c, err)) == SW_OK)
        return c;
    sw_free(c);
    return NULL;
}

void link_control_free(struct link_control *c)
{
    if (!c)
        return;
    link_control_review_cancel(c);
    sw_h2client_free(c->http);
    sw_grpc_client_free(c->grpc);
    sw_free(c);
}

void link_control_set_cred(struct link_control *c, struct sw_tls_cred *cred)
{
    if (c->http)
        sw_h2client_set_cred(c->http, cred);
    else
        sw_grpc_client_set_cred(c->grpc, cred);
}

static void count(const struct link_ask *a)
{
    struct sw_metrics_shard *shard = a->control->o.shard;
    const struct link_answer *r = &a->answer;
    const char *result = !r->reached        ? "unreachable"
                         : r->status == 200 ? "allowed"
                         : r->status >= 500 ? "failed"
                                            : "denied";
    const struct sw_slice labels[2] = {sw_slice_str(kinds[a->kind]), sw_slice_str(result)};

    if (!shard)
        return;
    sw_metric_add(sw_metric_get(shard, SW_METRIC_LINK_AUTHORISATIONS, labels), 1);
    sw_metric_observe(sw_metric_get1(shard, SW_METRIC_LINK_AUTHORISE_SECONDS, kinds[a->kind]),
                      (double)(sw_loop_now(a->control->o.loop) - a->start_ns) / 1e9);
}

int link_ask_start(struct link_control *c, struct link_ask *a, const struct link_question *q,
                   link_ask_cb cb)
{
    if (c->n_asks >= ASKS_MAX)
        return SW_ELIMIT;
    *a = (struct link_ask){
        .control = c, .kind = q->kind, .cb = cb, .start_ns = sw_loop_now(c->o.loop)};
    c->n_asks++;
    if (c->http)
        link_http_ask(a, q);
    else
        link_check_ask(a, q);
    return SW_OK;
}

/* The asker may go with the callback, or ask again. */
static void finish(struct link_ask *a)
{
    struct link_answer answer = a->answer;
    struct sw_arena arena = a->arena;

    count(a);
    a->control->n_asks--;
    a->control = NULL;
    a->call = NULL;
    a->check = NULL;
    a->arena = (struct sw_arena){0};
    a->cb(a, &answer);
    sw_arena_clear(&arena);
}

void link_ask_answered(struct link_ask *a)
{
    a->answer.reached = true;
    finish(a);
}

void link_ask_failed(struct link_ask *a, int rc, const char *why)
{
    a->answer = (struct link_answer){
        .status = 503,
        .reason = sw_slice_str(sw_arena_printf(&a->arena, "control plane %s: %s",
                                               rc == SW_ETIME ? "timed out" : "unreachable", why)),
    };
    a->answer.body = SW_SLICE_LIT("control plane unreachable");
    finish(a);
}

void link_ask_cancel(struct link_ask *a)
{
    if (!a->control)
        return;
    if (a->call)
        sw_h2call_cancel(a->call);
    if (a->check)
        sw_grpc_cancel(a->check);
    a->control->n_asks--;
    a->control = NULL;
    a->call = NULL;
    a->check = NULL;
    sw_arena_clear(&a->arena);
}
