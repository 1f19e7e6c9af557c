/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "connector/expose/expose_int.h"
#include "connector/expose/objects.h"
#include "connector/expose/view.h"
#include "kube/names.h"

static struct sw_json *parse(struct sw_arena *a, const char *text)
{
    struct sw_json *v;
    struct sw_err err = {0};

    if (sw_json_parse(a, sw_slice_str(text), NULL, &v, &err) != SW_OK)
        fail_msg("%s: %s", err.msg, text);
    return v;
}

static void test_targets(void **state)
{
    static const struct {
        const char *in;
        const char *url; /* NULL: refused */
        const char *host;
        unsigned port;
    } rows[] = {
        {"3000", "http://127.0.0.1:3000", "127.0.0.1", 3000},
        {"localhost:8080", "http://localhost:8080", "localhost", 8080},
        {"[::1]:8080", "http://[::1]:8080", "::1", 8080},
        {"http://nas.lan", "http://nas.lan:80", "nas.lan", 80},
        {"http://nas.lan/", "http://nas.lan:80", "nas.lan", 80},
        {"https://nas.lan", "https://nas.lan:443", "nas.lan", 443},
        {"https://[fd00::1]:8443", "https://[fd00::1]:8443", "fd00::1", 8443},
        {"http://[::1]", "http://[::1]:80", "::1", 80},
        {"tcp://localhost:22", "tcp://localhost:22", "localhost", 22},
        {"tcp://[::1]:22", "tcp://[::1]:22", "::1", 22},
        {"tcp://localhost", NULL, NULL, 0},
        {"tcp://localhost:22/", NULL, NULL, 0},
        {"tcp://:22", NULL, NULL, 0},
        {"tcp://", NULL, NULL, 0},
        {"0", NULL, NULL, 0},
        {"65536", NULL, NULL, 0},
        {"", NULL, NULL, 0},
        {"nas", NULL, NULL, 0},
        {"http://nas/path", NULL, NULL, 0},
        {"http://u@nas", NULL, NULL, 0},
        {"ftp://nas:21", NULL, NULL, 0},
        {"http://", NULL, NULL, 0},
        {"http://nas:0", NULL, NULL, 0},
        {"http://nas?x", NULL, NULL, 0},
    };
    SW_ARENA_AUTO a = {0};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        struct sw_target t = {0};
        int rc = sw_target_parse(&a, sw_slice_str(rows[i].in), &t, NULL);

        if ((rc == SW_OK) != (rows[i].url != NULL))
            fail_msg("'%s'", rows[i].in);
        if (rc != SW_OK)
            continue;
        assert_string_equal(t.url, rows[i].url);
        assert_true(sw_slice_eq_str(t.host, rows[i].host));
        assert_int_equal(t.port, rows[i].port);
    }
    assert_string_equal(sw_target_name(&a, SW_SLICE_LIT("My_Laptop.lan"), 3000), "my-laptop-3000");
    assert_string_equal(sw_target_name(&a, SW_SLICE_LIT("---"), 1), "device-1");
    assert_int_equal(
        sw_name_dns1123_label(
            sw_slice_str(sw_target_name(
                &a, SW_SLICE_LIT("x123456789012345678901234567890123456789012345678901234567890"),
                65535)))
            .n,
        0);
}

