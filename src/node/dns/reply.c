/* SPDX-License-Identifier: Apache-2.0 */
#include "node/dns/reply.h"

#include <string.h>

enum {
    RECORDS_MAX = 16, /* a request carries a few at most: OPT, TSIG */
    FLAG_BYTE = 2,    /* of the header: QR, opcode, AA, TC, RD */
};

/* A request taken apart, and its answer in the making. */
struct work {
    const struct sw_dnsp_request *req;
    struct sw_dns_header h;
    struct sw_dns_question q;
    struct sw_dns_edns edns;
    struct sw_dns_writer w;
    struct sw_dnsp_reply *ret;
};

/* ---- writing ---- */

static void put_head(struct sw_dns_writer *w, const struct sw_dns_header *h, unsigned flags,
                     const struct sw_dns_question *q)
{
    sw_dns_put_header(
        w, &(struct sw_dns_header){
               .id = h->id,
               .flags = (uint16_t)(SW_DNS_QR | flags | (h->flags & (0x7800 | SW_DNS_RD))),
               .qd = q ? 1 : 0});
    if (q)
        sw_dns_put_question(w, q);
}

/* Version and DO as they came, and the size the client accepts. */
static bool put_edns(struct work *k)
{
    uint32_t flags = (uint32_t)k->edns.version << 16 | (k->edns.dnssec_ok ? 0x8000u : 0);

    sw_dns_put_u8(&k->w, 0);
    sw_dns_put_u16(&k->w, SW_DNS_OPT);
    sw_dns_put_u16(&k->w, k->edns.udp_size);
    sw_dns_put_u32(&k->w, flags);
    sw_dns_put_u16(&k->w, 0);
    return !k->w.full;
}

static void reply(struct work *k, unsigned rcode)
{
    k->ret->verdict = SW_DNSP_REPLY;
    k->ret->rcode = rcode;
    sw_dns_set_u16(&k->w, 2, ((unsigned)k->w.p[2] << 8 | k->w.p[3] | rcode) & 0xffff);
    k->ret->n = k->w.n;
}

/* An answer without records. */
static void reply_empty(struct work *k, unsigned flags, unsigned rcode)
{
    put_head(&k->w, &k->h, flags | SW_DNS_RA, k->ret->type ? &k->q : NULL);
    if (k->edns.present && put_edns(k))
        sw_dns_set_u16(&k->w, 10, 1);
    reply(k, rcode);
}

/* All addresses that fit; TC when some do not. */
static void put_addresses(struct work *k, const struct sw_dns_name *owner, const struct sw_ip *ips,
                          size_t n, unsigned *count)
{
    size_t spare = k->edns.present ? SW_DNS_EDNS_LEN : 0;

    k->w.cap -= spare;
    for (size_t i = 0; i < n; i++) {
        if (!sw_dns_put_rr(&k->w, owner, k->q.type, SW_DNS_IN, SW_DNSP_TTL_S,
                           sw_slice(ips[i].b, ips[i].family == 4 ? 4 : 16))) {
            k->w.p[FLAG_BYTE] |= SW_DNS_TC >> 8;
            break;
        }
        (*count)++;
        k->ret->n_addresses++;
    }
    k->w.cap += spare;
    k->w.full = false;
}

static void reply_addresses(struct work *k, const struct sw_dnsp_match *m, const struct sw_ip *ips,
                            size_t n)
{
    struct sw_dns_name owner = k->q.name;
    struct sw_dns_name left;
    unsigned count = 0;

    put_head(&k->w, &k->h, SW_DNS_AA | SW_DNS_RA, &k->q);
    if (m->stripped && sw_dns_name_parse(sw_slice_str(m->name), &left, NULL) == SW_OK &&
        sw_dns_put_rr(&k->w, &owner, SW_DNS_CNAME, SW_DNS_IN, SW_DNSP_TTL_S,
                      sw_slice(left.b, left.n))) {
        owner = left;
        count++;
    }
    put_addresses(k, &owner, ips, n, &count);
    sw_dns_set_u16(&k->w, 6, count);
    if (k->edns.present && put_edns(k))
        sw_dns_set_u16(&k->w, 10, 1);
    reply(k, SW_DNS_NOERROR);
}

/* ---- reading ---- */

static int read_records(struct work *k, struct sw_dns_reader *r)
{
    size_t n = (size_t)k->h.an + k->h.ns + k->h.ar;

    if (n > RECORDS_MAX)
        return SW_EPROTO;
    for (size_t i = 0; i < n; i++) {
        struct sw_dns_rr rr;

        if (sw_dns_read_rr(r, &rr) != SW_OK)
            return SW_EPROTO;
        if (rr.type == SW_DNS_OPT && (k->edns.present || sw_dns_edns_parse(&rr, &k->edns) != SW_OK))
            return SW_EPROTO;
    }
    return SW_OK;
}

/* The text of a question, lower case; "" for one with bytes no host name has. */
static struct sw_slice host_text(const struct sw_dnsp_reply *r)
{
    struct sw_slice s = sw_slice_str(r->name);

    return s.n >= SW_DNSP_NAME_MAX || memchr(s.p, '\\', s.n) ? sw_slice("", 0) : s;
}

