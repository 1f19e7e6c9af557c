/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire status`: devices, and how gateways reach them. */
#pragma once

#include "base/json.h"

/*
 * The items of a list of Connectors as rows: "namespace", "name", "online", and "paths" as their
 * status has them. In the arena.
 */
struct sw_json *sw_status_devices(struct sw_arena *a, const struct sw_json *list);
/* Prints them as a table; nothing when there are none. */
void sw_status_print_devices(const struct sw_json *devices);
