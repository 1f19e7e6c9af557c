/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connectors and HTTPProxies: every file of tests/golden/connector against the text beside it, and
 * the same again with what was asked for done, when nothing may be wanted any more.
 * See golden.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "connector_rig.h"
#include "golden.h"

enum { ROUNDS = 6 };

static struct golden files;

static void load(struct world *w, const char *name)
{
    char *text = golden_read(&files, name, ".yaml");
    struct sw_err err = {0};

    world_begin(w);
    if (world_load(w, sw_slice_str(text), &err) != SW_OK)
        fail_msg("%s: %s", name, err.msg);
    sw_free(text);
}

/* ---- text ---- */

static void put_published(struct sw_buf *out, const struct sw_output *o)
{
    size_t n = 0;
    struct sw_change *list = world_published(o, &n);

    for (size_t i = 0; i < n; i++)
        assert_int_equal(sw_buf_printf(out, "publish %s|%s%s%.*s = %.*s\n", list[i].kind,
                                       list[i].reason, list[i].reason[0] ? "|" : "",
                                       SW_SLICE_ARG(list[i].name), SW_SLICE_ARG(list[i].bytes)),
                         SW_OK);
    sw_free(list);
}

/* Only what is not so yet. */
static char *text_of(struct world *w, const struct builds *b)
{
    char when[SW_RFC3339_LEN];
    struct sw_buf out;

    sw_buf_init(&out, 8 * 1024 * 1024);
    for (size_t at = 0; at < 2; at++) {
        world_put_writes(w, both[at].kinds, b->out[at], &out);
        put_published(&out, b->out[at]);
        if (b->out[at]->expires_ns)
            assert_int_equal(
                sw_buf_printf(&out, "expires %s\n", sw_rfc3339(b->out[at]->expires_ns, 1, when)),
                SW_OK);
    }
    return sw_buf_take_str(&out);
}

static void golden(void **state)
{
    const char *name = *state;
    struct world w;
    struct builds b;
    char *first;
    char *again;
    size_t round = 0;

    load(&w, name);
    b = build(&w);
    first = text_of(&w, &b);
    golden_compare(&files, name, first);
    /* The order in which objects came does not matter. */
    builds_free(&b);
    world_reverse(&w);
    b = build(&w);
    again = text_of(&w, &b);
    assert_string_equal(first, again);
    sw_free(again);
    /* Once all is done nothing is wanted. */
    while (obey(&w, &b)) {
        assert_true(++round < ROUNDS);
        builds_free(&b);
        b = build(&w);
    }
    builds_free(&b);
    sw_free(first);
    world_end(&w);
}

/* ---- small things ---- */

