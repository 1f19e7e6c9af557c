/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/admin.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/url.h"
#include "io/egress.h"

enum { PAGE_MAX = 64 * 1024 * 1024 };

static const char scope[] = "admin";

struct sw_admin {
    struct sw_admin_opts opts;
    struct sw_metrics_shard *shard;     /* owned */
    struct sw_admin_token *token;       /* owned; NULL: none is required */
    uint64_t denied[SW_EGRESS_CLASSES]; /* counted already */
    char *log_filter;                   /* owned */
    struct sw_log_limit refused;        /* lines */
    struct sw_http_server *admin;
    struct sw_http_server *stats;
    struct sw_http_server *ready;
};

/* --- access control ---------------------------------------------------------------------- */

/*
 * A web page can make its visitor's browser send requests here under a name of its own (DNS
 * rebinding). Names other than localhost are therefore refused; addresses cannot be rebound.
 */
static bool host_is_local(struct sw_slice authority)
{
    struct sw_slice host = authority;
    ptrdiff_t colon = sw_slice_rfind(authority, ':');
    struct sw_ip ip;

    if (authority.n && authority.p[0] == '[') {
        ptrdiff_t end = sw_slice_find(authority, ']');

        host = end > 0 ? sw_slice(authority.p + 1, (size_t)end - 1) : sw_slice(NULL, 0);
    } else if (colon >= 0) {
        host = sw_slice_head(authority, (size_t)colon);
    }
    return sw_slice_ieq(host, SW_SLICE_LIT("localhost")) || sw_ip_parse(host, &ip, NULL) == SW_OK;
}

/* Another site's page: browsers say so in one of these. */
static bool cross_site(const struct sw_h1_msg *m)
{
    const struct sw_slice *origin = sw_h1_field(m, "origin");
    const struct sw_slice *site = sw_h1_field(m, "sec-fetch-site");

    if (site && !sw_slice_eq_str(*site, "same-origin") && !sw_slice_eq_str(*site, "none"))
        return true;
    return origin && !(sw_slice_has_prefix(*origin, SW_SLICE_LIT("http://")) &&
                       sw_slice_ieq(sw_slice_from(*origin, 7), m->authority));
}

/* NULL: a request of this machine; else the reason why it is none. */
static const char *foreign(const struct sw_h1_msg *m)
{
    if (!host_is_local(m->authority))
        return "admin_host";
    return cross_site(m) ? "admin_origin" : NULL;
}

/* Tenants can make a proxy on this machine send requests here: sensitive pages need the token. */
static bool has_token(struct sw_admin *a, const struct sw_http_req *req, struct sw_http_resp *r)
{
    const struct sw_slice *given = sw_h1_field(req->msg, "authorization");

    if (!a->token || (given && sw_admin_token_ok(a->token, *given)))
        return true;
    sw_metric_add(sw_metric_get1(a->shard, SW_METRIC_REFUSALS, "admin_token"), 1);
    sw_log_limited(&a->refused, sw_now_ns(), SW_LOG_WARN, scope,
                   "request for '%.*s' refused: %s admin token", (int)sw_min(req->path.n, 128),
                   req->path.p, given ? "wrong" : "no");
    sw_http_set(r, "www-authenticate", SW_SLICE_LIT("Bearer realm=\"spanwire admin\""));
    sw_http_send_text(r, 401,
                      "the admin token is needed as 'Authorization: Bearer TOKEN'; the log and "
                      "--admin-token-file say where it is\n");
    return false;
}

/* --- admin ------------------------------------------------------------------------------ */

struct page {
    const char *path;
    const char *what;
    void (*handle)(struct sw_admin *a, struct sw_http_req *req, struct sw_http_resp *r);
};

static void page_index(struct sw_admin *a, struct sw_http_req *req, struct sw_http_resp *r);

static void page_config_dump(struct sw_admin *a, struct sw_http_req *req, struct sw_http_resp *r)
{
    SW_BUF_AUTO body = {.max = PAGE_MAX};

    if (!sw_http_only_get(req, r))
        return;
    if (!a->opts.config_dump)
        sw_http_send_text(r, 404, "no configuration to dump\n");
    else if (a->opts.config_dump(&body, a->opts.arg) != SW_OK)
        sw_http_send_text(r, 500, "the configuration could not be written\n");
    else
        sw_http_send_buf(r, 200, "application/json", &body);
}

