/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the updater, and what it makes of a zone. The flow is tested against Knot. */
#include "rig.h"

#include "dns/update_msg.h"

static void updates_carry_their_prerequisites(void **state)
{
    static const struct {
        enum sw_dns_update_kind kind;
        struct {
            const char *name;
            unsigned type;
            unsigned class;
        } want[6]; /* prerequisites, then changes */
        unsigned pre;
        unsigned changes;
    } cases[] = {
        {SW_DNS_UPDATE_CLAIM,
         {{"_spanwire.k.z.test", SW_DNS_ANY, SW_DNS_CLASS_NONE},
          {"_iroh.k.z.test", SW_DNS_TXT, SW_DNS_CLASS_NONE},
          {"_spanwire.k.z.test", SW_DNS_TXT, SW_DNS_IN},
          {"_iroh.k.z.test", SW_DNS_TXT, SW_DNS_IN},
          {"_iroh.k.z.test", SW_DNS_TXT, SW_DNS_IN}},
         2,
         3},
        {SW_DNS_UPDATE_REPLACE,
         {{"_spanwire.k.z.test", SW_DNS_TXT, SW_DNS_IN},
          {"_iroh.k.z.test", SW_DNS_TXT, SW_DNS_CLASS_ANY},
          {"_iroh.k.z.test", SW_DNS_TXT, SW_DNS_IN},
          {"_iroh.k.z.test", SW_DNS_TXT, SW_DNS_IN}},
         1,
         3},
        {SW_DNS_UPDATE_WITHDRAW,
         {{"_spanwire.k.z.test", SW_DNS_TXT, SW_DNS_IN},
          {"_iroh.k.z.test", SW_DNS_TXT, SW_DNS_CLASS_ANY},
          {"_spanwire.k.z.test", SW_DNS_TXT, SW_DNS_CLASS_ANY}},
         1,
         2},
    };
    SW_ARENA_AUTO a = {0};
    struct sw_dns_rrset set = TXT(&a, "_iroh.k.z.test", "addr=1.2.3.4:5", "relay=https://r/");
    struct sw_dns_name zone = name_of("z.test");
    struct sw_slice marker = sw_dns_marker_rdata(&a, "me");

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        uint8_t out[1000];
        struct sw_dns_writer w;
        struct sw_dns_reader r;
        struct sw_dns_header h;
        struct sw_dns_question q;

        sw_dns_writer_init(&w, out, sizeof(out));
        sw_dns_update_write(&w, 9, cases[i].kind, &zone, &set, marker);
        assert_false(w.full);
        r = (struct sw_dns_reader){.p = out, .n = w.n};
        assert_int_equal(sw_dns_read_header(&r, &h), SW_OK);
        assert_int_equal(sw_dns_opcode_of(&h), SW_DNS_UPDATE);
        assert_int_equal(h.an, cases[i].pre);
        assert_int_equal(h.ns, cases[i].changes);
        assert_int_equal(sw_dns_read_question(&r, &q), SW_OK);
        assert_int_equal(q.type, SW_DNS_SOA);
        for (unsigned k = 0; k < cases[i].pre + cases[i].changes; k++) {
            struct sw_dns_rr rr;
            struct sw_dns_name want = name_of(cases[i].want[k].name);

            assert_int_equal(sw_dns_read_rr(&r, &rr), SW_OK);
            assert_true(sw_dns_name_eq(&rr.name, &want));
            assert_int_equal(rr.type, cases[i].want[k].type);
            assert_int_equal(rr.class, cases[i].want[k].class);
            /* what only names something carries neither data nor a time */
            assert_int_equal(rr.rdata.n == 0, rr.class != SW_DNS_IN);
            assert_true(rr.class == SW_DNS_IN || rr.ttl == 0);
        }
        assert_int_equal(r.at, r.n);
    }
}

