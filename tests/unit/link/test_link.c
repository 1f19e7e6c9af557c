/* SPDX-License-Identifier: Apache-2.0 */
/* Codecs of the link's data plane: resources, questions and answers, reviews. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "link/control.h"
#include "link/review.h"
#include "link/snap.h"
#include "proto/pb.h"

/* ---- messages, put together by hand ---- */

/* Field 'field' with the two parts one after the other. */
static struct sw_slice wrap(struct sw_arena *a, unsigned field, struct sw_slice x,
                            struct sw_slice y)
{
    SW_BUF_AUTO out = {.max = 1 << 16};

    assert_int_equal(sw_pb_put_head(&out, field, x.n + y.n), SW_OK);
    assert_int_equal(sw_buf_append_slice(&out, x), SW_OK);
    assert_int_equal(sw_buf_append_slice(&out, y), SW_OK);
    return sw_arena_slice(a, sw_buf_slice(&out));
}

static struct sw_slice text(struct sw_arena *a, unsigned field, const char *value)
{
    return wrap(a, field, sw_slice_str(value), sw_slice("", 0));
}

static struct sw_slice number(struct sw_arena *a, unsigned field, uint64_t n)
{
    SW_BUF_AUTO out = {.max = 64};

    assert_int_equal(sw_pb_put_varint(&out, field, n), SW_OK);
    return sw_arena_slice(a, sw_buf_slice(&out));
}

static const struct sw_slice none = {"", 0};

static struct sw_slice address(struct sw_arena *a, const char *host, unsigned port)
{
    return wrap(a, 1, text(a, 2, host), number(a, 3, port));
}

static struct sw_slice endpoint(struct sw_arena *a, const char *host, unsigned port,
                                const char *hostname)
{
    struct sw_slice inner = wrap(a, 1, address(a, host, port), none);

    return wrap(a, 2, wrap(a, 1, inner, hostname ? text(a, 3, hostname) : none), none);
}

/* A cluster with two endpoints. */
static struct sw_slice cluster(struct sw_arena *a, struct sw_slice one, struct sw_slice two)
{
    return wrap(a, 33, wrap(a, 2, one, two), none);
}

/* ---- resources ---- */

static void peers_keep_all_gateways(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};
    struct link_res *r = link_res_cluster(SW_SLICE_LIT("remote-peer-siteb"),
                                          cluster(&a, endpoint(&a, "192.0.2.1", 4443, "siteb:443"),
                                                  endpoint(&a, "gw.example", 443, "siteb:443")),
                                          &err);

    (void)state;
    assert_non_null(r);
    assert_int_equal(r->kind, LINK_PEER);
    assert_string_equal(r->host, "siteb");
    assert_true(sw_slice_eq_str(r->authority, "siteb:443"));
    assert_int_equal(r->n_ends, 2);
    assert_int_equal(r->ends[0].ip.family, 4);
    assert_int_equal(r->ends[1].ip.family, 0);
    assert_int_equal(r->ends[1].port, 443);
    (void)link_res_unref(r);
}

static void exports_may_be_ipv6(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};
    struct link_res *r =
        link_res_cluster(SW_SLICE_LIT("export-ns/web"),
                         cluster(&a, endpoint(&a, "2001:db8::1", 80, NULL), none), &err);

    (void)state;
    assert_non_null(r);
    assert_true(sw_slice_eq_str(r->name, "ns/web"));
    assert_int_equal(r->ends[0].ip.family, 6);
    (void)link_res_unref(r);
}

static void unusable_clusters_are_refused(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice good = cluster(&a, endpoint(&a, "192.0.2.1", 80, NULL), none);
    const struct {
        const char *name;
        struct sw_slice bytes;
        int rc;
    } cases[] = {
        {"egress-router", good, SW_ENOENT},
        {"remote-peer-bad name", good, SW_EINVAL},
        {"remote-peer-127.1", good, SW_EINVAL},
        {"remote-peer-", good, SW_EINVAL},
        {"export-a/b", none, SW_EINVAL},
        {"export-a/b", SW_SLICE_LIT("\x0a\xff"), SW_EPROTO},
        {"export-a/b", cluster(&a, endpoint(&a, "192.0.2.1", 0, NULL), none), SW_EINVAL},
        {"export-a/b", cluster(&a, endpoint(&a, "192.0.2.1", 65536, NULL), none), SW_EINVAL},
        {"export-a/b", cluster(&a, endpoint(&a, "0x7f.1", 80, NULL), none), SW_EINVAL},
        {"export-a/b", cluster(&a, endpoint(&a, "", 80, NULL), none), SW_EINVAL},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_err err = {0};

        assert_null(link_res_cluster(sw_slice_str(cases[i].name), cases[i].bytes, &err));
        assert_int_equal(err.rc, cases[i].rc);
    }
}

