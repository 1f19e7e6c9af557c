/* SPDX-License-Identifier: Apache-2.0 */
/* Fairness between the clients of the server. */
#pragma once

#include "apiserver/api/api.h"

/*
 * The tenant of a user: service accounts of a namespace are one, since its administrator can make
 * any number of them; those of the system's namespaces are one each. Borrowed from the name.
 */
struct sw_slice api_tenant(const struct api_user *u);
/* True for administrators and the system's own accounts: what is kept free is for them. */
bool api_first(const struct api_user *u);
struct api_fair *api_fair_new(uint32_t max_inflight, uint32_t max_watches);
void api_fair_free(struct api_fair *f);
/* False: too many of this client are under way. */
bool api_fair_enter(struct api_req *r);
void api_fair_leave(struct api_req *r);
/* Counts a watch of a request under way; false: the client has too many. Until unwatch. */
bool api_fair_watch(struct api_req *r);
void api_fair_unwatch(struct api_req *r);
/* The watch waits until its client's turn comes; clients take turns. */
void api_fair_walk(struct api_req *r, struct sw_list *turn);
/* Takes out the watch whose turn it is; NULL: none waits. */
struct sw_list *api_fair_walk_next(struct api_fair *f);
bool api_fair_walks(const struct api_fair *f);
