/* SPDX-License-Identifier: Apache-2.0 */
#include "apiserver/dispatch.h"

#include <stdio.h>
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/api/fair.h"
#include "apiserver/api/work.h"
#include "apiserver/auth/auth.h"
#include "apiserver/health.h"
#include "apiserver/verbs/verbs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "kube/select/fieldsel.h"

/* --- the path --------------------------------------------------------------------------- */

static bool split_path(struct api_req *r, struct sw_slice path)
{
    struct sw_slice rest = sw_slice_from(path, 1);
    SW_BUF_AUTO whole = {.max = 65536};
    int rc = SW_OK;

    while (rest.p && rc == SW_OK) {
        struct sw_slice seg;

        if (sw_percent_decode(r->arena, sw_slice_cut(&rest, '/'), false, &seg, NULL) != SW_OK)
            return false;
        rc = sw_buf_putc(&whole, '/');
        if (rc == SW_OK)
            rc = sw_buf_append_slice(&whole, seg);
        if (seg.n == 0)
            continue; /* doubled and trailing slashes count for nothing */
        if (r->path_segments.n == SW_ARRAY_LEN(r->path_segments.rest))
            return false;
        r->path_segments.rest[r->path_segments.n++] = seg;
    }
    r->path = sw_arena_slice(r->arena, sw_buf_slice(&whole));
    return rc == SW_OK;
}

static bool seg_is(const struct api_req *r, size_t i, const char *s)
{
    return i < r->path_segments.n && sw_slice_eq_str(r->path_segments.rest[i], s);
}

/* Group and version; the index behind them, or 0 when the path is no resource's. */
static size_t parse_group(struct api_req *r)
{
    if (seg_is(r, 0, "api") && r->path_segments.n >= 3) {
        r->version = r->path_segments.rest[1];
        r->group = sw_slice("", 0);
        return 2;
    }
    if (seg_is(r, 0, "apis") && r->path_segments.n >= 4) {
        r->group = r->path_segments.rest[1];
        r->version = r->path_segments.rest[2];
        return 3;
    }
    return 0;
}

static void parse_resource(struct api_req *r)
{
    size_t i = parse_group(r);

    r->resource = r->sub = r->ns = r->name = sw_slice("", 0);
    if (i == 0)
        return;
    if (seg_is(r, i, "watch") && r->path_segments.n > i + 1) {
        r->watch_prefix = true;
        i++;
    }
    if (seg_is(r, i, "namespaces") && r->path_segments.n > i + 2 && !seg_is(r, i + 2, "status") &&
        !seg_is(r, i + 2, "finalize")) {
        r->ns = r->path_segments.rest[i + 1];
        i += 2;
    }
    r->is_resource = true;
    r->resource = r->path_segments.rest[i];
    if (r->path_segments.n > i + 1)
        r->name = r->path_segments.rest[i + 1];
    if (r->path_segments.n > i + 2)
        r->sub = r->path_segments.rest[i + 2];
    r->path_segments.over = r->path_segments.n > i + 3; /* deeper than anything served here */
    /* The namespace of a Namespace is itself, for authorization. */
    if (sw_slice_eq_str(r->resource, "namespaces") && r->name.n && r->group.n == 0 && !r->ns.n)
        r->ns = r->name;
}

static bool parse_verb(struct api_req *r)
{
    struct sw_slice m = r->method;

    if (sw_slice_eq_str(m, "POST"))
        r->verb = API_CREATE;
    else if (sw_slice_eq_str(m, "PUT"))
        r->verb = API_UPDATE;
    else if (sw_slice_eq_str(m, "PATCH"))
        r->verb = API_PATCH;
    else if (sw_slice_eq_str(m, "DELETE"))
        r->verb = r->name.n ? API_DELETE : API_DELETECOLLECTION;
    else if (!sw_slice_eq_str(m, "GET") && !sw_slice_eq_str(m, "HEAD"))
        return false;
    else if (r->watch_prefix || (api_param_bool(r, "watch") && r->name.n == 0))
        r->verb = API_WATCH;
    else
        r->verb = r->name.n ? API_GET : API_LIST;
    return true;
}

