/* SPDX-License-Identifier: Apache-2.0 */
/* Reading objects of the API: members with defaults, ages, metadata, conditions. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/slice.h"
#include "kube/client/informer.h"

/* The member's text; p == NULL when it is not there. */
struct sw_slice js(const struct sw_json *v, const char *key);
/* The member's text, or the default when it is not there. */
struct sw_slice js_or(const struct sw_json *v, const char *key, const char *other);
/* An integer in 0..max; 'other' when absent or anything else. */
int64_t js_int(const struct sw_json *v, const char *key, int64_t max, int64_t other);
struct sw_slice created_of(const struct sw_kube_obj *o);
int64_t generation_of(const struct sw_kube_obj *o);
/* Oldest first, then namespace/name. */
int by_age(const struct sw_kube_obj *x, const struct sw_kube_obj *y);

/* metadata.<what>.<key>; p == NULL when it is not there. */
struct sw_slice cn_meta_of(const struct sw_kube_obj *o, const char *what, const char *key);
bool cn_deleting(const struct sw_kube_obj *o);

/* True for a condition of this type with status True. */
bool cn_is_true(const struct sw_json *conditions, const char *type);
const struct sw_json *cn_condition(const struct sw_json *conditions, const char *type);
