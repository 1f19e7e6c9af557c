/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/tsig.h"

#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/secret.h"

enum { KEY_TEXT_MAX = 4096, SECRET_MAX = 512 };

#define ALGORITHM "hmac-sha256"

/* ---- keys ---- */

/* The text after a keyword of a configuration statement, without quotes. */
static struct sw_slice value_of(struct sw_slice text, const char *word)
{
    size_t n = strlen(word);

    for (size_t i = 0; i + n < text.n; i++) {
        struct sw_slice rest = sw_slice_from(text, i);

        if ((i == 0 || strchr(" \t\r\n{;", text.p[i - 1])) &&
            sw_slice_has_prefix(rest, sw_slice_str(word)) && strchr(" \t\r\n\"", rest.p[n])) {
            size_t from = n;
            size_t to;

            while (from < rest.n && strchr(" \t\r\n\"", rest.p[from]))
                from++;
            to = from;
            while (to < rest.n && !strchr(" \t\r\n\";{", rest.p[to]))
                to++;
            return sw_slice(rest.p + from, to - from);
        }
    }
    return (struct sw_slice){0};
}

static int make_key(struct sw_arena *a, struct sw_slice name, struct sw_slice secret,
                    struct sw_dns_key *ret, struct sw_err *err)
{
    SW_BUF_SECRET raw = {0};
    struct sw_dns_key k = {0};
    int rc = sw_dns_name_parse(name, &k.name, err);

    sw_buf_init(&raw, SECRET_MAX);
    if (rc != SW_OK)
        return sw_err_prefix(err, "name of the key");
    sw_dns_name_lower(&k.name);
    if (sw_base64_decode(&raw, secret) != SW_OK || sw_buf_len(&raw) < 8)
        return sw_err_set(err, SW_EINVAL,
                          "the secret of the key is not base64, too short or "
                          "too long");
    k.secret = sw_arena_slice(a, sw_buf_slice(&raw));
    *ret = k;
    return SW_OK;
}

int sw_dns_key_parse(struct sw_arena *a, struct sw_slice text, struct sw_dns_key *ret,
                     struct sw_err *err)
{
    struct sw_slice line = text;
    struct sw_slice parts[3];
    size_t n = 0;

    if (text.n > KEY_TEXT_MAX)
        return sw_err_set(err, SW_EINVAL, "too long for a key");
    if (sw_slice_find(text, '{') >= 0) {
        if (!sw_slice_ieq(value_of(text, "algorithm"), SW_SLICE_LIT(ALGORITHM)))
            return sw_err_set(err, SW_EINVAL, "the algorithm of the key is not " ALGORITHM);
        return make_key(a, value_of(text, "key"), value_of(text, "secret"), ret, err);
    }
    while (line.n && strchr(" \t\r\n", line.p[line.n - 1]))
        line.n--;
    while (line.p && n < 3)
        parts[n++] = sw_slice_cut(&line, ':');
    if (line.p || n < 2)
        return sw_err_set(err, SW_EINVAL, "a key has the form [" ALGORITHM ":]NAME:BASE64");
    if (n == 3 && !sw_slice_ieq(parts[0], SW_SLICE_LIT(ALGORITHM)))
        return sw_err_set(err, SW_EINVAL, "the algorithm of the key is not " ALGORITHM);
    return make_key(a, parts[n - 2], parts[n - 1], ret, err);
}

/* ---- codes ---- */

/* The variables of RFC 8945, 4.3.3 that are signed besides the message. */
struct vars {
    struct sw_dns_name key;
    uint64_t time_s;
    uint16_t fudge;
    uint16_t error;
    struct sw_slice other;
};

static void put_time(struct sw_dns_writer *w, const struct vars *v)
{
    sw_dns_put_u16(w, (unsigned)(v->time_s >> 32) & 0xffff);
    sw_dns_put_u32(w, (uint32_t)v->time_s);
    sw_dns_put_u16(w, v->fudge);
}

static struct sw_dns_name algorithm(void)
{
    struct sw_dns_name name = {0};

    (void)!sw_dns_name_parse(SW_SLICE_LIT(ALGORITHM), &name, NULL);
    return name;
}

