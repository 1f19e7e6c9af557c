/* SPDX-License-Identifier: Apache-2.0 */
/* The clients of an xDS server, as the page /debug/xds shows them. */
#pragma once

struct sw_jw;
struct sw_xds_server;

/* Writes an object for each type of each stream, into an array. */
void sw_control_put_clients(struct sw_jw *w, const struct sw_xds_server *s);
