/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/respond.h"

#include <string.h>

enum {
    MAX_RECORDS = 16, /* a question carries a few at most: SOA of IXFR, OPT, TSIG */
    MAX_CHASE = 8,
};

/* A question taken apart, and its answer in the making. */
struct answer {
    const struct sw_dns_request *req;
    const struct sw_dns_zone *zone;
    struct sw_dns_header h;
    struct sw_dns_question q;
    bool have_question;
    struct sw_dns_edns edns;
    bool have_serial; /* of IXFR */
    uint32_t serial;
    struct sw_dns_tsig_found tsig;
    bool signed_; /* answer with a signature, be it one that only reports an error */
    struct sw_dns_tsig_ctx ctx;
    struct sw_dns_writer w;
    size_t limit; /* of the message */
    unsigned rcode;
    bool aa;
    bool tc;
    uint16_t an;
    uint16_t ns;
    uint16_t ar;
    const char *refused;
};

/* ---- reading ---- */

static int read_records(struct answer *m, struct sw_dns_reader *r)
{
    size_t n = (size_t)m->h.an + m->h.ns + m->h.ar;

    if (n > MAX_RECORDS || m->h.an)
        return SW_EPROTO;
    for (size_t i = 0; i < n; i++) {
        struct sw_dns_rr rr;
        struct sw_dns_soa soa;

        if (sw_dns_read_rr(r, &rr) != SW_OK)
            return SW_EPROTO;
        if (i < m->h.ns) {
            if (m->q.type != SW_DNS_IXFR || sw_dns_rr_soa(r, &rr, &soa) != SW_OK)
                return SW_EPROTO;
            m->have_serial = true;
            m->serial = soa.serial;
        } else if (rr.type == SW_DNS_OPT) {
            if (m->edns.present || sw_dns_edns_parse(&rr, &m->edns) != SW_OK)
                return SW_EPROTO;
        }
    }
    return r->at == r->n ? SW_OK : SW_EPROTO;
}

/* False: the code is decided already. */
static bool check_signature(struct answer *m)
{
    int rc;

    m->ctx.now_s = m->req->now_s;
    rc = sw_dns_tsig_verify(m->req->msg, m->req->keys, m->req->n_keys, &m->ctx, &m->tsig);
    if (rc == SW_ENOENT)
        return true;
    if (rc == SW_EPROTO) {
        m->rcode = SW_DNS_FORMERR;
        return false;
    }
    m->signed_ = true;
    if (rc != SW_OK) {
        m->rcode = SW_DNS_NOTAUTH;
        m->refused = m->tsig.error == SW_DNS_BADKEY    ? "unknown key"
                     : m->tsig.error == SW_DNS_BADTIME ? "signed at another time"
                                                       : "wrong signature";
        return false;
    }
    return true;
}

/* False: the code is decided already (or, without a question, the message is to be dropped). */
static bool read_request(struct answer *m)
{
    struct sw_dns_reader r = {.p = (const uint8_t *)m->req->msg.p, .n = m->req->msg.n};

    (void)!sw_dns_read_header(&r, &m->h); /* the caller knows there is one */
    m->rcode = SW_DNS_FORMERR;
    if (sw_dns_opcode_of(&m->h) != SW_DNS_QUERY) {
        m->rcode = SW_DNS_NOTIMP;
        return false;
    }
    if (m->h.qd != 1 || sw_dns_read_question(&r, &m->q) != SW_OK)
        return false;
    m->have_question = true;
    if (read_records(m, &r) != SW_OK) {
        m->edns.present = false;
        return false;
    }
    if (!check_signature(m))
        return false;
    if (m->edns.present && m->edns.version != 0) {
        m->rcode = SW_DNS_BADVERS;
        return false;
    }
    m->rcode = SW_DNS_NOERROR;
    return true;
}

/* ---- writing ---- */

static bool put_set(struct answer *m, const struct sw_dns_rrset *s, const struct sw_dns_name *name,
                    uint32_t ttl, uint16_t *count)
{
    for (size_t i = 0; i < s->n; i++) {
        if (!sw_dns_put_rr(&m->w, name, s->type, SW_DNS_IN, ttl, s->rdata[i])) {
            m->tc = true;
            return false;
        }
        (*count)++;
    }
    return true;
}

