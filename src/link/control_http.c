/* SPDX-License-Identifier: Apache-2.0 */
/* Our own form: requests over HTTP/2 whose heads carry question and answer. */
#include "base/time.h"
#include "http/h2client.h"
#include "link/control.h"

enum {
    BODY_MAX = 16 << 10,  /* of an answer */
    REVIEW_MAX = 1 << 20, /* of a review's */
    REVIEW_TIMEOUT_S = 30,
};

int link_http_open(struct link_control *c, struct sw_err *err)
{
    struct sw_h2origin_opts o = {
        .conn = {.scope = "link",
                 .cred = c->o.cred,
                 .open_timeout_ns = c->o.timeout_ns,
                 .max_queue = 4 << 20},
        .host = c->o.host,
        .port = c->o.port,
        .tls_name = c->o.tls_name,
    };

    c->http = sw_h2client_new(c->o.loop, &o, err);
    return c->http ? SW_OK : err->rc;
}

static void on_head(void *arg, const struct sw_h2_head *head)
{
    static const struct {
        const char *name;
        size_t at;
    } fields[] = {
        {"host", offsetof(struct link_answer, host)},
        {"authorization", offsetof(struct link_answer, authorization)},
        {"x-export", offsetof(struct link_answer, export)},
        {"x-grant", offsetof(struct link_answer, grant)},
        {"x-source", offsetof(struct link_answer, source)},
        {"x-policy", offsetof(struct link_answer, policy)},
        {"x-reason", offsetof(struct link_answer, reason)},
        {"clusterlinkpeerlabels", offsetof(struct link_answer, labels)},
    };
    struct link_ask *a = arg;

    a->answer.status = head->status;
    for (size_t i = 0; i < SW_ARRAY_LEN(fields); i++) {
        struct sw_slice v = sw_h2_head_get(head, fields[i].name);

        if (v.p)
            *(struct sw_slice *)(void *)((char *)&a->answer + fields[i].at) =
                sw_arena_slice(&a->arena, v);
    }
}

static void on_done(void *arg, int rc, struct sw_slice body, const struct sw_err *err)
{
    struct link_ask *a = arg;

    a->call = NULL;
    if (rc != SW_OK) {
        link_ask_failed(a, rc, err->msg);
        return;
    }
    a->answer.body = sw_arena_slice(&a->arena, body);
    if (!a->answer.reason.n)
        a->answer.reason = a->answer.body;
    link_ask_answered(a);
}

static void add(struct sw_h2call_opts *o, struct sw_h2_header *to, const char *name,
                struct sw_slice value)
{
    if (value.n)
        to[o->n++] = (struct sw_h2_header){sw_slice_str(name), value};
}

void link_http_ask(struct link_ask *a, const struct link_question *q)
{
    struct sw_h2_header fields[SW_H2CALL_FIELDS];
    struct sw_h2call_opts o = {.method = SW_SLICE_LIT("POST"),
                               .fields = fields,
                               .timeout_ns = a->control->o.timeout_ns,
                               .max_body = BODY_MAX,
                               .on_head = on_head,
                               .on_done = on_done,
                               .arg = a};
    char ip[SW_IP_TEXT];
    SW_BUF_AUTO import = {.max = 2048};

    switch (q->kind) {
    case LINK_ASK_EGRESS:
        o.path = SW_SLICE_LIT("/authz/egress");
        add(&o, fields, "x-forwarded-for", sw_slice_str(sw_ip_text(&q->client, ip)));
        (void)!sw_buf_printf(&import, "%.*s/%.*s", SW_SLICE_ARG(q->ns), SW_SLICE_ARG(q->name));
        add(&o, fields, "x-import", sw_buf_slice(&import));
        add(&o, fields, "x-exclude", q->exclude);
        break;
    case LINK_ASK_INGRESS:
        o.path = SW_SLICE_LIT("/authz/ingress");
        add(&o, fields, "authorization", q->authorization);
        break;
    case LINK_ASK_TOKEN:
        o.path = SW_SLICE_LIT("/authz");
        o.body = q->body;
        add(&o, fields, "content-type", SW_SLICE_LIT("application/json"));
        break;
    case LINK_ASK_HEALTH:
        o.method = SW_SLICE_LIT("GET");
        o.path = SW_SLICE_LIT("/healthz");
        break;
    }
    add(&o, fields, "x-peer", q->peer);
    add(&o, fields, "x-peer-certificate", q->fingerprint);
    a->call = sw_h2call_start(a->control->http, &o);
}

/* ---- reviews ---- */

static void on_review_head(void *arg, const struct sw_h2_head *head)
{
    struct link_control *c = arg;

    c->review_status = head->status;
}

static void on_review_done(void *arg, int rc, struct sw_slice body, const struct sw_err *err)
{
    struct link_control *c = arg;
    struct sw_err why = *err;

    c->review = NULL;
    if (rc == SW_OK && c->review_status != 200)
        rc = sw_err_set(&why, SW_EPROTO, "status %u", c->review_status);
    c->review_cb(c->review_arg, rc, body, &why);
}

void link_control_review(struct link_control *c, struct sw_slice grants, link_review_cb cb,
                         void *arg)
{
    c->review_cb = cb;
    c->review_arg = arg;
    c->review_status = 0;
    c->review = sw_h2call_start(
        c->http, &(struct sw_h2call_opts){.method = SW_SLICE_LIT("POST"),
                                          .path = SW_SLICE_LIT("/authz/review"),
                                          .body = grants,
                                          .timeout_ns = REVIEW_TIMEOUT_S * SW_NS_PER_S,
                                          .max_body = REVIEW_MAX,
                                          .on_head = on_review_head,
                                          .on_done = on_review_done,
                                          .arg = c});
}

void link_control_review_cancel(struct link_control *c)
{
    if (c->review)
        sw_h2call_cancel(SW_TAKE(c->review));
}
