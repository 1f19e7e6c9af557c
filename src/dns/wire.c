/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/wire.h"

#include <string.h>

const char *sw_dns_rcode_text(unsigned rcode)
{
    static const char *const names[] = {"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN",
                                        "NOTIMP",  "REFUSED", "YXDOMAIN", "YXRRSET",
                                        "NXRRSET", "NOTAUTH", "NOTZONE"};

    if (rcode < SW_ARRAY_LEN(names))
        return names[rcode];
    switch (rcode) {
    case SW_DNS_BADVERS:
        return "BADVERS";
    case SW_DNS_BADKEY:
        return "BADKEY";
    case SW_DNS_BADTIME:
        return "BADTIME";
    default:
        return "RCODE";
    }
}

/* ---- reading ---- */

static uint16_t get16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)get16(p) << 16 | get16(p + 2);
}

int sw_dns_read_header(struct sw_dns_reader *r, struct sw_dns_header *ret)
{
    const uint8_t *p = r->p + r->at;

    if (r->n - r->at < SW_DNS_HEADER)
        return SW_EPROTO;
    *ret = (struct sw_dns_header){.id = get16(p),
                                  .flags = get16(p + 2),
                                  .qd = get16(p + 4),
                                  .an = get16(p + 6),
                                  .ns = get16(p + 8),
                                  .ar = get16(p + 10)};
    r->at += SW_DNS_HEADER;
    return SW_OK;
}

int sw_dns_read_name(struct sw_dns_reader *r, struct sw_dns_name *ret)
{
    size_t at = r->at;
    size_t limit = r->at; /* a pointer must lead before this */
    size_t end = 0;       /* where reading continues: after the first pointer */
    size_t n = 0;

    for (;;) {
        uint8_t c;

        if (at >= r->n)
            return SW_EPROTO;
        c = r->p[at];
        if (c >= 0xc0) {
            size_t to;

            if (r->n - at < 2)
                return SW_EPROTO;
            to = (size_t)(c & 0x3f) << 8 | r->p[at + 1];
            if (!end)
                end = at + 2;
            if (to >= limit)
                return SW_EPROTO;
            limit = to;
            at = to;
            continue;
        }
        if (c > 63 || r->n - at < 1u + c || n + 1u + c > SW_DNS_NAME_MAX)
            return SW_EPROTO;
        memcpy(ret->b + n, r->p + at, 1u + c);
        n += 1u + c;
        at += 1u + c;
        if (!c)
            break;
    }
    ret->n = (uint8_t)n;
    r->at = end ? end : at;
    return SW_OK;
}

int sw_dns_read_question(struct sw_dns_reader *r, struct sw_dns_question *ret)
{
    struct sw_dns_reader t = *r;

    if (sw_dns_read_name(&t, &ret->name) != SW_OK || t.n - t.at < 4)
        return SW_EPROTO;
    ret->type = get16(t.p + t.at);
    ret->class = get16(t.p + t.at + 2);
    r->at = t.at + 4;
    return SW_OK;
}

int sw_dns_read_rr(struct sw_dns_reader *r, struct sw_dns_rr *ret)
{
    struct sw_dns_reader t = *r;
    size_t len;

    ret->start = r->at;
    if (sw_dns_read_name(&t, &ret->name) != SW_OK || t.n - t.at < 10)
        return SW_EPROTO;
    ret->type = get16(t.p + t.at);
    ret->class = get16(t.p + t.at + 2);
    ret->ttl = get32(t.p + t.at + 4);
    len = get16(t.p + t.at + 8);
    t.at += 10;
    if (t.n - t.at < len)
        return SW_EPROTO;
    ret->rdata_at = t.at;
    ret->rdata = sw_slice(t.p + t.at, len);
    r->at = t.at + len;
    return SW_OK;
}

int sw_dns_txt_join(struct sw_arena *a, struct sw_slice rdata, struct sw_slice *ret)
{
    char *out = sw_arena_alloc(a, rdata.n + 1);
    size_t n = 0;

    if (!rdata.n)
        return SW_EPROTO;
    for (size_t i = 0; i < rdata.n;) {
        size_t len = (uint8_t)rdata.p[i++];

        if (rdata.n - i < len)
            return SW_EPROTO;
        memcpy(out + n, rdata.p + i, len);
        n += len;
        i += len;
    }
    *ret = sw_slice(out, n);
    return SW_OK;
}

int sw_dns_rr_soa(const struct sw_dns_reader *msg, const struct sw_dns_rr *rr,
                  struct sw_dns_soa *ret)
{
    struct sw_dns_reader r = {.p = msg->p, .n = rr->rdata_at + rr->rdata.n, .at = rr->rdata_at};
    const uint8_t *p;

