/* SPDX-License-Identifier: Apache-2.0 */
/* Format strings: parsed once into pieces, expanded without further parsing. */
#include "gateway/observe/accesslog.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "gateway/observe/accesslog_int.h"
#include "gateway/upstream/cluster.h"
#include "tls/tls.h"
#include "xds/limits.h"

enum { EXPANSION_MAX = 16384 };

/* X(id, name, takes an argument, comes out as a number in JSON) */
#define OPERATORS(X)                                                                               \
    X(START_TIME, 2, false)                                                                        \
    X(REQ, 1, false)                                                                               \
    X(REQ_WITHOUT_QUERY, 1, false)                                                                 \
    X(RESP, 1, false)                                                                              \
    X(TRAILER, 1, false)                                                                           \
    X(PROTOCOL, 0, false)                                                                          \
    X(RESPONSE_CODE, 0, true)                                                                      \
    X(RESPONSE_CODE_DETAILS, 0, false)                                                             \
    X(RESPONSE_FLAGS, 0, false)                                                                    \
    X(BYTES_RECEIVED, 0, true)                                                                     \
    X(BYTES_SENT, 0, true)                                                                         \
    X(DURATION, 0, true)                                                                           \
    X(REQUEST_DURATION, 0, true)                                                                   \
    X(RESPONSE_DURATION, 0, true)                                                                  \
    X(RESPONSE_TX_DURATION, 0, true)                                                               \
    X(CONNECTION_TERMINATION_DETAILS, 0, false)                                                    \
    X(TRACE_ID, 0, false)                                                                          \
    X(UPSTREAM_HOST, 0, false)                                                                     \
    X(UPSTREAM_REMOTE_ADDRESS, 0, false)                                                           \
    X(UPSTREAM_CLUSTER, 0, false)                                                                  \
    X(UPSTREAM_CLUSTER_RAW, 0, false)                                                              \
    X(UPSTREAM_LOCAL_ADDRESS, 0, false)                                                            \
    X(UPSTREAM_TRANSPORT_FAILURE_REASON, 0, false)                                                 \
    X(UPSTREAM_REQUEST_ATTEMPT_COUNT, 0, true)                                                     \
    X(UPSTREAM_METADATA, 1, false)                                                                 \
    X(CLUSTER_METADATA, 1, false)                                                                  \
    X(DYNAMIC_METADATA, 1, false)                                                                  \
    X(DOWNSTREAM_REMOTE_ADDRESS, 0, false)                                                         \
    X(DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT, 0, false)                                            \
    X(DOWNSTREAM_DIRECT_REMOTE_ADDRESS, 0, false)                                                  \
    X(DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT, 0, false)                                     \
    X(DOWNSTREAM_LOCAL_ADDRESS, 0, false)                                                          \
    X(DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT, 0, false)                                             \
    X(DOWNSTREAM_LOCAL_PORT, 0, true)                                                              \
    X(DOWNSTREAM_TLS_VERSION, 0, false)                                                            \
    X(DOWNSTREAM_TLS_CIPHER, 0, false)                                                             \
    X(DOWNSTREAM_PEER_URI_SAN, 0, false)                                                           \
    X(DOWNSTREAM_PEER_SUBJECT, 0, false)                                                           \
    X(REQUESTED_SERVER_NAME, 0, false)                                                             \
    X(ROUTE_NAME, 0, false)                                                                        \
    X(VIRTUAL_CLUSTER_NAME, 0, false)                                                              \
    X(FILTER_CHAIN_NAME, 0, false)                                                                 \
    X(CONNECTION_ID, 0, true)                                                                      \
    X(HOSTNAME, 0, false)                                                                          \
    X(STREAM_ID, 0, false)                                                                         \
    X(LOCAL_REPLY_BODY, 0, false)

enum op {
    OP_LITERAL,
#define OP_ENUM(name, arg, num) OP_##name,
    OPERATORS(OP_ENUM)
#undef OP_ENUM
};

static const struct {
    const char *name;
    uint8_t arg; /* 0 none, 1 needed, 2 optional */
    bool number;
} operators[] = {[OP_LITERAL] = {"", 0, false},
#define OP_ROW(name, arg, num) [OP_##name] = {#name, arg, num},
                 OPERATORS(OP_ROW)
#undef OP_ROW
};

