/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request inspector: pages below /requests with the captured exchanges, and the button that
 * sends one again (replay.h). Others on this machine can connect to the status page, too, so these
 * pages require a token that only the user who started the device was shown, as a parameter of the
 * URL and of the form. No scripts; nothing of an exchange is served but as escaped text.
 */
#pragma once

#include <stdbool.h>

#include "base/log.h"
#include "connector/inspect/capture.h"
#include "connector/inspect/replay.h"

struct sw_history;
struct sw_http_req;
struct sw_http_resp;
struct sw_metrics_shard;

struct sw_inspect {
    bool on;
    bool secrets;                     /* values of fields that carry secrets are shown */
    const struct sw_history *history; /* borrowed, like the next */
    struct sw_metrics_shard *shard;
    struct sw_capture_store captures;
    struct sw_replays replays;
    char token[SW_INSPECT_TOKEN + 1]; /* empty: no inspector */
    struct sw_log_limit refused;      /* lines about requests without the token */
};

/* With on, secrets, and what the replays borrow, filled in. */
void sw_inspect_open(struct sw_inspect *in);
/* Answers requests for its pages; false: it is none, or there is no inspector. */
bool sw_inspect_page(struct sw_inspect *in, struct sw_http_req *req, struct sw_http_resp *resp);
