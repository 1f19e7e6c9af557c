/* SPDX-License-Identifier: Apache-2.0 */
/* /config_dump: everything the node knows, as JSON with ztunnel's keys. */
#pragma once

#include "base/buf.h"

struct sw_jw;
struct sw_node_config;
struct sw_state;

/* The page; arg is the struct sw_node. */
int node_config_dump(struct sw_buf *out, void *arg);
/* The settings in force: one object without secrets, tokens, keys and the values of headers. */
void sw_dump_config(struct sw_jw *j, const struct sw_node_config *c);
/* workloads, services, policies and stagedServices of a snapshot; inside an object. */
void sw_dump_state(struct sw_jw *j, const struct sw_state *s);
