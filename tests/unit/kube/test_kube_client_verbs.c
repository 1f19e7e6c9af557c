/* SPDX-License-Identifier: Apache-2.0 */
/* Requests as the server sees them, and answers as callers see them. */
#include "base/log.h"
#include "tls/cert/ca.h"
#include "tls/crypto/aead.h"

#include "test_kube_client.h"

static const struct sw_kube_gvr cm = {"", "v1", "configmaps", "ConfigMap", true};
static const struct sw_kube_gvr route = {"gateway.networking.k8s.io", "v1", "httproutes",
                                         "HTTPRoute", true};
static const struct sw_kube_gvr crd = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                       "CustomResourceDefinition", false};

struct world {
    struct bench b;
    struct {
        int status;
        const char *extra;
        const char *body;
        bool drop; /* close instead */
    } answers[16];
    int n; /* the last one is repeated */
    int at;
    char *method;
    char *target;
    char *body;
    char *head;
    int done;
    int rc;
    int code;
    char reason[64];
    char message[256];
    int64_t value; /* .x of the object */
};

static void on_request(struct fake_conn *c, void *arg)
{
    struct world *w = arg;
    int k = w->at < w->n ? w->at++ : w->n - 1;

    sw_free(w->method);
    sw_free(w->target);
    sw_free(w->body);
    sw_free(w->head);
    w->method = sw_strdup(c->method);
    w->target = sw_strdup(c->target);
    w->body = sw_strdup(c->body);
    w->head = sw_strdup(c->head);
    if (w->answers[k].drop)
        fake_conn_free(c);
    else if (w->answers[k].status)
        fake_reply(c, w->answers[k].status, w->answers[k].extra, w->answers[k].body);
}

static void on_reply(void *arg, struct sw_kube_reply *r)
{
    struct world *w = arg;

    w->done++;
    w->rc = r->rc;
    w->code = r->code;
    (void)snprintf(w->reason, sizeof(w->reason), "%.*s", SW_SLICE_ARG(r->reason));
    (void)snprintf(w->message, sizeof(w->message), "%.*s", SW_SLICE_ARG(r->message));
    w->value = -1;
    (void)!sw_json_i64(sw_json_find(r->object, "x"), &w->value);
}

static int set_up(void **state)
{
    struct world *w = SW_NEW(struct world);

    bench_open(&w->b, on_request, w);
    w->answers[0].status = 200;
    w->answers[0].body = "{\"x\":1}";
    w->n = 1;
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    bench_close(&w->b);
    sw_free(w->method);
    sw_free(w->target);
    sw_free(w->body);
    sw_free(w->head);
    sw_free(w);
    return 0;
}

static struct sw_json *json(struct sw_arena *a, const char *text)
{
    struct sw_json *v = NULL;

    assert_int_equal(sw_json_parse(a, sw_slice_str(text), NULL, &v, NULL), SW_OK);
    return v;
}

static void finish(struct world *w)
{
    int before = w->done;

    bench_until(&w->b, w->done > before);
}

static void ask(struct world *w, const struct sw_kube_req *req)
{
    w->at = 0;
    (void)sw_kube_do(w->b.client, req, on_reply, w);
    finish(w);
}

