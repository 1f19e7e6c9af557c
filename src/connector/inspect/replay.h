/* SPDX-License-Identifier: Apache-2.0 */
/* Sends a captured request to the device's service again, and captures the answer. */
#pragma once

struct sw_capture;
struct sw_connector;
struct sw_http_resp;

/* Why this request cannot be sent again, as the end of a sentence; NULL: it can. */
const char *sw_replay_obstacle(const struct sw_connector *c, const struct sw_capture *x);
/* Answers resp when the service did: 303 to the new exchange; or why it was not sent. */
void sw_replay_start(struct sw_connector *c, const struct sw_capture *x, struct sw_http_resp *resp);
/* Ends all that run. */
void sw_replays_end(struct sw_connector *c);
