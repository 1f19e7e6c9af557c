/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h2origin.h"

#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "tls/cert/cred.h"

static void dial_next(struct sw_h2origin *r, const char *why);

static void down(struct sw_h2origin *r, const char *why)
{
    sw_timer_stop(r->loop, &r->timer);
    r->o.on_down(r, why);
}

static void on_conn_open(struct sw_h2conn *conn, void *arg)
{
    struct sw_h2origin *r = arg;

    r->disagreed = r->o.need_alpn && !sw_h2conn_agreed(conn);
    if (r->disagreed) {
        r->at_addr = r->n_addrs;
        sw_h2conn_close(conn, SW_EPROTO, "server does not agree on HTTP/2");
        return;
    }
    r->open = true;
    sw_timer_stop(r->loop, &r->timer);
    r->o.on_open(r);
}

static void on_conn_closed(struct sw_h2conn *conn, const struct sw_err *err, void *arg)
{
    struct sw_h2origin *r = arg;
    bool was_open = r->open;

    if (r->old == conn)
        r->old = NULL;
    if (r->conn != conn)
        return;
    r->conn = NULL;
    r->open = false;
    if (was_open)
        down(r, err->msg);
    else
        dial_next(r, err->msg);
}

static const struct sw_h2conn_ops conn_ops = {.on_open = on_conn_open, .on_closed = on_conn_closed};

static void dial_next(struct sw_h2origin *r, const char *why)
{
    struct sw_sock_opts so = SW_SOCK_OPTS_INIT;
    struct sw_err err = {0};

    so.mark = r->o.mark;
    so.egress = r->o.egress;
    (void)sw_err_set(&err, SW_ENOENT, "%s", why);
    while (r->at_addr < r->n_addrs) {
        int fd = -1;

        if (sw_sock_connect(&r->addrs[r->at_addr++], NULL, &so, &fd, &err) != SW_OK)
            continue;
        r->conn = sw_h2conn_new(r->loop, fd, &r->o.conn, &err);
        if (r->conn)
            return;
    }
    down(r, err.msg);
}

static void on_resolved(struct sw_resolve *q)
{
    struct sw_h2origin *r = q->arg;

    if (r) {
        r->resolve = NULL;
        r->n_addrs = 0;
        r->at_addr = 0;
        for (size_t i = 0; i < q->n && q->rc == SW_OK; i++)
            r->addrs[r->n_addrs++] = (struct sw_addr){.ip = q->ips[i], .port = r->o.port};
        dial_next(r, "cannot find host");
    }
    sw_free(q);
}

static void on_connect_timeout(struct sw_timer *t)
{
    struct sw_h2origin *r = SW_CONTAINER_OF(t, struct sw_h2origin, timer);

    r->at_addr = r->n_addrs;
    if (r->resolve) {
        r->resolve->arg = NULL;
        r->resolve = NULL;
    }
    if (r->conn)
        sw_h2conn_close(r->conn, SW_ETIME, "cannot connect in time");
    else
        down(r, "cannot connect in time");
}

void sw_h2origin_want(struct sw_h2origin *r)
{
    struct sw_ip ip;

    if (r->conn || r->resolve)
        return;
    sw_timer_start(r->loop, &r->timer, r->o.conn.open_timeout_ns, on_connect_timeout);
    if (sw_ip_parse(sw_slice_str(r->host), &ip, NULL) == SW_OK) {
        r->addrs[0] = (struct sw_addr){.ip = ip, .port = r->o.port};
        r->n_addrs = 1;
        r->at_addr = 0;
        dial_next(r, "cannot connect");
        return;
    }
    r->resolve = SW_NEW(struct sw_resolve);
    r->resolve->loop = r->loop;
    r->resolve->cb = on_resolved;
    r->resolve->arg = r;
    memcpy(r->resolve->name, r->host, strlen(r->host) + 1);
    sw_resolve_start(r->resolve);
}

int sw_h2origin_init(struct sw_h2origin *r, struct sw_loop *l, const struct sw_h2origin_opts *o,
                     struct sw_err *err)
{
    struct sw_ip ip;
    bool v6;

    if (o->host.n == 0 || o->host.n >= SW_RESOLVE_NAME || o->port == 0)
        return sw_err_set(err, SW_EINVAL, "an HTTP/2 client needs a host and a port");
    *r = (struct sw_h2origin){.loop = l, .o = *o};
    r->host = sw_slice_dup(o->host);
    r->tls_name = sw_slice_dup(o->tls_name.n ? o->tls_name : o->host);
    r->o.conn.cred = o->conn.cred ? sw_tls_cred_ref(o->conn.cred) : NULL;
    r->o.conn.host = r->tls_name;
    r->o.conn.ops = &conn_ops;
    r->o.conn.arg = r;
    if (!o->conn.open_timeout_ns)
        r->o.conn.open_timeout_ns = 10 * SW_NS_PER_S;
    v6 = sw_ip_parse(o->host, &ip, NULL) == SW_OK && ip.family == 6;
    if (o->authority.n)
        r->authority = sw_slice_dup(o->authority);
    else
        r->authority = sw_asprintf(v6 ? "[%s]:%u" : "%s:%u", r->host, (unsigned)o->port);
    return SW_OK;
}

void sw_h2origin_retire(struct sw_h2origin *r)
{
    if (!r->open)
        return; /* what is being opened is new enough */
    sw_h2conn_free(SW_TAKE(r->old));
    r->old = SW_TAKE(r->conn);
    r->open = false;
    sw_h2conn_goaway(r->old);
}

void sw_h2origin_set_cred(struct sw_h2origin *r, struct sw_tls_cred *cred)
{
    struct sw_tls_cred *old = r->o.conn.cred;

    r->o.conn.cred = cred ? sw_tls_cred_ref(cred) : NULL;
    sw_tls_cred_unref(old);
}

void sw_h2origin_done(struct sw_h2origin *r)
{
    if (r->resolve)
        r->resolve->arg = NULL;
    sw_timer_stop(r->loop, &r->timer);
    sw_h2conn_free(SW_TAKE(r->conn));
    sw_h2conn_free(SW_TAKE(r->old));
    sw_tls_cred_unref(r->o.conn.cred);
    sw_free(r->host);
    sw_free(r->tls_name);
    sw_free(r->authority);
}
