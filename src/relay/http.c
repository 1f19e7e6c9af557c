/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP on a connection of the relay: a few small pages, and the upgrade to the relay protocol. */
#include <stdio.h>
#include <string.h>

#include "http/url.h"
#include "quic/wire/qad.h"
#include "relay/relay_int.h"
#include "tls/tls.h"

enum {
    HEAD_MAX = 8192,
    ANSWER_MAX = 2048,
    CHALLENGE_MAX = 63,
    TOKEN_MAX = 4096,
    UNREAD_MAX = 65536
};

struct answer {
    int status;
    const char *type; /* NULL: no body */
    struct sw_slice body;
    const char *name; /* one field more; NULL: none */
    struct sw_slice value;
};

/* ---- answers ---- */

static int put_head(struct sw_buf *out, const struct relay_client *c, const struct answer *a,
                    bool keep)
{
    int rc = sw_h1_put_status(out, a->status, (struct sw_slice){0}, 1);

    if (rc == SW_OK)
        rc = sw_h1_put_field_str(out, "Access-Control-Allow-Origin", "*");
    if (rc == SW_OK && c->tls)
        rc = sw_h1_put_field_str(out, "Strict-Transport-Security",
                                 "max-age=63072000; includeSubDomains");
    if (rc == SW_OK && c->tls)
        rc = sw_h1_put_field_str(out, "Content-Security-Policy",
                                 "default-src 'none'; frame-ancestors 'none'; form-action 'none'");
    if (rc == SW_OK && a->type)
        rc = sw_h1_put_field_str(out, "Content-Type", a->type);
    if (rc == SW_OK && a->name)
        rc = sw_h1_put_field(out, sw_slice_str(a->name), a->value);
    if (rc == SW_OK && !keep)
        rc = sw_h1_put_field_str(out, "Connection", "close");
    if (rc == SW_OK && a->status != 204)
        rc = sw_h1_put_length(out, a->body.n);
    return rc == SW_OK ? sw_h1_put_end(out) : rc;
}

static void answer(struct relay_client *c, const struct sw_h1_msg *m, const struct answer *a)
{
    bool keep = m && m->keep_alive && a->status < 400 && !c->worker->thread.draining;
    bool head_only = m && sw_slice_eq_str(m->method, "HEAD");
    SW_BUF_AUTO out = {.max = ANSWER_MAX};
    int rc;

    rc = put_head(&out, c, a, keep);
    if (rc == SW_OK && !head_only)
        rc = sw_buf_append_slice(&out, a->body);
    if (rc == SW_OK)
        sw_wsconn_put(&c->ws, sw_buf_data(&out), sw_buf_len(&out));
    c->setup->answered = true;
    if (sw_wsconn_unsent(&c->ws) > UNREAD_MAX)
        relay_client_refuse(c, 0, "flood", "it asks and does not read");
    else if (!keep || rc != SW_OK)
        relay_client_drain(c);
}

/* Gives the reason in the answer, in one line of the log and in one counter. */
static void refuse(struct relay_client *c, int status, const char *reason, const struct sw_err *err)
{
    struct answer a = {.status = status, .type = "text/plain", .body = sw_slice_str(err->msg)};

    if (err->rc == SW_ENOENT) {
        a.name = "Sec-WebSocket-Version";
        a.value = SW_SLICE_LIT("13");
    }
    relay_client_note(c, reason, err->msg);
    sw_metric_add(c->worker->stats.http_errored, 1);
    answer(c, NULL, &a);
}

/* ---- pages ---- */

static bool challenge_valid(struct sw_slice s)
{
    if (s.n == 0 || s.n > CHALLENGE_MAX)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char ch = s.p[i];

        if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
              ch == '.' || ch == '-' || ch == '_'))
            return false;
    }
    return true;
}

/* Clients tell by this whether a captive portal answers in our place. */
static void generate_204(struct relay_client *c, const struct sw_h1_msg *m)
{
    const struct sw_slice *challenge = sw_h1_field(m, "x-iroh-challenge");
    struct answer a = {.status = 204};
    char text[9 + CHALLENGE_MAX + 1];

    if (challenge && challenge_valid(*challenge)) {
        a.name = "X-Iroh-Response";
        a.value = sw_slice(
            text, (size_t)snprintf(text, sizeof(text), "response %.*s", SW_SLICE_ARG(*challenge)));
    }
    answer(c, m, &a);
}

