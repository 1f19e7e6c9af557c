/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/hash.h"
#include "dns/rrl.h"

struct asked {
    struct sw_dns_reply reply;
    struct sw_dns_header h;
    struct sw_dns_rr rrs[64];
    size_t n;
    uint8_t out[SW_DNS_MSG_MAX];
};

static size_t question(uint8_t *out, const char *name, unsigned type, int edns)
{
    struct sw_dns_question q = {.name = name_of(name), .type = (uint16_t)type, .class = SW_DNS_IN};
    struct sw_dns_writer w;

    sw_dns_writer_init(&w, out, 512);
    sw_dns_put_header(&w, &(struct sw_dns_header){.id = 77, .flags = SW_DNS_RD, .qd = 1});
    sw_dns_put_question(&w, &q);
    if (edns >= 0) {
        sw_dns_set_u16(&w, 10, 1);
        assert_true(sw_dns_put_edns(&w, 0, false));
        sw_dns_set_u16(&w, w.n - 8, (unsigned)edns);
    }
    return w.n;
}

static void parse(struct asked *a)
{
    struct sw_dns_reader r = {.p = a->out, .n = a->reply.n};
    struct sw_dns_question q;

    assert_int_equal(sw_dns_read_header(&r, &a->h), SW_OK);
    assert_true(a->h.flags & SW_DNS_QR);
    for (unsigned i = 0; i < a->h.qd; i++)
        assert_int_equal(sw_dns_read_question(&r, &q), SW_OK);
    a->n = (size_t)a->h.an + a->h.ns + a->h.ar;
    assert_true(a->n <= SW_ARRAY_LEN(a->rrs));
    for (size_t i = 0; i < a->n; i++)
        assert_int_equal(sw_dns_read_rr(&r, &a->rrs[i]), SW_OK);
    assert_int_equal(r.at, r.n);
}

static void ask_raw(struct asked *a, const struct sw_dns_zone *z, struct sw_dns_request *req)
{
    sw_dns_respond(z, req, a->out, &a->reply);
    if (a->reply.verdict == SW_DNS_REPLY)
        parse(a);
}

static void ask(struct asked *a, const struct sw_dns_zone *z, const char *name, unsigned type,
                int edns, bool tcp)
{
    uint8_t q[512];
    struct sw_dns_request req = {.msg = sw_slice(q, question(q, name, type, edns)), .tcp = tcp};

    ask_raw(a, z, &req);
}

static struct asked got;