struct piece {
    enum op op;
    struct sw_slice text; /* literal, or the argument */
    struct sw_slice alt;  /* REQ(X?Y): Y */
    size_t max;           /* :Z; 0: no limit */
};

struct sw_gw_format {
    struct piece *p;
    size_t n;
};

/* "NAME(arg):12" between percent signs. */
static int parse_operator(struct sw_arena *a, struct sw_slice body, struct piece *ret,
                          struct sw_err *err)
{
    ptrdiff_t open = sw_slice_find(body, '(');
    struct sw_slice name = open >= 0 ? sw_slice_head(body, (size_t)open) : body;
    struct sw_slice rest = open >= 0 ? sw_slice_from(body, (size_t)open + 1) : sw_slice("", 0);
    uint64_t max = 0;

    if (open >= 0) {
        ptrdiff_t close = sw_slice_rfind(rest, ')');
        struct sw_slice tail;

        if (close < 0)
            return sw_err_set(err, SW_EINVAL, "format: ')' missing after '%.*s'",
                              SW_SLICE_ARG(name));
        tail = sw_slice_from(rest, (size_t)close + 1);
        rest = sw_slice_head(rest, (size_t)close);
        if (tail.n && (tail.p[0] != ':' || !sw_slice_to_u64(sw_slice_from(tail, 1), 1 << 20, &max)))
            return sw_err_set(err, SW_EINVAL, "format: bad length after '%.*s'",
                              SW_SLICE_ARG(name));
    }
    for (size_t i = 1; i < SW_ARRAY_LEN(operators); i++) {
        ptrdiff_t alt;

        if (!sw_slice_eq_str(name, operators[i].name))
            continue;
        if ((operators[i].arg == 1 && rest.n == 0) || (operators[i].arg == 0 && open >= 0))
            return sw_err_set(err, SW_EINVAL, "format: %s %s", operators[i].name,
                              operators[i].arg ? "needs an argument" : "takes no argument");
        *ret = (struct piece){.op = (enum op)i, .max = (size_t)max};
        alt = i == OP_START_TIME ? -1 : sw_slice_find(rest, '?');
        if (alt >= 0) {
            ret->alt = sw_arena_slice(a, sw_slice_from(rest, (size_t)alt + 1));
            rest = sw_slice_head(rest, (size_t)alt);
        }
        ret->text = sw_arena_slice(a, rest);
        return SW_OK;
    }
    return sw_err_set(err, SW_EINVAL, "format: unknown operator '%.*s'",
                      SW_SLICE_ARG_MAX(name, 60));
}

/* The '%' that ends an operator: START_TIME's argument has some of its own. */
static ptrdiff_t operator_end(struct sw_slice s)
{
    ptrdiff_t open = sw_slice_find(s, '(');
    ptrdiff_t end = sw_slice_find(s, '%');
    ptrdiff_t close;

    if (open < 0 || (end >= 0 && end < open))
        return end;
    close = sw_slice_find(s, ')');
    if (close < 0)
        return end;
    end = sw_slice_find(sw_slice_from(s, (size_t)close), '%');
    return end < 0 ? -1 : close + end;
}

static int push(struct sw_gw_format *f, struct piece p, struct sw_err *err)
{
    if (f->n == SW_XDS_FORMAT_MAX)
        return sw_err_set(err, SW_ELIMIT, "format of more than %d pieces", SW_XDS_FORMAT_MAX);
    f->p[f->n++] = p;
    return SW_OK;
}

int sw_gw_format_parse(struct sw_arena *a, struct sw_slice text, const struct sw_gw_format **ret,
                       struct sw_err *err)
{
    struct piece pieces[SW_XDS_FORMAT_MAX];
    struct sw_gw_format tmp = {.p = pieces};
    struct sw_gw_format *f;