static void one_unusable_gateway_harms_no_other(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};
    struct link_res *r = link_res_cluster(
        SW_SLICE_LIT("remote-peer-b"),
        cluster(&a, endpoint(&a, "0177.0.0.1", 1, NULL), endpoint(&a, "192.0.2.2", 2, NULL)), &err);

    (void)state;
    assert_non_null(r);
    assert_int_equal(r->n_ends, 1);
    assert_int_equal(r->ends[0].port, 2);
    assert_true(sw_slice_eq_str(r->authority, "b:443"));
    (void)link_res_unref(r);
}

static void listeners_of_imports(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};
    struct sw_slice at = wrap(&a, 2, address(&a, "0.0.0.0", 20000), none);
    struct link_res *r = link_res_listener(SW_SLICE_LIT("import-ns/web/x"), at, &err);

    (void)state;
    assert_non_null(r);
    assert_true(sw_slice_eq_str(r->ns, "ns"));
    assert_true(sw_slice_eq_str(r->base, "web/x"));
    assert_int_equal(r->at.port, 20000);
    (void)link_res_unref(r);
    assert_null(link_res_listener(SW_SLICE_LIT("other"), at, &err));
    assert_int_equal(err.rc, SW_ENOENT);
    assert_null(link_res_listener(SW_SLICE_LIT("import-web"), at, &err));
    assert_int_equal(err.rc, SW_EINVAL);
    assert_null(link_res_listener(SW_SLICE_LIT("import-ns/"), at, &err));
    assert_null(link_res_listener(SW_SLICE_LIT("import-ns/web"),
                                  wrap(&a, 2, address(&a, "name.example", 20000), none), &err));
    assert_int_equal(err.rc, SW_EINVAL);
}

static void secrets(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct link_secret s = {0};
    struct sw_err err = {0};
    struct sw_slice chain = wrap(&a, 1, text(&a, 2, "CHAIN"), none);
    struct sw_slice key = wrap(&a, 2, text(&a, 2, "KEY"), none);

    (void)state;
    assert_int_equal(link_secret_parse(&a, wrap(&a, 2, chain, key), &s, &err), SW_OK);
    assert_true(sw_slice_eq_str(s.chain, "CHAIN") && sw_slice_eq_str(s.key, "KEY"));
    assert_int_equal(
        link_secret_parse(&a, wrap(&a, 4, wrap(&a, 1, text(&a, 2, "CA"), none), none), &s, &err),
        SW_OK);
    assert_true(sw_slice_eq_str(s.roots, "CA") && sw_slice_eq_str(s.chain, "CHAIN"));
    assert_int_equal(link_secret_parse(&a, none, &s, &err), SW_EINVAL);
    assert_int_equal(link_secret_parse(&a, wrap(&a, 2, chain, none), &s, &err), SW_EINVAL);
}

/* ---- Check ---- */

static void an_egress_question_has_an_internal_address(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct link_question q = {.kind = LINK_ASK_EGRESS,
                              .client = {.family = 4, .b = {192, 0, 2, 9}},
                              .ns = SW_SLICE_LIT("ns"),
                              .name = SW_SLICE_LIT("web")};
    struct sw_slice m = link_check_encode(&a, &q);
    /* attributes{source{address{envoy_internal_address{}}}} */
    static const char source[] = "\x0a\x04\x0a\x02\x1a\x00";

    (void)state;
    assert_non_null(memmem(m.p, m.n, source, sizeof(source) - 1));
    assert_non_null(memmem(m.p, m.n,
                           "x-client-ip\x12\x09"
                           "192.0.2.9",
                           22));
    assert_non_null(memmem(m.p, m.n, "x-import-namespace\x12\x02ns", 22));
    q.kind = LINK_ASK_INGRESS;
    q.peer = SW_SLICE_LIT("siteb");
    q.authorization = SW_SLICE_LIT("Bearer t");
    m = link_check_encode(&a, &q);
    assert_null(memmem(m.p, m.n, source, sizeof(source) - 1));
    assert_non_null(memmem(m.p, m.n, "CONNECT", 7));
    assert_non_null(memmem(m.p, m.n, "siteb", 5));
}

