/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/expose/view.h"

#include <inttypes.h>
#include <string.h>

#include "base/time.h"

enum { LINE_MAX_OURS = 64 * 1024, PATH_WIDTH = 44 };

/* ---- JSON lines ---- */

struct event {
    struct sw_buf buf;
    struct sw_jw w;
};

static void begin(struct sw_expose_view *v, struct event *e, const char *name)
{
    sw_buf_init(&e->buf, LINE_MAX_OURS);
    sw_jw_begin(&e->w, &e->buf, NULL);
    sw_jw_object(&e->w);
    sw_jw_put_str(&e->w, "event", name);
    sw_jw_put_string(&e->w, "id", v->id);
}

/* Further names may follow, then the end of the array. */
static void begin_names(struct event *e, const struct sw_json *hostnames)
{
    sw_jw_put_array(&e->w, "hostnames");
    SW_JSON_ITEMS (it, hostnames)
        sw_jw_value(&e->w, it);
}

/* Whole lines, for whoever reads them as they come. */
static void SW_PRINTF(2, 3) say(const struct sw_expose_view *v, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vfprintf(v->out, fmt, ap);
    va_end(ap);
    (void)fflush(v->out);
}

static void end(struct sw_expose_view *v, struct event *e)
{
    sw_jw_object_end(&e->w);
    if (sw_jw_end(&e->w) == SW_OK)
        say(v, "%.*s\n", (int)sw_buf_len(&e->buf), sw_buf_data(&e->buf));
    sw_buf_done(&e->buf);
}

/* An event with one text more; key NULL: without. */
static void send_text(struct sw_expose_view *v, const char *event, const char *key,
                      struct sw_slice text)
{
    struct event e;

    begin(v, &e, event);
    if (key)
        sw_jw_put_string(&e.w, key, text);
    end(v, &e);
}

/* ---- what happens ---- */

void sw_view_begin(struct sw_expose_view *v, const char *target, const char *status_page)
{
    if (v->json)
        return;
    say(v, "Exposing %s as '%.*s' (status page %s)\n", target, SW_SLICE_ARG(v->id), status_page);
    if (v->inspector)
        say(v, "Requests in detail: %s\n", v->inspector);
}

void sw_view_objects(struct sw_expose_view *v, bool created, const char *target,
                     const struct sw_json *hostnames)
{
    struct event e;

    if (!v->json)
        return;
    begin(v, &e, created ? "tunnel_created" : "tunnel_updated");
    if (!created) {
        sw_jw_put_str(&e.w, "endpoint", target);
        begin_names(&e, hostnames);
        sw_jw_array_end(&e.w);
    }
    end(v, &e);
}

/* NULL: not shown. */
static const char *const step_texts[SW_EXPOSE_STEPS] = {
    [SW_EXPOSE_PROXY_ACCEPTED] = "the name is accepted",
    [SW_EXPOSE_CERTIFICATES_READY] = "certificates are there",
    [SW_EXPOSE_CONNECTOR_READY] = "this device is online",
    [SW_EXPOSE_DNS_PUBLISHED] = "this device can be found",
    [SW_EXPOSE_PROXY_PROGRAMMED] = "the gateways know the way",
};

void sw_view_progress(struct sw_expose_view *v, const struct sw_expose_state *s)
{
    for (size_t i = 0; i < SW_EXPOSE_STEPS; i++) {
        if (!s->done[i] || s->waived[i] || v->logged[i])
            continue;
        v->logged[i] = true;
        if (v->json) {
            struct event e;

            begin(v, &e, "tunnel_progress");
            sw_jw_put_str(&e.w, "step", sw_expose_step_name((enum sw_expose_step)i));
            sw_jw_put_str(&e.w, "status", "done");
            sw_jw_put_str(&e.w, "resource",
                          i == SW_EXPOSE_CONNECTOR_READY || i == SW_EXPOSE_DNS_PUBLISHED
                              ? "Connector"
                              : "HTTPProxy");
            end(v, &e);
        } else if (step_texts[i]) {
            say(v, "  %s\n", step_texts[i]);
        }
    }
    if (!v->json && s->waiting.n && !sw_slice_eq_str(sw_slice_head(s->waiting, 199), v->waiting)) {
        sw_request_text(v->waiting, sizeof(v->waiting), s->waiting);
        say(v, "  ... %s\n", v->waiting);
    }
}

