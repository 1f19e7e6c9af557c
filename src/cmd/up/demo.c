/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/up/demo.h"

#include "base/json.h"
#include "base/mem.h"
#include "http/server.h"

struct sw_demo_app {
    struct sw_http_server *http;
    enum sw_demo_place place;
    uint64_t visits;
};

#define PAGE(title, way)                                                                           \
    "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\n"                        \
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"                   \
    "<title>Spanwire demo</title>\n"                                                               \
    "<style>body{font:1.05rem/1.5 system-ui,sans-serif;max-width:42rem;margin:4rem auto;"          \
    "padding:0 1rem;color:#1b1f24}code{background:#f0f2f4;padding:.1em .3em;border-radius:.2em}"   \
    "@media(prefers-color-scheme:dark){body{background:#14171a;color:#e6e8ea}"                     \
    "code{background:#24292e}}</style></head>\n"                                                   \
    "<body><h1>" title "</h1>\n<p>" way "</p>\n"                                                   \
    "<p id=\"visits\">Asking <code>/api/hello</code> ...</p>\n"                                    \
    "<script>fetch('/api/hello').then(r=>r.json()).then(j=>{document.getElementById('visits')"     \
    ".textContent='Visit '+j.visits+', asked for as '+j.host})</script>\n</body></html>\n"

static const struct {
    const char *page;
    const char *hello;
} places[] = {
    [SW_DEMO_DEVICE] =
        {PAGE("Hello from a device",
              "This page is served by a program on a loopback port of this machine. Your request "
              "went to the gateway, from there through a CONNECT tunnel in one QUIC stream to the "
              "connector that owns the key <em>behind</em> this hostname, and only then to the "
              "program."),
         "from the device"},
    [SW_DEMO_SITE] =
        {PAGE("Hello from the second site",
              "This page is served by a program that another site exports. Your request went to "
              "the gateway of the first site and from there to its link, which carried it through "
              "a CONNECT tunnel with mutual TLS to the link of the second site. The control planes "
              "of <em>both</em> sites allowed the connection."),
         "from the second site"},
};

static void answer_hello(struct sw_demo_app *a, struct sw_http_req *req, struct sw_http_resp *resp)
{
    const struct sw_slice *host = sw_h1_field(req->msg, "host");
    struct sw_json *o = sw_json_new_object(req->arena);
    SW_BUF_AUTO out = {.max = (size_t)64 * 1024};

    sw_json_put_str(req->arena, o, "hello", sw_slice_str(places[a->place].hello));
    sw_json_put_str(req->arena, o, "host", host ? *host : SW_SLICE_LIT(""));
    sw_json_put(req->arena, o, "visits", sw_json_new_u64(req->arena, a->visits));
    if (sw_json_write(&out, o, NULL) == SW_OK)
        sw_http_send_buf(resp, 200, "application/json", &out);
    else
        sw_http_send_text(resp, 500, "The answer is too long.\n");
}

static void answer(struct sw_http_req *req, struct sw_http_resp *resp, void *arg)
{
    struct sw_demo_app *a = arg;

    if (!sw_http_only_get(req, resp))
        return;
    if (sw_slice_eq(req->path, SW_SLICE_LIT("/api/hello"))) {
        a->visits++;
        answer_hello(a, req, resp);
    } else if (sw_slice_eq(req->path, SW_SLICE_LIT("/"))) {
        sw_http_send(resp, 200, "text/html; charset=utf-8", sw_slice_str(places[a->place].page));
    } else {
        sw_http_send_text(resp, 404, "There is nothing here. Try / or /api/hello.\n");
    }
}

struct sw_demo_app *sw_demo_app_new(struct sw_loop *l, enum sw_demo_place place, struct sw_err *err)
{
    struct sw_addr any = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct sw_demo_app *a = SW_NEW(struct sw_demo_app);

    a->place = place;
    a->http = sw_http_server_new(
        l, &(struct sw_http_server_opts){.scope = "demo", .handler = answer, .arg = a});
    if (!a->http || sw_http_server_listen(a->http, &any, err) != SW_OK) {
        sw_demo_app_free(a);
        return NULL;
    }
    return a;
}

struct sw_addr sw_demo_app_addr(const struct sw_demo_app *a)
{
    return sw_http_server_addr(a->http, 0);
}

void sw_demo_app_free(struct sw_demo_app *a)
{
    if (!a)
        return;
    sw_http_server_free(a->http);
    sw_free(a);
}
