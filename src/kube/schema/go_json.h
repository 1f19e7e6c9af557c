/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

/* The error of Go's encoding/json for a text that is not JSON. */
const char *sw_go_json_error(struct sw_arena *a, struct sw_slice text);