void sw_view_ready(struct sw_expose_view *v, const struct sw_json *proxy, const char *url,
                   const char *target, const char *node_id, uint64_t elapsed_ns)
{
    const struct sw_json *names = sw_json_walk(proxy, "spec", "hostnames", NULL);
    uint64_t elapsed_ms = elapsed_ns / SW_NS_PER_MS;
    struct event e;
    char name[300]; /* URL or hostname */

    if (!v->json) {
        sw_request_text(name, sizeof(name), sw_slice_str(url));
        say(v, "\n%s  ->  %s\n", name, target);
        for (size_t i = 1; i < sw_json_len(names); i++) {
            sw_request_text(name, sizeof(name), sw_json_str(sw_json_at(names, i)));
            say(v, "  and as %s\n", name);
        }
        say(v, "\n");
        return;
    }
    begin(v, &e, "tunnel_ready");
    sw_jw_put_string(&e.w, "label",
                     sw_json_str(sw_json_walk(proxy, "metadata", "annotations",
                                              "app.kubernetes.io/name", NULL)));
    sw_jw_put_str(&e.w, "endpoint", target);
    sw_jw_put_str(&e.w, "url", url);
    begin_names(&e, names);
    if (sw_json_walk(proxy, "status", "canonicalHostname", NULL))
        sw_jw_value(&e.w, sw_json_walk(proxy, "status", "canonicalHostname", NULL));
    sw_jw_array_end(&e.w);
    sw_jw_put_str(&e.w, "endpoint_id", node_id);
    if (v->inspector)
        sw_jw_put_str(&e.w, "inspector", v->inspector);
    sw_jw_put_str(&e.w, "status", "ready");
    sw_jw_name(&e.w, "elapsed_secs");
    sw_jw_double(&e.w, (double)elapsed_ms / 1000.0);
    end(v, &e);
}

void sw_view_verify(struct sw_expose_view *v, const char *url, bool done, const char *why)
{
    char shown[200];

    if (!v->json && why) {
        sw_request_text(shown, sizeof(shown), sw_slice_str(why));
        say(v, "Not verified from here: %s\n", shown);
    } else if (v->json && !why) {
        send_text(v, done ? "tunnel_verified" : "tunnel_verifying", "url", sw_slice_str(url));
    }
}

void sw_view_no_origin(struct sw_expose_view *v, const char *target)
{
    if (v->no_origin)
        return;
    v->no_origin = true;
    if (v->json)
        send_text(v, "tunnel_origin_unreachable", "endpoint", sw_slice_str(target));
    else
        say(v, "Nothing answers at %s: visitors get an error until something does\n", target);
}

void sw_view_origin_answers(struct sw_expose_view *v, const char *target)
{
    if (v->no_origin && !v->json) /* tunnel_verified follows there */
        say(v, "%s answers now\n", target);
    v->no_origin = false;
}

void sw_view_origin_tls(struct sw_expose_view *v, const char *target, const char *why)
{
    char now[sizeof(v->tls)];
    struct event e;

    sw_request_text(now, sizeof(now), sw_slice_str(why ? why : ""));
    if (strcmp(now, v->tls) == 0)
        return;
    memcpy(v->tls, now, sizeof(now));
    if (!v->json) {
        say(v,
            now[0] ? "TLS with %s fails, visitors get an error: %s\n" : "TLS with %s works now%s\n",
            target, now);
        return;
    }
    begin(v, &e, now[0] ? "tunnel_origin_tls_failed" : "tunnel_origin_tls_ok");
    sw_jw_put_str(&e.w, "endpoint", target);
    if (now[0])
        sw_jw_put_str(&e.w, "message", now);
    end(v, &e);
}