static void answer_query(struct work *k)
{
    const struct sw_dnsp_request *req = k->req;
    struct sw_ip ips[SW_DNSP_ADDRESSES_MAX];
    struct sw_dnsp_match m;
    size_t n;

    if (k->q.class != SW_DNS_IN || (k->q.type != SW_DNS_A && k->q.type != SW_DNS_AAAA)) {
        k->ret->verdict = SW_DNSP_FORWARD;
        return;
    }
    if (!req->client) {
        reply_empty(k, 0, SW_DNS_SERVFAIL);
        return;
    }
    if (!sw_dnsp_find(req->state, req->env, req->client, host_text(k->ret), &m)) {
        k->ret->verdict = SW_DNSP_FORWARD;
        return;
    }
    n = sw_dnsp_addresses(req->env, req->client, &m, k->q.type == SW_DNS_A ? 4 : 6, ips);
    if (n)
        reply_addresses(k, &m, ips, n);
    else
        reply_empty(k, SW_DNS_AA, SW_DNS_NOERROR);
}

static void note_question(struct work *k)
{
    struct sw_dns_name lower = k->q.name;

    k->ret->type = k->q.type;
    sw_dns_name_lower(&lower);
    (void)sw_dns_name_text(&lower, k->ret->name);
}

void sw_dnsp_respond(const struct sw_dnsp_request *req, uint8_t *out, struct sw_dnsp_reply *ret)
{
    struct sw_dns_reader r = {.p = (const uint8_t *)req->msg.p, .n = req->msg.n};
    struct work k = {.req = req, .ret = ret};
    bool asked;

    *ret = (struct sw_dnsp_reply){.verdict = SW_DNSP_DROP};
    if (sw_dns_read_header(&r, &k.h) != SW_OK)
        return;
    ret->id = k.h.id;
    ret->opcode = (uint8_t)sw_dns_opcode_of(&k.h);
    ret->limit = req->tcp ? SW_DNS_MSG_MAX : SW_DNS_UDP_PLAIN;
    sw_dns_writer_init(&k.w, out, ret->limit);
    asked = k.h.qd == 1 && sw_dns_read_question(&r, &k.q) == SW_OK;
    if (asked)
        note_question(&k);
    if (k.h.flags & SW_DNS_QR) {
        reply_empty(&k, 0, SW_DNS_FORMERR);
        return;
    }
    if (ret->opcode == SW_DNS_UPDATE) {
        /* The resolver has the zones. */
        ret->limit = SW_DNS_MSG_MAX;
        ret->verdict = SW_DNSP_FORWARD;
        return;
    }
    if (ret->opcode != SW_DNS_QUERY) {
        reply_empty(&k, 0, SW_DNS_NOTIMP);
        return;
    }
    if (!asked || read_records(&k, &r) != SW_OK) {
        k.edns.present = false;
        reply_empty(&k, 0, SW_DNS_FORMERR);
        return;
    }
    if (k.edns.present && !req->tcp) {
        ret->limit = sw_max(k.edns.udp_size, SW_DNS_UDP_PLAIN);
        k.w.cap = sw_min(ret->limit, (size_t)SW_DNSP_UDP_MOST);
    }
    answer_query(&k);
}

/* ---- what others answered ---- */

size_t sw_dnsp_pass_on(const struct sw_dnsp_reply *asked, struct sw_slice msg,
                       struct sw_slice answer, uint8_t *out)
{
    struct sw_dns_reader r = {.p = (const uint8_t *)msg.p, .n = msg.n};
    struct sw_dns_header h;
    struct sw_dns_question q;
    struct sw_dns_writer w;

    if (answer.n >= SW_DNS_HEADER && answer.n <= asked->limit) {
        memcpy(out, answer.p, answer.n);
        out[0] = (uint8_t)(asked->id >> 8);
        out[1] = (uint8_t)asked->id;
        if (asked->opcode == SW_DNS_QUERY)
            out[FLAG_BYTE] &= (uint8_t) ~(SW_DNS_AA >> 8);
        return answer.n;
    }
    if (sw_dns_read_header(&r, &h) != SW_OK || h.qd != 1 || sw_dns_read_question(&r, &q) != SW_OK)
        return 0;
    sw_dns_writer_init(&w, out, SW_DNS_UDP_PLAIN);
    put_head(&w, &h, SW_DNS_TC | SW_DNS_RA, &q);
    return w.full ? 0 : w.n;
}

size_t sw_dnsp_error(struct sw_slice msg, unsigned rcode, uint8_t *out)
{
    struct sw_dns_reader r = {.p = (const uint8_t *)msg.p, .n = msg.n};
    struct sw_dns_header h;
    struct sw_dns_question q;
    struct sw_dns_writer w;
    bool asked;

    if (sw_dns_read_header(&r, &h) != SW_OK)
        return 0;
    asked = h.qd == 1 && sw_dns_read_question(&r, &q) == SW_OK;
    sw_dns_writer_init(&w, out, SW_DNS_UDP_PLAIN);
    put_head(&w, &h, SW_DNS_RA | rcode, asked ? &q : NULL);
    return w.full ? 0 : w.n;
}

const char *sw_dnsp_type_text(uint16_t type)
{
    static const struct {
        uint16_t type;
        const char *text;
    } known[] = {
        {SW_DNS_A, "A"},     {SW_DNS_AAAA, "AAAA"}, {SW_DNS_CNAME, "CNAME"},
        {SW_DNS_NS, "NS"},   {SW_DNS_PTR, "PTR"},   {SW_DNS_SOA, "SOA"},
        {SW_DNS_TXT, "TXT"}, {SW_DNS_ANY, "ANY"},   {15, "MX"},
        {33, "SRV"},         {64, "SVCB"},          {65, "HTTPS"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(known); i++) {
        if (known[i].type == type)
            return known[i].text;
    }
    return "other";
}
