/* SPDX-License-Identifier: Apache-2.0 */
/* Table output: column definitions and the cells of a row, as kubectl prints them. */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "kube/builtin/builtin.h"

/*
 * columnDefinitions of a built-in kind, or of a custom resource: columns is its version's
 * additionalPrinterColumns (NULL or empty: Name and Age).
 */
struct sw_json *sw_table_columns(struct sw_arena *a, const struct sw_builtin *b,
                                 const struct sw_json *columns);
/* The cells of one object, in the order of the columns. now_s: wall clock for ages. */
struct sw_json *sw_table_cells(struct sw_arena *a, const struct sw_builtin *b,
                               const struct sw_json *columns, const struct sw_json *obj,
                               int64_t now_s);
/* "5s", "3m20s", "2d4h" ...; negative becomes "0s" within two seconds, else "<invalid>". */
const char *sw_human_duration(struct sw_arena *a, int64_t seconds);
/* Age of an RFC 3339 time; "<unknown>" when empty or malformed. */
const char *sw_age_text(struct sw_arena *a, struct sw_slice time, int64_t now_s);