static void answers_and_absence(void **state)
{
    static const struct {
        const char *name;
        unsigned type;
        unsigned rcode;
        unsigned an;
        unsigned ns;
        bool aa;
    } cases[] = {
        {"_iroh.key.z.test", SW_DNS_TXT, SW_DNS_NOERROR, 2, 0, true},
        {"_IROH.kEy.Z.test", SW_DNS_TXT, SW_DNS_NOERROR, 2, 0, true},
        {"_iroh.key.z.test", SW_DNS_A, SW_DNS_NOERROR, 0, 1, true},
        {"_iroh.key.z.test", SW_DNS_ANY, SW_DNS_NOERROR, 2, 0, true},
        {"_iroh.key.z.test", 65, SW_DNS_NOERROR, 0, 1, true},
        {"key.z.test", SW_DNS_TXT, SW_DNS_NOERROR, 0, 1, true}, /* only a step to others */
        {"key.z.test", SW_DNS_ANY, SW_DNS_NOERROR, 0, 1, true},
        {"x._iroh.key.z.test", SW_DNS_TXT, SW_DNS_NXDOMAIN, 0, 1, true},
        {"ey.z.test", SW_DNS_TXT, SW_DNS_NXDOMAIN, 0, 1, true},
        {"z.test", SW_DNS_SOA, SW_DNS_NOERROR, 1, 0, true},
        {"z.test", SW_DNS_NS, SW_DNS_NOERROR, 2, 0, true},
        {"z.test", SW_DNS_ANY, SW_DNS_NOERROR, 1, 0, true},
        {"z.test", SW_DNS_TXT, SW_DNS_NOERROR, 0, 1, true},
        {"ns1.z.test", SW_DNS_A, SW_DNS_NOERROR, 1, 0, true},
        {"ns1.z.test", SW_DNS_AAAA, SW_DNS_NOERROR, 1, 0, true},
        {"alias.z.test", SW_DNS_TXT, SW_DNS_NOERROR, 3, 0, true},
        {"alias.z.test", SW_DNS_CNAME, SW_DNS_NOERROR, 1, 0, true},
        {"loop.z.test", SW_DNS_TXT, SW_DNS_NOERROR, 8, 0, true},
        {"test", SW_DNS_SOA, SW_DNS_REFUSED, 0, 0, false},
        {"az.test", SW_DNS_TXT, SW_DNS_REFUSED, 0, 0, false},
        {".", SW_DNS_NS, SW_DNS_REFUSED, 0, 0, false},
        {"z.test", SW_DNS_OPT, SW_DNS_FORMERR, 0, 0, false},
        {"z.test", SW_DNS_TSIG, SW_DNS_FORMERR, 0, 0, false},
        {"z.test", SW_DNS_AXFR, SW_DNS_REFUSED, 0, 0, false},
    };
    SW_ARENA_AUTO a = {0};
    struct sw_dns_name to = name_of("_iroh.key.z.test");
    struct sw_dns_name self = name_of("loop.z.test");
    struct sw_slice alias = sw_dns_name_rdata(&a, &to);
    struct sw_slice loop = sw_dns_name_rdata(&a, &self);
    struct sw_dns_rrset sets[] = {
        TXT(&a, "_iroh.key.z.test", "relay=https://r.test/", "addr=192.0.2.7:1"),
        {.name = name_of("alias.z.test"), .type = SW_DNS_CNAME, .ttl = 5, .rdata = &alias, .n = 1},
        {.name = self, .type = SW_DNS_CNAME, .ttl = 5, .rdata = &loop, .n = 1},
    };
    struct sw_dns_zone *z = zone_of(sets, 3, 1);

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        ask(&got, z, cases[i].name, cases[i].type, -1, false);
        assert_int_equal(got.reply.verdict, SW_DNS_REPLY);
        assert_int_equal(sw_dns_rcode_of(&got.h), cases[i].rcode);
        assert_int_equal(got.reply.rcode, cases[i].rcode);
        assert_int_equal(got.h.an, cases[i].an);
        assert_int_equal(got.h.ns, cases[i].ns);
        assert_int_equal((got.h.flags & SW_DNS_AA) != 0, cases[i].aa);
        assert_true(got.h.flags & SW_DNS_RD);
        assert_int_equal(got.h.id, 77);
        if (cases[i].ns) {
            assert_int_equal(got.rrs[got.h.an].type, SW_DNS_SOA);
            assert_int_equal(got.rrs[got.h.an].ttl, 5);
        }
    }
    (void)sw_dns_zone_unref(z);
}

static void servers_come_with_their_addresses(void **state)
{
    struct sw_dns_zone *z = zone_of(NULL, 0, 9);
    struct sw_dns_reader r = {.p = got.out};
    struct sw_dns_soa soa;

    (void)state;
    ask(&got, z, "z.test", SW_DNS_NS, -1, false);
    assert_int_equal(got.h.ar, 2);
    assert_int_equal(got.rrs[2].type, SW_DNS_A);
    assert_int_equal(got.rrs[3].type, SW_DNS_AAAA);
    ask(&got, z, "z.test", SW_DNS_SOA, -1, false);
    r.n = got.reply.n;
    assert_int_equal(sw_dns_rr_soa(&r, &got.rrs[0], &soa), SW_OK);
    assert_int_equal(soa.serial, 9);
    assert_int_equal(soa.minimum, 5);
    (void)sw_dns_zone_unref(z);
}

