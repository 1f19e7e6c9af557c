/* SPDX-License-Identifier: Apache-2.0 */
/* The objects that give a device's service a public name, and what their status says. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"

/* What is exposed. */
struct sw_target {
    bool https;
    bool tcp;             /* bytes, no requests */
    struct sw_slice host; /* without brackets */
    uint16_t port;
    const char *url;       /* "http://127.0.0.1:3000" */
    const char *authority; /* "127.0.0.1:3000" */
};

/*
 * "3000", "host:3000", "http://host[:port][/]", "https://host[:port][/]", "tcp://host:port".
 * Refuses paths, user names and anything else an HTTPProxy could not take: SW_EINVAL. Everything in
 * the arena.
 */
SW_NODISCARD int sw_target_parse(struct sw_arena *a, struct sw_slice in, struct sw_target *ret,
                                 struct sw_err *err);
/* The name that the certificate of an https target is to be for. */
struct sw_slice sw_target_tls_name(const struct sw_target *t);
/* "laptop-3000": a DNS label made of the machine's name and the port. */
const char *sw_target_name(struct sw_arena *a, struct sw_slice host, uint16_t port);
/* At most 63 of a-z, 0-9 and '-', beginning and ending with one of the first two. */
bool sw_label_valid(struct sw_slice s);

struct sw_expose_spec {
    struct sw_slice ns;
    struct sw_slice name;
    struct sw_slice label;           /* for people; may be empty */
    struct sw_slice connector;       /* name */
    const struct sw_json *hostnames; /* array; NULL: none */
    struct sw_target target;
    bool redirect;          /* plain HTTP to HTTPS */
    uint16_t redirect_port; /* where HTTPS is, if not on 443; 0: there */
    uint16_t public_port;   /* of a TCP target without hostnames; 0: any */
    struct sw_slice ca_pem; /* that an https target's certificate is from; empty: the system's */
};

/* Annotations of the HTTPProxy that are ours to write; the last is NULL. */
extern const char *const sw_expose_notes[];

struct sw_json *sw_expose_proxy(struct sw_arena *a, const struct sw_expose_spec *s);
struct sw_json *sw_expose_advertisement(struct sw_arena *a, const struct sw_expose_spec *s);
/* The Connector an HTTPProxy goes through; empty: none. */
struct sw_slice sw_expose_connector_of(const struct sw_json *proxy);

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
