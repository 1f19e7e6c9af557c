/* SPDX-License-Identifier: Apache-2.0 */
/* Authentication and authorization of requests: credentials, RBAC, tokens, reviews. */
#pragma once

#include "apiserver/api/api.h"

/* --- authn.c, authz.c, escalate.c, token.c, review.c --- */
/* Sets r->user; false: 401 was sent. */
bool api_authenticate(struct api_req *r);
/* The bearer token of a request; empty: it has none. */
struct sw_slice api_bearer_of(const struct sw_xchg *x);
/* Impersonation headers; false: 403 was sent. */
bool api_impersonate(struct api_req *r);
/* Whether the user may still impersonate. */
bool api_may_impersonate(const struct api_req *r, struct sw_arena *a);
struct api_attrs {
    const struct api_user *user;
    struct sw_slice verb;
    bool is_resource;
    struct sw_slice group;
    struct sw_slice resource;
    struct sw_slice sub;
    struct sw_slice ns;
    struct sw_slice name;
    struct sw_slice path;
};
/*
 * True when allowed; *ret_why (may be NULL) then names the binding, in the arena. When refused it
 * names the missing roles of the user's bindings, or is empty.
 */
bool api_allowed(struct sw_api *api, struct sw_arena *a, const struct api_attrs *at,
                 const char **ret_why);
/* Checks the request itself; false: 403 was sent. */
bool api_authorize(struct api_req *r);
/* A verb of a user on a resource. */
struct api_attrs api_attrs_on(const struct api_user *u, const char *verb, struct sw_slice group,
                              struct sw_slice resource, struct sw_slice ns, struct sw_slice name);
/* The attributes of a request for authorisation. The verb may be made in the arena. */
struct api_attrs api_attrs_of(const struct api_req *r, struct sw_arena *a);
/* The text of a refusal; why may be NULL. */
const char *api_denied_text(struct sw_arena *a, const struct api_attrs *at, const char *why);
struct api_authz *api_authz_new(struct sw_api *api);
void api_authz_free(struct api_authz *z);
/* Some RBAC object changed. */
void api_authz_changed(struct sw_api *api);
/* Rights the user must hold to store this role or binding; false: 403 was sent. */
bool api_escalation_ok(struct api_req *r, const struct sw_json *obj, const struct sw_json *old);
/*
 * The rules of a user in a namespace, for SelfSubjectRulesReview. What was amiss, or NULL;
 * api_rules_cut when there are more than are listed.
 */
extern const char api_rules_cut[];
const char *api_user_rules(struct sw_api *api, struct sw_arena *a, const struct api_user *u,
                           struct sw_slice ns, struct sw_json *resource_rules,
                           struct sw_json *other_rules);

struct api_static_token {
    struct sw_slice token;
    struct sw_slice user;
    struct sw_slice uid;
    struct sw_slice group; /* one is enough for the admin */
};
/* Frees what is kept about tokens. */
void api_tokens_done(struct api_tokens *t);
/* A bearer token, and the audiences of which it must have one. */
struct api_bearer {
    struct sw_slice token;
    const struct sw_json *audiences; /* NULL: the server's own */
};
/*
 * Judges a bearer token; false with the reason when it is no good. *ret_audiences (unless NULL):
 * the audiences that it has of those wanted.
 */
bool api_token_user(struct sw_api *api, struct sw_arena *a, const struct api_bearer *bearer,
                    struct api_user *ret, struct sw_json **ret_audiences, const char **ret_why);
/* A token without an expiry for a Secret that requests one; empty when it cannot be made. */
struct sw_slice api_token_for_secret(struct sw_api *api, struct sw_arena *a, struct sw_slice ns,
                                     struct sw_slice secret, const struct sw_json *account);
/* A token of an account for the roles of the fabric; empty when there is no such account. */
struct sw_slice api_token_for_account(struct sw_api *api, struct sw_arena *a, struct sw_slice ns,
                                      struct sw_slice name, uint32_t ttl_s);
void api_token_request(struct api_req *r);
/* tokenreviews, subjectaccessreviews and so on. */
void api_review(struct api_req *r);
