/* SPDX-License-Identifier: Apache-2.0 */
/* Work queue, leader election, events. */
#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "kube/client/events.h"
#include "kube/client/lease.h"
#include "kube/client/workqueue.h"

#include "test_kube_client.h"

/* --- work queue --- */

struct queue_world {
    struct sw_loop *loop;
    struct sw_workqueue *q;
    int told;
};

static void on_ready(struct sw_workqueue *q, void *arg)
{
    (void)q;
    ((struct queue_world *)arg)->told++;
}

static int queue_up(void **state)
{
    struct queue_world *w = SW_NEW(struct queue_world);

    w->loop = sw_loop_new(NULL);
    sw_loop_set_clock(w->loop, test_clock);
    sw_loop_turn(w->loop, 0);
    w->q = sw_workqueue_new(
        w->loop, &(struct sw_workqueue_opts){.ready = on_ready, .arg = w, .rate = 10, .burst = 20});
    *state = w;
    return 0;
}

static int queue_down(void **state)
{
    struct queue_world *w = *state;

    sw_workqueue_free(w->q);
    sw_loop_free(w->loop);
    sw_free(w);
    return 0;
}

static void pass(struct queue_world *w, uint64_t ns)
{
    test_now += ns;
    sw_loop_turn(w->loop, 0);
    sw_loop_turn(w->loop, 0);
}

static void take(struct queue_world *w, const char *want)
{
    struct sw_slice key = {0};

    assert_true(sw_workqueue_get(w->q, &key));
    assert_true(sw_slice_eq_str(key, want));
}

static void keys_wait_once(void **state)
{
    struct queue_world *w = *state;
    struct sw_slice key;

    sw_workqueue_add(w->q, SW_SLICE_LIT("a"));
    sw_workqueue_add(w->q, SW_SLICE_LIT("b"));
    sw_workqueue_add(w->q, SW_SLICE_LIT("a"));
    assert_int_equal(sw_workqueue_len(w->q), 2);
    assert_int_equal(w->told, 0);
    pass(w, 0);
    assert_int_equal(w->told, 1);
    take(w, "a");
    /* Added while worked on: not to be taken twice at once, but once more afterwards. */
    sw_workqueue_add(w->q, SW_SLICE_LIT("a"));
    sw_workqueue_add(w->q, SW_SLICE_LIT("a"));
    take(w, "b");
    assert_false(sw_workqueue_get(w->q, &key));
    sw_workqueue_done(w->q, SW_SLICE_LIT("b"));
    sw_workqueue_done(w->q, SW_SLICE_LIT("a"));
    take(w, "a");
    sw_workqueue_done(w->q, SW_SLICE_LIT("a"));
    assert_false(sw_workqueue_get(w->q, &key));
    sw_workqueue_done(w->q, SW_SLICE_LIT("never heard of"));
}

static void delays(void **state)
{
    struct queue_world *w = *state;

    sw_workqueue_add_after(w->q, SW_SLICE_LIT("a"), 10 * SW_NS_PER_MS);
    sw_workqueue_add_after(w->q, SW_SLICE_LIT("a"), 5 * SW_NS_PER_MS);
    sw_workqueue_add_after(w->q, SW_SLICE_LIT("a"), 50 * SW_NS_PER_MS);
    pass(w, 4 * SW_NS_PER_MS);
    assert_int_equal(sw_workqueue_len(w->q), 0);
    pass(w, 2 * SW_NS_PER_MS);
    take(w, "a");
    sw_workqueue_done(w->q, SW_SLICE_LIT("a"));
    pass(w, SW_NS_PER_S);
    assert_int_equal(sw_workqueue_len(w->q), 0);
    /* An add without delay overtakes one with. */
    sw_workqueue_add_after(w->q, SW_SLICE_LIT("b"), SW_NS_PER_S);
    sw_workqueue_add(w->q, SW_SLICE_LIT("b"));
    take(w, "b");
    sw_workqueue_done(w->q, SW_SLICE_LIT("b"));
    pass(w, 2 * SW_NS_PER_S);
    assert_int_equal(sw_workqueue_len(w->q), 0);
}

