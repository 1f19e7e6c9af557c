/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/inspect/observe.h"

#include "base/backoff.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/time.h"
#include "connector/roots.h"
#include "http/client.h"
#include "quic/wire/relay_url.h"
#include "tls/cert/cred.h"
#include "tls/cert/pemfile.h"

enum { BODY_MAX = 1024 };

#define AGAIN_MIN (2 * SW_NS_PER_S)   /* after a question without an answer, then doubled */
#define AGAIN_MAX (300 * SW_NS_PER_S) /* also between answers: a router gets another address */

struct sw_observe {
    struct sw_http_client *http;
    struct sw_http_call *call;
    void (*seen)(void *arg, const struct sw_ip *ip);
    void *arg;
    int status;
    struct sw_buf body;
    struct sw_loop *loop;
    struct sw_timer again;
    struct sw_backoff backoff;
};

bool sw_observe_read(struct sw_slice body, struct sw_ip *ret)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *v;
    struct sw_addr addr;

    if (sw_json_parse(&a, body, &(struct sw_json_opts){.max_bytes = BODY_MAX, .max_nodes = 64}, &v,
                      NULL) != SW_OK)
        return false;
    if (sw_addr_parse(sw_json_str(sw_json_find(v, "address")), &addr, NULL) != SW_OK)
        return false;
    *ret = addr.ip;
    return true;
}

static void on_head(struct sw_http_call *call, const struct sw_h1_msg *msg, void *arg)
{
    struct sw_observe *o = arg;

    o->status = msg->status;
}

static void on_body(struct sw_http_call *call, struct sw_slice data, void *arg)
{
    struct sw_observe *o = arg;

    (void)!sw_buf_append_slice(&o->body, data);
}

static void on_again(struct sw_timer *t)
{
    sw_observe_ask(SW_CONTAINER_OF(t, struct sw_observe, again));
}

static void on_done(struct sw_http_call *call, int rc, const struct sw_err *err, void *arg)
{
    struct sw_observe *o = arg;
    struct sw_ip ip;

    o->call = NULL;
    if (rc == SW_OK && o->status == 200 && sw_observe_read(sw_buf_slice(&o->body), &ip)) {
        sw_backoff_reset(&o->backoff);
        sw_timer_start(o->loop, &o->again, AGAIN_MAX, on_again);
        o->seen(o->arg, &ip);
        return;
    }
    sw_timer_start(o->loop, &o->again, sw_backoff_next(&o->backoff, AGAIN_MIN, AGAIN_MAX),
                   on_again);
}

void sw_observe_ask(struct sw_observe *o)
{
    struct sw_http_call_opts c = {.method = SW_SLICE_LIT("GET"),
                                  .target = SW_SLICE_LIT("/observed"),
                                  .timeout_ns = 5 * SW_NS_PER_S,
                                  .body_max = BODY_MAX,
                                  .on_head = on_head,
                                  .on_body = on_body,
                                  .on_done = on_done,
                                  .arg = o};

    if (o->call)
        sw_http_call_cancel(o->call);
    sw_timer_stop(o->loop, &o->again);
    o->status = 0;
    sw_buf_clear(&o->body);
    o->call = sw_http_call_start(o->http, &c, NULL);
}

static struct sw_tls_cred *load_roots(const char *ca_file, struct sw_err *err)
{
    SW_BUF_AUTO pem = {.max = SW_TLS_PEM_MAX};

    if (ca_file && sw_pemfile_read(ca_file, &pem, err) != SW_OK)
        return NULL;
    return sw_roots_load(sw_buf_slice(&pem), err);
}

struct sw_observe *sw_observe_new(struct sw_loop *l, struct sw_slice url, const char *ca_file,
                                  void (*seen)(void *arg, const struct sw_ip *ip), void *arg,
                                  struct sw_err *err)
{
    struct sw_http_client_opts c = {
        .scope = "connector", .max_conns = 1, .idle_timeout_ns = SW_NS_PER_S};
    struct sw_relay_url u;
    struct sw_observe *o;

    if (sw_relay_url_parse(url, &u, err) != SW_OK)
        return NULL;
    c.tls = u.tls;
    c.host = sw_slice_str(u.host);
    c.port = u.port;
    if (c.tls) {
        c.cred = load_roots(ca_file, err);
        if (!c.cred)
            return NULL;
    }
    o = SW_NEW(struct sw_observe);
    o->http = sw_http_client_new(l, &c, err);
    (void)sw_tls_cred_unref(c.cred);
    if (!o->http) {
        sw_free(o);
        return NULL;
    }
    o->loop = l;
    o->seen = seen;
    o->arg = arg;
    sw_buf_init(&o->body, BODY_MAX);
    return o;
}

void sw_observe_free(struct sw_observe *o)
{
    if (!o)
        return;
    sw_timer_stop(o->loop, &o->again);
    if (o->call)
        sw_http_call_cancel(o->call);
    sw_http_client_free(o->http);
    sw_buf_done(&o->body);
    sw_free(o);
}
