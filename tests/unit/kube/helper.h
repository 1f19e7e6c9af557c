/* SPDX-License-Identifier: Apache-2.0 */
/* What the kube tests share: YAML literals as trees, fixture files, compiled CRD schemas. */
#pragma once

#include "base/json.h"
#include "kube/builtin/builtin.h"
#include "kube/schema/schema.h"

/* One YAML (or JSON) document as a tree; aborts the test when malformed. */
struct sw_json *t_yaml(struct sw_arena *a, const char *text);
/* All documents of a file; NULL and *ret_n == 0 when it cannot be read. */
struct sw_json **t_yaml_file(struct sw_arena *a, const char *path, size_t *ret_n);
/* Compact text with sorted keys. */
const char *t_json(struct sw_arena *a, const struct sw_json *v);
/* Schema of version 'version' of a CRD document; fails the test on errors. */
void t_compile_crd(struct sw_schema_set *set, const struct sw_json *crd, const char *version);
/* "field: text" lines, sorted, of the errors. */
const char *t_errs(struct sw_arena *a, const struct sw_field_errs *e);
/* prune, null removal, default, check: the errors as t_errs. old may be NULL. */
const char *t_admit(struct sw_arena *a, const struct sw_schema *s, struct sw_json *obj,
                    const struct sw_json *old);
/* The same for a built-in kind: decode, default, check; or why decoding failed. */
const char *t_admit_kind(struct sw_arena *a, const struct sw_builtin *b, struct sw_json *obj,
                         const struct sw_json *old);
