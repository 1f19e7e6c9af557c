/* SPDX-License-Identifier: Apache-2.0 */
/* The client's calls: queue, deadlines, verdicts. Connections are in client_conn.c. */
#include "http/client.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/search.h"
#include "base/secret.h"
#include "base/time.h"
#include "http/client_int.h"
#include "http/grammar.h"
#include "tls/cert/cred.h"

enum { HEAD_MAX = 64 * 1024, BODY_MAX = 64 << 20, DISPATCH_TURN = 64 };

/* --- the client --- */

static int make_names(struct sw_http_client *c, const struct sw_http_client_opts *o,
                      struct sw_err *err)
{
    struct sw_slice name = o->tls_name.n ? o->tls_name : o->host;
    struct sw_ip ip;
    bool v6 = sw_slice_find(o->host, ':') >= 0;
    bool standard = o->port == (o->tls ? 443 : 80);

    if (o->host.n == 0 || o->host.n >= SW_RESOLVE_NAME || memchr(o->host.p, 0, o->host.n) ||
        name.n >= SW_RESOLVE_NAME || memchr(name.p, 0, name.n))
        return sw_err_set(err, SW_EINVAL, "no usable host name");
    c->host = sw_slice_dup(o->host);
    c->tls_name = sw_slice_dup(name);
    if (sw_ip_parse(name, &ip, NULL) != SW_OK) {
        /* RFC 6066: the name goes out without its final dot. */
        if (name.p[name.n - 1] == '.')
            c->tls_name[name.n - 1] = 0;
        c->sni = c->tls_name;
    }
    if (o->host_header.n)
        c->authority = sw_slice_dup(o->host_header);
    else if (standard)
        c->authority = sw_asprintf(v6 ? "[%s]" : "%s", c->host);
    else
        c->authority = sw_asprintf(v6 ? "[%s]:%u" : "%s:%u", c->host, o->port);
    if (!sw_http_host_valid(sw_slice_str(c->authority)))
        return sw_err_set(err, SW_EINVAL, "bad host '%.100s'", c->authority);
    return SW_OK;
}

static void set_defaults(struct sw_http_client_opts *o)
{
    o->scope = o->scope ? o->scope : "http";
    o->max_conns = o->max_conns ? o->max_conns : 64;
    o->max_streams = o->max_streams ? o->max_streams : 1024;
    o->max_waiting = o->max_waiting ? o->max_waiting : 4096;
    o->connect_timeout_ns = o->connect_timeout_ns ? o->connect_timeout_ns : 10 * SW_NS_PER_S;
    o->idle_timeout_ns = o->idle_timeout_ns ? o->idle_timeout_ns : 60 * SW_NS_PER_S;
    o->keepalive_s = o->keepalive_s ? o->keepalive_s : 30;
}

struct sw_http_client *sw_http_client_new(struct sw_loop *l, const struct sw_http_client_opts *o,
                                          struct sw_err *err)
{
    struct sw_http_client *c;

    if (o->port == 0 || (o->tls && !o->cred)) {
        (void)sw_err_set(err, SW_EINVAL, o->port ? "TLS without a credential" : "no port");
        return NULL;
    }
    c = SW_NEW(struct sw_http_client);
    c->loop = l;
    sw_list_init(&c->conns);
    sw_list_init(&c->waiting);
    sw_list_init(&c->zombies);
    if (make_names(c, o, err) != SW_OK) {
        sw_http_client_free(c);
        return NULL;
    }
    c->o = *o;
    c->o.host = sw_slice_str(c->host);
    c->o.tls_name = sw_slice_str(c->tls_name);
    c->o.cred = NULL;
    set_defaults(&c->o);
    c->cred = o->tls ? sw_tls_cred_ref(o->cred) : NULL;
    return c;
}

void sw_http_client_set_cred(struct sw_http_client *c, struct sw_tls_cred *cred)
{
    sw_tls_cred_unref(c->cred);
    c->cred = sw_tls_cred_ref(cred);
    c->cred_gen++;
    SW_LIST_EACH (struct hc_conn, conn, &c->conns, link) {
        if (!conn->call)
            hc_conn_close(conn);
    }
}

size_t sw_http_client_conns(const struct sw_http_client *c)
{
    return c->n_conns;
}

static void call_free(struct sw_http_call *call)
{
    sw_list_unlink(&call->link);
    sw_defer_cancel(&call->reap);
    sw_buf_done(&call->head);
    sw_buf_done_secret(&call->body);
    sw_free(call);
}

