/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the authoritative server. */
#pragma once

#include "dns/authority.h"
#include "dns/rrl.h"
#include "dns/tcp.h"
#include "io/accept.h"
#include "telemetry/metrics.h"

struct dns_listener {
    struct sw_dns_authority *authority;
    struct sw_addr at;
    int udp;
    int tcp;
    struct sw_watch udp_watch;
    struct sw_acceptor acceptor;
};

/* One secondary that gets NOTIFY after changes, until it answers. */
struct dns_notify {
    struct sw_dns_authority *authority;
    struct sw_addr to;
    int fd; /* -1: nothing under way */
    uint16_t id;
    unsigned tries;
    bool again; /* the zone changed meanwhile */
    struct sw_watch watch;
    struct sw_timer timer;
};

enum { DNS_RCODES = 20 };

struct sw_dns_authority {
    struct sw_loop *loop; /* borrowed */
    struct sw_dns_authority_opts o;
    struct sw_dns_zone *zone; /* counted; NULL until the first */
    struct sw_accept_group accept;
    struct dns_listener listeners[SW_DNS_LISTEN_MAX];
    size_t n_listeners;
    struct dns_notify notifies[SW_DNS_SECONDARIES_MAX];
    struct sw_dns_rrl *rrl;
    struct sw_dns_tcp_set conns;
    uint64_t warned_ns;                           /* refusals are logged once a second at most */
    struct sw_metric *answers[2][DNS_RCODES + 1]; /* by transport and code; filled on use */
    uint8_t scratch[SW_DNS_MSG_MAX];
};

/* Decides and counts; what is to be sent is in a->scratch. */
void dns_handle(struct sw_dns_authority *a, struct sw_slice msg, const struct sw_addr *from,
                bool tcp, struct sw_dns_reply *ret);
void dns_count(struct sw_dns_authority *a, enum sw_metric_id id, const char *value);

/* authority_tcp.c */
extern const struct sw_dns_tcp_ops dns_tcp_ops;
void dns_on_accept(struct sw_acceptor *a, int fd, const struct sw_addr *peer);
void dns_close_connections(struct sw_dns_authority *a);

/* authority_notify.c */
void dns_notify_all(struct sw_dns_authority *a);
void dns_notify_stop(struct dns_notify *n);
