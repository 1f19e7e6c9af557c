/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A QUIC endpoint as a program, for system tests. It echoes every stream and datagram it is sent,
 * does what lines on its standard input say, and prints one line of JSON per event.
 *
 *     quic_peer [bind=ADDR] [alpn=NAME] [half-open=N] [relay=URL] [key=FILE] [idle=SECONDS]
 *               [probes=1]
 *
 *     dial ID ALPN ADDR[,ADDR...]|- [RELAY]   connects; closes what was dialled before
 *     echo BYTES                              sends them on a stream and checks what comes back
 *     flow | got | end                        the same without an end, until it is said; so far
 *     datagram BYTES                          the same in one datagram
 *     more ADDR                               a further address of the dialled peer
 *     network                                 the network changed
 *     open ID ADDR[,ADDR...]                  datagrams to a node that may dial us
 *     hold N TEXT                             opens N streams, sends TEXT (with \\r and \\n) on
 * each, no more deaf N TEXT                             the same, and takes nothing of what comes
 *     churn N TEXT                            the same, and gives each stream up at once
 *     drop | count                            gives up the streams that are held; says what became
 * of them close CODE                              closes the dialled connection path | stats says
 * where it is, what it did
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "quic/id/addrs.h"
#include "quic/path.h"
#include "quic/quic.h"

struct transfer {
    struct sw_qstream *s;
    uint64_t left;
    uint64_t sent;
    uint64_t got;
    uint64_t began_ns;
    bool bad;
    bool fin;
};

static struct {
    struct sw_loop *loop;
    struct sw_rawkey *key;
    struct sw_quic *q;
    struct sw_qconn *dialled;
    struct transfer *flow; /* that has no end yet */
    struct sw_watch in;
    char line[16384];
    size_t line_n;
    size_t dgram_n;
    struct sw_list held;
    char text[16384];
    size_t text_n;
    uint64_t to_open;
    bool deaf;
    bool churn;
    uint64_t opened;
    uint64_t ended;
    uint64_t resets;
    uint64_t bytes;
} g;

struct held {
    struct sw_list link;
    struct sw_qstream *s;
};

static uint8_t pattern(uint64_t at)
{
    return (uint8_t)(at * 31 + (at >> 8) + (at >> 16));
}

static const char *path_name(const struct sw_qconn *c)
{
    switch (sw_qconn_path(c)) {
    case SW_QPATH_NONE:
        return "none";
    case SW_QPATH_DIRECT:
        return "direct";
    case SW_QPATH_RELAY:
        return "relay";
    }
    return "?";
}

static void say_conn(const char *event, const struct sw_qconn *c)
{
    char id[SW_NODEID_HEX];
    char addr[SW_ADDR_TEXT];
    struct sw_addr a = sw_qconn_addr(c);

    printf("{\"event\":\"%s\",\"peer\":\"%s\",\"dialled\":%s,\"path\":\"%s\",\"addr\":\"%s\","
           "\"alpn\":\"%.*s\",\"note\":\"%s\",\"rtt_us\":%llu}\n",
           event, sw_nodeid_hex(sw_qconn_peer(c), id), sw_qconn_dialled(c) ? "true" : "false",
           path_name(c), a.ip.family ? sw_addr_text(&a, addr) : "", SW_SLICE_ARG(sw_qconn_alpn(c)),
           sw_qconn_path_note(c), (unsigned long long)(sw_qconn_rtt_ns(c) / SW_NS_PER_US));
}

/* ---- what others send is sent back ---- */

static size_t echo_data(struct sw_qstream *s, const uint8_t *p, size_t n, bool fin)
{
    size_t took = n ? sw_qstream_write(s, p, n) : 0;

    if (fin && took == n)
        sw_qstream_finish(s);
    return took;
}

static void echo_writable(struct sw_qstream *s)
{
    sw_qstream_resume(s);
}

static void echo_reset(struct sw_qstream *s, uint64_t code)
{
    sw_qstream_abort(s, code);
}

static void echo_closed(struct sw_qstream *s, bool lost)
{
}

static const struct sw_qstream_ops echo_ops = {
    .data = echo_data, .writable = echo_writable, .reset = echo_reset, .closed = echo_closed};

static void on_stream(struct sw_qconn *c, struct sw_qstream *s)
{
    sw_qstream_attach(s, &echo_ops, NULL);
}

/* ---- our own transfers ---- */