static void endpoints_are_read(void **state)
{
    static const struct {
        const char *url;
        const char *host; /* NULL: refused */
        uint16_t port;
        bool tls;
    } cases[] = {
        {"http://127.0.0.1:8080", "127.0.0.1", 8080, false},
        {"http://Example.COM", "example.com", 80, false},
        {"https://example.com/", "example.com", 443, true},
        {"http://[::1]:8080", "::1", 8080, false},
        {"http://[2001:DB8::1]", "2001:db8::1", 80, false},
        {"http://[::1", NULL, 0, false},
        {"http://[::1]x", NULL, 0, false},
        {"http://::1:80", NULL, 0, false},
        {"ftp://example.com", NULL, 0, false},
        {"http://a.b/path", NULL, 0, false},
        {"http://a.b?q", NULL, 0, false},
        {"http://a.b#f", NULL, 0, false},
        {"http://u@a.b", NULL, 0, false},
        {"http://a.b:0", NULL, 0, false},
        {"http://a.b:65536", NULL, 0, false},
        {"http://a.b:8x", NULL, 0, false},
        {"http://a.b:", NULL, 0, false},
        {"http://", NULL, 0, false},
        {"http://-a.b", NULL, 0, false},
        {"http://a..b", NULL, 0, false},
        {"http://a b", NULL, 0, false},
        {"", NULL, 0, false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct hp_endpoint e = {0};
        const char *bad = hp_endpoint_read(&a, sw_slice_str(cases[i].url), &e);

        if (!cases[i].host != !!bad)
            fail_msg("'%s': %s", cases[i].url, bad ? bad : "accepted");
        if (bad)
            continue;
        assert_true(sw_slice_eq_str(e.host, cases[i].host));
        assert_int_equal(e.port, cases[i].port);
        assert_int_equal(e.tls, cases[i].tls);
    }
}

static void advertised_addresses(void **state)
{
    static const struct {
        const char *pattern;
        const char *host;
        bool hit;
    } cases[] = {
        {"127.0.0.1", "localhost", true},       {"localhost", "::1", true},
        {"[::1]", "127.0.0.1", true},           {"10.0.0.1", "10.0.0.1", true},
        {"10.0.0.1", "10.0.0.2", false},        {"2001:db8::1", "2001:DB8:0::1", true},
        {"*.lan.test", "nas.lan.test", true},   {"*.lan.test", "a.b.lan.test", true},
        {"*.lan.test", "lan.test", false},      {"*.lan.test", "xlan.test", false},
        {"nas.lan.test", "NAS.lan.test", true}, {"*", "anything.test", true},
        {"10.0.0.1", "ten.test", false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        if (cn_address_matches(sw_slice_str(cases[i].pattern), sw_slice_str(cases[i].host)) !=
            cases[i].hit)
            fail_msg("'%s' and '%s'", cases[i].pattern, cases[i].host);
    }
}

static void canonical_names_never_change(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice one = sw_connector_hostname(
        &a, SW_SLICE_LIT("5251a266-8453-4b34-98d2-7989d425ab17"), SW_SLICE_LIT("connect.test"));

    (void)state;
    assert_true(sw_slice_eq_str(one, "delta-blaze-ry6pb.connect.test"));
}

static void targets_have_brackets(void **state)
{
    SW_ARENA_AUTO a = {0};

    (void)state;
    assert_true(sw_slice_eq_str(sw_connector_target(&a, SW_SLICE_LIT("::1"), 80), "[::1]:80"));
    assert_true(sw_slice_eq_str(sw_connector_target(&a, SW_SLICE_LIT("a.b"), 80), "a.b:80"));
}

/* ---- the control plane's return ---- */

#define RETURNED                                                                                   \
    "apiVersion: networking.datumapis.com/v1alpha1\nkind: ConnectorClass\n"                        \
    "metadata: {name: c, annotations: {spanwire.dev/key-proof: NotRequired}}\n"                    \
    "spec: {controllerName: x}\n---\n"                                                             \
    "apiVersion: networking.datumapis.com/v1alpha1\nkind: Connector\n"                             \
    "metadata: {name: d, namespace: a, uid: u}\nspec: {connectorClassName: c}\n"                   \
    "status:\n  connectionDetails: {type: PublicKey, publicKey: {id: "                             \
    "d3aafc04c9dc9a9608ed9738f2b7c30d9834538e3147ef5f14fe8c725d6baf8f, addresses: []}}\n"          \
    "  conditions: [{type: Ready, status: \"%s\", reason: R, message: m, "                         \
    "lastTransitionTime: \"2026-11-15T11:00:00Z\"}]\n---\n"                                        \
    "apiVersion: coordination.k8s.io/v1\nkind: Lease\n"                                            \
    "metadata: {name: d, namespace: a, ownerReferences: [{apiVersion: "                            \
    "networking.datumapis.com/v1alpha1, kind: Connector, name: d, uid: u, controller: true}]}\n"   \
    "spec: {leaseDurationSeconds: 30%s}\n"

/* Noon, and the control plane returned so many seconds ago; -1: it never was away. */
static void a_lease_that_ran_out_unseen_counts_once_more(void **state)
{
    static const struct {
        const char *ready;
        const char *renewed; /* NULL: the Lease was given back */
        int ago;
        bool online;
        const char *until; /* NULL: nothing is waited for */
    } cases[] = {
        {"True", "11:59:45.000000Z", -1, true, "2026-11-15T12:00:15.000000Z"},
        {"True", "11:59:29.000000Z", -1, false, NULL},
        {"True", "11:59:29.000000Z", 0, true, "2026-11-15T12:00:30.000000Z"},
        {"True", "03:00:00.000000Z", 5, true, "2026-11-15T12:00:25.000000Z"},
        {"True", "03:00:00.000000Z", 30, true, "2026-11-15T12:00:00.000000Z"},
        {"True", "03:00:00.000000Z", 31, false, NULL}, /* died meanwhile */
        {"False", "11:59:29.000000Z", 0, false, NULL}, /* died before */
        {"Unknown", "11:59:29.000000Z", 0, false, NULL},
        {"True", NULL, 0, false, NULL},
        {"True", "11:59:45.000000Z", 20, true, "2026-11-15T12:00:15.000000Z"}, /* renewed since */
        {"False", "11:59:45.000000Z", 5, true, "2026-11-15T12:00:15.000000Z"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        char *renewed = cases[i].renewed
                            ? sw_asprintf(", renewTime: \"2026-11-15T%s\"", cases[i].renewed)
                            : sw_strdup("");
        char *text = sw_asprintf(RETURNED, cases[i].ready, renewed);
        struct world w;
        struct builds b;
        struct sw_err err = {0};
        char *out;
        char *line;

        world_begin(&w);
        if (cases[i].ago >= 0)
            w.since = w.now - (uint64_t)cases[i].ago * SW_NS_PER_S;
        assert_int_equal(world_load(&w, sw_slice_str(text), &err), SW_OK);
        b = build(&w);
        out = text_of(&w, &b);
        if ((strstr(out, "publish online|a/d") != NULL) != cases[i].online)
            fail_msg("case %zu:\n%s", i, out);
        line = strstr(out, "\nexpires ");
        if (!line != !cases[i].until || (line && strncmp(line + 9, cases[i].until, 19) != 0))
            fail_msg("case %zu:\n%s", i, out);
        builds_free(&b);
        world_end(&w);
        sw_free(out);
        sw_free(text);
        sw_free(renewed);
    }
}

int main(void)
{
    static const struct CMUnitTest fixed[] = {
        cmocka_unit_test(endpoints_are_read),
        cmocka_unit_test(advertised_addresses),
        cmocka_unit_test(canonical_names_never_change),
        cmocka_unit_test(targets_have_brackets),
        cmocka_unit_test(a_lease_that_ran_out_unseen_counts_once_more),
    };
    struct CMUnitTest all[GOLDEN_MAX + SW_ARRAY_LEN(fixed)];
    size_t n = 0;

    for (size_t i = 0; i < SW_ARRAY_LEN(fixed); i++)
        all[n++] = fixed[i];
    golden_find(&files, "connector");
    for (size_t i = 0; i < files.n; i++)
        all[n++] = (struct CMUnitTest){
            .name = files.names[i], .test_func = golden, .initial_state = files.names[i]};
    return _cmocka_run_group_tests("connector", all, n, NULL, NULL);
}
