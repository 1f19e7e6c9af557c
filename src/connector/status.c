/* SPDX-License-Identifier: Apache-2.0 */
/* The status page of a device: what it is, connected peers, allowed destinations, last requests. */

#include "base/time.h"
#include "connector/connector_int.h"

enum { PAGE_MAX = 4 << 20, LISTED_MAX = 200 };

static void write_quic(struct sw_connector *c, const char *event, uint64_t now, uint64_t told)
{
    sw_metric_add(sw_metric_get1(c->meter.shard, SW_METRIC_CONNECTOR_QUIC, event), now - told);
}

static void scrape_quic(struct sw_connector *c)
{
    struct sw_quic_stats now = {0};
    struct sw_qserve_stats serve = {0};

    if (!c->quic || !c->serve)
        return;
    sw_quic_stats(c->quic, &now);
    write_quic(c, "accepted", now.accepted, c->meter.told.accepted);
    write_quic(c, "failed", now.failed, c->meter.told.failed);
    write_quic(c, "refused", now.refused, c->meter.told.refused);
    write_quic(c, "retry", now.retries, c->meter.told.retries);
    write_quic(c, "stream_reset", now.resets, c->meter.told.resets);
    write_quic(c, "dropped", now.rx_dropped, c->meter.told.rx_dropped);
    write_quic(c, "path_slower", now.renewals, c->meter.told.renewals);
    write_quic(c, "held_back", now.held_back, c->meter.told.held_back);
    write_quic(c, "probe_sent", now.probes_sent, c->meter.told.probes_sent);
    write_quic(c, "probe_received", now.probes_received, c->meter.told.probes_received);
    write_quic(c, "probe_dropped", now.probes_dropped, c->meter.told.probes_dropped);
    write_quic(c, "direct_failed", now.direct_failed, c->meter.told.direct_failed);
    sw_metric_set(sw_metric_get(c->meter.shard, SW_METRIC_QUIC_BUFFERED, NULL),
                  (int64_t)now.buffered);
    sw_metric_gauge(c->meter.shard, SW_METRIC_QUIC_RTT, "direct",
                    (int64_t)(now.rtt_direct_ns / SW_NS_PER_US));
    sw_metric_gauge(c->meter.shard, SW_METRIC_QUIC_RTT, "relay",
                    (int64_t)(now.rtt_relay_ns / SW_NS_PER_US));
    c->meter.told = now;
    sw_qserve_stats(c->serve, &serve);
    sw_metric_add(sw_metric_get1(c->meter.shard, SW_METRIC_REFUSALS, "too_many_streams"),
                  serve.overflows - c->meter.overflows_logged);
    c->meter.overflows_logged = serve.overflows;
}

void connector_scrape(void *arg)
{
    struct sw_connector *c = arg;
    int64_t relay = 0;

    SW_LIST_EACH (const struct conn, k, &c->conns, link)
        relay += sw_qconn_path(k->q) == SW_QPATH_RELAY;
    sw_metric_gauge(c->meter.shard, SW_METRIC_CONNECTOR_CONNECTIONS, "relay", relay);
    sw_metric_gauge(c->meter.shard, SW_METRIC_CONNECTOR_CONNECTIONS, "direct",
                    (int64_t)c->n_conns - relay);
    sw_metric_gauge(c->meter.shard, SW_METRIC_CONNECTOR_LIVE, NULL, sw_reg_live(c->reg));
    scrape_quic(c);
}

/* ---- JSON ---- */

static void put_time(struct sw_jw *w, const char *key, uint64_t wall_ns)
{
    char text[SW_RFC3339_LEN];

    if (wall_ns)
        sw_jw_put_str(w, key, sw_rfc3339(wall_ns, 0, text));
}

static void put_api(struct sw_jw *w, const struct sw_connector *c)
{
    sw_jw_put_object(w, "api");
    sw_jw_put_bool(w, "up", c->api.up);
    sw_jw_put_str(w, "step", sw_reg_step(c->reg));
    sw_jw_put_u64(w, "code", (uint64_t)c->api.code);
    sw_jw_put_str(w, "message", c->api.message);
    put_time(w, "since", c->api.since_ns);
    sw_jw_object_end(w);
}

static void put_conns(struct sw_jw *w, const struct sw_connector *c)
{
    size_t left = LISTED_MAX;

    sw_jw_put_array(w, "connections");
    SW_LIST_EACH (struct conn, k, &c->conns, link) {
        struct sw_addr at = sw_qconn_addr(k->q);
        char text[SW_ADDR_TEXT];
        char hex[SW_NODEID_HEX];

        if (left-- == 0)
            break;
        sw_jw_object(w);
        sw_jw_put_str(w, "peer", sw_nodeid_hex(sw_qconn_peer(k->q), hex));
        sw_jw_put_str(w, "path", sw_qconn_path(k->q) == SW_QPATH_RELAY ? "relay" : "direct");
        if (at.ip.family)
            sw_jw_put_str(w, "address", sw_addr_text(&at, text));
        else if (sw_qconn_path_note(k->q)[0])
            sw_jw_put_str(w, "note", sw_qconn_path_note(k->q));
        sw_jw_put_u64(w, "rttUs", sw_qconn_rtt_ns(k->q) / SW_NS_PER_US);
        sw_jw_put_u64(w, "streams", sw_qconn_streams(k->q));
        put_time(w, "since", k->since_ns);
        sw_jw_object_end(w);
    }
    sw_jw_array_end(w);
}