static struct sw_dns_zone *big_zone(struct sw_arena *a, size_t names)
{
    struct sw_dns_rrset *sets = sw_arena_array(a, names, sizeof(*sets));

    for (size_t i = 0; i < names; i++)
        sets[i] = TXT(a, sw_arena_printf(a, "_iroh.k%zu.z.test", i), "relay=https://r.example/",
                      "addr=[2001:db8:1111:2222:3333:4444:5555:6666]:40000",
                      "addr=[2001:db8:1111:2222:3333:4444:5555:6667]:40000",
                      "addr=[2001:db8:1111:2222:3333:4444:5555:6668]:40000",
                      "addr=[2001:db8:1111:2222:3333:4444:5555:6669]:40000",
                      "addr=[2001:db8:1111:2222:3333:4444:5555:6660]:40000",
                      "addr=[2001:db8:1111:2222:3333:4444:5555:6661]:40000",
                      "addr=[2001:db8:1111:2222:3333:4444:5555:6662]:40000",
                      "addr=[2001:db8:1111:2222:3333:4444:5555:6663]:40000");
    return zone_of(sets, names, 5);
}

static void too_much_for_a_datagram_is_truncated(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_dns_zone *z = big_zone(&a, 1);

    (void)state;
    ask(&got, z, "_iroh.k0.z.test", SW_DNS_TXT, -1, false);
    assert_true(got.h.flags & SW_DNS_TC);
    assert_int_equal(got.h.an, 0);
    assert_true(got.reply.n <= 512);
    ask(&got, z, "_iroh.k0.z.test", SW_DNS_TXT, 100, false); /* below the least: 512 */
    assert_true(got.h.flags & SW_DNS_TC);
    assert_int_equal(got.h.ar, 1);
    ask(&got, z, "_iroh.k0.z.test", SW_DNS_TXT, 4096, false);
    assert_false(got.h.flags & SW_DNS_TC);
    assert_int_equal(got.h.an, 9);
    assert_true(got.reply.n <= SW_DNS_UDP_SIZE);
    ask(&got, z, "_iroh.k0.z.test", SW_DNS_TXT, -1, true);
    assert_int_equal(got.h.an, 9);
    (void)sw_dns_zone_unref(z);
}

static void broken_questions(void **state)
{
    struct sw_dns_zone *z = zone_of(NULL, 0, 1);
    uint8_t q[600];
    size_t n = question(q, "z.test", SW_DNS_SOA, 4096);
    struct sw_dns_request req = {.msg = sw_slice(q, n)};

    (void)state;
    for (size_t cut = 0; cut < n; cut++) {
        req.msg = sw_slice(q, cut);
        ask_raw(&got, z, &req);
        if (cut < SW_DNS_HEADER) {
            assert_int_equal(got.reply.verdict, SW_DNS_DROP);
        } else {
            assert_int_equal(got.reply.verdict, SW_DNS_REPLY);
            assert_int_equal(got.reply.rcode, SW_DNS_FORMERR);
        }
    }
    req.msg = sw_slice(q, n + 1); /* bytes too many */
    ask_raw(&got, z, &req);
    assert_int_equal(got.reply.rcode, SW_DNS_FORMERR);
    req.msg = sw_slice(q, n);
    q[2] |= 0x80; /* an answer is never answered */
    ask_raw(&got, z, &req);
    assert_int_equal(got.reply.verdict, SW_DNS_DROP);
    for (unsigned opcode = 1; opcode < 16; opcode++) {
        q[2] = (uint8_t)(opcode << 3);
        ask_raw(&got, z, &req);
        assert_int_equal(got.reply.rcode, SW_DNS_NOTIMP);
        assert_int_equal(sw_dns_opcode_of(&got.h), opcode);
    }
    q[2] = 0;
    q[5] = 2; /* two questions */
    ask_raw(&got, z, &req);
    assert_int_equal(got.reply.rcode, SW_DNS_FORMERR);
    q[5] = 0;
    ask_raw(&got, z, &req);
    assert_int_equal(got.reply.rcode, SW_DNS_FORMERR);
    q[5] = 1;
    ask_raw(&got, z, &req);
    assert_int_equal(got.reply.rcode, SW_DNS_NOERROR);
    q[n - 5] = 1; /* EDNS version 1 */
    ask_raw(&got, z, &req);
    assert_int_equal(got.reply.rcode, SW_DNS_BADVERS);
    assert_int_equal(got.rrs[got.n - 1].ttl >> 24, 1);
    (void)sw_dns_zone_unref(z);
}