/* msg: header with the original id and the count without the signature, and the rest. */
static void compute(const struct sw_dns_key *key, const struct sw_dns_tsig_ctx *c,
                    struct sw_slice head, struct sw_slice rest, const struct vars *v,
                    uint8_t ret[SW_HMAC_SHA256])
{
    static const uint8_t mac_len[2] = {0, SW_HMAC_SHA256};
    uint8_t tail[SW_DNS_TSIG_MAX];
    struct sw_dns_writer w;
    struct sw_dns_name alg = algorithm();
    struct sw_dns_name name = v->key;
    struct sw_slice parts[5];
    size_t n = 0;

    sw_dns_writer_init(&w, tail, sizeof(tail));
    if (c->timers_only) {
        put_time(&w, v);
    } else {
        sw_dns_name_lower(&name);
        sw_dns_put_name(&w, &name, false);
        sw_dns_put_u16(&w, SW_DNS_CLASS_ANY);
        sw_dns_put_u32(&w, 0);
        sw_dns_put_name(&w, &alg, false);
        put_time(&w, v);
        sw_dns_put_u16(&w, v->error);
        sw_dns_put_u16(&w, (unsigned)v->other.n);
        sw_dns_put_bytes(&w, v->other.p, v->other.n);
    }
    if (c->prior.set) {
        parts[n++] = sw_slice(mac_len, sizeof(mac_len));
        parts[n++] = sw_slice(c->prior.b, sizeof(c->prior.b));
    }
    parts[n++] = head;
    parts[n++] = rest;
    parts[n++] = sw_slice(tail, w.n);
    sw_hmac_sha256(key->secret, parts, n, ret);
}

static void put_tsig(struct sw_dns_writer *w, const struct vars *v, const uint8_t *mac, unsigned id)
{
    struct sw_dns_name alg = algorithm();
    size_t len_at;

    sw_dns_put_name(w, &v->key, false);
    sw_dns_put_u16(w, SW_DNS_TSIG);
    sw_dns_put_u16(w, SW_DNS_CLASS_ANY);
    sw_dns_put_u32(w, 0);
    len_at = w->n;
    sw_dns_put_u16(w, 0);
    sw_dns_put_name(w, &alg, false);
    put_time(w, v);
    sw_dns_put_u16(w, mac ? SW_HMAC_SHA256 : 0);
    sw_dns_put_bytes(w, mac, mac ? SW_HMAC_SHA256 : 0);
    sw_dns_put_u16(w, id);
    sw_dns_put_u16(w, v->error);
    sw_dns_put_u16(w, (unsigned)v->other.n);
    sw_dns_put_bytes(w, v->other.p, v->other.n);
    if (!w->full)
        sw_dns_set_u16(w, len_at, (unsigned)(w->n - len_at - 2));
}

bool sw_dns_tsig_sign(struct sw_dns_writer *w, const struct sw_dns_key *key, unsigned error,
                      struct sw_dns_tsig_ctx *c)
{
    uint8_t now[6] = {(uint8_t)(c->now_s >> 40), (uint8_t)(c->now_s >> 32),
                      (uint8_t)(c->now_s >> 24), (uint8_t)(c->now_s >> 16),
                      (uint8_t)(c->now_s >> 8),  (uint8_t)c->now_s};
    struct vars v = {.key = key->name,
                     .time_s = c->now_s,
                     .fudge = SW_DNS_TSIG_FUDGE_S,
                     .error = (uint16_t)error};
    bool unsigned_ = error == SW_DNS_BADVERS || error == SW_DNS_BADKEY; /* BADVERS is BADSIG */
    size_t start = w->n;
    uint8_t mac[SW_HMAC_SHA256];
    unsigned ar;

    if (w->full || w->n < SW_DNS_HEADER)
        return false;
    if (error == SW_DNS_BADTIME)
        v.other = sw_slice(now, sizeof(now));
    if (!unsigned_)
        compute(key, c, sw_slice(w->p, w->n), (struct sw_slice){0}, &v, mac);
    put_tsig(w, &v, unsigned_ ? NULL : mac, (unsigned)(w->p[0] << 8 | w->p[1]));
    if (w->full) {
        sw_dns_rewind(w, start);
        return false;
    }
    ar = (unsigned)(w->p[10] << 8 | w->p[11]) + 1;
    sw_dns_set_u16(w, 10, ar);
    if (!unsigned_) {
        c->prior.set = true;
        memcpy(c->prior.b, mac, sizeof(mac));
    }
    return true;
}

/* ---- checking ---- */

/* The last record; SW_ENOENT when it is no signature. */
static int find_tsig(struct sw_slice msg, struct sw_dns_rr *ret)
{
    struct sw_dns_reader r = {.p = (const uint8_t *)msg.p, .n = msg.n};
    struct sw_dns_header h;
    struct sw_dns_question q;
    struct sw_dns_rr rr = {0};
    size_t left;

    if (sw_dns_read_header(&r, &h) != SW_OK)
        return SW_EPROTO;
    for (unsigned i = 0; i < h.qd; i++)
        if (sw_dns_read_question(&r, &q) != SW_OK)
            return SW_EPROTO;
    left = (size_t)h.an + h.ns + h.ar;
    if (!left)
        return SW_ENOENT;
    while (left--) {
        if (sw_dns_read_rr(&r, &rr) != SW_OK)
            return SW_EPROTO;
        if (rr.type == SW_DNS_TSIG && (left || !h.ar || r.at != r.n))
            return SW_EPROTO;
    }
    if (rr.type != SW_DNS_TSIG)
        return SW_ENOENT;
    *ret = rr;
    return rr.class == SW_DNS_CLASS_ANY && rr.ttl == 0 ? SW_OK : SW_EPROTO;
}

