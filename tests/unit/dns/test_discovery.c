/* SPDX-License-Identifier: Apache-2.0 */
/* Records of nodes, and who publishes them. */
#include "rig.h"

#include "control/dns/claims.h"
#include "quic/id/discovery.h"

#define ID_A "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29"
#define Z_A  "8pinxxgqs41n4aididenw5apqp1urfmzdztr8jt4abrkdn435ewo"
#define ID_B "197f6b23e16c8532c6abc838facd5ea789be0c76b2920334039bfa8b3d368d61"

static struct sw_nodeid id_of(const char *hex)
{
    struct sw_nodeid id;

    assert_int_equal(sw_nodeid_parse(sw_slice_str(hex), &id, NULL), SW_OK);
    return id;
}

static void names_of_nodes(void **state)
{
    struct sw_nodeid id = id_of(ID_A);
    struct sw_dns_name n;
    char text[SW_DNS_NAME_TEXT];

    (void)state;
    assert_int_equal(sw_discovery_name(&id, SW_SLICE_LIT("dns.iroh.link."), &n, NULL), SW_OK);
    assert_string_equal(sw_dns_name_text(&n, text), "_iroh." Z_A ".dns.iroh.link");
    assert_int_equal(sw_discovery_name(&id, SW_SLICE_LIT("a..b"), &n, NULL), SW_EINVAL);
}

static void records_are_read_as_iroh_reads_them(void **state)
{
    static const struct {
        const char *txt[6];
        int rc;
        const char *relay;
        const char *addrs; /* joined by spaces */
    } cases[] = {
        {{"relay=https://r.test/"}, SW_OK, "https://r.test/", ""},
        {{"addr=192.0.2.1:4433", "addr=[2001:db8::1]:1"},
         SW_OK,
         "",
         "192.0.2.1:4433 [2001:db8::1]:1"},
        {{"relay=https://a.test./", "relay=https://b.test/"}, SW_OK, "https://a.test./", ""},
        {{"relay=https://r.test/?x=1"}, SW_OK, "https://r.test/?x", ""}, /* cut at the second '=' */
        {{"addr=192.0.2.1:1=junk"}, SW_OK, "", "192.0.2.1:1"},
        {{"addr=192.0.2.1:1", "addr=192.0.2.1:1"}, SW_OK, "", "192.0.2.1:1"},
        {{"addr=192.0.2.1:1", "user-data=hello=there"}, SW_OK, "", "192.0.2.1:1"},
        /* what does not parse is skipped */
        {{"addr=nowhere", "addr=192.0.2.1:1"}, SW_OK, "", "192.0.2.1:1"},
        {{"addr=192.0.2.1:1 192.0.2.2:2", "relay=https://r/"}, SW_OK, "https://r/", ""},
        {{"addr=1f_00ff", "addr=192.0.2.1:1"}, SW_OK, "", "192.0.2.1:1"},
        {{"relay=ftp://x/", "addr=192.0.2.1:1"}, SW_OK, "", "192.0.2.1:1"},
        {{"relay=", "addr=192.0.2.1:1"}, SW_OK, "", "192.0.2.1:1"},
        {{"relay=https://", "addr=192.0.2.1:1"}, SW_OK, "", "192.0.2.1:1"},
        {{"addr=192.0.2.1:0", "relay=http://r"}, SW_OK, "http://r", ""},
        /* what is no record of a node spoils all */
        {{"addr=192.0.2.1:1", "v=spf1 -all"}, SW_EPROTO, NULL, NULL},
        {{"addr=192.0.2.1:1", "hello"}, SW_EPROTO, NULL, NULL},
        {{"addr=192.0.2.1:1", ""}, SW_EPROTO, NULL, NULL},
        {{"Addr=192.0.2.1:1"}, SW_EPROTO, NULL, NULL},
        {{"user-data=x"}, SW_EPROTO, NULL, NULL},
        {{NULL}, SW_EPROTO, NULL, NULL},
    };
    struct sw_nodeid id = id_of(ID_A);

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_slice txt[6];
        struct sw_quic_target t;
        char got[200] = "";
        size_t n = 0;

        for (; n < 6 && cases[i].txt[n]; n++)
            txt[n] = sw_slice_str(cases[i].txt[n]);
        assert_int_equal(sw_discovery_parse(&a, &id, txt, n, &t, NULL), cases[i].rc);
        if (cases[i].rc != SW_OK)
            continue;
        assert_true(sw_slice_eq_str(t.relay, cases[i].relay));
        for (size_t k = 0; k < t.n_addrs; k++) {
            char text[SW_ADDR_TEXT];
            size_t at = strlen(got);

            (void)snprintf(got + at, sizeof(got) - at, "%s%s", k ? " " : "",
                           sw_addr_text(&t.addrs[k], text));
        }
        assert_string_equal(got, cases[i].addrs);
    }
}

