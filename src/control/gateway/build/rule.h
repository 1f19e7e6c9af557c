/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of routes: what they match, what they do, and the entries that come of them. */
#pragma once

#include "control/gateway/build/build_core.h"

void compile_l4(struct builder *b, struct route *r, struct compiled *c, bool first);

/* What all matches of a rule have in common. */
struct rule {
    struct builder *b;
    struct route *route;
    const struct sw_json *json;
    struct backend_ctx backend;
    bool first; /* complaints count once */
    uint16_t index;
    struct sw_model_route proto; /* everything but name and match */
    bool local_redirect;
    bool fail_closed; /* matches stay and answer with an error */
    bool shut;        /* who is to judge requests cannot be asked: all get an error */
    unsigned seen;    /* filters of which there may be one, by type */
    struct verdict bad;
    uint64_t words; /* of its matches' regular expressions */
    /* Backends with filters that no list of clusters can express are routes of their own. */
    struct rule_share *shares; /* none: 'proto' is all */
    size_t n_shares;
};

struct rule_share {
    struct sw_model_route proto;
    uint32_t upto; /* struct sw_model_route.share */
    bool local_redirect;
};
void rule_filters(struct rule *r, const struct sw_json *filters);
void rule_backends(struct rule *r);
/*
 * Whether a rule may write a header of that name: a data plane would refuse it together with all
 * other routes of the port, so the rule is rejected here.
 */
void rule_header_name(struct rule *r, struct sw_slice name);
/* Settings of a rule besides filters: timeouts, retry, session. */
void rule_settings(struct rule *r);
void rule_bad(struct rule *r, const char *reason, const char *fmt, ...) SW_PRINTF(3, 4);
/* Header matches shared by HTTP and gRPC; false when one cannot be served. */
bool read_value_matches(struct rule *r, const struct sw_json *list, bool headers,
                        const struct sw_model_value_match **ret, size_t *ret_n);
/* A path as requests have it: from the first '/' on, without query. */
bool path_valid(struct sw_slice path);
bool regex_ok(struct rule *r, struct sw_slice pattern);
struct sw_slice lower_case(struct builder *b, struct sw_slice s);
/* Compile one rule: its routes are added to c. */
void http_rule(struct rule *r, struct compiled *c);
void grpc_rule(struct rule *r, struct compiled *c);
/* Ends a rule: its counters, and true when its matches shall be emitted. */
bool rule_finish(struct rule *r);
/* Adds the rule's routes for one match: 'like' has all of the entry but the route. */
void rule_emit(struct rule *r, struct compiled *c, const struct sw_model_match *m,
               const struct entry *like, const char *kind);