static void on_call_reap(struct sw_defer *d)
{
    call_free(SW_CONTAINER_OF(d, struct sw_http_call, reap));
}

void sw_http_client_free(struct sw_http_client *c)
{
    struct sw_err err = {0};
    struct sw_http_call *call;
    struct hc_conn *last;

    if (!c)
        return;
    c->closing = true;
    (void)sw_err_set(&err, SW_ECANCELED, "client closed");
    SW_LIST_EACH (struct hc_conn, conn, &c->conns, link) {
        if (conn->call)
            hc_call_finish(conn->call, SW_ECANCELED, &err);
    }
    while ((call = SW_LIST_FIRST(&c->waiting, struct sw_http_call, link)))
        hc_call_finish(call, SW_ECANCELED, &err);
    while ((call = SW_LIST_FIRST(&c->zombies, struct sw_http_call, link)))
        call_free(call);
    while ((last = SW_LIST_FIRST(&c->conns, struct hc_conn, link)))
        hc_conn_free(last);
    sw_defer_cancel(&c->dispatch);
    sw_tls_cred_unref(c->cred);
    sw_free(c->host);
    sw_free(c->tls_name);
    sw_free(c->authority);
    sw_free(c);
}

/* --- calls --- */

static bool is_idempotent(struct sw_slice method)
{
    static const char *const safe[] = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS", NULL};

    return sw_word_in(method, safe);
}

static int write_head(struct sw_http_call *call, const struct sw_http_call_opts *o)
{
    struct sw_buf *b = &call->head;
    int rc = sw_h1_put_request(b, o->method, o->target, 1);

    if (rc == SW_OK)
        rc = sw_h1_put_field_str(b, "Host", call->client->authority);
    for (size_t i = 0; i < o->nfields && rc == SW_OK; i++)
        rc = sw_h1_put_field(b, o->fields[i].name, o->fields[i].value);
    if (rc == SW_OK && (o->body.n || o->has_body))
        rc = sw_h1_put_length(b, o->body.n);
    if (rc == SW_OK)
        rc = sw_h1_put_end(b);
    return rc;
}

static void on_call_timer(struct sw_timer *t)
{
    struct sw_http_call *call = SW_CONTAINER_OF(t, struct sw_http_call, timer);
    struct sw_err err = {0};

    (void)sw_err_set(&err, SW_ETIME,
                     call->in_body ? "response from '%s' stalled" : "no response from '%s' in time",
                     call->client->authority);
    hc_call_finish(call, SW_ETIME, &err);
}

void hc_call_rearm(struct sw_http_call *call)
{
    if (!call->o.stream)
        return;
    if (call->o.silence_ns && !call->paused)
        sw_timer_start(call->client->loop, &call->timer, call->o.silence_ns, on_call_timer);
    else
        sw_timer_stop(call->client->loop, &call->timer);
}

struct sw_http_call *sw_http_call_start(struct sw_http_client *c, const struct sw_http_call_opts *o,
                                        struct sw_err *err)
{
    struct sw_http_call *call;

    if (c->closing) {
        (void)sw_err_set(err, SW_ECANCELED, "client closed");
        return NULL;
    }
    if (c->n_waiting >= c->o.max_waiting) {
        (void)sw_err_set(err, SW_ELIMIT, "%zu requests to '%s' are waiting", c->n_waiting,
                         c->authority);
        return NULL;
    }
    call = SW_NEW(struct sw_http_call);
    call->client = c;
    call->o = *o;
    call->idempotent = is_idempotent(o->method);
    call->answers_head = sw_slice_eq_str(o->method, "HEAD");
    call->o.method = call->o.target = call->o.body = sw_slice(NULL, 0);
    call->o.fields = NULL;
    sw_buf_init(&call->head, HEAD_MAX);
    sw_buf_init(&call->body, BODY_MAX);
    if (write_head(call, o) != SW_OK || sw_buf_append_slice(&call->body, o->body) != SW_OK) {
        (void)sw_err_set(err, SW_EINVAL, "request cannot be written");
        call_free(call);
        return NULL;
    }
    sw_list_push_back(&c->waiting, &call->link);
    c->n_waiting++;
    sw_timer_start(c->loop, &call->timer, o->timeout_ns ? o->timeout_ns : 60 * SW_NS_PER_S,
                   on_call_timer);
    hc_dispatch_later(c);
    return call;
}

