/* SPDX-License-Identifier: Apache-2.0 */
/* The registration against a small API that refuses some calls for a while. */
#include "connector/reg/reg.h"

#include "base/log.h"
#include "quic/id/nodeid.h"

#include "../kube/test_kube_client.h"

struct api {
    struct bench b;
    struct sw_reg *reg;
    struct sw_rawkey *key;
    struct fake_conn *watch; /* of the Connector */
    bool lease_refused;      /* 503 */
    bool away;               /* 503 for everything */
    int refused;             /* so many */
    int attempts;            /* at the Lease */
    int renewals;
    int patches;     /* of the Connector's status */
    bool hold_patch; /* the next one waits, as 'patch' */
    struct fake_conn *patch;
    bool stopped;
};

static char *connector_text(const struct api *a)
{
    char id[SW_NODEID_HEX];

    return sw_asprintf(
        "{\"kind\":\"Connector\",\"apiVersion\":\"networking.datumapis.com/v1alpha1\",\"metadata\":"
        "{\"namespace\":\"n\",\"name\":\"laptop\",\"uid\":\"u1\",\"resourceVersion\":\"7\"},"
        "\"status\":{\"leaseRef\":{\"name\":\"laptop\"},\"connectionDetails\":{\"type\":"
        "\"PublicKey\",\"publicKey\":{\"id\":\"%s\",\"addresses\":[]}}}}",
        sw_nodeid_hex(sw_rawkey_id(a->key), id));
}

static void reply_list(struct fake_conn *c, const char *items)
{
    SW_AUTO_FREE char *text = sw_asprintf(
        "{\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[%s]}", items);

    fake_reply(c, 200, NULL, text);
}

static void serve_lease(struct api *a, struct fake_conn *c)
{
    a->attempts++;
    if (a->lease_refused) {
        fake_reply(c, 503, NULL, "{\"kind\":\"Status\",\"code\":503,\"message\":\"not yet\"}");
        return;
    }
    a->renewals += strcmp(c->method, "PATCH") == 0;
    fake_reply(c, 200, NULL,
               "{\"kind\":\"Lease\",\"metadata\":{\"name\":\"laptop\",\"resourceVersion\":\"9\"},"
               "\"spec\":{\"leaseDurationSeconds\":30}}");
}

static void on_request(struct fake_conn *c, void *arg)
{
    struct api *a = arg;
    SW_AUTO_FREE char *connector = connector_text(a);
    bool ours = !strstr(c->target, "connectoradvertisements");

    if (a->away) {
        a->refused++;
        fake_reply(c, 503, NULL, "{\"kind\":\"Status\",\"code\":503,\"message\":\"not yet\"}");
    } else if (strstr(c->target, "/leases/")) {
        serve_lease(a, c);
    } else if (strcmp(c->method, "PATCH") == 0) {
        a->patches++;
        if (a->hold_patch) {
            a->patch = c;
            return;
        }
        fake_reply(c, 200, NULL, connector);
    } else if (strstr(c->target, "sendInitialEvents")) {
        fake_reply(c, 422, NULL, "{\"kind\":\"Status\",\"reason\":\"Invalid\",\"code\":422}");
    } else if (strstr(c->target, "watch=")) {
        if (ours)
            a->watch = c;
        fake_stream_begin(c);
    } else {
        reply_list(c, ours ? connector : "");
    }
}

static void on_connector(void *arg, const struct sw_kube_obj *o)
{
    (void)arg;
    (void)o;
}

static void on_nothing(void *arg)
{
    (void)arg;
}

static void on_answered(void *arg, bool ok, int code, struct sw_slice message)
{
    (void)arg;
    (void)ok;
    (void)code;
    (void)message;
}

static void on_fatal(void *arg, const struct sw_err *err)
{
    (void)arg;
    fail_msg("%s", err->msg);
}

/* A device that holds its Lease, and whose next renewal is far away. */
static struct sw_details start(struct api *a)
{
    struct sw_details d = {0};

    *a = (struct api){.key = sw_rawkey_generate(NULL)};
    bench_open(&a->b, on_request, a);
    a->reg = sw_reg_new(a->b.client, &(struct sw_reg_opts){.ns = SW_SLICE_LIT("n"),
                                                           .name = SW_SLICE_LIT("laptop"),
                                                           .identity = SW_SLICE_LIT("me"),
                                                           .key = a->key,
                                                           .connector = on_connector,
                                                           .advertised = on_nothing,
                                                           .answered = on_answered,
                                                           .foreign = on_nothing,
                                                           .fatal = on_fatal,
                                                           .arg = a});
    d.id = *sw_rawkey_id(a->key);
    sw_reg_set_details(a->reg, &d);
    bench_until(&a->b, a->renewals == 1 && a->watch);
    return d;
}

