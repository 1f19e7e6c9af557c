/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients for a relay, many in one process:
 *   relay idle URL N         connects N, says "up N", stays until standard input ends
 *   relay bulk URL SECS [PAIRS] [SIZE] [SEGMENT]
 *                            packets from one of each pair to the other, within a window, checked
 *   relay ping URL SECS      one packet to and fro: round trip time
 * The answer is one line of JSON. RELAY_CA: roots for https; RELAY_TOKEN: bearer token.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "quic/relay/client.h"
#include "tls/crypto/aead.h"

enum {
    RAMP = 256,           /* connecting at once */
    WINDOW = 2 << 20,     /* bytes of a pair on the way */
    ACK_EVERY = 64 << 10, /* bytes */
    SIZE_MAX_ = 64000,
    SAMPLES = 1 << 20,
    STALL_MS = 50, /* without an answer: what is on the way counts as lost */
};

struct end {
    struct sw_relay_client *client;
    struct sw_rawkey *key;
    struct end *peer;
    bool sender;
    bool was_up;
    uint64_t sent;
    uint64_t acked; /* sender: what the other end has */
    uint64_t seen;  /* sender: 'acked' at the last look */
    uint64_t got;   /* receiver: how far it is */
    uint64_t bytes; /* receiver: what came */
    uint64_t got_told;
    uint64_t wrong;
};

static struct sw_loop *loop;
static const char *mode;
static const char *url;
static struct end *ends;
static size_t n_ends;
static size_t n_started;
static size_t n_up;
static size_t n_lost;
static size_t size = 60000;
static size_t segment = 1200;
static bool stop;
static uint64_t ping_ns;
static uint32_t *samples;
static size_t n_samples;
static uint8_t payload[SIZE_MAX_ + 8];
static struct sw_defer pump_later;
static struct sw_timer timer;
static struct sw_timer stall;

static void fill(uint64_t at)
{
    memcpy(payload, &at, sizeof(at));
}

static void pump(struct end *e)
{
    while (!stop && e->sender && e->sent - e->acked < WINDOW) {
        fill(e->sent);
        if (sw_relay_client_send(e->client, sw_rawkey_id(e->peer->key), 0, payload, size,
                                 segment) != SW_OK)
            break;
        e->sent += size;
    }
}

static void on_pump(struct sw_defer *d)
{
    (void)d;
    for (size_t i = 0; i < n_ends; i++)
        pump(&ends[i]);
}

/* A relay may drop packets: a whole window of them, or the answers, must not end the load. */
static void on_stall(struct sw_timer *t)
{
    for (size_t i = 0; i < n_ends; i++) {
        struct end *e = &ends[i];

        if (e->acked == e->seen)
            e->acked = e->sent;
        e->seen = e->acked;
    }
    on_pump(NULL);
    sw_timer_start(loop, t, STALL_MS * SW_NS_PER_MS, on_stall);
}

static void send_ping(struct end *e)
{
    ping_ns = sw_now_ns();
    (void)sw_relay_client_send(e->client, sw_rawkey_id(e->peer->key), 0, payload, 64, 0);
}

static void on_ping(struct end *e)
{
    if (!e->sender) {
        (void)sw_relay_client_send(e->client, sw_rawkey_id(e->peer->key), 0, payload, 64, 0);
        return;
    }
    if (n_samples < SAMPLES)
        samples[n_samples++] = (uint32_t)((sw_now_ns() - ping_ns) / 100);
    if (!stop)
        send_ping(e);
}

/* The receiver: in order, nothing missing, and the far end told from time to time. */
static void on_bulk(struct end *e, const uint8_t *p, size_t n)
{
    uint64_t at = 0;

    memcpy(&at, p, sizeof(at));
    if (at != e->got || n != size)
        e->wrong++;
    e->got = at + n;
    e->bytes += n;
    if (e->got - e->got_told < ACK_EVERY)
        return;
    if (sw_relay_client_send(e->client, sw_rawkey_id(e->peer->key), 0, (uint8_t *)&e->got,
                             sizeof(e->got), 0) == SW_OK)
        e->got_told = e->got;
}

static void on_packets(void *arg, const struct sw_nodeid *from, uint8_t ecn, uint8_t *p, size_t n,
                       size_t seg)
{
    struct end *e = arg;

    (void)ecn;
    (void)seg;
    if (!e->peer || !sw_nodeid_eq(from, sw_rawkey_id(e->peer->key))) {
        e->wrong++;
    } else if (strcmp(mode, "ping") == 0) {
        on_ping(e);
    } else if (e->sender) {
        memcpy(&e->acked, p, sizeof(e->acked));
        sw_loop_defer(loop, &pump_later, on_pump);
    } else {
        on_bulk(e, p, n);
    }
}

static void start_next(void);

static void on_state(void *arg, bool up, const char *why)
{
    struct end *e = arg;

    if (up) {
        n_up++;
        e->was_up = true;
        start_next();
    } else {
        n_up--;
        n_lost++;
        (void)fprintf(stderr, "lost: %s\n", why);
    }
}

static const struct sw_relay_client_ops ops = {.packets = on_packets, .state = on_state};

static void fail(const struct sw_err *err)
{
    (void)fprintf(stderr, "relay: %s\n", err->msg);
    exit(1);
}

