/* SPDX-License-Identifier: Apache-2.0 */
/* Lists: whole or by pages, of now or of a revision, as text from the store or as a tree. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/api/work.h"
#include "apiserver/verbs/verbs.h"
#include "kube/table/table.h"
#include "tls/crypto/jws.h"

struct list_opts {
    uint64_t limit; /* 0: all */
    uint64_t rv;
    bool exact;
    struct sw_slice from; /* key to start at */
    struct api_filter filter;
};

static bool bad_continue(struct api_req *r, const char *why)
{
    api_bad_request(r, "invalid continue token: continue key is not valid%s", why);
    return false;
}

/* A key that climbs out of the collection or is written in a strange way. */
static bool clean_key(struct sw_slice key)
{
    struct sw_slice rest = sw_slice_from(key, 1);

    while (rest.p) {
        struct sw_slice seg = sw_slice_cut(&rest, '/');

        if (seg.n == 0 || sw_slice_eq_str(seg, ".") || sw_slice_eq_str(seg, ".."))
            return false;
    }
    return true;
}

/* The first byte that is not in the alphabet, or the length. */
static size_t base64url_span(struct sw_slice s)
{
    size_t i = 0;

    while (i < s.n && (isalnum((unsigned char)s.p[i]) || s.p[i] == '-' || s.p[i] == '_'))
        i++;
    return i;
}

static bool read_continue(struct api_req *r, struct list_opts *o, struct sw_slice token)
{
    SW_BUF_AUTO text = {.max = 8192};
    struct sw_arena *a = r->arena;
    struct sw_json *v = NULL;
    int64_t rv = 0;
    struct sw_slice start;

    if (sw_base64url_decode(&text, token) != SW_OK)
        return bad_continue(r, sw_arena_printf(a, ": illegal base64 data at input byte %zu",
                                               base64url_span(token)));
    if (sw_json_parse(a, sw_buf_slice(&text), NULL, &v, NULL) != SW_OK ||
        !sw_json_is(v, SW_JSON_OBJECT))
        return bad_continue(r, ": not a JSON object");
    if (!sw_json_str_eq(sw_json_find(v, "v"), "meta.k8s.io/v1"))
        return bad_continue(r, sw_arena_printf(a,
                                               ": server does not recognize this encoded "
                                               "version %.*s",
                                               SW_SLICE_ARG(sw_slice_head(api_str(v, "v"), 64))));
    if (!sw_json_i64(sw_json_find(v, "rv"), &rv) || rv == 0)
        return bad_continue(r, ": incorrect encoded start resourceVersion (version "
                               "meta.k8s.io/v1)");
    start = api_str(v, "start");
    if (start.n == 0)
        return bad_continue(r, ": encoded start key empty (version meta.k8s.io/v1)");
    if (start.p[0] != '/')
        start = sw_slice_str(sw_arena_printf(a, "/%.*s", SW_SLICE_ARG(start)));
    if (!clean_key(start))
        return bad_continue(
            r, sw_arena_printf(a, ": %.*s", SW_SLICE_ARG(sw_slice_head(api_str(v, "start"), 512))));
    /* The start is relative to the requested collection. */
    o->from = api_prefix(r->arena, r->res, r->ns);
    {
        char *p = sw_arena_alloc(r->arena, o->from.n + start.n + 1);

        memcpy(p, o->from.p, o->from.n);
        memcpy(p + o->from.n, start.p + 1, start.n - 1);
        o->from = sw_slice(p, o->from.n + start.n - 1);
    }
    o->rv = rv > 0 ? (uint64_t)rv : 0;
    o->exact = rv > 0;
    return true;
}

static bool check_match(struct api_req *r)
{
    static const char *const known[] = {"Exact", "NotOlderThan", "", NULL};
    struct sw_field_errs e;
    struct sw_fpath p = sw_fpath_str(NULL, "resourceVersionMatch");
    struct sw_fpath s = sw_fpath_str(NULL, "sendInitialEvents");
    struct sw_slice rv = api_param(r, "resourceVersion");
    struct sw_slice match = api_param(r, "resourceVersionMatch");

    sw_field_errs_init(&e, r->arena);
    if (match.n) {
        if (rv.n == 0)
            sw_ferr_forbidden(&e, &p,
                              "resourceVersionMatch is forbidden unless resourceVersion is "
                              "provided");
        if (api_param(r, "continue").n)
            sw_ferr_forbidden(&e, &p,
                              "resourceVersionMatch is forbidden when continue is provided");
        if (!sw_slice_eq_str(match, "Exact") && !sw_slice_eq_str(match, "NotOlderThan"))
            sw_ferr_unsupported(&e, &p, sw_json_new_string(r->arena, match), known);
        if (sw_slice_eq_str(match, "Exact") && sw_slice_eq_str(rv, "0"))
            sw_ferr_forbidden(&e, &p,
                              "resourceVersionMatch \"exact\" is forbidden for "
                              "resourceVersion \"0\"");
    }
    if (sw_query_get(&r->query, "sendInitialEvents"))
        sw_ferr_forbidden(&e, &s, "sendInitialEvents is forbidden for list");
    return api_options_ok(r, "ListOptions", &e);
}

