/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets of a worker, and what is served on a connection they accepted. */
#pragma once

#include <stdbool.h>

struct sw_addr;
struct sw_exchange;
struct sw_gw_host;
struct sw_gw_listener;
struct sw_gw_worker;
struct sw_json;

/*
 * Serves a connected socket as if the listener had accepted it; for internal listeners. Takes the
 * descriptor. metadata: goes along to routing, kept alive by 'keep' (a reference is taken; both may
 * be NULL). cause: the request it is for, for the call; NULL: not known.
 */
void sw_gw_accept_fd(struct sw_gw_worker *w, struct sw_gw_listener *l, int fd,
                     const struct sw_addr *peer, const struct sw_json *metadata,
                     struct sw_gw_host *keep, const struct sw_exchange *cause);
/* Closes and opens listening sockets, those for UDP too, so that they fit the view; the worker
 * opens new ones itself (SO_REUSEPORT). fresh: the view has other listeners than before. */
void sw_gw_listen_apply(struct sw_gw_worker *w, bool fresh);
void sw_gw_listen_close(struct sw_gw_worker *w);
