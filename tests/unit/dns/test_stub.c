/* SPDX-License-Identifier: Apache-2.0 */
/* The stub resolver against our own server, and against one that misbehaves as told. */
#include "rig.h"

#include "base/time.h"
#include "dns/authority.h"
#include "dns/stub.h"
#include "io/dgram.h"
#include "io/sock.h"

static uint64_t now_ns;

static uint64_t fake_clock(void)
{
    return now_ns;
}

static struct sw_loop *loop;

/* ---- what came ---- */

static struct {
    unsigned calls;
    unsigned rejected;
    int rc;
    size_t n;
    char first[300];
    uint32_t ttl;
} got;

static void on_result(void *arg, const struct sw_dns_result *r)
{
    (void)arg;
    got.calls++;
    got.rejected += r->rc == SW_ELIMIT;
    got.rc = r->rc;
    got.n = r->n_txt;
    got.ttl = r->ttl_s;
    got.first[0] = '\0';
    if (r->n_txt && r->txt[0].n < sizeof(got.first)) {
        memcpy(got.first, r->txt[0].p, r->txt[0].n);
        got.first[r->txt[0].n] = '\0';
    }
}

/* Turns the loop until 'calls' answers came; time passes as the loop wants it to. */
static void wait_for(unsigned calls, uint64_t limit_ns)
{
    uint64_t end = now_ns + limit_ns;

    while (got.calls < calls && now_ns < end) {
        sw_loop_turn(loop, 1);
        now_ns += 5 * SW_NS_PER_MS;
    }
    assert_int_equal(got.calls, calls);
}

static void ask(struct sw_dns_stub *s, const char *name)
{
    struct sw_dns_name n = name_of(name);

    got.calls = 0;
    (void)sw_dns_stub_txt(s, &n, on_result, NULL);
    wait_for(1, 20 * SW_NS_PER_S);
}

/* ---- a server of ours ---- */

static struct sw_dns_authority *serve(struct sw_arena *a, struct sw_addr *at)
{
    struct sw_dns_authority_opts o = {.n_listen = 1};
    struct sw_dns_rrset sets[] = {
        TXT(a, "_iroh.k.z.test", "relay=https://r.test/"),
        TXT(a, "big.z.test",
            "addr="
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "x", "y"),
    };
    struct sw_slice *many = sw_arena_array(a, 30, sizeof(*many));
    struct sw_dns_zone *z;
    struct sw_dns_authority *s;
    struct sw_err err = {0};

    for (size_t i = 0; i < 30; i++)
        many[i] = sw_dns_txt_rdata(
            a,
            sw_slice_str(sw_arena_printf(
                a, "addr=%02zuaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                i)));
    sets[1].rdata = many;
    sets[1].n = 30;
    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("127.0.0.1:0"), &o.listen[0], &err), SW_OK);
    s = sw_dns_authority_new(loop, &o, &err);
    if (!s)
        fail_msg("%s", err.msg);
    z = zone_of(sets, 2, 1);
    sw_dns_authority_set_zone(s, z);
    (void)sw_dns_zone_unref(z);
    *at = sw_dns_authority_addr(s);
    return s;
}

static void begin(void)
{
    loop = sw_loop_new(NULL);
    assert_non_null(loop);
    now_ns = SW_NS_PER_S;
    sw_loop_set_clock(loop, fake_clock);
    got.calls = 0;
}

static void records_come_and_are_remembered(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_dns_stub_opts o = {.n_servers = 1};
    struct sw_dns_authority *server;
    struct sw_dns_stub *s;
    struct sw_dns_name name = name_of("_iroh.k.z.test");

    (void)state;
    begin();
    server = serve(&a, &o.servers[0]);
    s = sw_dns_stub_new(loop, &o, NULL);
    ask(s, "_iroh.K.z.test");
    assert_int_equal(got.rc, SW_OK);
    assert_string_equal(got.first, "relay=https://r.test/");
    ask(s, "big.z.test"); /* by TCP */
    assert_int_equal(got.rc, SW_OK);
    assert_int_equal(got.n, 30);
    ask(s, "no.z.test");
    assert_int_equal(got.rc, SW_ENOENT);
    ask(s, "k.z.test"); /* there, but no TXT */
    assert_int_equal(got.rc, SW_ENOENT);
    ask(s, "elsewhere.test"); /* refused by all, in the end */
    assert_int_equal(got.rc, SW_EPROTO);
    sw_dns_authority_free(server);
    ask(s, "_iroh.k.z.test"); /* known still */
    assert_int_equal(got.rc, SW_OK);
    ask(s, "no.z.test");
    assert_int_equal(got.rc, SW_ENOENT);
    sw_dns_stub_forget(s, &name);
    ask(s, "_iroh.k.z.test");
    assert_int_equal(got.rc, SW_ETIME);
    now_ns += 6 * SW_NS_PER_S;
    ask(s, "no.z.test"); /* forgotten by now */
    assert_int_equal(got.rc, SW_ETIME);
    sw_dns_stub_free(s);
    sw_loop_free(loop);
}

/* ---- one that misbehaves ---- */

static struct bad {
    struct sw_watch watch;
    int fd;
    unsigned seen;
    unsigned answer_from; /* questions before this one are ignored */
    bool forge;           /* wrong ids first */
    unsigned rcode;
    uint8_t q[512];
} bad;

static void send_answer(const struct sw_addr *to, size_t n, bool forged)
{
    uint8_t out[600];
    struct sw_dns_reader r = {.p = bad.q, .n = n};
    struct sw_dns_header h;
    struct sw_dns_question q;
    struct sw_dns_writer w;
    SW_ARENA_AUTO a = {0};

    assert_int_equal(sw_dns_read_header(&r, &h), SW_OK);
    assert_int_equal(sw_dns_read_question(&r, &q), SW_OK);
    sw_dns_writer_init(&w, out, sizeof(out));
    sw_dns_put_header(&w, &(struct sw_dns_header){.id = (uint16_t)(forged ? h.id + 1 : h.id),
                                                  .flags = (uint16_t)(SW_DNS_QR | bad.rcode),
                                                  .qd = 1,
                                                  .an = 1});
    sw_dns_put_question(&w, &q);
    assert_true(sw_dns_put_rr(
        &w, &q.name, SW_DNS_TXT, SW_DNS_IN, 5,
        sw_dns_txt_rdata(&a, forged ? SW_SLICE_LIT("addr=forged") : SW_SLICE_LIT("addr=true"))));
    (void)sw_dgram_send(bad.fd, out, w.n, to);
}

static void on_question(struct sw_watch *w, unsigned events)
{
    (void)w;
    (void)events;
    for (;;) {
        struct sw_addr from;
        ssize_t n = sw_dgram_recv(bad.fd, bad.q, sizeof(bad.q), &from);

        if (n < 0)
            return;
        if (bad.seen++ < bad.answer_from)
            continue;
        for (unsigned i = 0; bad.forge && i < 20; i++)
            send_answer(&from, (size_t)n, true);
        send_answer(&from, (size_t)n, false);
    }
}

static struct sw_dns_stub *with_bad_server(struct sw_dns_stub_opts *o)
{
    struct sw_addr at;
    struct sw_dns_stub *s;

