/* SPDX-License-Identifier: Apache-2.0 */
/* Sends a captured request to the device's service again, and captures the answer. */
#pragma once

#include <stddef.h>

#include "base/list.h"
#include "base/slice.h"

struct sw_allow;
struct sw_capture;
struct sw_http_resp;
struct sw_loop;
struct sw_inspect_request;

enum { SW_INSPECT_TOKEN = 32 };

/* Those under way. Zeroed but for the borrowed members, and sw_replays_init. */
struct sw_replays {
    struct sw_loop *loop;         /* borrowed, like the next three */
    const struct sw_allow *allow; /* what gateways may reach now */
    const char *token;            /* of the inspector: the answer leads to its page */
    struct sw_slice target;       /* the exposed service */
    /* A replay ended: to be listed like any request. */
    void (*on_request)(void *arg, const struct sw_inspect_request *r);
    void *arg;
    struct sw_list running;
    size_t n;
};

void sw_replays_init(struct sw_replays *s);
/* Why this request cannot be sent again, as the end of a sentence; NULL: it can. */
const char *sw_replay_obstacle(const struct sw_replays *s, const struct sw_capture *x);
/* Answers resp when the service did: 303 to the new exchange; or why it was not sent. */
void sw_replay_start(struct sw_replays *s, const struct sw_capture *x, struct sw_http_resp *resp);
/* Ends all that run. */
void sw_replays_end(struct sw_replays *s);
