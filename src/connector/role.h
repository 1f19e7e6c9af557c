/* SPDX-License-Identifier: Apache-2.0 */
/* The rights of one device: a service account and a Role for the objects of its name. Pure. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/*
 * YAML of the ServiceAccount, Role and RoleBinding of a device, all of its name. Both names are DNS
 * labels: SW_EINVAL. SW_ELIMIT: the buffer is full.
 */
SW_NODISCARD int sw_device_role(struct sw_slice ns, struct sw_slice name, struct sw_buf *out,
                                struct sw_err *err);