    while (text.n) {
        ptrdiff_t at = sw_slice_find(text, '%');
        struct piece p = {.op = OP_LITERAL};
        int rc = SW_OK;

        if (at != 0) {
            p.text = sw_arena_slice(a, at < 0 ? text : sw_slice_head(text, (size_t)at));
            text = sw_slice_from(text, p.text.n);
        } else if (text.n > 1 && text.p[1] == '%') {
            p.text = SW_SLICE_LIT("%");
            text = sw_slice_from(text, 2);
        } else {
            struct sw_slice body = sw_slice_from(text, 1);
            ptrdiff_t end = operator_end(body);

            if (end < 0)
                return sw_err_set(err, SW_EINVAL, "format: '%%' without its end");
            rc = parse_operator(a, sw_slice_head(body, (size_t)end), &p, err);
            text = sw_slice_from(body, (size_t)end + 1);
        }
        if (rc == SW_OK)
            rc = push(&tmp, p, err);
        if (rc < 0)
            return rc;
    }
    f = SW_ARENA_NEW(a, struct sw_gw_format);
    f->p = sw_arena_array(a, tmp.n ? tmp.n : 1, sizeof(*f->p));
    if (tmp.n)
        memcpy(f->p, pieces, tmp.n * sizeof(*f->p));
    f->n = tmp.n;
    *ret = f;
    return SW_OK;
}

struct sw_slice sw_gw_format_literal(const struct sw_gw_format *f)
{
    if (f->n == 0)
        return sw_slice("", 0);
    return f->n == 1 && f->p[0].op == OP_LITERAL ? f->p[0].text : sw_slice(NULL, 0);
}

bool sw_gw_format_is_number(const struct sw_gw_format *f)
{
    return f->n == 1 && operators[f->p[0].op].number;
}

/* ---- expansion: each returns a slice, p == NULL when there is no value ---- */

enum { SCRATCH = 256 };
static const struct sw_slice none = {NULL, 0};

static struct sw_slice num(char *s, uint64_t n)
{
    return sw_slice(s, (size_t)snprintf(s, SCRATCH, "%" PRIu64, n));
}

static struct sw_slice millis(char *s, uint64_t ns, bool known)
{
    return known ? num(s, ns / SW_NS_PER_MS) : none;
}

static struct sw_slice addr(char *s, const struct sw_addr *a, bool port)
{
    if (a->ip.family == 0)
        return none;
    return sw_slice_str(port ? sw_addr_text(a, s) : sw_ip_text(&a->ip, s));
}

static struct sw_slice field(const struct sw_gw_fields *f, struct sw_slice name)
{
    for (uint32_t i = 0; i < f->n; i++) {
        if (sw_slice_ieq(f->p[i].name, name))
            return f->p[i].value;
    }
    return none;
}

static struct sw_slice request_field(const struct sw_gw_vars *v, struct sw_slice name)
{
    if (!v->req || name.n == 0)
        return none;
    if (name.p[0] != ':') {
        if (sw_slice_ieq(name, SW_SLICE_LIT("host")))
            return v->req->authority;
        if (sw_slice_ieq(name, SW_SLICE_LIT("x-envoy-original-path")))
            return v->original_path.n ? v->original_path : none;
        return field(&v->req->fields, name);
    }
    if (sw_slice_ieq(name, SW_SLICE_LIT(":method")))
        return v->req->method;
    if (sw_slice_ieq(name, SW_SLICE_LIT(":path")))
        return v->req->path;
    if (sw_slice_ieq(name, SW_SLICE_LIT(":authority")))
        return v->req->authority;
    if (sw_slice_ieq(name, SW_SLICE_LIT(":scheme")))
        return v->req->scheme;
    return none;
}

/* "ns:key:key" in {"ns": {"key": ...}}; strings bare, everything else as JSON. */
static struct sw_slice metadata(char *s, const struct sw_json *root, struct sw_slice path)
{
    const struct sw_json *v = root;
    SW_BUF_AUTO out = {0};

    while (path.p && v)
        v = sw_json_get(v, sw_slice_cut(&path, ':'));
    if (!v || v == root)
        return none;
    if (v->type == SW_JSON_STRING)
        return v->text;
    sw_buf_init(&out, SCRATCH);
    if (sw_json_write(&out, v, NULL) < 0)
        return none;
    memcpy(s, sw_buf_data(&out), sw_buf_len(&out));
    return sw_slice(s, sw_buf_len(&out));
}