static void test_objects(void **state)
{
    static const char proxy[] =
        "{\"apiVersion\":\"networking.datumapis.com/v1alpha\",\"kind\":\"HTTPProxy\",\"metadata\":{"
        "\"namespace\":\"default\",\"name\":\"web\",\"annotations\":{\"app.kubernetes.io/name\":"
        "\"My app\"}},\"spec\":{\"hostnames\":[\"a.example\"],\"rules\":[{\"matches\":[{\"path\":{"
        "\"type\":\"PathPrefix\",\"value\":\"/\"},\"headers\":[{\"type\":\"Exact\",\"name\":"
        "\"x-forwarded-proto\",\"value\":\"http\"}]}],\"filters\":[{\"type\":\"RequestRedirect\","
        "\"requestRedirect\":{\"scheme\":\"https\",\"statusCode\":301}}]},{\"matches\":[{\"path\":{"
        "\"type\":\"PathPrefix\",\"value\":\"/\"}}],\"backends\":[{\"endpoint\":"
        "\"http://127.0.0.1:3000\",\"connector\":{\"name\":\"dev\"}}]}]}}";
    static const char advert[] =
        "{\"apiVersion\":\"networking.datumapis.com/v1alpha1\",\"kind\":\"ConnectorAdvertisement\","
        "\"metadata\":{\"namespace\":\"default\",\"name\":\"web\"},\"spec\":{\"connectorRef\":{"
        "\"name\":\"dev\"},\"layer4\":[{\"name\":\"default\",\"services\":[{\"address\":"
        "\"127.0.0.1\",\"ports\":[{\"name\":\"tcp-3000\",\"port\":3000,\"protocol\":\"TCP\"}]}]}]}"
        "}";
    SW_ARENA_AUTO a = {0};
    struct sw_expose_spec s = {.ns = SW_SLICE_LIT("default"),
                               .name = SW_SLICE_LIT("web"),
                               .label = SW_SLICE_LIT("My app"),
                               .connector = SW_SLICE_LIT("dev"),
                               .hostnames = parse(&a, "[\"a.example\"]"),
                               .redirect = true};
    struct sw_json *o;

    (void)state;
    assert_int_equal(sw_target_parse(&a, SW_SLICE_LIT("3000"), &s.target, NULL), SW_OK);
    o = sw_expose_proxy(&a, &s);
    assert_string_equal(sw_json_text(&a, o, NULL).p, proxy);
    assert_true(sw_slice_eq_str(sw_expose_connector_of(o), "dev"));
    assert_string_equal(sw_json_text(&a, sw_expose_advertisement(&a, &s), NULL).p, advert);
    s.redirect = false;
    assert_int_equal(sw_target_parse(&a, SW_SLICE_LIT("https://127.0.0.1:8443"), &s.target, NULL),
                     SW_OK);
    o = sw_expose_proxy(&a, &s);
    assert_true(sw_json_str_eq(
        sw_json_walk(
            sw_json_at(
                sw_json_find(sw_json_at(sw_json_walk(o, "spec", "rules", NULL), 0), "backends"), 0),
            "tls", "hostname", NULL),
        "localhost"));
}

static const char *note(const struct sw_json *o, const char *key)
{
    return sw_json_str(sw_json_walk(o, "metadata", "annotations", key, NULL)).p;
}

/* Bytes: the annotation says what for, and the rule's name says it again. */
static void test_tcp_objects(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_expose_spec s = {.ns = SW_SLICE_LIT("default"),
                               .name = SW_SLICE_LIT("db"),
                               .connector = SW_SLICE_LIT("db"),
                               .ca_pem = SW_SLICE_LIT("a certificate")};
    struct sw_json *o;

    (void)state;
    assert_int_equal(sw_target_parse(&a, SW_SLICE_LIT("tcp://[::1]:22"), &s.target, NULL), SW_OK);
    o = sw_expose_proxy(&a, &s);
    assert_string_equal(note(o, "spanwire.dev/layer4"), "TCP");
    assert_string_equal(note(o, "spanwire.dev/backend-ca-pem"), "a certificate");
    assert_string_equal(sw_json_text(&a, sw_json_find(o, "spec"), NULL).p,
                        "{\"rules\":[{\"name\":\"tcp\",\"matches\":[{\"path\":{\"type\":"
                        "\"PathPrefix\",\"value\":\"/\"}}],\"backends\":[{\"endpoint\":"
                        "\"http://[::1]:22\",\"connector\":{\"name\":\"db\"}}]}]}");
    s.public_port = 20022;
    o = sw_expose_proxy(&a, &s);
    assert_string_equal(note(o, "spanwire.dev/layer4"), "TCP/20022");
    s.public_port = 0;
    s.hostnames = parse(&a, "[\"db.example\"]");
    o = sw_expose_proxy(&a, &s);
    assert_string_equal(note(o, "spanwire.dev/layer4"), "TLS");
}

