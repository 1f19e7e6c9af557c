/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What visitors see when the gateway itself answers with an error: a small page as HTML, JSON or
 * plain text, by what the client accepts. Built in, or from the directory of --error-pages. Answers
 * of upstreams are never replaced. Addresses and names of clusters stay out of it: those are in the
 * log, under the request id that the page shows.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

struct sw_exchange;
struct sw_gw_pages;

enum { SW_GW_PAGE_MAX = 64 * 1024 }; /* bytes of a file, and of a page */

enum sw_gw_page_type { SW_GW_PAGE_PLAIN, SW_GW_PAGE_HTML, SW_GW_PAGE_JSON, SW_GW_PAGE_TYPES };

/* ---- which form: RFC 9110 12.5.1 ---- */

/* What all Accept fields of a request say; starts as zeroes. */
struct sw_gw_accept {
    struct {
        uint16_t q;        /* thousandths */
        uint8_t precision; /* 0: not named, 1: any type, 2: any subtype, 3: exactly */
    } of[SW_GW_PAGE_TYPES];
};

/* One field value. Elements that are no media range are ignored. */
void sw_gw_accept_add(struct sw_gw_accept *a, struct sw_slice value);
/* Plain text unless HTML or JSON is wanted more. */
enum sw_gw_page_type sw_gw_accept_choose(const struct sw_gw_accept *a);
/* "text/html; charset=utf-8" and so on. */
struct sw_slice sw_gw_page_content_type(enum sw_gw_page_type type);

/* ---- what is in it ---- */

/* Texts are borrowed; what came from peers may be among them: they are escaped for the form. */
struct sw_gw_page {
    int status;
    struct sw_slice title;      /* "Service Unavailable" */
    struct sw_slice reason;     /* "the device 'laptop' is offline" */
    struct sw_slice visitor;    /* what the visitor can do */
    struct sw_slice owner;      /* what the owner of the site can do */
    struct sw_slice request_id; /* may be empty */
    struct sw_slice host;       /* may be empty */
};

/* Fills reason, visitor and owner from how the exchange ended; texts in its arena, or static. */
void sw_gw_page_explain(struct sw_exchange *x, int status, struct sw_gw_page *ret);
/* The connector behind the exchange's route or host, and its public key; empty: none. */
struct sw_slice sw_gw_exchange_device(const struct sw_exchange *x);
struct sw_slice sw_gw_exchange_node_id(const struct sw_exchange *x);
/* The most exact word for how it ended: of the device or sidecar (x-spanwire-reason), or ours. */
struct sw_slice sw_gw_exchange_reason(const struct sw_exchange *x);

/* ---- templates ---- */

/*
 * Checks a template: {{status}}, {{title}}, {{reason}}, {{visitor}}, {{owner}}, {{request_id}} and
 * {{host}} are known. SW_EINVAL with err->offset at the first other "{{".
 */
SW_NODISCARD int sw_gw_page_check(struct sw_slice template, struct sw_err *err);
/*
 * Appends the page for p, from the built-in template when pages is NULL or has none. Each value is
 * cut at 1 KiB; SW_ELIMIT when 'out' has no room.
 */
SW_NODISCARD int sw_gw_page_write(const struct sw_gw_pages *pages, enum sw_gw_page_type type,
                                  const struct sw_gw_page *p, struct sw_buf *out);

/*
 * Reads STATUS.html, STATUS.json, STATUS.txt (400 to 599) and default.* of a directory. Other names
 * are ignored. NULL with err, which names the file, when one cannot be used.
 */
SW_NODISCARD struct sw_gw_pages *sw_gw_pages_load(const char *dir, struct sw_err *err);
size_t sw_gw_pages_count(const struct sw_gw_pages *p);
struct sw_gw_pages *sw_gw_pages_unref(struct sw_gw_pages *p);

/* ---- those in force, for all workers ---- */

/* Takes the reference; NULL: the built-in ones. From any thread. */
void sw_gw_pages_set(struct sw_gw_pages *p);
/* A reference, or NULL. From any thread. */
struct sw_gw_pages *sw_gw_pages_get(void);
