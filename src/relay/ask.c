/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access by question: a POST to a URL with the id in a field; only 200 with the body "true" lets
 * the client in. Anything else, silence included, keeps it out.
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/time.h"
#include "http/bearer.h"
#include "http/client.h"
#include "http/grammar.h"
#include "quic/id/nodeid.h"
#include "relay/relay_int.h"
#include "tls/cert/cred.h"

enum { ANSWER_MAX = 16, TIMEOUT_S = 10 };

static const char bundle[] = "/etc/ssl/certs/ca-certificates.crt";

struct relay_ask {
    struct relay_client *client;
    struct sw_http_call *call;
    int status;
    size_t n;
    char answer[ANSWER_MAX];
};

/* "http[s]://host[:port]/target": the target is left in *ret_target. */
static int parse_url(struct sw_slice url, struct sw_http_client_opts *o,
                     struct sw_slice *ret_target, struct sw_err *err)
{
    struct sw_slice rest;
    size_t n = 0;
    uint64_t port;
    ptrdiff_t colon;

    o->tls = sw_slice_has_prefix(url, SW_SLICE_LIT("https://"));
    if (!o->tls && !sw_slice_has_prefix(url, SW_SLICE_LIT("http://")))
        return sw_err_set(err, SW_EINVAL, "--access-url is neither http nor https");
    rest = sw_slice_from(url, o->tls ? 8 : 7);
    while (n < rest.n && rest.p[n] != '/')
        n++;
    *ret_target = n < rest.n ? sw_slice_from(rest, n) : SW_SLICE_LIT("/");
    rest = sw_slice_head(rest, n);
    port = o->tls ? 443 : 80;
    colon = sw_slice_rfind(rest, ':');
    if (!sw_http_host_valid(rest) || rest.p[0] == '[' ||
        (colon >= 0 && !sw_slice_to_u64(sw_slice_from(rest, (size_t)colon + 1), 65535, &port)))
        return sw_err_set(err, SW_EINVAL, "--access-url without a valid host");
    o->host = colon >= 0 ? sw_slice_head(rest, (size_t)colon) : rest;
    o->port = (uint16_t)port;
    return SW_OK;
}

/* The value of the field Authorization, read each time: tokens change. Without a path: nothing. */
static int read_token(const char *path, struct sw_slice *ret, struct sw_err *err)
{
    struct sw_slice token = {0};
    int rc = path ? sw_bearer_read(path, &token, err) : SW_OK;

    if (rc != SW_OK)
        return sw_err_prefix(err, "--access-token-file");
    if (path)
        *ret = sw_slice_str(sw_asprintf("Bearer %.*s", SW_SLICE_ARG(token)));
    sw_slice_free_secret(&token);
    return SW_OK;
}

static int check_token(const char *path, struct sw_err *err)
{
    struct sw_slice token = {0};
    int rc = read_token(path, &token, err);

    sw_slice_free_secret(&token);
    return rc;
}

int relay_ask_open(struct relay_worker *w, struct sw_err *err)
{
    struct sw_http_client_opts o = {.scope = "relay"};
    struct sw_slice target;
    struct sw_slice pem = {0};
    int rc = parse_url(sw_slice_str(w->relay->config->access_url), &o, &target, err);

    if (rc == SW_OK && o.tls) {
        rc = sw_file_read(bundle, SW_TLS_PEM_MAX, &pem, err);
        if (rc == SW_OK)
            o.cred =
                sw_tls_cred_new(&(struct sw_tls_cred_pem){.roots = pem, .any_identity = true}, err);
        sw_slice_free(&pem);
        if (rc == SW_OK && !o.cred)
            rc = err->rc;
    }
    if (rc != SW_OK)
        return rc;
    w->asker = sw_http_client_new(w->loop, &o, err);
    (void)sw_tls_cred_unref(o.cred);
    return w->asker ? check_token(w->relay->config->access_token_file, err) : err->rc;
}

static void on_head(struct sw_http_call *call, const struct sw_h1_msg *msg, void *arg)
{
    struct relay_ask *a = arg;

    a->status = msg->status;
}

static void on_body(struct sw_http_call *call, struct sw_slice data, void *arg)
{
    struct relay_ask *a = arg;
    size_t n = sw_min(data.n, sizeof(a->answer) - a->n);

    memcpy(a->answer + a->n, data.p, n);
    a->n += n;
}

static void on_done(struct sw_http_call *call, int rc, const struct sw_err *err, void *arg)
{
    struct relay_ask *a = arg;
    struct relay_client *c = a->client;
    bool yes = rc == SW_OK && a->status == 200 && a->n == 4 && memcmp(a->answer, "true", 4) == 0;
    char why[160];

    if (rc != SW_OK)
        (void)snprintf(why, sizeof(why), "--access-url: %.120s", err ? err->msg : "no answer");
    else
        (void)snprintf(why, sizeof(why), "--access-url: answer %d%s", a->status,
                       a->status == 200 ? " without 'true'" : "");
    c->setup->ask = NULL;
    sw_free(a);
    if (yes)
        relay_client_admitted(c);
    else
        relay_client_denied(c, RELAY_UNAUTHORIZED, why);
}

void relay_ask(struct relay_client *c)
{
    const struct sw_relay_config *cfg = c->worker->relay->config;
    struct sw_err err = {0};
    struct sw_slice token = {0};
    char id[SW_NODEID_HEX];
    /* iroh's relay sends the second, its manual promises the first. */
    struct sw_h1_field fields[3] = {
        {SW_SLICE_LIT("X-Iroh-Endpoint-Id"), sw_slice_str(sw_nodeid_hex(&c->setup->id, id))},
        {SW_SLICE_LIT("X-Iroh-NodeId"), sw_slice_str(id)},
        {SW_SLICE_LIT("Authorization"), {0}},
    };
    struct relay_ask *a = SW_NEW(struct relay_ask);
    struct sw_http_client_opts parts = {0};
    struct sw_http_call_opts o = {
        .method = SW_SLICE_LIT("POST"),
        .fields = fields,
        .has_body = true,
        .timeout_ns = TIMEOUT_S * SW_NS_PER_S,
        .body_max = 4096,
        .on_head = on_head,
        .on_body = on_body,
        .on_done = on_done,
        .arg = a,
    };

    a->client = c;
    if (read_token(cfg->access_token_file, &token, &err) == SW_OK &&
        parse_url(sw_slice_str(cfg->access_url), &parts, &o.target, &err) == SW_OK) {
        fields[2].value = token;
        o.nfields = token.n ? 3 : 2;
        a->call = sw_http_call_start(c->worker->asker, &o, &err);
    }
    sw_slice_free_secret(&token);
    if (!a->call) {
        sw_free(a);
        relay_client_denied(c, RELAY_UNAUTHORIZED, err.msg);
        return;
    }
    c->setup->ask = a;
}

void relay_ask_cancel(struct relay_ask *a)
{
    if (!a)
        return;
    sw_http_call_cancel(a->call);
    sw_free(a);
}
