/* SPDX-License-Identifier: Apache-2.0 */
/* Resources from files. */
#pragma once

#include "base/err.h"

struct sw_gw_store;
struct sw_loop;

struct sw_gw_dir;

/*
 * Loads every *.yaml, *.yml and *.json file of a directory (each holds {"resources": [{"@type":
 * ...}]}, or one resource, or a list of them) and follows changes. The directory is the whole
 * truth: what is in no file goes. A file that does not parse is logged; the others count, and
 * nothing goes until it parses again. NULL when the directory cannot be read or watched.
 */
SW_NODISCARD struct sw_gw_dir *sw_gw_dir_new(struct sw_gw_store *s, struct sw_loop *l,
                                             const char *path, struct sw_err *err);
/* Reads everything again now. SW_EINVAL when something was refused: each thing has been logged. */
SW_NODISCARD int sw_gw_dir_reload(struct sw_gw_dir *d);
void sw_gw_dir_free(struct sw_gw_dir *d);