static struct sw_slice protocol(const struct sw_gw_vars *v)
{
    static const char *const names[] = {
        [SW_GW_HTTP10] = "HTTP/1.0", [SW_GW_HTTP11] = "HTTP/1.1", [SW_GW_HTTP2] = "HTTP/2"};

    return v->req && v->http ? sw_slice_str(names[v->req->version]) : none;
}

struct sw_slice sw_gw_flags_text(uint32_t flags, char *s, size_t cap)
{
    static const char *const names[] = {
#define NAME(name) #name,
        SW_GW_FLAGS(NAME)
#undef NAME
    };
    size_t n = 0;

    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        int w;

        if (!(flags & (1u << i)))
            continue;
        w = snprintf(s + n, cap - n, "%s%s", n ? "," : "", names[i]);
        if (w < 0 || (size_t)w >= cap - n)
            break;
        n += (size_t)w;
    }
    return n ? sw_slice(s, n) : none;
}

/*
 * The format with what strftime does not know, or knows only for the local zone, written out: %s,
 * and fractions of a second, %f (nine digits) or %1f to %9f. False when it gets too long.
 */
static bool fill_fractions(char *out, size_t cap, struct sw_slice in, uint64_t ns)
{
    char nanos[10];
    size_t n = 0;

    (void)snprintf(nanos, sizeof(nanos), "%09u", (unsigned)(ns % SW_NS_PER_S));
    for (size_t i = 0; i < in.n; i++) {
        bool percent = in.p[i] == '%' && i + 1 < in.n;
        size_t digits = percent && in.p[i + 1] >= '1' && in.p[i + 1] <= '9' && i + 2 < in.n &&
                                in.p[i + 2] == 'f'
                            ? (size_t)(in.p[i + 1] - '0')
                        : percent && in.p[i + 1] == 'f' ? 9
                                                        : 0;

        if (n + 24 > cap)
            return false;
        if (digits) {
            memcpy(out + n, nanos, digits);
            n += digits;
            i += in.p[i + 1] == 'f' ? 1 : 2;
        } else if (percent && in.p[i + 1] == 's') {
            n += (size_t)snprintf(out + n, cap - n, "%" PRIu64, ns / SW_NS_PER_S);
            i++;
        } else {
            out[n++] = in.p[i];
            if (percent) /* "%%f" is a percent sign and an f */
                out[n++] = in.p[++i];
        }
    }
    out[n] = '\0';
    return true;
}

static struct sw_slice start_time(char *s, const struct sw_gw_vars *v, struct sw_slice format)
{
    char text[SW_RFC3339_LEN];
    char fmt[256];
    time_t t = (time_t)(v->start_wall_ns / SW_NS_PER_S);
    struct tm tm;

    if (v->start_wall_ns == 0)
        return none;
    if (format.n == 0 || !fill_fractions(fmt, sizeof(fmt), format, v->start_wall_ns)) {
        /* Milliseconds, as every reader of these logs expects. */
        (void)sw_rfc3339(v->start_wall_ns, 1, text);
        return sw_slice(s, (size_t)snprintf(s, SCRATCH, "%.23sZ", text));
    }
    if (!gmtime_r(&t, &tm))
        return none;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    return sw_slice(s, strftime(s, SCRATCH, fmt, &tm));
#pragma GCC diagnostic pop
}

static struct sw_slice peer_of(const struct sw_gw_vars *v, bool uri)
{
    const struct sw_tls_peer *p = v->client;

    if (!p)
        return none;
    if (!uri)
        return p->cn.n ? p->cn : none;
    return p->n_ids ? p->ids[0].uri : none;
}

/* "TLS1.3 AES-128-GCM" in its two parts, the version as others write it. */
static struct sw_slice tls_version(char *s, const char *cipher)
{
    struct sw_slice rest = sw_slice_str(cipher);
    struct sw_slice v = sw_slice_cut(&rest, ' ');

    if (!sw_slice_has_prefix(v, SW_SLICE_LIT("TLS")))
        return none;
    return sw_slice(s, (size_t)snprintf(s, SCRATCH, "TLSv%.*s", (int)v.n - 3, v.p + 3));
}

