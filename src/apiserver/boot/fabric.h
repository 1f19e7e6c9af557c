/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fabric's own kinds and admission policies, which are built into the program and installed
 * when the server starts.
 */
#pragma once

#include <stddef.h>

struct sw_api;

/* One object as JSON, marked as ours. */
struct api_fabric_kind {
    const char *group;
    const char *resource;
    const char *name;
    size_t n;
    const char *json;
};

/* Made from schemas/ and deploy/kubernetes by tools/embed-schemas. */
extern const struct api_fabric_kind api_fabric_kinds[];
extern const unsigned api_fabric_count;
extern const unsigned api_fabric_revision;

/*
 * Installs the kinds that are missing, and replaces those of an older revision that are still as we
 * made them. The server is not ready before all are there.
 */
void api_fabric_install(struct sw_api *api);