/* Owner names are written as in the question. */
static void put_answer(struct answer *m, const struct sw_dns_rrset *s,
                       const struct sw_dns_name *name)
{
    (void)put_set(m, s, name, s->ttl, &m->an);
}

/* Absence is remembered for the shorter of the two times (RFC 2308, 5). */
static void put_negative(struct answer *m)
{
    const struct sw_dns_rrset *soa = sw_dns_zone_soa(m->zone);
    uint32_t ttl = sw_dns_zone_negative_ttl(m->zone);

    (void)put_set(m, soa, &soa->name, ttl < soa->ttl ? ttl : soa->ttl, &m->ns);
}

/* Addresses of the servers: welcome, never worth a truncation. */
static void put_glue(struct answer *m, const struct sw_dns_rrset *ns)
{
    static const uint16_t types[] = {SW_DNS_A, SW_DNS_AAAA};

    for (size_t i = 0; i < ns->n; i++) {
        struct sw_dns_reader r = {.p = (const uint8_t *)ns->rdata[i].p, .n = ns->rdata[i].n};
        struct sw_dns_name name;

        if (sw_dns_read_name(&r, &name) != SW_OK)
            continue;
        for (size_t k = 0; k < SW_ARRAY_LEN(types); k++) {
            const struct sw_dns_rrset *s = sw_dns_zone_get(m->zone, &name, types[k]);
            size_t mark = m->w.n;
            uint16_t count = m->ar;

            if (s && !put_set(m, s, &s->name, s->ttl, &m->ar)) {
                sw_dns_rewind(&m->w, mark);
                m->ar = count;
                m->tc = false;
                return;
            }
        }
    }
}

static void answer_any(struct answer *m, const struct sw_dns_found *f)
{
    /* One set is enough of an answer (RFC 8482) and nothing to amplify with. */
    if (sw_dns_name_eq(&m->q.name, sw_dns_zone_origin(m->zone)))
        put_answer(m, sw_dns_zone_soa(m->zone), &m->q.name);
    else if (f->n)
        put_answer(m, &f->sets[0], &m->q.name);
    else
        put_negative(m);
}

static void answer_query(struct answer *m)
{
    struct sw_dns_name name = m->q.name;

    m->aa = true;
    for (unsigned i = 0; i < MAX_CHASE; i++) {
        struct sw_dns_found f = sw_dns_zone_find(m->zone, &name);
        const struct sw_dns_rrset *s = sw_dns_zone_get(m->zone, &name, m->q.type);
        const struct sw_dns_rrset *alias;
        struct sw_dns_reader r;

        if (!f.exists) {
            m->rcode = SW_DNS_NXDOMAIN;
            put_negative(m);
            return;
        }
        if (m->q.type == SW_DNS_ANY) {
            answer_any(m, &f);
            return;
        }
        if (s) {
            put_answer(m, s, &name);
            if (s->type == SW_DNS_NS && !m->tc)
                put_glue(m, s);
            return;
        }
        alias = sw_dns_zone_get(m->zone, &name, SW_DNS_CNAME);
        if (!alias) {
            put_negative(m);
            return;
        }
        put_answer(m, alias, &name);
        r = (struct sw_dns_reader){.p = (const uint8_t *)alias->rdata[0].p, .n = alias->rdata[0].n};
        if (m->tc || sw_dns_read_name(&r, &name) != SW_OK ||
            !sw_dns_name_under(&name, sw_dns_zone_origin(m->zone)))
            return;
    }
}

/* True when the zone itself is to be sent. */
static bool answer_transfer(struct answer *m)
{
    const struct sw_dns_rrset *soa = sw_dns_zone_soa(m->zone);
    bool current;

    if (!sw_dns_name_eq(&m->q.name, sw_dns_zone_origin(m->zone))) {
        m->rcode = SW_DNS_NOTAUTH;
        return false;
    }
    if (!m->req->may_transfer && !(m->signed_ && m->req->key_transfers)) {
        m->rcode = SW_DNS_REFUSED;
        m->refused = "transfer not allowed";
        return false;
    }
    if (!m->req->tcp && m->q.type == SW_DNS_AXFR) {
        m->rcode = SW_DNS_FORMERR;
        return false;
    }
    /* Serials wrap (RFC 1982). One that is not behind has all there is. */
    current = m->q.type == SW_DNS_IXFR && m->have_serial &&
              (int32_t)(sw_dns_zone_serial(m->zone) - m->serial) <= 0;
    if (!m->req->tcp || current) {
        m->aa = true;
        put_answer(m, soa, &m->q.name);
        return false;
    }
    return true;
}

