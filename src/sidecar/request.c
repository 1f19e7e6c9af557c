/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar/request.h"

#include "http/capsule.h"
#include "http/grammar.h"
#include "io/addr.h"
#include "quic/id/nodeid.h"
#include "tunnel/qhead.h"

enum { CAUSE_MAX = 1024 };

/* The fields of the contract, and names that older proxies use outside of CONNECT. */
static const struct sw_slice f_node = SW_SLICE_LIT("x-iroh-endpoint-id");
static const struct sw_slice f_host = SW_SLICE_LIT("x-datum-target-host");
static const struct sw_slice f_port = SW_SLICE_LIT("x-datum-target-port");
static const struct side_alias old_names[] = {
    {SW_SLICE_LIT("x-iroh-endpoint-id"), SW_SLICE_LIT("datum-node-id")},
    {SW_SLICE_LIT("x-datum-target-host"), SW_SLICE_LIT("datum-target-host")},
    {SW_SLICE_LIT("x-datum-target-port"), SW_SLICE_LIT("datum-target-port")},
    {SW_SLICE_LIT("x-datum-target-proto"), SW_SLICE_LIT("datum-target-proto")},
};

const char *side_kind_text(enum side_kind k)
{
    static const char *const texts[] = {[SIDE_CONNECT] = "connect",
                                        [SIDE_ORIGIN] = "origin",
                                        [SIDE_UPGRADE] = "upgrade",
                                        [SIDE_UDP] = "connect_udp"};

    return texts[k];
}

/* ---- fields ---- */

struct reader {
    const struct side_aliases *aliases;
    const struct side_in *in;
    bool old; /* the older names count */
    struct side_refusal *why;
};

static bool refuse(struct reader *r, unsigned status, const char *reason, const char *text)
{
    *r->why = (struct side_refusal){.status = status, .reason = reason, .text = text};
    return false;
}

static bool is_named(const struct reader *r, struct sw_slice name, struct sw_slice wanted)
{
    if (sw_slice_ieq(name, wanted))
        return true;
    for (size_t i = 0; r->old && i < SW_ARRAY_LEN(old_names); i++) {
        if (sw_slice_eq(old_names[i].name, wanted) && sw_slice_ieq(name, old_names[i].alias))
            return true;
    }
    for (size_t i = 0; i < r->aliases->n; i++) {
        if (sw_slice_ieq(r->aliases->p[i].name, wanted) &&
            sw_slice_ieq(name, r->aliases->p[i].alias))
            return true;
    }
    return false;
}

/* How often a field of the contract is there; *ret is the first. */
static size_t find(const struct reader *r, struct sw_slice wanted, struct sw_slice *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < r->in->n; i++) {
        if (is_named(r, r->in->fields[i].name, wanted) && n++ == 0)
            *ret = r->in->fields[i].value;
    }
    return n;
}

/* Fields of the contract stay between the proxy and us, under all their names. */
static bool is_contract(const struct reader *r, struct sw_slice name)
{
    if (is_named(r, name, f_node) || is_named(r, name, f_host) || is_named(r, name, f_port))
        return true;
    for (size_t i = 0; i < SW_ARRAY_LEN(old_names); i++) {
        if (sw_slice_ieq(name, old_names[i].alias))
            return true;
    }
    return false;
}

static bool read_node(struct reader *r, struct sw_nodeid *ret)
{
    struct sw_slice value = {0};
    size_t n = find(r, f_node, &value);

    if (n == 0)
        return refuse(r, 400, "missing_header_node_id", "no x-iroh-endpoint-id");
    if (n > 1 || sw_nodeid_parse(sw_slice_trim(value), ret, NULL) != SW_OK)
        return refuse(r, 400, "invalid_endpoint_id", "x-iroh-endpoint-id is not a NodeID");
    return true;
}

/* A bare host: a name, or an address with or without brackets. */
static bool host_ok(struct sw_slice *host)
{
    struct sw_ip ip;

    if (host->n > 2 && host->p[0] == '[' && host->p[host->n - 1] == ']')
        *host = sw_slice(host->p + 1, host->n - 2);
    if (host->n == 0 || host->n > SW_MASQUE_HOST_MAX)
        return false;
    if (sw_slice_find(*host, ':') >= 0)
        return sw_ip_parse(*host, &ip, NULL) == SW_OK;
    return sw_http_host_valid(*host);
}

