/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "fixture.h"
#include "node/headers.h"

/* ---- baggage ---- */

static void baggage_describes_a_workload(void **state)
{
    STATE_AUTO s = load("workloads:\n"
                        "- {uid: u, namespace: default, clusterId: Kubernetes, services: {},\n"
                        "   workloadIps: [], workloadName: shell, workloadType: deployment,\n"
                        "   canonicalName: shell, canonicalRevision: latest,\n"
                        "   locality: {region: r1, zone: z1}}\n");
    SW_BUF_AUTO out = {.max = 512};
    struct sw_baggage b;
    struct sw_baggage again;

    (void)state;
    sw_baggage_of(workload(s, "u"), &b);
    assert_int_equal(sw_baggage_build(&b, &out), SW_OK);
    assert_slice(sw_buf_slice(&out),
                 "k8s.cluster.name=Kubernetes,k8s.namespace.name=default,"
                 "k8s.deployment.name=shell,service.name=shell,service.version=latest,"
                 "cloud.region=r1,cloud.availability_zone=z1");
    sw_baggage_parse(sw_buf_slice(&out), &again);
    assert_slice(again.cluster, "Kubernetes");
    assert_slice(again.ns, "default");
    assert_slice(again.workload_name, "shell");
    assert_slice(again.workload_type, "deployment");
    assert_slice(again.service_name, "shell");
    assert_slice(again.revision, "latest");
    assert_slice(again.region, "r1");
    assert_slice(again.zone, "z1");
}

