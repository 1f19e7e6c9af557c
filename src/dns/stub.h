/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries the configured resolvers for TXT records: UDP with staggered repetitions, each from a
 * port and with an id of its own, TCP for what was truncated; answers, also negative ones, are kept
 * for their TTL. One per loop.
 */
#pragma once

#include "dns/name.h"
#include "io/addr.h"
#include "io/loop.h"

struct sw_dns_stub;
struct sw_dns_lookup;

enum { SW_DNS_SERVERS_MAX = 4, SW_DNS_TXT_MAX = 64 };

/* Zero in a field means the default in brackets. */
struct sw_dns_stub_opts {
    struct sw_addr servers[SW_DNS_SERVERS_MAX];
    size_t n_servers;    /* [those of /etc/resolv.conf] */
    size_t max_cache;    /* names remembered [4096] */
    size_t max_lookups;  /* names queried at once [256] */
    uint32_t max_ttl_s;  /* answers are kept no longer [300] */
    uint32_t max_neg_s;  /* negative ones [10] */
    uint64_t attempt_ns; /* one question may take [3 s] */
};

/* What came of a question. Borrowed: gone when the callback returns. */
struct sw_dns_result {
    int rc; /* SW_OK; SW_ENOENT no such name or no TXT there; SW_ETIME; SW_EPROTO; SW_ELIMIT */
    const struct sw_slice *txt; /* one per record, strings joined */
    size_t n_txt;
    uint32_t ttl_s; /* how long it may be used */
    struct sw_err err;
};

typedef void (*sw_dns_lookup_cb)(void *arg, const struct sw_dns_result *r);

/* SW_EINVAL: no server known. */
SW_NODISCARD struct sw_dns_stub *
sw_dns_stub_new(struct sw_loop *l, const struct sw_dns_stub_opts *o, struct sw_err *err);
/* Lookups under way end without a callback. NULL is fine. */
void sw_dns_stub_free(struct sw_dns_stub *s);

/* The callback always comes, later, from the loop, unless cancelled. Never NULL. */
struct sw_dns_lookup *sw_dns_stub_txt(struct sw_dns_stub *s, const struct sw_dns_name *name,
                                      sw_dns_lookup_cb cb, void *arg);
/* No callback will come. Only before it did; the pointer is invalid afterwards (as after it). */
void sw_dns_lookup_cancel(struct sw_dns_lookup *l);
/* Forgets what is known of a name: it turned out wrong. */
void sw_dns_stub_forget(struct sw_dns_stub *s, const struct sw_dns_name *name);

/*
 * The next word of a line of resolv.conf, which spaces and tabs separate, taken off the line; empty
 * at its end. What follows the words that count is a comment, as the C library reads it.
 */
struct sw_slice sw_dns_resolv_word(struct sw_slice *line);
/*
 * The nameserver lines of a resolv.conf text, at most SW_DNS_SERVERS_MAX; lines that do not parse
 * are skipped. Returns how many.
 */
size_t sw_dns_resolv_conf(struct sw_slice text, struct sw_addr ret[SW_DNS_SERVERS_MAX]);
/* "1.2.3.4", "1.2.3.4:53", "2001:db8::1", "[2001:db8::1]:53". SW_EINVAL. */
SW_NODISCARD int sw_dns_server_parse(struct sw_slice text, struct sw_addr *ret, struct sw_err *err);