/* A text that is no address to us, and one to the node's resolver ("127.1"). */
static bool is_disguised(struct sw_slice host)
{
    struct sw_ip ip;

    return sw_ip_parse(host, &ip, NULL) != SW_OK && sw_host_is_numeric(host);
}

static bool disguised(struct reader *r)
{
    return refuse(r, 400, "address_in_disguise",
                  "the last label of a host name must not be a number");
}

static bool read_target(struct reader *r, struct sw_slice *ret_host, uint16_t *ret_port)
{
    struct sw_slice port = {0};
    uint64_t v = 0;
    size_t hosts = find(r, f_host, ret_host);
    size_t ports = find(r, f_port, &port);

    if (hosts == 0 || ports == 0)
        return refuse(r, 400, "missing_header", "no x-datum-target-host or x-datum-target-port");
    if (ports > 1 || !sw_slice_to_u64(sw_slice_trim(port), 65535, &v) || v == 0)
        return refuse(r, 400, "invalid_target_port", "x-datum-target-port is not a port");
    *ret_host = sw_slice_trim(*ret_host);
    if (is_disguised(*ret_host))
        return disguised(r);
    if (hosts > 1 || !host_ok(ret_host))
        return refuse(r, 400, "invalid_target_host", "x-datum-target-host is not a host");
    *ret_port = (uint16_t)v;
    return true;
}

/* ---- the head for the node ---- */

static bool too_large(struct reader *r)
{
    return refuse(r, 431, "head_too_large", "the node would not take a head this large");
}

static bool keep_field(const struct reader *r, struct sw_slice name)
{
    static const struct sw_h1_msg none = {0};
    static const char *const ours[] = {"host", "x-forwarded-host", "content-length", "expect"};

    if ((name.n && name.p[0] == ':') || is_contract(r, name) ||
        sw_h1_is_hop_by_hop(r->in->msg ? r->in->msg : &none, name))
        return false;
    for (size_t i = 0; i < SW_ARRAY_LEN(ours); i++) {
        if (sw_slice_ieq(name, sw_slice_str(ours[i])))
            return false;
    }
    return true;
}

static int put_lower(struct sw_buf *b, struct sw_slice name, struct sw_slice value)
{
    size_t at = sw_buf_len(b);
    int rc = sw_h1_put_field(b, name, value);
    char *p = b->p + b->off + at;

    for (size_t i = 0; rc == SW_OK && i < name.n; i++) {
        if (p[i] >= 'A' && p[i] <= 'Z')
            p[i] = (char)(p[i] - 'A' + 'a');
    }
    return rc;
}

static int put_fields(struct sw_buf *b, const struct reader *r, size_t *n)
{
    int rc = SW_OK;

    for (size_t i = 0; i < r->in->n && rc == SW_OK; i++) {
        if (!keep_field(r, r->in->fields[i].name))
            continue;
        rc = put_lower(b, r->in->fields[i].name, r->in->fields[i].value);
        ++*n;
    }
    if (rc == SW_OK && r->in->authority.n && ++*n)
        rc = sw_h1_put_field(b, SW_SLICE_LIT("x-forwarded-host"), r->in->authority);
    if (rc == SW_OK && r->in->length_known && ++*n)
        rc = sw_buf_printf(b, "content-length: %llu\r\n", (unsigned long long)r->in->length);
    if (rc == SW_OK && r->in->protocol.n) {
        *n += 2;
        rc = sw_h1_put_field(b, SW_SLICE_LIT("connection"), SW_SLICE_LIT("upgrade"));
        if (rc == SW_OK)
            rc = sw_h1_put_field(b, SW_SLICE_LIT("upgrade"), r->in->protocol);
    }
    return rc;
}

static bool make_request(struct sw_arena *a, struct reader *r, struct sw_slice host, uint16_t port,
                         struct side_out *ret)
{
    SW_BUF_AUTO b = {.max = SW_QHEAD_MAX};
    struct sw_slice method = r->in->extended ? SW_SLICE_LIT("GET") : r->in->method;
    size_t n = 1; /* Host */
    int rc = sw_qhead_put_request(&b, method, host, port, r->in->path);

