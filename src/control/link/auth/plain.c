/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP form: how our own data planes ask, on the port of xDS and Check. */
#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "control/link/auth/auth_int.h"
#include "http/grpc/grpc.h"
#include "http/h2conn.h"
#include "tls/peer.h"

enum { TOKEN_BODY_MAX = 64 << 10, FIELDS_MAX = 8, EXCLUDE_TEXT = 16 << 10 };

enum form { EGRESS, TOKEN, INGRESS, HEARTBEAT, REVIEW };

struct request {
    struct sw_link_auth *auth;
    struct sw_h2stream *stream;
    enum form form;
    struct sw_arena arena;
    struct sw_slice client, import, exclude, authorization;
    struct sw_link_caller who;
    struct sw_buf body;
    struct sw_link_egress *egress;
    bool answered;
};

/* ---- answering ---- */

struct response {
    struct sw_h2_header fields[FIELDS_MAX];
    size_t n;
    char status[8];
};

static void begin(struct response *r, int status)
{
    (void)snprintf(r->status, sizeof(r->status), "%d", status);
    r->n = 0;
    r->fields[r->n++] = (struct sw_h2_header){SW_SLICE_LIT(":status"), sw_slice_str(r->status)};
}

static void add(struct response *r, const char *name, struct sw_slice value)
{
    if (value.n && r->n < FIELDS_MAX)
        r->fields[r->n++] = (struct sw_h2_header){sw_slice_str(name), value};
}

static void send_response(struct request *q, struct response *r, struct sw_slice body)
{
    if (q->answered || !q->stream)
        return;
    q->answered = true;
    if (body.n)
        add(r, "content-type", SW_SLICE_LIT("text/plain"));
    sw_h2stream_respond(q->stream, r->fields, r->n, body.n == 0);
    if (body.n == 0)
        return;
    (void)!sw_h2stream_send(q->stream, body);
    sw_h2stream_end(q->stream, NULL, 0);
}

static void refuse(struct request *q, int status, const char *text)
{
    struct response r;

    begin(&r, status);
    add(&r, "x-reason", sw_slice_str(text));
    send_response(q, &r, sw_slice_str(text));
}

static void on_answer(void *arg, const struct sw_link_answer *answer)
{
    struct request *q = arg;
    struct response r;

    q->egress = NULL;
    if (answer->status != 200) {
        refuse(q, answer->status, answer->text);
        return;
    }
    begin(&r, 200);
    add(&r, "host", answer->host);
    if (answer->token.n)
        add(&r, "authorization",
            sw_slice_str(sw_arena_printf(&q->arena, "Bearer %.*s", SW_SLICE_ARG(answer->token))));
    if (q->form == EGRESS)
        add(&r, "x-export", answer->exported);
    add(&r, "x-grant", answer->grant);
    add(&r, "x-source", answer->source);
    add(&r, "x-policy", answer->policy);
    send_response(q, &r, sw_slice("", 0));
}

/* ---- deciding ---- */

static void review(struct request *q)
{
    SW_BUF_AUTO out = {.max = 2 * SW_LINK_REVIEW_BODY};
    struct sw_err err = {0};
    struct response r;
    int rc = sw_link_auth_review(q->auth, sw_buf_slice(&q->body), &out, &err);

    if (rc != SW_OK) {
        refuse(q, rc == SW_EPENDING ? 503 : 400, err.msg);
        return;
    }
    begin(&r, 200);
    send_response(q, &r, sw_buf_slice(&out));
}

static void heartbeat(struct request *q)
{
    struct response r;

    begin(&r, 200);
    add(&r, "clusterlinkpeerlabels", sw_link_auth_labels(q->auth));
    send_response(q, &r, sw_slice("", 0));
}

static void egress(struct request *q)
{
    const struct sw_link_egress_req req = {
        .client = q->client, .import = q->import, .exclude = q->exclude};

    if (!q->client.n)
        refuse(q, 400, "Missing 'x-forwarded-for' header.");
    else if (!q->import.n)
        refuse(q, 400, "Missing 'x-import' header.");
    else
        q->egress = sw_link_auth_egress(q->auth, &req, on_answer, q);
}

