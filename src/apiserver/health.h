/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct api_req;

/* Paths that are no resources; always answers. */
void api_non_resource(struct api_req *r);