    if (rc == SW_OK)
        rc = put_fields(&b, r, &n);
    if (rc == SW_OK)
        rc = sw_h1_put_end(&b);
    if (rc == SW_ELIMIT || n > SW_QHEAD_FIELDS)
        return too_large(r);
    if (rc != SW_OK)
        return refuse(r, 400, "bad_request", "the request cannot be passed on");
    ret->head = sw_arena_slice(a, sw_buf_slice(&b));
    return true;
}

static void name_target(struct sw_arena *a, struct sw_slice host, uint16_t port,
                        struct side_out *ret)
{
    SW_BUF_AUTO b = {.max = 512};

    if (sw_qhead_put_authority(&b, host, port) == SW_OK)
        ret->target = sw_arena_slice(a, sw_buf_slice(&b));
}

/* ---- kinds ---- */

static struct sw_slice field_of(const struct side_in *in, const char *name)
{
    for (size_t i = 0; i < in->n; i++) {
        if (sw_slice_ieq(in->fields[i].name, sw_slice_str(name)))
            return in->fields[i].value;
    }
    return sw_slice("", 0);
}

/* What the gateway reports of the request that the tunnel is for. Too long: left out. */
static int put_cause(struct sw_buf *b, const struct side_in *in)
{
    static const char *const names[] = {SW_QHEAD_REQUEST_ID, SW_QHEAD_REQUEST};
    int rc = SW_OK;

    for (size_t i = 0; i < SW_ARRAY_LEN(names) && rc == SW_OK; i++) {
        struct sw_slice value = field_of(in, names[i]);

        if (value.n && value.n <= CAUSE_MAX && sw_http_value_valid(value))
            rc = sw_h1_put_field(b, sw_slice_str(names[i]), value);
    }
    return rc == SW_OK ? sw_h1_put_end(b) : rc;
}

static bool read_connect(struct sw_arena *a, struct reader *r, struct side_out *ret)
{
    SW_BUF_AUTO b = {.max = SW_QHEAD_MAX};
    struct sw_slice host;
    uint16_t port;

    if (sw_authority_split(r->in->authority, &host, &port, NULL) == SW_OK && is_disguised(host))
        return disguised(r);
    if (!sw_http_host_valid(r->in->authority) ||
        sw_authority_split(r->in->authority, &host, &port, NULL) != SW_OK ||
        sw_qhead_put_connect(&b, host, port) != SW_OK || put_cause(&b, r->in) != SW_OK)
        return refuse(r, 400, "invalid_target", "CONNECT needs 'host:port'");
    ret->kind = SIDE_CONNECT;
    ret->safe = true; /* nothing is sent before the answer */
    ret->head = sw_arena_slice(a, sw_buf_slice(&b));
    name_target(a, host, port, ret);
    return true;
}

static bool read_udp(struct sw_arena *a, struct reader *r, struct side_out *ret)
{
    SW_BUF_AUTO b = {.max = SW_QHEAD_MAX};
    char host[SW_MASQUE_HOST_MAX + 1];
    uint16_t port;

    if (sw_masque_udp_path(r->in->path, host, &port, NULL) != SW_OK)
        return refuse(r, 404, "invalid_udp_path", "not '/.well-known/masque/udp/{host}/{port}/'");
    if (is_disguised(sw_slice_str(host)))
        return disguised(r);
    if (sw_qhead_put_udp(&b, sw_slice_str(host), port, r->in->datagrams) != SW_OK)
        return refuse(r, 400, "invalid_target", "the path's host is none");
    ret->kind = SIDE_UDP;
    ret->head = sw_arena_slice(a, sw_buf_slice(&b));
    name_target(a, sw_slice_str(host), port, ret);
    return true;
}

static bool safe_method(struct sw_slice m)
{
    return sw_slice_eq_str(m, "GET") || sw_slice_eq_str(m, "HEAD") || sw_slice_eq_str(m, "OPTIONS");
}

