/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/up/page.h"

#include "base/mem.h"
#include "base/time.h"
#include "http/client.h"

static const uint64_t every_ns = 20 * SW_NS_PER_MS;
static const uint64_t timeout_ns = 20 * SW_NS_PER_S;

struct sw_up_page {
    struct sw_loop *loop;
    struct sw_http_client *http;
    struct sw_timer ask;
    uint64_t until_ns;
    bool answered;
    void (*done)(void *arg, bool answered);
    void *arg;
};

static void on_ask(struct sw_timer *t);

static void on_head(struct sw_http_call *call, const struct sw_h1_msg *msg, void *arg)
{
    struct sw_up_page *p = arg;

    p->answered = msg->status == 200;
}

static void on_done(struct sw_http_call *call, int rc, const struct sw_err *err, void *arg)
{
    struct sw_up_page *p = arg;

    p->answered = p->answered && rc == SW_OK;
    /* SW_ECANCELED comes while we are freed. */
    if (rc != SW_ECANCELED && (p->answered || sw_loop_now(p->loop) > p->until_ns))
        p->done(p->arg, p->answered);
    else
        sw_timer_start(p->loop, &p->ask, every_ns, on_ask);
}

static void on_ask(struct sw_timer *t)
{
    struct sw_up_page *p = SW_CONTAINER_OF(t, struct sw_up_page, ask);
    struct sw_http_call_opts o = {.method = SW_SLICE_LIT("GET"),
                                  .target = SW_SLICE_LIT("/"),
                                  .timeout_ns = 2 * SW_NS_PER_S,
                                  .body_max = 1 << 20,
                                  .on_head = on_head,
                                  .on_done = on_done,
                                  .arg = p};

    p->answered = false;
    if (!sw_http_call_start(p->http, &o, NULL))
        sw_timer_start(p->loop, &p->ask, every_ns, on_ask);
}

struct sw_up_page *sw_up_page_new(struct sw_loop *l, uint16_t port, struct sw_slice hostname,
                                  void (*done)(void *arg, bool answered), void *arg,
                                  struct sw_err *err)
{
    struct sw_http_client_opts o = {
        .scope = "up", .host = SW_SLICE_LIT("127.0.0.1"), .port = port, .host_header = hostname};
    struct sw_http_client *http = sw_http_client_new(l, &o, err);
    struct sw_up_page *p;

    if (!http)
        return NULL;
    p = SW_NEW(struct sw_up_page);
    p->loop = l;
    p->http = http;
    p->done = done;
    p->arg = arg;
    p->until_ns = sw_loop_now(l) + timeout_ns;
    sw_timer_start(l, &p->ask, every_ns, on_ask);
    return p;
}

void sw_up_page_free(struct sw_up_page *p)
{
    if (!p)
        return;
    sw_http_client_free(p->http);
    sw_timer_stop(p->loop, &p->ask); /* a call that ended started it again */
    sw_free(p);
}