    begin();
    bad.seen = 0;
    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("127.0.0.1:0"), &at, NULL), SW_OK);
    assert_int_equal(sw_dgram_bind(&at, NULL, &bad.fd, NULL), SW_OK);
    assert_int_equal(sw_watch_start(loop, &bad.watch, bad.fd, on_question, NULL), SW_OK);
    o->servers[0] = sw_sock_local(bad.fd);
    o->n_servers = 1;
    s = sw_dns_stub_new(loop, o, NULL);
    assert_non_null(s);
    return s;
}

static void end(struct sw_dns_stub *s)
{
    sw_dns_stub_free(s);
    sw_watch_stop(&bad.watch);
    sw_sock_close(bad.fd);
    sw_loop_free(loop);
    memset(&bad, 0, sizeof(bad));
}

static void lost_questions_are_repeated(void **state)
{
    struct sw_dns_stub_opts o = {0};
    struct sw_dns_stub *s;
    uint64_t began;

    (void)state;
    bad.answer_from = 3;
    s = with_bad_server(&o);
    began = now_ns;
    ask(s, "a.test");
    assert_int_equal(got.rc, SW_OK);
    assert_string_equal(got.first, "addr=true");
    assert_int_equal(bad.seen, 4);
    assert_true(now_ns - began >= 600 * SW_NS_PER_MS && now_ns - began < 1000 * SW_NS_PER_MS);
    end(s);
}

static void silence_ends(void **state)
{
    struct sw_dns_stub_opts o = {0};
    struct sw_dns_stub *s;
    uint64_t began;

    (void)state;
    bad.answer_from = 1000;
    s = with_bad_server(&o);
    began = now_ns;
    ask(s, "a.test");
    assert_int_equal(got.rc, SW_ETIME);
    assert_int_equal(bad.seen, 7);
    assert_true(now_ns - began >= 5900 * SW_NS_PER_MS && now_ns - began < 7000 * SW_NS_PER_MS);
    end(s);
}

static void forged_answers_are_ignored(void **state)
{
    struct sw_dns_stub_opts o = {0};
    struct sw_dns_stub *s;

    (void)state;
    bad.forge = true;
    s = with_bad_server(&o);
    ask(s, "a.test");
    assert_string_equal(got.first, "addr=true");
    end(s);
}

static void failing_servers_are_asked_again(void **state)
{
    struct sw_dns_stub_opts o = {0};
    struct sw_dns_stub *s;

    (void)state;
    bad.rcode = SW_DNS_SERVFAIL;
    s = with_bad_server(&o);
    ask(s, "a.test");
    assert_int_equal(got.rc, SW_EPROTO);
    assert_int_equal(bad.seen, 7);
    end(s);
}

