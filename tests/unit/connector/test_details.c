/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "connector/details.h"
#include "connector/hold.h"
#include "connector/unit.h"

#define NOW (UINT64_C(1794744000) * SW_NS_PER_S) /* 2026-11-15T12:00:00Z */

static struct sw_json *parse(struct sw_arena *a, const char *text)
{
    struct sw_json *v;
    struct sw_err err = {0};

    if (sw_json_parse(a, sw_slice_str(text), NULL, &v, &err) != SW_OK)
        fail_msg("%s", err.msg);
    return v;
}

static struct sw_details example(void)
{
    struct sw_details d = {
        .tcp = true, .udp = true, .relay = SW_SLICE_LIT("http://r.example:3340")};

    for (size_t i = 0; i < SW_NODEID_LEN; i++)
        d.id.b[i] = (uint8_t)i;
    d.addrs.n = 2;
    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("203.0.113.9:4000"), &d.addrs.a[0], NULL), SW_OK);
    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("[2001:db8::5]:4001"), &d.addrs.a[1], NULL), SW_OK);
    return d;
}

/* The object after a merge patch of its status: what the API would show. */
static struct sw_json *merged(struct sw_arena *a, const struct sw_json *patch)
{
    struct sw_json *o = sw_json_new_object(a);
    struct sw_json *s = sw_json_copy(a, patch);
    struct sw_json *key = sw_json_walk(s, "connectionDetails", "publicKey", NULL);

    if (key && sw_json_is(sw_json_find(key, "homeRelay"), SW_JSON_NULL))
        (void)sw_json_remove(key, SW_SLICE_LIT("homeRelay"));
    sw_json_put(a, o, "status", s);
    return o;
}

static void test_the_status_is_patched_only_when_it_differs(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_details d = example();
    struct sw_json *patch = sw_details_patch(&a, &d, sw_json_new_object(&a), NOW);
    struct sw_json *obj;
    const struct sw_json *key;

    (void)state;
    assert_non_null(patch);
    key = sw_json_walk(patch, "connectionDetails", "publicKey", NULL);
    assert_true(sw_json_str_eq(sw_json_find(key, "id"),
                               "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"));
    assert_true(sw_json_str_eq(sw_json_find(key, "discoveryMode"), "DNS"));
    assert_true(sw_json_str_eq(sw_json_find(key, "homeRelay"), "http://r.example:3340"));
    assert_true(sw_json_str_eq(
        sw_json_find(sw_json_at(sw_json_find(key, "addresses"), 1), "address"), "2001:db8::5"));
    obj = merged(&a, patch);
    /* A day later nothing has to be said. */
    assert_null(sw_details_patch(&a, &d, obj, NOW + 86400 * SW_NS_PER_S));
    d.addrs.n = 1;
    patch = sw_details_patch(&a, &d, obj, NOW);
    assert_non_null(sw_json_find(patch, "connectionDetails"));
    assert_null(sw_json_find(patch, "capabilities"));
}

/* An API may drop them: then they are not written again and again. */
static void test_paths_are_written_when_they_are_news(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_details d = example();
    struct sw_json *obj = merged(&a, sw_details_patch(&a, &d, sw_json_new_object(&a), NOW));
    struct sw_json *patch;
    const struct sw_json *path;

    (void)state;
    assert_null(sw_details_patch(&a, &d, obj, NOW));
    d.n_paths = 2;
    d.paths[0].rtt_us = 1500;
    d.paths[0].since_ns = NOW;
    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("203.0.113.9:4433"), &d.paths[0].address, NULL),
                     SW_OK);
    assert_null(sw_details_patch(&a, &d, obj, NOW));
    d.write_paths = true;
    patch = sw_details_patch(&a, &d, obj, NOW);
    assert_null(sw_json_walk(patch, "connectionDetails", "publicKey", NULL));
    path = sw_json_at(sw_json_walk(patch, "connectionDetails", "paths", NULL), 0);
    assert_true(sw_json_str_eq(sw_json_find(path, "type"), "Direct"));
    assert_true(sw_json_str_eq(sw_json_find(path, "address"), "203.0.113.9:4433"));
    path = sw_json_at(sw_json_walk(patch, "connectionDetails", "paths", NULL), 1);
    assert_true(sw_json_str_eq(sw_json_find(path, "type"), "Relay"));
    assert_null(sw_json_find(path, "address"));
    assert_null(sw_json_find(path, "note"));
    d.paths[0].note = d.paths[1].note = "both NATs are symmetric";
    patch = sw_details_patch(&a, &d, obj, NOW);
    path = sw_json_at(sw_json_walk(patch, "connectionDetails", "paths", NULL), 0);
    assert_null(sw_json_find(path, "note"));
    path = sw_json_at(sw_json_walk(patch, "connectionDetails", "paths", NULL), 1);
    assert_true(sw_json_str_eq(sw_json_find(path, "note"), "both NATs are symmetric"));
}

