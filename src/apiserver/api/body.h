/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies and options of requests, decoded and checked. */
#pragma once

#include "apiserver/api/api.h"

/* The body as JSON, within the bounds of requests. */
SW_NODISCARD int api_parse_json(struct api_req *r, struct sw_json **ret, struct sw_json_dups *dups,
                                struct sw_err *err);
/* The tree of the body; false: an error was sent. */
bool api_decode_body(struct api_req *r, struct sw_json **ret, struct sw_json_dups *dups);
/*
 * The apiVersion of the core group has two spellings, since its group is empty: "/v1" becomes "v1".
 * Anything else stays.
 */
void api_settle_version(struct sw_arena *a, struct sw_json *obj);
/*
 * Turns a decoded body into an object of the resource: checks type, prunes or refuses unknown
 * fields, fills defaults. 'patch' changes the form of the strict error. False: an error was sent.
 */
bool api_admit_object(struct api_req *r, struct sw_json *obj, const struct sw_json_dups *dups,
                      bool patch);
/* dryRun, fieldManager, fieldValidation, force. kind: "CreateOptions" and so on. */
bool api_write_options(struct api_req *r, const char *kind);
/* The namespace of an object, if any, is that of the URL. False: 400 was sent. */
bool api_check_namespace(struct api_req *r, struct sw_slice ns);
/* dryRun as options of a request in turn have it; NULL: it is not set. */
struct sw_json *api_dry_run_json(const struct api_req *r);
/* Values of dryRun: only "All" is known, anything else adds an error. */
void api_take_dry_run(struct api_req *r, struct sw_field_errs *e, const struct sw_json *list);
