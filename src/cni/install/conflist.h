/* SPDX-License-Identifier: Apache-2.0 */
/* Our entry in a CNI configuration list: put in, found, taken out. Text in, text out. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/slice.h"

enum { SW_CONFLIST_MAX = 1 << 20 };

/* True for names of configuration files: "*.conf", "*.conflist" (and "*.json", as runtimes do). */
bool sw_conflist_is_file(struct sw_slice name);
/* True when the text is a configuration a runtime would take: a plugin, or a list of some. */
bool sw_conflist_valid(struct sw_slice text);

/*
 * The text with our plugin as the last of the list and nowhere else. A configuration of a single
 * plugin becomes a list ("k8s-pod-network", version 0.3.1): *ret_list says that the file's name has
 * to end in .conflist from now on. Everything else stays as it is. SW_EINVAL: not a configuration.
 */
SW_NODISCARD int sw_conflist_insert(struct sw_arena *a, struct sw_slice text,
                                    const struct sw_json *plugin, struct sw_slice *ret,
                                    bool *ret_list, struct sw_err *err);
/* The text without plugins of this type; *ret_found: there was one. */
SW_NODISCARD int sw_conflist_remove(struct sw_arena *a, struct sw_slice text, const char *type,
                                    struct sw_slice *ret, bool *ret_found, struct sw_err *err);
/* True when the last plugin of the list is exactly this one, and no other has its type. */
bool sw_conflist_has(struct sw_slice text, const struct sw_json *plugin);
