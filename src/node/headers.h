/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The headers HBONE carries besides the authority: baggage (telemetry labels), forwarded, and
 * traceparent. Pure text in, text out; nothing here is trusted for security.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "io/addr.h"
#include "node/workload.h"

/* ---- baggage ---- */

struct sw_baggage {
    struct sw_slice cluster;
    struct sw_slice ns;
    struct sw_slice workload_name;
    struct sw_slice workload_type; /* "deployment", "cronjob", "pod", "job" */
    struct sw_slice service_name;  /* canonical name */
    struct sw_slice revision;
    struct sw_slice region;
    struct sw_slice zone;
};

/* What a workload says of itself. The slices borrow from the snapshot. */
void sw_baggage_of(const struct sw_workload *w, struct sw_baggage *ret);
/*
 * Appends "k=v,k=v"; empty values and values with bytes a header must not carry (controls, space,
 * quote, comma, semicolon, backslash, '=', non-ASCII) are left out. SW_ELIMIT: buffer full.
 */
SW_NODISCARD int sw_baggage_build(const struct sw_baggage *b, struct sw_buf *out);
/* Never fails: what is not understood is skipped. Fields borrow from the value. */
void sw_baggage_parse(struct sw_slice value, struct sw_baggage *ret);

/* ---- forwarded ---- */

struct sw_forwarded {
    bool has_for;
    struct sw_addr client; /* of for=; port 0 when none was given */
    struct sw_slice host;  /* of host=, quotes stripped, ASCII only; empty: none */
};

/* Appends: for="ip:port"[;host=HOST]. host may be empty. SW_ELIMIT: buffer full. */
SW_NODISCARD int sw_forwarded_build(const struct sw_addr *client, struct sw_slice host,
                                    struct sw_buf *out);
/* Reads the first element of the list only; pieces that make no sense are ignored. */
void sw_forwarded_parse(struct sw_slice value, struct sw_forwarded *ret);

/* ---- traceparent ---- */

enum { SW_TRACE_TEXT = 56 };

struct sw_trace {
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint8_t flags;
};

/* W3C form: all four segments are checked; all-zero ids, upper case and version ff are refused. */
SW_NODISCARD bool sw_trace_parse(struct sw_slice value, struct sw_trace *ret);
/* A new trace, or with a parent a new span of its trace; 'random' is 24 bytes of randomness. */
void sw_trace_make(const struct sw_trace *parent, const uint8_t random[24], struct sw_trace *ret);
/* "00-<32 hex>-<16 hex>-<2 hex>"; returns out. */
char *sw_trace_text(const struct sw_trace *t, char out[SW_TRACE_TEXT]);
