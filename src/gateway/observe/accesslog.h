/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Format strings with %OPERATORS% (headers to add, tunnel host names, access logs) and the access
 * logs that use them: to a file or a standard stream, as text or JSON, written by a thread of their
 * own.
 */
#pragma once

#include "base/buf.h"
#include "gateway/config/config.h"
#include "gateway/message/message.h"

struct sw_gw_member;
struct Sw__AccessLog;
struct sw_gw_build;

/* Values the operators see. All optional: what is missing comes out as "-" (or nothing, in
 * headers). */
struct sw_gw_vars {
    const struct sw_gw_request *req;
    const struct sw_gw_response *resp;
    struct sw_addr peer;
    struct sw_addr local;
    struct sw_addr upstream_local;
    struct sw_slice sni;
    struct sw_slice original_path; /* before rewriting; empty: as in req */
    struct sw_slice route;
    struct sw_slice vhost;
    struct sw_slice cluster;
    const struct sw_gw_member *member;
    const struct sw_json *metadata;         /* dynamic, of the connection */
    const struct sw_json *cluster_metadata; /* of the upstream cluster */
    struct sw_slice listener;
    struct sw_slice chain;
    int status;
    uint32_t flags; /* enum sw_gw_flag */
    const char *detail;
    const char *failure; /* upstream transport failure reason */
    uint64_t start_wall_ns;
    uint64_t duration_ns;
    uint64_t request_ns;  /* first byte of the request until its last; 0: unknown */
    uint64_t response_ns; /* until the response began; 0: unknown */
    uint64_t rx_bytes;
    uint64_t tx_bytes;
    uint32_t attempts;
    uint64_t connection_id;
    const struct sw_tls_peer *client; /* the client's certificate; NULL: not authenticated */
    const char *cipher;               /* as sw_tls_cipher; NULL: no TLS */
    bool http;
    struct sw_slice local_body; /* of an answer made here, before it was formatted */
};

/*
 * Compiles a format. "%%" is a percent sign. Refuses unknown operators (SW_EINVAL naming it): a log
 * that silently lacks a requested value is worse than a refused configuration.
 */
SW_NODISCARD int sw_gw_format_parse(struct sw_arena *a, struct sw_slice text,
                                    const struct sw_gw_format **ret, struct sw_err *err);
/* The text when the format has no operator; p == NULL otherwise. */
struct sw_slice sw_gw_format_literal(const struct sw_gw_format *f);
/*
 * Appends the expansion; 'missing' stands for absent values ("-" in logs, "" in headers). 'escape'
 * is for a line of text: quotes, backslashes and control bytes of values are escaped.
 */
SW_NODISCARD int sw_gw_format_write(const struct sw_gw_format *f, const struct sw_gw_vars *v,
                                    const char *missing, bool escape, struct sw_buf *out);
/* The expansion in an arena, at most 16 KiB (longer: cut). */
struct sw_slice sw_gw_format_text(const struct sw_gw_format *f, const struct sw_gw_vars *v,
                                  struct sw_arena *a);

/* enum sw_gw_flag as "UF,URX", in s; p == NULL without flags. */
struct sw_slice sw_gw_flags_text(uint32_t flags, char *s, size_t cap);

/* ---- bodies of local replies ---- */

struct sw_gw_body_format;
struct Sw__SubstitutionFormatString;

/* local_reply_config.body_format: text or JSON; in the build's arena. */
SW_NODISCARD int sw_gw_build_body(struct sw_gw_build *b,
                                  const struct Sw__SubstitutionFormatString *in,
                                  const struct sw_gw_body_format **ret);
/* In the arena, at most 64 KiB. */
struct sw_slice sw_gw_body_text(const struct sw_gw_body_format *f, const struct sw_gw_vars *v,
                                struct sw_arena *a);
struct sw_slice sw_gw_body_type(const struct sw_gw_body_format *f);

/* ---- logs ---- */

/* Logs without a format of their own get JSON lines. Before the first is built. */
void sw_gw_accesslog_default_json(bool json);

struct sw_gw_accesslog *sw_gw_accesslog_unref(struct sw_gw_accesslog *l);
/* From a list of AccessLog messages; the array is in the arena, the references go to b->logs. */
SW_NODISCARD int sw_gw_build_logs(struct sw_gw_build *b, struct Sw__AccessLog *const *in, size_t n,
                                  struct sw_gw_accesslog *const **ret, size_t *ret_n);
/* Writes one line to each log whose filter agrees. From any thread. */
void sw_gw_accesslog_write(struct sw_gw_accesslog *const *logs, size_t n,
                           const struct sw_gw_vars *v);
/* Lines that came to no file so far: the queue was full, or the file could not be written. */
uint64_t sw_gw_accesslog_lost(void);
/* Opens the files again (after rotation). */
void sw_gw_accesslog_reopen(void);
/* Writes what is queued (process end). */
void sw_gw_accesslog_stop(void);
