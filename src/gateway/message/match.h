/* SPDX-License-Identifier: Apache-2.0 */
/* What conditions of the configuration look at in a request. */
#pragma once

#include "gateway/config/config.h"
#include "gateway/message/message.h"

/* True when the header fits; several of the name count as one list. */
bool sw_gw_header_matches(const struct sw_gw_header_match *m, const struct sw_gw_request *req);

/* First value of a cookie; p == NULL: none. */
struct sw_slice sw_gw_cookie(const struct sw_gw_fields *f, struct sw_slice name);
/* First value of a query parameter as sent; false: not there. */
bool sw_gw_query(struct sw_slice path, struct sw_slice name, struct sw_slice *ret);