static void requests_in_words(void **state)
{
    struct world *w = *state;
    SW_ARENA_AUTO a = {0};
    struct sw_json *obj = json(&a, "{\"metadata\":{\"namespace\":\"n\",\"name\":\"x\","
                                   "\"resourceVersion\":\"7\"},\"k\":1}");
    struct sw_json *st = json(&a, "{\"ok\":true}");
    const struct sw_kube_req list = {.verb = SW_KUBE_LIST,
                                     .gvr = &route,
                                     .label_selector = "a in (b,c)",
                                     .field_selector = "metadata.name=x",
                                     .limit = 5,
                                     .resource_version = SW_SLICE_LIT("9")};
    const struct sw_kube_req del = {.verb = SW_KUBE_DELETE,
                                    .gvr = &crd,
                                    .name = SW_SLICE_LIT("a.b"),
                                    .propagation = "Foreground",
                                    .if_uid = SW_SLICE_LIT("u")};
    const struct sw_kube_req patch = {.verb = SW_KUBE_PATCH,
                                      .patch = SW_KUBE_PATCH_JSON,
                                      .gvr = &route,
                                      .ns = SW_SLICE_LIT("n"),
                                      .name = SW_SLICE_LIT("x"),
                                      .sub = "status",
                                      .body = json(&a, "[]"),
                                      .dry_run = true};
    const struct sw_kube_req version = {.path = "/version"};

    (void)sw_kube_get(w->b.client, &cm, SW_SLICE_LIT("n"), SW_SLICE_LIT("x"), on_reply, w);
    finish(w);
    assert_int_equal(w->rc, SW_OK);
    assert_int_equal(w->value, 1);
    assert_string_equal(w->method, "GET");
    assert_string_equal(w->target, "/base/api/v1/namespaces/n/configmaps/x");
    assert_non_null(strstr(w->head, "\r\nUser-Agent: spanwire/"));
    assert_non_null(strstr(w->head, "\r\nAccept: application/json\r\n"));
    assert_null(strstr(w->head, "Content-"));
    ask(w, &list);
    assert_string_equal(w->target,
                        "/base/apis/gateway.networking.k8s.io/v1/httproutes?"
                        "labelSelector=a%20in%20%28b%2Cc%29&fieldSelector=metadata.name%3Dx&"
                        "limit=5&resourceVersion=9");
    (void)sw_kube_create(w->b.client, &cm, obj, on_reply, w);
    finish(w);
    assert_string_equal(w->method, "POST");
    assert_string_equal(w->target, "/base/api/v1/namespaces/n/configmaps");
    assert_non_null(strstr(w->head, "Content-Type: application/json"));
    (void)sw_kube_update(w->b.client, &cm, obj, NULL, on_reply, w);
    finish(w);
    assert_string_equal(w->method, "PUT");
    assert_string_equal(w->target, "/base/api/v1/namespaces/n/configmaps/x");
    (void)sw_kube_apply(
        w->b.client,
        &(struct sw_kube_apply){
            .gvr = &cm, .obj = obj, .sub = "status", .manager = "me", .force = true},
        on_reply, w);
    finish(w);
    assert_string_equal(w->method, "PATCH");
    assert_string_equal(w->target,
                        "/base/api/v1/namespaces/n/configmaps/x/status?fieldManager=me&force=true");
    assert_non_null(strstr(w->head, "Content-Type: application/apply-patch+yaml"));
    (void)sw_kube_patch_status(
        w->b.client,
        &(struct sw_kube_status_patch){.gvr = &route, .seen = obj, .status = st, .manager = "me"},
        on_reply, w);
    finish(w);
    assert_string_equal(w->body,
                        "{\"metadata\":{\"resourceVersion\":\"7\"},\"status\":{\"ok\":true}}");
    assert_non_null(strstr(w->head, "Content-Type: application/merge-patch+json"));
    ask(w, &del);
    assert_string_equal(w->method, "DELETE");
    assert_string_equal(w->body, "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\","
                                 "\"propagationPolicy\":\"Foreground\",\"preconditions\":{"
                                 "\"uid\":\"u\"}}");
    ask(w, &patch);
    assert_non_null(strstr(w->target, "/httproutes/x/status?dryRun=All"));
    assert_non_null(strstr(w->head, "application/json-patch+json"));
    ask(w, &version);
    assert_string_equal(w->target, "/base/version");
}

static void names_cannot_leave_their_place(void **state)
{
    static const char *const names[] = {"", ".", "..", "a/b"};
    struct world *w = *state;

    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        w->b.server.requests = 0;
        (void)sw_kube_get(w->b.client, &cm, SW_SLICE_LIT("n"), sw_slice_str(names[i]), on_reply, w);
        finish(w);
        assert_int_equal(w->rc, SW_EINVAL);
        assert_int_equal(w->code, 0);
        assert_int_equal(w->b.server.requests, 0);
    }
    (void)sw_kube_get(w->b.client, &cm, SW_SLICE_LIT("n"), SW_SLICE_LIT("a?b#c%\n"), on_reply, w);
    finish(w);
    assert_string_equal(w->target, "/base/api/v1/namespaces/n/configmaps/a%3Fb%23c%25%0A");
    /* Without a namespace one would list or delete all. */
    (void)sw_kube_get(w->b.client, &cm, SW_SLICE_LIT(""), SW_SLICE_LIT("x"), on_reply, w);
    finish(w);
    assert_int_equal(w->rc, SW_EINVAL);
}