static void without_a_zone_nothing_is_known(void **state)
{
    (void)state;
    ask(&got, NULL, "z.test", SW_DNS_SOA, -1, false);
    assert_int_equal(got.reply.rcode, SW_DNS_SERVFAIL);
}

static void bad_zones_are_refused(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_dns_zone_conf c = conf_of("z.test");
    struct sw_dns_rrset out = TXT(&a, "a.other.test", "x");
    struct sw_dns_rrset twice[] = {TXT(&a, "a.z.test", "x"), TXT(&a, "A.z.test", "y")};
    struct sw_dns_rrset alias[] = {TXT(&a, "a.z.test", "x"), TXT(&a, "a.z.test", "y")};
    struct sw_dns_rrset soa = TXT(&a, "z.test", "x");
    char big[62000];
    struct sw_slice rdata;
    struct sw_dns_rrset huge = {
        .name = name_of("b.z.test"), .type = SW_DNS_TXT, .rdata = &rdata, .n = 1};

    (void)state;
    memset(big, 'x', sizeof(big));
    rdata = sw_dns_txt_rdata(&a, sw_slice(big, sizeof(big)));
    alias[1].type = SW_DNS_CNAME;
    soa.type = SW_DNS_SOA;
    assert_null(sw_dns_zone_new(&c, &out, 1, 1, NULL));
    assert_null(sw_dns_zone_new(&c, twice, 2, 1, NULL));
    assert_null(sw_dns_zone_new(&c, alias, 2, 1, NULL));
    assert_null(sw_dns_zone_new(&c, &soa, 1, 1, NULL));
    assert_null(sw_dns_zone_new(&c, &huge, 1, 1, NULL));
    c.n_ns = 0;
    assert_null(sw_dns_zone_new(&c, NULL, 0, 1, NULL));
}

/* ---- transfers ---- */

static void transfer(const struct sw_dns_zone *z, const struct sw_dns_reply *r,
                     const struct sw_dns_key *key, struct sw_dns_mac mac, size_t want)
{
    static uint8_t out[16384];
    struct sw_dns_tsig_ctx check = {.prior = mac, .now_s = 1000};
    struct sw_dns_tsig_found f;
    struct sw_dns_xfer x;
    size_t records = 0;
    size_t soas = 0;
    size_t n;

    sw_dns_xfer_start(&x, z, r, 1000);
    while ((n = sw_dns_xfer_next(&x, out, sizeof(out)))) {
        struct sw_dns_reader rd = {.p = out, .n = n};
        struct sw_dns_header h;
        struct sw_dns_question q;
        struct sw_dns_rr rr;

        assert_int_equal(sw_dns_read_header(&rd, &h), SW_OK);
        assert_int_equal(h.qd, records ? 0 : 1);
        if (h.qd)
            assert_int_equal(sw_dns_read_question(&rd, &q), SW_OK);
        for (unsigned i = 0; i < h.an; i++) {
            assert_int_equal(sw_dns_read_rr(&rd, &rr), SW_OK);
            assert_true(soas < 2);
            soas += rr.type == SW_DNS_SOA;
            assert_true(records || rr.type == SW_DNS_SOA);
            records++;
        }
        if (key) {
            assert_int_equal(sw_dns_tsig_verify(sw_slice(out, n), key, 1, &check, &f), SW_OK);
            check.timers_only = true;
        }
    }
    assert_int_equal(soas, 2);
    assert_int_equal(records, want);
}

