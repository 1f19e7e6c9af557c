/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS messages as bytes (RFC 1035, 2136, 6891): questions, records, a bounded writer with name
 * compression. No I/O and no clock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "dns/name.h"
#include "io/addr.h"

enum {
    SW_DNS_HEADER = 12,
    SW_DNS_MSG_MAX = 65535,
    SW_DNS_UDP_PLAIN = 512, /* without EDNS */
    SW_DNS_UDP_SIZE = 1232, /* what we offer and send at most: fits every path's MTU */
};

enum sw_dns_type {
    SW_DNS_A = 1,
    SW_DNS_NS = 2,
    SW_DNS_CNAME = 5,
    SW_DNS_SOA = 6,
    SW_DNS_PTR = 12,
    SW_DNS_TXT = 16,
    SW_DNS_AAAA = 28,
    SW_DNS_OPT = 41,
    SW_DNS_TSIG = 250,
    SW_DNS_IXFR = 251,
    SW_DNS_AXFR = 252,
    SW_DNS_ANY = 255,
};

enum sw_dns_class { SW_DNS_IN = 1, SW_DNS_CLASS_NONE = 254, SW_DNS_CLASS_ANY = 255 };

enum sw_dns_opcode { SW_DNS_QUERY = 0, SW_DNS_NOTIFY = 4, SW_DNS_UPDATE = 5 };

enum sw_dns_rcode {
    SW_DNS_NOERROR = 0,
    SW_DNS_FORMERR = 1,
    SW_DNS_SERVFAIL = 2,
    SW_DNS_NXDOMAIN = 3,
    SW_DNS_NOTIMP = 4,
    SW_DNS_REFUSED = 5,
    SW_DNS_YXDOMAIN = 6,
    SW_DNS_YXRRSET = 7,
    SW_DNS_NXRRSET = 8,
    SW_DNS_NOTAUTH = 9,
    SW_DNS_NOTZONE = 10,
    SW_DNS_BADVERS = 16, /* BADSIG in the error field of TSIG */
    SW_DNS_BADKEY = 17,
    SW_DNS_BADTIME = 18,
};

/* Bits of the header's second word. */
enum {
    SW_DNS_QR = 0x8000,
    SW_DNS_AA = 0x0400,
    SW_DNS_TC = 0x0200,
    SW_DNS_RD = 0x0100,
    SW_DNS_RA = 0x0080,
};

/* "NOERROR" and so on; "RCODE" for others. */
const char *sw_dns_rcode_text(unsigned rcode);

/* ---- reading ---- */

struct sw_dns_reader {
    const uint8_t *p; /* the whole message: names point back into it */
    size_t n;
    size_t at;
};

struct sw_dns_header {
    uint16_t id;
    uint16_t flags; /* with opcode and rcode */
    uint16_t qd;
    uint16_t an;
    uint16_t ns;
    uint16_t ar;
};

static inline unsigned sw_dns_opcode_of(const struct sw_dns_header *h)
{
    return (h->flags >> 11) & 15;
}

static inline unsigned sw_dns_rcode_of(const struct sw_dns_header *h)
{
    return h->flags & 15;
}

struct sw_dns_question {
    struct sw_dns_name name;
    uint16_t type;
    uint16_t class;
};

struct sw_dns_rr {
    struct sw_dns_name name;
    uint16_t type;
    uint16_t class;
    uint32_t ttl;
    size_t start;    /* of the record in the message */
    size_t rdata_at; /* of the data: names in it need the whole message */
    struct sw_slice rdata;
};

/* All of these: SW_OK and advanced, or SW_EPROTO and not. */
SW_NODISCARD int sw_dns_read_header(struct sw_dns_reader *r, struct sw_dns_header *ret);
/* Pointers may only go backwards, so none can loop. */
SW_NODISCARD int sw_dns_read_name(struct sw_dns_reader *r, struct sw_dns_name *ret);
SW_NODISCARD int sw_dns_read_question(struct sw_dns_reader *r, struct sw_dns_question *ret);
SW_NODISCARD int sw_dns_read_rr(struct sw_dns_reader *r, struct sw_dns_rr *ret);
/* Strings of a TXT record joined into one, in the arena. SW_EPROTO for one cut short or empty. */
SW_NODISCARD int sw_dns_txt_join(struct sw_arena *a, struct sw_slice rdata, struct sw_slice *ret);

