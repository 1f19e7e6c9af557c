/* SPDX-License-Identifier: Apache-2.0 */
/* What names mean to a client of the mesh, and the messages of the DNS proxy. */
#include "fixture.h"

#include <string.h>

#include "node/dns/reply.h"

static const char world[] =
    "workloads:\n"
    "- {uid: me, name: me, namespace: shop, serviceAccount: me, workloadIps: [10.0.0.1], services: "
    "{}}\n"
    "- {uid: e1, name: e1, namespace: shop, workloadIps: [10.0.0.2, 'fd00::2'],\n"
    "   services: {'shop/crowd.shop.svc.test.local': {80: 80}}}\n"
    "- {uid: e2, name: e2, namespace: shop, workloadIps: [10.0.0.3],\n"
    "   services: {'shop/crowd.shop.svc.test.local': {80: 80}}}\n"
    "- {uid: host, name: host, namespace: shop, workloadIps: [10.0.0.4], hostname: vm.example,\n"
    "   services: {}}\n"
    "services:\n"
    "- {name: web, namespace: shop, hostname: web.shop.svc.test.local, vips: ['/10.1.0.1'],\n"
    "   ports: {80: 80}}\n"
    "- {name: svc, namespace: svc, hostname: svc.svc.svc.test.local, vips: ['/10.1.0.9'],\n"
    "   ports: {80: 80}}\n"
    "- {name: crowd, namespace: shop, hostname: crowd.shop.svc.test.local, vips: [],\n"
    "   ports: {80: 80}}\n"
    "- {name: out, namespace: shop, hostname: out.example, vips: ['/10.1.0.2'], ports: {80: 80}}\n"
    "- {name: gone, namespace: shop, hostname: gone.example, vips: [], ports: {80: 80}}\n"
    "- {name: any, namespace: shop, hostname: '*.any.example', vips: ['/10.1.0.3'],\n"
    "   ports: {80: 80}}\n"
    "- {name: secret, namespace: other, hostname: secret.example, vips: ['/10.1.0.4'],\n"
    "   ports: {80: 80}, visibility: Namespace}\n";

static const struct sw_dnsp_env env = {.domain = {"test.local", 10}, .ipv6 = true};

static void names(void **state)
{
    static const struct {
        const char *name;
        const char *found; /* hostname of the service, or "workload"; NULL: none */
        const char *stripped;
    } cases[] = {
        {"web.shop.svc.test.local", "web.shop.svc.test.local", NULL},
        {"web", "web.shop.svc.test.local", NULL},
        {"web.shop", "web.shop.svc.test.local", NULL},
        {"web.shop.svc", "web.shop.svc.test.local", NULL},
        {"svc.svc.svc", "svc.svc.svc.test.local", NULL},
        {"web.other", NULL, NULL},
        {"web.shop.svc.test.local.shop.svc.test.local", "web.shop.svc.test.local",
         "web.shop.svc.test.local"},
        {"out.example", "out.example", NULL},
        {"out.example.shop.svc.test.local", "out.example", "out.example"},
        {"out.example.svc.test.local", "out.example", "out.example"},
        {"out.example.test.local", "out.example", "out.example"},
        {"out.example.xtest.local", NULL, NULL},
        {"out.examplex", NULL, NULL},
        {"a.any.example", "*.any.example", NULL},
        {"a.b.any.example", "*.any.example", NULL},
        {"any.example", NULL, NULL},
        {"a.any.example.test.local", "*.any.example", NULL},
        {"crowd", "crowd.shop.svc.test.local", NULL},
        {"gone.example", NULL, NULL},
        {"secret.example", NULL, NULL},
        {"vm.example", "workload", NULL},
        {"test.local", NULL, NULL},
        {"", NULL, NULL},
        {".", NULL, NULL},
        {"...", NULL, NULL},
    };
    STATE_AUTO s = load(world);

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_dnsp_match m;
        bool got = sw_dnsp_find(s, &env, workload(s, "me"), sw_slice_str(cases[i].name), &m);

        if (got != (cases[i].found != NULL))
            fail_msg("'%s'", cases[i].name);
        if (!got)
            continue;
        if (strcmp(cases[i].found, "workload") == 0)
            assert_non_null(m.workload);
        else if (!m.service || !sw_slice_eq_str(m.service->hostname, cases[i].found))
            fail_msg("'%s' is another service", cases[i].name);
        assert_int_equal(m.stripped, cases[i].stripped != NULL);
        if (m.stripped)
            assert_string_equal(m.name, cases[i].stripped);
    }
}

static void longest_names(void **state)
{
    STATE_AUTO s = load(world);
    char text[SW_DNSP_NAME_MAX + 8];
    struct sw_dnsp_match m;

    (void)state;
    for (size_t n = 1; n < sizeof(text); n++) {
        for (size_t i = 0; i < n; i++)
            text[i] = i % 2 ? '.' : 'a';
        assert_false(sw_dnsp_find(s, &env, workload(s, "me"), sw_slice(text, n), &m));
    }
}