/* fieldSelector=metadata.name=X on a collection means that one object for authorization. */
static void name_from_selector(struct api_req *r)
{
    struct sw_field_selector f;
    const char *why;
    struct sw_slice v;
    struct sw_slice text = api_param(r, "fieldSelector");

    if (r->name.n || !text.n || (r->verb != API_LIST && r->verb != API_WATCH))
        return;
    if (sw_field_selector_parse(r->arena, text, &f, &why) == SW_OK &&
        sw_field_selector_exact(&f, "metadata.name", &v) && v.n && !sw_name_path_segment(v).n)
        r->name = v;
}

/* False: a verb of one object on a collection or the other way around, an error was sent. */
static bool path_fits(struct api_req *r)
{
    bool named = r->name.n > 0;

    if ((r->verb == API_UPDATE || r->verb == API_PATCH) && !named) {
        if (r->res->builtin)
            api_not_allowed(r);
        else
            api_bad_request(r, "name must be provided");
        return false;
    }
    /* Custom resources take the name from the body. */
    if (r->verb == API_CREATE && named && r->res->builtin) {
        api_not_allowed(r);
        return false;
    }
    return true;
}

static const struct sw_builtin_sub *find_sub(const struct api_req *r)
{
    const struct sw_builtin *b = r->res->builtin;

    for (const struct sw_builtin_sub *s = b ? b->subs : NULL; s && s->name; s++) {
        if (sw_slice_eq_str(r->sub, s->name))
            return s;
    }
    return NULL;
}

static void run_subresource(struct api_req *r)
{
    bool known = r->res->builtin ? find_sub(r) != NULL
                                 : (sw_slice_eq_str(r->sub, "status") && r->res->has_status) ||
                                       (sw_slice_eq_str(r->sub, "scale") && r->res->has_scale);

    if (!known) {
        /* The reference answers with the object's own 404 for custom resources. */
        if (r->res->crd)
            api_not_found(r);
        else
            api_no_such_resource(r);
    } else if (sw_slice_eq_str(r->sub, "token")) {
        if (r->verb == API_CREATE)
            api_token_request(r);
        else
            api_not_allowed(r);
    } else if (sw_slice_eq_str(r->sub, "scale")) {
        api_scale(r);
    } else if (r->verb == API_GET && !sw_slice_eq_str(r->sub, "finalize")) {
        api_get(r);
    } else if (r->verb == API_UPDATE) {
        api_update(r);
    } else if (r->verb == API_PATCH && !sw_slice_eq_str(r->sub, "finalize")) {
        api_patch(r);
    } else {
        api_not_allowed(r);
    }
}

static const struct {
    void (*run)(struct api_req *r);
    unsigned bit; /* in the verbs of a resource */
} verbs[] = {
    [API_GET] = {api_get, SW_VERB_GET},
    [API_LIST] = {api_list, SW_VERB_LIST},
    [API_WATCH] = {api_watch, SW_VERB_WATCH},
    [API_CREATE] = {api_create, SW_VERB_CREATE},
    [API_UPDATE] = {api_update, SW_VERB_UPDATE},
    [API_PATCH] = {api_patch, SW_VERB_PATCH},
    [API_DELETE] = {api_delete, SW_VERB_DELETE},
    [API_DELETECOLLECTION] = {api_delete_collection, SW_VERB_DELETECOLLECTION},
};

static bool scope_ok(const struct api_req *r)
{
    bool is_ns_kind = sw_slice_eq_str(r->resource, "namespaces") && r->group.n == 0;

    /* Namespaces do not live in one: "namespaces/a/namespaces" would be judged by rights in 'a'. */
    if (!r->res->namespaced)
        return r->ns.n == 0 || (is_ns_kind && r->ns.p == r->name.p);
    if (r->ns.n)
        return true;
    return r->verb == API_LIST || r->verb == API_WATCH;
}