static void errors_are_decoded(void **state)
{
    static const struct {
        int status;
        const char *body;
        int rc;
        const char *reason;
        const char *message;
    } cases[] = {
        {409,
         "{\"kind\":\"Status\",\"status\":\"Failure\",\"message\":\"modified\","
         "\"reason\":\"Conflict\",\"code\":409}",
         SW_EINVAL, "Conflict", "modified"},
        {404, "{\"kind\":\"Status\",\"reason\":\"NotFound\",\"message\":\"gone\"}", SW_ENOENT,
         "NotFound", "gone"},
        {404, "404 page not found\n", SW_ENOENT, "NotFound", "404 page not found"},
        {403, "{}", SW_EDENIED, "Forbidden", "403"},
        {401, "", SW_EDENIED, "Unauthorized", "401"},
        {422, "{\"kind\":\"Pod\"}", SW_EINVAL, "Invalid", "422"},
        {418, "{\"kind\":\"Status\",\"reason\":5}", SW_EINVAL, "Unknown", "418"},
        {302, "", SW_EPROTO, "Unknown", "302"},
        {200, "{not json", SW_EPROTO, "UnexpectedServerResponse", "JSON"},
    };
    struct world *w = *state;

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        w->answers[0].status = cases[i].status;
        w->answers[0].body = cases[i].body;
        (void)sw_kube_get(w->b.client, &crd, sw_slice("", 0), SW_SLICE_LIT("x"), on_reply, w);
        finish(w);
        if (w->rc != cases[i].rc || w->code != cases[i].status ||
            strcmp(w->reason, cases[i].reason) != 0 || !strstr(w->message, cases[i].message))
            fail_msg("%zu: rc %d code %d reason '%s' message '%s'", i, w->rc, w->code, w->reason,
                     w->message);
    }
}

static void busy_servers_are_asked_again(void **state)
{
    struct world *w = *state;
    SW_ARENA_AUTO a = {0};
    struct sw_json *obj = json(&a, "{\"metadata\":{\"namespace\":\"n\",\"name\":\"x\"}}");
    uint64_t began = test_now;

    w->answers[0].status = 429;
    w->answers[0].extra = "Retry-After: 2\r\n";
    w->answers[0].body = "{}";
    w->answers[1] = w->answers[0];
    w->answers[2].status = 200;
    w->answers[2].body = "{\"x\":2}";
    w->n = 3;
    (void)sw_kube_create(w->b.client, &cm, obj, on_reply, w);
    finish(w);
    assert_int_equal(w->rc, SW_OK);
    assert_int_equal(w->value, 2);
    assert_true(test_now - began >= 4 * SW_NS_PER_S);
    /* 500 to a write says nothing about whether it happened. */
    w->answers[0].status = 500;
    w->answers[0].extra = NULL;
    w->at = 0;
    (void)sw_kube_create(w->b.client, &cm, obj, on_reply, w);
    finish(w);
    assert_int_equal(w->code, 500);
    w->answers[1] = w->answers[0];
    w->at = 0;
    (void)sw_kube_get(w->b.client, &crd, sw_slice("", 0), SW_SLICE_LIT("x"), on_reply, w);
    finish(w);
    assert_int_equal(w->rc, SW_OK);
    /* But not for ever. */
    w->n = 1;
    w->b.server.requests = 0;
    (void)sw_kube_get(w->b.client, &crd, sw_slice("", 0), SW_SLICE_LIT("x"), on_reply, w);
    finish(w);
    assert_int_equal(w->code, 500);
    assert_true(w->b.server.requests >= 5 && w->b.server.requests <= 10);
}