#define C(type, status, reason)                                                                    \
    "{\"type\":\"" type "\",\"status\":\"" status "\",\"reason\":\"" reason                        \
    "\",\"message\":\"m " type "\",\"observedGeneration\":2}"

static void test_readiness(void **state)
{
    static const char ready[] = "{\"status\":{\"conditions\":[" C("Ready", "True", "R") "]}}";
    SW_ARENA_AUTO a = {0};
    struct sw_expose_state s;
    const struct sw_json *ok = parse(
        &a, "{\"metadata\":{\"generation\":2},\"status\":{\"conditions\":[" C(
                "Accepted", "True", "A") "," C("Programmed", "True",
                                               "P") "," C("CertificatesReady", "False", "P") "]}}");
    const struct sw_json *old =
        parse(&a, "{\"metadata\":{\"generation\":3},\"status\":{\"conditions\":[" C(
                      "Accepted", "True", "A") "," C("Programmed", "True", "P") "]}}");
    const struct sw_json *bad =
        parse(&a, "{\"status\":{\"conditions\":[" C("Accepted", "False", "Invalid") "]}}");
    const struct sw_json *was_bad =
        parse(&a, "{\"metadata\":{\"generation\":3},\"status\":{\"conditions\":[" C(
                      "Accepted", "False", "Invalid") "," C("HostnamesInUse", "True", "H") "]}}");
    const struct sw_json *deferred =
        parse(&a, "{\"status\":{\"conditions\":[" C("Ready", "True", "R") "," C(
                      "IrohDNSPublished", "False", "DeferredToOwner") "]}}");

    (void)state;
    sw_expose_judge(ok, parse(&a, ready), false, &s);
    assert_true(s.ready);
    assert_int_equal(s.failed.n, 0);
    assert_false(s.lost);
    sw_expose_judge(ok, parse(&a, ready), true, &s); /* HTTPS is wanted */
    assert_false(s.ready);
    assert_true(sw_slice_eq_str(s.waiting, "m CertificatesReady"));
    sw_expose_judge(ok, NULL, false, &s);
    assert_false(s.ready);
    assert_true(s.done[SW_EXPOSE_PROXY_ACCEPTED]);
    assert_false(s.done[SW_EXPOSE_CONNECTOR_READY]);
    sw_expose_judge(old, parse(&a, ready), false, &s);
    assert_false(s.ready);
    sw_expose_judge(bad, NULL, false, &s);
    assert_true(sw_slice_eq_str(s.failed, "m Accepted"));
    assert_false(s.lost);
    sw_expose_judge(was_bad, NULL, false, &s); /* a verdict on what was asked for before */
    assert_int_equal(s.failed.n, 0);
    sw_expose_judge(ok, deferred, false, &s);
    assert_true(sw_slice_eq_str(s.failed, "m IrohDNSPublished"));
    assert_true(s.lost);
}

#define N(name, status, reason)                                                                    \
    "{\"hostname\":\"" name "\",\"conditions\":[" C("Available", status, reason) "]}"

