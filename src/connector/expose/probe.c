/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/expose/probe.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "http/client.h"

enum { TRIES = 60, TRIES_404 = 5 };

#define PAUSE_NS SW_NS_PER_S

struct sw_origin_probe {
    struct sw_loop *loop;
    struct sw_http_client *http;
    struct sw_http_call *call;
    struct sw_timer timer;
    void (*done)(void *arg, bool ok, const char *why);
    void *arg;
    unsigned tries;
    int status;
    char why[200];
};

bool sw_probe_is_ours(const char *method, const char *path)
{
    return strcmp(method, "HEAD") == 0 && strcmp(path, "/") == 0;
}

static void ask(struct sw_timer *t);

static void on_head(struct sw_http_call *call, const struct sw_h1_msg *msg, void *arg)
{
    struct sw_origin_probe *p = arg;

    p->status = msg->status;
}

static void settle(struct sw_origin_probe *p, const struct sw_err *err)
{
    /* The gateway's own 404, while it has no route yet, looks like the service's. */
    bool early = p->status == 404 && p->tries < TRIES_404;
    bool ok = p->status && !early && p->status != 502 && p->status != 503 && p->status != 504;

    if (p->status)
        (void)snprintf(p->why, sizeof(p->why), "the gateway answers %d", p->status);
    else
        (void)snprintf(p->why, sizeof(p->why), "%s", err && err->msg[0] ? err->msg : "no answer");
    if (ok || ++p->tries >= TRIES)
        p->done(p->arg, ok, p->why);
    else
        sw_timer_start(p->loop, &p->timer, PAUSE_NS, ask);
}

static void on_done(struct sw_http_call *call, int rc, const struct sw_err *err, void *arg)
{
    struct sw_origin_probe *p = arg;

    p->call = NULL;
    if (rc == SW_ECANCELED && !p->http)
        return;
    settle(p, err);
}

static void ask(struct sw_timer *t)
{
    struct sw_origin_probe *p = SW_CONTAINER_OF(t, struct sw_origin_probe, timer);
    struct sw_err err = {0};
    struct sw_http_call_opts o = {.method = SW_SLICE_LIT("HEAD"),
                                  .target = SW_SLICE_LIT("/"),
                                  .timeout_ns = 5 * SW_NS_PER_S,
                                  .body_max = 1 << 16,
                                  .on_head = on_head,
                                  .on_done = on_done,
                                  .arg = p};

    p->status = 0;
    p->call = sw_http_call_start(p->http, &o, &err);
    if (!p->call)
        settle(p, &err);
}

struct sw_origin_probe *sw_probe_new(struct sw_loop *l, struct sw_slice url, struct sw_slice at,
                                     void (*done)(void *arg, bool ok, const char *why), void *arg)
{
    struct sw_http_client_opts o = {.scope = "expose", .host = at, .port = 80, .max_conns = 1};
    struct sw_slice authority = sw_slice_from(url, sizeof("http://") - 1);
    ptrdiff_t colon;
    uint64_t port = 80;
    struct sw_http_client *http;
    struct sw_origin_probe *p;

    if (!sw_slice_has_prefix(url, SW_SLICE_LIT("http://")))
        return NULL;
    authority.n -= authority.n && authority.p[authority.n - 1] == '/';
    colon = sw_slice_rfind(authority, ':');
    if (colon >= 0 && !sw_slice_to_u64(sw_slice_from(authority, (size_t)colon + 1), 65535, &port))
        return NULL;
    o.port = (uint16_t)port;
    o.host_header = authority;
    http = sw_http_client_new(l, &o, NULL);
    if (!http)
        return NULL;
    p = SW_NEW(struct sw_origin_probe);
    p->loop = l;
    p->http = http;
    p->done = done;
    p->arg = arg;
    sw_timer_start(l, &p->timer, 0, ask);
    return p;
}

void sw_probe_free(struct sw_origin_probe *p)
{
    struct sw_http_client *http;

    if (!p)
        return;
    sw_timer_stop(p->loop, &p->timer);
    if (p->call)
        sw_http_call_cancel(p->call);
    http = p->http;
    p->http = NULL;
    sw_http_client_free(http);
    sw_free(p);
}
