/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compression of answers (compressor with gzip). Nothing is compressed unless the configuration has
 * this filter, the client takes gzip, and the answer is worth it and not compressed already.
 */
#pragma once

#include "gateway/config/config.h"
#include "gateway/exchange/exchange.h"

struct sw_gw_build;
struct sw_gw_per_filter;
struct Sw__Any;

/* *ret is NULL for another way of compressing: answers go as they are, which is right too. Requests
 * are never compressed. */
SW_NODISCARD int sw_gw_build_gzip(struct sw_gw_build *b, const struct Sw__Any *any,
                                  const void **ret);
/* A route switches it on or off. */
SW_NODISCARD int sw_gw_build_gzip_route(struct sw_gw_build *b, const struct Sw__Any *any,
                                        struct sw_gw_per_filter *p);

struct sw_gw_gzip;

/* The filter applies to this request. */
void sw_gw_gzip_request(struct sw_exchange *x, const struct sw_gw_gzip *g);
/* The head in x->resp is about to be sent: decides, and changes it accordingly (x->gzip). */
void sw_gw_gzip_response(struct sw_exchange *x);
/* With x->gzip: bytes of the answer on their way downstream; their end. */
void sw_gw_gzip_data(struct sw_exchange *x, struct sw_slice data);
void sw_gw_gzip_end(struct sw_exchange *x);
