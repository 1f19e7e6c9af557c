/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/join/code.h"

#include <string.h>

#include "base/def.h"
#include "base/hex.h"
#include "base/secret.h"
#include "io/addr.h"
#include "kube/names.h"
#include "tls/crypto/jws.h"

#define PREFIX       "sw1-"
#define PREFIX_FIRST "sw"

enum {
    LENGTH = 2,   /* bytes of the length in front, which counts everything */
    CHECKSUM = 4, /* bytes at the end: of the SHA-256 of all before */
    FIXED = LENGTH + 1 + 2 + 1 + SW_JOIN_HASH + SW_JOIN_SECRET + CHECKSUM,
    RAW_MAX = FIXED + SW_JOIN_ADDRESS_MAX + SW_JOIN_ID_MAX,
};

static const char *const names[] = {[SW_JOIN_NODE] = "node",
                                    [SW_JOIN_DEVICE] = "device",
                                    [SW_JOIN_GATEWAY] = "gateway",
                                    [SW_JOIN_PEER] = "peer"};

const char *sw_join_kind_name(enum sw_join_kind kind)
{
    return (size_t)kind < SW_ARRAY_LEN(names) ? names[kind] : NULL;
}

bool sw_join_kind_parse(struct sw_slice name, enum sw_join_kind *ret)
{
    for (size_t i = SW_JOIN_NODE; i < SW_ARRAY_LEN(names); i++) {
        if (sw_slice_eq_str(name, names[i])) {
            *ret = (enum sw_join_kind)i;
            return true;
        }
    }
    return false;
}

bool sw_join_id_ok(struct sw_slice id)
{
    struct sw_slice name = id;
    struct sw_slice ns = sw_slice_cut(&name, '/');

    return id.n <= SW_JOIN_ID_MAX && name.p && sw_name_dns1123_label(ns).n == 0 &&
           sw_name_dns1123_subdomain(name).n == 0;
}

static bool address_ok(struct sw_slice address)
{
    struct sw_slice host;
    struct sw_ip ip;
    uint16_t port;

    return address.n <= SW_JOIN_ADDRESS_MAX &&
           sw_authority_split(address, &host, &port, NULL) == SW_OK &&
           sw_host_parse(host, &ip, NULL) == SW_OK;
}

static int checksum(struct sw_slice raw, uint8_t ret[32])
{
    sw_digest_sha256(raw, ret);
    return CHECKSUM;
}

/* ---- writing ---- */

static void put_number(struct sw_print *p, size_t n, int width)
{
    if (width == 2)
        sw_print_char(p, (char)(n >> 8));
    sw_print_char(p, (char)(n & 255));
}

static void put_text(struct sw_print *p, struct sw_slice s, int width)
{
    put_number(p, s.n, width);
    sw_print_slice(p, s);
}

static int write_raw(const struct sw_join_code *c, struct sw_buf *b)
{
    struct sw_print p = {.to = b};
    struct sw_slice address = sw_slice_str(c->address);
    struct sw_slice id = sw_slice_str(c->id);
    uint8_t sum[32];

    put_number(&p, FIXED + address.n + id.n, LENGTH);
    sw_print_char(&p, (char)c->kind);
    put_text(&p, address, 2);
    put_text(&p, id, 1);
    sw_print_slice(&p, sw_slice(c->root, sizeof(c->root)));
    sw_print_slice(&p, sw_slice(c->secret, sizeof(c->secret)));
    sw_print_slice(&p, sw_slice(sum, (size_t)checksum(sw_buf_slice(b), sum)));
    return p.rc;
}

int sw_join_code_write(const struct sw_join_code *c, struct sw_buf *out, struct sw_err *err)
{
    SW_BUF_SECRET raw = {.max = RAW_MAX};
    int rc;

    if (!sw_join_kind_name(c->kind) || !address_ok(sw_slice_str(c->address)) ||
        !sw_join_id_ok(sw_slice_str(c->id)))
        return sw_err_set(err, SW_EINVAL, "'%.80s' is not HOST:PORT, or '%.80s' no record",
                          c->address, c->id);
    rc = write_raw(c, &raw);
    if (rc == SW_OK)
        rc = sw_buf_append_str(out, PREFIX);
    if (rc == SW_OK)
        rc = sw_base64url_append(out, sw_buf_slice(&raw));
    return rc == SW_OK ? SW_OK : sw_err_set(err, SW_ELIMIT, "no room for the code");
}

/* ---- reading ---- */

static int broken(struct sw_err *err)
{
    return sw_err_set(err, SW_EINVAL,
                      "the code has a typing error: its checksum is wrong; copy it again");
}

/* Characters of a code of n bytes, the prefix included. */
static size_t chars(size_t n)
{
    return sizeof(PREFIX) - 1 + (n * 4 + 2) / 3;
}

static bool take(struct sw_slice *in, size_t n, struct sw_slice *ret)
{
    if (in->n < n)
        return false;
    *ret = sw_slice_head(*in, n);
    *in = sw_slice_from(*in, n);
    return true;
}

static bool take_text(struct sw_slice *in, int width, struct sw_slice *ret)
{
    struct sw_slice head;
    size_t n = 0;

    if (!take(in, (size_t)width, &head))
        return false;
    for (int i = 0; i < width; i++)
        n = n << 8 | (uint8_t)head.p[i];
    return take(in, n, ret);
}

