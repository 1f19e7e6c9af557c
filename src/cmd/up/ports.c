/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/up/ports.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/client.h"
#include "telemetry/admin_token.h"

enum { PAGE_MAX = 8 << 20 };
static const uint64_t every_ns = 500 * SW_NS_PER_MS;

struct sw_up_ports {
    struct sw_loop *loop;
    struct sw_http_client *http;
    struct sw_admin_token *token;
    char *bearer; /* owned */
    struct sw_timer timer;
    struct sw_buf page;
    struct sw_slice told; /* owned */
    bool ok;              /* the answer is the page */
    bool served;
    void (*unbound)(void *arg, struct sw_slice lines, bool served);
    void *arg;
};

static void on_head(struct sw_http_call *call, const struct sw_h1_msg *msg, void *arg)
{
    struct sw_up_ports *p = arg;

    p->ok = msg->status == 200;
}

static void on_body(struct sw_http_call *call, struct sw_slice data, void *arg)
{
    struct sw_up_ports *p = arg;

    p->ok = p->ok && sw_buf_append_slice(&p->page, data) == SW_OK;
}

/* Keeps the lines about sockets that are not bound; a bound one is a line without a blank. */
static void judge(struct sw_up_ports *p)
{
    struct sw_slice text = sw_buf_slice(&p->page);
    SW_BUF_AUTO lines = {.max = PAGE_MAX};
    bool bound = false;

    while (text.n) {
        struct sw_slice line = sw_slice_cut(&text, '\n');

        if (sw_slice_find(line, ' ') < 0)
            bound |= line.n > 0;
        else if (sw_buf_printf(&lines, "%.*s\n", SW_SLICE_ARG(line)) != SW_OK)
            break;
    }
    if (!sw_slice_eq(sw_buf_slice(&lines), p->told)) {
        sw_slice_free(&p->told);
        p->told = sw_slice(sw_slice_dup(sw_buf_slice(&lines)), sw_buf_len(&lines));
        p->unbound(p->arg, p->told, p->served);
    }
    p->served |= bound;
}

static void on_time(struct sw_timer *t);

static void on_done(struct sw_http_call *call, int rc, const struct sw_err *err, void *arg)
{
    struct sw_up_ports *p = arg;

    if (rc == SW_OK && p->ok)
        judge(p);
    sw_timer_start(p->loop, &p->timer, every_ns, on_time);
}

static void on_time(struct sw_timer *t)
{
    struct sw_up_ports *p = SW_CONTAINER_OF(t, struct sw_up_ports, timer);
    struct sw_h1_field auth = {.name = SW_SLICE_LIT("Authorization"),
                               .value = sw_slice_str(p->bearer)};
    struct sw_http_call_opts o = {.method = SW_SLICE_LIT("GET"),
                                  .target = SW_SLICE_LIT("/listeners"),
                                  .fields = &auth,
                                  .nfields = 1,
                                  .timeout_ns = 2 * SW_NS_PER_S,
                                  .body_max = PAGE_MAX,
                                  .on_head = on_head,
                                  .on_body = on_body,
                                  .on_done = on_done,
                                  .arg = p};

    p->ok = false;
    sw_buf_clear(&p->page);
    if (!sw_http_call_start(p->http, &o, NULL))
        sw_timer_start(p->loop, &p->timer, every_ns, on_time);
}

struct sw_up_ports *sw_up_ports_new(struct sw_loop *l, const struct sw_up_admin *admin,
                                    void (*unbound)(void *arg, struct sw_slice lines, bool served),
                                    void *arg, struct sw_err *err)
{
    struct sw_up_ports *p = SW_NEW(struct sw_up_ports);
    char host[SW_IP_TEXT];
    struct sw_http_client_opts o = {.scope = "up",
                                    .host = sw_slice_str(sw_ip_text(&admin->at.ip, host)),
                                    .port = admin->at.port};

    p->loop = l;
    p->unbound = unbound;
    p->arg = arg;
    sw_buf_init(&p->page, PAGE_MAX);
    p->token = sw_admin_token_new(admin->token_file, err);
    if (p->token)
        p->http = sw_http_client_new(l, &o, err);
    if (!p->http) {
        sw_up_ports_free(p);
        return NULL;
    }
    p->bearer = sw_asprintf("Bearer %.*s", SW_SLICE_ARG(sw_admin_token_text(p->token)));
    sw_timer_start(l, &p->timer, every_ns, on_time);
    return p;
}

void sw_up_ports_free(struct sw_up_ports *p)
{
    if (!p)
        return;
    sw_http_client_free(p->http);
    sw_admin_token_free(p->token);
    if (p->bearer)
        explicit_bzero(p->bearer, strlen(p->bearer));
    sw_free(p->bearer);
    sw_timer_stop(p->loop, &p->timer); /* a call that ended started it again */
    sw_buf_done(&p->page);
    sw_slice_free(&p->told);
    sw_free(p);
}