static void pump(struct transfer *t)
{
    struct iovec room[2];
    int n;

    while (t->left > 0 && (n = sw_qstream_reserve(t->s, room)) > 0) {
        size_t done = 0;

        for (int i = 0; i < n; i++) {
            size_t k = sw_min(room[i].iov_len, t->left - done);

            for (size_t j = 0; j < k; j++)
                ((uint8_t *)room[i].iov_base)[j] = pattern(t->sent + done + j);
            done += k;
        }
        sw_qstream_commit(t->s, done);
        t->sent += done;
        t->left -= done;
    }
    if (t->left == 0)
        sw_qstream_finish(t->s);
}

static size_t on_data(struct sw_qstream *s, const uint8_t *p, size_t n, bool fin)
{
    struct transfer *t = sw_qstream_arg(s);

    for (size_t i = 0; i < n; i++)
        if (p[i] != pattern(t->got + i))
            t->bad = true;
    t->got += n;
    t->fin = fin;
    return n;
}

static void on_writable(struct sw_qstream *s)
{
    pump(sw_qstream_arg(s));
}

static void on_reset(struct sw_qstream *s, uint64_t code)
{
    printf("{\"event\":\"reset\",\"code\":%llu}\n", (unsigned long long)code);
}

static void on_transfer_closed(struct sw_qstream *s, bool lost)
{
    struct transfer *t = sw_qstream_arg(s);

    printf(
        "{\"event\":\"echo\",\"bytes\":%llu,\"ok\":%s,\"lost\":%s,\"ms\":%llu,\"path\":\"%s\"}\n",
        (unsigned long long)t->got, t->fin && !t->bad && t->got == t->sent ? "true" : "false",
        lost ? "true" : "false", (unsigned long long)((sw_now_ns() - t->began_ns) / SW_NS_PER_MS),
        path_name(sw_qstream_conn(s)));
    if (g.flow == t)
        g.flow = NULL;
    sw_free(t);
}

static const struct sw_qstream_ops transfer_ops = {
    .data = on_data, .writable = on_writable, .reset = on_reset, .closed = on_transfer_closed};

/* ---- streams that are opened to be a burden ---- */

static size_t held_data(struct sw_qstream *s, const uint8_t *p, size_t n, bool fin)
{
    if (g.deaf)
        return 0;
    g.bytes += n;
    return n;
}

static void held_writable(struct sw_qstream *s)
{
}

static void held_reset(struct sw_qstream *s, uint64_t code)
{
    g.resets++;
    sw_qstream_abort(s, code);
}

static void held_closed(struct sw_qstream *s, bool lost)
{
    struct held *h = sw_qstream_arg(s);

    g.ended++;
    sw_list_unlink(&h->link);
    sw_free(h);
}

static const struct sw_qstream_ops held_ops = {
    .data = held_data, .writable = held_writable, .reset = held_reset, .closed = held_closed};

static void open_more(void)
{
    while (g.dialled && g.to_open > 0) {
        struct held *h = SW_NEW(struct held);

        if (sw_qstream_open(g.dialled, &held_ops, h, &h->s) != SW_OK) {
            sw_free(h);
            return; /* on_room goes on */
        }
        g.to_open--;
        g.opened++;
        sw_list_push_back(&g.held, &h->link);
        (void)sw_qstream_write(h->s, g.text, g.text_n);
        if (g.churn)
            sw_qstream_abort(h->s, 7);
    }
}

static void on_room(struct sw_qconn *c)
{
    open_more();
}

static void do_hold(struct sw_slice rest)
{
    struct sw_slice count = sw_slice_cut(&rest, ' ');
    uint64_t n = 0;

    (void)!sw_slice_to_u64(count, UINT64_MAX, &n);
    g.text_n = 0;
    for (size_t i = 0; rest.p && i < rest.n && g.text_n < sizeof(g.text); i++) {
        char c = rest.p[i];

        if (c == '\\' && i + 1 < rest.n && (rest.p[i + 1] == 'r' || rest.p[i + 1] == 'n'))
            c = rest.p[++i] == 'r' ? '\r' : '\n';
        g.text[g.text_n++] = c;
    }
    g.to_open = n;
    open_more();
}

static void do_drop(void)
{
    g.to_open = 0;
    SW_LIST_FOREACH (it, &g.held)
        sw_qstream_abort(SW_CONTAINER_OF(it, struct held, link)->s, 7);
}

