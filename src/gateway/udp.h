/* SPDX-License-Identifier: Apache-2.0 */
/* UDP listeners of a worker: datagrams of one client go to one host, answers come back. */
#pragma once

struct sw_gw_worker;

/* Opens and closes sockets as the worker's newest view says; sessions of listeners that stay go on.
 */
void sw_gw_udp_apply(struct sw_gw_worker *w);
/* Closes everything. */
void sw_gw_udp_free(struct sw_gw_worker *w);