static void put_lists(struct sw_jw *w, const struct sw_connector *c)
{
    SW_ARENA_AUTO a = {0};

    sw_jw_put_array(w, "addresses");
    for (size_t i = 0; i < c->local.addrs.n; i++) {
        char text[SW_ADDR_TEXT];

        sw_jw_str(w, sw_addr_text(&c->local.addrs.a[i], text));
    }
    sw_jw_array_end(w);
    sw_jw_put_bool(w, "symmetricNat",
                   sw_quic_mapping_varies(c->quic, 4) || sw_quic_mapping_varies(c->quic, 6));
    sw_jw_put_array(w, "gateways");
    for (size_t i = 0; i < sw_min(c->admit.peers.ids.n, LISTED_MAX); i++) {
        char hex[SW_NODEID_HEX];

        sw_jw_str(w, sw_nodeid_hex(&c->admit.peers.ids.p[i], hex));
    }
    sw_jw_array_end(w);
    sw_jw_put_array(w, "destinations");
    for (size_t i = 0; i < sw_min(c->admit.allow.entries.n, LISTED_MAX); i++) {
        sw_jw_object(w);
        sw_jw_put_str(w, "to", sw_allow_text(&a, &c->admit.allow.entries.p[i]));
        sw_jw_put_string(w, "from", c->admit.allow.entries.p[i].from);
        sw_jw_object_end(w);
    }
    sw_jw_array_end(w);
}

static void put_totals(struct sw_jw *w, const struct sw_connector *c)
{
    struct sw_qserve_stats s = {0};

    sw_qserve_stats(c->serve, &s);
    sw_jw_put_object(w, "exchanges");
    sw_jw_put_u64(w, "active", s.streams);
    sw_jw_put_u64(w, "accepted", s.accepted);
    sw_jw_put_u64(w, "denied", s.denied);
    sw_jw_put_u64(w, "failed", s.failed);
    sw_jw_put_u64(w, "completed", s.completed);
    sw_jw_put_u64(w, "malformed", s.malformed);
    sw_jw_put_u64(w, "bytesIn", s.bytes_in);
    sw_jw_put_u64(w, "bytesOut", s.bytes_out);
    sw_jw_put_u64(w, "originsReused", s.reused);
    sw_jw_put_u64(w, "originsStale", s.stale);
    sw_jw_object_end(w);
}

static int write_status(const struct sw_connector *c, struct sw_buf *out)
{
    const struct sw_json_write_opts pretty = {.indent = 2};
    const struct sw_kube_obj *o = sw_reg_connector(c->reg);
    struct sw_jw w;

    sw_jw_begin(&w, out, &pretty);
    sw_jw_object(&w);
    sw_jw_put_str(&w, "id", c->id);
    sw_jw_put_str(&w, "version", SW_VERSION);
    sw_jw_put_str(&w, "namespace", c->ns);
    sw_jw_put_string(&w, "connector", c->name ? sw_slice_str(c->name) : SW_SLICE_LIT(""));
    sw_jw_put_bool(&w, "live", sw_reg_live(c->reg));
    sw_jw_put_bool(&w, "draining", c->drain.draining);
    sw_jw_put_bool(&w, "open", c->config->open);
    put_time(&w, "started", c->started_ns);
    put_api(&w, c);
    sw_jw_name(&w, "conditions");
    if (o && sw_json_walk(o->json, "status", "conditions", NULL))
        sw_jw_value(&w, sw_json_walk(o->json, "status", "conditions", NULL));
    else
        sw_jw_null(&w);
    sw_jw_put_object(&w, "relay");
    sw_jw_put_str(&w, "url", c->home.url ? c->home.url : "");
    sw_jw_put_bool(&w, "up", c->home.up);
    sw_jw_object_end(&w);
    put_lists(&w, c);
    put_conns(&w, c);
    put_totals(&w, c);
    sw_jw_put_array(&w, "requests");
    for (size_t i = 0; i < sw_history_count(&c->history); i++)
        sw_request_json(&w, sw_history_at(&c->history, i));
    sw_jw_array_end(&w);
    sw_jw_object_end(&w);
    return sw_jw_end(&w) == SW_OK ? sw_buf_putc(out, '\n') : SW_ELIMIT;
}

/* ---- HTML ---- */

static void put_cell(struct sw_print *p, struct sw_slice s)
{
    sw_print_str(p, "<td>");
    sw_print_html(p, s);
    sw_print_str(p, "</td>");
}

