/* SPDX-License-Identifier: Apache-2.0 */
/* A zone to ask, and a way to ask it. */
#pragma once

/* cmocka needs these first. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "dns/respond.h"

static inline struct sw_dns_name name_of(const char *text)
{
    struct sw_dns_name n = {0};
    struct sw_err err = {0};

    if (sw_dns_name_parse(sw_slice_str(text), &n, &err) != SW_OK)
        fail_msg("%s: %s", text, err.msg);
    return n;
}

/* A TXT set; memory in the arena. */
static inline struct sw_dns_rrset txt_set(struct sw_arena *a, const char *name, size_t n,
                                          const char *const *txt)
{
    struct sw_slice *rdata = sw_arena_array(a, n + 1, sizeof(*rdata));

    for (size_t i = 0; i < n; i++)
        rdata[i] = sw_dns_txt_rdata(a, sw_slice_str(txt[i]));
    return (struct sw_dns_rrset){
        .name = name_of(name), .type = SW_DNS_TXT, .ttl = 5, .rdata = rdata, .n = n};
}

#define TXT(a, name, ...)                                                                          \
    txt_set(a, name, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),                       \
            (const char *const[]){__VA_ARGS__})

static inline struct sw_dns_zone_conf conf_of(const char *origin)
{
    struct sw_dns_zone_conf c = {.origin = name_of(origin), .n_ns = 2};
    struct sw_err err;

    assert_int_equal(sw_dns_name_join(SW_SLICE_LIT("ns1"), &c.origin, &c.ns[0].name, &err), SW_OK);
    assert_int_equal(sw_ip_parse(SW_SLICE_LIT("192.0.2.1"), &c.ns[0].ips[0], &err), SW_OK);
    assert_int_equal(sw_ip_parse(SW_SLICE_LIT("2001:db8::1"), &c.ns[0].ips[1], &err), SW_OK);
    c.ns[0].n_ips = 2;
    c.ns[1].name = name_of("ns.other.test");
    return c;
}

static inline struct sw_dns_zone *zone_of(const struct sw_dns_rrset *sets, size_t n,
                                          uint32_t serial)
{
    struct sw_dns_zone_conf c = conf_of("z.test");
    struct sw_err err = {0};
    struct sw_dns_zone *z = sw_dns_zone_new(&c, sets, n, serial, &err);

    if (!z)
        fail_msg("%s", err.msg);
    return z;
}