static void broken_connections(void **state)
{
    struct world *w = *state;
    SW_ARENA_AUTO a = {0};
    struct sw_json *obj = json(&a, "{\"metadata\":{\"namespace\":\"n\",\"name\":\"x\"}}");
    uint16_t port = w->b.server.addr.port;

    w->answers[0].drop = true;
    w->answers[1].drop = true;
    w->answers[2].status = 200;
    w->answers[2].body = "{\"x\":3}";
    w->n = 3;
    (void)sw_kube_get(w->b.client, &crd, sw_slice("", 0), SW_SLICE_LIT("x"), on_reply, w);
    finish(w);
    assert_int_equal(w->value, 3);
    /* A write that reached the server is not repeated blindly. */
    w->at = 0;
    w->b.server.requests = 0;
    (void)sw_kube_create(w->b.client, &cm, obj, on_reply, w);
    finish(w);
    assert_int_equal(w->rc, SW_ECLOSED);
    assert_int_equal(w->b.server.requests, 1);
    /* One that did not is. */
    fake_down(&w->b.server);
    bench_turns(&w->b, 10);
    w->at = 2;
    (void)sw_kube_create(w->b.client, &cm, obj, on_reply, w);
    for (int i = 0; i < 500; i++) {
        test_now += SW_NS_PER_MS;
        sw_loop_turn(w->b.loop, 0);
    }
    fake_listen(&w->b.server, port);
    finish(w);
    assert_int_equal(w->rc, SW_OK);
    /* No answer at all ends with the time allowed. */
    w->answers[0].drop = false;
    w->answers[0].status = 0;
    w->n = 1;
    ask(w, &(struct sw_kube_req){
               .gvr = &crd, .name = SW_SLICE_LIT("x"), .timeout_ns = 3 * SW_NS_PER_S});
    assert_int_equal(w->rc, SW_ETIME);
}

static void cancelled_calls_say_nothing(void **state)
{
    struct world *w = *state;
    struct sw_kube_call *c =
        sw_kube_get(w->b.client, &crd, sw_slice("", 0), SW_SLICE_LIT("x"), on_reply, w);

    sw_kube_call_cancel(c);
    c = sw_kube_get(w->b.client, &crd, sw_slice("", 0), SW_SLICE_LIT(".."), on_reply, w);
    sw_kube_call_cancel(c);
    /* The server has the request and does not answer: the call is in flight until cancelled. */
    w->answers[0].status = 0;
    c = sw_kube_get(w->b.client, &crd, sw_slice("", 0), SW_SLICE_LIT("x"), on_reply, w);
    bench_until(&w->b, w->b.server.requests == 1);
    sw_kube_call_cancel(c);
    bench_turns(&w->b, 50);
    assert_int_equal(w->done, 0);
    (void)sw_kube_get(w->b.client, &crd, sw_slice("", 0), SW_SLICE_LIT("x"), on_reply, w);
    sw_kube_client_free(w->b.client);
    w->b.client = NULL;
    assert_int_equal(w->done, 1);
    assert_int_equal(w->rc, SW_ECANCELED);
}

static void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    (void)fputs(text, f);
    (void)fclose(f);
}

static struct sw_tls_cred *server_cred(struct sw_ca *ca)
{
    static const char *const sans[] = {"127.0.0.1", NULL};
    const struct sw_ca_web web = {.cn = "api", .sans = sans, .server = true, .ttl_s = 3600};
    SW_BUF_AUTO chain;
    SW_BUF_AUTO key;
    struct sw_tls_cred *c;

    sw_buf_init(&chain, 1 << 16);
    sw_buf_init(&key, 1 << 16);
    assert_int_equal(sw_ca_issue_web(ca, &web, &chain, &key, NULL), SW_OK);
    c = sw_tls_cred_new(&(struct sw_tls_cred_pem){.any_identity = true,
                                                  .chain = sw_buf_slice(&chain),
                                                  .key = sw_buf_slice(&key),
                                                  .roots = sw_ca_root_pem(ca)},
                        NULL);
    assert_non_null(c);
    return c;
}