/* Names are claimed beside those that are there, and judged one by one. */
static void test_names(void **state)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_json *before = parse(&a, "[\"a.x\",\"b.x\"]");
    const struct sw_json *wanted = parse(&a, "[\"b.x\",\"c.x\"]");
    struct sw_json *many = sw_json_new_array(&a);
    struct sw_slice name = {0};
    struct sw_slice message = {0};
    const struct sw_json *p = parse(
        &a, "{\"metadata\":{\"generation\":2},\"status\":{\"conditions\":[" C(
                "Accepted", "True",
                "A") "],\"hostnameStatuses\":[" N("a.x", "False",
                                                  "InUse") "," N("b.x", "True",
                                                                 "Claimed") "," N("c.x", "False",
                                                                                  "InUse") "]}}");
    const struct sw_json *old =
        parse(&a, "{\"metadata\":{\"generation\":3},\"status\":{\"conditions\":[" C(
                      "Accepted", "True", "A") "],\"hostnameStatuses\":[" N("c.x", "False",
                                                                            "InUse") "]}}");

    (void)state;
    assert_string_equal(sw_json_text(&a, sw_expose_union(&a, before, wanted), NULL).p,
                        "[\"a.x\",\"b.x\",\"c.x\"]");
    for (int i = 0; i < 16; i++)
        sw_json_push(&a, many, sw_json_new_str(&a, sw_arena_printf(&a, "n%d.x", i)));
    assert_non_null(sw_expose_union(&a, NULL, many));
    assert_null(sw_expose_union(&a, before, many));
    assert_int_equal(sw_expose_names(p, wanted, &name), SW_EXPOSE_NAMES_TAKEN);
    assert_true(sw_slice_eq_str(name, "c.x"));
    assert_true(sw_expose_name_taken(p, name, &message));
    assert_true(sw_slice_eq_str(message, "m Available"));
    assert_false(sw_expose_name_taken(p, SW_SLICE_LIT("b.x"), &message));
    assert_false(sw_expose_name_taken(p, SW_SLICE_LIT("d.x"), &message));
    assert_int_equal(sw_expose_names(p, parse(&a, "[\"b.x\"]"), &name), SW_EXPOSE_NAMES_OURS);
    assert_int_equal(sw_expose_names(p, parse(&a, "[\"d.x\"]"), &name), SW_EXPOSE_NAMES_PENDING);
    assert_int_equal(sw_expose_names(old, wanted, &name), SW_EXPOSE_NAMES_PENDING);
}

/* While the run waits to be ready this is looked at every second, for days. */
static void test_waiting_keeps_no_copies(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_expose_config cfg = {0};
    struct sw_kube_obj proxy = {
        .json =
            parse(&a, "{\"status\":{\"hostnameStatuses\":[{\"hostname\":\"a.x\",\"conditions\":[{"
                      "\"type\":\"Available\",\"status\":\"True\",\"reason\":\"Available\"}]}]}}")};
    struct expose x = {.cfg = &cfg, .seen = &proxy};
    size_t before;

    (void)state;
    x.hostnames = parse(&x.kept, "[\"a.x\",\"b.x\"]");
    before = x.kept.total;
    for (int i = 0; i < 1000; i++)
        assert_false(expose_leave_out_taken(&x));
    assert_int_equal(x.kept.total, before);
    assert_int_equal(sw_json_len(x.hostnames), 2);
    sw_arena_clear(&x.kept);
}

static void test_urls(void **state)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_json *named =
        parse(&a, "{\"metadata\":{\"annotations\":{\"spanwire.dev/url\":\"http://c.example:8080\"}}"
                  ",\"spec\":{\"hostnames\":[\"a.example\"]},\"status\":{\"canonicalHostname\":"
                  "\"c.example\"}}");
    const struct sw_json *plain = parse(&a, "{\"status\":{\"canonicalHostname\":\"c.example\"}}");

    (void)state;
    assert_string_equal(sw_expose_url(&a, named, false), "http://a.example:8080/");
    assert_string_equal(sw_expose_url(&a, named, true), "https://a.example:8443/");
    assert_string_equal(sw_expose_url(&a, plain, false), "http://c.example/");
    assert_string_equal(sw_expose_url(&a, plain, true), "https://c.example/");
    assert_null(sw_expose_url(&a, parse(&a, "{}"), false));
    assert_null(sw_expose_l4_url(&a, named));
    assert_string_equal(
        sw_expose_l4_url(&a, parse(&a, "{\"metadata\":{\"annotations\":{\"spanwire.dev/url\":"
                                       "\"tcp://c.example:20022\"}}}")),
        "tcp://c.example:20022");
    assert_string_equal(
        sw_expose_l4_url(&a, parse(&a, "{\"metadata\":{\"annotations\":{\"spanwire.dev/url\":"
                                       "\"tls://c.example:8443\"}},\"spec\":{\"hostnames\":["
                                       "\"db.example\"]}}")),
        "tls://db.example:8443");
    assert_int_equal(sw_expose_https_port(named), 8443);
    assert_int_equal(sw_expose_https_port(plain), 0);
}

