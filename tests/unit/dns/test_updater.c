/* SPDX-License-Identifier: Apache-2.0 */
/* The updater against a server that does what a test tells it to. Knot does the rest (tests/e2e).
 */
#include "rig.h"

#include "dns/update.h"
#include "dns/update_msg.h"
#include "io/sock.h"

enum manner { HONEST, HANG_UP, GARBAGE, UNSIGNED, SILENT, FOREIGN, REFUSING };

static uint64_t now_ns;
static struct sw_loop *loop;
static struct sw_arena arena;

static uint64_t fake_clock(void)
{
    return now_ns;
}

/* One connection at a time is all the updater makes. */
static struct {
    enum manner manner;
    bool no_axfr;
    int listener;
    struct sw_watch accept;
    int fd;
    struct sw_watch watch;
    uint8_t in[8192];
    size_t n;
    struct sw_dns_key key;
    unsigned connections;
    unsigned updates;
    unsigned claims;
    unsigned withdrawals;
    char last[300];              /* the first record added by the last update */
    void (*before_answer)(void); /* runs once */
} srv;

static struct sw_dns_updater *updater;

/* ---- the server ---- */

static void drop(void)
{
    if (srv.fd < 0)
        return;
    sw_watch_stop(&srv.watch);
    sw_sock_close(srv.fd);
    srv.fd = -1;
    srv.n = 0;
}

static void send_raw(const uint8_t *p, size_t n)
{
    uint8_t out[2048] = {(uint8_t)(n >> 8), (uint8_t)n};

    memcpy(out + 2, p, n);
    (void)!sw_sock_write(srv.fd, out, n + 2);
}

static void note_update(struct sw_dns_reader *r, const struct sw_dns_header *h)
{
    struct sw_dns_rr rr;
    struct sw_slice text;

    srv.updates++;
    srv.last[0] = '\0';
    for (unsigned i = 0; i < (unsigned)h->an + h->ns; i++) {
        assert_int_equal(sw_dns_read_rr(r, &rr), SW_OK);
        if (i == 0 && rr.class == SW_DNS_CLASS_NONE)
            srv.claims++;
        if (i >= h->an && rr.class == SW_DNS_IN && rr.name.b[1] == '_' && rr.name.b[2] == 'i' &&
            !srv.last[0]) {
            assert_int_equal(sw_dns_txt_join(&arena, rr.rdata, &text), SW_OK);
            (void)snprintf(srv.last, sizeof(srv.last), "%.*s", SW_SLICE_ARG(text));
        }
    }
    srv.withdrawals += !srv.last[0];
}

static void put_zone(struct sw_dns_writer *w)
{
    struct sw_dns_zone *z = zone_of(NULL, 0, 1);
    const struct sw_dns_rrset *soa = sw_dns_zone_soa(z);

    for (unsigned i = 0; i < 2; i++)
        assert_true(sw_dns_put_rr(w, &soa->name, SW_DNS_SOA, SW_DNS_IN, 1, soa->rdata[0]));
    sw_dns_set_u16(w, 6, 2);
    (void)sw_dns_zone_unref(z);
}

static void answer(struct sw_slice msg)
{
    struct sw_dns_tsig_ctx c = {.now_s = sw_wall_ns() / SW_NS_PER_S};
    struct sw_dns_reader r = {.p = (const uint8_t *)msg.p, .n = msg.n};
    struct sw_dns_tsig_found f;
    struct sw_dns_header h;
    struct sw_dns_question q;
    struct sw_dns_writer w;
    uint8_t out[1500];
    unsigned rcode = SW_DNS_NOERROR;
    bool update;

    assert_int_equal(sw_dns_tsig_verify(msg, &srv.key, 1, &c, &f), SW_OK);
    assert_int_equal(sw_dns_read_header(&r, &h), SW_OK);
    assert_int_equal(sw_dns_read_question(&r, &q), SW_OK);
    update = sw_dns_opcode_of(&h) == SW_DNS_UPDATE;
    if (update)
        note_update(&r, &h);
    if (update && srv.manner == FOREIGN)
        rcode = srv.claims % 2 ? SW_DNS_YXRRSET : SW_DNS_NXRRSET;
    if (srv.manner == REFUSING)
        rcode = SW_DNS_REFUSED;
    if (!update && srv.no_axfr)
        rcode = SW_DNS_REFUSED;
    sw_dns_writer_init(&w, out, sizeof(out));
    sw_dns_put_header(
        &w, &(struct sw_dns_header){.id = h.id,
                                    .flags = (uint16_t)(SW_DNS_QR | (h.flags & 0x7800) | rcode)});
    if (!update && rcode == SW_DNS_NOERROR)
        put_zone(&w);
    if (srv.manner != UNSIGNED || !update)
        assert_true(sw_dns_tsig_sign(&w, &srv.key, 0, &c));
    if (update && srv.before_answer) {
        void (*hook)(void) = SW_TAKE(srv.before_answer);

        hook();
    }
    send_raw(out, w.n);
}

