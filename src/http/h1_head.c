/* SPDX-License-Identifier: Apache-2.0 */
/* What a message head means: start line, fields, and from them where the message ends. */
#include "http/h1_int.h"

#include <assert.h>

#include "http/grammar.h"
#include "io/addr.h"

static struct sw_slice at(struct sw_slice in, struct h1_span s)
{
    return sw_slice(in.p + s.off, s.n);
}

/* "HTTP/1.x": 505 for other versions of the right shape, 400 for anything else. */
static int parse_version(struct sw_h1 *p, struct sw_slice v, size_t off)
{
    bool shaped = v.n == 8 && memcmp(v.p, "HTTP/", 5) == 0 && v.p[5] >= '0' && v.p[5] <= '9' &&
                  v.p[6] == '.' && v.p[7] >= '0' && v.p[7] <= '9';

    if (!shaped)
        return h1_fail(p, 400, SW_EPROTO, off, "not an HTTP/1.1 start line");
    if (v.p[5] != '1' || v.p[7] > '1')
        return h1_fail(p, 505, SW_EPROTO, off, "HTTP version %c.%c is not supported", v.p[5],
                       v.p[7]);
    p->msg.minor = v.p[7] - '0';
    return SW_OK;
}

static int request_line(struct sw_h1 *p, struct sw_slice in, struct h1_span line)
{
    struct sw_slice s = at(in, line);
    ptrdiff_t first = sw_slice_find(s, ' ');
    ptrdiff_t last = sw_slice_rfind(s, ' ');
    int rc;

    if (first <= 0 || last <= first)
        return h1_fail(p, 400, SW_EPROTO, line.off, "not a request line");
    rc = parse_version(p, sw_slice_from(s, (size_t)last + 1), line.off + (size_t)last + 1);
    if (rc != SW_OK)
        return rc;
    p->method = (struct h1_span){line.off, (size_t)first};
    p->target = (struct h1_span){line.off + (size_t)first + 1, (size_t)(last - first) - 1};
    if (!sw_http_token_valid(at(in, p->method)))
        return h1_fail(p, 400, SW_EPROTO, line.off, "bad method");
    if (!sw_http_target_strict(at(in, p->target)))
        return h1_fail(p, 400, SW_EPROTO, p->target.off, "bad request target");
    return SW_OK;
}

static int status_line(struct sw_h1 *p, struct sw_slice in, struct h1_span line)
{
    struct sw_slice s = at(in, line);
    const char *d = s.p + 9;
    int rc = parse_version(p, sw_slice_head(s, 8), line.off);

    if (rc != SW_OK)
        return rc;
    if (s.n < 12 || s.p[8] != ' ' || d[0] < '1' || d[0] > '9' || d[1] < '0' || d[1] > '9' ||
        d[2] < '0' || d[2] > '9' || (s.n > 12 && s.p[12] != ' '))
        return h1_fail(p, 400, SW_EPROTO, line.off, "bad status line");
    p->msg.status = (d[0] - '0') * 100 + (d[1] - '0') * 10 + (d[2] - '0');
    p->reason = (struct h1_span){line.off + sw_min(s.n, 13), s.n > 13 ? s.n - 13 : 0};
    if (!sw_http_value_valid(sw_slice_trim(at(in, p->reason))))
        return h1_fail(p, 400, SW_EPROTO, p->reason.off, "control byte in the reason phrase");
    return SW_OK;
}

int h1_start_line(struct sw_h1 *p, struct sw_slice in, struct h1_span line)
{
    return p->kind == SW_H1_REQUEST ? request_line(p, in, line) : status_line(p, in, line);
}

