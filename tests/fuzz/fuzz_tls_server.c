/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handshake input. First byte 0: the rest goes to a server as it is, in pieces. Otherwise a real
 * client and server talk and the rest is a list of changes (direction and offset in two bytes, a
 * byte to xor) to what passes between them: a server that still comes up must have a sound
 * connection with an identity.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "tls/cert/ca.h"
#include "tls/tls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define ID "spiffe://td/ns/n/sa/s"

static struct sw_tls_cred *cred;
static const struct sw_slice expected = SW_SLICE_LIT(ID);

static void prepare(void)
{
    struct sw_ca *ca;

    if (cred)
        return;
    ca = sw_ca_new(SW_SLICE_LIT("td"), 0, NULL);
    assert(ca);
    cred = sw_ca_issue_cred(ca, &(struct sw_ca_leaf){.id = expected, .ttl_s = 864000},
                            sw_slice("", 0), NULL);
    assert(cred);
    sw_ca_free(ca);
}

static void feed_server(struct sw_slice in)
{
    struct sw_tls_params p = {.server = true, .cred = cred, .alpn = "h2"};
    struct sw_tls *t = sw_tls_new(&p, NULL);
    SW_BUF_AUTO out = {.max = 1 << 20};
    int rc = SW_EAGAIN;

    assert(t);
    while (rc == SW_EAGAIN && in.n > 0) {
        struct sw_slice piece = sw_slice_head(in, 1 + in.n / 2);
        size_t used = 0;

        rc = sw_tls_handshake(t, piece, &used, &out, NULL);
        assert(used <= piece.n && (rc != SW_EAGAIN || used == piece.n));
        in = sw_slice_from(in, used);
    }
    assert(rc != SW_OK && !sw_tls_peer(t)); /* nobody signs by accident */
    sw_tls_free(t);
}

struct wire {
    struct sw_buf buf;
    size_t passed; /* bytes that went through so far */
    unsigned dir;
};

/* Applies the changes that fall into what is now in the buffer. */
static bool change(struct wire *w, const uint8_t *list, size_t n)
{
    bool changed = false;

    for (size_t i = 0; i + 3 <= n; i += 3) {
        size_t at = (size_t)(list[i] & 0x7f) << 8 | list[i + 1];

        if (list[i] >> 7 != w->dir || at < w->passed || at - w->passed >= sw_buf_len(&w->buf))
            continue;
        w->buf.p[w->buf.off + at - w->passed] ^= (char)list[i + 2];
        changed = changed || list[i + 2];
    }
    return changed;
}

static int turn(struct sw_tls *t, int rc, struct wire *in, struct wire *out)
{
    size_t used = 0;

    if (rc != SW_EAGAIN)
        return rc;
    rc = sw_tls_handshake(t, sw_buf_slice(&in->buf), &used, &out->buf, NULL);
    sw_buf_consume(&in->buf, used);
    in->passed += used;
    return rc;
}

static void meddle(const uint8_t *list, size_t n)
{
    struct sw_tls *c = sw_tls_new(
        &(struct sw_tls_params){.cred = cred, .alpn = "h2", .expect = &expected, .n_expect = 1},
        NULL);
    struct sw_tls *s =
        sw_tls_new(&(struct sw_tls_params){.server = true, .cred = cred, .alpn = "h2"}, NULL);
    struct wire up = {.buf = {.max = 1 << 20}, .dir = 0};
    struct wire down = {.buf = {.max = 1 << 20}, .dir = 1};
    int crc = turn(c, SW_EAGAIN, &down, &up);
    int src = SW_EAGAIN;
    bool changed = false;

    for (int i = 0; i < 4; i++) {
        changed = change(&up, list, n) || changed;
        src = turn(s, src, &up, &down);
        changed = change(&down, list, n) || changed;
        crc = turn(c, crc, &down, &up);
    }
    assert(changed || (crc == SW_OK && src == SW_OK));
    assert((src == SW_OK) == (sw_tls_peer(s) != NULL));
    if (src == SW_OK && crc == SW_OK) {
        uint8_t plain[6] = "hello";
        uint8_t wire[SW_TLS_SEAL_ROOM(5)];
        struct sw_slice got;
        size_t used;
        size_t len = sw_tls_seal(c, plain, 5, wire);
        int rc = sw_tls_open(s, wire, len, &used, &got, NULL);

        assert(rc == SW_OK && sw_slice_eq_str(got, "hello"));
        assert(sw_slice_eq_str(sw_tls_peer(s)->ids[0].uri, ID));
    }
    sw_tls_free(c);
    sw_tls_free(s);
    sw_buf_done(&up.buf);
    sw_buf_done(&down.buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    prepare();
    if (n == 0)
        return 0;
    if (data[0] == 0)
        feed_server(sw_slice(data + 1, n - 1));
    else
        meddle(data + 1, n - 1);
    return 0;
}
