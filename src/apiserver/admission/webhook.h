/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission webhooks: before a write of a client is stored, the services that webhook
 * configurations name review it over HTTPS. Calls never block the loop; a write waits for its
 * answers and is built again when the object changed meanwhile.
 */
#pragma once

#include "apiserver/admission/admission.h"
#include "apiserver/api/write.h"

/* Some webhook configuration changed. */
void api_webhooks_changed(struct sw_api *api);
/* True when a mutating webhook matches this write. */
bool api_webhooks_mutate(struct api_write *w, const struct sw_json *obj);
/* Calls them one after another; then calls 'then' with the object they made, or answers. */
void api_webhooks_run(struct api_write *w, void (*then)(struct api_write *w, struct sw_json *obj));
/* A plugin of validating admission. */
void api_webhooks_validate(struct api_admission *ad);
/* Ends calls under way: their requests are answered. */
void api_webhooks_free(struct sw_api *api);