/*
 * `kubectl describe namespace` lists LimitRanges without checking whether they exist. There are
 * none, which is a truer answer than 404.
 */
static bool always_empty(struct api_req *r)
{
    struct sw_arena *a = r->arena;
    struct sw_json *v;

    if (r->verb != API_LIST || r->group.n || !sw_slice_eq_str(r->version, "v1") ||
        !sw_slice_eq_str(r->resource, "limitranges"))
        return false;
    v = SW_JSON_OF(a, {"kind", .str = "LimitRangeList"}, {"apiVersion", .str = "v1"},
                   {"metadata", .json = sw_json_new_object(a)},
                   {"items", .json = sw_json_new_array(a)});
    api_set_rv(a, v, sw_store_revision(r->api->store));
    api_reply(r, 200, v);
    return true;
}

/* A client gets objects as they are meant, or none. */
static bool convertible(struct api_req *r)
{
    const char *why = r->x ? api_no_conversion(r->arena, r->res, r->res) : NULL;

    if (why)
        api_fail(r, 500, "InternalError", "Internal error occurred: %s", why);
    return !why;
}

static void run_resource(struct api_req *r, void *arg);

static void on_compiled(struct api_req *r, void *arg)
{
    if (r->api->phase.stopping || !r->api->store)
        api_shutting_down(r);
    else
        run_resource(r, NULL);
}

/* On a worker. */
static bool compiled(struct api_req *r)
{
    api_off_loop();
    (void)api_res_schema(r->res);
    api_on_loop();
    return !api_work_ended(r);
}

/* The worker only compiles: the request itself, a watch above all, is handled on the loop. */
static void compile_work(struct api_req *r, void *arg)
{
    if (!compiled(r))
        return;
    r->crd = api_crd_unref(r->crd);
    r->res = NULL;
    api_work_then(r, on_compiled);
}

/* The first client that needs a schema has it compiled beside the loop. True: it waits. */
static bool compile_first(struct api_req *r)
{
    if (api_res_compiled(r->res) || !r->x)
        return false;
    if (api_work_here())
        return !compiled(r);
    api_work_run(r, compile_work, NULL);
    return true;
}

static void run_resource(struct api_req *r, void *arg)
{
    if (always_empty(r))
        return;
    r->res = api_registry_find(&r->api->reg, r->group, r->version, r->resource);
    if (!r->res || !scope_ok(r)) {
        /* The collection over all namespaces of a built-in kind exists; it can only be read. */
        bool readable = r->res && r->res->builtin && !r->ns.n && !r->name.n;

        r->res = NULL;
        if (readable)
            api_not_allowed(r);
        else
            api_no_such_resource(r);
        return;
    }
    if (r->res->crd)
        r->crd = api_crd_ref(r->res->crd);
    if (compile_first(r))
        return;
    if (r->unknown_method) {
        api_not_allowed(r);
        return;
    }
    if ((r->res->flags & SW_B_NOT_STORED) && r->name.n) { /* nothing there has a name */
        api_no_such_resource(r);
        return;
    }
    if (!api_negotiate(r) || !convertible(r))
        return;
    if (r->res->deprecated)
        api_warn(r, "%s", r->res->deprecated);
    if (r->res->builtin && r->res->namespaced == false && r->group.n == 0 &&
        sw_slice_eq_str(r->resource, "namespaces"))
        r->ns = sw_slice("", 0);
    if (r->sub.n) {
        run_subresource(r);
        return;
    }
    if (!(r->res->verbs & verbs[r->verb].bit)) {
        api_not_allowed(r);
        return;
    }
    if (!path_fits(r))
        return;
    if (r->res->flags & SW_B_NOT_STORED)
        api_review(r);
    else
        verbs[r->verb].run(r);
}