static void failures_back_off(void **state)
{
    struct queue_world *w = *state;
    uint64_t wait = 5 * SW_NS_PER_MS;

    for (unsigned i = 0; i < 6; i++) {
        sw_workqueue_add_rate_limited(w->q, SW_SLICE_LIT("a"));
        pass(w, wait - SW_NS_PER_MS);
        assert_int_equal(sw_workqueue_len(w->q), 0);
        pass(w, 2 * SW_NS_PER_MS);
        take(w, "a");
        sw_workqueue_done(w->q, SW_SLICE_LIT("a"));
        assert_int_equal(sw_workqueue_failures(w->q, SW_SLICE_LIT("a")), i + 1);
        wait *= 2;
    }
    sw_workqueue_forget(w->q, SW_SLICE_LIT("a"));
    assert_int_equal(sw_workqueue_failures(w->q, SW_SLICE_LIT("a")), 0);
    for (int i = 0; i < 100; i++)
        sw_workqueue_add_rate_limited(w->q, SW_SLICE_LIT("worst"));
    /* The common rate: 20 at once, then 10 per second. */
    pass(w, 100 * SW_NS_PER_S);
    for (int i = 0; i < 40; i++) {
        char key[8];

        (void)snprintf(key, sizeof(key), "k%d", i);
        sw_workqueue_add_rate_limited(w->q, sw_slice_str(key));
    }
    pass(w, 6 * SW_NS_PER_MS);
    assert_true(sw_workqueue_len(w->q) <= 21);
    pass(w, SW_NS_PER_S);
    assert_true(sw_workqueue_len(w->q) <= 31);
    pass(w, 10 * SW_NS_PER_S);
    assert_true(sw_workqueue_len(w->q) >= 40);
}

/* --- leases --- */

struct lease_world {
    struct bench b;
    char *record; /* the stored Lease, NULL: none */
    unsigned rv;
    bool refuse; /* the server is of no help */
    bool forbid; /* it may be read, not written */
    int puts;
    struct sw_lease *l[2];
    int led[2];
    int lost[2];
    int released;
};

static void on_lease_request(struct fake_conn *c, void *arg)
{
    struct lease_world *w = arg;
    SW_ARENA_AUTO a = {0};
    struct sw_json *v = NULL;
    struct sw_json *meta;
    char rv[16];
    char *reply;

    if (w->refuse) {
        fake_reply(c, 500, NULL, "{}");
        return;
    }
    if (strcmp(c->method, "GET") == 0) {
        if (w->record)
            fake_reply(c, 200, NULL, w->record);
        else
            fake_reply(c, 404, NULL, "{\"kind\":\"Status\",\"reason\":\"NotFound\"}");
        return;
    }
    if (strcmp(c->method, "PUT") == 0 && !w->record) {
        fake_reply(c, 404, NULL, "{\"kind\":\"Status\",\"reason\":\"NotFound\"}");
        return;
    }
    if (w->forbid) {
        fake_reply(c, 403, NULL, "{\"kind\":\"Status\",\"reason\":\"Forbidden\"}");
        return;
    }
    assert_int_equal(sw_json_parse(&a, sw_slice_str(c->body), NULL, &v, NULL), SW_OK);
    meta = sw_json_find(v, "metadata");
    (void)snprintf(rv, sizeof(rv), "%u", w->rv);
    if (strcmp(c->method, "POST") == 0
            ? w->record != NULL
            : !sw_json_str_eq(sw_json_find(meta, "resourceVersion"), rv)) {
        fake_reply(c, 409, NULL, "{\"kind\":\"Status\",\"reason\":\"Conflict\"}");
        return;
    }
    (void)snprintf(rv, sizeof(rv), "%u", ++w->rv);
    sw_json_put_str(&a, meta, "resourceVersion", sw_slice_str(rv));
    sw_free(w->record);
    w->record = sw_slice_dup(sw_json_text(&a, v, NULL));
    w->puts++;
    reply = sw_strdup(w->record);
    fake_reply(c, 200, NULL, reply);
    sw_free(reply);
}