static struct sw_slice header(struct sw_arena *a, unsigned field, const char *k, const char *v)
{
    return wrap(a, field, wrap(a, 1, text(a, 1, k), text(a, 2, v)), none);
}

static void answers_of_check(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct link_answer r = {0};
    struct sw_err err = {0};
    struct sw_slice ok = wrap(&a, 3, header(&a, 2, "host", "remote-peer-b"),
                              header(&a, 2, "authorization", "Bearer t"));
    struct sw_slice denied =
        wrap(&a, 2, wrap(&a, 1, number(&a, 1, 404), none), text(&a, 3, "not found"));

    (void)state;
    assert_int_equal(link_check_decode(&a, ok, &r, &err), SW_OK);
    assert_int_equal(r.status, 200);
    assert_true(sw_slice_eq_str(r.host, "remote-peer-b"));
    assert_true(sw_slice_eq_str(r.authorization, "Bearer t"));
    assert_int_equal(
        link_check_decode(&a, wrap(&a, 3, header(&a, 6, "X-Access-Token", "t"), none), &r, &err),
        SW_OK);
    assert_true(sw_slice_eq_str(r.authorization, "Bearer t"));
    assert_int_equal(link_check_decode(&a, denied, &r, &err), SW_OK);
    assert_int_equal(r.status, 404);
    assert_true(sw_slice_eq_str(r.body, "not found"));
    /* A status that denies without saying how; a denial that says it is fine; a field with a line
     * end. */
    assert_int_equal(link_check_decode(&a, wrap(&a, 1, number(&a, 1, 7), none), &r, &err), SW_OK);
    assert_int_equal(r.status, 403);
    assert_int_equal(
        link_check_decode(&a, wrap(&a, 2, wrap(&a, 1, number(&a, 1, 200), none), none), &r, &err),
        SW_OK);
    assert_int_equal(r.status, 403);
    assert_int_equal(
        link_check_decode(&a, wrap(&a, 3, header(&a, 2, "host", "a\r\nb"), none), &r, &err), SW_OK);
    assert_int_equal(r.host.n, 0);
    assert_int_not_equal(link_check_decode(&a, SW_SLICE_LIT("\x1a\x7f"), &r, &err), SW_OK);
}

/* ---- reviews ---- */

static void on_line(void *arg, size_t line, struct sw_slice reason)
{
    char *to = arg;

    (void)snprintf(to + strlen(to), 100, "%zu:%.*s;", line, SW_SLICE_ARG(reason));
}

static void reviews(void **state)
{
    static const struct {
        const char *body;
        size_t n;
        int rc;
        const char *denied;
    } cases[] = {
        {"ok\n", 1, SW_OK, ""},
        {"ok", 1, SW_OK, ""},
        {"ok\ndenied by x\nok\ndenied\n", 4, SW_OK, "1:by x;3:;"},
        {"ok\n", 2, SW_EPROTO, ""},
        {"denied a\nok\nok\n", 2, SW_EPROTO, ""},
        {"denied a\nmaybe\n", 2, SW_EPROTO, ""},
        {"deniedx\n", 1, SW_EPROTO, ""},
        {"", 1, SW_EPROTO, ""},
        {"\n", 1, SW_EPROTO, ""},
        {"OK\n", 1, SW_EPROTO, ""},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        char denied[400] = "";

        assert_int_equal(
            link_review_parse(sw_slice_str(cases[i].body), cases[i].n, on_line, denied),
            cases[i].rc);
        assert_string_equal(denied, cases[i].denied);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_keep_all_gateways),
        cmocka_unit_test(exports_may_be_ipv6),
        cmocka_unit_test(unusable_clusters_are_refused),
        cmocka_unit_test(one_unusable_gateway_harms_no_other),
        cmocka_unit_test(listeners_of_imports),
        cmocka_unit_test(secrets),
        cmocka_unit_test(an_egress_question_has_an_internal_address),
        cmocka_unit_test(answers_of_check),
        cmocka_unit_test(reviews),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
