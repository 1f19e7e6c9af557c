/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which listeners are bound. Workers open their sockets and report those they could not open; the
 * main thread finds out which process holds the ports, and reports it in the log, in readiness and
 * to the xDS server. It also looks for processes that joined a port later.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "io/addr.h"

struct sw_gateway;
struct sw_gw_bind;
struct sw_gw_listener;
struct sw_gw_worker;

/* A socket a worker could not open. */
struct sw_gw_unbound {
    struct sw_gw_listener *listener; /* a reference */
    struct sw_addr at;               /* as configured */
    struct sw_addr tried;            /* another port where its own needs a privilege */
    bool udp;
    int sys_errno;
};

/* g->loop, port_group and n_workers are set; everything else is looked at later. */
struct sw_gw_bind *sw_gw_bind_new(struct sw_gateway *g);
/* Before the loop is freed; reports that are still queued in it are dropped. NULL is fine. */
void sw_gw_bind_stop(struct sw_gw_bind *b);
/* After the loop was freed. NULL is fine. */
void sw_gw_bind_free(struct sw_gw_bind *b);

/* ---- from a worker's thread ---- */

/* Adds to what the worker could not open in this pass. */
void sw_gw_bind_failed(struct sw_gw_worker *w, struct sw_gw_listener *l, const struct sw_addr *at,
                       const struct sw_addr *tried, int sys_errno);
/* The pass is done: reports when something failed, now or before, or 'always'. */
void sw_gw_bind_report(struct sw_gw_worker *w, bool always);

/* ---- from the main thread ---- */

/*
 * Workers are about to get a configuration with other listeners: the xDS server has its answer when
 * all of them applied it (sw_gw_xds_applied).
 */
void sw_gw_bind_sent(struct sw_gw_bind *b, uint64_t version);
/* "NAME::ADDRESS" for each socket of a listener, with what is wrong behind: /listeners. */
SW_NODISCARD int sw_gw_bind_page(const struct sw_gw_bind *b, struct sw_buf *out);
/* Sockets that are not bound, over all workers. */
size_t sw_gw_bind_count(const struct sw_gw_bind *b);
