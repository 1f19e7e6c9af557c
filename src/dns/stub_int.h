/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the stub resolver: names that are queried or cached, and the queries on the wire. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "dns/answer.h"
#include "dns/stub.h"

/* A name: being queried, or cached until expires_ns. */
struct sw_dns_entry {
    struct sw_list lru; /* of the stub, oldest first */
    struct sw_dns_stub *stub;
    struct sw_dns_name name; /* lower case; the key */
    struct sw_list waiters;  /* of struct sw_dns_lookup */
    struct sw_defer deliver;
    bool asking;
    /* known */
    struct sw_arena arena;
    struct sw_dns_result result;
    uint64_t expires_ns;
    /* asking */
    struct sw_list attempts; /* of struct attempt */
    struct sw_timer stagger;
    size_t sent;        /* questions so far */
    struct sw_err last; /* what went wrong last */
};

struct sw_dns_stub {
    struct sw_loop *loop; /* borrowed */
    struct sw_dns_stub_opts o;
    struct sw_map entries;
    struct sw_list lru;
    size_t asking;
    struct sw_list rejected; /* lookups beyond the limit, waiting for their callback */
    struct sw_defer reject;
};

struct sw_dns_lookup {
    struct sw_list link;
    struct sw_dns_entry *entry; /* NULL: rejected */
    sw_dns_lookup_cb cb;
    void *arg;
};

/* Sends the first question. */
void sw_dns_ask_start(struct sw_dns_entry *e);
/* Ends all questions under way. */
void sw_dns_ask_stop(struct sw_dns_entry *e);
/* Called once by stub_ask.c: answer is NULL when it gave up, then e->last has the reason. */
void sw_dns_entry_done(struct sw_dns_entry *e, struct sw_arena *arena,
                       const struct sw_dns_txt_answer *answer);