bool api_list_opts_check(struct api_req *r, struct api_filter *f, int64_t *ret_limit)
{
    int64_t timeout;

    return api_param_int(r, "limit", ret_limit) && api_param_int(r, "timeoutSeconds", &timeout) &&
           api_filter_syntax(r, f) && check_match(r) && api_filter_labels(r, f);
}

static bool read_list_opts(struct api_req *r, struct list_opts *o)
{
    struct sw_slice cont = api_param(r, "continue");
    struct sw_slice match = api_param(r, "resourceVersionMatch");
    int64_t limit;
    uint64_t rv;

    *o = (struct list_opts){0};
    if (!api_list_opts_check(r, &o->filter, &limit))
        return false;
    o->limit = limit > 0 ? (uint64_t)limit : 0;
    if (cont.n) {
        struct sw_slice given = api_param(r, "resourceVersion");

        if (!read_continue(r, o, cont))
            return false;
        if (given.n && !sw_slice_eq_str(given, "0")) {
            api_bad_request(r, "specifying resource version is not allowed when using continue");
            return false;
        }
        return true;
    }
    if (!api_read_rv(r, &rv))
        return false;
    o->rv = rv;
    o->exact = rv && (sw_slice_eq_str(match, "Exact") || (match.n == 0 && o->limit));
    return true;
}

static const char *continue_token(struct sw_arena *a, int64_t rv, struct sw_slice last, size_t skip)
{
    SW_BUF_AUTO json = {.max = 8192};
    SW_BUF_AUTO out = {.max = 16384};
    struct sw_jw w;
    char start[2048];
    size_t n = sw_min(last.n - skip, sizeof(start) - 2);

    start[0] = '/';
    memcpy(start + 1, last.p + skip, n);
    start[n + 1] = 0; /* part of the key: the first one after it */
    sw_jw_begin(&w, &json, NULL);
    sw_jw_object(&w);
    sw_jw_put_str(&w, "v", "meta.k8s.io/v1");
    sw_jw_name(&w, "rv");
    sw_jw_i64(&w, rv);
    sw_jw_put_string(&w, "start", sw_slice(start, n + 2));
    sw_jw_object_end(&w);
    if (sw_jw_end(&w) != SW_OK || sw_base64url_append(&out, sw_buf_slice(&json)) != SW_OK)
        return "";
    return sw_arena_dup(a, sw_buf_slice(&out));
}

static void expired(struct api_req *r, const struct list_opts *o, struct sw_slice prefix)
{
    struct sw_json *s;
    const char *m = "The resourceVersion for the provided list is too old.";

    if (o->from.n)
        m = "The provided continue parameter is too old to display a consistent list result. You "
            "can start a new list without the continue parameter, or use the continue token in "
            "this response to retrieve the remainder of the results. Continuing with the provided "
            "token results in an inconsistent list - objects that were created, modified, or "
            "deleted between the time the first chunk was returned and now may show up in the "
            "list.";
    s = api_status_new(r->arena, 410, "Expired", m, NULL);
    if (o->from.n) {
        struct sw_slice last = sw_slice_head(o->from, o->from.n - 1);

        sw_json_put_str(r->arena, sw_json_find(s, "metadata"), "continue",
                        sw_slice_str(continue_token(r->arena, -1, last, prefix.n)));
    }
    api_reply(r, 410, s);
}

/* The page: as text where an item can be written by itself, else as objects in memory. */
struct page {
    struct sw_buf text;
    SW_VEC(struct sw_json *) objs;
    struct sw_arena arena; /* of what is not needed once the answer is written */
    size_t n;
    size_t seen;          /* objects looked at */
    size_t parsed;        /* bytes of those among them that were parsed */
    struct sw_slice last; /* key of the last object, when more follow */
    size_t remaining;
    bool more;
};

/* One item of a table or of partial objects, made in memory of its own. */
static int write_item(struct api_req *r, struct page *p, const struct sw_store_obj *o)
{
    SW_ARENA_AUTO tmp = {0};
    struct sw_arena *keep = r->arena;
    struct sw_json *obj;
    int rc = SW_OK;

    r->arena = &tmp;
    obj = api_load(&tmp, r->res, o);
    if (obj && p->n++)
        rc = sw_buf_putc(&p->text, ',');
    if (obj && rc == SW_OK)
        rc = sw_json_write(&p->text,
                           r->out.as == API_AS_TABLE ? api_to_row(r, obj) : api_to_partial(r, obj),
                           NULL);
    r->arena = keep;
    return rc;
}

