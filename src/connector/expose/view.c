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
    sw_jw_name(&e->w, "event");
    sw_jw_str(&e->w, name);
    sw_jw_name(&e->w, "id");
    sw_jw_string(&e->w, v->id);
}

static void put_names(struct event *e, const struct sw_json *hostnames)
{
    sw_jw_name(&e->w, "hostnames");
    if (sw_json_len(hostnames)) {
        sw_jw_value(&e->w, hostnames);
    } else {
        sw_jw_array(&e->w);
        sw_jw_array_end(&e->w);
    }
}

static void end(struct sw_expose_view *v, struct event *e)
{
    sw_jw_object_end(&e->w);
    if (sw_jw_end(&e->w) == SW_OK)
        (void)fprintf(v->out, "%.*s\n", (int)sw_buf_len(&e->buf), sw_buf_data(&e->buf));
    (void)fflush(v->out);
    sw_buf_done(&e->buf);
}

/* ---- what happens ---- */

void sw_view_begin(struct sw_expose_view *v, const char *target, const char *status_page)
{
    if (v->json)
        return;
    (void)fprintf(v->out, "Exposing %s as '%.*s' (status page %s)\n", target, SW_SLICE_ARG(v->id),
                  status_page);
    if (v->inspector)
        (void)fprintf(v->out, "Requests in detail: %s\n", v->inspector);
    (void)fflush(v->out);
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
        put_names(&e, hostnames);
    }
    end(v, &e);
}

static const char *step_text(enum sw_expose_step s)
{
    switch (s) {
    case SW_EXPOSE_PROXY_ACCEPTED:
        return "the name is accepted";
    case SW_EXPOSE_CERTIFICATES_READY:
        return "certificates are there";
    case SW_EXPOSE_CONNECTOR_READY:
        return "this device is online";
    case SW_EXPOSE_DNS_PUBLISHED:
        return "this device can be found";
    case SW_EXPOSE_PROXY_PROGRAMMED:
        return "the gateways know the way";
    case SW_EXPOSE_METADATA_PROGRAMMED:
    case SW_EXPOSE_STEPS:
        break;
    }
    return NULL;
}

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
        } else if (step_text((enum sw_expose_step)i)) {
            (void)fprintf(v->out, "  %s\n", step_text((enum sw_expose_step)i));
        }
    }
    if (!v->json && s->waiting.n && !sw_slice_eq_str(sw_slice_head(s->waiting, 199), v->waiting)) {
        sw_request_text(v->waiting, sizeof(v->waiting), s->waiting);
        (void)fprintf(v->out, "  ... %s\n", v->waiting);
    }
    (void)fflush(v->out);
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
        (void)fprintf(v->out, "\n%s  ->  %s\n", name, target);
        for (size_t i = 1; i < sw_json_len(names); i++) {
            sw_request_text(name, sizeof(name), sw_json_str(sw_json_at(names, i)));
            (void)fprintf(v->out, "  and as %s\n", name);
        }
        (void)fputc('\n', v->out);
        (void)fflush(v->out);
        return;
    }
    begin(v, &e, "tunnel_ready");
    sw_jw_name(&e.w, "label");
    sw_jw_string(&e.w, sw_json_str(sw_json_walk(proxy, "metadata", "annotations",
                                                "app.kubernetes.io/name", NULL)));
    sw_jw_put_str(&e.w, "endpoint", target);
    sw_jw_put_str(&e.w, "url", url);
    sw_jw_name(&e.w, "hostnames");
    sw_jw_array(&e.w);
    for (size_t i = 0; i < sw_json_len(names); i++)
        sw_jw_value(&e.w, sw_json_at(names, i));
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
    struct event e;
    char shown[200];

    if (!v->json) {
        if (why) {
            sw_request_text(shown, sizeof(shown), sw_slice_str(why));
            (void)fprintf(v->out, "Not verified from here: %s\n", shown);
        }
        (void)fflush(v->out);
        return;
    }
    if (why)
        return;
    begin(v, &e, done ? "tunnel_verified" : "tunnel_verifying");
    sw_jw_put_str(&e.w, "url", url);
    end(v, &e);
}

void sw_view_no_origin(struct sw_expose_view *v, const char *target)
{
    struct event e;

    if (v->no_origin)
        return;
    v->no_origin = true;
    if (!v->json) {
        (void)fprintf(v->out, "Nothing answers at %s: visitors get an error until something does\n",
                      target);
        (void)fflush(v->out);
        return;
    }
    begin(v, &e, "tunnel_origin_unreachable");
    sw_jw_put_str(&e.w, "endpoint", target);
    end(v, &e);
}

