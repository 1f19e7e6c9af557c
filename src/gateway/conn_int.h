/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a connection share. Not for others. */
#pragma once

#include "gateway/conn.h"

/* Appends, growing as needed; the byte behind the content is always ours. */
void gw_bytes_append(struct sw_gw_bytes *b, const void *p, size_t n);
/* Drops n bytes in front; frees the storage when nothing is left. */
void gw_bytes_consume(struct sw_gw_bytes *b, size_t n);
void gw_bytes_free(struct sw_gw_bytes *b);

/* on_fail follows from the loop. */
void gw_conn_fail(struct sw_gw_conn *c, int rc, int sys_errno);
/* Bytes as they are, in front of nothing: handshake messages and alerts. */
void gw_conn_write_raw(struct sw_gw_conn *c, struct sw_slice bytes);
/* Sends what an earlier write left; on_drained and the ends that waited for it follow. */
void gw_conn_write_out(struct sw_gw_conn *c);
void gw_conn_drop_stage(struct sw_gw_conn *c);
/* Flushes the connections linked by 'dirty' and empties the list. */
void gw_conn_flush_list(struct sw_list *list);