/* A client of the same server with a token file; in TLS or not. */
static void reconnect(struct world *w, bool tls, struct sw_slice ca, const char *token_file)
{
    struct sw_kube_config cfg = {0};
    struct sw_err err = {0};
    char url[64];

    (void)snprintf(url, sizeof(url), "http%s://127.0.0.1:%u", tls ? "s" : "",
                   w->b.server.addr.port);
    assert_int_equal(sw_kube_server_parse(&cfg, sw_slice_str(url), NULL), SW_OK);
    cfg.token.file = sw_arena_dup(&cfg.arena, sw_slice_str(token_file));
    cfg.ca.data = sw_arena_slice(&cfg.arena, ca);
    cfg.as_user = SW_SLICE_LIT("bob");
    cfg.as_groups[0] = SW_SLICE_LIT("dev");
    cfg.n_as_groups = 1;
    sw_kube_client_free(w->b.client);
    w->b.client = sw_kube_client_new(w->b.loop, &cfg, NULL, &err);
    if (!w->b.client)
        fail_msg("%s", err.msg);
}

static void tokens_are_renewed_and_kept_secret(void **state)
{
    struct world *w = *state;
    struct sw_ca *ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, NULL);
    struct sw_ca *other = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, NULL);
    char path[] = "/tmp/sw-token-XXXXXX";
    int fd = mkstemp(path);
    const struct sw_kube_req req = {.path = "/version"};

    assert_true(fd >= 0);
    (void)close(fd);
    put_file(path, "first\n");
    reconnect(w, false, sw_slice("", 0), path);
    ask(w, &req);
    assert_null(strstr(w->head, "first")); /* not in the clear */
    assert_non_null(strstr(w->head, "\r\nImpersonate-User: bob\r\n"));
    assert_non_null(strstr(w->head, "\r\nImpersonate-Group: dev\r\n"));
    fake_drop_conns(&w->b.server);
    w->b.server.cred = server_cred(ca);
    reconnect(w, true, sw_ca_root_pem(ca), path);
    ask(w, &req);
    assert_int_equal(w->rc, SW_OK);
    assert_non_null(strstr(w->head, "\r\nAuthorization: Bearer first\r\n"));
    /* Read again once a minute, */
    put_file(path, "second");
    ask(w, &req);
    assert_non_null(strstr(w->head, "Bearer first\r\n"));
    test_now += 61 * SW_NS_PER_S;
    bench_turns(&w->b, 2);
    ask(w, &req);
    assert_non_null(strstr(w->head, "Bearer second\r\n"));
    /* and when it is refused. */
    put_file(path, "third");
    w->answers[0].status = 401;
    w->answers[1].status = 200;
    w->answers[1].body = "{\"x\":5}";
    w->n = 2;
    ask(w, &req);
    assert_int_equal(w->value, 5);
    assert_non_null(strstr(w->head, "Bearer third\r\n"));
    /* Refused with nothing new: that is the answer. A file that vanishes leaves the old one. */
    (void)unlink(path);
    ask(w, &req);
    assert_int_equal(w->code, 401);
    assert_non_null(strstr(w->head, "Bearer third\r\n"));
    /* The wrong server gets nothing at all. */
    w->b.server.requests = 0;
    reconnect(w, true, sw_ca_root_pem(other), path);
    ask(w, &req);
    assert_int_equal(w->rc, SW_EDENIED);
    assert_int_equal(w->b.server.requests, 0);
    sw_ca_free(ca);
    sw_ca_free(other);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(requests_in_words),
        T(names_cannot_leave_their_place),
        T(errors_are_decoded),
        T(busy_servers_are_asked_again),
        T(broken_connections),
        T(cancelled_calls_say_nothing),
        T(tokens_are_renewed_and_kept_secret),
    };

    if (sw_aead_init(SW_AEAD_AUTO, NULL) != SW_OK ||
        sw_log_filter(SW_SLICE_LIT("off"), true, NULL) != SW_OK)
        return 1;
    return cmocka_run_group_tests_name("kube client verbs", tests, NULL, NULL);
}