/* Takes the data of the record apart. */
static int parse_tsig(struct sw_slice msg, const struct sw_dns_rr *rr, struct vars *v,
                      struct sw_dns_name *ret_alg, struct sw_slice *ret_mac, uint16_t *ret_id)
{
    struct sw_dns_reader r = {
        .p = (const uint8_t *)msg.p, .n = rr->rdata_at + rr->rdata.n, .at = rr->rdata_at};
    const uint8_t *p;
    size_t n;

    if (sw_dns_read_name(&r, ret_alg) != SW_OK || r.n - r.at < 10)
        return SW_EPROTO;
    p = r.p + r.at;
    v->key = rr->name;
    v->time_s = (uint64_t)p[0] << 40 | (uint64_t)p[1] << 32 | (uint64_t)p[2] << 24 |
                (uint64_t)p[3] << 16 | (uint64_t)p[4] << 8 | p[5];
    v->fudge = (uint16_t)(p[6] << 8 | p[7]);
    n = (size_t)p[8] << 8 | p[9];
    r.at += 10;
    if (r.n - r.at < n + 6)
        return SW_EPROTO;
    *ret_mac = sw_slice(r.p + r.at, n);
    p = r.p + r.at + n;
    *ret_id = (uint16_t)(p[0] << 8 | p[1]);
    v->error = (uint16_t)(p[2] << 8 | p[3]);
    n = (size_t)p[4] << 8 | p[5];
    p += 6;
    if ((size_t)(r.p + r.n - p) != n)
        return SW_EPROTO;
    v->other = sw_slice(p, sw_min(n, 16));
    return n <= 16 ? SW_OK : SW_EPROTO;
}

static int check(struct sw_slice msg, const struct vars *v, struct sw_slice mac, uint16_t id,
                 struct sw_dns_tsig_ctx *c, struct sw_dns_tsig_found *f)
{
    uint8_t head[SW_DNS_HEADER];
    uint8_t want[SW_HMAC_SHA256];
    unsigned ar = (unsigned)((uint8_t)msg.p[10] << 8 | (uint8_t)msg.p[11]) - 1;
    uint64_t off = c->now_s > v->time_s ? c->now_s - v->time_s : v->time_s - c->now_s;

    memcpy(head, msg.p, sizeof(head));
    head[0] = (uint8_t)(id >> 8);
    head[1] = (uint8_t)id;
    head[10] = (uint8_t)(ar >> 8);
    head[11] = (uint8_t)ar;
    compute(f->key, c, sw_slice(head, sizeof(head)),
            sw_slice(msg.p + sizeof(head), f->start - sizeof(head)), v, want);
    if (mac.n != sizeof(want) || !sw_secret_eq(mac.p, want, sizeof(want))) {
        f->error = SW_DNS_BADVERS; /* BADSIG has the same number */
        return SW_EDENIED;
    }
    c->prior.set = true;
    memcpy(c->prior.b, want, sizeof(want));
    if (off > v->fudge) {
        f->error = SW_DNS_BADTIME;
        return SW_EDENIED;
    }
    f->error = v->error;
    return v->error ? SW_EDENIED : SW_OK;
}

int sw_dns_tsig_verify(struct sw_slice msg, const struct sw_dns_key *keys, size_t n_keys,
                       struct sw_dns_tsig_ctx *c, struct sw_dns_tsig_found *ret)
{
    struct sw_dns_tsig_found f = {0};
    struct sw_dns_name alg;
    struct sw_dns_name ours = algorithm();
    struct sw_dns_rr rr;
    struct sw_slice mac;
    struct vars v = {0};
    uint16_t id;
    int rc = find_tsig(msg, &rr);

    if (rc != SW_OK)
        return rc;
    if (parse_tsig(msg, &rr, &v, &alg, &mac, &id) != SW_OK)
        return SW_EPROTO;
    f.start = rr.start;
    f.name = rr.name;
    for (size_t i = 0; i < n_keys; i++)
        if (sw_dns_name_eq(&keys[i].name, &rr.name))
            f.key = &keys[i];
    if (!f.key || !sw_dns_name_eq(&alg, &ours)) {
        f.key = NULL;
        f.error = v.error ? v.error : SW_DNS_BADKEY;
        rc = SW_EDENIED;
    } else if (v.error && !mac.n) {
        f.error = v.error; /* the peer could not sign its refusal */
        rc = SW_EDENIED;
    } else {
        rc = check(msg, &v, mac, id, c, &f);
    }
    *ret = f;
    return rc;
}