int h1_field_line(struct sw_h1 *p, struct sw_slice in, struct h1_span line)
{
    struct sw_slice s = at(in, line);
    size_t colon = sw_http_token_len(s);
    struct sw_slice name;
    struct sw_slice value;

    if (p->spans.n == p->limits.headers)
        return h1_fail(p, 431, SW_ELIMIT, line.off, "more than %zu header fields",
                       p->limits.headers);
    if (s.p[0] == ' ' || s.p[0] == '\t')
        return h1_fail(p, 400, SW_EPROTO, line.off, "folded header line");
    if (colon == 0 || colon == s.n || s.p[colon] != ':')
        return h1_fail(p, 400, SW_EPROTO, line.off,
                       sw_slice_find(s, ':') <= 0 ? "header line without a name"
                                                  : "bad byte in a header name");
    name = sw_slice_head(s, colon);
    value = sw_slice_trim(sw_slice_from(s, colon + 1));
    if (!sw_http_value_valid(value))
        return h1_fail(p, 400, SW_EPROTO, line.off + colon + 1,
                       "control byte in the value of '%.*s'", (int)sw_min(name.n, 64), name.p);
    sw_vec_push(&p->spans, (struct h1_field_span){
                               .name = {line.off, name.n},
                               .value = {(size_t)(value.p - in.p), value.n},
                           });
    return SW_OK;
}

void h1_resolve(const struct sw_h1 *p, struct sw_slice in, h1_fields *dst)
{
    dst->n = 0;
    for (size_t i = 0; i < p->spans.n; i++)
        sw_vec_push(dst, (struct sw_h1_field){
                             .name = at(in, p->spans.p[i].name),
                             .value = at(in, p->spans.p[i].value),
                         });
}

/* The fields that decide something, gathered in one pass. */
struct head_facts {
    struct sw_slice host, length, coding, expect, upgrade;
    unsigned hosts, lengths, codings, expects;
    bool close, keep_alive, connection_upgrade;
    bool lists_fields; /* Connection lists something else than these */
};

static void connection_tokens(struct head_facts *f, struct sw_slice value)
{
    struct sw_slice rest = value;

    while (rest.p) {
        struct sw_slice t = sw_slice_trim(sw_slice_cut(&rest, ','));

        if (sw_slice_ieq(t, SW_SLICE_LIT("close")))
            f->close = true;
        else if (sw_slice_ieq(t, SW_SLICE_LIT("keep-alive")))
            f->keep_alive = true;
        else if (sw_slice_ieq(t, SW_SLICE_LIT("upgrade")))
            f->connection_upgrade = true;
        else if (t.n && !sw_slice_ieq(t, SW_SLICE_LIT("te")))
            f->lists_fields = true;
    }
}

/* Most names differ in length already. */
static inline bool named(const struct sw_h1_field *f, struct sw_slice name)
{
    return f->name.n == name.n && sw_slice_ieq(f->name, name);
}

static void gather(const struct sw_h1 *p, struct head_facts *f)
{
    SW_VEC_FOREACH (const struct sw_h1_field, it, &p->fields) {
        if (named(it, SW_SLICE_LIT("host"))) {
            f->host = it->value;
            f->hosts++;
        } else if (named(it, SW_SLICE_LIT("content-length"))) {
            f->length = it->value;
            f->lengths++;
        } else if (named(it, SW_SLICE_LIT("transfer-encoding"))) {
            f->coding = it->value;
            f->codings++;
        } else if (named(it, SW_SLICE_LIT("connection"))) {
            connection_tokens(f, it->value);
        } else if (named(it, SW_SLICE_LIT("upgrade"))) {
            f->upgrade = it->value;
        } else if (named(it, SW_SLICE_LIT("expect"))) {
            f->expect = it->value;
            f->expects++;
        }
    }
}

