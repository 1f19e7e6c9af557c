/* SPDX-License-Identifier: Apache-2.0 */
/* What the status of the objects says: steps to readiness, names, where it is served. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"

/* The way to readiness, in order. */
enum sw_expose_step {
    SW_EXPOSE_PROXY_ACCEPTED,
    SW_EXPOSE_CERTIFICATES_READY,
    SW_EXPOSE_CONNECTOR_READY,
    SW_EXPOSE_DNS_PUBLISHED,
    SW_EXPOSE_PROXY_PROGRAMMED,
    SW_EXPOSE_METADATA_PROGRAMMED,
    SW_EXPOSE_STEPS,
};
/* "proxy_accepted" ... */
const char *sw_expose_step_name(enum sw_expose_step s);

struct sw_expose_state {
    bool done[SW_EXPOSE_STEPS];
    bool waived[SW_EXPOSE_STEPS]; /* of these, steps that no controller takes here */
    bool ready;
    struct sw_slice waiting; /* message of the first step that is not done; may be empty */
    struct sw_slice failed;  /* terminal failure; empty: none */
    bool lost;               /* because another device has the key */
};
/* Slices point into the objects. connector may be NULL. */
void sw_expose_judge(const struct sw_json *proxy, const struct sw_json *connector, bool need_tls,
                     struct sw_expose_state *ret);
/* Whether every wanted host name is the HTTPProxy's, as its present status says. */
enum sw_expose_names {
    SW_EXPOSE_NAMES_PENDING,
    SW_EXPOSE_NAMES_OURS,
    SW_EXPOSE_NAMES_TAKEN, /* another object holds *ret_name */
};
/* ret_name points into wanted: an array of strings; NULL: none. */
enum sw_expose_names sw_expose_names(const struct sw_json *proxy, const struct sw_json *wanted,
                                     struct sw_slice *ret_name);
/* Whether the status says that another object holds the name; the message points into it. */
bool sw_expose_name_taken(const struct sw_json *proxy, struct sw_slice name,
                          struct sw_slice *ret_message);
/* Those of 'before' and those of 'wanted', each once, in the arena; NULL: more than an HTTPProxy
 * takes. */
struct sw_json *sw_expose_union(struct sw_arena *a, const struct sw_json *before,
                                const struct sw_json *wanted);
/* Where clients find HTTPS; 0: on 443, or not known yet. */
uint16_t sw_expose_https_port(const struct sw_json *proxy);
/* "http://name:8080/" in the arena; NULL when there is no name yet. */
const char *sw_expose_url(struct sw_arena *a, const struct sw_json *proxy, bool https);
/* "tcp://name:20022" or "tls://name:8443" in the arena; NULL while it is not served as such. */
const char *sw_expose_l4_url(struct sw_arena *a, const struct sw_json *proxy);