static void start_next(void)
{
    while (n_started < n_ends && n_started - n_up < RAMP) {
        struct end *e = &ends[n_started++];
        struct sw_err err = {0};
        const char *token = getenv("RELAY_TOKEN");
        struct sw_relay_client_config c = {
            .url = sw_slice_str(url),
            .key = e->key,
            .token = sw_slice_str(token),
            .ca_file = getenv("RELAY_CA"),
            .connect_timeout_ns = 60 * SW_NS_PER_S,
            .ops = &ops,
            .arg = e,
        };

        e->client = sw_relay_client_new(loop, &c, &err);
        if (!e->client)
            fail(&err);
    }
}

static void on_stop(struct sw_timer *t)
{
    (void)t;
    stop = true;
}

static void make_ends(size_t n)
{
    ends = SW_NEW_ARRAY(struct end, n);
    n_ends = n;
    for (size_t i = 0; i < n; i++) {
        struct sw_err err = {0};

        ends[i].key = sw_rawkey_generate(&err);
        if (!ends[i].key)
            fail(&err);
    }
    start_next();
    while (n_up < n_ends && !stop)
        sw_loop_turn(loop, -1);
}

static void pair_up(void)
{
    for (size_t i = 0; i + 1 < n_ends; i += 2) {
        ends[i].peer = &ends[i + 1];
        ends[i + 1].peer = &ends[i];
        ends[i].sender = true;
    }
}

static bool input_ended(void)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    char c;

    return poll(&p, 1, 0) > 0 && read(STDIN_FILENO, &c, 1) <= 0;
}

static void idle(size_t n)
{
    sw_timer_start(loop, &timer, 120 * SW_NS_PER_S, on_stop);
    make_ends(n);
    (void)printf("{\"up\": %zu, \"lost\": %zu}\n", n_up, n_lost);
    (void)fflush(stdout);
    while (!input_ended())
        sw_loop_turn(loop, 100);
    (void)printf("{\"up\": %zu, \"lost\": %zu}\n", n_up, n_lost);
}

static uint64_t total_got(void)
{
    uint64_t n = 0;

    for (size_t i = 0; i < n_ends; i++)
        n += ends[i].bytes;
    return n;
}

static void run_for(double secs)
{
    stop = false;
    sw_timer_start(loop, &timer, (uint64_t)(secs * 1e9), on_stop);
    while (!stop)
        sw_loop_turn(loop, -1);
}

static void bulk(double secs, size_t pairs)
{
    uint64_t from;
    uint64_t start;
    uint64_t wrong = 0;
    double took;

    make_ends(2 * pairs);
    pair_up();
    on_pump(NULL);
    sw_timer_start(loop, &stall, STALL_MS * SW_NS_PER_MS, on_stall);
    run_for(0.2);
    from = total_got();
    start = sw_now_ns();
    run_for(secs);
    took = (double)(sw_now_ns() - start) / 1e9;
    sw_timer_stop(loop, &stall);
    for (size_t i = 0; i < n_ends; i++)
        wrong += ends[i].wrong;
    (void)printf("{\"gbps\": %.3f, \"bytes\": %" PRIu64 ", \"wrong\": %" PRIu64
                 ", \"lost\": %zu, \"secs\": %.3f}\n",
                 (double)(total_got() - from) * 8 / took / 1e9, total_got() - from, wrong, n_lost,
                 took);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static void ping(double secs)
{
    samples = SW_NEW_ARRAY(uint32_t, SAMPLES);
    make_ends(2);
    pair_up();
    send_ping(&ends[0]);
    run_for(secs);
    qsort(samples, n_samples, sizeof(samples[0]), by_value);
    (void)printf("{\"n\": %zu, \"p50_us\": %.1f, \"p99_us\": %.1f}\n", n_samples,
                 samples[n_samples / 2] / 10.0, samples[n_samples * 99 / 100] / 10.0);
    sw_free(samples);
}

static void free_ends(void)
{
    for (size_t i = 0; i < n_ends; i++)
        sw_relay_client_free(ends[i].client);
    for (int i = 0; i < 3; i++)
        sw_loop_turn(loop, 0);
    for (size_t i = 0; i < n_ends; i++)
        sw_rawkey_free(ends[i].key);
    sw_free(ends);
}

int main(int argc, char **argv)
{
    struct sw_err err = {0};

    if (argc < 4) {
        (void)fprintf(stderr, "usage: relay idle URL N | bulk URL SECS [PAIRS [SIZE [SEGMENT]]] | "
                              "ping URL SECS\n");
        return 2;
    }
    mode = argv[1];
    url = argv[2];
    (void)sw_sock_raise_fd_limit();
    if (sw_aead_init(SW_AEAD_AUTO, &err) != SW_OK)
        fail(&err);
    loop = sw_loop_new(&err);
    if (!loop)
        fail(&err);
    if (argc > 5)
        size = sw_min(strtoul(argv[5], NULL, 10), SIZE_MAX_);
    if (argc > 6)
        segment = strtoul(argv[6], NULL, 10);
    if (strcmp(mode, "idle") == 0)
        idle(strtoul(argv[3], NULL, 10));
    else if (strcmp(mode, "bulk") == 0)
        bulk(strtod(argv[3], NULL), argc > 4 ? strtoul(argv[4], NULL, 10) : 1);
    else
        ping(strtod(argv[3], NULL));
    free_ends();
    sw_timer_stop(loop, &timer);
    sw_loop_free(loop);
    return 0;
}
