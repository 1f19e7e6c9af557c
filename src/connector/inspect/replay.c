/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/inspect/replay.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "connector/allow.h"
#include "connector/inspect/capture.h"
#include "connector/inspect/history.h"
#include "http/client.h"
#include "http/server.h"

enum { RUNNING_MAX = 4, FIELDS_MAX = 128, ANSWER_MAX = 16 << 20 };

#define TIMEOUT_NS (30 * SW_NS_PER_S)

struct replay {
    struct sw_list link;
    struct sw_replays *all;
    struct sw_http_client *http;
    struct sw_http_call *call;
    struct sw_capture *capture; /* owned until it is kept */
    struct sw_http_resp *resp;  /* NULL: its client went away */
    uint64_t begun_ns;
    struct sw_defer over;
};

const char *sw_replay_obstacle(const struct sw_replays *s, const struct sw_capture *x)
{
    struct sw_slice host = sw_slice_str(x->origin_host);

    if (x->cut_target || x->req.cut_head || x->req.cut_body)
        return "it is too large to be kept whole";
    if (!x->req.complete)
        return "it was not seen to its end";
    if (x->status == 101)
        return "it switched protocols";
    if (sw_buf_len(&x->target) == 0 || sw_buf_data(&x->target)[0] != '/')
        return "it is no request for a path";
    /* Only to the owner's own service, and only while that is open to gateways, too. */
    if (!sw_slice_ieq(host, s->target) || !sw_allow_find(s->allow, host, x->origin_port, false))
        return "its destination is not the exposed service";
    return NULL;
}

/* Fields that belong to the connection, or that the client writes itself. */
static bool is_left_out(struct sw_slice name, struct sw_slice connection)
{
    static const char *const names[] = {"connection", "content-length",   "expect", "host",
                                        "keep-alive", "proxy-connection", "te",     "trailer",
                                        "upgrade",    "transfer-encoding"};

    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        if (sw_slice_ieq(name, sw_slice_str(names[i])))
            return true;
    }
    while (connection.p && connection.n) {
        if (sw_slice_ieq(sw_slice_trim(sw_slice_cut(&connection, ',')), name))
            return true;
    }
    return false;
}

static struct sw_slice field_of(const struct sw_captured *m, const char *name)
{
    struct sw_h1_field f;
    size_t at = 0;

    while (sw_captured_next(m, &at, &f)) {
        if (sw_slice_ieq(f.name, sw_slice_str(name)))
            return f.value;
    }
    return sw_slice(NULL, 0);
}

static size_t read_fields(const struct sw_captured *m, struct sw_h1_field *ret)
{
    struct sw_slice connection = field_of(m, "connection");
    struct sw_h1_field f;
    size_t at = 0;
    size_t n = 0;

    while (n < FIELDS_MAX && sw_captured_next(m, &at, &f)) {
        if (!is_left_out(f.name, connection))
            ret[n++] = f;
    }
    return n;
}

/* ---- the answer ---- */

static void on_head(struct sw_http_call *call, const struct sw_h1_msg *msg, void *arg)
{
    struct replay *r = arg;

    sw_capture_head(r->capture, true, msg);
}

static void on_body(struct sw_http_call *call, struct sw_slice data, void *arg)
{
    struct replay *r = arg;

    sw_capture_body(r->capture, true, data);
}

static void tell(struct replay *r, uint64_t id)
{
    const struct sw_capture *x = r->capture;
    struct sw_inspect_request q = {.wall_ns = x->wall_ns,
                                   .duration_ns = x->duration_ns,
                                   .bytes_in = x->req.body_bytes,
                                   .bytes_out = x->resp.body_bytes,
                                   .status = (unsigned)x->status,
                                   .kind = "replay",
                                   .reason = x->failure[0] ? "replay_failed" : "replay",
                                   .capture = id};

    sw_request_text(q.method, sizeof(q.method), sw_buf_slice(&x->method));
    sw_request_text(q.host, sizeof(q.host), sw_buf_slice(&x->host));
    sw_request_text(q.path, sizeof(q.path), sw_buf_slice(&x->target));
    r->all->on_request(r->all->arg, &q);
}

static void answer(struct replay *r, uint64_t id)
{
    char to[64 + SW_INSPECT_TOKEN];
    int n =
        snprintf(to, sizeof(to), "/requests/%llu?token=%s", (unsigned long long)id, r->all->token);

    if (!r->resp)
        return;
    sw_http_set(r->resp, "location", sw_slice(to, (size_t)n));
    sw_http_send_text(r->resp, 303, "sent\n");
    r->resp = NULL;
}

