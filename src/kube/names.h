/* SPDX-License-Identifier: Apache-2.0 */
/* The alphabets of names, labels and keys. Every check answers with the fixed texts it violates. */
#pragma once

#include <stdbool.h>

#include "base/slice.h"
#include "kube/errs.h"

enum { SW_NAME_MSGS = 4 };
/* Texts of what is wrong; n == 0 means right. */
struct sw_name_msgs {
    const char *p[SW_NAME_MSGS];
    size_t n;
};

typedef struct sw_name_msgs (*sw_name_fn)(struct sw_slice name);

struct sw_name_msgs sw_name_dns1123_label(struct sw_slice s);
struct sw_name_msgs sw_name_dns1123_subdomain(struct sw_slice s);
/* "*." and a subdomain. */
struct sw_name_msgs sw_name_wildcard(struct sw_slice s);
struct sw_name_msgs sw_name_dns1035_label(struct sw_slice s);
/* A segment of a URL path: not ".", not "..", no '/' and no '%'. */
struct sw_name_msgs sw_name_path_segment(struct sw_slice s);
/* Namespace names: as a label, with the extra text about dots. */
struct sw_name_msgs sw_name_namespace(struct sw_slice s);
struct sw_name_msgs sw_name_label_key(struct sw_slice s);
struct sw_name_msgs sw_name_label_value(struct sw_slice s);
/* Keys of ConfigMap and Secret data. */
struct sw_name_msgs sw_name_config_key(struct sw_slice s);
/* Name of a port, as used for a target port. */
struct sw_name_msgs sw_name_port(struct sw_slice s);
/* Textual addresses. */
bool sw_is_ipv4(struct sw_slice s);
bool sw_is_ipv6(struct sw_slice s);
bool sw_is_cidr(struct sw_slice s);

/* Adds one 'Invalid value' per message. */
void sw_name_report(struct sw_field_errs *e, const struct sw_fpath *path, struct sw_slice value,
                    struct sw_name_msgs msgs);

/* The joined form ("a; b") other texts embed. */
const char *sw_name_join(struct sw_arena *a, struct sw_name_msgs msgs, const char *sep);

/* "ns/name", as maps of objects have it. */
struct sw_slice sw_name_key(struct sw_arena *a, struct sw_slice ns, struct sw_slice name);