static struct sw_slice tls_cipher(const char *cipher)
{
    struct sw_slice rest = sw_slice_str(cipher);

    (void)sw_slice_cut(&rest, ' ');
    return rest.n ? rest : none;
}

static struct sw_slice hostname(char *s)
{
    if (gethostname(s, SCRATCH - 1) < 0)
        return none;
    s[SCRATCH - 1] = '\0';
    return sw_slice_str(s);
}

static struct sw_slice maybe(struct sw_slice s)
{
    return s.n ? s : none;
}

static struct sw_slice cstr(const char *s)
{
    return s ? sw_slice_str(s) : none;
}

static struct sw_slice without_query(struct sw_slice path)
{
    ptrdiff_t at = path.n ? sw_slice_find(path, '?') : -1;

    return at >= 0 ? sw_slice_head(path, (size_t)at) : path;
}

static struct sw_slice expand(const struct piece *p, const struct sw_gw_vars *v, char *s)
{
    struct sw_slice r;

    switch (p->op) {
    case OP_LITERAL:
        return p->text;
    case OP_START_TIME:
        return start_time(s, v, p->text);
    case OP_REQ:
        r = request_field(v, p->text);
        return r.p ? r : request_field(v, p->alt);
    case OP_REQ_WITHOUT_QUERY:
        r = request_field(v, p->text);
        return without_query(r.p ? r : request_field(v, p->alt));
    case OP_CONNECTION_TERMINATION_DETAILS: /* why a connection was ended beside its requests */
    case OP_TRACE_ID:
        return none;
    case OP_RESP:
        r = v->resp ? field(&v->resp->fields, p->text) : none;
        return r.p || !v->resp || !p->alt.n ? r : field(&v->resp->fields, p->alt);
    case OP_TRAILER:
        return v->resp ? field(&v->resp->trailers, p->text) : none;
    case OP_PROTOCOL:
        return protocol(v);
    case OP_RESPONSE_CODE:
        return v->http ? num(s, (uint64_t)v->status) : SW_SLICE_LIT("0");
    case OP_RESPONSE_CODE_DETAILS:
        return cstr(v->detail);
    case OP_RESPONSE_FLAGS:
        return sw_gw_flags_text(v->flags, s, SCRATCH);
    case OP_BYTES_RECEIVED:
        return num(s, v->rx_bytes);
    case OP_BYTES_SENT:
        return num(s, v->tx_bytes);
    case OP_DURATION:
        return millis(s, v->duration_ns, true);
    case OP_REQUEST_DURATION:
        return millis(s, v->request_ns, v->request_ns != 0);
    case OP_RESPONSE_DURATION:
        return millis(s, v->response_ns, v->response_ns != 0);
    case OP_RESPONSE_TX_DURATION:
        return millis(s, v->duration_ns - v->response_ns,
                      v->response_ns != 0 && v->duration_ns >= v->response_ns);
    case OP_UPSTREAM_HOST:
    case OP_UPSTREAM_REMOTE_ADDRESS:
        return v->member ? v->member->text : none;
    case OP_UPSTREAM_CLUSTER:
    case OP_UPSTREAM_CLUSTER_RAW:
        return maybe(v->cluster);
    case OP_UPSTREAM_LOCAL_ADDRESS:
        return addr(s, &v->upstream_local, true);
    case OP_UPSTREAM_TRANSPORT_FAILURE_REASON:
        return cstr(v->failure);
    case OP_UPSTREAM_REQUEST_ATTEMPT_COUNT:
        return num(s, v->attempts);
    case OP_UPSTREAM_METADATA:
        return metadata(s, v->member ? v->member->metadata : NULL, p->text);
    case OP_CLUSTER_METADATA:
        return metadata(s, v->cluster_metadata, p->text);
    case OP_DYNAMIC_METADATA:
        return metadata(s, v->metadata, p->text);
    case OP_DOWNSTREAM_REMOTE_ADDRESS:
    case OP_DOWNSTREAM_DIRECT_REMOTE_ADDRESS:
        return addr(s, &v->peer, true);
    case OP_DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT:
    case OP_DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT:
        return addr(s, &v->peer, false);
    case OP_DOWNSTREAM_LOCAL_ADDRESS:
        return addr(s, &v->local, true);
    case OP_DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT:
        return addr(s, &v->local, false);
    case OP_DOWNSTREAM_LOCAL_PORT:
        return v->local.ip.family ? num(s, v->local.port) : none;
    case OP_DOWNSTREAM_TLS_VERSION:
        return v->cipher ? tls_version(s, v->cipher) : none;
    case OP_DOWNSTREAM_TLS_CIPHER:
        return v->cipher ? tls_cipher(v->cipher) : none;
    case OP_DOWNSTREAM_PEER_URI_SAN:
        return peer_of(v, true);
    case OP_DOWNSTREAM_PEER_SUBJECT:
        return peer_of(v, false);
    case OP_REQUESTED_SERVER_NAME:
        return maybe(v->sni);
    case OP_ROUTE_NAME:
        return maybe(v->route);
    case OP_VIRTUAL_CLUSTER_NAME:
        return maybe(v->vhost);
    case OP_FILTER_CHAIN_NAME:
        return maybe(v->chain);
    case OP_CONNECTION_ID:
        return num(s, v->connection_id);
    case OP_HOSTNAME:
        return hostname(s);
    case OP_LOCAL_REPLY_BODY:
        return maybe(v->local_body);
    case OP_STREAM_ID:
        return v->req ? field(&v->req->fields, SW_SLICE_LIT("x-request-id")) : none;
    }
    return none;
}

