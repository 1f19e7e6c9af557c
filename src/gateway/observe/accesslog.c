/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access logs: what is in a line, and which exchanges get one. Workers format a line on their own
 * stack of buffers and hand it to the file's queue (accesslog_sink.c).
 */
#include "gateway/observe/accesslog.h"

#include <proto/listener.pb-c.h>

#include "base/mem.h"
#include "gateway/config/build.h"
#include "gateway/observe/accesslog_int.h"
#include "http/grammar.h"
#include "proto/pb.h"
#include "proto/types.h"

enum { LINE_MAX_BYTES = 64 * 1024, FILTER_DEPTH = 8, FIELDS_MAX = 200 };

static const char default_http[] =
    "[%START_TIME%] \"%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%\" "
    "%RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% "
    "%RESPONSE_DURATION% \"%REQ(X-FORWARDED-FOR)%\" \"%REQ(USER-AGENT)%\" "
    "\"%REQ(X-REQUEST-ID)%\" \"%REQ(:AUTHORITY)%\" \"%UPSTREAM_HOST%\"\n";

enum filter_kind { FILTER_STATUS, FILTER_AND, FILTER_OR, FILTER_FLAGS };

struct filter {
    enum filter_kind kind;
    int op; /* of the comparison */
    uint32_t value;
    struct filter *subs;
    size_t n;
    struct sw_slice *flags; /* none: any flag */
};

struct json_field {
    struct sw_slice key;
    const struct sw_gw_format *format; /* NULL: subs */
    struct json_field *subs;
    size_t n;
};

/* A line, or a body. */
struct layout {
    const struct sw_gw_format *format; /* NULL: JSON */
    struct json_field json;
    bool omit_empty;
};

struct sw_gw_accesslog {
    _Atomic uint32_t refs;
    struct sw_arena arena;
    struct sw_gw_sink *sink;
    const struct filter *filter; /* NULL: everything */
    struct layout layout;
};

struct sw_gw_body_format {
    struct layout layout;
    struct sw_slice content_type;
};

static bool default_json;

void sw_gw_accesslog_default_json(bool json)
{
    default_json = json;
}

static const struct {
    const char *key;
    const char *value;
} default_fields[] = {
    {"time", "%START_TIME%"},
    {"method", "%REQ(:METHOD)%"},
    {"path", "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%"},
    {"protocol", "%PROTOCOL%"},
    {"status", "%RESPONSE_CODE%"},
    {"flags", "%RESPONSE_FLAGS%"},
    {"reason", "%RESPONSE_CODE_DETAILS%"},
    {"bytes_received", "%BYTES_RECEIVED%"},
    {"bytes_sent", "%BYTES_SENT%"},
    {"duration_ms", "%DURATION%"},
    {"response_ms", "%RESPONSE_DURATION%"},
    {"client", "%DOWNSTREAM_REMOTE_ADDRESS%"},
    {"forwarded_for", "%REQ(X-FORWARDED-FOR)%"},
    {"user_agent", "%REQ(USER-AGENT)%"},
    {"request_id", "%REQ(X-REQUEST-ID)%"},
    {"host", "%REQ(:AUTHORITY)%"},
    {"sni", "%REQUESTED_SERVER_NAME%"},
    {"upstream", "%UPSTREAM_HOST%"},
    {"cluster", "%UPSTREAM_CLUSTER%"},
    {"device", "%UPSTREAM_METADATA(tunnel:device)%"},
    {"failure", "%UPSTREAM_TRANSPORT_FAILURE_REASON%"},
};

/* ---- building ---- */

struct sw_gw_accesslog *sw_gw_accesslog_unref(struct sw_gw_accesslog *l)
{
    if (l && sw_gw_drop_ref(&l->refs)) {
        sw_gw_sink_put(l->sink);
        sw_arena_clear(&l->arena);
        sw_free(l);
    }
    return NULL;
}

static int build_filter(struct sw_gw_build *b, struct sw_arena *a, const Sw__AccessLogFilter *f,
                        unsigned depth, struct filter *ret);

static int build_subs(struct sw_gw_build *b, struct sw_arena *a, Sw__AccessLogFilter *const *in,
                      size_t n, unsigned depth, struct filter *ret)
{
    if (n == 0 || n > FIELDS_MAX)
        return SW_GW_BAD(b, "filter: a list of filters is expected");
    ret->subs = sw_arena_array(a, n, sizeof(*ret->subs));
    ret->n = n;
    for (size_t i = 0; i < n; i++) {
        int rc = build_filter(b, a, in[i], depth + 1, &ret->subs[i]);

        if (rc < 0)
            return rc;
    }
    return SW_OK;
}

