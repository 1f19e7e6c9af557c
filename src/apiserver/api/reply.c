/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: which form the client wants, and sending it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/api/fair.h"
#include "apiserver/api/work.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/grammar.h"
#include "kube/table/table.h"
#include "yaml/yaml.h"

enum { WARNINGS_TOTAL = 4096, WARNING_CUT = 256, WARNINGS_MAX = 64 };

/* --- negotiation ------------------------------------------------------------------------ */

struct clause {
    struct sw_slice type;
    struct sw_slice as, v, g;
    bool pretty;
};

static void parse_clause(struct sw_slice in, struct clause *c)
{
    struct sw_slice rest = in;

    *c = (struct clause){.type = sw_slice_trim(sw_slice_cut(&rest, ';'))};
    while (rest.p) {
        struct sw_slice p = sw_slice_trim(sw_slice_cut(&rest, ';'));
        struct sw_slice value = p;
        struct sw_slice name = sw_slice_trim(sw_slice_cut(&value, '='));

        if (!value.p)
            continue;
        value = sw_slice_trim(value);
        if (sw_slice_eq_str(name, "as"))
            c->as = value;
        else if (sw_slice_eq_str(name, "v"))
            c->v = value;
        else if (sw_slice_eq_str(name, "g"))
            c->g = value;
        else if (sw_slice_eq_str(name, "pretty"))
            c->pretty = sw_slice_eq_str(value, "1") || sw_slice_eq_str(value, "true");
    }
}

static bool json_type(struct sw_slice t)
{
    return t.n == 0 || sw_slice_ieq(t, SW_SLICE_LIT("application/json")) ||
           sw_slice_eq_str(t, "*/*") || sw_slice_ieq(t, SW_SLICE_LIT("application/*"));
}

/* Takes the clause when we can serve it. */
static bool take_clause(struct api_req *r, const struct clause *c)
{
    bool one = r->verb == API_GET || r->verb == API_CREATE || r->verb == API_UPDATE ||
               r->verb == API_PATCH || r->verb == API_WATCH || r->verb == API_DELETE;

    bool yaml = sw_slice_ieq(c->type, SW_SLICE_LIT("application/yaml"));

    /* Watches are streams of JSON. */
    if (!json_type(c->type) && (!yaml || r->verb == API_WATCH))
        return false;
    if (c->as.n) {
        if (!sw_slice_eq_str(c->g, "meta.k8s.io") ||
            (!sw_slice_eq_str(c->v, "v1") && !sw_slice_eq_str(c->v, "v1beta1")))
            return false;
        if (sw_slice_eq_str(c->as, "Table"))
            r->out.as = API_AS_TABLE;
        else if (sw_slice_eq_str(c->as,
                                 one ? "PartialObjectMetadata" : "PartialObjectMetadataList"))
            r->out.as = API_AS_PARTIAL;
        else
            return false;
        r->out.as_version = sw_slice_eq_str(c->v, "v1") ? "v1" : "v1beta1";
    }
    r->out.pretty = r->out.pretty || c->pretty;
    r->out.yaml = yaml;
    return true;
}

bool api_negotiate(struct api_req *r)
{
    struct sw_slice accept = r->x ? sw_xchg_field(r->x, "accept") : sw_slice(NULL, 0);
    struct clause c;

    r->out.as = API_AS_OBJECT;
    r->out.as_version = "v1";
    if (accept.n == 0)
        return true;
    while (accept.p) {
        parse_clause(sw_slice_cut(&accept, ','), &c);
        if (take_clause(r, &c))
            return true;
    }
    api_fail(r, 406, "NotAcceptable", "only the following media types are accepted: %s",
             r->verb == API_WATCH
                 ? "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
                 : "application/json, application/yaml, application/vnd.kubernetes.protobuf");
    return false;
}

/* --- warnings --------------------------------------------------------------------------- */

void api_warn(struct api_req *r, const char *fmt, ...)
{
    SW_BUF_AUTO b = {.max = 4096};
    va_list ap;
    const char *text;

    va_start(ap, fmt);
    if (sw_buf_vprintf(&b, fmt, ap) != SW_OK)
        sw_buf_clear(&b);
    va_end(ap);
    text = sw_arena_dup(r->arena, sw_buf_slice(&b));
    if (sw_texts_has(&r->record.warnings, sw_slice_str(text)))
        return;
    r->record.warnings.arena = r->arena;
    sw_texts_add(&r->record.warnings, text);
}

static void put_warning(struct api_req *r, const char *text, size_t max)
{
    SW_BUF_AUTO b = {.max = 16384};
    int rc = sw_buf_append_str(&b, "299 - \"");

    for (size_t i = 0; text[i] && i < max && rc == SW_OK; i++) {
        char c = text[i];

        if ((unsigned char)c < 0x20 || c == 0x7f)
            continue;
        if (c == '"' || c == '\\')
            rc = sw_buf_putc(&b, '\\');
        if (rc == SW_OK)
            rc = sw_buf_putc(&b, c);
    }
    if (rc == SW_OK)
        rc = sw_buf_putc(&b, '"');
    if (rc == SW_OK)
        sw_xchg_set(r->x, "Warning", sw_buf_slice(&b));
}

