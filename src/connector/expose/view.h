/* SPDX-License-Identifier: Apache-2.0 */
/* What `spanwire expose` prints: lines for people, or one JSON object per line. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"
#include "connector/expose/state.h"
#include "connector/inspect/history.h"

struct sw_expose_view {
    FILE *out; /* borrowed */
    bool json;
    bool colour;
    struct sw_slice id;    /* name of the HTTPProxy */
    const char *inspector; /* URL; NULL: none */
    bool logged[SW_EXPOSE_STEPS];
    char waiting[200]; /* shown last */
    bool no_origin;    /* shown */
    char trouble[200]; /* shown last; empty: none */
    char tls[200];     /* the same */
};

void sw_view_begin(struct sw_expose_view *v, const char *target, const char *status_page);
/* The objects exist; created: they did not before. */
void sw_view_objects(struct sw_expose_view *v, bool created, const char *target,
                     const struct sw_json *hostnames);
/* Steps done since the last call, and what is waited for. */
void sw_view_progress(struct sw_expose_view *v, const struct sw_expose_state *s);
void sw_view_ready(struct sw_expose_view *v, const struct sw_json *proxy, const char *url,
                   const char *target, const char *node_id, uint64_t elapsed_ns);
void sw_view_verify(struct sw_expose_view *v, const char *url, bool done, const char *why);
/* Nothing listens at the target; shown once. */
void sw_view_no_origin(struct sw_expose_view *v, const char *target);
/* Why TLS with the service fails; NULL: it does not any more. Shown once each. */
void sw_view_origin_tls(struct sw_expose_view *v, const char *target, const char *why);
/* The counterpart of sw_view_no_origin; nothing where that was not reported. */
void sw_view_origin_answers(struct sw_expose_view *v, const char *target);
/* An error that the control plane reports for a running service; empty: none. Shown once. */
void sw_view_trouble(struct sw_expose_view *v, struct sw_slice message);
void sw_view_request(struct sw_expose_view *v, const struct sw_inspect_request *r);
void sw_view_api(struct sw_expose_view *v, bool up, int code, struct sw_slice message);
/* event: "tunnel_terminal_failure", "tunnel_deleted_upstream". */
void sw_view_failure(struct sw_expose_view *v, const char *event, struct sw_slice message);
void sw_view_removed(struct sw_expose_view *v, struct sw_slice connector);
void sw_view_stopped(struct sw_expose_view *v, const char *url);
