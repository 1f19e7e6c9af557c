/* SPDX-License-Identifier: Apache-2.0 */
/* From a URL to a verb on a resource, and the order in which a request is judged. */
#pragma once

struct api_dispatch;
struct sw_xchg;

extern const struct api_dispatch api_dispatch;

/* A request of the front; arg is the server. */
void api_on_request(struct sw_xchg *x, void *arg);