static int read_fields(struct sw_slice in, struct sw_join_code *ret, struct sw_err *err)
{
    struct sw_slice kind;
    struct sw_slice address;
    struct sw_slice id;
    struct sw_slice root;
    struct sw_slice secret;

    if (!take(&in, 1, &kind) || !take_text(&in, 2, &address) || !take_text(&in, 1, &id) ||
        !take(&in, SW_JOIN_HASH, &root) || !take(&in, SW_JOIN_SECRET, &secret) || in.n)
        return broken(err);
    if (!sw_join_kind_name((enum sw_join_kind)kind.p[0]))
        return sw_err_set(err, SW_EINVAL, "the code is for a kind that this version does not know");
    if (!address_ok(address) || !sw_join_id_ok(id))
        return sw_err_set(err, SW_EINVAL, "the code names no address, or no record");
    *ret = (struct sw_join_code){.kind = (enum sw_join_kind)kind.p[0]};
    memcpy(ret->address, address.p, address.n);
    memcpy(ret->id, id.p, id.n);
    memcpy(ret->root, root.p, root.n);
    memcpy(ret->secret, secret.p, secret.n);
    return SW_OK;
}

/* Cut off: the length in front is there, and says more than there is. */
static int check_length(struct sw_slice text, struct sw_slice raw, struct sw_err *err)
{
    size_t all = raw.n >= LENGTH ? (size_t)((uint8_t)raw.p[0] << 8 | (uint8_t)raw.p[1]) : 0;

    if (raw.n < LENGTH)
        return sw_err_set(err, SW_EINVAL, "the code is cut off after %zu characters", text.n);
    if (all < FIXED || all > RAW_MAX)
        return broken(err);
    if (raw.n < all)
        return sw_err_set(err, SW_EINVAL, "the code is cut off: %zu of %zu characters", text.n,
                          chars(all));
    if (raw.n > all || text.n > chars(all))
        return sw_err_set(err, SW_EINVAL, "the code has %zu characters too many",
                          text.n - chars(all));
    return SW_OK;
}

static int decode(struct sw_slice text, struct sw_buf *raw, struct sw_err *err)
{
    struct sw_slice body = sw_slice_from(text, sizeof(PREFIX) - 1);
    uint8_t sum[32];
    struct sw_slice s;
    int rc;

    /*
     * What was cut off, or has something behind it, may end inside of a group of four: its whole
     * bytes still give the length.
     */
    if (sw_base64url_decode(raw, body) != SW_OK) {
        sw_buf_clear(raw);
        if (sw_base64url_decode(raw, sw_slice_head(body, body.n / 4 * 4)) != SW_OK)
            return broken(err);
    }
    s = sw_buf_slice(raw);
    rc = check_length(text, s, err);
    if (rc != SW_OK)
        return rc;
    (void)checksum(sw_slice_head(s, s.n - CHECKSUM), sum);
    return memcmp(sum, s.p + s.n - CHECKSUM, CHECKSUM) == 0 ? SW_OK : broken(err);
}

static struct sw_slice trim(struct sw_slice s)
{
    while (s.n && strchr(" \t\r\n", s.p[s.n - 1]))
        s.n--;
    while (s.n && strchr(" \t\r\n", s.p[0]))
        s = sw_slice_from(s, 1);
    return s;
}

int sw_join_code_read(struct sw_slice text, struct sw_join_code *ret, struct sw_err *err)
{
    SW_BUF_SECRET raw = {.max = SW_JOIN_CODE_MAX};
    int rc;

    text = trim(text);
    if (text.n == 0)
        return sw_err_set(err, SW_EINVAL, "the code is empty");
    if (!sw_slice_has_prefix(text, SW_SLICE_LIT(PREFIX))) {
        bool newer = sw_slice_has_prefix(text, SW_SLICE_LIT(PREFIX_FIRST)) && text.n > 4 &&
                     text.p[2] >= '2' && text.p[2] <= '9' && text.p[3] == '-';

        return sw_err_set(err, SW_EINVAL,
                          newer ? "the code is of a newer version than this program"
                                : "this is not a join code: they begin with '" PREFIX "'");
    }
    if (text.n > SW_JOIN_CODE_MAX)
        return sw_err_set(err, SW_EINVAL, "the code is too long");
    rc = decode(text, &raw, err);
    if (rc == SW_OK) {
        struct sw_slice s = sw_buf_slice(&raw);

        rc = read_fields(sw_slice(s.p + LENGTH, s.n - LENGTH - CHECKSUM), ret, err);
    }
    return rc;
}

void sw_join_secret_hash(const uint8_t secret[SW_JOIN_SECRET], char ret[65])
{
    static const char label[] = "spanwire join secret v1"; /* its NUL separates, too */
    uint8_t in[sizeof(label) + SW_JOIN_SECRET];
    uint8_t hash[32];

    memcpy(in, label, sizeof(label));
    memcpy(in + sizeof(label), secret, SW_JOIN_SECRET);
    sw_digest_sha256(sw_slice(in, sizeof(in)), hash);
    explicit_bzero(in, sizeof(in));
    *sw_hex_write(ret, hash, sizeof(hash)) = 0;
}