static int add_to_page(struct api_req *r, struct page *p, const struct sw_store_obj *o, bool text)
{
    int rc = SW_OK;

    if (!text) {
        struct sw_json *obj = api_load(&p->arena, r->res, o);

        p->n++;
        if (obj)
            sw_vec_push(&p->objs, obj);
        return SW_OK;
    }
    if (r->out.as != API_AS_OBJECT)
        return write_item(r, p, o);
    if (p->n++)
        rc = sw_buf_putc(&p->text, ',');
    return rc == SW_OK ? api_write_obj(&p->text, r->res, o, r->res->crd != NULL) : rc;
}

/* A result of check_pace: too much for the loop. */
enum { PACE_OFF_LOOP = 1 };

/* SW_OK, PACE_OFF_LOOP, or SW_ECANCELED. */
static int check_pace(struct page *p, const struct sw_store_obj *o, bool parses, bool client)
{
    p->seen++;
    p->parsed += parses ? o->value.n : 0;
    if (api_work_here())
        return sw_budget_ok(api_work_budget()) ? SW_OK : SW_ECANCELED;
    return client && (p->seen > API_INLINE_ITEMS || p->parsed > API_INLINE_LIST ||
                      sw_buf_len(&p->text) > API_INLINE_LIST)
               ? PACE_OFF_LOOP
               : SW_OK;
}

static int collect(struct api_req *r, const struct list_opts *o, struct sw_slice prefix, bool text,
                   struct page *p)
{
    struct sw_store_iter it;
    struct sw_store_obj *obj;
    bool selective = o->filter.has_labels || o->filter.has_fields;
    bool parses = selective || !text || r->out.as != API_AS_OBJECT;
    struct sw_slice last = {0};
    int rc = SW_OK;

    sw_store_iter_init(&it, r->snap, prefix, o->from);
    while (rc == SW_OK && (obj = sw_store_iter_next(&it))) {
        rc = check_pace(p, obj, parses, r->x != NULL);
        if (rc != SW_OK)
            break;
        if (selective && !api_filter_match(&o->filter, r->res, obj))
            continue;
        if (o->limit && p->n == o->limit) {
            p->more = true;
            p->last = last;
            if (!selective)
                p->remaining = sw_store_snap_count(r->snap, prefix, obj->key);
            break;
        }
        last = obj->key;
        rc = add_to_page(r, p, obj, text);
    }
    return rc;
}

static void put_list_meta(struct sw_jw *w, const struct page *p, uint64_t rv, const char *token)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)rv);
    sw_jw_object(w);
    sw_jw_put_str(w, "resourceVersion", text);
    if (p->more) {
        sw_jw_put_str(w, "continue", token);
        if (p->remaining)
            sw_jw_put_u64(w, "remainingItemCount", p->remaining);
    }
    sw_jw_object_end(w);
}

/* Kind, version and columns: what comes before the items, which are text already. */
static void put_list_head(struct api_req *r, struct sw_jw *w, const struct page *p, uint64_t rv,
                          const char *token)
{
    const char *meta_version = sw_arena_printf(r->arena, "meta.k8s.io/%s", r->out.as_version);
    bool table = r->out.as == API_AS_TABLE;

    sw_jw_put_str(w, "kind",
                  table                         ? "Table"
                  : r->out.as == API_AS_PARTIAL ? "PartialObjectMetadataList"
                                                : r->res->list_kind);
    sw_jw_put_str(w, "apiVersion", r->out.as == API_AS_OBJECT ? r->res->api_version : meta_version);
    sw_jw_name(w, "metadata");
    put_list_meta(w, p, rv, token);
    if (table) {
        sw_jw_name(w, "columnDefinitions");
        sw_jw_value(w, sw_table_columns(r->arena, r->res->builtin, r->res->columns));
    }
    sw_jw_name(w, table ? "rows" : "items");
}

static void reply_list_text(struct api_req *r, struct page *p, uint64_t rv, const char *token)
{
    struct sw_buf b = {.max = (size_t)1 << 30};
    struct sw_jw w;

    sw_jw_begin(&w, &b, NULL);
    sw_jw_object(&w);
    put_list_head(r, &w, p, rv, token);
    sw_jw_raw(&w, SW_SLICE_LIT("["));
    if (w.rc == SW_OK)
        w.rc = sw_buf_append_slice(&b, sw_buf_slice(&p->text));
    if (w.rc == SW_OK)
        w.rc = sw_buf_append_str(&b, "]");
    sw_jw_object_end(&w);
    if (sw_jw_end(&w) != SW_OK || sw_buf_putc(&b, '\n') != SW_OK) {
        sw_buf_done(&b);
        api_internal_error(r, "the list is too large; use a limit");
        return;
    }
    sw_xchg_set(r->x, "Cache-Control", SW_SLICE_LIT("no-cache, private"));
    api_reply_buf(r, 200, "application/json", &b);
}