static void records_are_written_in_order(void **state)
{
    static const char *const in[] = {"[2001:db8::2]:5", "192.0.2.9:1", "192.0.2.1:2", "192.0.2.1:1",
                                     "192.0.2.9:1"};
    static const char *const want[] = {"relay=https://r.test/", "addr=192.0.2.1:1",
                                       "addr=192.0.2.1:2", "addr=192.0.2.9:1",
                                       "addr=[2001:db8::2]:5"};
    SW_ARENA_AUTO a = {0};
    struct sw_addr addrs[SW_ARRAY_LEN(in)];
    struct sw_quic_target t = {.id = id_of(ID_A),
                               .relay = SW_SLICE_LIT("https://r.test/"),
                               .addrs = addrs,
                               .n_addrs = SW_ARRAY_LEN(in)};
    struct sw_quic_target back;
    struct sw_slice *txt;
    size_t n;

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(in); i++)
        assert_int_equal(sw_addr_parse(sw_slice_str(in[i]), &addrs[i], NULL), SW_OK);
    n = sw_discovery_write(&a, &t, &txt);
    assert_int_equal(n, SW_ARRAY_LEN(want));
    for (size_t i = 0; i < n; i++)
        assert_true(sw_slice_eq_str(txt[i], want[i]));
    assert_int_equal(sw_discovery_parse(&a, &t.id, txt, n, &back, NULL), SW_OK);
    assert_int_equal(back.n_addrs, 4);
    t.relay = SW_SLICE_LIT("https://r.test/?a=b"); /* would be cut by readers */
    assert_int_equal(sw_discovery_write(&a, &t, &txt), 4);
}

/* ---- claims ---- */

static struct sw_kube_obj *connector(struct sw_arena *a, const char *name, const char *created,
                                     const char *id, const char *more)
{
    char *text = sw_arena_printf(
        a,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\",\"uid\":\"%s\",\"creationTimestamp\":"
        "\"%s\"},"
        "\"status\":{\"connectionDetails\":{\"type\":\"PublicKey\",\"publicKey\":{\"id\":\"%s\","
        "\"homeRelay\":\"https://r.test/\",\"addresses\":[{\"address\":\"192.0.2.1\",\"port\":7}]"
        "}}%s}}",
        name, name, created, id, more);
    struct sw_json *v;
    struct sw_err err = {0};

    if (sw_json_parse(a, sw_slice_str(text), NULL, &v, &err) != SW_OK)
        fail_msg("%s", err.msg);
    return sw_kube_obj_new(v);
}

/* The first of each key has it, as if that were recorded. */
static void decide(struct sw_arena *a, struct sw_dns_claim *c, size_t n, const char *stale)
{
    struct sw_map keys = {0};

    for (size_t i = 0; i < n; i++) {
        struct sw_slice id = sw_json_str(sw_json_walk(
            c[i].connector->json, "status", "connectionDetails", "publicKey", "id", NULL));
        struct sw_claim *has = SW_ARENA_NEW(a, struct sw_claim);

        if (sw_slice_has_prefix(c[i].connector->name, SW_SLICE_LIT("free")) ||
            sw_map_get(&keys, id))
            continue;
        *has = (struct sw_claim){.value = id,
                                 .ns = c[i].connector->ns,
                                 .name = c[i].connector->name,
                                 .uid = c[i].connector->uid,
                                 .holder = c[i].connector};
        (void)sw_map_put(&keys, id, has);
    }
    sw_dns_claims(a, &keys, c, n, sw_slice_str(stale));
    sw_map_done(&keys);
}

static void forget(struct sw_dns_claim *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sw_kube_obj_unref((struct sw_kube_obj *)(uintptr_t)c[i].connector);
}

#define T1 "2026-01-01T00:00:00Z"
#define T2 "2026-01-02T00:00:00Z"
#define READY(status, since)                                                                       \
    ",\"conditions\":[{\"type\":\"Ready\",\"status\":\"" status                                    \
    "\",\"lastTransitionTime\":\"" since "\"}]"

