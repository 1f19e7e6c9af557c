/* SPDX-License-Identifier: Apache-2.0 */
/* The endpoints over loopback with ports of the kernel's choice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/sock.h"
#include "telemetry/admin.h"

struct world {
    struct sw_loop *loop;
    struct sw_metrics *metrics;
    struct sw_ready *ready;
    struct sw_admin *admin;
    int quits;
    bool dump_fails;
};

static int dump(struct sw_buf *out, void *arg)
{
    if (((struct world *)arg)->dump_fails)
        return SW_ELIMIT;
    return sw_buf_append_str(out, "{\"workloads\":[]}");
}

static void quit(void *arg)
{
    ((struct world *)arg)->quits++;
}

static bool extra(struct sw_http_req *req, struct sw_http_resp *r, void *arg)
{
    (void)arg;
    if (!sw_slice_eq_str(req->path, "/role"))
        return false;
    sw_http_send_text(r, 200, "role page\n");
    return true;
}

static int set_up(void **state)
{
    static const struct sw_addr any_port = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct world *w = SW_NEW(struct world);
    struct sw_admin_opts o = {.admin = {any_port},
                              .access = {.auth = SW_ADMIN_AUTH_NONE},
                              .stats = any_port,
                              .ready_at = any_port,
                              .config_dump = dump,
                              .quit = quit,
                              .quit_arg = w,
                              .extra = extra,
                              .log_filter = "off",
                              .arg = w};

    w->loop = sw_loop_new(NULL);
    w->metrics = sw_metrics_new(NULL);
    w->ready = sw_ready_new();
    o.metrics = w->metrics;
    o.ready = w->ready;
    w->admin = sw_admin_new(w->loop, &o, NULL);
    *state = w;
    return w->admin ? 0 : -1;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    sw_admin_free(w->admin);
    sw_ready_free(w->ready);
    sw_metrics_free(w->metrics);
    sw_loop_free(w->loop);
    sw_free(w);
    return 0;
}

/* Sends one request that asks for the connection to be closed, returns all of the answer. */
static char *ask(struct world *w, struct sw_addr at, const char *request)
{
    struct sw_sock_opts so = SW_SOCK_OPTS_INIT;
    struct sw_buf b;
    int fd;

    assert_int_equal(sw_sock_connect(&at, NULL, &so, &fd, NULL), SW_OK);
    while (sw_sock_connect_result(fd, NULL) == SW_EAGAIN)
        sw_loop_turn(w->loop, 1);
    assert_int_equal(sw_sock_write(fd, request, strlen(request)), strlen(request));
    sw_buf_init(&b, 1 << 20);
    for (;;) {
        char *to = sw_buf_reserve(&b, 16384);
        ssize_t n = sw_sock_read(fd, to, 16384);

        if (n > 0)
            sw_buf_commit(&b, (size_t)n);
        else if (n != SW_EAGAIN)
            break;
        sw_loop_turn(w->loop, 1);
    }
    sw_sock_close(fd);
    return sw_buf_take_str(&b);
}

static void expect(struct world *w, struct sw_addr at, const char *method_target,
                   const char *fields, const char *start, const char *part)
{
    char *request =
        sw_asprintf("%s HTTP/1.1\r\n%sConnection: close\r\n\r\n", method_target, fields);
    char *got = ask(w, at, request);

    if (strncmp(got, start, strlen(start)) != 0 || !strstr(got, part))
        fail_msg("'%s': wanted '%s' with '%s', got '%s'", method_target, start, part, got);
    sw_free(request);
    sw_free(got);
}

#define LOCAL "Host: localhost:15000\r\n"
#define OK    "HTTP/1.1 200 OK\r\n"