    if (rr->type != SW_DNS_SOA || sw_dns_read_name(&r, &ret->mname) != SW_OK ||
        sw_dns_read_name(&r, &ret->rname) != SW_OK || r.n - r.at != 20)
        return SW_EPROTO;
    p = r.p + r.at;
    ret->serial = get32(p);
    ret->refresh = get32(p + 4);
    ret->retry = get32(p + 8);
    ret->expire = get32(p + 12);
    ret->minimum = get32(p + 16);
    return SW_OK;
}

/* ---- writing ---- */

void sw_dns_writer_init(struct sw_dns_writer *w, void *p, size_t cap)
{
    *w = (struct sw_dns_writer){.p = p, .cap = cap};
}

void sw_dns_put_bytes(struct sw_dns_writer *w, const void *p, size_t n)
{
    if (w->full || w->cap - w->n < n) {
        w->full = true;
        return;
    }
    if (n)
        memcpy(w->p + w->n, p, n);
    w->n += n;
}

void sw_dns_put_u8(struct sw_dns_writer *w, unsigned v)
{
    uint8_t b = (uint8_t)v;

    sw_dns_put_bytes(w, &b, 1);
}

void sw_dns_put_u16(struct sw_dns_writer *w, unsigned v)
{
    uint8_t b[2] = {(uint8_t)(v >> 8), (uint8_t)v};

    sw_dns_put_bytes(w, b, 2);
}

void sw_dns_put_u32(struct sw_dns_writer *w, uint32_t v)
{
    sw_dns_put_u16(w, v >> 16);
    sw_dns_put_u16(w, v & 0xffff);
}

void sw_dns_put_header(struct sw_dns_writer *w, const struct sw_dns_header *h)
{
    sw_dns_put_u16(w, h->id);
    sw_dns_put_u16(w, h->flags);
    sw_dns_put_u16(w, h->qd);
    sw_dns_put_u16(w, h->an);
    sw_dns_put_u16(w, h->ns);
    sw_dns_put_u16(w, h->ar);
}

void sw_dns_set_u16(struct sw_dns_writer *w, size_t at, unsigned v)
{
    if (at + 2 > w->n)
        return;
    w->p[at] = (uint8_t)(v >> 8);
    w->p[at + 1] = (uint8_t)v;
}

void sw_dns_rewind(struct sw_dns_writer *w, size_t at)
{
    w->n = at;
    w->full = false;
    while (w->n_suffixes && w->suffixes[w->n_suffixes - 1] >= at)
        w->n_suffixes--;
    if (w->last >= at)
        w->last = 0;
}

/* Whether the name at 'off' of the message (ours, so well formed) is this very rest of a name. */
static bool suffix_is(const struct sw_dns_writer *w, size_t off, const uint8_t *rest)
{
    for (;;) {
        uint8_t c = w->p[off];

        if (c >= 0xc0) {
            off = (size_t)(c & 0x3f) << 8 | w->p[off + 1];
            continue;
        }
        if (c != *rest || memcmp(w->p + off, rest, 1u + c) != 0)
            return false;
        if (!c)
            return true;
        off += 1u + c;
        rest += 1u + c;
    }
}

static size_t find_suffix(const struct sw_dns_writer *w, const uint8_t *rest)
{
    if (w->last && suffix_is(w, w->last, rest))
        return w->last;
    for (size_t i = 0; i < w->n_suffixes; i++)
        if (suffix_is(w, w->suffixes[i], rest))
            return w->suffixes[i];
    return 0;
}

void sw_dns_put_name(struct sw_dns_writer *w, const struct sw_dns_name *name, bool compress)
{
    size_t start = w->n;
    size_t known = w->n_suffixes;
    size_t i = 0;

    if (w->full || !compress || w->plain) {
        sw_dns_put_bytes(w, name->b, name->n);
        return;
    }
    while (name->b[i]) {
        size_t to = find_suffix(w, name->b + i);

        if (to) {
            sw_dns_put_u16(w, 0xc000 | (unsigned)to);
            break;
        }
        if (w->n < 0x4000 && known < SW_DNS_SUFFIXES)
            w->suffixes[known++] = (uint16_t)w->n;
        sw_dns_put_bytes(w, name->b + i, 1u + name->b[i]);
        i += 1u + name->b[i];
    }
    if (!name->b[i])
        sw_dns_put_u8(w, 0);
    /* Only a name that is there whole may be pointed to. */
    if (w->full) {
        w->n = start;
        return;
    }
    w->n_suffixes = known;
    if (start < 0x4000 && w->n - start > 2)
        w->last = (uint16_t)start;
}

void sw_dns_put_question(struct sw_dns_writer *w, const struct sw_dns_question *q)
{
    sw_dns_put_name(w, &q->name, true);
    sw_dns_put_u16(w, q->type);
    sw_dns_put_u16(w, q->class);
}