static void on_bytes(struct sw_watch *w, unsigned events)
{
    (void)w;
    (void)events;
    for (;;) {
        ssize_t k = sw_sock_read(srv.fd, srv.in + srv.n, sizeof(srv.in) - srv.n);
        size_t len;

        if (k == SW_EAGAIN)
            return;
        if (k < 0 || srv.manner == HANG_UP) {
            drop();
            return;
        }
        srv.n += (size_t)k;
        len = srv.n >= 2 ? (size_t)srv.in[0] << 8 | srv.in[1] : 0;
        if (srv.n < 2 || srv.n < len + 2)
            continue;
        srv.n = 0;
        if (srv.manner == GARBAGE)
            send_raw((const uint8_t *)"no answer to anything you asked", 31);
        else if (srv.manner != SILENT)
            answer(sw_slice(srv.in + 2, len));
    }
}

static void on_accept(struct sw_watch *w, unsigned events)
{
    int fd;

    (void)w;
    (void)events;
    if (sw_sock_accept(srv.listener, &fd, NULL, NULL) != SW_OK)
        return;
    drop();
    srv.connections++;
    srv.fd = fd;
    assert_int_equal(sw_watch_start(loop, &srv.watch, fd, on_bytes, NULL), SW_OK);
    on_bytes(&srv.watch, 0);
}

/* ---- the rig ---- */

static void begin(enum manner manner)
{
    const struct sw_sock_opts so = SW_SOCK_OPTS_INIT;
    struct sw_dns_updater_opts o = {.owner = "me", .zone = name_of("z.test")};
    struct sw_addr at;

    memset(&srv, 0, sizeof(srv));
    srv.fd = -1;
    srv.manner = manner;
    loop = sw_loop_new(NULL);
    now_ns = SW_NS_PER_S;
    sw_loop_set_clock(loop, fake_clock);
    assert_int_equal(
        sw_dns_key_parse(&arena, SW_SLICE_LIT("k:MDEyMzQ1Njc4OWFiY2RlZg=="), &srv.key, NULL),
        SW_OK);
    assert_int_equal(sw_addr_parse(SW_SLICE_LIT("127.0.0.1:0"), &at, NULL), SW_OK);
    assert_int_equal(sw_sock_listen(&at, &so, &srv.listener, NULL), SW_OK);
    assert_int_equal(sw_watch_start_listener(loop, &srv.accept, srv.listener, on_accept, NULL),
                     SW_OK);
    o.server = sw_sock_local(srv.listener);
    o.key = srv.key;
    updater = sw_dns_updater_new(loop, &o);
}

static void end(void)
{
    sw_dns_updater_free(updater);
    drop();
    sw_watch_stop(&srv.accept);
    sw_sock_close(srv.listener);
    sw_loop_free(loop);
    sw_arena_clear(&arena);
}

static void set(const char *txt)
{
    struct sw_dns_rrset s = TXT(&arena, "_iroh.k.z.test", txt ? txt : "");

    sw_dns_updater_set(updater, &s, txt ? 1 : 0);
}

/* Loopback is there at once: a few turns without waiting see everything that was sent. */
static void pass(uint64_t ns)
{
    for (uint64_t end_ns = now_ns + ns; now_ns < end_ns; now_ns += 100 * SW_NS_PER_MS)
        for (unsigned i = 0; i < 20; i++)
            sw_loop_turn(loop, 0);
}

static struct sw_dns_updater_stats stats(void)
{
    return sw_dns_updater_stats(updater);
}

/* ---- tests ---- */

