/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugins of validating admission share. */
#include "apiserver/admission/admission.h"

const char *sw_admission_operation(enum api_operation op)
{
    static const char *const names[] = {"CREATE", "UPDATE", "DELETE"};

    return names[op];
}

const struct api_req *sw_admission_asker(const struct api_req *r)
{
    return r->own.on_behalf ? r->own.on_behalf : r;
}

void sw_admission_next(struct api_admission *ad)
{
    api_admission_fn fn = *ad->rest;

    if (!fn) {
        ad->then(ad);
        return;
    }
    ad->rest++;
    fn(ad);
}
