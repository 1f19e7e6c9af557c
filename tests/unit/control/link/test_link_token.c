/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "control/link/auth/beat.h"
#include "control/link/auth/peers.h"
#include "control/link/auth/token.h"

#define S(x) SW_SLICE_LIT(x)

enum { NOW = 1000 };

static struct sw_link_key key(const char *secret)
{
    struct sw_link_key k;

    assert_int_equal(sw_link_key_set(&k, sw_slice(secret, 32), NULL), SW_OK);
    return k;
}

#define KEY_A "0123456789abcdef0123456789abcdef"
#define KEY_B "0123456789abcdef0123456789abcdeF"

static struct sw_link_token example(void)
{
    static const struct sw_attr src[] = {{S("client/ns"), S("default")}};

    return (struct sw_link_token){.export_name = S("web"),
                                  .export_ns = S("default"),
                                  .peer = S("there"),
                                  .thumb = S("thumb"),
                                  .src = {src, 1}};
}

static void a_token_says_what_it_is_for(void **state)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO out = {.max = SW_JWS_TOKEN_MAX};
    struct sw_link_key k = key(KEY_A);
    struct sw_link_token t = example();
    struct sw_link_token got;

    (void)state;
    assert_int_equal(sw_link_token_mint(&k, &t, NOW, &out, NULL), SW_OK);
    assert_int_equal(sw_link_token_open(&k, &a, sw_buf_slice(&out), NOW, &got, NULL), SW_OK);
    assert_true(sw_slice_eq(got.export_name, t.export_name));
    assert_true(sw_slice_eq(got.export_ns, t.export_ns));
    assert_true(sw_slice_eq(got.peer, t.peer));
    assert_true(sw_slice_eq(got.thumb, t.thumb));
    assert_int_equal(got.exp_s, NOW + SW_LINK_TOKEN_LIFE_S);
    assert_memory_equal(got.jti, t.jti, SW_LINK_JTI);
    assert_int_equal(got.src.n, 1);
}

static void a_token_expires_and_cannot_be_changed(void **state)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO out = {.max = SW_JWS_TOKEN_MAX};
    struct sw_link_key k = key(KEY_A);
    struct sw_link_key other = key(KEY_B);
    struct sw_link_token t = example();
    struct sw_link_token got;
    struct sw_err err = {0};
    struct sw_slice text;

    (void)state;
    assert_int_equal(sw_link_token_mint(&k, &t, NOW, &out, NULL), SW_OK);
    text = sw_buf_slice(&out);
    assert_int_equal(sw_link_token_open(&k, &a, text, NOW + 4, &got, NULL), SW_OK);
    assert_int_equal(sw_link_token_open(&k, &a, text, NOW + 5, &got, &err), SW_EDENIED);
    assert_string_equal(err.msg, "exp not satisfied");
    assert_int_equal(sw_link_token_open(&other, &a, text, NOW, &got, NULL), SW_EDENIED);
    for (size_t i = 0; i < text.n; i++) {
        char c = out.p[i];

        out.p[i] = c == 'A' ? 'B' : 'A';
        assert_int_equal(sw_link_token_open(&k, &a, text, NOW, &got, NULL), SW_EDENIED);
        out.p[i] = c;
    }
    for (size_t n = 0; n < text.n; n++)
        assert_int_equal(sw_link_token_open(&k, &a, sw_slice_head(text, n), NOW, &got, NULL),
                         SW_EDENIED);
}

static void tokens_and_grants_are_not_each_other(void **state)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO token = {.max = SW_JWS_TOKEN_MAX};
    SW_BUF_AUTO grant = {.max = SW_JWS_TOKEN_MAX};
    struct sw_link_key k = key(KEY_A);
    struct sw_link_token t = example();
    struct sw_link_grant g = {.side = SW_LINK_EGRESS,
                              .import = S("default/web"),
                              .client = S("10.0.0.1"),
                              .peer = S("there"),
                              .exported = S("default/web")};
    struct sw_link_token got;
    struct sw_link_grant got_grant;

    (void)state;
    assert_int_equal(sw_link_token_mint(&k, &t, NOW, &token, NULL), SW_OK);
    assert_int_equal(sw_link_grant_mint(&k, &g, &grant, NULL), SW_OK);
    assert_int_equal(sw_link_token_open(&k, &a, sw_buf_slice(&grant), NOW, &got, NULL), SW_EDENIED);
    assert_int_equal(sw_link_grant_open(&k, &a, sw_buf_slice(&token), &got_grant, NULL),
                     SW_EDENIED);
    assert_int_equal(sw_link_grant_open(&k, &a, sw_buf_slice(&grant), &got_grant, NULL), SW_OK);
    assert_int_equal(got_grant.side, SW_LINK_EGRESS);
    assert_true(sw_slice_eq(got_grant.client, g.client));
}