static bool needs_escape(char c)
{
    return (unsigned char)c < ' ' || c == '"' || c == '\\' || c == 0x7f;
}

static int put_escaped(struct sw_buf *out, char c)
{
    const char *short_ones = "\"\"\\\\\nn\rr\tt"; /* pairs */

    for (const char *p = short_ones; *p; p += 2) {
        if (*p == c)
            return sw_buf_printf(out, "\\%c", p[1]);
    }
    return sw_buf_printf(out, "\\u%04x", (unsigned char)c);
}

/* As in a JSON string: neither the end of a quoted field nor that of a line can be forged. */
static int append_escaped(struct sw_buf *out, struct sw_slice s)
{
    int rc = SW_OK;

    for (size_t from = 0, i = 0; rc >= 0 && from < s.n; i++) {
        if (i < s.n && !needs_escape(s.p[i]))
            continue;
        rc = sw_buf_append(out, s.p + from, i - from);
        if (rc >= 0 && i < s.n)
            rc = put_escaped(out, s.p[i]);
        from = i + 1;
    }
    return rc;
}

/* What was configured, not sent by a peer; metadata may be JSON itself. */
static bool is_ours(enum op op)
{
    return op == OP_LITERAL || op == OP_UPSTREAM_METADATA || op == OP_CLUSTER_METADATA ||
           op == OP_DYNAMIC_METADATA;
}

int sw_gw_format_write(const struct sw_gw_format *f, const struct sw_gw_vars *v,
                       const char *missing, bool escape, struct sw_buf *out)
{
    char scratch[SCRATCH];

    for (size_t i = 0; i < f->n; i++) {
        struct sw_slice s = expand(&f->p[i], v, scratch);
        int rc;

        if (!s.p)
            s = sw_slice_str(missing);
        if (f->p[i].max && s.n > f->p[i].max)
            s.n = f->p[i].max;
        rc = escape && !is_ours(f->p[i].op) ? append_escaped(out, s) : sw_buf_append_slice(out, s);
        if (rc < 0)
            return SW_ELIMIT;
    }
    return SW_OK;
}

struct sw_slice sw_gw_format_text(const struct sw_gw_format *f, const struct sw_gw_vars *v,
                                  struct sw_arena *a)
{
    struct sw_slice literal = sw_gw_format_literal(f);
    SW_BUF_AUTO out = {0};

    if (literal.p)
        return literal;
    sw_buf_init(&out, EXPANSION_MAX);
    (void)!sw_gw_format_write(f, v, "", false, &out);
    return sw_arena_slice(a, sw_buf_slice(&out));
}
