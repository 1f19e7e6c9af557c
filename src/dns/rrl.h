/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Response rate limiting per source network, so that forged questions do not turn our answers
 * against a victim. Fixed memory; no I/O, time comes in.
 */
#pragma once

#include <stdint.h>

#include "io/addr.h"

struct sw_dns_rrl;

enum sw_dns_rrl_verdict {
    SW_DNS_RRL_PASS,
    SW_DNS_RRL_SLIP, /* answer with TC and nothing else: a genuine client retries over TCP */
    SW_DNS_RRL_DROP,
};

/* rate: answers per second and network (/24, /56), with a burst of a second; 0 = no limit. */
struct sw_dns_rrl *sw_dns_rrl_new(uint32_t rate);
/* NULL is fine. */
void sw_dns_rrl_free(struct sw_dns_rrl *r);
enum sw_dns_rrl_verdict sw_dns_rrl_check(struct sw_dns_rrl *r, const struct sw_ip *from,
                                         uint64_t now_ns);
