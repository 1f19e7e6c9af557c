/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that a server has from its first start (bootstrap.c, accounts.c). Not for others. */
#pragma once

#include "apiserver/boot/boot.h"

/* Texts are JSON with single quotes, to be readable. */
struct sw_json *boot_parse(struct sw_arena *a, const char *text);

/* A rule of a role; words are separated by spaces, "-" is the group without a name. */
struct boot_rule {
    const char *groups;
    const char *resources;
    const char *verbs;
    const char *names; /* or NULL */
    const char *urls;  /* instead of groups and resources; or NULL */
};
struct sw_json *boot_rules(struct sw_arena *a, const struct boot_rule *r, size_t n);
/* Metadata of an object that every server has: its name, and the label that marks it. */
struct sw_json *boot_named(struct sw_arena *a, const char *name);
/* A binding to a role of a kind; subjects are the items of a list, as boot_parse reads them. */
struct sw_json *boot_binding_json(struct sw_arena *a, const char *name, const char *kind,
                                  const char *role, const char *subjects);

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
void boot_accounts(struct sw_api *api);
void boot_accounts_in(struct sw_api *api, struct sw_slice ns);
