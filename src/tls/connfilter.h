/* SPDX-License-Identifier: Apache-2.0 */
/* TLS as the filter of a connection (io/conn.h). */
#pragma once

#include "io/filter.h"

struct sw_tls;

/* Hands t over as a filter; the connection frees it. NULL gives NULL: no filter. */
struct sw_filter *sw_tls_filter(struct sw_tls *t);
/* The TLS state behind a filter that sw_tls_filter made; NULL gives NULL. Borrowed. */
struct sw_tls *sw_tls_of(struct sw_filter *f);