/* Returns true for a transfer. */
static bool decide(struct answer *m)
{
    if (!m->zone) {
        m->rcode = SW_DNS_SERVFAIL;
        return false;
    }
    if ((m->q.class != SW_DNS_IN && m->q.class != SW_DNS_CLASS_ANY) ||
        !sw_dns_name_under(&m->q.name, sw_dns_zone_origin(m->zone))) {
        m->rcode = SW_DNS_REFUSED;
        m->refused = "not our zone";
        return false;
    }
    if (m->q.type == SW_DNS_AXFR || m->q.type == SW_DNS_IXFR)
        return answer_transfer(m);
    if (m->q.type == SW_DNS_OPT || (m->q.type >= SW_DNS_TSIG && m->q.type < SW_DNS_ANY)) {
        m->rcode = SW_DNS_FORMERR; /* types that no record of a zone has */
        return false;
    }
    answer_query(m);
    return false;
}

static size_t signature_room(const struct answer *m)
{
    return m->signed_ ? m->tsig.name.n + 100u : 0;
}

static void begin(struct answer *m, uint8_t *out)
{
    size_t keep = signature_room(m) + (m->edns.present ? SW_DNS_EDNS_LEN : 0);

    m->limit = SW_DNS_UDP_PLAIN;
    if (m->req->tcp)
        m->limit = SW_DNS_MSG_MAX;
    else if (m->edns.present)
        m->limit = sw_min(m->edns.udp_size, SW_DNS_UDP_SIZE);
    sw_dns_writer_init(&m->w, out, m->limit - sw_min(keep, m->limit / 4));
    sw_dns_put_header(&m->w, &(struct sw_dns_header){.id = m->h.id});
    if (m->have_question)
        sw_dns_put_question(&m->w, &m->q);
}

/* Header, OPT and signature, for which begin() left room. */
static void finish(struct answer *m, size_t question_end)
{
    unsigned flags = SW_DNS_QR | (m->h.flags & (0x7800 | SW_DNS_RD)) | (m->rcode & 15);

    if (m->tc) {
        /* A truncated set is of no use. */
        sw_dns_rewind(&m->w, question_end);
        m->an = m->ns = m->ar = 0;
        flags |= SW_DNS_TC;
    }
    if (m->aa)
        flags |= SW_DNS_AA;
    m->w.cap = m->limit;
    if (m->edns.present && sw_dns_put_edns(&m->w, m->rcode >> 4, m->edns.dnssec_ok))
        m->ar++;
    sw_dns_set_u16(&m->w, 2, flags);
    sw_dns_set_u16(&m->w, 4, m->have_question ? 1 : 0);
    sw_dns_set_u16(&m->w, 6, m->an);
    sw_dns_set_u16(&m->w, 8, m->ns);
    sw_dns_set_u16(&m->w, 10, m->ar);
    if (m->signed_) {
        struct sw_dns_key unknown = {.name = m->tsig.name};

        (void)sw_dns_tsig_sign(&m->w, m->tsig.key ? m->tsig.key : &unknown, m->tsig.error, &m->ctx);
    }
}

void sw_dns_respond(const struct sw_dns_zone *z, const struct sw_dns_request *req, uint8_t *out,
                    struct sw_dns_reply *ret)
{
    struct answer m = {.req = req, .zone = z};
    size_t question_end;

