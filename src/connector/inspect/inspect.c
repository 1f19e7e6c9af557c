/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/inspect/inspect.h"

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

/* A page under way. */
struct page {
    struct sw_buf b;
    struct sw_print p;
};

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
    sw_metric_count(in->shard, SW_METRIC_REFUSALS, "inspect_token");
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

static struct sw_print *begin(struct page *p, const char *title, bool refresh)
{
    sw_buf_init(&p->b, PAGE_MAX);
    p->p = (struct sw_print){.to = &p->b};
    sw_print_fmt(&p->p,
                 "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">%s"
                 "<title>spanwire requests</title>\n"
                 "<style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}"
                 "td,th{padding:.2em .8em;text-align:left;border-bottom:1px solid #ddd}"
                 "pre{background:#f4f4f4;padding:.6em;overflow:auto}.hidden{color:#888}</style>"
                 "</head>\n<body><h1>%s</h1>\n",
                 refresh ? "<meta http-equiv=\"refresh\" content=\"3\">" : "", title);
    return &p->p;
}

static void finish(struct page *p, struct sw_http_resp *resp)
{
    sw_print_str(&p->p, "</body></html>\n");
    set_policy(resp);
    if (p->p.rc == SW_OK)
        sw_http_send_buf(resp, 200, "text/html; charset=utf-8", &p->b);
    else
        sw_http_send_text(resp, 500, "page too large\n");
    sw_buf_done(&p->b);
}

static void put_row(struct sw_print *p, const struct sw_inspect *in,
                    const struct sw_inspect_request *r)
{
    const struct sw_capture *x = r->capture ? sw_captures_find(&in->captures, r->capture) : NULL;
    char text[SW_RFC3339_LEN];

    sw_print_fmt(p, "<tr><td>%.8s</td><td>", sw_rfc3339(r->wall_ns, 0, text) + 11);
    sw_print_html(p, sw_slice_str(r->method[0] ? r->method : r->kind));
    sw_print_str(p, "</td><td>");
    sw_print_html(p, sw_slice_str(r->host));
    sw_print_str(p, "</td><td>");
    if (x)
        sw_print_fmt(p, "<a href=\"" PREFIX "/%llu?token=%s\">", (unsigned long long)x->id,
                     in->token);
    sw_print_html(p, sw_slice_str(r->path[0] ? r->path : r->note ? r->note : "(no path)"));
    sw_print_fmt(p, "%s</td><td>%u</td><td>", x ? "</a>" : "", r->status);
    sw_print_html(p, sw_slice_str(x && x->replay_of ? "replay" : r->reason ? r->reason : ""));
    sw_print_str(p, "</td></tr>\n");
}

static void list_page(const struct sw_inspect *in, struct sw_http_resp *resp)
{
    struct page page;
    struct sw_print *p = begin(&page, "Last requests", true);

    sw_print_str(p, "<table>\n");
    for (size_t i = 0; i < sw_history_count(in->history); i++)
        put_row(p, in, sw_history_at(in->history, i));
    sw_print_str(
        p, "</table>\n<p>The newest first. Those with a link have their headers and bodies.</p>\n");
    finish(&page, resp);
}

/* ---- one exchange ---- */

static void put_fields(struct sw_print *p, const struct sw_inspect *in, const struct sw_captured *m)
{
    struct sw_h1_field f;
    size_t at = 0;

    sw_print_str(p, "<table class=\"fields\">\n");
    while (sw_captured_next(m, &at, &f)) {
        sw_print_str(p, "<tr><th>");
        sw_print_html(p, f.name);
        sw_print_str(p, "</th><td>");
        if (sw_capture_secret(f.name) && !in->secrets)
            sw_print_fmt(p, "<span class=\"hidden\">hidden, %zu bytes</span>", f.value.n);
        else
            sw_print_html(p, f.value);
        sw_print_str(p, "</td></tr>\n");
    }
    sw_print_str(p, "</table>\n");
    if (m->cut_head)
        sw_print_str(p, "<p>More fields were left out.</p>\n");
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

static void put_body(struct sw_print *p, const struct sw_captured *m)
{
    struct sw_slice s = sw_buf_slice(&m->body);

    if (!m->body_bytes) {
        sw_print_str(p, "<p>No body.</p>\n");
        return;
    }
    sw_print_fmt(p, "<p>Body: %llu bytes%s", (unsigned long long)m->body_bytes,
                 m->complete ? "" : ", not to its end");
    if (m->cut_body)
        sw_print_fmt(p, ", of which the first %zu are kept", s.n);
    sw_print_str(p, "</p>\n");
    if (!is_text(s)) {
        sw_print_str(p, "<p>It is not text.</p>\n");
        return;
    }
    sw_print_str(p, "<pre>");
    sw_print_html(p, whole_characters(s));
    sw_print_str(p, "</pre>\n");
}

static void put_replay(struct sw_print *p, const struct sw_inspect *in, const struct sw_capture *x)
{
    const char *why = sw_replay_obstacle(&in->replays, x);

    if (why)
        sw_print_fmt(p, "<p>It cannot be sent again: %s.</p>\n", why);
    else
        sw_print_fmt(p,
                     "<form method=\"post\" action=\"" PREFIX "/%llu/replay\">"
                     "<input type=\"hidden\" name=\"token\" value=\"%s\">"
                     "<button id=\"replay\">Send again</button></form>\n",
                     (unsigned long long)x->id, in->token);
}

static void exchange_page(const struct sw_inspect *in, const struct sw_capture *x,
                          struct sw_http_resp *resp)
{
    struct page page;
    struct sw_print *p = begin(&page, x->replay_of ? "A request sent again" : "A request", false);

    sw_print_fmt(p, "<p><a href=\"" PREFIX "?token=%s\">All requests</a></p>\n<h2 id=\"request\">",
                 in->token);
    sw_print_html(p, sw_buf_slice(&x->method));
    sw_print_str(p, " ");
    sw_print_html(p, sw_buf_slice(&x->target));
    sw_print_str(p, "</h2>\n");
    put_fields(p, in, &x->req);
    put_body(p, &x->req);
    put_replay(p, in, x);
    if (x->failure[0]) {
        sw_print_str(p, "<h2 id=\"answer\">No answer</h2>\n<p>");
        sw_print_html(p, sw_slice_str(x->failure));
        sw_print_str(p, "</p>\n");
    } else {
        sw_print_fmt(p, "<h2 id=\"answer\">Answer: %d</h2>\n", x->status);
        put_fields(p, in, &x->resp);
        put_body(p, &x->resp);
    }
    finish(&page, resp);
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
