/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a schema is structural; private to the schema files. */
#pragma once

#include "kube/at.h"
#include "kube/schema/schema.h"

/*
 * Keywords that are not allowed at all ($ref, definitions, uniqueItems ...). False when one of them
 * makes it pointless to ask whether the schema is structural.
 */
bool sw_structural_keywords(const struct sw_at *at);
/* The invariants of structural schemas; errors are sorted. */
void sw_structural_check(const struct sw_schema *s, const struct sw_at *at);
/* List and map types, and where defaults may not stand. */
void sw_structural_general(const struct sw_schema *s, const struct sw_at *at);
/* Defaults must be valid and pruned. */
void sw_structural_defaults(const struct sw_schema *s, const struct sw_at *at);
