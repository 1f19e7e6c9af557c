/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole server on one loop, asked by HTTPS: what a method and a path mean to the authorization,
 * who asks, and which of both is not served. A refusal repeats what was asked for, so it is what
 * the tables compare.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "apiserver/server.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/client.h"
#include "io/loop.h"
#include "io/resolver.h"
#include "kube/client/kubeconfig.h"
#include "tls/cert/cred.h"

struct world {
    char dir[64];
    struct sw_loop *loop;
    struct sw_api *api;
    struct sw_tls_cred *trust;
    struct sw_http_client *client;
    struct sw_arena arena;
    const char *admin; /* token */
    /* the last answer */
    struct sw_buf body;
    int status;
    bool done;
};

static void remove_tree(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;

    while (d && (e = readdir(d))) { /* NOLINT(concurrency-mt-unsafe): one thread reads it */
        char *p = sw_asprintf("%s/%s", path, e->d_name);

        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && unlink(p) != 0)
            remove_tree(p);
        sw_free(p);
    }
    if (d)
        (void)closedir(d);
    (void)rmdir(path);
}

static void connect_as_admin(struct world *w)
{
    SW_AUTO_FREE char *path = sw_asprintf("%s/admin.kubeconfig", w->dir);
    SW_AUTO_FREE char *token_path = sw_asprintf("%s/pki/admin.token", w->dir);
    struct sw_kube_config cfg = {0};
    struct sw_slice token = {0};
    struct sw_tls_cred_pem pem = {.any_identity = true};
    struct sw_http_client_opts o = {.host = SW_SLICE_LIT("127.0.0.1"), .tls = true};
    struct sw_err err = {0};

    if (sw_kubeconfig_load(path, NULL, &cfg, &err) != SW_OK)
        fail_msg("%s", err.msg);
    pem.roots = cfg.ca.data;
    w->trust = sw_tls_cred_new(&pem, &err);
    if (!w->trust)
        fail_msg("%s", err.msg);
    if (sw_file_read(token_path, 4096, &token, &err) != SW_OK)
        fail_msg("%s", err.msg);
    w->admin = sw_arena_dup(&w->arena, sw_slice_trim(token));
    sw_slice_free(&token);
    o.port = sw_api_addr(w->api).port;
    o.cred = w->trust;
    w->client = sw_http_client_new(w->loop, &o, &err);
    assert_non_null(w->client);
    sw_kube_config_done(&cfg);
}