static void do_count(void)
{
    printf("{\"event\":\"count\",\"opened\":%llu,\"ended\":%llu,\"resets\":%llu,\"bytes\":%llu}\n",
           (unsigned long long)g.opened, (unsigned long long)g.ended, (unsigned long long)g.resets,
           (unsigned long long)g.bytes);
}

/* ---- connections ---- */

static void on_ready(struct sw_qconn *c)
{
    say_conn("ready", c);
}

static void on_datagram(struct sw_qconn *c, const uint8_t *p, size_t n)
{
    bool ok = n == g.dgram_n;

    if (c != g.dialled) {
        (void)!sw_qconn_datagram(c, p, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        ok = ok && p[i] == pattern(i);
    printf("{\"event\":\"datagram\",\"bytes\":%zu,\"ok\":%s}\n", n, ok ? "true" : "false");
}

static void on_path(struct sw_qconn *c)
{
    say_conn("path", c);
}

static void on_closed(struct sw_qconn *c, const struct sw_qclose *why)
{
    static const char *const kinds[] = {"local",   "app",      "transport", "idle",
                                        "timeout", "identity", "reset",     "failed"};

    printf(
        "{\"event\":\"closed\",\"dialled\":%s,\"kind\":\"%s\",\"code\":%llu,\"text\":\"%.*s\"}\n",
        sw_qconn_dialled(c) ? "true" : "false", kinds[why->kind], (unsigned long long)why->code,
        SW_SLICE_ARG(why->text));
    if (c == g.dialled)
        g.dialled = NULL;
}

static const struct sw_qconn_ops conn_ops = {.ready = on_ready,
                                             .stream = on_stream,
                                             .datagram = on_datagram,
                                             .path = on_path,
                                             .room = on_room,
                                             .closed = on_closed};

static void on_accepted(void *arg, struct sw_qconn *c)
{
    sw_qconn_set_ops(c, &conn_ops, NULL);
    say_conn("accepted", c);
}

static bool any_relay(void *arg, struct sw_slice url)
{
    (void)arg;
    (void)url;
    return true;
}

static void on_relay(void *arg, bool up)
{
    printf("{\"event\":\"relay\",\"up\":%s}\n", up ? "true" : "false");
}

/* ---- commands ---- */

static void oops(const char *what, const char *why)
{
    printf("{\"event\":\"error\",\"what\":\"%s\",\"why\":\"%s\"}\n", what, why);
}

static void do_dial(struct sw_slice rest)
{
    struct sw_addr addrs[SW_QUIC_ADDRS_MAX];
    struct sw_quic_target t = {.addrs = addrs};
    struct sw_slice id = sw_slice_cut(&rest, ' ');
    struct sw_slice alpn = sw_slice_cut(&rest, ' ');
    struct sw_slice list = sw_slice_cut(&rest, ' ');
    struct sw_err err;

    if (sw_nodeid_parse(id, &t.id, &err) != SW_OK) {
        oops("id", err.msg);
        return;
    }
    while (list.p && list.n > 1 && t.n_addrs < SW_QUIC_ADDRS_MAX)
        if (sw_addr_parse(sw_slice_cut(&list, ','), &addrs[t.n_addrs++], &err) != SW_OK) {
            oops("address", err.msg);
            return;
        }
    if (rest.p)
        t.relay = rest;
    if (g.dialled)
        sw_qconn_close(g.dialled, 0, "");
    g.dialled = sw_quic_dial(g.q, &t, alpn, &conn_ops, NULL, &err);
    if (!g.dialled)
        oops("dial", err.msg);
}

static struct transfer *do_echo(uint64_t n)
{
    struct transfer *t = SW_NEW(struct transfer);

    t->left = n;
    t->began_ns = sw_now_ns();
    if (!g.dialled || sw_qstream_open(g.dialled, &transfer_ops, t, &t->s) != SW_OK) {
        oops("echo", "no stream");
        sw_free(t);
        return NULL;
    }
    pump(t);
    return t;
}

static void flow_got(void)
{
    printf("{\"event\":\"got\",\"bytes\":%llu}\n", (unsigned long long)(g.flow ? g.flow->got : 0));
}

static void flow_end(void)
{
    if (!g.flow)
        return;
    g.flow->left = 0;
    pump(g.flow);
}

static void do_datagram(uint64_t n)
{
    uint8_t p[4096];

    n = sw_min(n, sizeof(p));
    for (size_t i = 0; i < n; i++)
        p[i] = pattern(i);
    g.dgram_n = n;
    if (!g.dialled || sw_qconn_datagram(g.dialled, p, n) != SW_OK)
        oops("datagram", "not taken");
}

static void do_stats(void)
{
    struct sw_quic_stats s;

    sw_quic_stats(g.q, &s);
    printf(
        "{\"event\":\"stats\",\"accepted\":%llu,\"retries\":%llu,\"refused\":%llu,\"dropped\":%llu,"
        "\"migrations\":%llu,\"conns\":%llu,\"rx_packets\":%llu,\"rx_calls\":%llu,"
        "\"probes_sent\":%llu,\"probes_dropped\":%llu,\"direct_found\":%llu,"
        "\"direct_failed\":%llu}\n",
        (unsigned long long)s.accepted, (unsigned long long)s.retries,
        (unsigned long long)s.refused, (unsigned long long)s.rx_dropped,
        (unsigned long long)s.migrations, (unsigned long long)s.conns,
        (unsigned long long)s.rx_packets, (unsigned long long)s.rx_calls,
        (unsigned long long)s.probes_sent, (unsigned long long)s.probes_dropped,
        (unsigned long long)s.direct_found, (unsigned long long)s.direct_failed);
}

/* Our addresses, for peers on a relay: those of all interfaces. */
static void set_candidates(void)
{
    struct sw_addr bound[2];
    struct sw_ip local[32];
    struct sw_addr_list l;

    sw_addr_list_build(&(struct sw_addr_sources){NULL, 0, bound, sw_quic_bound(g.q, bound), local,
                                                 sw_addrs_local(local, SW_ARRAY_LEN(local))},
                       &l);
    sw_quic_set_candidates(g.q, l.a, l.n);
}

static void on_mapped(void *arg)
{
    struct sw_addr a[SW_QUIC_MAPPED_MAX];
    size_t n = sw_quic_mapped(g.q, a);
    char text[SW_ADDR_TEXT];

    (void)arg;
    printf("{\"event\":\"mapped\",\"addrs\":[");
    for (size_t i = 0; i < n; i++)
        printf("%s\"%s\"", i ? "," : "", sw_addr_text(&a[i], text));
    printf("],\"varies\":%s}\n", sw_quic_mapping_varies(g.q, 4) ? "true" : "false");
}

/* "ID ADDR[,ADDR...]" */
static void do_open(struct sw_slice rest)
{
    struct sw_slice id = sw_slice_cut(&rest, ' ');
    struct sw_quic_place p[SW_QUIC_PLACES_MAX];
    size_t n = 0;

    while (rest.p && n < SW_QUIC_PLACES_MAX && sw_nodeid_parse(id, &p[n].id, NULL) == SW_OK &&
           sw_addr_parse(sw_slice_cut(&rest, ','), &p[n].addr, NULL) == SW_OK)
        n++;
    sw_quic_set_openings(g.q, p, n);
}

static void network_changed(void)
{
    sw_quic_network_changed(g.q);
    set_candidates();
}

static void command(struct sw_slice line)
{
    struct sw_slice verb = sw_slice_cut(&line, ' ');
    struct sw_slice rest = line.p ? line : SW_SLICE_LIT("");
    struct sw_addr a;
    uint64_t n = 0;

    (void)!sw_slice_to_u64(rest, UINT64_MAX, &n);
    if (sw_slice_eq_str(verb, "dial"))
        do_dial(rest);
    else if (sw_slice_eq_str(verb, "echo"))
        (void)do_echo(n);
    else if (sw_slice_eq_str(verb, "flow"))
        g.flow = do_echo(UINT64_MAX);
    else if (sw_slice_eq_str(verb, "got"))
        flow_got();
    else if (sw_slice_eq_str(verb, "end"))
        flow_end();
    else if (sw_slice_eq_str(verb, "datagram"))
        do_datagram(n);
    else if (sw_slice_eq_str(verb, "stats"))
        do_stats();
    else if (sw_slice_eq_str(verb, "count"))
        do_count();
    else if (sw_slice_eq_str(verb, "drop"))
        do_drop();
    else if (sw_slice_eq_str(verb, "hold") || sw_slice_eq_str(verb, "deaf") ||
             sw_slice_eq_str(verb, "churn")) {
        g.deaf = sw_slice_eq_str(verb, "deaf");
        g.churn = sw_slice_eq_str(verb, "churn");
        do_hold(rest);
    } else if (sw_slice_eq_str(verb, "network"))
        network_changed();
    else if (sw_slice_eq_str(verb, "open"))
        do_open(rest);
    else if (!g.dialled)
        oops("command", "nothing is dialled");
    else if (sw_slice_eq_str(verb, "more") && sw_addr_parse(rest, &a, NULL) == SW_OK)
        sw_qconn_more_addrs(g.dialled, &a, 1);
    else if (sw_slice_eq_str(verb, "close"))
        sw_qconn_close(g.dialled, n, "told to");
    else if (sw_slice_eq_str(verb, "path"))
        say_conn("path", g.dialled);
    else
        oops("command", "not known");
}

static void on_input(struct sw_watch *w, unsigned events)
{
    for (;;) {
        ssize_t n = read(0, g.line + g.line_n, sizeof(g.line) - g.line_n);
        char *end;

        if (n == 0)
            sw_loop_stop(g.loop);
        if (n <= 0)
            return;
        g.line_n += (size_t)n;
        while ((end = memchr(g.line, '\n', g.line_n))) {
            size_t k = (size_t)(end - g.line);

            command(sw_slice(g.line, k));
            g.line_n -= k + 1;
            memmove(g.line, end + 1, g.line_n);
        }
    }
}

/* ---- start ---- */

static const char *option(int argc, char **argv, const char *name)
{
    size_t n = strlen(name);

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=')
            return argv[i] + n + 1;
    return NULL;
}

static uint64_t number(const char *text, uint64_t otherwise)
{
    uint64_t n = otherwise;

    if (text)
        (void)!sw_slice_to_u64(sw_slice_str(text), UINT64_MAX, &n);
    return n;
}

static void say_start(void)
{
    struct sw_addr bound[2];
    char id[SW_NODEID_HEX];
    char addr[SW_ADDR_TEXT];
    size_t n = sw_quic_bound(g.q, bound);

    printf("{\"event\":\"start\",\"id\":\"%s\",\"addrs\":[",
           sw_nodeid_hex(sw_rawkey_id(g.key), id));
    for (size_t i = 0; i < n; i++)
        printf("%s\"%s\"", i ? "," : "", sw_addr_text(&bound[i], addr));
    printf("]}\n");
}

static int start(int argc, char **argv, struct sw_err *err)
{
    const char *bind = option(argc, argv, "bind");
    const char *alpn = option(argc, argv, "alpn");
    const char *relay = option(argc, argv, "relay");
    const char *key = option(argc, argv, "key");
    struct sw_slice alpns[] = {sw_slice_str(alpn ? alpn : "spanwire-test/1")};
    struct sw_quic_config cfg = {.alpns = alpns,
                                 .n_alpns = 1,
                                 .datagrams = true,
                                 .accepted = on_accepted,
                                 .relay_allowed = any_relay,
                                 .answer_asks = true,
                                 .mapped = on_mapped,
                                 .relay_state = on_relay};
    int rc;

    cfg.max_half_open = number(option(argc, argv, "half-open"), 0);
    cfg.idle_ns = number(option(argc, argv, "idle"), 0) * SW_NS_PER_S;
    cfg.dial_ns = number(option(argc, argv, "dial"), 0) * SW_NS_PER_S;
    g.key = key ? sw_rawkey_open(key, err) : sw_rawkey_generate(err);
    if (!g.key)
        return err->rc;
    cfg.key = g.key;
    cfg.no_probes = !number(option(argc, argv, "probes"), 0);
    rc = sw_addr_parse(sw_slice_str(bind ? bind : "127.0.0.1:0"), &cfg.bind, err);
    if (rc != SW_OK)
        return rc;
    g.q = sw_quic_new(g.loop, &cfg, err);
    if (!g.q)
        return err->rc;
    if (number(option(argc, argv, "probes"), 0))
        set_candidates();
    if (relay)
        sw_quic_set_home_relay(g.q, sw_slice_str(relay));
    (void)fcntl(0, F_SETFL, O_NONBLOCK);
    return sw_watch_start(g.loop, &g.in, 0, on_input, err);
}

int main(int argc, char **argv)
{
    struct sw_err err = {0};

    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    sw_list_init(&g.held);
    g.loop = sw_loop_new(&err);
    if (!g.loop || start(argc, argv, &err) != SW_OK) {
        (void)fprintf(stderr, "quic_peer: %s\n", err.msg);
        return 1;
    }
    say_start();
    sw_loop_run(g.loop);
    sw_watch_stop(&g.in);
    sw_quic_free(g.q);
    sw_rawkey_free(g.key);
    sw_loop_free(g.loop);
    return 0;
}
