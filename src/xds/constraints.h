/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Envoy and our gateway demand of single fields: the gateway refuses the resource, and xds
 * lint reports the field, by the same rows. What depends on more than one field is a rule of
 * either.
 */
#pragma once

#include "proto/constraint.h"

/* Ends with a NULL type. */
extern const struct sw_pb_constraint sw_xds_constraints[];
