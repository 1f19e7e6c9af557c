/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/health/h2.h"

#include "base/mem.h"
#include "gateway/config/tls.h"
#include "http/h2conn.h"
#include "io/sock.h"

struct sw_gw_probe {
    struct sw_h2conn *conn; /* NULL: gone */
    struct sw_gw_probe_opts o;
    char *authority; /* owned, like the next two */
    char *path;
    char *method;
    bool over; /* on_done was called, or must not be */
};

static void probe_end(struct sw_gw_probe *p)
{
    sw_free(p->authority);
    sw_free(p->path);
    sw_free(p->method);
    sw_free(p);
}

static void report(struct sw_gw_probe *p, int status, const char *why)
{
    if (p->over)
        return;
    p->over = true;
    p->o.on_done(status, why, p->o.arg); /* may free p: its connection outlives it by a turn */
}

static void on_head(struct sw_h2stream *s, const struct sw_h2_head *head, void *arg)
{
    if (head->status >= 200)
        report(arg, (int)head->status, "");
}

static void on_data(struct sw_h2stream *s, struct sw_slice data, void *arg)
{
    sw_h2stream_took(s, data.n);
}

static void on_close(struct sw_h2stream *s, uint32_t code, void *arg)
{
    report(arg, 0, "stream ended without an answer");
}

static const struct sw_h2stream_ops stream_ops = {
    .on_head = on_head, .on_data = on_data, .on_close = on_close};

static void on_open(struct sw_h2conn *c, void *arg)
{
    struct sw_gw_probe *p = arg;
    struct sw_err err = {0};
    const struct sw_h2_header h[] = {
        {SW_SLICE_LIT(":method"), sw_slice_str(p->method)},
        {SW_SLICE_LIT(":scheme"), p->o.want ? SW_SLICE_LIT("https") : SW_SLICE_LIT("http")},
        {SW_SLICE_LIT(":path"), sw_slice_str(p->path)},
        {SW_SLICE_LIT(":authority"), sw_slice_str(p->authority)},
        {SW_SLICE_LIT("user-agent"), SW_SLICE_LIT("spanwire-health-check")},
    };
    struct sw_h2stream *s;

    if (p->over)
        return;
    s = sw_h2stream_open(c, h, SW_ARRAY_LEN(h), &stream_ops, p, &err);
    if (s)
        sw_h2stream_end(s, NULL, 0);
    else
        report(p, 0, err.msg);
}

static void on_closed(struct sw_h2conn *c, const struct sw_err *err, void *arg)
{
    struct sw_gw_probe *p = arg;

    p->conn = NULL;
    if (p->over)
        probe_end(p);
    else
        report(p, 0, err->msg);
}

static const struct sw_h2conn_ops conn_ops = {.on_open = on_open, .on_closed = on_closed};

struct sw_gw_probe *sw_gw_probe_new(struct sw_loop *l, const struct sw_gw_probe_opts *o,
                                    struct sw_err *err)
{
    struct sw_gw_probe *p = SW_NEW(struct sw_gw_probe);
    const struct sw_gw_tls *t = o->want ? o->want->tls : NULL;
    struct sw_sock_opts so = SW_SOCK_OPTS_INIT;
    struct sw_h2conn_opts ho = {
        .scope = "health",
        .cred = t ? t->creds[0] : NULL,
        .host = o->want ? o->want->host : NULL,
        .insecure_skip = t && (t->skip_verify || t->pins_only),
        .leaf_ok = t && !t->skip_verify ? sw_gw_tls_leaf_ok : NULL,
        .leaf_arg = (void *)(uintptr_t)o->want,
        .open_timeout_ns = o->timeout_ns,
        .ops = &conn_ops,
        .arg = p,
    };
    char text[SW_ADDR_TEXT];
    int fd = -1;

    p->o = *o;
    p->method = sw_slice_dup(o->method);
    p->path = sw_slice_dup(o->path);
    p->authority =
        o->authority.n ? sw_slice_dup(o->authority) : sw_strdup(sw_addr_text(&o->to, text));
    if (sw_sock_connect(&o->to, NULL, &so, &fd, err) == SW_OK)
        p->conn = sw_h2conn_new(l, fd, &ho, err);
    if (p->conn)
        return p;
    probe_end(p);
    return NULL;
}

void sw_gw_probe_free(struct sw_gw_probe *p, bool now)
{
    if (!p)
        return;
    p->over = true;
    if (p->conn && !now) { /* freed in the connection's on_closed */
        sw_h2conn_close(p->conn, SW_ECLOSED, "done");
        return;
    }
    if (p->conn)
        sw_h2conn_free(p->conn);
    probe_end(p);
}