/* Copies one name out of uncompressed data; false when it is none. */
static bool cut_name(struct sw_slice *rest, struct sw_dns_name *ret)
{
    struct sw_dns_reader r = {.p = (const uint8_t *)rest->p, .n = rest->n};

    if (sw_dns_read_name(&r, ret) != SW_OK)
        return false;
    *rest = sw_slice_from(*rest, r.at);
    return true;
}

static void put_rdata(struct sw_dns_writer *w, unsigned type, struct sw_slice rdata)
{
    unsigned names = type == SW_DNS_SOA                                                ? 2
                     : type == SW_DNS_NS || type == SW_DNS_CNAME || type == SW_DNS_PTR ? 1
                                                                                       : 0;
    struct sw_dns_name name;

    while (names-- && cut_name(&rdata, &name))
        sw_dns_put_name(w, &name, true);
    sw_dns_put_bytes(w, rdata.p, rdata.n);
}

bool sw_dns_put_rr(struct sw_dns_writer *w, const struct sw_dns_name *name, unsigned type,
                   unsigned class, uint32_t ttl, struct sw_slice rdata)
{
    size_t start = w->n;
    size_t len_at;

    if (w->full)
        return false;
    sw_dns_put_name(w, name, true);
    sw_dns_put_u16(w, type);
    sw_dns_put_u16(w, class);
    sw_dns_put_u32(w, ttl);
    len_at = w->n;
    sw_dns_put_u16(w, 0);
    put_rdata(w, type, rdata);
    if (w->full) {
        sw_dns_rewind(w, start);
        return false;
    }
    sw_dns_set_u16(w, len_at, (unsigned)(w->n - len_at - 2));
    return true;
}

/* ---- record data ---- */

struct sw_slice sw_dns_txt_rdata(struct sw_arena *a, struct sw_slice text)
{
    struct sw_slice t = sw_slice_head(text, 65000);
    size_t strings = t.n ? (t.n + 254) / 255 : 1;
    char *out = sw_arena_alloc(a, t.n + strings);
    size_t n = 0;

    for (size_t i = 0; i < strings; i++) {
        size_t k = sw_min(255, t.n - i * 255);

        out[n++] = (char)k;
        if (k)
            memcpy(out + n, t.p + i * 255, k);
        n += k;
    }
    return sw_slice(out, n);
}

struct sw_slice sw_dns_name_rdata(struct sw_arena *a, const struct sw_dns_name *name)
{
    return sw_arena_slice(a, sw_dns_name_bytes(name));
}

struct sw_slice sw_dns_ip_rdata(struct sw_arena *a, const struct sw_ip *ip)
{
    return sw_arena_slice(a, sw_slice(ip->b, sw_ip_len(ip)));
}

struct sw_slice sw_dns_soa_rdata(struct sw_arena *a, const struct sw_dns_soa *soa)
{
    size_t cap = soa->mname.n + soa->rname.n + 20u;
    struct sw_dns_writer w;

    sw_dns_writer_init(&w, sw_arena_alloc(a, cap), cap);
    sw_dns_put_name(&w, &soa->mname, false);
    sw_dns_put_name(&w, &soa->rname, false);
    sw_dns_put_u32(&w, soa->serial);
    sw_dns_put_u32(&w, soa->refresh);
    sw_dns_put_u32(&w, soa->retry);
    sw_dns_put_u32(&w, soa->expire);
    sw_dns_put_u32(&w, soa->minimum);
    return sw_slice(w.p, w.n);
}

/* ---- EDNS ---- */

int sw_dns_edns_parse(const struct sw_dns_rr *rr, struct sw_dns_edns *ret)
{
    const uint8_t *p = (const uint8_t *)rr->rdata.p;
    size_t i = 0;

    if (rr->type != SW_DNS_OPT || rr->name.n != 1)
        return SW_EPROTO;
    while (i < rr->rdata.n) {
        size_t len;

        if (rr->rdata.n - i < 4)
            return SW_EPROTO;
        len = get16(p + i + 2);
        i += 4;
        if (rr->rdata.n - i < len)
            return SW_EPROTO;
        i += len;
    }
    *ret = (struct sw_dns_edns){.present = true,
                                .udp_size =
                                    rr->class < SW_DNS_UDP_PLAIN ? SW_DNS_UDP_PLAIN : rr->class,
                                .version = (uint8_t)(rr->ttl >> 16),
                                .dnssec_ok = (rr->ttl & 0x8000) != 0};
    return SW_OK;
}

bool sw_dns_put_edns(struct sw_dns_writer *w, unsigned rcode_high, bool dnssec_ok)
{
    static const struct sw_dns_name root = {.n = 1};

    return sw_dns_put_rr(w, &root, SW_DNS_OPT, SW_DNS_UDP_SIZE,
                         (uint32_t)rcode_high << 24 | (dnssec_ok ? 0x8000 : 0),
                         (struct sw_slice){0});
}