static void addresses_of_endpoints(void **state)
{
    STATE_AUTO s = load(world);
    struct sw_ip ips[SW_DNSP_ADDRESSES_MAX];
    struct sw_dnsp_env no6 = env;
    struct sw_dnsp_match m;

    (void)state;
    no6.ipv6 = false;
    assert_true(sw_dnsp_find(s, &env, workload(s, "me"), S("crowd"), &m));
    assert_int_equal(sw_dnsp_addresses(&env, workload(s, "me"), &m, 4, ips), 2);
    assert_int_equal(sw_dnsp_addresses(&env, workload(s, "me"), &m, 6, ips), 1);
    assert_int_equal(sw_dnsp_addresses(&no6, workload(s, "me"), &m, 6, ips), 0);
}

/* A question for the A records of a name. */
static struct sw_slice question(const char *name, uint8_t *out, size_t cap)
{
    struct sw_dns_question q = {.type = SW_DNS_A, .class = SW_DNS_IN};
    struct sw_dns_writer w;

    assert_int_equal(sw_dns_name_parse(sw_slice_str(name), &q.name, NULL), SW_OK);
    sw_dns_writer_init(&w, out, cap);
    sw_dns_put_header(&w, &(struct sw_dns_header){.id = 7, .flags = SW_DNS_RD, .qd = 1});
    sw_dns_put_question(&w, &q);
    return sw_slice(out, w.n);
}

static void verdicts(void **state)
{
    STATE_AUTO s = load(world);
    static uint8_t out[SW_DNS_MSG_MAX];
    uint8_t msg[512];
    struct sw_dnsp_request req = {.state = s, .env = &env, .client = workload(s, "me")};
    struct sw_dnsp_reply r;

    (void)state;
    req.msg = question("Web.Shop", msg, sizeof(msg));
    sw_dnsp_respond(&req, out, &r);
    assert_int_equal(r.verdict, SW_DNSP_REPLY);
    assert_int_equal(r.n_addresses, 1);
    assert_string_equal(r.name, "web.shop");
    req.msg = question("elsewhere.example", msg, sizeof(msg));
    sw_dnsp_respond(&req, out, &r);
    assert_int_equal(r.verdict, SW_DNSP_FORWARD);
    req.client = NULL;
    sw_dnsp_respond(&req, out, &r);
    assert_int_equal(r.rcode, SW_DNS_SERVFAIL);
    msg[2] |= SW_DNS_UPDATE << 3;
    sw_dnsp_respond(&req, out, &r);
    assert_int_equal(r.verdict, SW_DNSP_FORWARD);
    for (unsigned opcode = 1; opcode < 16; opcode++) {
        if (opcode == SW_DNS_UPDATE)
            continue;
        msg[2] = (uint8_t)(opcode << 3);
        sw_dnsp_respond(&req, out, &r);
        assert_int_equal(r.verdict, SW_DNSP_REPLY);
        assert_int_equal(r.rcode, SW_DNS_NOTIMP);
        assert_int_equal(out[2], SW_DNS_QR >> 8 | opcode << 3);
    }
    req.msg.n = SW_DNS_HEADER - 1;
    sw_dnsp_respond(&req, out, &r);
    assert_int_equal(r.verdict, SW_DNSP_DROP);
}

static void answers_of_others(void **state)
{
    static uint8_t out[SW_DNS_MSG_MAX];
    uint8_t msg[512];
    uint8_t answer[600] = {1, 2, (SW_DNS_QR | SW_DNS_AA) >> 8, 3};
    struct sw_slice q = question("elsewhere.example", msg, sizeof(msg));
    struct sw_dnsp_reply asked = {.id = 7, .limit = 512};

    (void)state;
    assert_int_equal(sw_dnsp_pass_on(&asked, q, sw_slice(answer, 512), out), 512);
    assert_int_equal(out[0] << 8 | out[1], 7);
    assert_int_equal(out[2], SW_DNS_QR >> 8);
    assert_int_equal(sw_dnsp_pass_on(&asked, q, sw_slice(answer, 513), out), q.n);
    assert_int_equal(out[2] & (SW_DNS_TC >> 8), SW_DNS_TC >> 8);
    assert_int_equal(sw_dnsp_error(q, SW_DNS_SERVFAIL, out), q.n);
    assert_int_equal(out[3] & 15, SW_DNS_SERVFAIL);
    assert_int_equal(sw_dnsp_error(sw_slice("x", 1), SW_DNS_SERVFAIL, out), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(longest_names),
        cmocka_unit_test(addresses_of_endpoints),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(answers_of_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