/* Which address we see: what a node cannot learn by itself behind a NAT. */
static void observed(struct relay_client *c, const struct sw_h1_msg *m)
{
    char addr[SW_ADDR_TEXT];
    char text[SW_ADDR_TEXT + 32];
    int n =
        snprintf(text, sizeof(text), "{\"address\":\"%s\"}\n", sw_addr_text(&c->setup->peer, addr));

    answer(c, m,
           &(struct answer){200, "application/json", sw_slice(text, (size_t)n), "Cache-Control",
                            SW_SLICE_LIT("no-store")});
}

static void page(struct relay_client *c, const struct sw_h1_msg *m, struct sw_slice path)
{
    static const struct {
        const char *path;
        int status;
        const char *type;
        struct sw_slice body;
    } pages[] = {
        {"/ping", 200, NULL, {0}},
        {"/healthz",
         200,
         "application/json",
         {"{\"status\":\"ok\",\"version\":\"" SW_VERSION "\",\"git_hash\":\"\"}\n",
          sizeof("{\"status\":\"ok\",\"version\":\"" SW_VERSION "\",\"git_hash\":\"\"}\n") - 1}},
        {"/", 200, "text/plain", {"spanwire relay\n", 15}},
        {"/index.html", 200, "text/plain", {"spanwire relay\n", 15}},
        {"/robots.txt", 200, "text/plain", {"User-agent: *\nDisallow: /\n", 26}},
    };

    if (!sw_slice_eq_str(m->method, "GET") && !sw_slice_eq_str(m->method, "HEAD")) {
        answer(c, m,
               &(struct answer){405, "text/plain", SW_SLICE_LIT("Method Not Allowed\n"), "Allow",
                                SW_SLICE_LIT("GET, HEAD")});
        return;
    }
    if (sw_slice_eq_str(path, "/generate_204")) {
        generate_204(c, m);
        return;
    }
    if (sw_slice_eq_str(path, "/observed")) {
        observed(c, m);
        return;
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(pages); i++) {
        if (sw_slice_eq_str(path, pages[i].path)) {
            answer(c, m,
                   &(struct answer){
                       .status = pages[i].status, .type = pages[i].type, .body = pages[i].body});
            return;
        }
    }
    answer(c, m, &(struct answer){404, "text/plain", SW_SLICE_LIT("Not Found"), NULL, {0}});
}

/* ---- the upgrade ---- */

/* Authorization, or the query for browsers, which cannot set fields. */
static void take_token(struct relay_client *c, const struct sw_h1_msg *m, struct sw_slice query)
{
    const struct sw_slice *auth = sw_h1_field(m, "authorization");
    static const struct sw_slice bearer = SW_SLICE_LIT("Bearer ");
    SW_ARENA_AUTO tmp = {0};
    struct sw_slice token = {0};
    struct sw_query q = {0};
    const struct sw_query_param *param = NULL;

    if (auth && auth->n > bearer.n && sw_slice_ieq(sw_slice_head(*auth, bearer.n), bearer))
        token = sw_slice_trim(sw_slice_from(*auth, bearer.n));
    else if (query.p && sw_query_parse(&tmp, query, &q, NULL) == SW_OK)
        param = sw_query_get(&q, "token");
    if (param)
        token = param->value;
    if (token.n && token.n <= TOKEN_MAX && !memchr(token.p, 0, token.n))
        c->setup->token = sw_slice_dup(token);
}

static unsigned common_version(const struct sw_h1_msg *m)
{
    if (sw_h1_has_token(m, "sec-websocket-protocol", SW_RELAY_V2_NAME))
        return SW_RELAY_V2;
    return sw_h1_has_token(m, "sec-websocket-protocol", SW_RELAY_V1_NAME) ? SW_RELAY_V1 : 0;
}

static int put_switch(struct sw_buf *out, struct sw_slice key, const struct relay_client *c)
{
    const struct relay_qad *qad = c->worker->relay->qad;
    char accept[SW_WS_ACCEPT];
    int rc = sw_h1_put_status(out, 101, (struct sw_slice){0}, 1);

    sw_ws_accept(key, accept);
    if (rc == SW_OK)
        rc = sw_h1_put_field_str(out, "Upgrade", "websocket");
    if (rc == SW_OK)
        rc = sw_h1_put_field_str(out, "Connection", "Upgrade");
    if (rc == SW_OK)
        rc = sw_h1_put_field_str(out, "Sec-WebSocket-Accept", accept);
    if (rc == SW_OK)
        rc = sw_h1_put_field_str(out, "Sec-WebSocket-Protocol",
                                 c->version == SW_RELAY_V2 ? SW_RELAY_V2_NAME : SW_RELAY_V1_NAME);
    if (rc == SW_OK && qad)
        rc = sw_h1_put_field_str(out, SW_QAD_FIELD, relay_qad_field(qad));
    return rc == SW_OK ? sw_h1_put_end(out) : rc;
}

