/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that a server has from its first start (bootstrap.c, accounts.c). Not for others. */
#pragma once

#include "apiserver/api/api.h"

/* Texts are JSON with single quotes, to be readable. */
struct sw_json *boot_parse(struct sw_arena *a, const char *text);

/* Where an object belongs. */
struct boot_place {
    const char *group;
    const char *plural;
    const char *ns; /* "": of the cluster */
};

/* Makes it, unless it is there; true when it is. */
bool boot_make(struct sw_api *api, const struct boot_place *at, const char *name,
               const struct sw_json *obj);
/*
 * Makes a role, or brings it up to date: rules that were delivered before and are not any more go,
 * new ones come, those of users stay. obj: with name and rules; before: rules that releases without
 * a note delivered, or NULL.
 */
void boot_role(struct sw_api *api, const struct boot_place *at, struct sw_json *obj,
               const struct sw_json *before);
/* The same for a binding: subjects it lacks are added. */
void boot_binding(struct sw_api *api, const struct boot_place *at, struct sw_json *obj);
/* One thing less to wait for; the last one makes the server ready. */
void boot_done(struct sw_api *api);
/* What lives in a namespace, which is there by now. */
void boot_namespace(struct sw_api *api, struct sw_slice name);

/* --- accounts.c: the roles of the fabric as clients of the API --- */
#define BOOT_SYSTEM_NS "spanwire-system"
void boot_accounts(struct sw_api *api);
void boot_accounts_in(struct sw_api *api, struct sw_slice ns);

/* --- account_files.c --- */
struct api_accounts *api_accounts_new(struct sw_api *api, const struct sw_api_config *c);
void api_accounts_free(struct api_accounts *n);
/* Their tokens and kubeconfigs under DIR/roles, now and again before they expire. */
void api_accounts_issue(struct sw_api *api);
/* Name of the account for a device, NULL: none. */
const char *api_accounts_device(const struct sw_api *api);
