/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a worker. */
#pragma once

#include "base/err.h"
#include "gateway/conn/worker.h"

/* ---- life, called by the main thread ---- */
/* One more of gw's crew; sw_crew_thread_start makes it run. */
SW_NODISCARD int sw_gw_worker_init(struct sw_gw_worker *w, struct sw_gateway *gw,
                                   struct sw_err *err);
/* After sw_crew_end. */
void sw_gw_worker_done(struct sw_gw_worker *w);
/* A new snapshot; takes the reference. */
void sw_gw_worker_send_config(struct sw_gw_worker *w, struct sw_gw_config *config);
