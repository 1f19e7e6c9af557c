/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/inspect/inspect.h"

#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "base/utf8.h"
#include "connector/inspect/history.h"
#include "http/server.h"
#include "http/url.h"
#include "telemetry/metrics.h"

enum { PAGE_MAX = 1 << 20 };

#define PREFIX "/requests"

/* A page under way; after a failure nothing more is written. */
struct page {
    struct sw_buf b;
    int rc;
};

static void put(struct page *p, const char *text)
{
    if (p->rc == SW_OK)
        p->rc = sw_buf_append_str(&p->b, text);
}

static void put_escaped(struct page *p, struct sw_slice s)
{
    if (p->rc == SW_OK)
        p->rc = sw_buf_append_html(&p->b, s);
}

static void put_number(struct page *p, uint64_t n)
{
    if (p->rc == SW_OK)
        p->rc = sw_buf_printf(&p->b, "%llu", (unsigned long long)n);
}

/* ---- authorisation ---- */

void sw_inspect_open(struct sw_inspect *in)
{
    uint8_t random[SW_INSPECT_TOKEN / 2];

    sw_captures_init(&in->captures);
    sw_replays_init(&in->replays);
    in->replays.token = in->token;
    if (!in->on)
        return;
    sw_rand_bytes(random, sizeof(random));
    *sw_hex_write(in->token, random, sizeof(random)) = 0;
}

/* Takes the same time wherever they differ. */
static bool is_token(const struct sw_inspect *in, const struct sw_query *q)
{
    const struct sw_query_param *given = sw_query_get(q, "token");
    unsigned char differ = 0;

    if (!given || given->value.n != SW_INSPECT_TOKEN)
        return false;
    for (size_t i = 0; i < SW_INSPECT_TOKEN; i++)
        differ |= (unsigned char)(given->value.p[i] ^ in->token[i]);
    return differ == 0;
}

static bool refuse(struct sw_inspect *in, struct sw_http_resp *resp)
{
    sw_metric_add(sw_metric_get1(in->shard, SW_METRIC_REFUSALS, "inspect_token"), 1);
    sw_log_limited(&in->refused, sw_now_ns(), SW_LOG_WARN, "connector",
                   "request inspector: request refused, no or wrong token");
    sw_http_send_text(resp, 403, "this page needs the token of the URL that was printed\n");
    return true;
}

/* ---- pages ---- */

static void set_policy(struct sw_http_resp *resp)
{
    sw_http_set(resp, "cache-control", SW_SLICE_LIT("no-store"));
    sw_http_set(resp, "content-security-policy",
                SW_SLICE_LIT("default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
                             "frame-ancestors 'none'; base-uri 'none'"));
    sw_http_set(resp, "referrer-policy", SW_SLICE_LIT("same-origin"));
    sw_http_set(resp, "x-content-type-options", SW_SLICE_LIT("nosniff"));
}

