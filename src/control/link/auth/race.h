/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request to all gateways of a peer at once; the first HTTP answer, of any status, is taken. A
 * gateway that agrees on HTTP/2 (ours do) gets all requests over one connection; another, or one
 * whose connection was lost, gets them over HTTP/1.1: requests here may be repeated.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

struct sw_h2client;
struct sw_http_client;
struct sw_link_race;
struct sw_loop;

enum { SW_LINK_RACE_VALUE = 32768, SW_LINK_RACE_BODY = 1024 };

/* What came of it. Lives for the callback. */
struct sw_link_race_result {
    int status;            /* 0: no gateway answered; see err */
    struct sw_slice value; /* of the field asked for; p == NULL: there was none */
    struct sw_slice body;  /* its beginning */
    const struct sw_err *err;
};

/* The ways into a gateway. */
struct sw_link_door {
    struct sw_http_client *h1; /* NULL: it cannot be used at all */
    struct sw_h2client *h2;    /* NULL: HTTP/1.1 only */
    uint64_t h1_until_ns;      /* it did not agree on HTTP/2 */
};

struct sw_link_race_opts {
    struct sw_loop *loop;
    struct sw_link_door *doors;
    size_t n;
    const char *method;
    const char *path;
    struct sw_slice body; /* sent as JSON when there is one; borrowed until the end */
    const char *field;    /* of the answer, wanted; a literal */
    uint64_t timeout_ns;
    /* Once; never from inside sw_link_race_start. The race is gone when it returns. */
    void (*done)(void *arg, const struct sw_link_race_result *r);
    void *arg;
};

/* NULL with err: nothing could be sent. */
SW_NODISCARD struct sw_link_race *sw_link_race_start(const struct sw_link_race_opts *o,
                                                     struct sw_err *err);
/* No callback comes any more. NULL is fine. */
void sw_link_race_cancel(struct sw_link_race *r);