/* A large body is decoded and judged beside the loop. A watch has no use for one. */
static void start_resource(struct api_req *r)
{
    if (r->verb == API_CREATE || r->verb == API_UPDATE || r->verb == API_PATCH) {
        r->exec.fresh = SW_ARENA_NEW(r->arena, struct api_req);
        *r->exec.fresh = *r;
    }
    if (r->body.n > API_INLINE_BODY && r->verb != API_WATCH)
        api_work_run(r, run_resource, NULL);
    else
        run_resource(r, NULL);
}

/* known: the method is one of ours. */
static void judge(struct api_req *r, bool known)
{
    struct sw_slice pretty = api_param(r, "pretty");
    struct sw_slice agent = sw_xchg_field(r->x, "user-agent");

    r->out.pretty = pretty.p ? api_param_bool(r, "pretty")
                             : sw_slice_has_prefix(agent, SW_SLICE_LIT("curl")) ||
                                   sw_slice_has_prefix(agent, SW_SLICE_LIT("Wget")) ||
                                   sw_slice_has_prefix(agent, SW_SLICE_LIT("Mozilla/5.0"));
    if (!api_authenticate(r))
        return;
    if (!sw_slice_eq_str(r->user.name, "system:anonymous"))
        sw_xchg_identify(r->x, api_tenant(&r->user), api_first(&r->user));
    if (!api_impersonate(r))
        return;
    r->unknown_method = !known;
    if (!api_fair_enter(r)) {
        api_fail(r, 429, "TooManyRequests", "Too many requests, please try again later.");
        return;
    }
    if (!api_authorize(r))
        return;
    if (r->x->crowded) {
        sw_xchg_set(r->x, "Retry-After", SW_SLICE_LIT("1"));
        api_fail(r, 429, "TooManyRequests", "too many bodies of requests are being read");
        return;
    }
    if (r->x->too_large) {
        api_fail(r, 413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728");
        return;
    }
    if (r->is_resource && r->path_segments.over)
        api_no_such_resource(r);
    else if (r->is_resource)
        start_resource(r);
    else
        api_non_resource(r);
}

static const char *audit_id(struct api_req *r)
{
    struct sw_slice given = sw_xchg_field(r->x, "audit-id");

    for (size_t i = 0; i < given.n; i++) {
        char c = given.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '_' || c == '.'))
            return api_uuid(r->arena);
    }
    return given.n && given.n <= 64 ? sw_arena_dup(r->arena, given) : api_uuid(r->arena);
}

void api_on_request(struct sw_xchg *x, void *arg)
{
    struct api_req *r = SW_ARENA_NEW(&x->arena, struct api_req);
    bool known;

    r->api = arg;
    r->x = x;
    x->user = r;
    r->arena = &x->arena;
    r->method = x->method;
    r->body = x->body;
    r->content_type = sw_xchg_field(x, "content-type");
    r->begin_ns = sw_now_ns();
    r->record.audit_id = audit_id(r);
    r->record.warnings.arena = r->arena;
    if (!split_path(r, x->path) ||
        (x->query.p && sw_query_parse(r->arena, x->query, &r->query, NULL) != SW_OK)) {
        r->path = x->path;
        api_bad_request(r, "invalid URL");
        return;
    }
    if (!r->api->store) {
        api_shutting_down(r);
        return;
    }
    parse_resource(r);
    known = parse_verb(r);
    if (r->verb == API_WATCH)
        r->selected = r->name;
    name_from_selector(r);
    judge(r, known);
}

/* --- requests of the server's own --- */

static void run_internal(struct api_req *r)
{
    if (r->sub.n && !sw_slice_eq_str(r->sub, "token"))
        run_subresource(r);
    else
        verbs[r->verb].run(r);
}

const struct api_dispatch api_dispatch = {
    .resource = run_resource,
    .internal = run_internal,
};
