/* SPDX-License-Identifier: Apache-2.0 */
/* Lists, page after page. */
#include "base/mem.h"
#include "kube/client/client_int.h"

enum { PAGE = 500, PAGES_MAX = 1000000 };

struct sw_kube_lister {
    struct sw_kube_client *client;
    struct sw_kube_call *call;
    struct sw_arena arena; /* texts of the request, and the token */
    struct sw_kube_req req;
    char *token; /* owned */
    char *rv;    /* of the first page; owned */
    bool restarted;
    uint32_t pages;
    struct sw_kube_list_cbs cbs;
    void *arg;
};

static void lister_free(struct sw_kube_lister *l)
{
    sw_arena_clear(&l->arena);
    sw_free(l->token);
    sw_free(l->rv);
    sw_free(l);
}

static void ask(struct sw_kube_lister *l);

static void finish(struct sw_kube_lister *l, const struct sw_kube_reply *r)
{
    l->cbs.done(l->arg, r, sw_slice_str(l->rv));
    lister_free(l);
}

static void begin_anew(struct sw_kube_lister *l)
{
    l->restarted = true;
    l->req.limit = 0;
    l->req.continue_token = sw_slice(NULL, 0);
    l->req.resource_version = sw_slice(NULL, 0);
    l->req.resource_version_match = NULL;
    l->pages = 0;
    sw_free(l->rv);
    l->rv = NULL;
    l->cbs.restart(l->arg);
    ask(l);
}

static void on_page(void *arg, struct sw_kube_reply *r)
{
    struct sw_kube_lister *l = arg;
    const struct sw_json *meta = sw_json_find(r->object, "metadata");
    const struct sw_json *items = sw_json_find(r->object, "items");
    struct sw_slice next = sw_json_str(sw_json_find(meta, "continue"));

    l->call = NULL;
    if (r->rc != SW_OK && r->code == 410 && l->pages && !l->restarted) {
        begin_anew(l);
        return;
    }
    if (r->rc == SW_OK && items && items->type != SW_JSON_ARRAY && items->type != SW_JSON_NULL) {
        r->rc = SW_EPROTO;
        r->message = SW_SLICE_LIT("the answer is no list");
    }
    if (r->rc != SW_OK) {
        finish(l, r);
        return;
    }
    if (!l->rv)
        l->rv = sw_slice_dup(sw_json_str(sw_json_find(meta, "resourceVersion")));
    sw_free(l->token);
    l->token = next.n ? sw_slice_dup(next) : NULL;
    /* Counted before the callback, which may cancel. */
    l->pages++;
    if (l->token && l->pages < PAGES_MAX) {
        l->req.continue_token = sw_slice_str(l->token);
        l->req.resource_version = sw_slice(NULL, 0);
        l->req.resource_version_match = NULL;
        ask(l);
        l->cbs.page(l->arg, items, r->arena);
        return;
    }
    l->cbs.page(l->arg, items, r->arena);
    finish(l, r);
}

static void ask(struct sw_kube_lister *l)
{
    l->call = sw_kube_do(l->client, &l->req, on_page, l);
}

static const char *keep(struct sw_arena *a, const char *s)
{
    return s ? sw_arena_dup(a, sw_slice_str(s)) : NULL;
}

struct sw_kube_lister *sw_kube_list(struct sw_kube_client *c, const struct sw_kube_req *req,
                                    const struct sw_kube_list_cbs *cbs, void *arg)
{
    struct sw_kube_lister *l = SW_NEW(struct sw_kube_lister);
    struct sw_arena *a = &l->arena;

    l->client = c;
    l->cbs = *cbs;
    l->arg = arg;
    l->req = *req;
    l->req.verb = SW_KUBE_LIST;
    l->req.limit = req->limit ? req->limit : PAGE;
    l->req.ns = sw_arena_slice(a, req->ns);
    l->req.label_selector = keep(a, req->label_selector);
    l->req.field_selector = keep(a, req->field_selector);
    l->req.resource_version = sw_arena_slice(a, req->resource_version);
    l->req.resource_version_match = keep(a, req->resource_version_match);
    ask(l);
    return l;
}

void sw_kube_list_cancel(struct sw_kube_lister *l)
{
    if (!l)
        return;
    sw_kube_call_cancel(l->call);
    lister_free(l);
}
