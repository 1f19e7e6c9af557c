/* SPDX-License-Identifier: Apache-2.0 */
/* The probe of `expose`, before a gateway that this test plays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../gateway/gw_peer.h"
#include "connector/expose/probe.h"

static struct {
    struct sw_loop *loop;
    int listener;
    struct sw_origin_probe *probe;
    bool done;
    bool ok;
    char why[200];
} t;

static void on_probed(void *arg, bool ok, const char *why)
{
    (void)arg;
    t.done = true;
    t.ok = ok;
    (void)snprintf(t.why, sizeof(t.why), "%s", why);
}

static int setup(void **state)
{
    struct sw_addr at;
    char url[64];

    (void)state;
    memset(&t, 0, sizeof(t));
    t.loop = gw_loop();
    t.listener = gw_listen(&at);
    (void)snprintf(url, sizeof(url), "http://name.test:%u/", at.port);
    t.probe = sw_probe_new(t.loop, sw_slice_str(url), SW_SLICE_LIT("127.0.0.1"), on_probed, NULL);
    assert_non_null(t.probe);
    gw_pass(t.loop, SW_NS_PER_MS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sw_probe_free(t.probe);
    sw_sock_close(t.listener);
    sw_loop_free(t.loop);
    return 0;
}

/* The next request gets that answer; a second passes. */
static void answer(unsigned status)
{
    int fd = gw_accept(t.loop, t.listener);
    const char *request = gw_hear(t.loop, fd, "\r\n\r\n");
    char head[80];

    assert_int_equal(strncmp(request, "HEAD / HTTP/1.1\r\n", 17), 0);
    (void)snprintf(head, sizeof(head),
                   "HTTP/1.1 %u x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status);
    gw_say(fd, head);
    sw_sock_close(fd);
    gw_turns(t.loop, 20);
    gw_pass(t.loop, SW_NS_PER_S);
}

static void an_answer_of_the_service_ends_it(void **state)
{
    (void)state;
    answer(503);
    answer(502);
    answer(504);
    assert_false(t.done);
    answer(401);
    assert_true(t.done && t.ok);
}

static void a_gateway_may_have_no_route_yet(void **state)
{
    (void)state;
    answer(404);
    answer(404);
    assert_false(t.done);
    answer(502);
    assert_false(t.done);
    answer(200);
    assert_true(t.done && t.ok);
}

static void a_service_may_have_no_such_page(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        answer(404);
        assert_false(t.done);
    }
    answer(404);
    assert_true(t.done && t.ok);
}

static void a_minute_is_the_end(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        assert_false(t.done);
        answer(503);
    }
    assert_true(t.done && !t.ok);
    assert_string_equal(t.why, "the gateway answers 503");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_answer_of_the_service_ends_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_gateway_may_have_no_route_yet, setup, teardown),
        cmocka_unit_test_setup_teardown(a_service_may_have_no_such_page, setup, teardown),
        cmocka_unit_test_setup_teardown(a_minute_is_the_end, setup, teardown),
    };

    return cmocka_run_group_tests_name("probe", tests, NULL, NULL);
}
