/* SPDX-License-Identifier: Apache-2.0 */
/* The member 'config' of /config_dump: the settings in force, under ztunnel's names. */
#pragma once

struct sw_jw;
struct sw_node_config;

/* One object; no secrets: tokens, keys and the values of extra headers are left out. */
void sw_dump_config(struct sw_jw *j, const struct sw_node_config *c);