static void zones_are_transferred_whole(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_dns_zone *z = big_zone(&a, 500);
    uint8_t q[600];
    size_t n = question(q, "z.test", SW_DNS_AXFR, -1);
    struct sw_dns_request req = {.msg = sw_slice(q, n), .tcp = true, .may_transfer = true};

    (void)state;
    ask_raw(&got, z, &req);
    assert_int_equal(got.reply.verdict, SW_DNS_TRANSFER);
    transfer(z, &got.reply, NULL, (struct sw_dns_mac){0}, 2 + 2 + 2 + 500 * 9);
    req.tcp = false;
    ask_raw(&got, z, &req);
    assert_int_equal(got.reply.rcode, SW_DNS_FORMERR);
    req.tcp = true;
    req.may_transfer = false;
    ask_raw(&got, z, &req);
    assert_int_equal(got.reply.rcode, SW_DNS_REFUSED);
    n = question(q, "k1.z.test", SW_DNS_AXFR, -1);
    req.msg = sw_slice(q, n);
    req.may_transfer = true;
    ask_raw(&got, z, &req);
    assert_int_equal(got.reply.rcode, SW_DNS_NOTAUTH);
    (void)sw_dns_zone_unref(z);
}

static void signed_transfers(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_dns_zone *z = big_zone(&a, 500);
    struct sw_dns_key key;
    struct sw_dns_key other;
    struct sw_dns_tsig_ctx c = {.now_s = 1000};
    struct sw_dns_tsig_found f;
    struct sw_dns_writer w;
    uint8_t q[600];
    size_t n = question(q, "z.test", SW_DNS_AXFR, -1);
    struct sw_dns_request req = {
        .tcp = true, .keys = &key, .n_keys = 1, .key_transfers = true, .now_s = 1000};

    (void)state;
    assert_int_equal(sw_dns_key_parse(&a, SW_SLICE_LIT("k:MDEyMzQ1Njc4OWFiY2RlZg=="), &key, NULL),
                     SW_OK);
    assert_int_equal(sw_dns_key_parse(&a, SW_SLICE_LIT("k:AAAyMzQ1Njc4OWFiY2RlZg=="), &other, NULL),
                     SW_OK);
    w = (struct sw_dns_writer){.p = q, .cap = sizeof(q), .n = n};
    assert_true(sw_dns_tsig_sign(&w, &key, 0, &c));
    req.msg = sw_slice(q, w.n);
    ask_raw(&got, z, &req);
    assert_int_equal(got.reply.verdict, SW_DNS_TRANSFER);
    transfer(z, &got.reply, &key, c.prior, 2 + 2 + 2 + 500 * 9);
    /* too late: refused with a signed answer that says so */
    req.now_s = 5000;
    ask_raw(&got, z, &req);
    assert_int_equal(got.reply.rcode, SW_DNS_NOTAUTH);
    c.now_s = 5000;
    assert_int_equal(sw_dns_tsig_verify(sw_slice(got.out, got.reply.n), &key, 1, &c, &f),
                     SW_EDENIED);
    assert_int_equal(f.error, SW_DNS_BADTIME);
    req.now_s = 1000;
    req.keys = &other; /* another secret of the same name */
    ask_raw(&got, z, &req);
    assert_int_equal(got.reply.rcode, SW_DNS_NOTAUTH);
    req.n_keys = 0;
    ask_raw(&got, z, &req);
    assert_int_equal(got.reply.rcode, SW_DNS_NOTAUTH);
    (void)sw_dns_zone_unref(z);
}

