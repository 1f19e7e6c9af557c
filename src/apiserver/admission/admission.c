/* SPDX-License-Identifier: Apache-2.0 */
/* The order of validating admission, and who is exempt from it. */
#include "apiserver/admission/admission.h"

#include "apiserver/admission/policies.h"
#include "apiserver/admission/webhook.h"

/* Asked in this order; the first refusal ends the request. */
static const api_admission_fn plugins[] = {
    api_policies_admit,
    api_webhooks_validate,
    NULL,
};

const char *sw_admission_operation(enum api_operation op)
{
    static const char *const names[] = {"CREATE", "UPDATE", "DELETE"};

    return names[op];
}

const struct api_req *sw_admission_asker(const struct api_req *r)
{
    return r->on_behalf ? r->on_behalf : r;
}

void sw_admission_next(struct api_admission *ad)
{
    api_admission_fn fn = plugins[ad->step];

    if (!fn) {
        ad->then(ad);
        return;
    }
    ad->step++;
    fn(ad);
}

void sw_admission_validate(struct api_admission *ad)
{
    ad->step = 0;
    if (!sw_admission_asker(ad->r)->x) { /* the server's own writes */
        ad->then(ad);
        return;
    }
    sw_admission_next(ad);
}