static void one_question_serves_many_and_limits_hold(void **state)
{
    struct sw_dns_stub_opts o = {.max_lookups = 2, .max_cache = 4};
    struct sw_dns_name name = name_of("a.test");
    struct sw_dns_name others[] = {name_of("b.test"), name_of("c.test")};
    struct sw_dns_lookup *dropped;
    struct sw_dns_stub *s;

    (void)state;
    s = with_bad_server(&o);
    got.calls = 0;
    for (unsigned i = 0; i < 10; i++)
        (void)sw_dns_stub_txt(s, &name, on_result, NULL);
    dropped = sw_dns_stub_txt(s, &name, on_result, NULL);
    sw_dns_lookup_cancel(dropped);
    (void)sw_dns_stub_txt(s, &others[0], on_result, NULL);
    (void)sw_dns_stub_txt(s, &others[1], on_result, NULL); /* the third name at once */
    wait_for(12, SW_NS_PER_S);
    assert_int_equal(got.rejected, 1);
    assert_int_equal(bad.seen, 2);
    for (unsigned i = 0; i < 20; i++) {
        char text[16];

        (void)snprintf(text, sizeof(text), "n%u.test", i);
        ask(s, text);
        assert_int_equal(got.rc, SW_OK);
    }
    bad.answer_from = 1000;
    ask(s, "n19.test"); /* the last few are known */
    assert_int_equal(got.rc, SW_OK);
    ask(s, "n1.test"); /* the first ones not */
    assert_int_equal(got.rc, SW_ETIME);
    end(s);
}

static void a_stub_may_go_while_it_asks(void **state)
{
    struct sw_dns_stub_opts o = {0};
    struct sw_dns_name name = name_of("a.test");
    struct sw_dns_stub *s;

    (void)state;
    bad.answer_from = 1000;
    s = with_bad_server(&o);
    (void)sw_dns_stub_txt(s, &name, on_result, NULL);
    sw_loop_turn(loop, 0);
    end(s);
    assert_int_equal(got.calls, 0);
}

static void servers_are_read_from_resolv_conf(void **state)
{
    struct sw_addr a[SW_DNS_SERVERS_MAX];
    char text[SW_ADDR_TEXT];
    struct sw_slice line = SW_SLICE_LIT("search\ta.example \t b ");

    (void)state;
    assert_int_equal(sw_dns_resolv_conf(SW_SLICE_LIT("# nameserver 1.1.1.1\nsearch x\n"
                                                     "nameserver 192.0.2.1\r\n"
                                                     " nameserver\t2001:db8::1 \nnameserver x\n"
                                                     "nameserverx 1.2.3.4"),
                                        a),
                     1);
    assert_int_equal(sw_dns_resolv_conf(SW_SLICE_LIT("nameserver 192.0.2.1\n"
                                                     " nameserver\t2001:db8::1 \nnameserver x\n"
                                                     "nameserverx 1.2.3.4"),
                                        a),
                     2);
    assert_string_equal(sw_addr_text(&a[0], text), "192.0.2.1:53");
    assert_string_equal(sw_addr_text(&a[1], text), "[2001:db8::1]:53");
    assert_int_equal(sw_dns_resolv_conf(SW_SLICE_LIT("nameserver 192.0.2.1 # of the site\n"
                                                     "\tnameserver \t 192.0.2.2\t; old\n"
                                                     "nameserver\nnameserver \n"),
                                        a),
                     2);
    assert_string_equal(sw_addr_text(&a[1], text), "192.0.2.2:53");
    assert_true(sw_slice_eq_str(sw_dns_resolv_word(&line), "search"));
    assert_true(sw_slice_eq_str(sw_dns_resolv_word(&line), "a.example"));
    assert_true(sw_slice_eq_str(sw_dns_resolv_word(&line), "b"));
    assert_int_equal(sw_dns_resolv_word(&line).n, 0);
    assert_int_equal(sw_dns_resolv_word(&line).n, 0);
    assert_int_equal(sw_dns_server_parse(SW_SLICE_LIT("127.0.0.1:5353"), &a[0], NULL), SW_OK);
    assert_int_equal(a[0].port, 5353);
    assert_int_not_equal(sw_dns_server_parse(SW_SLICE_LIT("127.0.0.1:0"), &a[0], NULL), SW_OK);
    assert_int_not_equal(sw_dns_server_parse(SW_SLICE_LIT("host"), &a[0], NULL), SW_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_and_are_remembered),
        cmocka_unit_test(lost_questions_are_repeated),
        cmocka_unit_test(silence_ends),
        cmocka_unit_test(forged_answers_are_ignored),
        cmocka_unit_test(failing_servers_are_asked_again),
        cmocka_unit_test(one_question_serves_many_and_limits_hold),
        cmocka_unit_test(a_stub_may_go_while_it_asks),
        cmocka_unit_test(servers_are_read_from_resolv_conf),
    };

    return cmocka_run_group_tests_name("dns stub", tests, NULL, NULL);
}