static int world_setup(void **state)
{
    struct world *w = SW_NEW(struct world);
    struct sw_api_config c = {.data_dir = w->dir, .relaxed_sync = true};
    struct sw_err err = {0};

    assert_int_equal(sw_log_filter(SW_SLICE_LIT("off"), true, NULL), SW_OK);
    (void)snprintf(w->dir, sizeof(w->dir), "%s/swfrontXXXXXX",
                   getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(w->dir));
    sw_buf_init(&w->body, 16 << 20);
    w->loop = sw_loop_new(NULL);
    c.listen = (struct sw_addr){.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    w->api = sw_api_new(w->loop, &c, &err);
    if (!w->api)
        fail_msg("%s", err.msg);
    while (!sw_api_ready(w->api))
        sw_loop_turn(w->loop, 1000);
    connect_as_admin(w);
    *state = w;
    return 0;
}

static void on_stopped(void *arg)
{
    *(bool *)arg = true;
}

static int world_teardown(void **state)
{
    struct world *w = *state;
    bool stopped = false;

    sw_http_client_free(w->client);
    sw_api_stop(w->api, SW_NS_PER_S, on_stopped, &stopped);
    while (!stopped)
        sw_loop_turn(w->loop, 1000);
    sw_api_free(w->api);
    (void)sw_tls_cred_unref(w->trust);
    sw_resolver_stop();
    sw_loop_free(w->loop);
    sw_buf_done(&w->body);
    sw_arena_clear(&w->arena);
    remove_tree(w->dir);
    sw_free(w);
    return 0;
}

static void on_head(struct sw_http_call *call, const struct sw_h1_msg *msg, void *arg)
{
    (void)call;
    ((struct world *)arg)->status = msg->status;
}

static void on_body(struct sw_http_call *call, struct sw_slice data, void *arg)
{
    (void)call;
    assert_int_equal(sw_buf_append_slice(&((struct world *)arg)->body, data), SW_OK);
}

static void on_done(struct sw_http_call *call, int rc, const struct sw_err *err, void *arg)
{
    (void)call;
    if (rc != SW_OK)
        fail_msg("%s", err->msg);
    ((struct world *)arg)->done = true;
}

struct ask {
    const char *method;
    const char *target;
    const char *token; /* NULL: none */
    const char *as;    /* Impersonate-User; NULL: none */
    const char *body;  /* JSON with ' for "; NULL: none */
};

/* The status; the answer is in w->body. */
static int ask(struct world *w, const struct ask *q)
{
    SW_ARENA_AUTO a = {0};
    struct sw_h1_field f[3];
    struct sw_http_call_opts o = {.method = sw_slice_str(q->method),
                                  .target = sw_slice_str(q->target),
                                  .fields = f,
                                  .body_max = 16 << 20,
                                  .on_head = on_head,
                                  .on_body = on_body,
                                  .on_done = on_done,
                                  .arg = w};
    struct sw_err err = {0};
    char *body = sw_arena_dup(&a, sw_slice_str(q->body ? q->body : ""));

    for (char *c = body; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    if (q->token)
        f[o.nfields++] =
            (struct sw_h1_field){SW_SLICE_LIT("Authorization"),
                                 sw_slice_str(sw_arena_printf(&a, "Bearer %s", q->token))};
    if (q->as)
        f[o.nfields++] =
            (struct sw_h1_field){SW_SLICE_LIT("Impersonate-User"), sw_slice_str(q->as)};
    if (q->body)
        f[o.nfields++] =
            (struct sw_h1_field){SW_SLICE_LIT("Content-Type"), SW_SLICE_LIT("application/json")};
    o.body = sw_slice_str(body);
    sw_buf_clear(&w->body);
    w->status = 0;
    w->done = false;
    if (!sw_http_call_start(w->client, &o, &err))
        fail_msg("%s %s: %s", q->method, q->target, err.msg);
    while (!w->done)
        sw_loop_turn(w->loop, 1000);
    return w->status;
}

/* A text of the answer, an object in JSON. */
static const char *answer_text(struct world *w, struct sw_arena *a, const char *key)
{
    struct sw_json *v = NULL;

    assert_int_equal(sw_json_parse(a, sw_buf_slice(&w->body), NULL, &v, NULL), SW_OK);
    return sw_arena_dup(a, sw_json_str(sw_json_find(v, key)));
}

#define NS   "/api/v1/namespaces/n"
#define APPS "/apis/apps/v1/namespaces/n/deployments"
#define CAN  " is forbidden: User \"probe\" cannot "
#define IN   " in API group \"\" in the namespace \"n\""
#define INA  " in API group \"apps\" in the namespace \"n\""
#define ALL  " in API group \"\" at the cluster scope"

static const struct {
    const char *method;
    const char *target;
    const char *message;
} meanings[] = {
    {"GET", NS "/configmaps/x", "configmaps \"x\"" CAN "get resource \"configmaps\"" IN},
    {"GET", NS "/configmaps", "configmaps" CAN "list resource \"configmaps\"" IN},
    {"GET", "/api/v1/configmaps", "configmaps" CAN "list resource \"configmaps\"" ALL},
    {"GET", NS "/configmaps?watch=true", "configmaps" CAN "watch resource \"configmaps\"" IN},
    {"GET", NS "/configmaps?watch=1", "configmaps" CAN "watch resource \"configmaps\"" IN},
    {"GET", NS "/configmaps?watch=0", "configmaps" CAN "list resource \"configmaps\"" IN},
    {"GET", NS "/configmaps?watch=false", "configmaps" CAN "list resource \"configmaps\"" IN},
    /* A watch of one object is a get, but for the old form of a watch. */
    {"GET", NS "/configmaps/x?watch=true", "configmaps \"x\"" CAN "get resource \"configmaps\"" IN},
    {"GET", "/api/v1/watch/namespaces/n/configmaps",
     "configmaps" CAN "watch resource \"configmaps\"" IN},
    {"GET", "/api/v1/watch/namespaces/n/configmaps/x",
     "configmaps \"x\"" CAN "watch resource \"configmaps\"" IN},
    /* A selector of one name is that name, in lists and watches only. */
    {"GET", NS "/configmaps?fieldSelector=metadata.name%3Dx",
     "configmaps \"x\"" CAN "list resource \"configmaps\"" IN},
    {"GET", NS "/configmaps?watch=true&fieldSelector=metadata.name%3Dx",
     "configmaps \"x\"" CAN "watch resource \"configmaps\"" IN},
    {"GET", NS "/configmaps?fieldSelector=metadata.name%21%3Dx",
     "configmaps" CAN "list resource \"configmaps\"" IN},
    {"GET", NS "/configmaps?fieldSelector=metadata.name%3Da%2Fb",
     "configmaps" CAN "list resource \"configmaps\"" IN},
    {"DELETE", NS "/configmaps?fieldSelector=metadata.name%3Dx",
     "configmaps" CAN "deletecollection resource \"configmaps\"" IN},
    {"POST", NS "/configmaps", "configmaps" CAN "create resource \"configmaps\"" IN},
    {"PUT", NS "/configmaps/x", "configmaps \"x\"" CAN "update resource \"configmaps\"" IN},
    {"PATCH", NS "/configmaps/x", "configmaps \"x\"" CAN "patch resource \"configmaps\"" IN},
    {"DELETE", NS "/configmaps/x", "configmaps \"x\"" CAN "delete resource \"configmaps\"" IN},
    {"OPTIONS", NS "/configmaps/x", "configmaps \"x\"" CAN " resource \"configmaps\"" IN},
    /* Groups and subresources. */
    {"GET", APPS "/d", "deployments.apps \"d\"" CAN "get resource \"deployments\"" INA},
    {"GET", APPS "/d/scale", "deployments.apps \"d\"" CAN "get resource \"deployments/scale\"" INA},
    {"PUT", APPS "/d/status",
     "deployments.apps \"d\"" CAN "update resource \"deployments/status\"" INA},
    /* A namespace is in itself. */
    {"GET", NS, "namespaces \"n\"" CAN "get resource \"namespaces\"" IN},
    {"PUT", NS "/finalize", "namespaces \"n\"" CAN "update resource \"namespaces/finalize\"" IN},
    {"GET", "/api/v1/namespaces", "namespaces" CAN "list resource \"namespaces\"" ALL},
    /* Doubled slashes and escapes name the same. */
    {"GET", "//api//v1/namespaces/n//configmaps/x/",
     "configmaps \"x\"" CAN "get resource \"configmaps\"" IN},
    {"GET", NS "/%63onfigmaps/x", "configmaps \"x\"" CAN "get resource \"configmaps\"" IN},
    /* Kinds nobody knows are refused before it is said that nobody knows them. */
    {"GET", NS "/unicorns/x", "unicorns \"x\"" CAN "get resource \"unicorns\"" IN},
    /* Paths that are no resources: the method is the verb. */
    {"GET", "/metrics", "forbidden: User \"probe\" cannot get path \"/metrics\""},
    {"POST", "/metrics", "forbidden: User \"probe\" cannot post path \"/metrics\""},
    {"GET", "/metrics/x%79", "forbidden: User \"probe\" cannot get path \"/metrics/xy\""},
    {"GET", "/nowhere", "forbidden: User \"probe\" cannot get path \"/nowhere\""},
};

static void method_and_path_decide_what_is_asked(void **state)
{
    struct world *w = *state;

    for (size_t i = 0; i < SW_ARRAY_LEN(meanings); i++) {
        SW_ARENA_AUTO a = {0};
        struct ask q = {
            .method = meanings[i].method, .target = meanings[i].target, .token = w->admin};
        const char *got;

        q.as = "probe";
        if (ask(w, &q) != 403)
            fail_msg("%s %s: %d", q.method, q.target, w->status);
        got = answer_text(w, &a, "message");
        if (strcmp(got, meanings[i].message) != 0)
            fail_msg("%s %s: %s", q.method, q.target, got);
    }
}

static const struct {
    struct ask q;
    int status;
    const char *reason; /* NULL: no failure */
} answers[] = {
    {{"GET", "/version", NULL, NULL, NULL}, 200, NULL},
    {{"GET", NS "/configmaps", NULL, NULL, NULL}, 403, "Forbidden"},
    {{"GET", NS "/configmaps", "nonsense", NULL, NULL}, 401, "Unauthorized"},
    {{"GET", "/api/v1/namespaces/default/configmaps", "admin", NULL, NULL}, 200, NULL},
    {{"GET", "/api/v1/namespaces/default/configmaps/none", "admin", NULL, NULL}, 404, "NotFound"},
    {{"GET", "/api/v1/namespaces/default/unicorns", "admin", NULL, NULL}, 404, "NotFound"},
    {{"GET", "/api/v2/namespaces/default/configmaps", "admin", NULL, NULL}, 404, "NotFound"},
    {{"GET", "/api/v1/namespaces/default/configmaps/a/b/c", "admin", NULL, NULL}, 404, "NotFound"},
    {{"GET", "/api/v1/namespaces/default/namespaces", "admin", NULL, NULL}, 404, "NotFound"},
    {{"GET", "/nowhere", "admin", NULL, NULL}, 404, "NotFound"},
    {{"POST", "/api/v1/configmaps", "admin", NULL, "{}"}, 405, "MethodNotAllowed"},
    {{"PUT", "/api/v1/namespaces/default/configmaps", "admin", NULL, "{}"},
     405,
     "MethodNotAllowed"},
    {{"POST", "/api/v1/namespaces/default/configmaps/x", "admin", NULL, "{}"},
     405,
     "MethodNotAllowed"},
    {{"OPTIONS", "/api/v1/namespaces/default/configmaps", "admin", NULL, NULL},
     405,
     "MethodNotAllowed"},
    {{"GET", "/api/v1/namespaces/default/configmaps/%zz", "admin", NULL, NULL}, 400, "BadRequest"},
    {{"GET", "/api/v1/namespaces/default/configmaps?limit=%zz", "admin", NULL, NULL},
     400,
     "BadRequest"},
    {{"POST", "/api/v1/namespaces/default/configmaps", "admin", NULL,
      "{'metadata':{'name':'made'}}"},
     201,
     NULL},
    {{"POST", "/api/v1/namespaces/default/configmaps", "admin", NULL,
      "{'metadata':{'name':'made'}}"},
     409,
     "AlreadyExists"},
    {{"GET", "/api/v1/namespaces/default/configmaps/made", "admin", NULL, NULL}, 200, NULL},
    {{"GET", "/api/v1/namespaces/default/configmaps/made", "admin", "probe", NULL},
     403,
     "Forbidden"},
    {{"GET", "/api/v1/namespaces/default/configmaps/made/status", "admin", NULL, NULL},
     404,
     "NotFound"},
    {{"DELETE", "/api/v1/namespaces/default/configmaps/made", "admin", NULL, NULL}, 200, NULL},
    {{"DELETE", "/api/v1/namespaces/default/configmaps/made", "admin", NULL, NULL},
     404,
     "NotFound"},
};

static void who_asks_and_what_for_decide_the_answer(void **state)
{
    struct world *w = *state;

    for (size_t i = 0; i < SW_ARRAY_LEN(answers); i++) {
        SW_ARENA_AUTO a = {0};
        struct ask q = answers[i].q;

        if (q.token && strcmp(q.token, "admin") == 0)
            q.token = w->admin;
        if (ask(w, &q) != answers[i].status)
            fail_msg("case %zu: %s %s: %d: %.*s", i, q.method, q.target, w->status,
                     SW_SLICE_ARG(sw_buf_slice(&w->body)));
        if (answers[i].reason)
            assert_string_equal(answer_text(w, &a, "reason"), answers[i].reason);
    }
}

#define RBAC "/apis/rbac.authorization.k8s.io/v1/"

/* A role with resourceNames, from its creation to the requests it decides. */
static void resource_names_reach_from_the_role_to_the_request(void **state)
{
    static const struct {
        const char *method;
        const char *target;
        int status;
    } cases[] = {
        {"GET", "/api/v1/namespaces/default/configmaps/mine", 404}, /* allowed: there is none */
        {"GET", "/api/v1/namespaces/default/configmaps/other", 403},
        {"GET", "/api/v1/namespaces/default/configmaps", 403},
        {"GET", "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dmine", 200},
        {"GET", "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dother", 403},
        {"DELETE", "/api/v1/namespaces/default/configmaps", 403},
        {"DELETE", "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dmine", 403},
        {"GET", "/api/v1/namespaces/kube-system/configmaps/mine", 403},
    };
    struct world *w = *state;
    struct ask role = {"POST", RBAC "namespaces/default/roles", w->admin, NULL,
                       "{'metadata':{'name':'mine'},'rules':[{'apiGroups':[''],"
                       "'resources':['configmaps'],'resourceNames':['mine'],"
                       "'verbs':['*']}]}"};
    struct ask binding = {"POST", RBAC "namespaces/default/rolebindings", w->admin, NULL,
                          "{'metadata':{'name':'mine'},'roleRef':{'apiGroup':"
                          "'rbac.authorization.k8s.io','kind':'Role','name':'mine'},"
                          "'subjects':[{'apiGroup':'rbac.authorization.k8s.io','kind':'User',"
                          "'name':'owner'}]}"};

    assert_int_equal(ask(w, &role), 201);
    assert_int_equal(ask(w, &binding), 201);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct ask q = {cases[i].method, cases[i].target, w->admin, "owner", NULL};

        if (ask(w, &q) != cases[i].status)
            fail_msg("%s %s: %d", q.method, q.target, w->status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(method_and_path_decide_what_is_asked),
        cmocka_unit_test(who_asks_and_what_for_decide_the_answer),
        cmocka_unit_test(resource_names_reach_from_the_role_to_the_request),
    };

    return cmocka_run_group_tests_name("api front", tests, world_setup, world_teardown);
}
