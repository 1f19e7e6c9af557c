/* SPDX-License-Identifier: Apache-2.0 */
/* Small parts that compiled objects are made of, and TLS. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "base/slice.h"
#include "http/h1.h"
#include "io/addr.h"
#include "tls/cert/cred.h"
#include "tls/ticket.h"

struct sw_budget;
struct sw_regex;
struct sw_gw_format;

enum sw_gw_str_kind {
    SW_GW_STR_EXACT,
    SW_GW_STR_PREFIX,
    SW_GW_STR_SUFFIX,
    SW_GW_STR_CONTAINS,
    SW_GW_STR_REGEX, /* whole text, as Envoy */
};

/* Of objects that several threads hold. _drop_: true for the last reference. */
static inline void sw_gw_take_ref(_Atomic uint32_t *refs)
{
    atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
}
static inline bool sw_gw_drop_ref(_Atomic uint32_t *refs)
{
    return atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

/* In lower case, copied into the arena. */
struct sw_slice sw_gw_lowered(struct sw_arena *a, struct sw_slice s);

struct sw_gw_str_match {
    enum sw_gw_str_kind kind;
    bool icase; /* not for regex */
    struct sw_slice text;
    const struct sw_regex *re; /* owned by the object that holds the arena */
};

/*
 * True when the text matches. Regular expressions take their steps from the budget (NULL: a budget
 * of their own); when it is exhausted they do not match, and a caller that decides by the result
 * checks the budget.
 */
bool sw_gw_str_matches(const struct sw_gw_str_match *m, struct sw_slice text, struct sw_budget *b);

/* A condition on a header; message/match.h judges it. */
enum sw_gw_header_kind { SW_GW_HEADER_STRING, SW_GW_HEADER_PRESENT, SW_GW_HEADER_RANGE };

struct sw_gw_header_match {
    struct sw_slice name; /* lower case; may be a pseudo header */
    enum sw_gw_header_kind kind;
    struct sw_gw_str_match str;
    bool present;
    int64_t from; /* half open */
    int64_t to;
    bool invert;
    bool missing_empty;
};

enum sw_gw_addr_kind {
    SW_GW_ADDR_IP,
    SW_GW_ADDR_PIPE,     /* name is the path of a Unix socket */
    SW_GW_ADDR_INTERNAL, /* name is an internal listener of this process */
};

struct sw_gw_addr {
    enum sw_gw_addr_kind kind;
    struct sw_addr ip;
    struct sw_slice name;        /* NUL-terminated behind the slice */
    struct sw_slice endpoint_id; /* internal only: tells endpoints of one listener apart */
};

/* ---- TLS ---- */

enum sw_gw_tls_version { SW_GW_TLS_AUTO, SW_GW_TLS_10, SW_GW_TLS_11, SW_GW_TLS_12, SW_GW_TLS_13 };

/*
 * Both directions. Immutable and shared: one per chain or cluster and secret version. 'creds' carry
 * chain and key with the roots and revocations of the validation context (any_identity; without
 * roots trust_nobody), ready for sw_tls_params.cred.
 */
struct sw_gw_tls {
    _Atomic uint32_t refs;
    struct sw_arena arena;
    struct sw_tls_cred **creds; /* in order of preference; a client without certificate has one */
    struct sw_slice *ders;      /* the leaf of each, for the choice by name */
    size_t n_creds;
    const char *alpn; /* comma separated, by preference; NULL: none */
    enum sw_gw_tls_version min;
    enum sw_gw_tls_version max;
    uint8_t without; /* SW_TLS_NO_... of tls/tls.h */
    /* Peer validation. */
    bool verify;              /* a validation context was given */
    bool accept_untrusted;    /* ACCEPT_UNTRUSTED: request a certificate, but accept any chain */
    bool system_roots;        /* the credential's roots are the system's */
    bool skip_verify;         /* upstream without a validation context: accept any certificate */
    bool require_client_cert; /* downstream */
    struct sw_gw_san_match {
        uint8_t type; /* 1 email, 2 DNS, 3 URI, 4 IP, 0 any of them */
        struct sw_gw_str_match match;
    } * sans; /* any of them must match; none: no rule */
    size_t n_sans;
    struct sw_gw_pin {
        uint8_t sha256[32];
        bool spki; /* of the public key, else of the whole certificate */
    } * pins;      /* any must match; none: no rule */
    size_t n_pins;
    bool pins_only; /* upstream, no trusted_ca: the pins are the whole trust */
    /* Upstream only. */
    const char *sni;    /* NULL: none or auto */
    bool auto_sni;      /* from the request's host */
    bool auto_host_sni; /* from the endpoint's name */
    bool auto_san;      /* the server name is checked instead of 'sans' */
    /* Downstream only. */
    bool require_sni;
    bool no_tickets;
    uint64_t session_timeout_ns;   /* 0: default */
    struct sw_slice ticket_master; /* secret the next comes from; empty: this process's */
    uint8_t ticket_key[SW_TLS_TICKET_KEY];
    uint64_t hash; /* of everything above; part of the pool key */
    struct sw_regex **regexes;
    size_t n_regexes;
    /*
     * Upstream, with transport_socket_matches: nothing above is set, and this only selects the
     * context. Call sw_gw_tls_for.
     */
    struct sw_gw_tls_choice {
        const struct sw_json *match;
        struct sw_gw_tls *tls; /* owned; NULL: plain */
    } * choices;               /* NULL: this is the one */
    size_t n_choices;
    struct sw_gw_tls *rest; /* owned; for members that match nothing; NULL: plain */
};

/* The one for a member with this metadata (cluster's, or NULL); NULL: plain. */
const struct sw_gw_tls *sw_gw_tls_choose(const struct sw_gw_tls *t, const struct sw_json *metadata);
static inline const struct sw_gw_tls *sw_gw_tls_for(const struct sw_gw_tls *t,
                                                    const struct sw_json *metadata)
{
    return t && t->choices ? sw_gw_tls_choose(t, metadata) : t;
}

struct sw_gw_tls *sw_gw_tls_ref(struct sw_gw_tls *t);
struct sw_gw_tls *sw_gw_tls_unref(struct sw_gw_tls *t);

/* ---- HTTP ---- */

/* Durations in ns; 0: none. Values not configured hold Envoy's defaults. */
struct sw_gw_h2_opts {
    uint32_t max_streams;   /* [100] */
    uint32_t stream_window; /* [65536] */
    uint32_t conn_window;   /* [1 MiB] */
    bool allow_connect;     /* RFC 8441 */
    uint64_t ping_interval_ns;
    uint64_t ping_timeout_ns;
};

/* One header to add. */
enum sw_gw_append {
    SW_GW_APPEND_OR_ADD,
    SW_GW_ADD_IF_ABSENT,
    SW_GW_OVERWRITE_OR_ADD,
    SW_GW_OVERWRITE_IF_EXISTS,
};

struct sw_gw_header_add {
    struct sw_slice name; /* lower case */
    const struct sw_gw_format *value;
    enum sw_gw_append action;
    bool keep_empty;
};
