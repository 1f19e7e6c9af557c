/* SPDX-License-Identifier: Apache-2.0 */
/*
 * packets: the floor under a QUIC tunnel, its packets without its protocol. Seals AES-128-GCM
 * packets of 1,452 bytes, protects their headers, sends them in batches (GSO) over a link, receives
 * them (GRO), takes the protection off and opens them. Nothing is acknowledged, ordered or copied.
 *
 *     packets FROM-IP TO-IP SECONDS [NETNS]      NETNS: the path of the receiver's namespace
 *
 * One process does both ends, so no wake-up is paid for either. Prints JSON.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "tls/crypto/aead.h"

enum {
    PACKET = 1452,
    BATCH = 44, /* as many as a datagram of 64 KB holds */
    CID = 8,
    NUMBER = 4,
    HEADER = 1 + CID + NUMBER,
    PAYLOAD = PACKET - HEADER - SW_AEAD_TAG,
    SAMPLE = 1 + CID + 4, /* of header protection, RFC 9001 5.4.2 */
    WAIT_MS = 100,
};

static struct {
    int tx, rx;
    struct sw_aead_sched key;
    struct sw_aead_block hp;
    bool with_hp;
    uint32_t number;
    uint64_t opened;
    uint64_t refused;
    uint64_t calls; /* of recvmsg that brought something */
    uint8_t out[BATCH * PACKET];
    uint8_t in[65536];
} g;

static double now_s(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "packets: %s: %s\n", what, sw_errno_text(errno));
    exit(1);
}

/* ---- protection ---- */

/* The same XOR puts it on and takes it off. */
static void protect(uint8_t *p)
{
    uint8_t mask[SW_AEAD_BLOCK];

    if (!g.with_hp)
        return;
    sw_aead_block(&g.hp, p + SAMPLE, mask);
    p[0] ^= mask[0] & 0x1f;
    for (int i = 0; i < NUMBER; i++)
        p[1 + CID + i] ^= mask[1 + i];
}

static void make_nonce(const uint8_t *number, uint8_t nonce[SW_AEAD_NONCE])
{
    memset(nonce, 7, SW_AEAD_NONCE);
    for (int i = 0; i < NUMBER; i++)
        nonce[SW_AEAD_NONCE - NUMBER + i] ^= number[i];
}

static void seal(uint8_t *p, const uint8_t *payload)
{
    uint8_t nonce[SW_AEAD_NONCE];
    struct sw_aead_input in = {
        .nonce = nonce, .aad = p, .aad_len = HEADER, .p = payload, .n = PAYLOAD};
    uint32_t number = htonl(g.number++);

    p[0] = 0x40 | (NUMBER - 1);
    memset(p + 1, 'c', CID);
    memcpy(p + 1 + CID, &number, NUMBER);
    make_nonce(p + 1 + CID, nonce);
    sw_aead_seal(&g.key, &in, p + HEADER);
    protect(p);
}

static void unseal(uint8_t *p)
{
    uint8_t nonce[SW_AEAD_NONCE];

    protect(p);
    make_nonce(p + 1 + CID, nonce);
    if (sw_aead_open(&g.key, nonce, p, HEADER, p + HEADER, PACKET - HEADER) == 0)
        g.opened++;
    else
        g.refused++;
}

/* ---- sockets ---- */

static int bound(const char *ip, struct sockaddr_in *ret)
{
    socklen_t len = sizeof(*ret);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    memset(ret, 0, sizeof(*ret));
    ret->sin_family = AF_INET;
    if (fd < 0 || inet_pton(AF_INET, ip, &ret->sin_addr) != 1 ||
        bind(fd, (struct sockaddr *)ret, sizeof(*ret)) < 0 ||
        getsockname(fd, (struct sockaddr *)ret, &len) < 0)
        die(ip);
    return fd;
}

static void open_sockets(const char *from, const char *to, const char *ns)
{
    struct sockaddr_in near, far;
    int size = PACKET;
    int one = 1;
    int fd;

    g.tx = bound(from, &near);
    if (ns) {
        fd = open(ns, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
            die(ns);
        (void)close(fd);
    }
    g.rx = bound(to, &far);
    if (connect(g.tx, (struct sockaddr *)&far, sizeof(far)) < 0 ||
        setsockopt(g.tx, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)) < 0 ||
        setsockopt(g.rx, IPPROTO_UDP, UDP_GRO, &one, sizeof(one)) < 0)
        die("sockets");
}

/* Every packet that has come; false when there is none. */
static bool take(void)
{
    ssize_t n = recv(g.rx, g.in, sizeof(g.in), 0);

    if (n <= 0)
        return false;
    g.calls++;
    for (ssize_t at = 0; at + PACKET <= n; at += PACKET)
        unseal(g.in + at);
    return true;
}

static void batch(const uint8_t *payload)
{
    struct pollfd p = {.fd = g.rx, .events = POLLIN};

    for (size_t i = 0; i < BATCH; i++)
        seal(g.out + i * PACKET, payload);
    if (send(g.tx, g.out, sizeof(g.out), 0) < 0)
        die("send");
    if (!take())
        (void)poll(&p, 1, WAIT_MS);
    while (take())
        ;
}

int main(int argc, char **argv)
{
    static uint8_t payload[PAYLOAD];
    static const uint8_t key[SW_AEAD_KEY_MAX] = "benchmark key 1";
    double start, secs;

    if (argc < 4) {
        (void)fprintf(stderr, "usage: packets FROM-IP TO-IP SECONDS [NETNS]\n");
        return 1;
    }
    open_sockets(argv[1], argv[2], argc > 4 ? argv[4] : NULL);
    sw_aead_expand(SW_AEAD_AES_128_GCM, key, &g.key);
    g.with_hp = sw_aead_block_expand(key, &g.hp);
    start = now_s();
    while (now_s() - start < strtod(argv[3], NULL))
        batch(payload);
    secs = now_s() - start;
    printf("{\"mode\":\"packets\",\"secs\":%.4f,\"gbps\":%.4f,\"ns_each\":%.1f,\"sent\":%u,"
           "\"opened\":%llu,\"refused\":%llu,\"batch\":%.1f,\"header_protection\":%s,"
           "\"aead\":\"%s\"}\n",
           secs, (double)g.opened * PAYLOAD * 8 / secs / 1e9, secs * 1e9 / (double)g.number,
           g.number, (unsigned long long)g.opened, (unsigned long long)g.refused,
           (double)g.opened / (double)(g.calls ? g.calls : 1), g.with_hp ? "true" : "false",
           sw_aead_name());
    sw_aead_wipe(&g.key);
    return g.refused || !g.opened;
}