/* n renewals in a row fail, the last of them now; others would succeed from here on. */
static uint64_t refuse(struct api *a, int n)
{
    a->lease_refused = true;
    a->attempts = 0;
    while (a->attempts < n) {
        test_now += 100 * SW_NS_PER_MS;
        bench_turns(&a->b, 20);
    }
    a->lease_refused = false;
    return test_now;
}

static void stop(struct api *a)
{
    sw_reg_free(a->reg);
    bench_close(&a->b);
    sw_rawkey_free(a->key);
}

/* The third failure in a row puts the next attempt off by 4 s at least. The Lease still counts. */
#define SOON_NS (2 * SW_NS_PER_S)

static void the_lease_is_renewed_when_a_watch_opens_again(void **state)
{
    struct api a;
    uint64_t last;

    (void)state;
    (void)start(&a);
    last = refuse(&a, 3);
    fake_stream_end(a.watch);
    a.watch = NULL;
    bench_until(&a.b, a.renewals == 2);
    assert_true(test_now - last < SOON_NS);
    stop(&a);
}

static void the_lease_is_renewed_when_another_call_succeeds(void **state)
{
    struct api a;
    struct sw_details d = start(&a);
    uint64_t last;
    int before;

    (void)state;
    last = refuse(&a, 3);
    before = a.patches;
    d.udp = true;
    sw_reg_set_details(a.reg, &d);
    bench_until(&a.b, a.patches > before && a.renewals == 2);
    assert_true(test_now - last < SOON_NS);
    stop(&a);
}

/* Also one that is not due: the Lease was written a moment ago, for half a minute. */
static void the_lease_is_renewed_when_the_api_is_back(void **state)
{
    struct api a;
    uint64_t begin;

    (void)state;
    (void)start(&a);
    begin = test_now;
    a.away = true;
    fake_stream_end(a.watch);
    a.watch = NULL;
    bench_until(&a.b, a.refused);
    assert_int_equal(a.renewals, 1);
    a.away = false;
    bench_until(&a.b, a.renewals == 2);
    assert_true(test_now - begin < 10 * SW_NS_PER_S);
    stop(&a);
}

/* The API was there all the time: it is not asked more often than before. */
static void a_lease_that_is_renewed_waits_for_its_time(void **state)
{
    struct api a;

    (void)state;
    (void)start(&a);
    for (int i = 0; i < 3; i++) {
        struct fake_conn *before = a.watch;

        test_now += 2 * SW_NS_PER_S; /* or the informer waits with the next one */
        fake_stream_end(before);
        a.watch = NULL;
        bench_until(&a.b, a.watch);
        bench_turns(&a.b, 50);
    }
    assert_int_equal(a.renewals, 1);
    stop(&a);
}

static void on_gone(struct fake_conn *c, void *arg)
{
    struct api *a = arg;

    if (c == a->patch)
        a->patch = NULL;
}

static void on_stopped(void *arg)
{
    struct api *a = arg;

    a->stopped = true;
}

/* It would replace what is written after the stop: the key of the device that gets its name back.
 */
static void a_stop_ends_the_patch_under_way(void **state)
{
    struct api a;
    struct sw_details d = start(&a);

    (void)state;
    a.b.server.on_gone = on_gone;
    a.hold_patch = true;
    d.udp = true;
    sw_reg_set_details(a.reg, &d);
    bench_until(&a.b, a.patch);
    sw_reg_stop(a.reg, on_stopped, &a);
    bench_until(&a.b, a.stopped);
    bench_turns(&a.b, 50);
    assert_null(a.patch);
    stop(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lease_is_renewed_when_a_watch_opens_again),
        cmocka_unit_test(the_lease_is_renewed_when_another_call_succeeds),
        cmocka_unit_test(the_lease_is_renewed_when_the_api_is_back),
        cmocka_unit_test(a_lease_that_is_renewed_waits_for_its_time),
        cmocka_unit_test(a_stop_ends_the_patch_under_way),
    };

    if (sw_log_filter(SW_SLICE_LIT("off"), true, NULL) != SW_OK)
        return 1;
    return cmocka_run_group_tests_name("reg", tests, NULL, NULL);
}