static void index_and_dump_are_served(void **state)
{
    struct world *w = *state;
    struct sw_addr at = sw_admin_addr(w->admin);

    expect(w, at, "GET /", LOCAL, OK, "<a href=\"config_dump\">");
    expect(w, at, "HEAD /", LOCAL, OK, "text/html");
    expect(w, at, "POST /", LOCAL, "HTTP/1.1 405 ", "Allow: GET, HEAD\r\n");
    expect(w, at, "GET /config_dump", LOCAL, OK, "application/json");
    expect(w, at, "GET /config_dump?x", LOCAL, OK, "{\"workloads\":[]}");
    w->dump_fails = true;
    expect(w, at, "GET /config_dump", LOCAL, "HTTP/1.1 500 ", "");
    w->dump_fails = false;
    expect(w, at, "GET /role", LOCAL, OK, "role page");
    expect(w, at, "GET /debug/pprof/heap", LOCAL, "HTTP/1.1 404 ", "");
    expect(w, at, "GET /metrics", LOCAL, "HTTP/1.1 404 ", "");
}

static void foreign_names_and_pages_are_refused(void **state)
{
    struct world *w = *state;
    struct sw_addr at = sw_admin_addr(w->admin);

    expect(w, at, "GET /", "Host: evil.example\r\n", "HTTP/1.1 403 ", "");
    expect(w, at, "GET /", "Host: localhost.evil.example:15000\r\n", "HTTP/1.1 403 ", "");
    expect(w, at, "GET /", "Host:\r\n", "HTTP/1.1 403 ", "");
    expect(w, at, "GET /", "Host: 127.0.0.1:15000\r\n", OK, "");
    expect(w, at, "GET /", "Host: [::1]:15000\r\n", OK, "");
    expect(w, at, "GET /", "Host: LOCALHOST\r\n", OK, "");
    expect(w, at, "POST /quitquitquit", LOCAL "Origin: http://evil.example\r\n", "HTTP/1.1 403 ",
           "");
    expect(w, at, "POST /quitquitquit", LOCAL "Origin: null\r\n", "HTTP/1.1 403 ", "");
    expect(w, at, "GET /config_dump", LOCAL "Sec-Fetch-Site: cross-site\r\n", "HTTP/1.1 403 ", "");
    expect(w, at, "GET /", LOCAL "Sec-Fetch-Site: none\r\n", OK, "");
    expect(w, at, "POST /logging", LOCAL "Origin: http://localhost:15000\r\n", OK, "");
    assert_int_equal(w->quits, 0);
    at = sw_admin_stats_addr(w->admin);
    expect(w, at, "GET /metrics", LOCAL, OK, "spanwire_refusals_total{reason=\"admin_host\"} 3\n");
    expect(w, at, "GET /metrics", LOCAL, OK,
           "spanwire_refusals_total{reason=\"admin_origin\"} 3\n");
}

static void logging_is_asked_changed_and_reset(void **state)
{
    struct world *w = *state;
    struct sw_addr at = sw_admin_addr(w->admin);

    assert_int_equal(sw_log_filter(SW_SLICE_LIT("off"), true, NULL), SW_OK);
    expect(w, at, "GET /logging", LOCAL, "HTTP/1.1 405 ", "Allow: POST\r\n");
    expect(w, at, "POST /logging", LOCAL, OK, "\r\n\r\ncurrent log level is off\n");
    expect(w, at, "POST /logging?level=error", LOCAL, OK, "is error\n");
    expect(w, at, "POST /logging?level=access=debug,xds%3Dwarn", LOCAL, OK,
           "is access=debug,xds=warn,error\n");
    expect(w, at, "POST /logging?level=loud", LOCAL, "HTTP/1.1 400 ", "'loud'");
    expect(w, at, "POST /logging?level=", LOCAL, "HTTP/1.1 400 ", "");
    expect(w, at, "POST /logging?level=%zz", LOCAL, "HTTP/1.1 400 ", "escape");
    expect(w, at, "POST /logging?verbose", LOCAL, "HTTP/1.1 400 ", "");
    expect(w, at, "POST /logging?reset&level=loud", LOCAL, "HTTP/1.1 400 ", "");
    expect(w, at, "POST /logging", LOCAL, OK, "is access=debug,xds=warn,error\n");
    expect(w, at, "POST /logging?reset&level=a=error", LOCAL, OK, "is a=error,off\n");
    expect(w, at, "POST /logging?reset", LOCAL, OK, "is off\n");
}

