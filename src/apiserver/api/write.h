/* SPDX-License-Identifier: Apache-2.0 */
/* A change on its way to the store; verbs/write.c leads it. */
#pragma once

#include "apiserver/api/api.h"

struct api_write;
/*
 * Computes the new object from what is stored (cur, NULL when missing). Sets w->obj for a write or
 * w->remove; or answers the request itself and returns false.
 */
typedef bool (*api_build_fn)(struct api_write *w, const struct sw_store_obj *cur);

struct api_write {
    struct api_req *r;
    api_build_fn build;
    struct sw_slice key;
    struct sw_json *obj;  /* new state; with remove: the last state */
    struct sw_json *live; /* what was stored, as a tree; NULL when nothing */
    /* Set instead of obj when mutating webhooks come first; finish makes obj of what they made. */
    struct sw_json *draft;
    bool (*finish)(struct api_write *w, struct sw_json *obj);
    bool remove;
    bool noop;  /* nothing to store: answer with obj */
    bool retry; /* conflicts are tried again */
    int code;   /* of the answer */
    uint64_t expect;
    uint64_t revision;    /* once it is written */
    int64_t took_objects; /* of its namespace's share, while it is on its way */
    int64_t took_bytes;
    unsigned tries;
    bool answer_status;                                        /* a removal answers with a Status */
    void (*committed)(struct api_write *w, uint64_t revision); /* optional */
    /* What the endpoint shows of an object, for admission; NULL: the object. */
    struct sw_json *(*view)(struct api_req *r, const struct sw_json *obj);
    bool exists; /* a create that is refused with 409 once it is admitted */
    void *arg;
};