static void put_row(struct sw_print *p, const char *what, const char *value)
{
    sw_print_fmt(p, "<tr><th>%s</th>", what);
    put_cell(p, sw_slice_str(value));
    sw_print_str(p, "</tr>\n");
}

static void put_summary(struct sw_print *p, const struct sw_connector *c)
{
    SW_ARENA_AUTO a = {0};

    sw_print_str(p, "<table>\n");
    put_row(p, "State",
            c->drain.draining       ? "draining"
            : c->config->standalone ? "standalone"
            : sw_reg_live(c->reg)   ? "online"
                                    : "offline");
    put_row(p, "NodeID", c->id);
    put_row(p, "Connector", sw_arena_printf(&a, "%s/%s", c->ns, c->name ? c->name : "?"));
    put_row(p, "API",
            sw_arena_printf(&a, "%s%s%s", c->api.up ? "answers" : "does not answer",
                            c->api.message[0] ? ": " : "", c->api.message));
    put_row(p, "Relay",
            !c->home.url ? "none"
                         : sw_arena_printf(&a, "%s (%s)", c->home.url,
                                           c->home.up ? "connected" : "not connected"));
    for (size_t i = 0; i < c->local.addrs.n; i++) {
        char text[SW_ADDR_TEXT];

        put_row(p, "Address", sw_addr_text(&c->local.addrs.a[i], text));
    }
    for (size_t i = 0; i < sw_min(c->admit.allow.entries.n, LISTED_MAX); i++)
        put_row(p, "Reaches", sw_allow_text(&a, &c->admit.allow.entries.p[i]));
    sw_print_str(p, "</table>\n");
}

static void put_gateways(struct sw_print *p, const struct sw_connector *c)
{
    sw_print_fmt(p, "<h2>Gateways connected: %zu</h2>\n<table>\n", c->n_conns);
    SW_LIST_EACH (struct conn, k, &c->conns, link) {
        struct sw_addr at = sw_qconn_addr(k->q);
        char text[SW_ADDR_TEXT];
        char hex[SW_NODEID_HEX];

        sw_print_fmt(p,
                     "<tr><td>%s</td><td>%s</td><td>%.1f ms</td><td>%zu open</td>"
                     "<td>%s</td></tr>\n",
                     sw_nodeid_hex(sw_qconn_peer(k->q), hex),
                     at.ip.family ? sw_addr_text(&at, text) : "through the relay",
                     (double)sw_qconn_rtt_ns(k->q) / 1e6, sw_qconn_streams(k->q),
                     sw_qconn_path_note(k->q));
    }
    sw_print_str(p, "</table>\n");
}

static void put_requests(struct sw_print *p, const struct sw_connector *c)
{
    sw_print_str(p, "<h2>Last requests</h2>\n<table>\n");
    for (size_t i = 0; i < sw_min(sw_history_count(&c->history), 50); i++) {
        const struct sw_inspect_request *r = sw_history_at(&c->history, i);
        char when[SW_RFC3339_LEN];

        sw_print_fmt(p, "<tr><td>%.8s</td>", sw_rfc3339(r->wall_ns, 0, when) + 11);
        put_cell(p, sw_slice_str(r->method[0] ? r->method : r->kind));
        put_cell(p, sw_slice_str(r->host));
        put_cell(p, sw_slice_str(r->note ? r->note : r->path));
        sw_print_fmt(p, "<td>%u</td><td>%.1f ms</td></tr>\n", r->status,
                     (double)r->duration_ns / 1e6);
    }
    sw_print_str(p, "</table>\n");
}

static int write_page(const struct sw_connector *c, struct sw_buf *b)
{
    struct sw_print p = {.to = b};

    sw_print_str(
        &p, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
            "<meta http-equiv=\"refresh\" content=\"2\"><title>spanwire connector</title>\n"
            "<style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}"
            "td,th{padding:.2em .8em;text-align:left;border-bottom:1px solid #ddd}</style></head>\n"
            "<body><h1>spanwire connector</h1>\n");
    put_summary(&p, c);
    put_gateways(&p, c);
    put_requests(&p, c);
    sw_print_str(&p, "<p><a href=\"status\">status</a> <a href=\"metrics\">metrics</a> "
                     "<a href=\"ready\">ready</a></p></body></html>\n");
    return p.rc;
}

bool connector_page(struct sw_http_req *req, struct sw_http_resp *resp, void *arg)
{
    struct sw_connector *c = arg;
    SW_BUF_AUTO body = {.max = PAGE_MAX};
    bool index = sw_slice_eq_str(req->path, "/");
    int rc;

    if (!index && !sw_slice_eq_str(req->path, "/status"))
        return false;
    if (!sw_http_only_get(req, resp))
        return true;
    rc = index ? write_page(c, &body) : write_status(c, &body);
    if (rc != SW_OK)
        sw_http_send_text(resp, 500, "page too large\n");
    else
        sw_http_send_buf(resp, 200, index ? "text/html; charset=utf-8" : "application/json", &body);
    return true;
}
