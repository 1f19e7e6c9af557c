/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/answer.h"

enum { MAX_ALIASES = 8, MAX_RECORDS = 512 };

size_t sw_dns_txt_question(uint16_t id, const struct sw_dns_name *name, uint8_t *out, size_t cap)
{
    struct sw_dns_question q = {.name = *name, .type = SW_DNS_TXT, .class = SW_DNS_IN};
    struct sw_dns_writer w;

    sw_dns_writer_init(&w, out, cap);
    sw_dns_put_header(&w, &(struct sw_dns_header){.id = id, .flags = SW_DNS_RD, .qd = 1, .ar = 1});
    sw_dns_put_question(&w, &q);
    return sw_dns_put_edns(&w, 0, false) ? w.n : 0;
}

/* All records of the answer section from where the reader stands; at most MAX_RECORDS. */
static int read_section(struct sw_dns_reader *r, unsigned n, struct sw_dns_rr *ret)
{
    if (n > MAX_RECORDS)
        return SW_ELIMIT;
    for (unsigned i = 0; i < n; i++)
        if (sw_dns_read_rr(r, &ret[i]) != SW_OK)
            return SW_EPROTO;
    return SW_OK;
}

/* Where the aliases of a name lead within the records. */
static int follow(const struct sw_dns_reader *msg, const struct sw_dns_rr *rrs, unsigned n,
                  struct sw_dns_name *name, uint32_t *ttl)
{
    for (unsigned step = 0; step < MAX_ALIASES; step++) {
        bool moved = false;

        for (unsigned i = 0; i < n && !moved; i++) {
            struct sw_dns_reader r = {
                .p = msg->p, .n = rrs[i].rdata_at + rrs[i].rdata.n, .at = rrs[i].rdata_at};

            if (rrs[i].type != SW_DNS_CNAME || rrs[i].class != SW_DNS_IN ||
                !sw_dns_name_eq(&rrs[i].name, name))
                continue;
            if (sw_dns_read_name(&r, name) != SW_OK)
                return SW_EPROTO;
            *ttl = rrs[i].ttl < *ttl ? rrs[i].ttl : *ttl;
            moved = true;
        }
        if (!moved)
            return SW_OK;
    }
    return SW_ELIMIT;
}

static int collect(struct sw_arena *a, const struct sw_dns_rr *rrs, unsigned n,
                   const struct sw_dns_name *name, struct sw_dns_txt_answer *out)
{
    struct sw_slice *txt = sw_arena_array(a, SW_DNS_ANSWER_TXT_MAX, sizeof(*txt));

    for (unsigned i = 0; i < n; i++) {
        if (rrs[i].type != SW_DNS_TXT || rrs[i].class != SW_DNS_IN ||
            !sw_dns_name_eq(&rrs[i].name, name))
            continue;
        if (out->n_txt == SW_DNS_ANSWER_TXT_MAX)
            return SW_ELIMIT;
        if (sw_dns_txt_join(a, rrs[i].rdata, &txt[out->n_txt]) != SW_OK)
            return SW_EPROTO;
        out->n_txt++;
        out->ttl_s = rrs[i].ttl < out->ttl_s ? rrs[i].ttl : out->ttl_s;
    }
    out->txt = txt;
    return SW_OK;
}

/* How long absence may be remembered: by the SOA of the authority section (RFC 2308, 5). */
static void negative_ttl(struct sw_dns_reader *r, unsigned n, struct sw_dns_txt_answer *out)
{
    out->ttl_s = UINT32_MAX;
    for (unsigned i = 0; i < n; i++) {
        struct sw_dns_rr rr;
        struct sw_dns_soa soa;

        if (sw_dns_read_rr(r, &rr) != SW_OK)
            return;
        if (sw_dns_rr_soa(r, &rr, &soa) == SW_OK) {
            out->ttl_s = rr.ttl < soa.minimum ? rr.ttl : soa.minimum;
            return;
        }
    }
}

int sw_dns_txt_answer(struct sw_arena *a, struct sw_slice msg, uint16_t id,
                      const struct sw_dns_name *name, struct sw_dns_txt_answer *ret)
{
    struct sw_dns_reader r = {.p = (const uint8_t *)msg.p, .n = msg.n};
    struct sw_dns_txt_answer out = {.ttl_s = UINT32_MAX};
    struct sw_dns_name owner = *name;
    struct sw_dns_header h;
    struct sw_dns_question q;
    struct sw_dns_rr *rrs;
    int rc;

    if (sw_dns_read_header(&r, &h) != SW_OK || h.id != id || !(h.flags & SW_DNS_QR) ||
        sw_dns_opcode_of(&h) != SW_DNS_QUERY || h.qd != 1 ||
        sw_dns_read_question(&r, &q) != SW_OK || q.type != SW_DNS_TXT || q.class != SW_DNS_IN ||
        !sw_dns_name_eq(&q.name, name))
        return SW_EAGAIN;
    out.rcode = sw_dns_rcode_of(&h);
    out.truncated = (h.flags & SW_DNS_TC) != 0;
    if (!out.truncated) {
        rrs = sw_arena_array(a, sw_min(h.an, MAX_RECORDS) + 1, sizeof(*rrs));
        rc = read_section(&r, h.an, rrs);
        if (rc == SW_OK)
            rc = follow(&r, rrs, h.an, &owner, &out.ttl_s);
        if (rc == SW_OK)
            rc = collect(a, rrs, h.an, &owner, &out);
        if (rc != SW_OK)
            return rc;
        if (!out.n_txt)
            negative_ttl(&r, h.ns, &out);
    }
    *ret = out;
    return SW_OK;
}