bool side_request_read(struct sw_arena *a, const struct side_aliases *aliases,
                       const struct side_in *in, struct side_out *ret, struct side_refusal *why)
{
    bool connect = sw_slice_eq_str(in->method, "CONNECT") && !in->extended;
    struct reader r = {.aliases = aliases, .in = in, .old = !connect, .why = why};
    struct sw_slice host = {0};
    uint16_t port = 0;

    *ret = (struct side_out){.protocol = in->protocol, .id = field_of(in, SW_QHEAD_REQUEST_ID)};
    if (!read_node(&r, &ret->node))
        return false;
    if (connect)
        return read_connect(a, &r, ret);
    if (sw_slice_ieq(in->protocol, SW_SLICE_LIT("connect-udp")))
        return read_udp(a, &r, ret);
    if (!read_target(&r, &host, &port))
        return false;
    ret->kind = in->protocol.n ? SIDE_UPGRADE : SIDE_ORIGIN;
    ret->head_only = sw_slice_eq_str(in->method, "HEAD");
    ret->safe = !in->protocol.n && safe_method(in->method) && in->no_body;
    name_target(a, host, port, ret);
    return make_request(a, &r, host, port, ret);
}

struct sw_qcall_spec side_call_spec(const struct side_out *o, struct sw_slice method,
                                    uint64_t timeout_ns)
{
    return (struct sw_qcall_spec){
        .node = o->node,
        .head = o->head,
        .method = o->kind == SIDE_CONNECT ? SW_SLICE_LIT("CONNECT") : method,
        .safe = o->safe,
        .udp = o->kind == SIDE_UDP,
        .answer_timeout_ns = o->kind == SIDE_ORIGIN ? 0 : timeout_ns,
    };
}

/* ---- failures ---- */

struct side_failure side_failure_of(enum sw_qfail why)
{
    static const struct side_failure failures[] = {
        [SW_QFAIL_NONE] = {502, "proxy_internal_error"},
        [SW_QFAIL_UNKNOWN_NODE] = {504, "destination_not_found"},
        [SW_QFAIL_LOOKUP] = {504, "dns_timeout"},
        [SW_QFAIL_OFFLINE] = {503, "destination_unavailable"},
        [SW_QFAIL_DIAL_TIMEOUT] = {504, "connection_timeout"},
        [SW_QFAIL_DIAL_FAILED] = {504, "destination_ip_unroutable"},
        [SW_QFAIL_IDENTITY] = {502, "tls_certificate_error"},
        [SW_QFAIL_NOT_ADMITTED] = {403, "http_request_denied"},
        [SW_QFAIL_LIMIT] = {503, "connection_limit_reached"},
        [SW_QFAIL_STREAM] = {503, "connection_limit_reached"},
        [SW_QFAIL_DRAINING] = {503, "connection_limit_reached"},
        [SW_QFAIL_ANSWER_TIMEOUT] = {504, "http_response_timeout"},
        [SW_QFAIL_BAD_ANSWER] = {502, "http_protocol_error"},
        [SW_QFAIL_LOST] = {502, "connection_terminated"},
        [SW_QFAIL_RESET] = {502, "connection_terminated"},
    };

    return failures[why];
}

struct sw_slice side_proxy_status(struct sw_arena *a, const char *proxy_error, const char *text)
{
    char *s = sw_arena_printf(a, "spanwire; error=%s; details=\"%.120s\"", proxy_error, text);

    for (char *p = strchr(s, '"') + 1; p[0] && p[1]; p++) { /* a string of RFC 8941 */
        if (*p == '"' || *p == '\\' || *p < ' ' || *p >= 0x7f)
            *p = ' ';
    }
    return sw_slice_str(s);
}

int side_put_error(struct sw_buf *out, unsigned status, const char *reason, const char *proxy_error,
                   const char *text, bool close)
{
    SW_ARENA_AUTO tmp = {0};
    struct sw_slice ps = side_proxy_status(&tmp, proxy_error, text);
    int rc = sw_h1_put_status(out, (int)status, sw_slice(NULL, 0), 1);

    if (rc == SW_OK)
        rc = sw_h1_put_field(out, SW_SLICE_LIT("proxy-status"), ps);
    if (rc == SW_OK && status == 503)
        rc = sw_buf_append_str(out, "retry-after: 5\r\n");
    if (rc == SW_OK)
        rc = sw_buf_printf(out,
                           "x-spanwire-reason: %s\r\ncontent-type: text/plain\r\n"
                           "content-length: %zu\r\n%s\r\n%s\n",
                           reason, strlen(text) + 1, close ? "connection: close\r\n" : "", text);
    return rc;
}
