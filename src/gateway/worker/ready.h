/* SPDX-License-Identifier: Apache-2.0 */
/* When the process serves. */
#pragma once

struct sw_gateway;

/* Logs once that the gateway is ready, if it is. */
void sw_gateway_log_ready(struct sw_gateway *g);
/* A worker applied its first configuration; from its thread. */
void sw_gateway_worker_serves(struct sw_gateway *g);
