/* SPDX-License-Identifier: Apache-2.0 */
/* Documents made from the registry and kept until it changes. */
#pragma once

#include "base/arena.h"
#include "base/map.h"

struct api_req;
struct sw_api;

struct api_doc {
    struct sw_slice text;
    struct sw_slice hash; /* of the text, hexadecimal */
    struct sw_slice key;  /* OpenAPI: "apis/g/v" */
};

struct api_docs {
    uint64_t generation;
    struct sw_arena arena;
    struct api_doc agg_core;
    struct api_doc agg_groups;
    struct api_doc openapi_root;
    struct api_doc *openapi;
    size_t n_openapi;
};

/* Forgets documents of an older registry. */
void api_docs_refresh(struct sw_api *api);
void api_doc_tag(struct sw_arena *a, struct api_doc *doc);
/* Sends it, or 304 when the client has it. */
void api_doc_reply(struct api_req *r, const struct api_doc *doc, const char *content_type);