void sw_view_trouble(struct sw_expose_view *v, struct sw_slice message)
{
    char now[sizeof(v->trouble)];

    sw_request_text(now, sizeof(now), message);
    if (strcmp(now, v->trouble) == 0)
        return;
    memcpy(v->trouble, now, sizeof(now));
    if (v->json)
        send_text(v, now[0] ? "tunnel_degraded" : "tunnel_recovered", now[0] ? "message" : NULL,
                  sw_slice_str(now));
    else
        say(v, now[0] ? "Degraded, still serving: %s\n" : "No longer degraded%s\n", now);
}

static const char *colour_of(const struct sw_expose_view *v, unsigned status)
{
    if (!v->colour)
        return "";
    if (status >= 500 || status == 0)
        return "\033[31m";
    return status >= 400 ? "\033[33m" : "\033[32m";
}

void sw_view_request(struct sw_expose_view *v, const struct sw_inspect_request *r)
{
    char when[SW_RFC3339_LEN];

    if (v->json) {
        struct event e;

        begin(v, &e, "request");
        sw_jw_name(&e.w, "request");
        sw_request_json(&e.w, r);
        end(v, &e);
        return;
    }
    if (strcmp(r->kind, "tcp") == 0 && !r->reason && !r->path[0]) {
        say(v, "%.8s  %-7s %-*s %" PRIu64 " bytes in, %" PRIu64 " out %9.1f ms%s%s\n",
            sw_rfc3339(r->wall_ns, 0, when) + 11, "TCP", PATH_WIDTH, r->host, r->bytes_in,
            r->bytes_out, (double)r->duration_ns / 1e6, r->note ? "  " : "",
            r->note ? r->note : "");
        return;
    }
    (void)fprintf(v->out, "%.8s  %-7s %-*s %s%3u%s %9.1f ms", sw_rfc3339(r->wall_ns, 0, when) + 11,
                  r->method[0] ? r->method : r->kind, PATH_WIDTH, r->path[0] ? r->path : r->host,
                  colour_of(v, r->status), r->status, v->colour ? "\033[0m" : "",
                  (double)r->duration_ns / 1e6);
    if (r->reason)
        (void)fprintf(v->out, "  %s%s%s%s%s", r->reason, r->target[0] ? " " : "", r->target,
                      r->id[0] ? "  id " : "", r->id);
    say(v, "\n");
}

void sw_view_api(struct sw_expose_view *v, bool up, int code, struct sw_slice message)
{
    char shown[300];

    if (!v->json) {
        sw_request_text(shown, sizeof(shown), message);
        say(v, up ? "The API answers again\n" : "The API does not answer (%d): %s\n", code, shown);
    } else if (!up && (code == 401 || code == 403)) {
        send_text(v, "tunnel_login_lost", "message", message);
    }
}

void sw_view_failure(struct sw_expose_view *v, const char *event, struct sw_slice message)
{
    if (v->json) /* otherwise standard error has it */
        send_text(v, event, "message", message);
}

static void put_resource(struct event *e, const char *type, struct sw_slice name)
{
    if (!name.n)
        return;
    sw_jw_object(&e->w);
    sw_jw_put_str(&e->w, "type", type);
    sw_jw_put_string(&e->w, "name", name);
    sw_jw_object_end(&e->w);
}

void sw_view_removed(struct sw_expose_view *v, struct sw_slice connector)
{
    struct event e;

    if (!v->json) {
        say(v, "'%.*s' is removed\n", SW_SLICE_ARG(v->id));
        return;
    }
    begin(v, &e, "tunnel_deleted");
    sw_jw_put_bool(&e.w, "deleted", true);
    sw_jw_put_array(&e.w, "resources");
    put_resource(&e, "HTTPProxy", v->id);
    put_resource(&e, "ConnectorAdvertisement", v->id);
    put_resource(&e, "Connector", connector);
    sw_jw_array_end(&e.w);
    end(v, &e);
}

void sw_view_stopped(struct sw_expose_view *v, const char *url)
{
    bool http = url && strncmp(url, "http", 4) == 0;
    char shown[300];

    if (v->json || !url)
        return;
    sw_request_text(shown, sizeof(shown), sw_slice_str(url));
    say(v,
        "\nStopped. %s stays reserved and %s; the same command takes it up again, --rm "
        "gives it away.\n",
        shown, http ? "answers 503" : "closes connections");
}
