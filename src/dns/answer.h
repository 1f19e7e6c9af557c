/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the answer to a question for TXT records: pure, for the stub resolver. */
#pragma once

#include "dns/wire.h"

enum { SW_DNS_ANSWER_TXT_MAX = 64 };

struct sw_dns_txt_answer {
    unsigned rcode;
    bool truncated;
    const struct sw_slice *txt; /* one per record, strings joined; in the arena */
    size_t n_txt;
    uint32_t ttl_s; /* of the records, or of their absence; UINT32_MAX: the answer does not say */
};

/*
 * SW_OK: an answer to this very question (id, name, type), aliases followed. SW_EAGAIN: it belongs
 * to another question, be it by malice: keep waiting. SW_EPROTO: it is ours and does not parse.
 * SW_ELIMIT: too many records.
 */
SW_NODISCARD int sw_dns_txt_answer(struct sw_arena *a, struct sw_slice msg, uint16_t id,
                                   const struct sw_dns_name *name, struct sw_dns_txt_answer *ret);
/* A question with recursion desired and EDNS. Returns the length, 0 when it does not fit. */
size_t sw_dns_txt_question(uint16_t id, const struct sw_dns_name *name, uint8_t *out, size_t cap);