static void baggage_leaves_out_what_it_cannot_carry(void **state)
{
    static const struct {
        struct sw_baggage b;
        const char *text;
    } cases[] = {
        {{.ns = S("")}, ""},
        {{.ns = S("a,b=c"), .cluster = S("k\r\nevil: 1"), .region = S("r")}, "cloud.region=r"},
        {{.workload_name = S("w")}, ""}, /* no type, no key */
        {{.workload_name = S("w"), .workload_type = S("job")}, "k8s.job.name=w"},
        {{.service_name = S("caf\xc3\xa9"), .revision = S("v1")}, "service.version=v1"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_BUF_AUTO out = {.max = 256};

        assert_int_equal(sw_baggage_build(&cases[i].b, &out), SW_OK);
        assert_slice(sw_buf_slice(&out), cases[i].text);
    }
}

static void baggage_stops_at_the_bound(void **state)
{
    const struct sw_baggage b = {.cluster = S("a-long-cluster-name")};
    SW_BUF_AUTO out = {.max = 8};

    (void)state;
    assert_int_equal(sw_baggage_build(&b, &out), SW_ELIMIT);
}

static void baggage_takes_what_it_understands(void **state)
{
    struct sw_baggage b;

    (void)state;
    sw_baggage_parse(S("unknown=1, k8s.namespace.name = ns ;p=1,,=,k8s.pod.name=a=b,"
                       "service.name=,cloud.region"),
                     &b);
    assert_slice(b.ns, "ns");
    assert_slice(b.workload_name, "a"); /* only the first piece */
    assert_slice(b.workload_type, "pod");
    assert_slice(b.service_name, "");
    assert_slice(b.region, "");
    sw_baggage_parse(S(""), &b);
    assert_slice(b.ns, "");
}

/* ---- forwarded ---- */

static void forwarded_is_built(void **state)
{
    static const struct {
        const char *client;
        struct sw_slice host;
        const char *text;
    } cases[] = {
        {"10.0.1.5:40000", S(""), "for=\"10.0.1.5:40000\""},
        {"10.0.1.5:40000", S("echo.default"), "for=\"10.0.1.5:40000\";host=echo.default"},
        {"[2001:db8::1]:1", S("h"), "for=\"[2001:db8::1]:1\";host=h"},
        {"10.0.1.5:1", S("a;for=1.1.1.1"), "for=\"10.0.1.5:1\""}, /* cannot smuggle */
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_addr a = addr(cases[i].client);
        SW_BUF_AUTO out = {.max = 256};
        struct sw_forwarded f;

        assert_int_equal(sw_forwarded_build(&a, cases[i].host, &out), SW_OK);
        assert_slice(sw_buf_slice(&out), cases[i].text);
        sw_forwarded_parse(sw_buf_slice(&out), &f);
        assert_true(f.has_for && sw_addr_eq(&f.client, &a));
    }
}

static void forwarded_is_parsed(void **state)
{
    static const struct {
        const char *text;
        const char *client; /* "" = none */
        const char *host;
    } cases[] = {
        {"", "", ""},
        {"for=1.2.3.4", "1.2.3.4:0", ""},
        {"For=\"[2001:db8::1]:80\" ; HOST = \"h.x\"", "[2001:db8::1]:80", "h.x"},
        {"for=[2001:db8::1]", "[2001:db8::1]:0", ""},
        {"for=unknown;host=a", "", "a"},
        {"for=_hidden", "", ""},
        {"for=1.1.1.1;for=2.2.2.2", "1.1.1.1:0", ""},
        {"for=1.1.1.1, for=2.2.2.2;host=b", "1.1.1.1:0", ""}, /* first element only */
        {"host=\"a,b\";for=3.3.3.3", "3.3.3.3:0", ""},        /* a comma inside quotes */
        {"host=\"open;for=3.3.3.3", "", ""},
        {"by=x;proto=http;host=h", "", "h"},
        {"host=caf\xc3\xa9", "", ""},
        {"host=", "", ""},
        {";;;=;for", "", ""},
        {"for=\"1.2.3.4:99999\"", "", ""},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_forwarded f;
        char text[SW_ADDR_TEXT] = "";

        sw_forwarded_parse(sw_slice_str(cases[i].text), &f);
        if (f.has_for)
            (void)sw_addr_text(&f.client, text);
        assert_string_equal(text, cases[i].client);
        assert_slice(f.host, cases[i].host);
    }
}

/* ---- traceparent ---- */

static void traceparents_are_checked(void **state)
{
    static const char good[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    static const char *const bad[] = {
        "",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331x01",
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "0-00af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "-------------------------------------------------------",
        "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
    };
    struct sw_trace t = {.flags = 9};
    char text[SW_TRACE_TEXT];

    (void)state;
    assert_true(sw_trace_parse(sw_slice_str(good), &t));
    assert_int_equal(t.trace_id[0], 0x0a);
    assert_int_equal(t.span_id[7], 0x31);
    assert_int_equal(t.flags, 1);
    assert_string_equal(sw_trace_text(&t, text), good);
    t.flags = 9;
    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++) {
        if (sw_trace_parse(sw_slice_str(bad[i]), &t))
            fail_msg("'%s' was taken", bad[i]);
    }
    assert_int_equal(t.flags, 9); /* untouched */
}

static void traces_continue_or_begin(void **state)
{
    static const uint8_t random[24] = {1, 2, 3, [16] = 7, 8, 9};
    static const uint8_t zero[24];
    const struct sw_trace parent = {.trace_id = {0xaa}, .span_id = {0xbb}, .flags = 1};
    struct sw_trace t;
    char text[SW_TRACE_TEXT];

    (void)state;
    sw_trace_make(NULL, random, &t);
    assert_string_equal(sw_trace_text(&t, text),
                        "00-01020300000000000000000000000000-0708090000000000-00");
    sw_trace_make(&parent, random, &t);
    assert_string_equal(sw_trace_text(&t, text),
                        "00-aa000000000000000000000000000000-0708090000000000-01");
    sw_trace_make(NULL, zero, &t); /* zero ids are reserved */
    assert_true(sw_trace_parse(sw_slice_str(sw_trace_text(&t, text)), &t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(baggage_describes_a_workload),
        cmocka_unit_test(baggage_leaves_out_what_it_cannot_carry),
        cmocka_unit_test(baggage_stops_at_the_bound),
        cmocka_unit_test(baggage_takes_what_it_understands),
        cmocka_unit_test(forwarded_is_built),
        cmocka_unit_test(forwarded_is_parsed),
        cmocka_unit_test(traceparents_are_checked),
        cmocka_unit_test(traces_continue_or_begin),
    };

    return cmocka_run_group_tests_name("headers", tests, NULL, NULL);
}