static void test_a_path_changes_with_its_round_trip_and_its_note(void **state)
{
    static const struct {
        uint64_t was_us;
        uint64_t now_us;
        const char *was;
        const char *now;
        bool changed;
    } cases[] = {
        {30000, 30000, NULL, "", false},    {30000, 59999, NULL, "", true},
        {30000, 50000, NULL, "", false},    {30000, 50001, NULL, "", true},
        {30000, 14999, NULL, "", true},     {30000, 15001, NULL, "", false},
        {100000, 79000, NULL, "", true},    {100000, 119000, NULL, "", false},
        {5000, 9999, NULL, "", false},      {5000, 10000, NULL, "", true},
        {200, 900, NULL, "", false},        {200, 1200, NULL, "", true},
        {0, 1000, NULL, "", true},          {30000, 30000, "", "why", true},
        {30000, 30000, "why", "", true},    {30000, 30000, "why", "why", false},
        {30000, 30000, "why", "who", true},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_details_path p = {.rtt_us = cases[i].was_us, .note = cases[i].was};

        assert_int_equal(sw_details_path_changed(&p, cases[i].now_us, cases[i].now),
                         cases[i].changed);
    }
}

static bool is_even(void *arg, const struct sw_nodeid *gateway)
{
    (*(size_t *)arg)++;
    return gateway->b[0] % 2 == 0;
}

static void test_paths_of_gateways_that_are_gone_are_dropped(void **state)
{
    struct sw_details_path paths[5] = {0};
    size_t asked = 0;

    (void)state;
    for (uint8_t i = 0; i < 5; i++) {
        paths[i].gateway.b[0] = i;
        paths[i].rtt_us = i;
    }
    assert_int_equal(sw_details_paths_keep(paths, 5, is_even, &asked), 3);
    assert_int_equal(asked, 5);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(paths[i].rtt_us, 2 * i);
    assert_int_equal(sw_details_paths_keep(paths, 0, is_even, &asked), 0);
}

static void test_a_relay_that_went_is_taken_out(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_details d = example();
    struct sw_json *obj = merged(&a, sw_details_patch(&a, &d, sw_json_new_object(&a), NOW));
    struct sw_json *patch;

    (void)state;
    d.relay = sw_slice(NULL, 0);
    patch = sw_details_patch(&a, &d, obj, NOW);
    assert_true(sw_json_is(sw_json_walk(patch, "connectionDetails", "publicKey", "homeRelay", NULL),
                           SW_JSON_NULL));
    obj = merged(&a, patch);
    sw_json_put(&a, sw_json_find(obj, "status"), "capabilities",
                sw_details_capabilities(&a, &d, NULL, NOW));
    assert_null(sw_details_patch(&a, &d, obj, NOW));
}