static int build_filter(struct sw_gw_build *b, struct sw_arena *a, const Sw__AccessLogFilter *f,
                        unsigned depth, struct filter *ret)
{
    if (depth > FILTER_DEPTH)
        return SW_GW_BAD(b, "filter: nested too deeply");
    switch ((int)f->filter_specifier_case) {
    case SW__ACCESS_LOG_FILTER__FILTER_SPECIFIER_STATUS_CODE_FILTER:
        ret->kind = FILTER_STATUS;
        if (!f->status_code_filter->comparison || !f->status_code_filter->comparison->value)
            return SW_GW_BAD(b, "filter: status_code_filter without comparison");
        ret->op = (int)f->status_code_filter->comparison->op;
        ret->value = f->status_code_filter->comparison->value->default_value;
        return SW_OK;
    case SW__ACCESS_LOG_FILTER__FILTER_SPECIFIER_AND_FILTER:
        ret->kind = FILTER_AND;
        return build_subs(b, a, f->and_filter->filters, f->and_filter->n_filters, depth, ret);
    case SW__ACCESS_LOG_FILTER__FILTER_SPECIFIER_OR_FILTER:
        ret->kind = FILTER_OR;
        return build_subs(b, a, f->or_filter->filters, f->or_filter->n_filters, depth, ret);
    case SW__ACCESS_LOG_FILTER__FILTER_SPECIFIER_RESPONSE_FLAG_FILTER:
        ret->kind = FILTER_FLAGS;
        ret->n = f->response_flag_filter->n_flags;
        ret->flags = sw_arena_array(a, ret->n ? ret->n : 1, sizeof(*ret->flags));
        for (size_t i = 0; i < ret->n; i++)
            ret->flags[i] = sw_arena_slice(a, SW_PB_SLICE(f->response_flag_filter->flags[i]));
        return SW_OK;
    default:
        return SW_GW_BAD(b, "filter: kind not supported");
    }
}

static int build_json(struct sw_gw_build *b, struct sw_arena *a, const struct sw_json *v,
                      unsigned depth, struct json_field *ret)
{
    if (depth > FILTER_DEPTH)
        return SW_GW_BAD(b, "json_format: nested too deeply");
    if (v->type == SW_JSON_STRING)
        return sw_gw_format_parse(a, v->text, &ret->format, b->err);
    if (v->type != SW_JSON_OBJECT || v->obj.n > FIELDS_MAX)
        return SW_GW_BAD(b, "json_format: strings and objects are expected");
    ret->n = v->obj.n;
    ret->subs = sw_arena_array(a, ret->n ? ret->n : 1, sizeof(*ret->subs));
    for (size_t i = 0; i < ret->n; i++) {
        int rc;

        ret->subs[i].key = sw_arena_slice(a, v->obj.members[i].key);
        rc = build_json(b, a, v->obj.members[i].value, depth + 1, &ret->subs[i]);
        if (rc < 0)
            return rc;
    }
    return SW_OK;
}

/* f is given and has a format. */
static int build_layout(struct sw_gw_build *b, struct sw_arena *a,
                        const Sw__SubstitutionFormatString *f, struct layout *ret)
{
    struct sw_slice text = SW_PB_SLICE(f->text_format);

    ret->omit_empty = f->omit_empty_values;
    if (f->format_case == SW__SUBSTITUTION_FORMAT_STRING__FORMAT_JSON_FORMAT)
        return build_json(b, a, sw_gw_build_struct(b, f->json_format), 0, &ret->json);
    if (f->format_case == SW__SUBSTITUTION_FORMAT_STRING__FORMAT_TEXT_FORMAT_SOURCE) {
        int rc = sw_gw_build_source(b, f->text_format_source, LINE_MAX_BYTES, &text);

        if (rc < 0)
            return rc;
    }
    return sw_gw_format_parse(a, text, &ret->format, b->err);
}

/* What the text line has, and the words for a failure. */
static int build_default_json(struct sw_gw_build *b, struct sw_arena *a, struct layout *ret)
{
    size_t n = SW_ARRAY_LEN(default_fields);
    int rc = SW_OK;

    ret->json.subs = sw_arena_array(a, n, sizeof(*ret->json.subs));
    ret->json.n = n;
    for (size_t i = 0; i < n && rc == SW_OK; i++) {
        ret->json.subs[i].key = sw_slice_str(default_fields[i].key);
        rc = sw_gw_format_parse(a, sw_slice_str(default_fields[i].value), &ret->json.subs[i].format,
                                b->err);
    }
    return rc;
}