static void send_log_filter(struct sw_http_resp *r)
{
    SW_AUTO_FREE char *text = sw_log_filter_text();

    sw_http_send_text(r, 200, "current log level is %s\n", text);
}

static void page_logging(struct sw_admin *a, struct sw_http_req *req, struct sw_http_resp *r)
{
    const struct sw_query_param *level;
    const struct sw_query_param *reset;
    struct sw_query q = {0};
    struct sw_err err = {0};
    int rc;

    if (!sw_slice_eq_str(req->msg->method, "POST")) {
        sw_http_send_not_allowed(r, "POST");
        return;
    }
    rc = sw_query_parse(req->arena, req->query, &q, &err);
    if (rc != SW_OK) {
        sw_http_send_text(r, 400, "%s\n", err.msg);
        return;
    }
    level = sw_query_get(&q, "level");
    reset = sw_query_get(&q, "reset");
    if (q.n != (size_t)(level != NULL) + (reset != NULL) || (level && level->value.n == 0)) {
        sw_http_send_text(r, 400, "use ?level=LEVEL, ?level=SCOPE=LEVEL,... or ?reset\n");
        return;
    }
    /* Both at once: the levels count from the state after the reset, and only if they are good. */
    if (level)
        rc = sw_log_filter(level->value, false, &err);
    if (rc == SW_OK && reset)
        rc = sw_log_filter(sw_slice_str(a->log_filter), true, &err);
    if (rc == SW_OK && reset && level)
        rc = sw_log_filter(level->value, false, &err);
    if (rc != SW_OK) {
        sw_http_send_text(r, 400, "%s\n", err.msg);
        return;
    }
    if (q.n)
        sw_log_info(scope, "log level changed by request");
    send_log_filter(r);
}

static void page_quit(struct sw_admin *a, struct sw_http_req *req, struct sw_http_resp *r)
{
    if (!sw_slice_eq_str(req->msg->method, "POST")) {
        sw_http_send_not_allowed(r, "POST");
    } else if (!a->opts.quit) {
        sw_http_send_text(r, 404, "not available\n");
    } else {
        sw_http_send_text(r, 200, "shutdown now\n");
        sw_log_info(scope, "shutdown requested over the admin port");
        a->opts.quit(a->opts.quit_arg);
    }
}

static const struct page pages[] = {
    {"/", "this page", page_index},
    {"/config_dump", "the configuration and state in use, as JSON", page_config_dump},
    {"/logging", "POST: query or change log levels (level=..., reset)", page_logging},
    {"/quitquitquit", "POST: drain and end the process", page_quit},
};

static void page_index(struct sw_admin *a, struct sw_http_req *req, struct sw_http_resp *r)
{
    SW_BUF_AUTO body = {.max = 16384};
    int rc;

    if (!sw_http_only_get(req, r))
        return;
    rc = sw_buf_printf(&body,
                       "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                       "<title>%s</title></head>\n<body><h1>%s</h1>\n<ul>\n",
                       a->opts.title, a->opts.title);
    for (size_t i = 1; i < SW_ARRAY_LEN(pages) && rc == SW_OK; i++)
        rc = sw_buf_printf(&body, "<li><a href=\"%s\">%s</a>: %s</li>\n", pages[i].path + 1,
                           pages[i].path + 1, pages[i].what);
    if (rc == SW_OK)
        rc = sw_buf_append_str(&body, "</ul></body></html>\n");
    if (rc == SW_OK)
        sw_http_send_buf(r, 200, "text/html; charset=utf-8", &body);
    else
        sw_http_send_text(r, 500, "page too large\n");
}

static void on_stats(struct sw_http_req *req, struct sw_http_resp *r, void *arg);
static void on_ready(struct sw_http_req *req, struct sw_http_resp *r, void *arg);

/* Pages that have listeners of their own elsewhere; true: answered. */
static bool one_port_page(struct sw_admin *a, struct sw_http_req *req, struct sw_http_resp *r)
{
    if (a->opts.extra && a->opts.extra(req, r, a->opts.arg))
        return true;
    if (sw_slice_eq_str(req->path, "/metrics"))
        on_stats(req, r, a);
    else if (sw_slice_eq_str(req->path, "/ready") || sw_slice_eq_str(req->path, "/healthz/ready"))
        on_ready(req, r, a);
    else
        return false;
    return true;
}

static void on_pages(struct sw_http_req *req, struct sw_http_resp *r, void *arg)
{
    if (sw_http_only_get(req, r) && !one_port_page(arg, req, r))
        sw_http_send_text(r, 404, "not found\n");
}

