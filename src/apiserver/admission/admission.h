/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission: what may still refuse a request when its object is complete (defaulted, merged,
 * validated, owned) and before it goes to the store. Every write of a client passes here, dry runs,
 * status, scale and the objects of a deletecollection included; writes of the server itself do not.
 */
#pragma once

#include "apiserver/api/api.h"

enum api_operation {
    API_OP_CREATE,
    API_OP_UPDATE,
    API_OP_DELETE,
};

struct api_admission;
/*
 * A validating plugin. It ends by one of: sw_admission_next (admitted), or an answer to the request
 * (api_fail and the like), at once or later from the loop. It may add warnings (api_warn).
 */
typedef void (*api_admission_fn)(struct api_admission *ad);

/* One question. Lives in the request's arena; the trees belong to the request. */
struct api_admission {
    struct api_req *r;
    enum api_operation op;
    const struct sw_json *object;           /* new state, as the endpoint shows it; NULL: DELETE */
    const struct sw_json *old;              /* stored state, the same way; NULL: CREATE */
    void (*then)(struct api_admission *ad); /* admitted: continue */
    void *arg;                              /* of then */
    const api_admission_fn *rest;           /* plugins still to run, ends with NULL */
};

/* Called by a plugin that admits: runs the next one. */
void sw_admission_next(struct api_admission *ad);
/* The request whose user authorises: of a deletecollection, for the deletion of one object. */
const struct api_req *sw_admission_asker(const struct api_req *r);
/* "CREATE", "UPDATE" or "DELETE". */
const char *sw_admission_operation(enum api_operation op);