/* True when the header proves the key on this very connection. */
static bool header_proves(const struct relay_client *c, const struct sw_relay_header *h)
{
    uint8_t km[SW_RELAY_KM_LEN];
    struct sw_err err = {0};

    return sw_wsconn_tls(&c->ws) &&
           sw_tls_export(sw_wsconn_tls(&c->ws), SW_RELAY_EXPORT_LABEL,
                         sw_slice(h->id.b, sizeof(h->id.b)), km, sizeof(km), &err) == SW_OK &&
           sw_relay_header_ok(h, km);
}

static void upgrade(struct relay_client *c, const struct sw_h1_msg *m, struct sw_slice query,
                    bool early)
{
    const struct sw_slice *field = sw_h1_field(m, SW_RELAY_AUTH_FIELD);
    struct sw_relay_header header;
    struct sw_slice key = {0};
    struct sw_err err = {0};
    SW_BUF_AUTO out = {.max = ANSWER_MAX};
    int rc = sw_ws_check_request(m, &key, &err);

    c->version = (uint8_t)common_version(m);
    if (rc == SW_OK && !c->version)
        rc = sw_err_set(&err, SW_EINVAL, "no version of the relay protocol in common");
    if (rc == SW_OK && early)
        rc = sw_err_set(&err, SW_EINVAL, "bytes before the upgrade was answered");
    if (rc == SW_OK && field)
        rc = sw_relay_header_parse(*field, &header, &err);
    if (rc == SW_OK)
        rc = put_switch(&out, key, c);
    if (rc != SW_OK) {
        refuse(c, 400, "upgrade", &err);
        return;
    }
    take_token(c, m, query);
    sw_wsconn_put(&c->ws, sw_buf_data(&out), sw_buf_len(&out));
    sw_wsconn_upgrade(&c->ws);
    c->upgraded = true;
    sw_metric_add(c->worker->stats.http_closed, 1);
    if (field && header_proves(c, &header)) {
        relay_client_proved(c, &header.id);
        return;
    }
    /* Taken from another connection, or changed on the way. Without TLS it cannot be right. */
    if (field && sw_wsconn_tls(&c->ws))
        relay_client_note(c, "proof", SW_RELAY_AUTH_FIELD " is of another connection");
    relay_client_challenge(c);
}

/* ---- bytes ---- */

static void on_head(struct relay_client *c, bool more)
{
    const struct sw_h1_msg *m = sw_h1_msg(c->setup->h1);
    struct sw_err err = {0};
    struct sw_slice path;
    struct sw_slice query;

    sw_target_split(m->path_query, &path, &query);
    if (m->framing != SW_H1_NO_BODY) {
        (void)sw_err_set(&err, SW_EINVAL, "a request with a body");
        refuse(c, 413, "http", &err);
    } else if (sw_slice_eq_str(path, "/relay")) {
        upgrade(c, m, query, more);
    } else {
        page(c, m, path);
    }
}

size_t relay_http_bytes(struct relay_client *c, struct sw_slice in)
{
    size_t at = 0;

    while (c->state == RELAY_HTTP) {
        enum sw_h1_event ev = SW_H1_HEAD;
        struct sw_err err = {0};
        size_t used = 0;
        int rc;

        if (!c->setup->h1)
            c->setup->h1 = sw_h1_new(SW_H1_REQUEST,
                                     &(struct sw_h1_limits){.line = HEAD_MAX, .head = HEAD_MAX});
        rc = sw_h1_next(c->setup->h1, sw_slice_from(in, at), &used, &ev, &err);
        at += used;
        if (rc == SW_EAGAIN)
            break;
        if (rc != SW_OK)
            refuse(c, sw_h1_error_status(c->setup->h1), "http", &err);
        else if (ev == SW_H1_HEAD)
            on_head(c, at < in.n);
        else if (ev == SW_H1_END)
            sw_h1_reset(c->setup->h1);
    }
    return c->state == RELAY_HTTP ? at : in.n;
}
