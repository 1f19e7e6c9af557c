/* SPDX-License-Identifier: Apache-2.0 */
/* What a snapshot holds, as members of /config_dump under ztunnel's names. */
#pragma once

struct sw_jw;
struct sw_state;

/* workloads, services, policies and stagedServices; inside an object. */
void sw_dump_state(struct sw_jw *j, const struct sw_state *s);