/* Takes the call off everything; it is freed in a later turn. */
static void call_detach(struct sw_http_call *call)
{
    struct sw_http_client *c = call->client;

    call->over = true;
    sw_timer_stop(c->loop, &call->timer);
    if (call->conn) {
        struct hc_conn *conn = call->conn;

        conn->call = NULL;
        call->conn = NULL;
        c->n_streams -= call->o.stream;
    } else {
        sw_list_unlink(&call->link);
        c->n_waiting--;
    }
    sw_list_push_back(&c->zombies, &call->link);
    sw_loop_defer(c->loop, &call->reap, on_call_reap);
}

void hc_call_finish(struct sw_http_call *call, int rc, const struct sw_err *err)
{
    struct hc_conn *conn = call->conn;
    static const struct sw_err none;

    call_detach(call);
    if (conn)
        hc_conn_close(conn);
    hc_dispatch_later(call->client);
    call->o.on_done(call, rc, err ? err : &none, call->o.arg);
}

void sw_http_call_cancel(struct sw_http_call *call)
{
    struct hc_conn *conn = call->conn;

    if (call->over)
        return;
    call_detach(call);
    if (conn)
        hc_conn_close(conn);
    hc_dispatch_later(call->client);
}

void hc_call_answered(struct hc_conn *c)
{
    struct sw_http_call *call = c->call;
    static const struct sw_err none;

    call_detach(call);
    if (!call->keep_alive || c->cred_gen != c->client->cred_gen || hc_conn_unsent(c, call))
        hc_conn_close(c); /* the last: an answer before the request was out */
    else
        hc_conn_rest(c);
    hc_dispatch_later(call->client);
    call->o.on_done(call, SW_OK, &none, call->o.arg);
}

void hc_call_broken(struct hc_conn *c, int rc, const struct sw_err *err)
{
    struct sw_http_call *call = c->call;
    bool again = c->reused && !c->got_bytes && call->idempotent && !call->retried;

    if (!again) {
        hc_call_finish(call, rc, err);
        return;
    }
    /* The server closed a kept connection just when we used it: no news about the request. */
    call->retried = true;
    c->call = NULL;
    call->conn = NULL;
    call->client->n_streams -= call->o.stream;
    hc_conn_close(c);
    sw_list_push_front(&call->client->waiting, &call->link);
    call->client->n_waiting++;
    hc_dispatch_later(call->client);
}

void sw_http_call_pause(struct sw_http_call *call)
{
    call->paused = true;
    if (call->over)
        return;
    hc_call_rearm(call);
    if (call->conn)
        hc_conn_pause(call->conn, true);
}

void sw_http_call_resume(struct sw_http_call *call)
{
    if (!call->paused)
        return;
    call->paused = false;
    if (call->over)
        return;
    if (call->in_body)
        hc_call_rearm(call);
    if (call->conn)
        hc_conn_pause(call->conn, false);
}

bool sw_http_call_sent(const struct sw_http_call *call)
{
    return call->sent;
}

/* --- matching calls and connections --- */

static struct hc_conn *idle_conn(struct sw_http_client *c)
{
    SW_LIST_EACH (struct hc_conn, conn, &c->conns, link) {
        if (conn->state == HC_OPEN && !conn->call)
            return conn;
    }
    return NULL;
}

/* Endless answers must not use up the connections of ordinary ones. */
static bool may_open(const struct sw_http_client *c, bool stream)
{
    return stream ? c->n_streams < c->o.max_streams : c->n_conns - c->n_streams < c->o.max_conns;
}

/* Gives one waiting call a connection; false when none can have one. */
static bool dispatch_one(struct sw_http_client *c)
{
    SW_LIST_EACH (struct sw_http_call, call, &c->waiting, link) {
        struct hc_conn *conn = idle_conn(c);
        bool room = may_open(c, call->o.stream);

        if (!room && (call->o.stream || !conn))
            continue;
        sw_list_unlink(&call->link);
        c->n_waiting--;
        c->n_streams += call->o.stream;
        if (conn)
            hc_conn_use(conn, call);
        else
            hc_conn_open(c, call);
        return true; /* the list may be another one now */
    }
    return false;
}

static void on_dispatch(struct sw_defer *d)
{
    struct sw_http_client *c = SW_CONTAINER_OF(d, struct sw_http_client, dispatch);

    for (int i = 0; i < DISPATCH_TURN; i++) {
        if (!dispatch_one(c))
            return;
    }
    hc_dispatch_later(c);
}

void hc_dispatch_later(struct sw_http_client *c)
{
    sw_loop_defer(c->loop, &c->dispatch, on_dispatch);
}