static void quit_needs_a_post(void **state)
{
    struct world *w = *state;
    struct sw_addr at = sw_admin_addr(w->admin);

    expect(w, at, "GET /quitquitquit", LOCAL, "HTTP/1.1 405 ", "Allow: POST\r\n");
    assert_int_equal(w->quits, 0);
    expect(w, at, "POST /quitquitquit", LOCAL, OK, "shutdown");
    assert_int_equal(w->quits, 1);
}

static void metrics_are_served_in_the_format_asked_for(void **state)
{
    struct world *w = *state;
    struct sw_addr at = sw_admin_stats_addr(w->admin);
    struct sw_metrics_shard *s = sw_metrics_shard_new(w->metrics);
    struct sw_traffic_labels labels = {.reporter = SW_REPORTER_SOURCE};

    sw_traffic_opened(sw_metrics_traffic(s, &labels));
    expect(w, at, "GET /metrics", "Host: pod-ip-or-name\r\n", OK, "text/plain; version=0.0.4");
    expect(w, at, "GET /stats/prometheus", LOCAL, OK, "istio_build{");
    expect(w, at, "GET /metrics",
           LOCAL "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n", OK,
           "# EOF\n");
    expect(w, at, "GET /metrics", LOCAL "Accept-Encoding: gzip\r\n", OK, "Content-Encoding: gzip");
    expect(w, at, "POST /metrics", LOCAL, "HTTP/1.1 405 ", "");
    sw_metrics_shard_free(s);
    expect(w, at, "GET /", LOCAL, "HTTP/1.1 404 ", "");
}

static void readiness_names_what_is_missing(void **state)
{
    struct world *w = *state;
    struct sw_addr at = sw_admin_ready_addr(w->admin);

    sw_ready_add(w->ready, "state manager");
    sw_ready_add(w->ready, "proxy");
    sw_ready_add(w->ready, "proxy");
    expect(w, at, "GET /healthz/ready", LOCAL, "HTTP/1.1 500 ",
           "\r\n\r\nnot ready, pending: proxy, state manager\n");
    sw_ready_done(w->ready, "proxy");
    sw_ready_done(w->ready, "nothing");
    expect(w, at, "GET /healthz/ready", LOCAL, "HTTP/1.1 500 ", "pending: state manager\n");
    sw_ready_done(w->ready, "state manager");
    expect(w, at, "GET /healthz/ready", LOCAL, OK, "\r\n\r\nready\n");
    expect(w, at, "GET /other", LOCAL, "HTTP/1.1 404 ", "");
    for (int i = 0; i < 100; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "task %d", i);
        sw_ready_add(w->ready, name);
    }
    assert_false(sw_ready_check(w->ready, NULL));
}

static void taken_port_is_an_error(void **state)
{
    struct world *w = *state;
    struct sw_admin_opts o = {
        .access = {.auth = SW_ADMIN_AUTH_NONE}, .metrics = w->metrics, .ready = w->ready};
    struct sw_err err = {0};

    o.admin[0] = sw_admin_addr(w->admin);
    assert_null(sw_admin_new(w->loop, &o, &err));
    assert_int_not_equal(err.rc, SW_OK);
}

static char *read_token(const char *path)
{
    char text[256] = "";
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

    assert_true(n > 16);
    (void)fclose(f);
    text[strcspn(text, "\n")] = '\0';
    return sw_strdup(text);
}