static void test_a_capability_keeps_the_time_of_its_change(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_details d = example();
    struct sw_json *was = sw_details_capabilities(&a, &d, NULL, NOW);
    struct sw_json *now;

    (void)state;
    d.udp = false;
    now = sw_details_capabilities(&a, &d, was, NOW + SW_NS_PER_S);
    assert_true(sw_json_equal(sw_json_at(was, 0), sw_json_at(now, 0), SW_JSON_EQ_TEXT));
    assert_true(sw_json_str_eq(
        sw_json_find(sw_json_at(sw_json_find(sw_json_at(now, 1), "conditions"), 0), "status"),
        "False"));
    assert_true(
        sw_json_str_eq(sw_json_find(sw_json_at(sw_json_find(sw_json_at(now, 1), "conditions"), 0),
                                    "lastTransitionTime"),
                       "2026-11-15T12:00:01Z"));
}

static void test_new_connectors_and_choices(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *o =
        sw_details_connector(&a, SW_SLICE_LIT("default"), SW_SLICE_LIT(""), SW_SLICE_LIT("k"),
                             SW_SLICE_LIT("mac.local"), SW_SLICE_LIT("Linux"));
    const struct sw_json *list = parse(
        &a, "{\"items\":[{\"metadata\":{\"name\":\"b\",\"creationTimestamp\":\"2026-01-02\"}},"
            "{\"metadata\":{\"name\":\"a\",\"creationTimestamp\":\"2026-01-01\"}},"
            "{\"metadata\":{\"name\":\"c\",\"creationTimestamp\":\"2025-01-01\","
            "\"deletionTimestamp\":\"2026-01-01\"}}]}");

    (void)state;
    assert_true(
        sw_json_str_eq(sw_json_walk(o, "metadata", "generateName", NULL), "datum-connect-"));
    assert_true(sw_json_str_eq(
        sw_json_walk(o, "metadata", "annotations", "datum.net/device-name", NULL), "mac"));
    assert_true(sw_slice_eq_str(sw_details_pick_class(list), "b"));
    assert_true(sw_json_str_eq(
        sw_json_walk(sw_details_pick_connector(list, SW_SLICE_LIT("")), "metadata", "name", NULL),
        "a"));
    assert_true(sw_json_str_eq(
        sw_json_walk(sw_details_pick_connector(list, SW_SLICE_LIT("b")), "metadata", "name", NULL),
        "b"));
    assert_null(sw_details_pick_connector(parse(&a, "{\"items\":[]}"), SW_SLICE_LIT("")));
    list = parse(&a, "{\"items\":[{\"metadata\":{\"name\":\"x\"}},{\"metadata\":{\"name\":"
                     "\"datum-connect\"}}]}");
    assert_true(sw_slice_eq_str(sw_details_pick_class(list), "datum-connect"));
    assert_int_equal(sw_details_pick_class(parse(&a, "{}")).n, 0);
}

static void test_leases_in_other_hands(void **state)
{
    static const struct {
        const char *lease;
        bool foreign;
    } rows[] = {
        {"{\"spec\":{}}", false},
        {"{\"spec\":{\"holderIdentity\":\"me\",\"renewTime\":\"2026-11-15T12:00:00.000000Z\"}}",
         false},
        {"{\"spec\":{\"holderIdentity\":\"you\",\"renewTime\":\"2026-11-15T11:59:50.000000Z\","
         "\"leaseDurationSeconds\":30}}",
         true},
        {"{\"spec\":{\"holderIdentity\":\"you\",\"renewTime\":\"2026-11-15T11:59:10.000000Z\","
         "\"leaseDurationSeconds\":30}}",
         false},
        {"{\"spec\":{\"holderIdentity\":\"you\",\"renewTime\":\"2026-11-15T13:59:10.000000Z\"}}",
         true},
        {"{\"spec\":{\"holderIdentity\":\"you\"}}", false},
        {"{\"spec\":{\"holderIdentity\":\"\",\"renewTime\":\"2026-11-15T12:00:00.000000Z\"}}",
         false},
        {"{\"spec\":{\"holderIdentity\":\"you\",\"renewTime\":\"2020-11-15T12:00:00+02:00\"}}",
         true},
    };
    SW_ARENA_AUTO a = {0};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        if (sw_hold_foreign(parse(&a, rows[i].lease), SW_SLICE_LIT("me"), NOW) != rows[i].foreign)
            fail_msg("%s", rows[i].lease);
    }
    assert_int_equal(sw_hold_duration_s(parse(&a, "{\"spec\":{\"leaseDurationSeconds\":-1}}")), 30);
    for (uint64_t r = 0; r < 20; r++) {
        uint64_t ns = sw_hold_interval_ns(30, r * 987654321);

        assert_true(ns >= 15 * SW_NS_PER_S && ns < 18 * SW_NS_PER_S);
        ns = sw_hold_interval_ns(1, r * 987654321);
        assert_true(ns >= SW_NS_PER_S && ns < 2 * SW_NS_PER_S);
    }
}