static void replay_free(struct replay *r)
{
    sw_defer_cancel(&r->over);
    if (r->call)
        sw_http_call_cancel(r->call);
    sw_http_client_free(r->http);
    sw_capture_drop(r->capture);
    sw_list_unlink(&r->link);
    r->all->n--;
    sw_free(r);
}

static void on_over(struct sw_defer *d)
{
    replay_free(SW_CONTAINER_OF(d, struct replay, over));
}

static void on_done(struct sw_http_call *call, int rc, const struct sw_err *err, void *arg)
{
    struct replay *r = arg;
    struct sw_capture *x = r->capture;
    uint64_t id;

    r->call = NULL;
    x->wall_ns = sw_wall_ns();
    x->duration_ns = sw_loop_now(r->all->loop) - r->begun_ns;
    if (rc == SW_OK)
        sw_capture_end(x, true);
    else
        sw_request_text(x->failure, sizeof(x->failure),
                        sw_slice_str(err && err->msg[0] ? err->msg : "no answer"));
    id = sw_capture_keep(x);
    tell(r, id);
    r->capture = NULL;
    answer(r, id);
    sw_loop_defer(r->all->loop, &r->over, on_over);
}

static void on_gone(void *arg)
{
    ((struct replay *)arg)->resp = NULL;
}

/* ---- the request ---- */

static struct sw_capture *copy_request(const struct sw_capture *x)
{
    struct sw_h1_field fields[FIELDS_MAX];

    return sw_capture_copy(x, fields, read_fields(&x->req, fields));
}

static int begin(struct replay *r, bool has_body, struct sw_err *err)
{
    const struct sw_capture *x = r->capture;
    struct sw_http_client_opts o = {.scope = "replay",
                                    .host = sw_slice_str(x->origin_host),
                                    .port = x->origin_port,
                                    .host_header = sw_buf_slice(&x->host),
                                    .max_conns = 1};
    struct sw_h1_field fields[FIELDS_MAX];
    struct sw_http_call_opts q = {.method = sw_buf_slice(&x->method),
                                  .target = sw_buf_slice(&x->target),
                                  .fields = fields,
                                  .nfields = read_fields(&x->req, fields),
                                  .body = sw_buf_slice(&x->req.body),
                                  .has_body = has_body,
                                  .timeout_ns = TIMEOUT_NS,
                                  .body_max = ANSWER_MAX,
                                  .on_head = on_head,
                                  .on_body = on_body,
                                  .on_done = on_done,
                                  .arg = r};

    r->http = sw_http_client_new(r->all->loop, &o, err);
    if (r->http)
        r->call = sw_http_call_start(r->http, &q, err);
    return r->call ? SW_OK : err->rc;
}

void sw_replays_init(struct sw_replays *s)
{
    sw_list_init(&s->running);
}

void sw_replay_start(struct sw_replays *s, const struct sw_capture *x, struct sw_http_resp *resp)
{
    bool has_body = x->req.body_bytes || field_of(&x->req, "content-length").p;
    const char *why = sw_replay_obstacle(s, x);
    struct sw_err err = {0};
    struct sw_capture *copy;
    struct replay *r;

    if (why) {
        sw_http_send_text(resp, 409, "not sent again: %s\n", why);
        return;
    }
    copy = s->n < RUNNING_MAX ? copy_request(x) : NULL;
    if (!copy) {
        sw_http_send_text(resp, 429, "not sent again: too many run, or no room\n");
        return;
    }
    r = SW_NEW(struct replay);
    r->all = s;
    r->capture = copy;
    r->begun_ns = sw_loop_now(s->loop);
    sw_list_push_back(&s->running, &r->link);
    s->n++;
    if (begin(r, has_body, &err) != SW_OK) {
        sw_http_send_text(resp, 409, "not sent again: %s\n", err.msg);
        replay_free(r);
        return;
    }
    sw_log_info("connector", "request inspector: replaying a request");
    r->resp = resp;
    sw_http_on_gone(resp, on_gone, r);
}

void sw_replays_end(struct sw_replays *s)
{
    SW_LIST_EACH (struct replay, r, &s->running, link)
        replay_free(r);
}
