/* SPDX-License-Identifier: Apache-2.0 */
/* Requests whose work would be too much: what one may cost, and how a refusal is logged and
 * counted. */
#pragma once

#include "apiserver/api/api.h"

#define API_WORK_REFUSALS(X)                                                                       \
    X(VALIDATION, "validation")                                                                    \
    X(DEFAULTS, "defaults")                                                                        \
    X(ESCALATION, "escalation")

enum api_work {
#define X(id, name) API_WORK_##id,
    API_WORK_REFUSALS(X)
#undef X
        API_WORKS,
};

enum {
    API_VALIDATE_STEPS = 50000000, /* of one object: well below a second */
    API_COVER_STEPS = 50000000,    /* of one role */
    API_DEFAULT_BYTES = 32 << 20,  /* that defaults add to one object, in memory */
};

/* Logs and counts a refusal; the caller answers. 'where' is a field, or NULL. */
void api_work_refused(struct api_req *r, enum api_work what, const char *where);
/* Fills the defaults of a custom resource; false: 413 was sent. */
bool api_default(struct api_req *r, struct sw_json *obj);
void api_work_metrics(struct sw_buf *out);