static void decide(struct request *q)
{
    switch (q->form) {
    case EGRESS:
        egress(q);
        break;
    case TOKEN:
        sw_link_auth_token(q->auth, sw_buf_slice(&q->body), &q->who, on_answer, q);
        break;
    case INGRESS:
        sw_link_auth_ingress(q->auth, q->authorization, &q->who, on_answer, q);
        break;
    case HEARTBEAT:
        heartbeat(q);
        break;
    case REVIEW:
        review(q);
        break;
    }
}

/* ---- streams ---- */

static void on_data(struct sw_h2stream *st, struct sw_slice data, void *arg)
{
    struct request *q = arg;

    if (!q->answered && sw_buf_append_slice(&q->body, data) != SW_OK)
        refuse(q, 413, "request is too large");
    sw_h2stream_took(st, data.n);
}

static void on_end(struct sw_h2stream *st, void *arg)
{
    struct request *q = arg;

    if (!q->answered)
        decide(q);
}

static void on_close(struct sw_h2stream *st, uint32_t code, void *arg)
{
    struct request *q = arg;

    sw_link_egress_cancel(q->egress);
    sw_buf_done(&q->body);
    sw_arena_clear(&q->arena);
    sw_free(q);
}

static const struct sw_h2stream_ops stream_ops = {
    .on_data = on_data, .on_end = on_end, .on_close = on_close};

static const struct {
    const char *method;
    const char *path;
    enum form form;
    size_t body_max;
} routes[] = {
    {"POST", "/authz/egress", EGRESS, 0},
    {"POST", "/authz", TOKEN, TOKEN_BODY_MAX},
    {"POST", "/authz/ingress", INGRESS, 0},
    {"GET", "/healthz", HEARTBEAT, 0},
    {"POST", "/authz/review", REVIEW, SW_LINK_REVIEW_BODY},
};

/* A copy of the field's value; p == NULL: there is none. */
static struct sw_slice keep(struct request *q, const struct sw_h2_head *head, const char *name)
{
    struct sw_slice v = sw_h2_head_get(head, name);

    return v.p ? sw_arena_slice(&q->arena, v) : v;
}

/* The field may be repeated. */
static struct sw_slice keep_all(struct request *q, const struct sw_h2_head *head, const char *name)
{
    SW_BUF_AUTO all = {.max = EXCLUDE_TEXT};

    for (size_t i = 0; i < head->n; i++) {
        if (!sw_slice_eq_str(head->headers[i].name, name))
            continue;
        if (sw_buf_append_slice(&all, head->headers[i].value) != SW_OK ||
            sw_buf_putc(&all, ',') != SW_OK)
            break;
    }
    return sw_arena_slice(&q->arena, sw_buf_slice(&all));
}

static void read_head(struct request *q, const struct sw_h2_head *head)
{
    q->client = keep(q, head, "x-forwarded-for");
    q->import = keep(q, head, "x-import");
    q->exclude = keep_all(q, head, "x-exclude");
    q->authorization = keep(q, head, "authorization");
    q->who.name = keep(q, head, "x-peer");
    q->who.thumb = keep(q, head, "x-peer-certificate");
}

static void on_request(struct sw_h2stream *st, const struct sw_h2_head *head, void *arg)
{
    struct request *q = SW_NEW(struct request);
    size_t i = 0;

    q->auth = arg;
    q->stream = st;
    sw_h2stream_own(st, &stream_ops, q);
    if (!auth_is_plane(sw_h2conn_peer(sw_h2stream_conn(st)))) {
        refuse(q, 401, "a data plane's certificate is needed");
        return;
    }
    while (i < SW_ARRAY_LEN(routes) && !(sw_slice_eq_str(head->method, routes[i].method) &&
                                         sw_slice_eq_str(head->path, routes[i].path)))
        i++;
    if (i == SW_ARRAY_LEN(routes)) {
        refuse(q, 400,
               sw_arena_printf(&q->arena, "No handler defined for %.*s %.*s.",
                               SW_SLICE_ARG(sw_slice_head(head->method, 32)),
                               SW_SLICE_ARG(sw_slice_head(head->path, 200))));
        return;
    }
    q->form = routes[i].form;
    sw_buf_init(&q->body, routes[i].body_max);
    read_head(q, head);
}

void auth_serve_http(struct sw_link_auth *a, struct sw_grpc_server *s)
{
    sw_grpc_server_plain(s, on_request, a);
}