static void led0(void *arg)
{
    ((struct lease_world *)arg)->led[0]++;
}

static void led1(void *arg)
{
    ((struct lease_world *)arg)->led[1]++;
}

static void lost0(void *arg)
{
    ((struct lease_world *)arg)->lost[0]++;
}

static void lost1(void *arg)
{
    ((struct lease_world *)arg)->lost[1]++;
}

static int lease_up(void **state)
{
    struct lease_world *w = SW_NEW(struct lease_world);

    assert_int_equal(sw_log_filter(SW_SLICE_LIT("off"), true, NULL), SW_OK);
    bench_open(&w->b, on_lease_request, w);
    for (int i = 0; i < 2; i++) {
        struct sw_lease_opts o = {.ns = SW_SLICE_LIT("kube-system"),
                                  .name = SW_SLICE_LIT("control"),
                                  .identity = i ? SW_SLICE_LIT("one") : SW_SLICE_LIT("zero"),
                                  .led = i ? led1 : led0,
                                  .lost = i ? lost1 : lost0,
                                  .arg = w};

        w->l[i] = sw_lease_new(w->b.client, &o, NULL);
        assert_non_null(w->l[i]);
    }
    *state = w;
    return 0;
}

static int lease_down(void **state)
{
    struct lease_world *w = *state;

    sw_lease_free(w->l[0]);
    sw_lease_free(w->l[1]);
    bench_close(&w->b);
    sw_free(w->record);
    sw_free(w);
    return 0;
}

/* Lets time pass in small steps; never two leaders. */
static void live(struct lease_world *w, uint64_t seconds)
{
    for (uint64_t i = 0; i < seconds * 100; i++) {
        test_now += 10 * SW_NS_PER_MS;
        for (int k = 0; k < 4; k++)
            sw_loop_turn(w->b.loop, 0);
        assert_false(w->l[0] && w->l[1] && sw_lease_is_leader(w->l[0]) &&
                     sw_lease_is_leader(w->l[1]));
    }
}

static const char *field(struct lease_world *w, struct sw_arena *a, const char *name)
{
    struct sw_json *v = NULL;

    assert_int_equal(sw_json_parse(a, sw_slice_str(w->record), NULL, &v, NULL), SW_OK);
    v = sw_json_walk(v, "spec", name, NULL);
    return v ? sw_arena_dup(a, v->text) : "";
}

static void one_leads_and_renews(void **state)
{
    struct lease_world *w = *state;
    SW_ARENA_AUTO a = {0};

    sw_lease_start(w->l[0]);
    live(w, 1);
    assert_true(sw_lease_is_leader(w->l[0]));
    sw_lease_start(w->l[1]);
    live(w, 60);
    assert_int_equal(w->led[0], 1);
    assert_int_equal(w->lost[0], 0);
    assert_int_equal(w->led[1], 0);
    assert_true(w->puts >= 25 && w->puts <= 32);
    assert_string_equal(field(w, &a, "holderIdentity"), "zero");
    assert_string_equal(field(w, &a, "leaseDurationSeconds"), "15");
    assert_string_equal(field(w, &a, "leaseTransitions"), "0");
    assert_true(sw_slice_eq_str(sw_lease_holder(w->l[1]), "zero"));
}

static void a_dead_leader_is_followed(void **state)
{
    struct lease_world *w = *state;
    SW_ARENA_AUTO a = {0};
    uint64_t began;

    sw_lease_start(w->l[0]);
    live(w, 1);
    sw_lease_start(w->l[1]);
    live(w, 10);
    sw_lease_free(w->l[0]); /* without a word */
    w->l[0] = NULL;
    began = test_now;
    while (!w->led[1] && test_now - began < 60 * SW_NS_PER_S)
        live(w, 1);
    /* Who waits looks every 2 to 4.4 s: at the last renewal, and 15 s after that look. */
    assert_true(test_now - began >= 12 * SW_NS_PER_S);
    assert_true(test_now - began <= 26 * SW_NS_PER_S);
    assert_string_equal(field(w, &a, "holderIdentity"), "one");
    assert_string_equal(field(w, &a, "leaseTransitions"), "1");
}

