/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the DNS, absolute, as labels on the wire: text, order, relations. No I/O. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/slice.h"

enum {
    SW_DNS_NAME_MAX = 255,   /* on the wire, with the root's zero */
    SW_DNS_NAME_TEXT = 1010, /* every byte escaped, with NUL */
};

/* Absolute, as labels on the wire and uncompressed, case kept. Never longer than allowed. */
struct sw_dns_name {
    uint8_t n; /* with the root's zero: 1 is the root itself */
    uint8_t b[SW_DNS_NAME_MAX];
};

/*
 * From text, "a.example." or "a.example"; "." is the root. \. and \DDD are understood. SW_EINVAL:
 * empty, empty label, label above 63 bytes, name above 255.
 */
SW_NODISCARD int sw_dns_name_parse(struct sw_slice text, struct sw_dns_name *ret,
                                   struct sw_err *err);
/* Puts the labels of 'head' (relative text; empty: none) before 'tail'. SW_EINVAL as above. */
SW_NODISCARD int sw_dns_name_join(struct sw_slice head, const struct sw_dns_name *tail,
                                  struct sw_dns_name *ret, struct sw_err *err);
/* Without the last dot but for the root; returns out. */
char *sw_dns_name_text(const struct sw_dns_name *name, char out[SW_DNS_NAME_TEXT]);
/* ASCII case does not matter. */
bool sw_dns_name_eq(const struct sw_dns_name *a, const struct sw_dns_name *b);
/* True for zone itself and everything below. */
bool sw_dns_name_under(const struct sw_dns_name *name, const struct sw_dns_name *zone);
/* Without the first label; false for the root. ret may be name itself. */
bool sw_dns_name_parent(const struct sw_dns_name *name, struct sw_dns_name *ret);
/* In lower case: the form for keys of tables. */
void sw_dns_name_lower(struct sw_dns_name *name);
/* The bytes, borrowed. */
static inline struct sw_slice sw_dns_name_bytes(const struct sw_dns_name *name)
{
    return sw_slice(name->b, name->n);
}
/* What a table by names has of this one; *ret_key is the form that it has as a key there. */
void *sw_dns_name_find(const struct sw_map *table, const struct sw_dns_name *name,
                       struct sw_dns_name *ret_key);
/* The order of RFC 4034, 6.1. */
int sw_dns_name_cmp(const struct sw_dns_name *a, const struct sw_dns_name *b);
