/* SPDX-License-Identifier: Apache-2.0 */
/* A client and a server that says what the test wants, on one loop with a clock of the test's. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/time.h"
#include "kube/client/client.h"

#include "../http/fake.h"

static uint64_t test_now = 1000 * SW_NS_PER_S;

static inline uint64_t test_clock(void)
{
    return test_now;
}

struct bench {
    struct sw_loop *loop;
    struct fake server;
    struct sw_kube_client *client;
    void *ctx;
};

static inline void bench_open(struct bench *b, void (*on_request)(struct fake_conn *, void *),
                              void *ctx)
{
    struct sw_kube_config cfg = {0};
    char url[64];

    *b = (struct bench){.ctx = ctx};
    b->loop = sw_loop_new(NULL);
    sw_loop_set_clock(b->loop, test_clock);
    fake_open(&b->server, b->loop, on_request, ctx);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/base/", b->server.addr.port);
    assert_int_equal(sw_kube_server_parse(&cfg, sw_slice_str(url), NULL), SW_OK);
    cfg.ns = SW_SLICE_LIT("default");
    b->client = sw_kube_client_new(b->loop, &cfg, NULL, NULL);
    assert_non_null(b->client);
}

static inline void bench_close(struct bench *b)
{
    sw_kube_client_free(b->client);
    fake_close(&b->server);
    sw_loop_free(b->loop);
}

static inline void bench_turns(struct bench *b, int n)
{
    for (int i = 0; i < n; i++)
        sw_loop_turn(b->loop, 0);
}

/* Turns until the condition holds; time goes by, a little per turn. */
#define bench_until(b, cond)                                                                       \
    do {                                                                                           \
        for (int i_ = 0; i_ < 100000 && !(cond); i_++) {                                           \
            test_now += SW_NS_PER_MS;                                                              \
            sw_loop_turn((b)->loop, i_ > 100 && i_ % 16 == 0);                                     \
        }                                                                                          \
        assert_true(cond);                                                                         \
    } while (0)