    *ret = (struct sw_dns_reply){.verdict = SW_DNS_DROP};
    if (req->msg.n < SW_DNS_HEADER || req->msg.n > SW_DNS_MSG_MAX ||
        ((uint8_t)req->msg.p[2] & 0x80))
        return;
    if (read_request(&m)) {
        begin(&m, out);
        question_end = m.w.n;
        if (decide(&m)) {
            ret->verdict = SW_DNS_TRANSFER;
            ret->id = m.h.id;
            ret->question = m.q;
            ret->key = m.signed_ ? m.tsig.key : NULL;
            ret->mac = m.ctx.prior;
            return;
        }
    } else {
        begin(&m, out);
        question_end = m.w.n;
    }
    finish(&m, question_end);
    ret->verdict = SW_DNS_REPLY;
    ret->rcode = m.rcode;
    ret->refused = m.refused;
    ret->question = m.q;
    ret->n = m.w.n;
}

size_t sw_dns_slip(struct sw_slice msg, uint8_t *out, size_t cap)
{
    struct sw_dns_reader r = {.p = (const uint8_t *)msg.p, .n = msg.n};
    struct sw_dns_header h;
    struct sw_dns_question q;
    struct sw_dns_writer w;
    bool ask;

    if (sw_dns_read_header(&r, &h) != SW_OK)
        return 0;
    ask = h.qd == 1 && sw_dns_read_question(&r, &q) == SW_OK;
    sw_dns_writer_init(&w, out, cap);
    sw_dns_put_header(&w,
                      &(struct sw_dns_header){.id = h.id,
                                              .flags = (uint16_t)(SW_DNS_QR | SW_DNS_TC |
                                                                  (h.flags & (0x7800 | SW_DNS_RD))),
                                              .qd = ask ? 1 : 0});
    if (ask)
        sw_dns_put_question(&w, &q);
    return w.full ? 0 : w.n;
}

/* ---- transfers ---- */

void sw_dns_xfer_start(struct sw_dns_xfer *x, const struct sw_dns_zone *z,
                       const struct sw_dns_reply *r, uint64_t now_s)
{
    *x = (struct sw_dns_xfer){.zone = z,
                              .question = r->question,
                              .id = r->id,
                              .key = r->key,
                              .tsig = {.prior = r->mac, .now_s = now_s}};
}

/* Fills one message with records; the SOA opens and closes the transfer. */
static uint16_t put_records(struct sw_dns_xfer *x, struct sw_dns_writer *w)
{
    const struct sw_dns_rrset *soa = sw_dns_zone_soa(x->zone);
    uint16_t n = 0;

    if (!x->begun && sw_dns_put_rr(w, &soa->name, SW_DNS_SOA, SW_DNS_IN, soa->ttl, soa->rdata[0])) {
        x->begun = true;
        n++;
    }
    while (x->set < sw_dns_zone_count(x->zone)) {
        const struct sw_dns_rrset *s = sw_dns_zone_at(x->zone, x->set);

        if (!sw_dns_put_rr(w, &s->name, s->type, SW_DNS_IN, s->ttl, s->rdata[x->rr]))
            return n;
        n++;
        if (++x->rr == s->n) {
            x->rr = 0;
            x->set++;
        }
    }
    if (sw_dns_put_rr(w, &soa->name, SW_DNS_SOA, SW_DNS_IN, soa->ttl, soa->rdata[0])) {
        x->done = true;
        n++;
    }
    return n;
}

size_t sw_dns_xfer_next(struct sw_dns_xfer *x, uint8_t *out, size_t cap)
{
    size_t keep = x->key ? x->key->name.n + 100u : 0;
    struct sw_dns_writer w;
    bool first = !x->begun;
    uint16_t n;

    if (x->done || cap < 1024 + keep)
        return 0;
    sw_dns_writer_init(&w, out, cap - keep);
    sw_dns_put_header(&w, &(struct sw_dns_header){.id = x->id, .flags = SW_DNS_QR | SW_DNS_AA});
    if (first) {
        sw_dns_put_question(&w, &x->question);
        sw_dns_set_u16(&w, 4, 1);
    }
    n = put_records(x, &w);
    sw_dns_set_u16(&w, 6, n);
    if (!n) { /* a record larger than any message: zones have none */
        x->done = true;
        return 0;
    }
    w.cap = cap;
    if (x->key) {
        x->tsig.timers_only = !first;
        (void)sw_dns_tsig_sign(&w, x->key, 0, &x->tsig);
    }
    return w.n;
}
