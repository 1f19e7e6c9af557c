/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a connection share. Not for others. */
#pragma once

#include "gateway/conn/conn.h"

/* Appends, growing as needed; the byte behind the content is always ours. */
void gw_bytes_append(struct sw_gw_bytes *b, const void *p, size_t n);
/* Drops n bytes in front; frees the storage when nothing is left. */
void gw_bytes_consume(struct sw_gw_bytes *b, size_t n);
void gw_bytes_free(struct sw_gw_bytes *b);

/* on_fail follows from the loop. */
void gw_conn_fail(struct sw_gw_conn *c, int rc, int sys_errno);
/* on_fail now: only from the loop. */
void gw_conn_fail_now(struct sw_gw_conn *c, struct sw_err *err);
/* Connected, and the handshake done: on_open. */
void gw_conn_opened(struct sw_gw_conn *c);
/* Bytes as they are, in front of nothing: handshake messages and alerts. */
void gw_conn_write_raw(struct sw_gw_conn *c, struct sw_slice bytes);
/* Sends what an earlier write left; on_drained and the ends that waited for it follow. */
void gw_conn_write_out(struct sw_gw_conn *c);
void gw_conn_drop_stage(struct sw_gw_conn *c);
/* Flushes the worker's connections linked by 'dirty' and empties the list. */
void gw_conn_flush_list(struct sw_gw_worker *w, struct sw_list *list);

/*
 * What a read of up to 'room' bytes behind the first 'have' of buf gave; those come from what was
 * kept. False: nothing more to do now.
 */
bool gw_conn_took(struct sw_gw_conn *c, uint8_t *buf, size_t have, ssize_t n, size_t room,
                  int sys_errno);
/* Everything that can be done now: deliver, read, tell of the end. */
void gw_conn_go_on(struct sw_gw_conn *c);
/* The same from the loop. */
void gw_conn_go_on_later(struct sw_gw_conn *c);

/* ---- conn_flush.c ---- */

/* Remembers that c has staged output; it is flushed at the end of the turn at the latest. */
void gw_conn_dirty(struct sw_gw_conn *c);
/* Flushes those that were queued for it. */
void gw_conn_flush_queued(struct sw_gw_worker *w);

/* ---- conn_in.c ---- */

/* What is in c->in goes to the owner first, so that it sees one contiguous text. */
void gw_conn_deliver_kept(struct sw_gw_conn *c);
/* A step of the handshake. Returns bytes used, or a failure that was reported. */
ssize_t gw_conn_shake(struct sw_gw_conn *c, struct sw_slice in);
/* Records that came before the connection was ours. */
void gw_conn_open_fresh(struct sw_gw_conn *c);
/* Reads and delivers, within the bounds of a turn. */
void gw_conn_read_some(struct sw_gw_conn *c);

/* ---- conn_ahead.c ---- */

enum { GW_AHEAD_BYTES = 4096 };

/* May a connection that is readable be read before others are looked at? */
bool gw_conn_may_read_ahead(const struct sw_gw_conn *c);
/* Reads once, together with others; the bytes are delivered before the turn ends. */
void gw_conn_read_ahead(struct sw_gw_conn *c);
/* The connection was closed: it is not read any more, and bytes already read are dropped. */
void gw_conn_forget_ahead(const struct sw_gw_conn *c);