static struct sw_json *list_meta_json(struct api_req *r, const struct page *p, uint64_t rv,
                                      const char *token)
{
    SW_BUF_AUTO b = {.max = 32768};
    struct sw_json *v = NULL;
    struct sw_jw w;

    sw_jw_begin(&w, &b, NULL);
    put_list_meta(&w, p, rv, token);
    if (sw_jw_end(&w) != SW_OK ||
        sw_json_parse(r->arena, sw_buf_slice(&b), NULL, &v, NULL) != SW_OK)
        return sw_json_new_object(r->arena);
    return v;
}

static void reply_list_tree(struct api_req *r, struct page *p, uint64_t rv, const char *token)
{
    struct sw_arena *a = &p->arena;
    struct sw_arena *keep = r->arena;
    struct sw_json *out;

    r->arena = a;
    if (r->out.as == API_AS_TABLE) {
        out = api_to_table(r, p->objs.p, p->objs.n, true);
        sw_json_put(a, out, "metadata", list_meta_json(r, p, rv, token));
    } else {
        bool partial = r->out.as == API_AS_PARTIAL;
        const char *meta_version = sw_arena_printf(a, "meta.k8s.io/%s", r->out.as_version);
        struct sw_json *items = sw_json_new_array(a);

        for (size_t i = 0; i < p->objs.n; i++) {
            if (!partial && r->res->builtin)
                api_drop_type(p->objs.p[i]);
            sw_json_push(a, items, partial ? api_to_partial(r, p->objs.p[i]) : p->objs.p[i]);
        }
        out = SW_JSON_OF(
            a, {"kind", .str = partial ? "PartialObjectMetadataList" : r->res->list_kind},
            {"apiVersion", .str = partial ? meta_version : r->res->api_version},
            {"metadata", .json = list_meta_json(r, p, rv, token)}, {"items", .json = items});
    }
    r->arena = keep;
    api_reply(r, 200, out);
}

static bool take_snapshot(struct api_req *r, const struct list_opts *o, struct sw_slice prefix)
{
    int rc = SW_OK;

    if (o->exact && o->rv != sw_store_revision(r->api->store))
        rc = sw_store_snapshot_at(r->api->store, o->rv, &r->snap, NULL);
    else
        r->snap = sw_store_snapshot(r->api->store);
    if (rc == SW_OK)
        return true;
    if (rc == SW_STORE_TOO_NEW)
        api_rv_too_large(r, o->rv);
    else
        expired(r, o, prefix);
    return false;
}

static void page_done(struct page *p)
{
    api_off_loop();
    sw_buf_done(&p->text);
    sw_vec_done(&p->objs);
    sw_arena_clear(&p->arena);
}

static void list_now(struct api_req *r, void *arg);

static void list_failed(struct api_req *r, int rc)
{
    if (rc == PACE_OFF_LOOP)
        api_work_run(r, list_now, NULL);
    else if (!api_work_ended(r))
        api_internal_error(r, "the list is too large; use a limit");
}

static void list_now(struct api_req *r, void *arg)
{
    struct list_opts o;
    struct page p = {.text = {.max = (size_t)1 << 30}};
    struct sw_slice prefix = api_prefix(r->arena, r->res, r->ns);
    bool text = r->x && !r->out.pretty && !r->out.yaml;
    const char *token = "";
    uint64_t rv;
    int rc;

    r->snap = sw_store_snap_unref(r->snap);
    if (!read_list_opts(r, &o) || !take_snapshot(r, &o, prefix))
        return;
    rv = sw_store_snap_revision(r->snap);
    if (o.exact)
        rv = o.rv; /* the state at that revision; nothing newer is in it */
    api_off_loop();
    rc = collect(r, &o, prefix, text, &p);
    if (rc != SW_OK) {
        page_done(&p);
        list_failed(r, rc);
        return;
    }
    if (p.more)
        token = continue_token(r->arena, (int64_t)rv, p.last, prefix.n);
    if (text)
        reply_list_text(r, &p, rv, token);
    else
        reply_list_tree(r, &p, rv, token);
    page_done(&p);
}

void api_list(struct api_req *r)
{
    struct list_opts o;

    if (read_list_opts(r, &o) && api_wait_revision(r, o.rv, list_now))
        list_now(r, NULL);
}
