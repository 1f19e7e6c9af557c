/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets and ConfigMaps with a CA and its roots, written and read. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/slice.h"
#include "kube/client/request.h"

enum { SW_SECRET_VALUE_MAX = 1 << 20 };

/* An object with apiVersion, kind, name, namespace and empty data, in the arena. */
struct sw_json *sw_secret_object(struct sw_arena *a, const struct sw_kube_gvr *gvr, const char *ns,
                                 const char *name, struct sw_json **ret_data);
/* Adds a value of a Secret, in base64. */
void sw_secret_put(struct sw_arena *a, struct sw_json *data, const char *key, struct sw_slice text);
/*
 * Appends a value of a Secret, decoded; callers overwrite keys after use. SW_ENOENT: it has none of
 * this name. SW_EINVAL: not base64. SW_ELIMIT: longer than out allows.
 */
SW_NODISCARD int sw_secret_get(const struct sw_json *secret, const char *key, struct sw_buf *out);