static void begin(struct page *p, const char *title, bool refresh)
{
    sw_buf_init(&p->b, PAGE_MAX);
    p->rc = SW_OK;
    put(p, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    if (refresh)
        put(p, "<meta http-equiv=\"refresh\" content=\"3\">");
    put(p, "<title>spanwire requests</title>\n"
           "<style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}"
           "td,th{padding:.2em .8em;text-align:left;border-bottom:1px solid #ddd}"
           "pre{background:#f4f4f4;padding:.6em;overflow:auto}.hidden{color:#888}</style></head>\n"
           "<body><h1>");
    put(p, title);
    put(p, "</h1>\n");
}

static void finish(struct page *p, struct sw_http_resp *resp)
{
    put(p, "</body></html>\n");
    set_policy(resp);
    if (p->rc == SW_OK)
        sw_http_send_buf(resp, 200, "text/html; charset=utf-8", &p->b);
    else
        sw_http_send_text(resp, 500, "page too large\n");
    sw_buf_done(&p->b);
}

static void put_link(struct page *p, const struct sw_inspect *in, uint64_t id)
{
    put(p, "<a href=\"" PREFIX "/");
    put_number(p, id);
    put(p, "?token=");
    put(p, in->token);
    put(p, "\">");
}

static void put_row(struct page *p, const struct sw_inspect *in, const struct sw_inspect_request *r)
{
    const struct sw_capture *x = r->capture ? sw_captures_find(&in->captures, r->capture) : NULL;
    char text[SW_RFC3339_LEN];

    put(p, "<tr><td>");
    put_escaped(p, sw_slice_head(sw_slice_str(sw_rfc3339(r->wall_ns, 0, text) + 11), 8));
    put(p, "</td><td>");
    put_escaped(p, sw_slice_str(r->method[0] ? r->method : r->kind));
    put(p, "</td><td>");
    put_escaped(p, sw_slice_str(r->host));
    put(p, "</td><td>");
    if (x)
        put_link(p, in, x->id);
    put_escaped(p, sw_slice_str(r->path[0] ? r->path : r->note ? r->note : "(no path)"));
    put(p, x ? "</a></td><td>" : "</td><td>");
    put_number(p, r->status);
    put(p, "</td><td>");
    put_escaped(p, sw_slice_str(x && x->replay_of ? "replay" : r->reason ? r->reason : ""));
    put(p, "</td></tr>\n");
}

static void list_page(const struct sw_inspect *in, struct sw_http_resp *resp)
{
    struct page p;

    begin(&p, "Last requests", true);
    put(&p, "<table>\n");
    for (size_t i = 0; i < sw_history_count(in->history); i++)
        put_row(&p, in, sw_history_at(in->history, i));
    put(&p,
        "</table>\n<p>The newest first. Those with a link have their headers and bodies.</p>\n");
    finish(&p, resp);
}

/* ---- one exchange ---- */

static void put_fields(struct page *p, const struct sw_inspect *in, const struct sw_captured *m)
{
    struct sw_h1_field f;
    size_t at = 0;

    put(p, "<table class=\"fields\">\n");
    while (sw_captured_next(m, &at, &f)) {
        put(p, "<tr><th>");
        put_escaped(p, f.name);
        put(p, "</th><td>");
        if (sw_capture_secret(f.name) && !in->secrets) {
            put(p, "<span class=\"hidden\">hidden, ");
            put_number(p, f.value.n);
            put(p, " bytes</span>");
        } else {
            put_escaped(p, f.value);
        }
        put(p, "</td></tr>\n");
    }
    put(p, "</table>\n");
    if (m->cut_head)
        put(p, "<p>More fields were left out.</p>\n");
}

/* Text that can be shown; the last character may be cut. */
static bool is_text(struct sw_slice s)
{
    for (size_t i = 0; i < s.n;) {
        size_t n = sw_utf8_len(s.p + i, s.n - i);
        unsigned char c = (unsigned char)s.p[i];

        if (!n)
            return s.n - i < 4 && c >= 0xc2;
        if (c < 0x20 && c != '\n' && c != '\r' && c != '\t')
            return false;
        i += n;
    }
    return true;
}

static struct sw_slice whole_characters(struct sw_slice s)
{
    size_t i = 0;

    while (i < s.n) {
        size_t n = sw_utf8_len(s.p + i, s.n - i);

        if (!n)
            break;
        i += n;
    }
    return sw_slice_head(s, i);
}

static void put_body(struct page *p, const struct sw_captured *m)
{
    struct sw_slice s = sw_buf_slice(&m->body);

    if (!m->body_bytes) {
        put(p, "<p>No body.</p>\n");
        return;
    }
    put(p, "<p>Body: ");
    put_number(p, m->body_bytes);
    put(p, m->complete ? " bytes" : " bytes, not to its end");
    if (m->cut_body) {
        put(p, ", of which the first ");
        put_number(p, s.n);
        put(p, " are kept");
    }
    put(p, "</p>\n");
    if (!is_text(s)) {
        put(p, "<p>It is not text.</p>\n");
        return;
    }
    put(p, "<pre>");
    put_escaped(p, whole_characters(s));
    put(p, "</pre>\n");
}

static void put_replay(struct page *p, const struct sw_inspect *in, const struct sw_capture *x)
{
    const char *why = sw_replay_obstacle(&in->replays, x);

    if (why) {
        put(p, "<p>It cannot be sent again: ");
        put(p, why);
        put(p, ".</p>\n");
        return;
    }
    put(p, "<form method=\"post\" action=\"" PREFIX "/");
    put_number(p, x->id);
    put(p, "/replay\"><input type=\"hidden\" name=\"token\" value=\"");
    put(p, in->token);
    put(p, "\"><button id=\"replay\">Send again</button></form>\n");
}

static void exchange_page(const struct sw_inspect *in, const struct sw_capture *x,
                          struct sw_http_resp *resp)
{
    struct page p;

    begin(&p, x->replay_of ? "A request sent again" : "A request", false);
    put(&p, "<p><a href=\"" PREFIX "?token=");
    put(&p, in->token);
    put(&p, "\">All requests</a></p>\n<h2 id=\"request\">");
    put_escaped(&p, sw_buf_slice(&x->method));
    put(&p, " ");
    put_escaped(&p, sw_buf_slice(&x->target));
    put(&p, "</h2>\n");
    put_fields(&p, in, &x->req);
    put_body(&p, &x->req);
    put_replay(&p, in, x);
    if (x->failure[0]) {
        put(&p, "<h2 id=\"answer\">No answer</h2>\n<p>");
        put_escaped(&p, sw_slice_str(x->failure));
        put(&p, "</p>\n");
    } else {
        put(&p, "<h2 id=\"answer\">Answer: ");
        put_number(&p, (uint64_t)x->status);
        put(&p, "</h2>\n");
        put_fields(&p, in, &x->resp);
        put_body(&p, &x->resp);
    }
    finish(&p, resp);
}

/* ---- which page ---- */

/* "/17" or "/17/replay". */
static bool read_path(struct sw_slice path, uint64_t *ret_id, bool *ret_replay)
{
    struct sw_slice rest = sw_slice_from(path, 1);
    struct sw_slice id = sw_slice_cut(&rest, '/');

    *ret_replay = rest.p && sw_slice_eq_str(rest, "replay");
    return sw_slice_to_u64(id, UINT64_MAX, ret_id) && (!rest.p || *ret_replay);
}

static void answer(struct sw_inspect *in, struct sw_http_req *req, struct sw_http_resp *resp)
{
    struct sw_slice path = sw_slice_from(req->path, sizeof(PREFIX) - 1);
    const struct sw_capture *x;
    bool replay = false;
    uint64_t id = 0;

    if (path.n == 0) {
        if (sw_http_only_get(req, resp))
            list_page(in, resp);
        return;
    }
    x = read_path(path, &id, &replay) ? sw_captures_find(&in->captures, id) : NULL;
    if (!x)
        sw_http_send_text(resp, 404, "no such request, or it is forgotten by now\n");
    else if (replay && !sw_slice_eq_str(req->msg->method, "POST"))
        sw_http_send_not_allowed(resp, "POST");
    else if (replay)
        sw_replay_start(&in->replays, x, resp);
    else if (sw_http_only_get(req, resp))
        exchange_page(in, x, resp);
}

bool sw_inspect_page(struct sw_inspect *in, struct sw_http_req *req, struct sw_http_resp *resp)
{
    bool post = sw_slice_eq_str(req->msg->method, "POST");
    struct sw_query q = {0};

    if (!in->on || !(sw_slice_eq_str(req->path, PREFIX) ||
                     sw_slice_has_prefix(req->path, SW_SLICE_LIT(PREFIX "/"))))
        return false;
    /* What changes something has the token in its body, where no log and no link has it. */
    if (sw_query_parse(req->arena, post ? req->body : req->query, &q, NULL) != SW_OK ||
        !is_token(in, &q))
        return refuse(in, resp);
    answer(in, req, resp);
    return true;
}
