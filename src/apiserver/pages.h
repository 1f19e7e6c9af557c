/* SPDX-License-Identifier: Apache-2.0 */
/* Pages beside the API: those the process added (sw_api_page), and the server's metrics. */
#pragma once

#include <stdbool.h>

struct api_req;

/* Answers for a page that was added, or /metrics; false: there is none. */
bool api_embedded_page(struct api_req *r);
