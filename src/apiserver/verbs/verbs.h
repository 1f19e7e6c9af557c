/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs on stored resources, writes and watches, and the kinds that writes treat specially. */
#pragma once

#include "apiserver/api/work.h"
#include "apiserver/api/write.h"
#include "kube/apply/smd.h"
#include "kube/select/fieldsel.h"

/* --- verbs --- */
void api_get(struct api_req *r);
void api_list(struct api_req *r);
void api_watch(struct api_req *r);
void api_create(struct api_req *r);
void api_update(struct api_req *r);
void api_patch(struct api_req *r);
void api_delete(struct api_req *r);
void api_delete_collection(struct api_req *r);
void api_scale(struct api_req *r);
/*
 * Judges the next 'batch' watches whose last judgement is older than api->review, and ends those
 * that may not continue. True: there are more.
 */
bool api_watches_review(struct sw_api *api, size_t batch);
/* Ends all watches, or those of one CRD. */
void api_watches_end(struct sw_api *api, const struct api_crd *crd);
/* Answers the requests that wait for a revision, before their memory ends with the front. */
void api_futures_end(struct sw_api *api);

/* Selectors of list, watch and deletecollection. */
struct api_filter {
    struct sw_label_selector labels;
    struct sw_field_selector fields;
    bool has_labels;
    bool has_fields;
};
/* The selectors of the query, as far as their form goes. False: an error was sent. */
bool api_filter_syntax(struct api_req *r, struct api_filter *f);
/* Then their fields: only some can be selected by. False: an error was sent. */
bool api_filter_labels(struct api_req *r, struct api_filter *f);
/* Both, with what else a list may say; limit may be negative. False: an error was sent. */
bool api_list_opts_check(struct api_req *r, struct api_filter *f, int64_t *ret_limit);
/* What is wrong with this resourceVersion. */
const char *api_bad_rv(struct sw_arena *a, struct sw_slice v);
/* resourceVersion of the query; false: 400 was sent. */
bool api_read_rv(struct api_req *r, uint64_t *ret);
/* True when the revision has happened; otherwise 'then' is called later, or 504 sent. */
bool api_wait_revision(struct api_req *r, uint64_t revision, api_work_fn then);
/* Sends 504: the revision has not happened. */
void api_rv_too_large(struct api_req *r, uint64_t revision);
bool api_filter_match(const struct api_filter *f, const struct api_res *res,
                      const struct sw_store_obj *o);

/* --- write.c: the way of every change --- */

/* The body has the name that the URL has. False: 400 was sent. */
bool api_check_name(struct api_req *r, const struct sw_json *obj);

/* Starts the write; answers the request in the end. w lives in the request's arena. */
void api_write_run(struct api_write *w);
/* Everything between "this is what the client wants" and "this is what is stored". */
bool api_prepare_create(struct api_write *w, struct sw_json *obj);
bool api_prepare_update(struct api_write *w, struct sw_json *obj, const struct sw_store_obj *cur);
/* Ownership of fields. */
struct sw_smd api_smd(struct api_req *r);

/* --- services.c: addresses and node ports --- */

/*
 * Gives a Service what it has to have from us and takes away what its type has no use for; any
 * other kind is left alone. False: an error was sent.
 */
bool api_service_settle(struct api_write *w, struct sw_json *svc, const struct sw_json *old);
/* The write goes to the store: no other may have what it takes. */
void api_service_submitted(struct api_write *w);
/* The write is stored. */
void api_service_written(struct api_write *w);
void api_pool_free(struct api_pool *p);

/* --- ingress.c --- */

/* Gives a new Ingress the default class when it names none; any other kind is left alone. */
void api_ingress_settle(struct api_req *r, struct sw_json *obj);

/* --- crd.c --- */
/* Reads all CRDs at start. */
void api_crds_load(struct sw_api *api);
/* The CRD object changed (or went): serve what it says now. */
void api_crd_changed(struct sw_api *api, struct sw_slice name);
void api_crd_default(struct api_req *r, struct sw_json *crd);
void api_crd_validate(struct api_req *r, const struct sw_json *crd, const struct sw_json *old,
                      struct sw_field_errs *e);
/* Status a CRD gets with a write: accepted names, conditions. */
void api_crd_settle(struct api_req *r, struct sw_json *crd, const struct sw_json *old);

/* --- revoke.c --- */
struct api_revoker *api_revoker_new(struct sw_api *api);
void api_revoker_free(struct api_revoker *v);
/* See sw_api_on_revoke. */
void api_revoker_listen(struct api_revoker *v, void (*cb)(void *arg), void *arg);
/* An object of this kind was written (or went): credentials may depend on it. */
void api_revoker_note(struct sw_api *api, const struct api_res *res, bool gone);
/* Whether the sender of a request may still have what it asks for; why not in the arena. */
bool api_still_allowed(struct api_req *r, struct sw_arena *a, const char **ret_why);
/* When the credential of a request ends, from now; UINT64_MAX: never. */
uint64_t api_credential_left_ns(const struct api_req *r);
