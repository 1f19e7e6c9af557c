/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports: what protocol they speak, and which port of a workload a service's port means.
 *
 * The named ports of a workload are a text: per port a length, the name and two bytes of number.
 */
#pragma once

#include "control/mesh/model.h"

/* AppProtocol of a Service's port, from its protocol, appProtocol, name and number. */
uint8_t mesh_port_app(const struct sw_json *port);
/* AppProtocol of a protocol's name, as ServiceEntries write it. */
uint8_t mesh_protocol_app(struct sw_slice name);

/*
 * The TCP ports of [{name, <member>, protocol}], those without a name only if 'unnamed'. What is in
 * the buffer already comes first.
 */
void mesh_ports_add(struct sw_buf *out, const struct sw_json *list, const char *member,
                    bool unnamed);
/* The members of {name: number}. */
void mesh_ports_add_map(struct sw_buf *out, const struct sw_json *map);
/* 0: no such name. */
uint16_t mesh_ports_find(const struct mesh_text *ports, struct sw_slice name);

/* What a service's port is on a workload with these named ports; 0: the workload does not serve it.
 * 'entry': the workload is a WorkloadEntry. */
uint16_t mesh_target_port(const struct mesh_svc *s, const struct mesh_port *p,
                          const struct mesh_text *named, bool entry);
