/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes from stream to stream between two QUIC endpoints, without TCP at either end.
 *
 *     quicbench serve                              prints "ID ADDR", then a line per connection
 * that ended quicbench send ID ADDR SECONDS [STREAMS]     sends for that long, prints bytes per
 * second quicbench idle ID ADDR CONNECTIONS           opens that many and prints the memory they
 * take
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "quic/quic.h"
#include "tls/crypto/aead.h"

static struct {
    struct sw_loop *loop;
    struct sw_rawkey *key;
    struct sw_quic *q;
    struct sw_timer end;
    uint64_t seconds;
    uint64_t streams;
    uint64_t received;
    uint64_t sent;
    uint64_t began_ns;
    size_t ready;
    size_t wanted;
    int status;
} g;

/* ---- receiving ---- */

static size_t on_data(struct sw_qstream *s, const uint8_t *p, size_t n, bool fin)
{
    g.received += n;
    if (fin)
        sw_qstream_finish(s);
    return n;
}

static void on_stream_closed(struct sw_qstream *s, bool lost)
{
}

/* ---- sending ---- */

/* The content does not matter to anybody: the room is sent as it is. */
static void on_writable(struct sw_qstream *s)
{
    struct iovec room[2];
    int n;

    while ((n = sw_qstream_reserve(s, room)) > 0) {
        size_t k = room[0].iov_len + (n > 1 ? room[1].iov_len : 0);

        sw_qstream_commit(s, k);
        g.sent += k;
    }
}

static const struct sw_qstream_ops stream_ops = {
    .data = on_data, .writable = on_writable, .closed = on_stream_closed};

static void on_end(struct sw_timer *t)
{
    sw_loop_stop(g.loop);
}

static void on_ready(struct sw_qconn *c)
{
    struct sw_qstream *s;

    g.ready++;
    if (g.wanted > 0) {
        if (g.ready == g.wanted)
            sw_loop_stop(g.loop);
        return;
    }
    g.began_ns = sw_now_ns();
    sw_timer_start(g.loop, &g.end, g.seconds * SW_NS_PER_S, on_end);
    for (uint64_t i = 0; i < g.streams; i++)
        if (sw_qstream_open(c, &stream_ops, NULL, &s) == SW_OK)
            on_writable(s);
}

static void on_stream(struct sw_qconn *c, struct sw_qstream *s)
{
    sw_qstream_attach(s, &stream_ops, NULL);
}

static void on_closed(struct sw_qconn *c, const struct sw_qclose *why)
{
    if (!sw_qconn_dialled(c)) {
        printf("%llu bytes\n", (unsigned long long)g.received);
        g.received = 0;
        return;
    }
    (void)fprintf(stderr, "closed: %d %llu %.*s\n", (int)why->kind, (unsigned long long)why->code,
                  SW_SLICE_ARG(why->text));
    g.status = 1;
    sw_loop_stop(g.loop);
}

static const struct sw_qconn_ops conn_ops = {
    .ready = on_ready, .stream = on_stream, .closed = on_closed};

static void on_accepted(void *arg, struct sw_qconn *c)
{
    sw_qconn_set_ops(c, &conn_ops, NULL);
}

/* ---- programs ---- */

static size_t heap(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

static int dial(const char *id, const char *addr)
{
    struct sw_addr a;
    struct sw_quic_target t = {.addrs = &a, .n_addrs = 1};
    struct sw_err err = {0};

    if (sw_nodeid_parse(sw_slice_str(id), &t.id, &err) != SW_OK ||
        sw_addr_parse(sw_slice_str(addr), &a, &err) != SW_OK ||
        !sw_quic_dial(g.q, &t, SW_SLICE_LIT("bench/1"), &conn_ops, NULL, &err)) {
        (void)fprintf(stderr, "quicbench: %s\n", err.msg);
        return 1;
    }
    return 0;
}

static int run_send(char **argv, int argc)
{
    struct sw_quic_stats st;
    double s;

    g.seconds = strtoull(argv[4], NULL, 10);
    g.streams = argc > 5 ? strtoull(argv[5], NULL, 10) : 1;
    if (dial(argv[2], argv[3]) != 0)
        return 1;
    sw_loop_run(g.loop);
    s = (double)(sw_now_ns() - g.began_ns) / 1e9;
    sw_quic_stats(g.q, &st);
    printf("%.0f bytes/s %s, %.0f bytes per packet, %.1f packets per send\n", (double)g.sent / s,
           sw_aead_name(), (double)st.tx_bytes / (double)st.tx_packets,
           (double)st.tx_packets / (double)st.tx_calls);
    return g.status;
}

static int run_idle(char **argv)
{
    size_t before = heap();

    g.wanted = strtoull(argv[4], NULL, 10);
    /* A hundred at a time: more handshakes at once only prove that Retry works. */
    for (size_t i = 0; i < g.wanted; i++) {
        if (dial(argv[2], argv[3]) != 0)
            return 1;
        while (i % 50 == 49 && g.ready < i)
            sw_loop_turn(g.loop, 100);
    }
    if (g.ready < g.wanted)
        sw_loop_run(g.loop);
    for (int i = 0; i < 100; i++)
        sw_loop_turn(g.loop, 20);
    printf("%zu bytes of heap each\n", (heap() - before) / g.wanted);
    return g.status;
}

static void say_start(void)
{
    struct sw_addr bound[2];
    char id[SW_NODEID_HEX];
    char addr[SW_ADDR_TEXT];

    (void)sw_quic_bound(g.q, bound);
    printf("%s %s\n", sw_nodeid_hex(sw_rawkey_id(g.key), id), sw_addr_text(&bound[0], addr));
}

int main(int argc, char **argv)
{
    const char *bind_at = getenv("QUICBENCH_BIND"); /* "10.0.0.1:0": measure a real path */
    const char *congestion = getenv("QUICBENCH_CONGESTION");
    struct sw_slice alpn = SW_SLICE_LIT("bench/1");
    struct sw_quic_config cfg = {.alpns = &alpn, .n_alpns = 1, .accepted = on_accepted};
    struct sw_err err = {0};
    int rc = 2;

    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    g.loop = sw_loop_new(&err);
    g.key = sw_rawkey_generate(&err);
    cfg.key = g.key;
    for (int i = 0; congestion && sw_qcc_names[i]; i++)
        if (strcmp(sw_qcc_names[i], congestion) == 0)
            cfg.congestion = (enum sw_qcc)i;
    cfg.max_conns = 100000;
    cfg.idle_ns = 120 * SW_NS_PER_S;
    (void)!sw_addr_parse(sw_slice_str(bind_at ? bind_at : "127.0.0.1:0"), &cfg.bind, &err);
    g.q = sw_quic_new(g.loop, &cfg, &err);
    if (!g.q) {
        (void)fprintf(stderr, "quicbench: %s\n", err.msg);
        return 1;
    }
    if (argc == 2 && strcmp(argv[1], "serve") == 0) {
        say_start();
        sw_loop_run(g.loop);
    } else if (argc >= 5 && strcmp(argv[1], "send") == 0) {
        rc = run_send(argv, argc);
    } else if (argc == 5 && strcmp(argv[1], "idle") == 0) {
        rc = run_idle(argv);
    } else {
        (void)fprintf(stderr, "usage: quicbench serve|send|idle ...\n");
    }
    sw_quic_free(g.q);
    sw_rawkey_free(g.key);
    sw_loop_free(g.loop);
    return rc;
}
