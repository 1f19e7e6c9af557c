/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing of a request: verb and parameters; requests of the server's own, and restarts. */
#include "apiserver/api/api.h"
#include "apiserver/api/work.h"
#include "base/mem.h"

static const char *const verb_names[] = {
    [API_GET] = "get",       [API_LIST] = "list",
    [API_WATCH] = "watch",   [API_CREATE] = "create",
    [API_UPDATE] = "update", [API_PATCH] = "patch",
    [API_DELETE] = "delete", [API_DELETECOLLECTION] = "deletecollection",
};

const char *api_verb_name(enum api_verb v)
{
    return verb_names[v];
}

struct sw_slice api_param(const struct api_req *r, const char *name)
{
    const struct sw_query_param *p = sw_query_get(&r->query, name);

    return p ? p->value : sw_slice(NULL, 0);
}

bool api_param_bool(const struct api_req *r, const char *name)
{
    struct sw_slice v = api_param(r, name);

    return v.p && !sw_slice_ieq(v, SW_SLICE_LIT("false")) && !sw_slice_eq_str(v, "0");
}

bool api_param_int(struct api_req *r, const char *name, int64_t *ret)
{
    struct sw_slice v = api_param(r, name);
    uint64_t n = 0;
    bool negative = v.n && v.p[0] == '-';
    struct sw_slice digits = v.n && (negative || v.p[0] == '+') ? sw_slice_from(v, 1) : v;

    *ret = 0;
    if (!sw_query_get(&r->query, name))
        return true;
    if (!sw_slice_to_u64(digits, INT64_MAX, &n)) {
        api_bad_request(r, "strconv.ParseInt: parsing %s: invalid syntax",
                        sw_go_quote(r->arena, sw_slice_head(v, 256)));
        return false;
    }
    *ret = negative ? -(int64_t)n : (int64_t)n;
    return true;
}

void api_restart(struct api_req *r)
{
    struct api_req *fresh = r->exec.fresh;
    struct api_job *job = r->exec.job;

    r->snap = sw_store_snap_unref(r->snap);
    r->crd = api_crd_unref(r->crd);
    *r = *fresh;
    r->exec.fresh = fresh;
    r->exec.job = job;
    api_work_run(r, r->api->dispatch->resource, NULL);
}

/* --- requests of our own ---------------------------------------------------------------- */

static void on_internal(struct sw_defer *d)
{
    struct api_req *r = SW_CONTAINER_OF(d, struct api_req, own.start);

    if (r->api->phase.stopping || !r->api->store) {
        api_shutting_down(r);
        return;
    }
    r->api->dispatch->internal(r);
}

struct api_req *api_internal(struct sw_api *api, const struct api_internal_request *q,
                             api_done_cb cb, void *arg)
{
    const struct api_res *res = q->res;
    static struct sw_slice masters[] = {{"system:masters", 14}};
    struct api_req *r = SW_NEW(struct api_req);

    r->arena = &r->own_arena;
    r->api = api;
    r->verb = q->verb;
    r->res = res;
    if (res->crd)
        r->crd = api_crd_ref(res->crd);
    r->group = sw_slice_str(res->group);
    r->version = sw_slice_str(res->version);
    r->resource = sw_slice_str(res->plural);
    r->ns = sw_arena_slice(r->arena, q->ns);
    r->name = sw_arena_slice(r->arena, q->name);
    r->sub = q->sub ? sw_arena_slice(r->arena, sw_slice_str(q->sub)) : sw_slice("", 0);
    r->own.json = q->body ? sw_json_copy(r->arena, q->body) : NULL;
    r->is_resource = true;
    r->user = (struct api_user){
        .name = SW_SLICE_LIT("system:apiserver"), .groups = masters, .ngroups = 1};
    r->out.as_version = "v1";
    r->own.done = cb;
    r->own.done_arg = arg;
    r->record.warnings.arena = r->arena;
    sw_list_push_back(&api->internals, &r->link);
    sw_loop_defer(api->loop, &r->own.start, on_internal);
    return r;
}

void api_internal_drop(struct api_req *r)
{
    sw_defer_cancel(&r->own.start);
    sw_list_unlink(&r->link);
    r->snap = sw_store_snap_unref(r->snap);
    r->crd = api_crd_unref(r->crd);
    sw_arena_clear(&r->own_arena);
    sw_free(r);
}
