/* SPDX-License-Identifier: Apache-2.0 */
/* Whether to use a relay that only the annotation of our Connector names. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"

/*
 * The relay comes from the Connector, so from anyone with write access to it. Over TLS it learns
 * nothing that is of use elsewhere. Without TLS the device signs challenges, and the relay could
 * pass on those of another one; so then it must be on this machine, or on the machine of the API
 * ("host:port", empty: unknown), which we trust already. False: err says why.
 */
bool sw_published_relay_ok(struct sw_slice url, struct sw_slice api, struct sw_err *err);