/* Every line of the machine's form is an object with its event. */
static void test_events_are_json_lines(void **state)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    struct sw_expose_view v = {.out = f, .json = true, .id = SW_SLICE_LIT("web")};
    struct sw_inspect_request r = {
        .kind = "http", .status = 200, .path = "/\"x\"", .method = "GET"};
    struct sw_expose_state s = {.done = {true, true, true}};
    SW_ARENA_AUTO a = {0};
    struct sw_slice rest;
    size_t lines = 0;

    (void)state;
    sw_view_begin(&v, "t", "p");
    sw_view_objects(&v, true, "t", NULL);
    sw_view_progress(&v, &s);
    sw_view_progress(&v, &s);
    sw_view_ready(&v, parse(&a, "{}"), "http://x/", "t", "id", 1500000000);
    sw_view_request(&v, &r);
    sw_view_api(&v, false, 401, SW_SLICE_LIT("gone"));
    sw_view_failure(&v, "tunnel_terminal_failure", SW_SLICE_LIT("m"));
    sw_view_trouble(&v, SW_SLICE_LIT("t"));
    sw_view_trouble(&v, SW_SLICE_LIT("t")); /* once */
    sw_view_trouble(&v, SW_SLICE_LIT(""));
    sw_view_removed(&v, SW_SLICE_LIT("dev"));
    sw_view_stopped(&v, "http://x/");
    (void)fclose(f);
    rest = sw_slice(text, n);
    while (rest.n) {
        struct sw_slice line = sw_slice_cut(&rest, '\n');
        struct sw_json *o;

        assert_int_equal(sw_json_parse(&a, line, NULL, &o, NULL), SW_OK);
        assert_true(sw_json_is(sw_json_find(o, "event"), SW_JSON_STRING));
        assert_true(sw_json_str_eq(sw_json_find(o, "id"), "web"));
        lines++;
    }
    assert_int_equal(lines, 11);
    free(text);
}

/* Objects of others are shown in a terminal that obeys what it is sent. */
static void test_text_of_others_does_not_control_the_terminal(void **state)
{
#define HOSTILE                                                                                    \
    "\033]0;x\007\302\233"                                                                         \
    "2J\r\177"
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    struct sw_expose_view v = {.out = f, .id = SW_SLICE_LIT("web")};
    struct sw_expose_state s = {.waiting = SW_SLICE_LIT(HOSTILE)};
    SW_ARENA_AUTO a = {0};
    struct sw_json *proxy = parse(&a, "{\"spec\":{\"hostnames\":[\"a\"]}}");
    struct sw_json *names = sw_json_find(sw_json_find(proxy, "spec"), "hostnames");

    (void)state;
    sw_json_push(&a, names, sw_json_new_str(&a, HOSTILE));
    sw_view_progress(&v, &s);
    sw_view_ready(&v, proxy, "http://" HOSTILE, "t", "id", 1);
    sw_view_verify(&v, "u", false, HOSTILE);
    sw_view_origin_tls(&v, "t", HOSTILE);
    sw_view_trouble(&v, SW_SLICE_LIT(HOSTILE));
    sw_view_api(&v, false, 500, SW_SLICE_LIT(HOSTILE));
    sw_view_stopped(&v, "http://" HOSTILE);
    (void)fclose(f);
    for (size_t i = 0; i < n; i++)
        assert_true(text[i] == '\n' || (text[i] >= ' ' && text[i] < 0x7f));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_tcp_objects),
        cmocka_unit_test(test_readiness),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_waiting_keeps_no_copies),
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_events_are_json_lines),
        cmocka_unit_test(test_text_of_others_does_not_control_the_terminal),
    };

    return cmocka_run_group_tests_name("connector_expose", tests, NULL, NULL);
}