static void test_units_quote_what_systemd_would_read(void **state)
{
    const char *args[] = {"--allow", "a\"b\\c", "50%", "$HOME x"};
    struct sw_unit u = {.name = "spanwire-connector",
                        .program = "/opt/my bin/spanwire",
                        .args = args,
                        .n_args = SW_ARRAY_LEN(args),
                        .directory = "/home/u/100%",
                        .kubeconfig = "/home/u/k c"};
    SW_BUF_AUTO out = {.max = 1 << 16};
    SW_AUTO_FREE char *text = NULL;

    (void)state;
    assert_int_equal(sw_unit_write(&u, &out, NULL), SW_OK);
    text = sw_buf_take_str(&out);
    assert_non_null(strstr(text, "\nExecStart=\"/opt/my bin/spanwire\" connector run \"--allow\" "
                                 "\"a\\\"b\\\\c\" \"50%%\" \"$$HOME x\"\n"));
    assert_non_null(strstr(text, "\nWorkingDirectory=/home/u/100%%\n"));
    assert_non_null(strstr(text, "\nEnvironment=\"KUBECONFIG=/home/u/k c\"\n"));
    args[0] = "two\nlines";
    assert_int_equal(sw_unit_write(&u, &out, NULL), SW_EINVAL);
    args[0] = "--open";
    u.name = "../evil";
    assert_int_equal(sw_unit_write(&u, &out, NULL), SW_EINVAL);
}

/* What the patch does is RFC 7396: members that are null go. */
static void test_undo(void **state)
{
    SW_ARENA_AUTO a = {0};
    static const struct {
        const char *before;
        const char *now;
        const char *patch;
    } cases[] = {
        {"{\"k\":{\"id\":\"a\",\"l\":[1]}}",
         "{\"k\":{\"id\":\"b\",\"l\":[2,3],\"r\":\"u\"},\"p\":[]}",
         "{\"k\":{\"id\":\"a\",\"l\":[1],\"r\":null},\"p\":null}"},
        {"{\"k\":{\"id\":\"a\"}}", "{}", "{\"k\":{\"id\":\"a\"}}"},
        {"{}", "{\"k\":{\"id\":\"a\"}}", "{\"k\":null}"},
        {"{\"k\":1}", "{\"k\":{\"id\":\"a\"}}", "{\"k\":1}"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++)
        assert_string_equal(
            sw_json_text(
                &a, sw_details_undo(&a, parse(&a, cases[i].before), parse(&a, cases[i].now)), NULL)
                .p,
            cases[i].patch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_undo),
        cmocka_unit_test(test_the_status_is_patched_only_when_it_differs),
        cmocka_unit_test(test_paths_are_written_when_they_are_news),
        cmocka_unit_test(test_a_path_changes_with_its_round_trip_and_its_note),
        cmocka_unit_test(test_paths_of_gateways_that_are_gone_are_dropped),
        cmocka_unit_test(test_a_relay_that_went_is_taken_out),
        cmocka_unit_test(test_a_capability_keeps_the_time_of_its_change),
        cmocka_unit_test(test_new_connectors_and_choices),
        cmocka_unit_test(test_leases_in_other_hands),
        cmocka_unit_test(test_units_quote_what_systemd_would_read),
    };

    return cmocka_run_group_tests_name("connector_details", tests, NULL, NULL);
}
