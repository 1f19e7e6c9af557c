/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded API server: Kubernetes' API over our store. One loop, everything on its thread but
 * the store's writer.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"

struct sw_api;
struct sw_egress;
struct sw_store_stats;
struct sw_loop;

/* Borrowed for the call, except where noted. */
struct sw_api_config {
    const char *data_dir;     /* made when missing */
    struct sw_addr listen;    /* port 0 takes a free one */
    const char *advertise;    /* "host:port" clients should use; NULL: the listening address */
    const char *const *names; /* further names of the server certificate, ends with NULL; or NULL */
    const char *audit_log;    /* file for one JSON line per request; NULL: none */
    bool relaxed_sync;        /* power loss may take the last writes */
    uint32_t max_inflight;    /* requests of one client at a time; 0 = 400 */
    uint32_t max_watches;     /* of one client; 0 = 4096 */
    uint64_t space_objects;   /* that one namespace may hold; 0: no limit */
    uint64_t space_bytes;     /* the same in bytes */
    uint32_t max_conns;       /* 0 = 4096 */
    uint32_t max_conns_addr;  /* of one address, not loopback; 0 = 1024 */
    uint64_t unread_timeout_ns; /* an answer of which nothing is read for so long; 0 = 60 s */
    uint32_t keep_events;       /* changes kept for watches at least; 0 = the store's default */
    uint64_t keep_events_ms;
    uint64_t work_deadline_ns;  /* of a request handled on a worker; 0 = 30 s */
    bool fabric_kinds;          /* install the fabric's own kinds */
    bool accounts;              /* accounts and credentials (DIR/roles) for the fabric's roles */
    const char *device_account; /* one more, with the rights of a device in 'default'; or NULL */
    bool loopback_endpoints;    /* Endpoints and EndpointSlices may name this machine */
    struct sw_egress *egress;   /* borrowed: where Services of webhooks may lead */
};

/* Makes CA, certificates and kubeconfig on the first start, opens the store, starts to listen. */
SW_NODISCARD struct sw_api *sw_api_new(struct sw_loop *l, const struct sw_api_config *c,
                                       struct sw_err *err);
/* Everything a server has from its first start is there. */
bool sw_api_ready(const struct sw_api *a);
/* Address in use. */
struct sw_addr sw_api_addr(const struct sw_api *a);
/* --- for other ports and controllers of the same process --- */

struct sw_tls_cred;
struct sw_buf;

/* The server's certificate and the clients it trusts. Borrowed. */
struct sw_tls_cred *sw_api_cred(const struct sw_api *a);
struct sw_api_urls {
    const char *const *p;
    size_t n;
};
/*
 * Which URLs that are no resources the owner of a bearer token may get, by RBAC ("/xds").
 * SW_OK, or SW_EDENIED and why: the token is nobody's.
 */
SW_NODISCARD int sw_api_may(struct sw_api *a, struct sw_slice token, const struct sw_api_urls *urls,
                            bool *ret_allowed, struct sw_err *err);
/*
 * Called, from the loop, a moment after a right or a credential may have gone: open streams should
 * be judged again. One listener; NULL: none.
 */
void sw_api_on_revoke(struct sw_api *a, void (*cb)(void *arg), void *arg);
/* A page beside the API, for those whom RBAC lets read it. Texts are literals; at most 4. */
/* What the store holds and did so far. */
void sw_api_store_stats(const struct sw_api *a, struct sw_store_stats *ret);
typedef void (*sw_api_page_fn)(void *arg, struct sw_buf *out);
void sw_api_page(struct sw_api *a, const char *path, const char *content_type, sw_api_page_fn fn,
                 void *arg);

/* Ends watches, finishes begun requests (at most deadline_ns), then calls on_done from the loop. */
void sw_api_stop(struct sw_api *a, uint64_t deadline_ns, void (*on_done)(void *arg), void *arg);
/* Closes the store. NULL is fine. */
void sw_api_free(struct sw_api *a);