static void on_admin(struct sw_http_req *req, struct sw_http_resp *r, void *arg)
{
    struct sw_admin *a = arg;
    const char *reason = foreign(req->msg);
    bool get;

    if (reason) {
        sw_metric_add(sw_metric_get1(a->shard, SW_METRIC_REFUSALS, reason), 1);
        sw_log_limited(&a->refused, sw_now_ns(), SW_LOG_WARN, scope,
                       "request for '%.*s' refused (%s): not from this machine",
                       (int)sw_min(req->msg->authority.n, 256), req->msg->authority.p, reason);
        sw_http_send_text(r, 403, "use localhost or an address as the host name\n");
        return;
    }
    if (a->opts.guarded && a->opts.guarded(req, r, a->opts.arg))
        return;
    get = sw_slice_eq_str(req->msg->method, "GET") || sw_slice_eq_str(req->msg->method, "HEAD");
    if (a->opts.one_port && get && one_port_page(a, req, r))
        return;
    if (!(get && sw_slice_eq_str(req->path, "/")) && !has_token(a, req, r))
        return;
    if (a->opts.one_port && !get && one_port_page(a, req, r))
        return;
    for (size_t i = 0; i < SW_ARRAY_LEN(pages); i++) {
        if (sw_slice_eq_str(req->path, pages[i].path)) {
            pages[i].handle(a, req, r);
            return;
        }
    }
    if (!a->opts.extra || !a->opts.extra(req, r, a->opts.arg))
        sw_http_send_text(r, 404, "not found\n");
}

/* --- metrics and readiness -------------------------------------------------------------- */

static void count_denied(struct sw_admin *a)
{
    for (int c = SW_EGRESS_OK + 1; a->opts.egress && c < SW_EGRESS_CLASSES; c++) {
        enum sw_egress_class class = (enum sw_egress_class)c;
        uint64_t now = sw_egress_denied(a->opts.egress, class);

        sw_metric_add(
            sw_metric_get1(a->shard, SW_METRIC_UPSTREAM_DENIED, sw_egress_class_text(class)),
            now - a->denied[c]);
        a->denied[c] = now;
    }
}

static void on_stats(struct sw_http_req *req, struct sw_http_resp *r, void *arg)
{
    struct sw_admin *a = arg;
    const struct sw_slice *accept = sw_h1_field(req->msg, "accept");
    SW_BUF_AUTO body = {.max = PAGE_MAX};
    enum sw_metrics_format f;

    if (!sw_slice_eq_str(req->path, "/metrics") &&
        !sw_slice_eq_str(req->path, "/stats/prometheus")) {
        sw_http_send_text(r, 404, "not found\n");
        return;
    }
    if (!sw_http_only_get(req, r))
        return;
    count_denied(a);
    if (a->opts.on_scrape)
        a->opts.on_scrape(a->opts.arg);
    f = sw_metrics_negotiate(accept ? *accept : sw_slice(NULL, 0));
    if (sw_metrics_write(a->opts.metrics, f, &body) != SW_OK) {
        sw_log_error(scope, "metrics are larger than %d bytes", PAGE_MAX);
        sw_http_send_text(r, 500, "too many metrics\n");
        return;
    }
    sw_http_send_buf(r, 200, sw_metrics_content_type(f), &body);
}

static bool is_ready(struct sw_admin *a, struct sw_buf *pending)
{
    bool ready = sw_ready_check(a->opts.ready, pending);

    if (!a->opts.pending)
        return ready;
    if (!ready)
        (void)!sw_buf_append_str(pending, ", ");
    return !a->opts.pending(a->opts.arg, pending) && ready;
}

static void on_ready(struct sw_http_req *req, struct sw_http_resp *r, void *arg)
{
    struct sw_admin *a = arg;
    SW_BUF_AUTO pending = {.max = 16384};

    if (!sw_slice_eq_str(req->path, "/healthz/ready") &&
        !(a->opts.one_port && sw_slice_eq_str(req->path, "/ready")))
        sw_http_send_text(r, 404, "not found\n");
    else if (!sw_http_only_get(req, r))
        return;
    else if (is_ready(a, &pending))
        sw_http_send_text(r, 200, "ready\n");
    else
        sw_http_send_text(r, 500, "not ready, pending: %.*s\n",
                          SW_SLICE_ARG(sw_buf_slice(&pending)));
}

/* --- listeners -------------------------------------------------------------------------- */

