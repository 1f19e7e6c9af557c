/* SPDX-License-Identifier: Apache-2.0 */
/* Controllers inside the server: garbage collection, namespaces, quotas, tokens, endpoints. */
#pragma once

struct api_gc;
struct sw_api;

struct api_gc *api_gc_new(struct sw_api *api);
/* No more looking at the store; requests under way may still end. */
void api_gc_stop(struct api_gc *g);
void api_gc_free(struct api_gc *g);
