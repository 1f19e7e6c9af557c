/* SPDX-License-Identifier: Apache-2.0 */
/* Writing messages: nothing that came from elsewhere can add a line or end the head early. */
#include "http/grammar.h"
#include "http/h1.h"

#include <stdio.h>

/* Takes back what a half-done writer appended. */
static int undo(struct sw_buf *out, size_t len, int rc)
{
    if (rc != SW_OK)
        out->n = out->off + len;
    return rc;
}

static bool target_writable(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (c <= ' ' || c >= 0x7f)
            return false;
    }
    return s.n > 0;
}

static int put_all(struct sw_buf *out, const struct sw_slice *parts, size_t n)
{
    size_t len = sw_buf_len(out);
    int rc = SW_OK;

    for (size_t i = 0; i < n && rc == SW_OK; i++)
        rc = sw_buf_append_slice(out, parts[i]);
    return undo(out, len, rc);
}

int sw_h1_put_request(struct sw_buf *out, struct sw_slice method, struct sw_slice target, int minor)
{
    const struct sw_slice parts[] = {
        method,
        SW_SLICE_LIT(" "),
        target,
        minor ? SW_SLICE_LIT(" HTTP/1.1\r\n") : SW_SLICE_LIT(" HTTP/1.0\r\n"),
    };

    if (!sw_http_token_valid(method) || !target_writable(target))
        return SW_EINVAL;
    return put_all(out, parts, SW_ARRAY_LEN(parts));
}

int sw_h1_put_status(struct sw_buf *out, int status, struct sw_slice reason, int minor)
{
    char code[8];
    struct sw_slice parts[] = {
        minor ? SW_SLICE_LIT("HTTP/1.1 ") : SW_SLICE_LIT("HTTP/1.0 "),
        sw_slice(code, 4),
        reason.n ? reason : sw_slice_str(sw_http_reason(status)),
        SW_SLICE_LIT("\r\n"),
    };

    if (status < 100 || status > 999 || !sw_http_value_valid(sw_slice_trim(reason)))
        return SW_EINVAL;
    (void)snprintf(code, sizeof(code), "%d ", status);
    return put_all(out, parts, SW_ARRAY_LEN(parts));
}

int sw_h1_put_field(struct sw_buf *out, struct sw_slice name, struct sw_slice value)
{
    const struct sw_slice parts[] = {name, SW_SLICE_LIT(": "), value, SW_SLICE_LIT("\r\n")};

    if (!sw_http_token_valid(name) || !sw_http_value_valid(value))
        return SW_EINVAL;
    return put_all(out, parts, SW_ARRAY_LEN(parts));
}

int sw_h1_put_field_str(struct sw_buf *out, const char *name, const char *value)
{
    return sw_h1_put_field(out, sw_slice_str(name), sw_slice_str(value));
}

int sw_h1_put_length(struct sw_buf *out, uint64_t n)
{
    return sw_buf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)n);
}

int sw_h1_put_chunked(struct sw_buf *out)
{
    return sw_buf_append_str(out, "Transfer-Encoding: chunked\r\n");
}

int sw_h1_put_end(struct sw_buf *out)
{
    return sw_buf_append_str(out, "\r\n");
}

int sw_h1_put_chunk(struct sw_buf *out, struct sw_slice data)
{
    char size[24];
    int n = snprintf(size, sizeof(size), "%zx\r\n", data.n);
    const struct sw_slice parts[] = {sw_slice(size, (size_t)n), data, SW_SLICE_LIT("\r\n")};

    if (data.n == 0)
        return SW_OK;
    return put_all(out, parts, SW_ARRAY_LEN(parts));
}

int sw_h1_put_last_chunk(struct sw_buf *out)
{
    return sw_buf_append_str(out, "0\r\n\r\n");
}

static int put_framing(struct sw_buf *out, const struct sw_h1_msg *m)
{
    switch (m->framing) {
    case SW_H1_LENGTH:
        return sw_h1_put_length(out, m->content_length);
    case SW_H1_CHUNKED:
        return sw_h1_put_chunked(out);
    case SW_H1_NO_BODY:
    case SW_H1_UNTIL_CLOSE:
    case SW_H1_TUNNEL:
        break;
    }
    return SW_OK;
}

/* Host and framing are written by us; an answer to HEAD keeps the length it speaks of. */
static bool field_is_ours(const struct sw_h1_msg *m, struct sw_slice name)
{
    if (m->kind == SW_H1_REQUEST && sw_slice_ieq(name, SW_SLICE_LIT("host")))
        return true;
    if (m->kind == SW_H1_RESPONSE && m->framing == SW_H1_NO_BODY)
        return false;
    return sw_slice_ieq(name, SW_SLICE_LIT("content-length")) ||
           sw_slice_ieq(name, SW_SLICE_LIT("transfer-encoding"));
}

int sw_h1_put_msg(struct sw_buf *out, const struct sw_h1_msg *m)
{
    size_t len = sw_buf_len(out);
    int rc;

    if (m->kind == SW_H1_REQUEST) {
        rc = sw_h1_put_request(out, m->method, m->target, m->minor);
        if (rc == SW_OK && (m->authority.n || m->minor == 1))
            rc = sw_h1_put_field(out, SW_SLICE_LIT("Host"), m->authority);
    } else {
        rc = sw_h1_put_status(out, m->status, m->reason, m->minor);
    }
    for (size_t i = 0; i < m->nfields && rc == SW_OK; i++) {
        if (!field_is_ours(m, m->fields[i].name))
            rc = sw_h1_put_field(out, m->fields[i].name, m->fields[i].value);
    }
    if (rc == SW_OK)
        rc = put_framing(out, m);
    if (rc == SW_OK)
        rc = sw_h1_put_end(out);
    return undo(out, len, rc);
}