static int build_format(struct sw_gw_build *b, struct sw_gw_accesslog *l,
                        const Sw__SubstitutionFormatString *f)
{
    if (f && f->format_case != SW__SUBSTITUTION_FORMAT_STRING__FORMAT__NOT_SET)
        return build_layout(b, &l->arena, f, &l->layout);
    if (f)
        l->layout.omit_empty = f->omit_empty_values;
    if (default_json)
        return build_default_json(b, &l->arena, &l->layout);
    return sw_gw_format_parse(&l->arena, SW_SLICE_LIT(default_http), &l->layout.format, b->err);
}

int sw_gw_build_body(struct sw_gw_build *b, const struct Sw__SubstitutionFormatString *in,
                     const struct sw_gw_body_format **ret)
{
    struct sw_gw_body_format *f = SW_ARENA_NEW(b->arena, struct sw_gw_body_format);
    bool json = in->format_case == SW__SUBSTITUTION_FORMAT_STRING__FORMAT_JSON_FORMAT;

    if (in->format_case == SW__SUBSTITUTION_FORMAT_STRING__FORMAT__NOT_SET)
        return SW_GW_BAD(b, "body_format without a format");
    f->content_type = sw_gw_text(b, &in->content_type);
    if (!f->content_type.n)
        f->content_type = json ? SW_SLICE_LIT("application/json") : SW_SLICE_LIT("text/plain");
    if (!sw_http_value_valid(f->content_type))
        return SW_GW_BAD(b, "body_format: content_type is not a header value");
    *ret = f;
    return build_layout(b, b->arena, in, &f->layout);
}

static int open_sink(struct sw_gw_build *b, struct sw_gw_accesslog *l, const char *path,
                     const Sw__SubstitutionFormatString *format)
{
    l->sink = sw_gw_sink_get(path, b->err);
    return l->sink ? build_format(b, l, format) : SW_EINVAL;
}

static int build_sink(struct sw_gw_build *b, struct sw_gw_accesslog *l, const Sw__AccessLog *in)
{
    const Sw__FileAccessLog *file;
    const Sw__StdoutAccessLog *out;
    const Sw__StderrAccessLog *errs;
    const Sw__Any *any =
        in->config_type_case == SW__ACCESS_LOG__CONFIG_TYPE_TYPED_CONFIG ? in->typed_config : NULL;

    if (sw_pb_any_is(any, &sw__file_access_log__descriptor)) {
        file = sw_gw_open_any(b, any, &sw__file_access_log__descriptor);
        if (!file)
            return SW_EINVAL;
        if (file->path.len == 0 || file->path.data[0] == '\0')
            return SW_GW_BAD(b, "file access log without a path");
        return open_sink(b, l, sw_arena_dup(b->tmp, SW_PB_SLICE(file->path)), file->log_format);
    }
    if (sw_pb_any_is(any, &sw__stdout_access_log__descriptor)) {
        out = sw_gw_open_any(b, any, &sw__stdout_access_log__descriptor);
        return out ? open_sink(b, l, "/dev/stdout", out->log_format) : SW_EINVAL;
    }
    if (sw_pb_any_is(any, &sw__stderr_access_log__descriptor)) {
        errs = sw_gw_open_any(b, any, &sw__stderr_access_log__descriptor);
        return errs ? open_sink(b, l, "/dev/stderr", errs->log_format) : SW_EINVAL;
    }
    return SW_GW_BAD(b, "access log '%.*s': type not supported",
                     SW_SLICE_ARG_MAX(SW_PB_SLICE(in->name), 60));
}

int sw_gw_build_logs(struct sw_gw_build *b, struct Sw__AccessLog *const *in, size_t n,
                     struct sw_gw_accesslog *const **ret, size_t *ret_n)
{
    struct sw_gw_accesslog **out = n ? sw_arena_array(b->arena, n, sizeof(*out)) : NULL;

    for (size_t i = 0; i < n; i++) {
        struct sw_gw_accesslog *l = SW_NEW(struct sw_gw_accesslog);
        int rc;

        atomic_init(&l->refs, 1);
        b->unref_log = sw_gw_accesslog_unref;
        sw_vec_push(&b->logs, l); /* the owner from here on */
        out[i] = l;
        rc = build_sink(b, l, in[i]);
        if (rc == SW_OK && in[i]->filter) {
            struct filter *f = SW_ARENA_NEW(&l->arena, struct filter);

            rc = build_filter(b, &l->arena, in[i]->filter, 0, f);
            l->filter = f;
        }
        if (rc < 0)
            return rc;
    }
    *ret = out;
    *ret_n = n;
    return SW_OK;
}