static void a_zone_is_taken_in_as_it_was_sent(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_dns_rrset *sets = sw_arena_array(&a, 1000, sizeof(*sets));
    struct sw_dns_reply reply = {
        .question = {.name = name_of("z.test"), .type = SW_DNS_AXFR, .class = SW_DNS_IN}};
    struct sw_dns_inventory v = {0};
    struct sw_dns_zone *z;
    struct sw_dns_xfer x;
    static uint8_t out[4096];
    size_t n;
    int rc = SW_OK;

    (void)state;
    for (size_t i = 0; i < 1000; i++)
        sets[i] = TXT(&a, sw_arena_printf(&a, "_IROH.k%zu.z.test", i), "b", "a");
    z = zone_of(sets, 1000, 1);
    sw_dns_xfer_start(&x, z, &reply, 0);
    while ((n = sw_dns_xfer_next(&x, out, sizeof(out)))) {
        assert_int_equal(rc, SW_OK);
        rc = sw_dns_inventory_add(&v, sw_slice(out, n), sw_dns_zone_origin(z));
    }
    assert_int_equal(rc, SW_EOF);
    assert_int_equal(v.names.n, 1000);
    for (size_t i = 0; i < 1000; i++) {
        struct sw_dns_name key = sets[i].name;
        const struct sw_dns_inventory_name *in;

        sw_dns_name_lower(&key);
        in = sw_map_get(&v.names, sw_slice(key.b, key.n));
        assert_non_null(in);
        assert_true(sw_dns_inventory_print(in) == sw_dns_set_print(&sets[i]));
    }
    sets[0].ttl++;
    assert_true(sw_dns_set_print(&sets[0]) != sw_dns_set_print(&sets[1]));
    sw_dns_inventory_done(&v);
    (void)sw_dns_zone_unref(z);
}

static void nonsense_instead_of_a_zone(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_dns_zone *z = zone_of(NULL, 0, 1);
    const struct sw_dns_rrset *soa = sw_dns_zone_soa(z);
    struct sw_dns_inventory v = {0};
    struct sw_dns_writer w;
    uint8_t out[600];

    (void)state;
    /* does not begin with the SOA */
    sw_dns_writer_init(&w, out, sizeof(out));
    sw_dns_put_header(&w, &(struct sw_dns_header){.flags = SW_DNS_QR, .an = 1});
    assert_true(sw_dns_put_rr(&w, &soa->name, SW_DNS_TXT, SW_DNS_IN, 1,
                              sw_dns_txt_rdata(&a, SW_SLICE_LIT("x"))));
    assert_int_equal(sw_dns_inventory_add(&v, sw_slice(out, w.n), &soa->name), SW_EPROTO);
    sw_dns_inventory_done(&v);
    /* goes on after its end */
    sw_dns_writer_init(&w, out, sizeof(out));
    sw_dns_put_header(&w, &(struct sw_dns_header){.flags = SW_DNS_QR, .an = 3});
    for (unsigned i = 0; i < 2; i++)
        assert_true(sw_dns_put_rr(&w, &soa->name, SW_DNS_SOA, SW_DNS_IN, 1, soa->rdata[0]));
    assert_true(sw_dns_put_rr(&w, &soa->name, SW_DNS_TXT, SW_DNS_IN, 1,
                              sw_dns_txt_rdata(&a, SW_SLICE_LIT("x"))));
    assert_int_equal(sw_dns_inventory_add(&v, sw_slice(out, w.n), &soa->name), SW_EPROTO);
    sw_dns_inventory_done(&v);
    assert_int_equal(sw_dns_inventory_add(&v, SW_SLICE_LIT("x"), &soa->name), SW_EPROTO);
    sw_dns_inventory_done(&v);
    (void)sw_dns_zone_unref(z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_carry_their_prerequisites),
        cmocka_unit_test(a_zone_is_taken_in_as_it_was_sent),
        cmocka_unit_test(nonsense_instead_of_a_zone),
    };

    return cmocka_run_group_tests_name("dns update", tests, NULL, NULL);
}
