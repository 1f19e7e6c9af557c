/* SPDX-License-Identifier: Apache-2.0 */
/* Records between buffers, for connections that keep their bytes in a sw_buf for each direction. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct sw_tls;

/*
 * Seals from plain into wire until plain is empty or wire holds 'high' bytes. SW_OK; SW_ELIMIT when
 * wire has no room for the next record, which stays in plain; SW_ECLOSED when our direction ended.
 */
SW_NODISCARD int sw_tls_seal_buf(struct sw_tls *t, struct sw_buf *plain, struct sw_buf *wire,
                                 size_t high);
/* Control records that wait, when wire has room for them; otherwise they wait on. */
void sw_tls_flush_buf(struct sw_tls *t, struct sw_buf *wire);
/* Those, and close_notify. */
void sw_tls_close_buf(struct sw_tls *t, struct sw_buf *wire);
