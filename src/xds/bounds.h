/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that Envoy refuses, by field: the gateway refuses them with the resource, and xds lint
 * reports them. What depends on more than one field is a rule of either.
 */
#pragma once

#include "proto/bounds.h"

/* Ends with a NULL type. */
extern const struct sw_pb_bound sw_xds_bounds[];
