/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded API server: Kubernetes' API over our store. One loop, everything on its thread but
 * the store's writer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apiserver/api/config.h"
#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"

struct sw_api;
struct sw_store_stats;
struct sw_loop;

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
 * Which non-resource URLs ("/xds") the user of a bearer token may get, by RBAC. SW_OK, or
 * SW_EDENIED and why: the token authenticates no user.
 */
SW_NODISCARD int sw_api_may(struct sw_api *a, struct sw_slice token, const struct sw_api_urls *urls,
                            bool *ret_allowed, struct sw_err *err);
/*
 * Called, from the loop, a moment after a right or a credential may have gone: open streams should
 * be judged again. One listener; NULL: none.
 */
void sw_api_on_revoke(struct sw_api *a, void (*cb)(void *arg), void *arg);
/* A page beside the API, for users whom RBAC lets read it. Texts are literals; at most 4. */
/* What the store holds and did so far. */
void sw_api_store_stats(const struct sw_api *a, struct sw_store_stats *ret);
typedef void (*sw_api_page_fn)(void *arg, struct sw_buf *out);
void sw_api_page(struct sw_api *a, const char *path, const char *content_type, sw_api_page_fn fn,
                 void *arg);

/* Ends watches, finishes begun requests (at most deadline_ns), then calls on_done from the loop. */
void sw_api_stop(struct sw_api *a, uint64_t deadline_ns, void (*on_done)(void *arg), void *arg);
/* Closes the store. NULL is fine. */
void sw_api_free(struct sw_api *a);