/* ---- writing ---- */

enum { SW_DNS_SUFFIXES = 24 };

/* Writes into the caller's memory. Past 'cap' nothing is written and 'full' stays set. */
struct sw_dns_writer {
    uint8_t *p;
    size_t cap;
    size_t n;
    bool full;
    bool plain;                         /* never compress */
    uint16_t suffixes[SW_DNS_SUFFIXES]; /* where names start that later ones may point to */
    size_t n_suffixes;
    uint16_t last; /* the name written last: often the next one is the same */
};

void sw_dns_writer_init(struct sw_dns_writer *w, void *p, size_t cap);
void sw_dns_put_u8(struct sw_dns_writer *w, unsigned v);
void sw_dns_put_u16(struct sw_dns_writer *w, unsigned v);
void sw_dns_put_u32(struct sw_dns_writer *w, uint32_t v);
void sw_dns_put_bytes(struct sw_dns_writer *w, const void *p, size_t n);
void sw_dns_put_header(struct sw_dns_writer *w, const struct sw_dns_header *h);
/* compress: point to an equal name written before (same case, so that case is kept). */
void sw_dns_put_name(struct sw_dns_writer *w, const struct sw_dns_name *name, bool compress);
void sw_dns_put_question(struct sw_dns_writer *w, const struct sw_dns_question *q);
/*
 * A record whose data is given in uncompressed form. Names inside NS, CNAME, PTR and SOA
 * are compressed. All or nothing: false leaves the message as it was.
 */
bool sw_dns_put_rr(struct sw_dns_writer *w, const struct sw_dns_name *name, unsigned type,
                   unsigned class, uint32_t ttl, struct sw_slice rdata);
/* Overwrites a 16-bit field already written, e.g. a count of the header. */
void sw_dns_set_u16(struct sw_dns_writer *w, size_t at, unsigned v);
/* Forgets everything from 'at' on, 'full' included. */
void sw_dns_rewind(struct sw_dns_writer *w, size_t at);

/* ---- record data, in the arena ---- */

/* Any length up to 65000 bytes, cut into strings of 255. */
struct sw_slice sw_dns_txt_rdata(struct sw_arena *a, struct sw_slice text);
struct sw_slice sw_dns_name_rdata(struct sw_arena *a, const struct sw_dns_name *name);
struct sw_slice sw_dns_ip_rdata(struct sw_arena *a, const struct sw_ip *ip);

struct sw_dns_soa {
    struct sw_dns_name mname;
    struct sw_dns_name rname;
    uint32_t serial;
    uint32_t refresh;
    uint32_t retry;
    uint32_t expire;
    uint32_t minimum;
};
struct sw_slice sw_dns_soa_rdata(struct sw_arena *a, const struct sw_dns_soa *soa);
/* SW_EPROTO. */
SW_NODISCARD int sw_dns_rr_soa(const struct sw_dns_reader *msg, const struct sw_dns_rr *rr,
                               struct sw_dns_soa *ret);

/* ---- EDNS ---- */

struct sw_dns_edns {
    bool present;
    uint16_t udp_size; /* at least 512 */
    uint8_t version;
    bool dnssec_ok;
};
/* From an OPT record. SW_EPROTO: not at the root, or options that do not add up. */
SW_NODISCARD int sw_dns_edns_parse(const struct sw_dns_rr *rr, struct sw_dns_edns *ret);
/* Our own OPT record; rcode_high: the upper bits of an extended code. 11 bytes. */
bool sw_dns_put_edns(struct sw_dns_writer *w, unsigned rcode_high, bool dnssec_ok);
enum { SW_DNS_EDNS_LEN = 11 };
