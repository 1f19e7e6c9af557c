/* SPDX-License-Identifier: Apache-2.0 */
/* The small grammars that all versions of HTTP share: what a reader takes and a writer lets out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

bool sw_http_token_valid(struct sw_slice s); /* field names and methods */
size_t sw_http_token_len(struct sw_slice s); /* how much of the start is one */
bool sw_http_value_valid(struct sw_slice s); /* no CR, LF, NUL, controls, outer blanks */
/* What may become part of a request target: no blanks, controls or '#'. */
bool sw_http_target_valid(struct sw_slice s);
/*
 * What a client may send as one, or as :path: visible ASCII without what no URI may contain and
 * what readers are known to disagree on. Refuses the empty one.
 */
bool sw_http_target_strict(struct sw_slice s);
/*
 * Fields that say where a message ends or belong to one connection. Only codecs write them: a
 * second one would let two programs disagree about where the next message begins.
 */
bool sw_http_is_framing(struct sw_slice name);
bool sw_http_host_valid(struct sw_slice s); /* host[:port]; no userinfo, no path, not empty */
/* "Sun, 06 Nov 1994 08:49:37 GMT" as seconds since the epoch; the forms of old are refused. */
bool sw_http_date_parse(struct sw_slice s, uint64_t *ret_s);
enum { SW_HTTP_DATE_LEN = 30 };
/* The same the other way; returns out. */
char *sw_http_date(uint64_t epoch_s, char out[SW_HTTP_DATE_LEN]);
/* Standard reason phrase, "Status" for codes we do not know. */
const char *sw_http_reason(int status);