static const struct sw_ip ip4_loopback = {.family = 4, .b = {127, 0, 0, 1}};
static const struct sw_ip ip6_loopback = {.family = 6, .b = {[15] = 1}};
static const struct sw_ip ip4_any = {.family = 4};
static const struct sw_ip ip6_any = {.family = 6};

/* The given address, or the wildcard: IPv6 where there is any, it serves IPv4 too. */
static int listen_wild(struct sw_admin *a, struct sw_http_server *s, const struct sw_addr *at,
                       uint16_t port, struct sw_err *err)
{
    struct sw_addr any4 = {.ip = ip4_any, .port = port};
    struct sw_addr any6 = {.ip = ip6_any, .port = port};

    if (at->ip.family)
        return sw_http_server_listen(s, at, err);
    if (!a->opts.no_ipv6 && sw_http_server_listen(s, &any6, err) == SW_OK)
        return SW_OK;
    return sw_http_server_listen(s, &any4, err);
}

static int listen_admin(struct sw_admin *a, struct sw_err *err)
{
    struct sw_addr lo4 = {.ip = ip4_loopback, .port = 15000};
    struct sw_addr lo6 = {.ip = ip6_loopback, .port = 15000};
    bool given = false;
    struct sw_err ignored;
    int rc = SW_OK;

    for (size_t i = 0; i < SW_ADMIN_ADDRS && rc == SW_OK; i++) {
        if (!a->opts.admin[i].ip.family)
            continue;
        given = true;
        rc = sw_http_server_listen(a->admin, &a->opts.admin[i], err);
    }
    if (given || rc != SW_OK)
        return rc;
    rc = sw_http_server_listen(a->admin, &lo4, err);
    if (rc == SW_OK && !a->opts.no_ipv6 && sw_http_server_listen(a->admin, &lo6, &ignored) != SW_OK)
        sw_log_debug(scope, "no admin on IPv6: %s", ignored.msg);
    return rc;
}

static int open_token(struct sw_admin *a, struct sw_err *err)
{
    if (a->opts.access.auth == SW_ADMIN_AUTH_NONE)
        return SW_OK;
    a->token = sw_admin_token_new(a->opts.access.token_file, err);
    return a->token ? SW_OK : err->rc;
}

struct sw_admin *sw_admin_new(struct sw_loop *l, const struct sw_admin_opts *o, struct sw_err *err)
{
    struct sw_admin *a = SW_NEW(struct sw_admin);
    struct sw_http_server_opts so = {.scope = scope, .share = o->share, .arg = a};
    int rc;

    a->opts = *o;
    a->shard = sw_metrics_shard_new(o->metrics);
    a->opts.title = o->title ? o->title : "spanwire";
    a->log_filter = sw_strdup(o->log_filter ? o->log_filter : "info");
    so.handler = on_admin;
    a->admin = sw_http_server_new(l, &so);
    so.handler = o->one_port ? on_pages : on_stats;
    a->stats = sw_http_server_new(l, &so);
    so.handler = on_ready;
    a->ready = sw_http_server_new(l, &so);
    rc = open_token(a, err);
    if (rc == SW_OK)
        rc = listen_admin(a, err);
    if (rc == SW_OK && o->one_port && o->pages.ip.family)
        rc = sw_http_server_listen(a->stats, &o->pages, err);
    if (rc == SW_OK && !o->one_port)
        rc = listen_wild(a, a->stats, &a->opts.stats, 15020, err);
    if (rc == SW_OK && !o->one_port)
        rc = listen_wild(a, a->ready, &a->opts.ready_at, 15021, err);
    if (rc != SW_OK) {
        sw_admin_free(a);
        return NULL;
    }
    if (a->token)
        sw_admin_token_log(a->token);
    return a;
}

struct sw_addr sw_admin_addr(const struct sw_admin *a)
{
    return sw_http_server_addr(a->admin, 0);
}

struct sw_addr sw_admin_stats_addr(const struct sw_admin *a)
{
    return sw_http_server_addr(a->stats, 0);
}

struct sw_addr sw_admin_ready_addr(const struct sw_admin *a)
{
    return sw_http_server_addr(a->ready, 0);
}

void sw_admin_free(struct sw_admin *a)
{
    if (!a)
        return;
    sw_http_server_free(a->admin);
    sw_http_server_free(a->stats);
    sw_http_server_free(a->ready);
    sw_metrics_shard_free(a->shard);
    sw_admin_token_free(a->token);
    sw_free(a->log_filter);
    sw_free(a);
}
