/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets of a worker, and what is served on a connection they accepted. */
#pragma once

#include <stdbool.h>

#include "gateway/worker/listen_hello.h"
#include "io/proxyproto.h"

struct sw_gw_accepted;
struct sw_gw_worker;

/* Of a connection: a PROXY header and a ClientHello. */
enum { SW_GW_FIRST_MAX = SW_PROXY_HEAD_MAX + SW_GW_HELLO_MAX };

/*
 * Serves a connected socket as if the listener had accepted it: a->fd, which is taken, of
 * a->listener. a->local is filled in. metadata: goes along to routing, kept alive by 'keep' (a
 * reference is taken; both may be NULL). cause: the request it is for, during the call.
 */
void sw_gw_accept_fd(struct sw_gw_worker *w, struct sw_gw_accepted *a);
/* Closes and opens listening sockets, those for UDP too, so that they fit the view; the worker
 * opens new ones itself (SO_REUSEPORT). fresh: the view has other listeners than before. */
void sw_gw_listen_apply(struct sw_gw_worker *w, bool fresh);
void sw_gw_listen_close(struct sw_gw_worker *w);