static void incremental_transfers_fall_back(void **state)
{
    struct sw_dns_zone *z = zone_of(NULL, 0, 10);
    struct sw_dns_zone *older = zone_of(NULL, 0, 9);
    const struct sw_dns_zone *has[] = {older, z};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        uint8_t q[600];
        size_t n = question(q, "z.test", SW_DNS_IXFR, -1);
        struct sw_dns_writer w = {.p = q, .cap = sizeof(q), .n = n};
        const struct sw_dns_rrset *soa = sw_dns_zone_soa(has[i]);
        struct sw_dns_request req = {.tcp = true, .may_transfer = true};

        assert_true(sw_dns_put_rr(&w, &soa->name, SW_DNS_SOA, SW_DNS_IN, 1, soa->rdata[0]));
        sw_dns_set_u16(&w, 8, 1);
        req.msg = sw_slice(q, w.n);
        ask_raw(&got, z, &req);
        assert_int_equal(got.reply.verdict, i ? SW_DNS_REPLY : SW_DNS_TRANSFER);
        req.tcp = false;
        ask_raw(&got, z, &req);
        assert_int_equal(got.reply.verdict, SW_DNS_REPLY);
        assert_int_equal(got.h.an, 1);
    }
    (void)sw_dns_zone_unref(z);
    (void)sw_dns_zone_unref(older);
}

/* ---- rates ---- */

static void floods_are_limited_by_network(void **state)
{
    struct sw_dns_rrl *r = sw_dns_rrl_new(10);
    struct sw_ip a;
    struct sw_ip b;
    struct sw_ip same;
    unsigned verdicts[3] = {0};

    (void)state;
    assert_int_equal(sw_ip_parse(SW_SLICE_LIT("192.0.2.7"), &a, NULL), SW_OK);
    assert_int_equal(sw_ip_parse(SW_SLICE_LIT("192.0.2.99"), &same, NULL), SW_OK);
    assert_int_equal(sw_ip_parse(SW_SLICE_LIT("192.0.3.7"), &b, NULL), SW_OK);
    for (unsigned i = 0; i < 110; i++)
        verdicts[sw_dns_rrl_check(r, i % 2 ? &a : &same, 1000)]++;
    assert_int_equal(verdicts[SW_DNS_RRL_PASS], 10);
    assert_int_equal(verdicts[SW_DNS_RRL_SLIP], 50);
    assert_int_equal(verdicts[SW_DNS_RRL_DROP], 50);
    assert_int_equal(sw_dns_rrl_check(r, &b, 1000), SW_DNS_RRL_PASS);
    /* a tenth of a second later one more may pass */
    assert_int_equal(sw_dns_rrl_check(r, &a, 1000 + SW_NS_PER_S / 10), SW_DNS_RRL_PASS);
    assert_int_not_equal(sw_dns_rrl_check(r, &a, 1000 + SW_NS_PER_S / 10), SW_DNS_RRL_PASS);
    sw_dns_rrl_free(r);
    assert_int_equal(sw_dns_rrl_check(NULL, &a, 1), SW_DNS_RRL_PASS);
}

static void a_slip_is_no_larger_than_its_question(void **state)
{
    uint8_t q[600];
    uint8_t out[512];
    size_t n = question(q, "_iroh.key.z.test", SW_DNS_TXT, 4096);
    size_t k = sw_dns_slip(sw_slice(q, n), out, sizeof(out));

    (void)state;
    assert_true(k && k < n);
    assert_true(out[2] & 0x82);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_and_absence),
        cmocka_unit_test(servers_come_with_their_addresses),
        cmocka_unit_test(too_much_for_a_datagram_is_truncated),
        cmocka_unit_test(broken_questions),
        cmocka_unit_test(without_a_zone_nothing_is_known),
        cmocka_unit_test(bad_zones_are_refused),
        cmocka_unit_test(zones_are_transferred_whole),
        cmocka_unit_test(signed_transfers),
        cmocka_unit_test(incremental_transfers_fall_back),
        cmocka_unit_test(floods_are_limited_by_network),
        cmocka_unit_test(a_slip_is_no_larger_than_its_question),
    };

    return cmocka_run_group_tests_name("dns respond", tests, NULL, NULL);
}