static void what_matters_needs_the_token(void **state)
{
    static const struct sw_addr any_port = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct world *w = *state;
    char dir[] = "/tmp/test_admin_XXXXXX";
    char path[64];
    struct stat st;
    struct sw_err err = {0};
    struct sw_admin_opts o = {.admin = {any_port},
                              .access = {.token_file = path},
                              .stats = any_port,
                              .ready_at = any_port,
                              .metrics = w->metrics,
                              .ready = w->ready,
                              .config_dump = dump,
                              .quit = quit,
                              .quit_arg = w,
                              .extra = extra,
                              .log_filter = "off",
                              .arg = w};
    struct sw_admin *admin;
    struct sw_admin *second;
    struct sw_addr at;
    char *token;
    char *good;

    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/run/admin.token", dir);
    admin = sw_admin_new(w->loop, &o, &err);
    second = sw_admin_new(w->loop, &o, &err); /* the same token */
    assert_true(admin && second);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    token = read_token(path);
    good = sw_asprintf(LOCAL "Authorization: Bearer %s\r\n", token);
    at = sw_admin_addr(admin);
    expect(w, at, "GET /", LOCAL, OK, "config_dump");
    expect(w, at, "GET /config_dump", LOCAL, "HTTP/1.1 401 ", "Bearer");
    expect(w, at, "GET /role", LOCAL, "HTTP/1.1 401 ", "");
    expect(w, at, "GET /nothing", LOCAL, "HTTP/1.1 401 ", "");
    expect(w, at, "POST /", LOCAL, "HTTP/1.1 401 ", "");
    expect(w, at, "POST /logging", LOCAL, "HTTP/1.1 401 ", "");
    expect(w, at, "POST /quitquitquit", LOCAL, "HTTP/1.1 401 ", "");
    expect(w, at, "POST /quitquitquit", LOCAL "Authorization: Bearer x\r\n", "HTTP/1.1 401 ", "");
    expect(w, at, "POST /quitquitquit", LOCAL "Authorization: Bearer \r\n", "HTTP/1.1 401 ", "");
    assert_int_equal(w->quits, 0);
    expect(w, at, "GET /config_dump", good, OK, "workloads");
    expect(w, sw_admin_addr(second), "GET /role", good, OK, "role page");
    expect(w, at, "POST /quitquitquit", good, OK, "");
    assert_int_equal(w->quits, 1);
    expect(w, sw_admin_stats_addr(admin), "GET /metrics", LOCAL, OK, "reason=\"admin_token\"");
    expect(w, sw_admin_ready_addr(admin), "GET /healthz/ready", LOCAL, OK, "");
    sw_admin_free(admin);
    sw_admin_free(second);
    assert_int_equal(chmod(path, 0640), 0);
    assert_null(sw_admin_new(w->loop, &o, &err));
    assert_int_equal(err.rc, SW_EDENIED);
    assert_int_equal(truncate(path, 3), 0);
    assert_int_equal(chmod(path, 0600), 0);
    assert_null(sw_admin_new(w->loop, &o, &err));
    assert_int_equal(err.rc, SW_EINVAL);
    (void)unlink(path);
    *strrchr(path, '/') = '\0';
    (void)rmdir(path);
    (void)rmdir(dir);
    sw_free(token);
    sw_free(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_matters_needs_the_token, set_up, tear_down),
        cmocka_unit_test(index_and_dump_are_served),
        cmocka_unit_test(foreign_names_and_pages_are_refused),
        cmocka_unit_test(logging_is_asked_changed_and_reset),
        cmocka_unit_test(quit_needs_a_post),
        cmocka_unit_test(metrics_are_served_in_the_format_asked_for),
        cmocka_unit_test(readiness_names_what_is_missing),
        cmocka_unit_test(taken_port_is_an_error),
    };

    (void)!sw_log_filter(SW_SLICE_LIT("off"), true, NULL);
    return cmocka_run_group_tests_name("admin", tests, set_up, tear_down);
}
