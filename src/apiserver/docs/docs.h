/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery and OpenAPI documents. */
#pragma once

struct api_docs;
struct api_req;

void api_discovery(struct api_req *r);
void api_openapi(struct api_req *r);
struct api_docs *api_docs_new(void);
void api_docs_free(struct api_docs *d);
