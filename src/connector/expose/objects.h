/* SPDX-License-Identifier: Apache-2.0 */
/* The objects that give a device's service a public name. What their status says is in state.h. */
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