static void on_lease_released(void *arg)
{
    ((struct lease_world *)arg)->released++;
}

static void a_released_lease_is_taken_at_once(void **state)
{
    struct lease_world *w = *state;
    SW_ARENA_AUTO a = {0};

    sw_lease_start(w->l[0]);
    live(w, 1);
    sw_lease_start(w->l[1]);
    live(w, 5);
    sw_lease_release(w->l[0], on_lease_released, w);
    assert_false(sw_lease_is_leader(w->l[0]));
    live(w, 5);
    assert_int_equal(w->released, 1);
    assert_int_equal(w->lost[0], 0);
    assert_true(sw_lease_is_leader(w->l[1]));
    assert_string_equal(field(w, &a, "leaseDurationSeconds"), "15");
    /* Releasing what one does not have is no work. */
    sw_lease_release(w->l[0], on_lease_released, w);
    live(w, 1);
    assert_int_equal(w->released, 2);
}

static void a_leader_without_server_stops_in_time(void **state)
{
    struct lease_world *w = *state;

    sw_lease_start(w->l[0]);
    live(w, 3);
    assert_true(sw_lease_is_leader(w->l[0]));
    w->refuse = true;
    live(w, 7);
    assert_true(sw_lease_is_leader(w->l[0]));
    live(w, 4);
    assert_false(sw_lease_is_leader(w->l[0]));
    assert_int_equal(w->lost[0], 1);
    w->refuse = false;
    live(w, 6);
    assert_true(sw_lease_is_leader(w->l[0]));
    assert_int_equal(w->led[0], 2);
}

/* Clocks that differ by years must not matter: only what changes, and how long ago we saw it. */
static void foreign_clocks_do_not_matter(void **state)
{
    struct lease_world *w = *state;

    w->rv = 7;
    w->record =
        sw_strdup("{\"metadata\":{\"name\":\"control\",\"namespace\":\"kube-system\","
                  "\"resourceVersion\":\"7\"},\"spec\":{\"holderIdentity\":\"old\","
                  "\"leaseDurationSeconds\":30,\"renewTime\":\"1999-01-01T00:00:00.000000Z\","
                  "\"leaseTransitions\":41}}");
    sw_lease_start(w->l[0]);
    live(w, 28);
    assert_false(sw_lease_is_leader(w->l[0])); /* its 30 seconds are respected */
    live(w, 8);
    assert_true(sw_lease_is_leader(w->l[0]));
    assert_non_null(strstr(w->record, "\"leaseTransitions\":42"));
    /* Somebody took it over our heads: we notice and stop. */
    sw_free(w->record);
    w->rv = 90;
    w->record =
        sw_strdup("{\"metadata\":{\"name\":\"control\",\"namespace\":\"kube-system\","
                  "\"resourceVersion\":\"90\"},\"spec\":{\"holderIdentity\":\"thief\","
                  "\"leaseDurationSeconds\":15,\"renewTime\":\"2099-01-01T00:00:00.000000Z\"}}");
    live(w, 4);
    assert_false(sw_lease_is_leader(w->l[0]));
    assert_int_equal(w->lost[0], 1);
}

