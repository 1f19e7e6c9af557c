/* SPDX-License-Identifier: Apache-2.0 */
#include "apiserver/admission/chain.h"

#include "apiserver/admission/policies.h"
#include "apiserver/admission/webhook.h"

/* Run in this order; the first refusal ends the request. */
static const api_admission_fn plugins[] = {
    api_policies_admit,
    api_webhooks_validate,
    NULL,
};

void sw_admission_validate(struct api_admission *ad)
{
    ad->rest = plugins;
    if (!sw_admission_asker(ad->r)->x) { /* the server's own writes */
        ad->then(ad);
        return;
    }
    sw_admission_next(ad);
}