static void what_is_wanted_is_written_and_withdrawn(void **state)
{
    (void)state;
    begin(HONEST);
    pass(SW_NS_PER_S);
    assert_int_equal(srv.connections, 0); /* nothing is known of what is wanted yet */
    set("addr=192.0.2.1:1");
    pass(SW_NS_PER_S);
    assert_string_equal(srv.last, "addr=192.0.2.1:1");
    assert_int_equal(srv.claims, 1);
    assert_true(stats().idle && !stats().pending);
    set("addr=192.0.2.1:1"); /* the same again is no work */
    pass(SW_NS_PER_S);
    assert_int_equal(srv.updates, 1);
    set("addr=192.0.2.1:2");
    pass(SW_NS_PER_S);
    assert_int_equal(srv.updates, 2);
    assert_int_equal(srv.claims, 1); /* ours by now: replaced */
    set(NULL);
    pass(SW_NS_PER_S);
    assert_int_equal(srv.withdrawals, 1);
    assert_int_equal(stats().wanted, 0);
    assert_int_equal(stats().done, 3);
    assert_int_equal(stats().failures, 0);
    end();
}

static void change_under_way(void)
{
    set("addr=192.0.2.1:2");
}

static void go_under_way(void)
{
    set(NULL);
}

static void what_changes_meanwhile_is_written_after(void **state)
{
    (void)state;
    begin(HONEST);
    srv.before_answer = change_under_way;
    set("addr=192.0.2.1:1");
    pass(SW_NS_PER_S);
    assert_string_equal(srv.last, "addr=192.0.2.1:2");
    assert_true(stats().idle && !stats().pending);
    srv.before_answer = go_under_way;
    set("addr=192.0.2.1:3");
    pass(SW_NS_PER_S);
    assert_int_equal(srv.withdrawals, 1);
    assert_int_equal(stats().pending, 0);
    end();
}

static void a_server_without_transfers_is_written_to(void **state)
{
    (void)state;
    begin(HONEST);
    srv.no_axfr = true;
    set("addr=192.0.2.1:1");
    pass(SW_NS_PER_S);
    assert_int_equal(srv.updates, 1);
    assert_int_equal(stats().failures, 0);
    end();
}

static void names_of_others_are_left_alone(void **state)
{
    (void)state;
    begin(FOREIGN);
    set("addr=192.0.2.1:1");
    pass(10 * SW_NS_PER_S);
    assert_int_equal(srv.updates, 2); /* claimed, replaced, given up */
    assert_int_equal(stats().foreign, 1);
    assert_int_equal(stats().failures, 0);
    srv.manner = HONEST;
    srv.claims = 0;
    pass(301 * SW_NS_PER_S); /* the next comparison */
    assert_int_equal(stats().foreign, 0);
    assert_int_equal(stats().pending, 0);
    end();
}

static void bad_servers_are_tried_less_and_less(void **state)
{
    static const enum manner manners[] = {HANG_UP, GARBAGE, UNSIGNED, SILENT, REFUSING};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(manners); i++) {
        begin(manners[i]);
        set("addr=192.0.2.1:1");
        pass(60 * SW_NS_PER_S);
        assert_true(stats().failures >= 3 && stats().failures <= 9);
        assert_int_equal(stats().pending, 1);
        assert_int_equal(stats().done, 0);
        srv.manner = HONEST;
        pass(100 * SW_NS_PER_S);
        assert_int_equal(stats().pending, 0);
        assert_string_equal(srv.last, "addr=192.0.2.1:1");
        end();
    }
}

static void it_may_go_at_any_time(void **state)
{
    (void)state;
    for (unsigned turns = 0; turns < 12; turns++) {
        begin(HONEST);
        set("addr=192.0.2.1:1");
        for (unsigned i = 0; i < turns; i++)
            sw_loop_turn(loop, 1);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wanted_is_written_and_withdrawn),
        cmocka_unit_test(what_changes_meanwhile_is_written_after),
        cmocka_unit_test(a_server_without_transfers_is_written_to),
        cmocka_unit_test(names_of_others_are_left_alone),
        cmocka_unit_test(bad_servers_are_tried_less_and_less),
        cmocka_unit_test(it_may_go_at_any_time),
    };

    return cmocka_run_group_tests_name("dns updater", tests, NULL, NULL);
}