/* How often it was logged that no leader is possible. */
static size_t said(int fd)
{
    static char text[64 * 1024];
    ssize_t n;
    size_t found = 0;

    sw_log_flush();
    n = read(fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = 0;
    for (const char *p = text; (p = strstr(p, "cannot acquire, no leader")); p++)
        found++;
    return found;
}

static void a_right_that_is_missing_is_said_once(void **state)
{
    struct lease_world *w = *state;
    int fds[2];

    assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
    sw_log_start(fds[1], SW_LOG_PLAIN);
    assert_int_equal(sw_log_filter(SW_SLICE_LIT("warn"), true, NULL), SW_OK);
    sw_lease_start(w->l[0]);
    live(w, 3);
    assert_true(sw_lease_is_leader(w->l[0]));
    w->forbid = true; /* while it leads, and then for everybody */
    live(w, 60);
    assert_false(sw_lease_is_leader(w->l[0]));
    assert_int_equal(said(fds[0]), 1);
    w->forbid = false;
    live(w, 6);
    assert_true(sw_lease_is_leader(w->l[0]));
    sw_free(w->record); /* somebody deletes it: it is made anew, and nothing is said */
    w->record = NULL;
    live(w, 6);
    assert_true(sw_lease_is_leader(w->l[0]));
    assert_int_equal(said(fds[0]), 0);
    w->forbid = true;
    live(w, 20);
    assert_int_equal(said(fds[0]), 1);
    assert_int_equal(sw_log_filter(SW_SLICE_LIT("off"), true, NULL), SW_OK);
    sw_log_stop();
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void lease_options_are_checked(void **state)
{
    struct lease_world *w = *state;
    struct sw_err err = {0};

    assert_null(sw_lease_new(w->b.client,
                             &(struct sw_lease_opts){.ns = SW_SLICE_LIT("a"),
                                                     .name = SW_SLICE_LIT("b"),
                                                     .duration_s = 10},
                             &err));
    assert_null(sw_lease_new(w->b.client, &(struct sw_lease_opts){.ns = SW_SLICE_LIT("a")}, &err));
}

/* --- events --- */

struct event_world {
    struct bench b;
    struct sw_recorder *r;
    int posts;
    int patches;
    int status;
    char *last;
    bool forget; /* 404 to patches */
};

static void on_event_request(struct fake_conn *c, void *arg)
{
    struct event_world *w = arg;

    sw_free(w->last);
    w->last = sw_strdup(c->body);
    if (strcmp(c->method, "POST") == 0)
        w->posts++;
    else
        w->patches++;
    if (w->forget && strcmp(c->method, "POST") != 0)
        fake_reply(c, 404, NULL, "{}");
    else
        fake_reply(c, w->status, NULL, "{}");
}

static int event_up(void **state)
{
    struct event_world *w = SW_NEW(struct event_world);

    assert_int_equal(sw_log_filter(SW_SLICE_LIT("off"), true, NULL), SW_OK);
    bench_open(&w->b, on_event_request, w);
    w->status = 201;
    w->r = sw_recorder_new(w->b.client, "spanwire-test", "pod-0");
    *state = w;
    return 0;
}

static int event_down(void **state)
{
    struct event_world *w = *state;

    sw_recorder_free(w->r);
    bench_close(&w->b);
    sw_free(w->last);
    sw_free(w);
    return 0;
}

static void say(struct event_world *w, const char *name, const char *reason, const char *message)
{
    SW_ARENA_AUTO a = {0};
    char *text =
        sw_asprintf("{\"kind\":\"Gateway\",\"apiVersion\":\"gateway.networking.k8s.io/v1\","
                    "\"metadata\":{\"name\":\"%s\",\"namespace\":\"n\",\"uid\":\"u\"}}",
                    name);
    struct sw_json *v = NULL;

    assert_int_equal(sw_json_parse(&a, sw_slice_str(text), NULL, &v, NULL), SW_OK);
    sw_recorder_event(w->r, &(struct sw_event_about){.object = v}, SW_EVENT_WARNING, reason, "%s",
                      message);
    sw_free(text);
    bench_turns(&w->b, 30);
}

static void repetitions_are_counted(void **state)
{
    struct event_world *w = *state;

    say(w, "g", "Broken", "it broke");
    assert_int_equal(w->posts, 1);
    assert_non_null(strstr(w->last, "\"involvedObject\":{\"apiVersion\":\"gateway.networking"));
    assert_non_null(strstr(w->last, "\"count\":1"));
    assert_non_null(strstr(w->last, "\"type\":\"Warning\""));
    assert_non_null(strstr(w->last, "\"source\":{\"component\":\"spanwire-test\"}"));
    say(w, "g", "Broken", "it broke");
    say(w, "g", "Broken", "it broke");
    assert_int_equal(w->posts, 1);
    assert_int_equal(w->patches, 2);
    assert_non_null(strstr(w->last, "{\"count\":3,\"lastTimestamp\":"));
    /* The server forgot it: a new one. */
    w->forget = true;
    say(w, "g", "Broken", "it broke");
    assert_int_equal(w->posts, 2);
    assert_non_null(strstr(w->last, "\"count\":4"));
}

static void floods_are_combined(void **state)
{
    struct event_world *w = *state;

    for (int i = 0; i < 20; i++) {
        char text[32];

        (void)snprintf(text, sizeof(text), "number %d", i);
        say(w, "g", "Flood", text);
    }
    assert_int_equal(w->posts, 11); /* ten of their own, one for the rest */
    assert_int_equal(w->patches, 9);
    /* One object never says more than its share. */
    for (int i = 0; i < 50; i++)
        say(w, "g", "Flood", "same");
    assert_int_equal(w->posts + w->patches, 25);
    assert_true(sw_recorder_stats(w->r).dropped >= 40);
    say(w, "other", "Fine", "not affected");
    assert_int_equal(w->posts, 12);
}

static void refusals_are_final_and_outages_are_not(void **state)
{
    struct event_world *w = *state;

    w->status = 422;
    say(w, "g", "Denied", "x");
    assert_int_equal(w->posts, 1);
    assert_int_equal(sw_recorder_stats(w->r).dropped, 1);
    w->status = 500;
    say(w, "h", "Later", "y");
    w->status = 201;
    bench_until(&w->b, sw_recorder_stats(w->r).created == 1);
    assert_int_equal(w->posts, 3);
}

/* Without the right to write Events none is tried for a while. */
static void a_missing_right_pauses_events(void **state)
{
    struct event_world *w = *state;

    w->status = 403;
    say(w, "g", "Denied", "x");
    assert_int_equal(w->posts, 1);
    w->status = 201;
    say(w, "h", "Later", "y");
    assert_int_equal(w->posts, 1);
    assert_int_equal(sw_recorder_stats(w->r).dropped, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_wait_once, queue_up, queue_down),
        cmocka_unit_test_setup_teardown(delays, queue_up, queue_down),
        cmocka_unit_test_setup_teardown(failures_back_off, queue_up, queue_down),
        cmocka_unit_test_setup_teardown(one_leads_and_renews, lease_up, lease_down),
        cmocka_unit_test_setup_teardown(a_dead_leader_is_followed, lease_up, lease_down),
        cmocka_unit_test_setup_teardown(a_released_lease_is_taken_at_once, lease_up, lease_down),
        cmocka_unit_test_setup_teardown(a_leader_without_server_stops_in_time, lease_up,
                                        lease_down),
        cmocka_unit_test_setup_teardown(foreign_clocks_do_not_matter, lease_up, lease_down),
        cmocka_unit_test_setup_teardown(a_right_that_is_missing_is_said_once, lease_up, lease_down),
        cmocka_unit_test_setup_teardown(lease_options_are_checked, lease_up, lease_down),
        cmocka_unit_test_setup_teardown(repetitions_are_counted, event_up, event_down),
        cmocka_unit_test_setup_teardown(floods_are_combined, event_up, event_down),
        cmocka_unit_test_setup_teardown(refusals_are_final_and_outages_are_not, event_up,
                                        event_down),
        cmocka_unit_test_setup_teardown(a_missing_right_pauses_events, event_up, event_down),
    };

    return cmocka_run_group_tests_name("kube client tools", tests, NULL, NULL);
}
