/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/origin.h"

#include "base/mem.h"
#include "base/time.h"
#include "connector/roots.h"
#include "http/client.h"
#include "tls/cert/x509.h"

#define PAUSE_NS   SW_NS_PER_S
#define TIMEOUT_NS (5 * SW_NS_PER_S)

struct sw_origin {
    struct sw_loop *loop;
    struct sw_origin_opts o;
    char *tls_name;
    struct sw_http_client *http;
    struct sw_http_call *call;
    struct sw_timer pause; /* until the next probe */
    bool again;
    bool trusted; /* chain and name were verified: the rest is not probed */
};

/* The handshake ends here, good or bad: no request is to reach the service. */
static int on_leaf(void *arg, struct sw_slice leaf, struct sw_err *err)
{
    struct sw_origin *x = arg;
    int rc = sw_x509_check_host(leaf, sw_slice_str(x->tls_name), err);

    if (rc != SW_OK)
        return rc;
    x->trusted = true;
    return sw_err_set(err, SW_EDENIED, "trusted");
}

static void on_pause(struct sw_timer *t)
{
    struct sw_origin *x = SW_CONTAINER_OF(t, struct sw_origin, pause);

    if (x->again)
        sw_origin_ask(x);
}

static void on_done(struct sw_http_call *call, int rc, const struct sw_err *err, void *arg)
{
    struct sw_origin *x = arg;

    x->call = NULL;
    sw_timer_start(x->loop, &x->pause, PAUSE_NS, on_pause);
    x->o.done(x->o.arg, x->trusted ? SW_OK : rc, err && err->msg[0] ? err->msg : "no answer");
}

void sw_origin_ask(struct sw_origin *x)
{
    struct sw_http_call_opts q = {.method = SW_SLICE_LIT("HEAD"),
                                  .target = SW_SLICE_LIT("/"),
                                  .timeout_ns = TIMEOUT_NS,
                                  .body_max = 1 << 16,
                                  .on_done = on_done,
                                  .arg = x};

    x->again = x->call || sw_timer_running(&x->pause);
    if (x->again)
        return;
    x->trusted = false;
    x->call = sw_http_call_start(x->http, &q, NULL);
}

struct sw_origin *sw_origin_new(struct sw_loop *l, const struct sw_origin_opts *o,
                                struct sw_err *err)
{
    struct sw_http_client_opts c = {.scope = "origin",
                                    .host = o->host,
                                    .port = o->port,
                                    .tls = true,
                                    .tls_name = o->tls_name,
                                    .leaf_ok = on_leaf,
                                    .max_conns = 1};
    struct sw_origin *x;

    c.cred = sw_roots_load(o->ca_pem, err);
    if (!c.cred)
        return NULL;
    x = SW_NEW(struct sw_origin);
    x->loop = l;
    x->o = *o;
    x->tls_name = sw_slice_dup(o->tls_name);
    c.leaf_arg = x;
    x->http = sw_http_client_new(l, &c, err);
    (void)sw_tls_cred_unref(c.cred);
    if (!x->http) {
        sw_free(x->tls_name);
        sw_free(x);
        return NULL;
    }
    return x;
}

void sw_origin_free(struct sw_origin *x)
{
    if (!x)
        return;
    sw_timer_stop(x->loop, &x->pause);
    if (x->call)
        sw_http_call_cancel(x->call);
    sw_http_client_free(x->http);
    sw_free(x->tls_name);
    sw_free(x);
}
