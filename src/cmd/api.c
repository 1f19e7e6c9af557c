/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/api.h"

#include "base/time.h"
#include "io/loop.h"
#include "io/resolver.h"

enum { ASK_S = 15, PAGE_ITEMS = 500 };

int sw_cmd_api_start(struct sw_cmd_api *a, struct sw_kube_config *c, struct sw_err *err)
{
    a->loop = sw_loop_new(err);
    if (!a->loop) {
        sw_kube_config_done(c);
        return err->rc;
    }
    a->client = sw_kube_client_new(a->loop, c, NULL, err);
    return a->client ? SW_OK : err->rc;
}

int sw_cmd_api_open(struct sw_cmd_api *a, const char *kubeconfig, const char *context,
                    struct sw_err *err)
{
    struct sw_kube_config c = {0};
    int rc = sw_kube_config_find(kubeconfig, context, &c, err);

    return rc == SW_OK ? sw_cmd_api_start(a, &c, err) : rc;
}

void sw_cmd_api_close(struct sw_cmd_api *a)
{
    sw_kube_client_free(a->client);
    sw_resolver_stop(); /* before the loop that its answers go to */
    sw_loop_free(a->loop);
    sw_arena_clear(&a->arena);
}

/* ---- requests ---- */

struct asked {
    struct sw_arena *arena;
    struct sw_cmd_reply reply;
    bool done;
};

static void on_reply(void *arg, struct sw_kube_reply *r)
{
    struct asked *q = arg;

    q->done = true;
    q->reply = (struct sw_cmd_reply){.rc = r->rc,
                                     .code = r->code,
                                     .object = r->object ? sw_json_copy(q->arena, r->object) : NULL,
                                     .message = sw_arena_slice(q->arena, r->message)};
}

static int wait_for(struct sw_cmd_api *a, struct asked *q)
{
    while (!q->done)
        sw_loop_turn(a->loop, -1);
    return q->reply.rc;
}

static int report(const struct sw_cmd_reply *r, struct sw_err *err)
{
    return r->rc == SW_OK ? SW_OK
                          : sw_err_set(err, r->rc, "%.*s", SW_SLICE_ARG_MAX(r->message, 150));
}

int sw_cmd_api_do(struct sw_cmd_api *a, const struct sw_kube_req *req, struct sw_cmd_reply *ret)
{
    struct asked q = {.arena = &a->arena};
    struct sw_kube_req r = *req;

    if (!r.timeout_ns)
        r.timeout_ns = ASK_S * SW_NS_PER_S;
    (void)sw_kube_do(a->client, &r, on_reply, &q);
    (void)wait_for(a, &q);
    *ret = q.reply;
    return ret->rc;
}

int sw_cmd_api_ask(struct sw_cmd_api *a, const struct sw_kube_req *req, struct sw_json **ret,
                   struct sw_err *err)
{
    struct sw_cmd_reply r;
    int rc = sw_cmd_api_do(a, req, &r);

    if (rc == SW_OK && ret)
        *ret = r.object;
    return report(&r, err);
}

int sw_cmd_api_page(struct sw_cmd_api *a, struct sw_kube_req *req, const struct sw_json **ret,
                    struct sw_err *err)
{
    struct sw_json *page;
    int rc;

    req->verb = SW_KUBE_LIST;
    req->limit = PAGE_ITEMS;
    rc = sw_cmd_api_ask(a, req, &page, err);
    if (rc != SW_OK)
        return rc;
    req->continue_token = sw_json_str(sw_json_walk(page, "metadata", "continue", NULL));
    *ret = sw_json_find(page, "items");
    return SW_OK;
}

int sw_cmd_api_apply(struct sw_cmd_api *a, const struct sw_kube_apply *p, struct sw_err *err)
{
    struct asked q = {.arena = &a->arena};

    (void)sw_kube_apply(a->client, p, on_reply, &q);
    (void)wait_for(a, &q);
    return report(&q.reply, err);
}