static void put_warnings(struct api_req *r)
{
    size_t total = 0;
    size_t max = WARNINGS_TOTAL;

    for (size_t i = 0; i < r->record.warnings.n; i++)
        total += strlen(r->record.warnings.p[i]);
    if (total > WARNINGS_TOTAL)
        max = WARNING_CUT;
    total = 0;
    for (size_t i = 0; i < r->record.warnings.n && i < WARNINGS_MAX && total <= WARNINGS_TOTAL;
         i++) {
        total += sw_min(strlen(r->record.warnings.p[i]), max);
        put_warning(r, r->record.warnings.p[i], max);
    }
}

void api_common_headers(struct api_req *r)
{
    char date[SW_HTTP_DATE_LEN];

    sw_xchg_set(r->x, "Audit-Id", sw_slice_str(r->record.audit_id));
    sw_xchg_set(r->x, "Date", sw_slice_str(sw_http_date(sw_wall_ns() / SW_NS_PER_S, date)));
    put_warnings(r);
}

/* --- sending ---------------------------------------------------------------------------- */

void api_req_done(struct api_req *r, int code)
{
    r->snap = sw_store_snap_unref(r->snap);
    api_work_forget(r);
    if (r->x) {
        api_audit(r, code);
        api_fair_leave(r);
    }
    r->crd = api_crd_unref(r->crd);
    r->res = NULL;
}

void api_reply_buf(struct api_req *r, int code, const char *content_type, struct sw_buf *b)
{
    struct sw_xchg *x = r->x;

    api_common_headers(r);
    if (api_work_here())
        sw_xchg_compress(x, b);
    api_on_loop();
    api_req_done(r, code);
    sw_xchg_send(x, code, content_type, b);
}

void api_reply_text(struct api_req *r, int code, struct sw_slice text)
{
    struct sw_buf b = {.max = text.n + 1};

    if (sw_buf_append_slice(&b, text) != SW_OK)
        sw_buf_clear(&b);
    api_reply_buf(r, code, "text/plain; charset=utf-8", &b);
}

void api_reply(struct api_req *r, int code, const struct sw_json *v)
{
    struct sw_json_write_opts pretty = {.indent = 2};
    struct sw_buf b = {.max = (size_t)1 << 30};

    if (!r->x) {
        api_req_done(r, code);
        if (r->own.done)
            r->own.done(r, code, v);
        api_internal_drop(r);
        return;
    }
    api_off_loop();
    sw_xchg_set(r->x, "Cache-Control", SW_SLICE_LIT("no-cache, private"));
    if (code == 429)
        sw_xchg_set(r->x, "Retry-After", SW_SLICE_LIT("1"));
    if (r->out.yaml ? sw_yaml_write(&b, v) != SW_OK
                    : sw_json_write(&b, v, r->out.pretty ? &pretty : NULL) != SW_OK ||
                          sw_buf_putc(&b, '\n') != SW_OK)
        sw_buf_clear(&b);
    api_reply_buf(r, code, r->out.yaml ? "application/yaml" : "application/json", &b);
}

/* --- other forms ------------------------------------------------------------------------ */

struct sw_json *api_to_partial(struct api_req *r, const struct sw_json *obj)
{
    struct sw_arena *a = r->arena;
    struct sw_json *m = sw_json_find(obj, "metadata");

    return SW_JSON_OF(
        a, {"kind", .str = "PartialObjectMetadata"},
        {"apiVersion", .str = sw_arena_printf(a, "meta.k8s.io/%s", r->out.as_version)},
        {"metadata", .json = m ? m : sw_json_new_object(a)});
}

struct sw_json *api_to_row(struct api_req *r, struct sw_json *obj)
{
    struct sw_arena *a = r->arena;
    int64_t now = (int64_t)(sw_wall_ns() / SW_NS_PER_S);
    struct sw_slice include = api_param(r, "includeObject");
    struct sw_json *shown = sw_slice_eq_str(include, "None")     ? sw_json_new_null(a)
                            : sw_slice_eq_str(include, "Object") ? obj
                                                                 : api_to_partial(r, obj);

    return SW_JSON_OF(
        a, {"cells", .json = sw_table_cells(a, r->res->builtin, r->res->columns, obj, now)},
        {"object", .json = shown});
}

struct sw_json *api_to_table(struct api_req *r, struct sw_json *const *objs, size_t n,
                             bool with_columns)
{
    struct sw_arena *a = r->arena;
    struct sw_json *columns =
        with_columns ? sw_table_columns(a, r->res->builtin, r->res->columns) : sw_json_new_null(a);
    struct sw_json *rows = sw_json_new_array(a);

    for (size_t i = 0; i < n; i++)
        sw_json_push(a, rows, api_to_row(r, objs[i]));
    return SW_JSON_OF(
        a, {"kind", .str = "Table"},
        {"apiVersion", .str = sw_arena_printf(a, "meta.k8s.io/%s", r->out.as_version)},
        {"metadata", .json = sw_json_new_object(a)}, {"columnDefinitions", .json = columns},
        {"rows", .json = rows});
}

void api_reply_object(struct api_req *r, int code, struct sw_json *obj)
{
    struct sw_json *out = obj;

    switch (r->out.as) {
    case API_AS_OBJECT:
        break;
    case API_AS_PARTIAL:
        out = api_to_partial(r, obj);
        break;
    case API_AS_TABLE:
        out = api_to_table(r, &obj, 1, true);
        sw_json_put_str(r->arena, sw_json_find(out, "metadata"), "resourceVersion",
                        api_meta_str(obj, "resourceVersion"));
        break;
    }
    api_reply(r, code, out);
}