/* "http://host/path?query": scheme, authority and the rest. */
static bool split_absolute(struct sw_h1_msg *m)
{
    ptrdiff_t colon = sw_slice_find(m->target, ':');
    struct sw_slice rest;
    size_t n = 0;

    if (colon <= 0)
        return false;
    m->scheme = sw_slice_head(m->target, (size_t)colon);
    for (size_t i = 0; i < m->scheme.n; i++) {
        char c = m->scheme.p[i];
        bool alpha = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

        if (!alpha && (i == 0 || !((c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.')))
            return false;
    }
    rest = sw_slice_from(m->target, (size_t)colon + 1);
    if (!sw_slice_has_prefix(rest, SW_SLICE_LIT("//")))
        return false;
    rest = sw_slice_from(rest, 2);
    while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?')
        n++;
    m->authority = sw_slice_head(rest, n);
    m->path_query = sw_slice_from(rest, n);
    return sw_http_host_valid(m->authority);
}

static int target_form(struct sw_h1 *p)
{
    struct sw_h1_msg *m = &p->msg;
    bool connect = sw_slice_eq_str(m->method, "CONNECT");
    struct sw_slice host;
    uint16_t port;

    if (connect) {
        m->form = SW_H1_AUTHORITY;
        m->authority = m->target;
        if (!sw_http_host_valid(m->target) ||
            (!p->limits.bare_host && sw_authority_split(m->target, &host, &port, NULL) != SW_OK))
            return h1_fail(p, 400, SW_EPROTO, 0, "CONNECT needs 'host:port'");
    } else if (sw_slice_has_prefix(m->target, SW_SLICE_LIT("/"))) {
        m->form = SW_H1_ORIGIN;
        m->path_query = m->target;
    } else if (sw_slice_eq_str(m->target, "*")) {
        m->form = SW_H1_ASTERISK;
        if (!sw_slice_eq_str(m->method, "OPTIONS"))
            return h1_fail(p, 400, SW_EPROTO, 0, "target '*' is for OPTIONS only");
    } else {
        m->form = SW_H1_ABSOLUTE;
        if (!split_absolute(m))
            return h1_fail(p, 400, SW_EPROTO, 0, "bad request target");
    }
    return SW_OK;
}

static struct sw_slice without_default_port(struct sw_slice authority, struct sw_slice scheme)
{
    struct sw_slice suffix = SW_SLICE_LIT(":80");

    if (sw_slice_ieq(scheme, SW_SLICE_LIT("https")))
        suffix = SW_SLICE_LIT(":443");
    if (sw_slice_has_suffix(authority, suffix))
        return sw_slice_head(authority, authority.n - suffix.n);
    return authority;
}

static int check_host(struct sw_h1 *p, const struct head_facts *f)
{
    struct sw_h1_msg *m = &p->msg;

    if (f->hosts > 1)
        return h1_fail(p, 400, SW_EPROTO, 0, "more than one Host");
    if (f->hosts == 0 && m->minor == 1)
        return h1_fail(p, 400, SW_EPROTO, 0, "no Host");
    if (f->host.n && !sw_http_host_valid(f->host))
        return h1_fail(p, 400, SW_EPROTO, 0, "bad Host");
    if (m->form == SW_H1_ORIGIN || m->form == SW_H1_ASTERISK)
        m->authority = f->host;
    /* Two names for one request: a server that reads the other one routes it elsewhere. */
    if (m->form == SW_H1_ABSOLUTE && f->hosts &&
        !sw_slice_ieq(without_default_port(f->host, m->scheme),
                      without_default_port(m->authority, m->scheme)))
        return h1_fail(p, 400, SW_EPROTO, 0, "Host differs from the request target");
    return SW_OK;
}

/* What the fields say about the body, before the method or status has its word. */
static int field_framing(struct sw_h1 *p, const struct head_facts *f)
{
    struct sw_h1_msg *m = &p->msg;

    m->framing = SW_H1_NO_BODY;
    if (f->codings && f->lengths)
        return h1_fail(p, 400, SW_EPROTO, 0, "Content-Length beside Transfer-Encoding");
    if (f->codings) {
        if (m->minor == 0)
            return h1_fail(p, 400, SW_EPROTO, 0, "Transfer-Encoding in HTTP/1.0");
        if (f->codings > 1)
            return h1_fail(p, 400, SW_EPROTO, 0, "more than one Transfer-Encoding");
        if (!sw_slice_ieq(f->coding, SW_SLICE_LIT("chunked")))
            return h1_fail(p, 501, SW_EPROTO, 0, "unknown transfer coding");
        m->framing = SW_H1_CHUNKED;
    } else if (f->lengths) {
        if (f->lengths > 1)
            return h1_fail(p, 400, SW_EPROTO, 0, "more than one Content-Length");
        if (!sw_slice_to_u64(f->length, UINT64_MAX >> 1, &m->content_length))
            return h1_fail(p, 400, SW_EPROTO, 0, "bad Content-Length");
        m->framing = SW_H1_LENGTH;
    }
    return SW_OK;
}

static int request_framing(struct sw_h1 *p, const struct head_facts *f)
{
    struct sw_h1_msg *m = &p->msg;

    if (m->form == SW_H1_AUTHORITY) {
        if (m->framing != SW_H1_NO_BODY)
            return h1_fail(p, 400, SW_EPROTO, 0, "CONNECT with a body");
        m->framing = SW_H1_TUNNEL;
    }
    if (f->expects && m->minor == 1) {
        if (f->expects > 1 || !sw_slice_ieq(f->expect, SW_SLICE_LIT("100-continue")))
            return h1_fail(p, 417, SW_EPROTO, 0, "unknown expectation");
        m->expect_continue = m->framing == SW_H1_LENGTH || m->framing == SW_H1_CHUNKED;
    }
    return SW_OK;
}

static int response_framing(struct sw_h1 *p, const struct head_facts *f)
{
    struct sw_h1_msg *m = &p->msg;
    bool bodiless = m->status < 200 || m->status == 204;

    if (m->status == 101 || (p->answers_connect && m->status / 100 == 2)) {
        m->framing = SW_H1_TUNNEL;
        return SW_OK;
    }
    if (bodiless && (f->codings || (m->framing == SW_H1_LENGTH && m->content_length)))
        return h1_fail(p, 502, SW_EPROTO, 0, "status %d announces a body", m->status);
    if (bodiless || m->status == 304 || p->answers_head)
        m->framing = SW_H1_NO_BODY;
    else if (m->framing == SW_H1_NO_BODY)
        m->framing = SW_H1_UNTIL_CLOSE;
    return SW_OK;
}

int h1_head_done(struct sw_h1 *p, struct sw_slice in)
{
    struct sw_h1_msg *m = &p->msg;
    struct head_facts f = {0};
    int rc = SW_OK;

    assert(in.p); /* a head was read from it */
    h1_resolve(p, in, &p->fields);
    m->fields = p->fields.p;
    m->nfields = p->fields.n;
    gather(p, &f);
    if (f.lists_fields)
        h1_list_hops(p);
    if (p->kind == SW_H1_REQUEST) {
        m->method = at(in, p->method);
        m->target = at(in, p->target);
        rc = target_form(p);
        if (rc == SW_OK)
            rc = check_host(p, &f);
    } else {
        m->reason = at(in, p->reason);
    }
    if (rc == SW_OK)
        rc = field_framing(p, &f);
    if (rc == SW_OK)
        rc = p->kind == SW_H1_REQUEST ? request_framing(p, &f) : response_framing(p, &f);
    if (rc != SW_OK)
        return rc;
    if (m->framing == SW_H1_LENGTH && m->content_length > p->limits.body)
        return h1_fail(p, 413, SW_ELIMIT, 0, "body larger than %llu bytes",
                       (unsigned long long)p->limits.body);
    p->left = m->framing == SW_H1_LENGTH ? m->content_length : 0;
    m->close = f.close;
    m->keep_alive = !f.close && (m->minor == 1 || f.keep_alive) &&
                    m->framing != SW_H1_UNTIL_CLOSE && m->framing != SW_H1_TUNNEL;
    if (f.connection_upgrade && m->minor == 1)
        m->upgrade = f.upgrade;
    return SW_OK;
}
