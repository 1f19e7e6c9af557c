/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address discovery. The first byte chooses: frames of a packet that was opened (what is changed
 * keeps its length and changes back), transport parameters (what is copied parses again), or whole
 * datagrams for a server, which may send no more than three times what it got.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "io/dgram.h"
#include "io/sock.h"
#include "quic/qad/qad.h"
#include "quic/wire/qad.h"
#include "tls/cert/ca.h"
#include "tls/cert/cred.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- frames ---- */

/* What went in as OBSERVED_ADDRESS comes out as it was, when the peer sent no DATAGRAM. */
static void fuzz_frames(const uint8_t *data, size_t size)
{
    uint8_t *p = sw_malloc(size + 1);

    memcpy(p, data, size);
    if (sw_qad_from_wire(p, size) && sw_qad_to_wire(p, size))
        assert(memcmp(p, data, size) == 0);
    memcpy(p, data, size);
    (void)sw_qad_to_wire(p, size);
    sw_free(p);
}

static void fuzz_report(const uint8_t *data, size_t size)
{
    uint8_t out[SW_QAD_REPORT_MAX];
    struct sw_addr at;
    struct sw_addr again;
    uint64_t seq;

    if (!sw_qad_get_report(data, size, &at, &seq))
        return;
    assert(sw_qad_get_report(out, sw_qad_put_report(out, &at, (uint32_t)seq & 0x3fffffff), &again,
                             &seq));
    assert(sw_addr_eq(&at, &again));
}

static void fuzz_params(const uint8_t *data, size_t size)
{
    uint8_t *out = sw_malloc(size + 2 * SW_QAD_DATAGRAM_PARAM);
    uint8_t *twice = sw_malloc(size + 2 * SW_QAD_DATAGRAM_PARAM);
    enum sw_qad_role role;
    struct sw_err err;
    size_t n;
    size_t again;

    if (sw_qad_params_in(sw_slice(data, size), out, &n, &role, &err) == SW_OK) {
        assert(n <= size + SW_QAD_DATAGRAM_PARAM && role <= SW_QAD_NONE);
        assert(sw_qad_params_in(sw_slice(out, n), twice, &again, &role, &err) == SW_OK);
        assert(again == n && role == SW_QAD_NONE && memcmp(out, twice, n) == 0);
    }
    sw_free(out);
    sw_free(twice);
}

/* ---- datagrams ---- */

static struct sw_loop *loop;
static struct sw_qad_server *server;
static int fd;
static uint64_t now;

static uint64_t clock_now(void)
{
    return now;
}

static void start(void)
{
    static const char *const sans[] = {"relay.test", NULL};
    struct sw_addr at = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct sw_err err = {0};
    struct sw_ca *ca = sw_ca_new(SW_SLICE_LIT("t"), 0, &err);
    struct sw_buf chain;
    struct sw_buf key;
    int rc;

    sw_buf_init(&chain, 65536);
    sw_buf_init(&key, 65536);
    loop = sw_loop_new(&err);
    sw_loop_set_clock(loop, clock_now);
    server = sw_qad_server_new(loop, &(struct sw_qad_server_config){.listen = at}, &err);
    rc = sw_ca_issue_web(
        ca, &(struct sw_ca_web){.cn = "relay.test", .sans = sans, .server = true, .ttl_s = 600},
        &chain, &key, &err);
    if (!server || rc != SW_OK || sw_dgram_bind(&at, NULL, &fd, &err) != SW_OK) {
        (void)fprintf(stderr, "fuzz_qad: %s\n", err.msg);
        abort();
    }
    sw_qad_server_set_cred(
        server,
        sw_tls_cred_new(
            &(struct sw_tls_cred_pem){.chain = sw_slice(sw_buf_data(&chain), sw_buf_len(&chain)),
                                      .key = sw_slice(sw_buf_data(&key), sw_buf_len(&key)),
                                      .any_identity = true,
                                      .trust_nobody = true},
            &err));
    sw_buf_done(&chain);
    sw_buf_done(&key);
    sw_ca_free(ca);
}

/* Datagrams with two bytes of length in front; the last may be shorter. */
static void fuzz_datagrams(const uint8_t *data, size_t size)
{
    struct sw_addr to;
    uint8_t *in = sw_malloc(65536);
    size_t sent = 0;
    size_t got = 0;
    ssize_t n;

    if (!server)
        start();
    to = sw_qad_server_bound(server);
    while (size > 2) {
        size_t len = sw_min((size_t)(data[0] << 8 | data[1]), size - 2);

        len = sw_min(len, 1500);
        (void)sw_dgram_send(fd, data + 2, len, &to);
        sent += len;
        data += 2 + len;
        size -= 2 + len;
        sw_loop_turn(loop, 0);
    }
    now += UINT64_C(60000000000); /* nothing is left of it afterwards */
    sw_loop_turn(loop, 0);
    while ((n = sw_dgram_recv(fd, in, 65536, NULL)) > 0)
        got += (size_t)n;
    assert(got <= 3 * sent);
    assert(sw_qad_server_conns(server) == 0);
    sw_free(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    switch (data[0] % 4) {
    case 0:
        fuzz_frames(data + 1, size - 1);
        break;
    case 1:
        fuzz_report(data + 1, size - 1);
        break;
    case 2:
        fuzz_params(data + 1, size - 1);
        break;
    default:
        fuzz_datagrams(data + 1, size - 1);
        break;
    }
    return 0;
}
