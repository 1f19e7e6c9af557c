/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/tokens.h"

#include "../kube/test_kube_client.h"

enum { ROOM = 4096 }; /* of what is remembered */

#define GOOD                                                                                       \
    "{\"status\":{\"authenticated\":true,\"audiences\":[\"us\"],\"user\":{"                        \
    "\"username\":\"system:serviceaccount:ns:web\",\"groups\":[\"system:serviceaccounts\"]}}}"
#define BAD "{\"status\":{\"authenticated\":false,\"error\":\"nobody's\"}}"

struct world {
    struct bench b;
    struct sw_tokens *tokens;
    struct fake_conn *waits; /* the review of the slow token */
    int reviews;             /* of it */
};

static void on_request(struct fake_conn *c, void *arg)
{
    struct world *w = arg;

    if (strstr(c->body, "\"slow\"")) {
        w->waits = c;
        w->reviews++;
    } else {
        fake_reply(c, 201, NULL, strstr(c->body, "\"good") ? GOOD : BAD);
    }
}

static void on_gone(struct fake_conn *c, void *arg)
{
    struct world *w = arg;

    if (w->waits == c)
        w->waits = NULL;
}

static void open_world(struct world *w)
{
    *w = (struct world){0};
    bench_open(&w->b, on_request, w);
    w->b.server.on_gone = on_gone;
    w->tokens = sw_tokens_new(w->b.client, &(struct sw_tokens_opts){.audience = "us"});
}

static void close_world(struct world *w)
{
    sw_tokens_free(w->tokens);
    bench_close(&w->b);
}

static int check(struct world *w, const char *token)
{
    const struct sw_caller *who;
    struct sw_err err = {0};

    return sw_tokens_check(w->tokens, sw_slice_str(token), &who, &err);
}

static void settle(struct world *w, const char *token, int rc)
{
    bench_until(&w->b, check(w, token) == rc);
}

static void flood(struct world *w, const char *prefix, int n, int rc)
{
    char token[32];

    for (int i = 0; i < n; i++) {
        (void)snprintf(token, sizeof(token), "%s%d", prefix, i);
        settle(w, token, rc);
    }
}

/* Whoever can connect may show as many tokens of nobody as they like. */
static void a_flood_of_bad_tokens_costs_nobody_a_review(void **state)
{
    struct world w;

    (void)state;
    open_world(&w);
    settle(&w, "good", SW_OK);
    flood(&w, "bad-", ROOM, SW_EDENIED);
    assert_int_equal(check(&w, "slow"), SW_EPENDING);
    bench_until(&w.b, w.waits);
    flood(&w, "more-", 10, SW_EDENIED);
    assert_non_null(w.waits);
    assert_int_equal(check(&w, "slow"), SW_EPENDING);
    fake_reply(w.waits, 201, NULL, GOOD);
    settle(&w, "slow", SW_OK);
    assert_int_equal(w.reviews, 1);
    assert_non_null(sw_tokens_owner(w.tokens, SW_SLICE_LIT("good")));
    close_world(&w);
}

/* A node has another token every hour, and its stream ends with the old one. */
static void tokens_of_streams_that_ended_make_room(void **state)
{
    struct world w;
    char token[32];

    (void)state;
    open_world(&w);
    for (int i = 0; i < ROOM; i++) {
        (void)snprintf(token, sizeof(token), "good-%d", i);
        settle(&w, token, SW_OK);
        assert_true(sw_tokens_still_good(w.tokens, sw_slice_str(token), NULL));
    }
    assert_true(sw_tokens_still_good(w.tokens, SW_SLICE_LIT("good-0"), NULL)); /* it is open */
    assert_int_equal(check(&w, "slow"), SW_EPENDING);
    bench_until(&w.b, w.waits);
    flood(&w, "good-again-", 10, SW_OK);
    assert_non_null(w.waits);
    fake_reply(w.waits, 201, NULL, GOOD);
    settle(&w, "slow", SW_OK);
    assert_int_equal(w.reviews, 1);
    assert_non_null(sw_tokens_owner(w.tokens, SW_SLICE_LIT("good-0")));
    assert_null(sw_tokens_owner(w.tokens, SW_SLICE_LIT("good-1")));
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_of_bad_tokens_costs_nobody_a_review),
        cmocka_unit_test(tokens_of_streams_that_ended_make_room),
    };

    return cmocka_run_group_tests_name("identity tokens", tests, NULL, NULL);
}