/* ---- writing ---- */

static bool flag_listed(const struct filter *f, const struct sw_gw_vars *v)
{
    char text[128];
    struct sw_slice have = sw_gw_flags_text(v->flags, text, sizeof(text));

    if (f->n == 0)
        return have.n > 0;
    while (have.p) {
        struct sw_slice one = sw_slice_cut(&have, ',');

        for (size_t i = 0; i < f->n; i++) {
            if (sw_slice_eq(one, f->flags[i]))
                return true;
        }
    }
    return false;
}

static bool filter_agrees(const struct filter *f, const struct sw_gw_vars *v)
{
    uint32_t status = (uint32_t)v->status;

    switch (f->kind) {
    case FILTER_STATUS:
        return f->op == 0   ? status == f->value
               : f->op == 1 ? status >= f->value
               : f->op == 2 ? status <= f->value
                            : status != f->value;
    case FILTER_AND:
    case FILTER_OR:
        for (size_t i = 0; i < f->n; i++) {
            if (filter_agrees(&f->subs[i], v) != (f->kind == FILTER_AND))
                return f->kind == FILTER_OR;
        }
        return f->kind == FILTER_AND;
    case FILTER_FLAGS:
        return flag_listed(f, v);
    }
    return true;
}

static void write_json(const struct layout *l, const struct json_field *f,
                       const struct sw_gw_vars *v, struct sw_jw *w)
{
    sw_jw_object(w);
    for (size_t i = 0; i < f->n; i++) {
        const struct json_field *sub = &f->subs[i];
        SW_BUF_AUTO text = {0};

        if (!sub->format) {
            sw_jw_key(w, sub->key);
            write_json(l, sub, v, w);
            continue;
        }
        sw_buf_init(&text, LINE_MAX_BYTES);
        (void)!sw_gw_format_write(sub->format, v, "", false, &text);
        if (sw_buf_len(&text) == 0 && l->omit_empty)
            continue;
        sw_jw_key(w, sub->key);
        if (sw_buf_len(&text) == 0)
            sw_jw_null(w);
        else if (sw_gw_format_is_number(sub->format))
            sw_jw_raw(w, sw_buf_slice(&text));
        else
            sw_jw_string(w, sw_buf_slice(&text));
    }
    sw_jw_object_end(w);
}

static int write_layout(const struct layout *l, const struct sw_gw_vars *v, bool line,
                        struct sw_buf *out)
{
    const char *missing = l->omit_empty ? "" : "-";
    struct sw_jw w;

    if (l->format)
        return sw_gw_format_write(l->format, v, missing, line, out);
    sw_jw_begin(&w, out, NULL);
    write_json(l, &l->json, v, &w);
    return sw_jw_end(&w) < 0 ? SW_ELIMIT : sw_buf_putc(out, '\n');
}

struct sw_slice sw_gw_body_text(const struct sw_gw_body_format *f, const struct sw_gw_vars *v,
                                struct sw_arena *a)
{
    SW_BUF_AUTO out = {0};

    sw_buf_init(&out, LINE_MAX_BYTES);
    if (write_layout(&f->layout, v, false, &out) != SW_OK)
        return v->local_body;
    return sw_arena_slice(a, sw_buf_slice(&out));
}

struct sw_slice sw_gw_body_type(const struct sw_gw_body_format *f)
{
    return f->content_type;
}

/* One request, one line, whatever the format contains. */
static void flatten(char *p, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++) {
        if (p[i] == '\n' || p[i] == '\r')
            p[i] = ' ';
    }
}

void sw_gw_accesslog_write(struct sw_gw_accesslog *const *logs, size_t n,
                           const struct sw_gw_vars *v)
{
    for (size_t i = 0; i < n; i++) {
        const struct sw_gw_accesslog *l = logs[i];
        SW_BUF_AUTO line = {0};

        if (l->filter && !filter_agrees(l->filter, v))
            continue;
        sw_buf_init(&line, LINE_MAX_BYTES);
        if (write_layout(&l->layout, v, true, &line) < 0)
            continue;
        if (l->layout.format)
            flatten(line.p + line.off, sw_buf_len(&line));
        sw_gw_sink_write(l->sink, sw_buf_slice(&line));
    }
}