static void who_has_the_claim_owns_a_key(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_dns_claim c[] = {
        {.connector = connector(&a, "a-young", T2, ID_A, "")},
        {.connector = connector(&a, "old", T1, ID_A, "")},
        {.connector = connector(&a, "free", T1, ID_B, "")},
        {.connector = connector(&a, "none", T1, "", "")},
        {.connector =
             connector(&a, "bad", T1,
                       "zz6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29", "")},
    };
    struct sw_dns_claim_condition cond;

    (void)state;
    decide(&a, c, SW_ARRAY_LEN(c), "");
    assert_int_equal(c[0].state, SW_DNS_CLAIM_OWNER);
    assert_int_equal(c[1].state, SW_DNS_CLAIM_DEFERRED); /* older, but not the one recorded */
    assert_ptr_equal(c[1].owner->holder, c[0].connector);
    assert_int_equal(c[2].state, SW_DNS_CLAIM_UNRECORDED);
    assert_int_equal(c[3].state, SW_DNS_CLAIM_PENDING);
    assert_int_equal(c[4].state, SW_DNS_CLAIM_PENDING);
    assert_int_equal(c[0].n_txt, 2);
    assert_int_equal(c[1].n_txt + c[2].n_txt, 0);
    assert_true(sw_slice_eq_str(c[0].txt[0], "relay=https://r.test/"));
    assert_true(sw_slice_eq_str(c[0].txt[1], "addr=192.0.2.1:7"));
    assert_true(sw_slice_eq_str(sw_dns_claim_name(&a, &c[0]), "_iroh." Z_A));
    cond = sw_dns_claim_condition(&a, &c[1]);
    assert_string_equal(cond.status, "False");
    assert_string_equal(cond.reason, "DeferredToOwner");
    assert_non_null(strstr(cond.message.p, "'ns/a-young'"));
    cond = sw_dns_claim_condition(&a, &c[0]);
    assert_string_equal(cond.status, "True");
    assert_string_equal(cond.reason, "Owner");
    cond = sw_dns_claim_condition(&a, &c[2]);
    assert_string_equal(cond.reason, "Pending");
    cond = sw_dns_claim_condition(&a, &c[3]);
    assert_string_equal(cond.reason, "Pending");
    forget(c, SW_ARRAY_LEN(c));
}

static void the_owner_elsewhere_is_not_named(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_claim other = {.ns = SW_SLICE_LIT("secret"), .name = SW_SLICE_LIT("plan")};
    struct sw_dns_claim c[] = {{.connector = connector(&a, "here", T2, ID_A, "")}};

    (void)state;
    c[0].state = SW_DNS_CLAIM_DEFERRED;
    c[0].owner = &other;
    assert_null(strstr(sw_dns_claim_condition(&a, &c[0]).message.p, "secret"));
    assert_null(strstr(sw_dns_claim_condition(&a, &c[0]).message.p, "plan"));
    forget(c, 1);
}

static void stale_ones_are_withdrawn_and_keep_their_claim(void **state)
{
    static const struct {
        const char *more;
        enum sw_dns_claim_state first;
    } cases[] = {
        {READY("True", T1), SW_DNS_CLAIM_OWNER},
        {READY("False", "2026-02-01T00:00:00Z"), SW_DNS_CLAIM_STALE}, /* just so */
        {READY("False", "2026-02-01T00:00:01Z"), SW_DNS_CLAIM_OWNER},
        {READY("Unknown", "2026-01-31T23:59:59.999999Z"), SW_DNS_CLAIM_STALE},
        {"", SW_DNS_CLAIM_OWNER}, /* nobody judged it yet */
        {",\"conditions\":[{\"type\":\"Accepted\",\"status\":\"False\"}]", SW_DNS_CLAIM_PENDING},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_dns_claim c[] = {
            {.connector = connector(&a, "old", T1, ID_A, cases[i].more)},
            {.connector = connector(&a, "young", T2, ID_A, "")},
        };

        decide(&a, c, 2, "2026-02-01T00:00:00Z");
        assert_int_equal(c[0].state, cases[i].first);
        assert_int_equal(c[1].state, SW_DNS_CLAIM_DEFERRED);
        forget(c, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_nodes),
        cmocka_unit_test(records_are_read_as_iroh_reads_them),
        cmocka_unit_test(records_are_written_in_order),
        cmocka_unit_test(who_has_the_claim_owns_a_key),
        cmocka_unit_test(the_owner_elsewhere_is_not_named),
        cmocka_unit_test(stale_ones_are_withdrawn_and_keep_their_claim),
    };

    return cmocka_run_group_tests_name("dns discovery", tests, NULL, NULL);
}