void sw_view_origin_answers(struct sw_expose_view *v, const char *target)
{
    if (v->no_origin && !v->json) { /* tunnel_verified follows there */
        (void)fprintf(v->out, "%s answers now\n", target);
        (void)fflush(v->out);
    }
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
        (void)fprintf(v->out,
                      now[0] ? "TLS with %s fails, visitors get an error: %s\n"
                             : "TLS with %s works now%s\n",
                      target, now);
        (void)fflush(v->out);
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
    struct event e;

    sw_request_text(now, sizeof(now), message);
    if (strcmp(now, v->trouble) == 0)
        return;
    memcpy(v->trouble, now, sizeof(now));
    if (!v->json) {
        (void)fprintf(v->out, now[0] ? "Degraded, still serving: %s\n" : "No longer degraded%s\n",
                      now);
        (void)fflush(v->out);
        return;
    }
    begin(v, &e, now[0] ? "tunnel_degraded" : "tunnel_recovered");
    if (now[0])
        sw_jw_put_str(&e.w, "message", now);
    end(v, &e);
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
        (void)fprintf(v->out,
                      "%.8s  %-7s %-*s %" PRIu64 " bytes in, %" PRIu64 " out %9.1f ms%s%s\n",
                      sw_rfc3339(r->wall_ns, 0, when) + 11, "TCP", PATH_WIDTH, r->host, r->bytes_in,
                      r->bytes_out, (double)r->duration_ns / 1e6, r->note ? "  " : "",
                      r->note ? r->note : "");
        (void)fflush(v->out);
        return;
    }
    (void)fprintf(v->out, "%.8s  %-7s %-*s %s%3u%s %9.1f ms", sw_rfc3339(r->wall_ns, 0, when) + 11,
                  r->method[0] ? r->method : r->kind, PATH_WIDTH, r->path[0] ? r->path : r->host,
                  colour_of(v, r->status), r->status, v->colour ? "\033[0m" : "",
                  (double)r->duration_ns / 1e6);
    if (r->reason)
        (void)fprintf(v->out, "  %s%s%s%s%s", r->reason, r->target[0] ? " " : "", r->target,
                      r->id[0] ? "  id " : "", r->id);
    (void)fputc('\n', v->out);
    (void)fflush(v->out);
}

void sw_view_api(struct sw_expose_view *v, bool up, int code, struct sw_slice message)
{
    struct event e;
    char shown[300];

    if (!v->json) {
        sw_request_text(shown, sizeof(shown), message);
        (void)fprintf(v->out, up ? "The API answers again\n" : "The API does not answer (%d): %s\n",
                      code, shown);
        (void)fflush(v->out);
        return;
    }
    if (up || (code != 401 && code != 403))
        return;
    begin(v, &e, "tunnel_login_lost");
    sw_jw_name(&e.w, "message");
    sw_jw_string(&e.w, message);
    end(v, &e);
}

void sw_view_failure(struct sw_expose_view *v, const char *event, struct sw_slice message)
{
    struct event e;

    if (!v->json)
        return; /* standard error has it */
    begin(v, &e, event);
    sw_jw_name(&e.w, "message");
    sw_jw_string(&e.w, message);
    end(v, &e);
}

static void put_resource(struct event *e, const char *type, struct sw_slice name)
{
    if (!name.n)
        return;
    sw_jw_object(&e->w);
    sw_jw_put_str(&e->w, "type", type);
    sw_jw_name(&e->w, "name");
    sw_jw_string(&e->w, name);
    sw_jw_object_end(&e->w);
}

void sw_view_removed(struct sw_expose_view *v, struct sw_slice connector)
{
    struct event e;

    if (!v->json) {
        (void)fprintf(v->out, "'%.*s' is removed\n", SW_SLICE_ARG(v->id));
        (void)fflush(v->out);
        return;
    }
    begin(v, &e, "tunnel_deleted");
    sw_jw_name(&e.w, "deleted");
    sw_jw_bool(&e.w, true);
    sw_jw_name(&e.w, "resources");
    sw_jw_array(&e.w);
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
    (void)fprintf(v->out,
                  "\nStopped. %s stays reserved and %s; the same command takes it up again, --rm "
                  "gives it away.\n",
                  shown, http ? "answers 503" : "closes connections");
    (void)fflush(v->out);
}