static void a_token_is_used_once(void **state)
{
    struct sw_link_once *o = sw_link_once_new(3);
    uint8_t jti[5][SW_LINK_JTI];

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(jti); i++)
        memset(jti[i], (int)i, sizeof(jti[i]));
    assert_int_equal(sw_link_once_use(o, jti[0], NOW + 5, NOW), SW_OK);
    assert_int_equal(sw_link_once_use(o, jti[0], NOW + 5, NOW + 4), SW_EDENIED);
    assert_int_equal(sw_link_once_use(o, jti[1], NOW + 5, NOW), SW_OK);
    assert_int_equal(sw_link_once_use(o, jti[2], NOW + 6, NOW + 1), SW_OK);
    assert_int_equal(sw_link_once_use(o, jti[3], NOW + 6, NOW + 1), SW_ELIMIT);
    assert_int_equal(sw_link_once_use(o, jti[3], NOW + 10, NOW + 5), SW_OK);
    assert_int_equal(sw_link_once_use(o, jti[2], NOW + 6, NOW + 5), SW_EDENIED);
    sw_link_once_free(o);
}

static void reachability_flips_at_once(void **state)
{
    static const uint64_t down[] = {1, 2, 4, 8, 10, 10};
    struct sw_link_beat b = {0};

    (void)state;
    assert_true(sw_link_beat_take(&b, true));
    assert_int_equal(sw_link_beat_delay(&b), SW_NS_PER_S);
    assert_false(sw_link_beat_take(&b, true));
    for (size_t i = 0; i < SW_ARRAY_LEN(down); i++) {
        assert_int_equal(sw_link_beat_take(&b, false), i == 0);
        assert_false(b.reachable);
        assert_int_equal(sw_link_beat_delay(&b), down[i] * SW_NS_PER_S);
    }
    assert_true(sw_link_beat_take(&b, true));
    assert_int_equal(sw_link_beat_delay(&b), SW_NS_PER_S);
    b = (struct sw_link_beat){0};
    assert_true(sw_link_beat_take(&b, false)); /* the first result is news */
}

static const struct {
    const char *value;
    int rc;
    size_t n;
} labels[] = {
    {"bnVsbA==", SW_OK, 0},             /* null */
    {"e30=", SW_OK, 0},                 /* {} */
    {"eyJlbnYiOiJwcm9kIn0=", SW_OK, 1}, /* {"env":"prod"} */
    {"eyJlbnYiOjF9", SW_EINVAL, 0},     /* {"env":1} */
    {"W10=", SW_EINVAL, 0},             /* [] */
    {"", SW_EINVAL, 0},
    {"!", SW_EINVAL, 0},
};

static void labels_of_heartbeats(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(labels); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_attrs got = {0};
        struct sw_err err = {0};
        int rc = sw_link_labels_decode(&a, sw_slice_str(labels[i].value), &got, &err);

        assert_int_equal(rc == SW_OK, labels[i].rc == SW_OK);
        assert_int_equal(got.n, labels[i].n);
        if (rc == SW_OK && got.n)
            assert_true(sw_slice_eq_str(sw_link_labels_encode(&a, &got), labels[i].value));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_says_what_it_is_for),
        cmocka_unit_test(a_token_expires_and_cannot_be_changed),
        cmocka_unit_test(tokens_and_grants_are_not_each_other),
        cmocka_unit_test(a_token_is_used_once),
        cmocka_unit_test(reachability_flips_at_once),
        cmocka_unit_test(labels_of_heartbeats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
