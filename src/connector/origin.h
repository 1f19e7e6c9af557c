/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a TLS handshake with an https service, as gateways do through the tunnel, to find out why
 * theirs fail: their alerts are encrypted, so the device cannot read them. No request is sent.
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"
#include "io/loop.h"

struct sw_origin;

struct sw_origin_opts {
    struct sw_slice host; /* copied, like the next */
    struct sw_slice tls_name;
    uint16_t port;
    struct sw_slice ca_pem; /* empty: the system's roots */
    /* rc SW_OK: it is trusted; SW_EDENIED, SW_EPROTO: TLS; else it was not reached. From the loop.
     */
    void (*done)(void *arg, int rc, const char *why);
    void *arg;
};

/* NULL with SW_EINVAL, SW_ENOENT (no roots). */
SW_NODISCARD struct sw_origin *sw_origin_new(struct sw_loop *l, const struct sw_origin_opts *o,
                                             struct sw_err *err);
/* At once, but not more often than every second; one that runs is enough. */
void sw_origin_ask(struct sw_origin *o);
/* NULL is fine. Not from inside done. */
void sw_origin_free(struct sw_origin *o);
