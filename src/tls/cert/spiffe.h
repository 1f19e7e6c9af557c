/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload identities: spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/SERVICE_ACCOUNT and nothing else.
 * Two identities are equal when their bytes are; there is no case folding and no escaping.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

enum {
    SW_SPIFFE_MAX = 1024,             /* whole URI */
    SW_SPIFFE_TRUST_DOMAIN_MAX = 255, /* a DNS name */
    SW_SPIFFE_PART_MAX = 253,         /* namespace, service account */
};

struct sw_spiffe {
    struct sw_slice trust_domain; /* all three are borrowed from the text that was parsed */
    struct sw_slice ns;
    struct sw_slice sa;
};

/*
 * Splits an identity. Refuses any other scheme or number of parts, an empty or overlong part and
 * every byte outside printable ASCII (so an embedded NUL cannot shorten a name). *ret points into
 * uri.
 *
 * Returns SW_OK, or SW_EINVAL with err->offset at the offending byte.
 */
SW_NODISCARD int sw_spiffe_parse(struct sw_slice uri, struct sw_spiffe *ret, struct sw_err *err);

/*
 * Checks the three parts by the same rules and appends the URI to out.
 * Returns SW_OK, SW_EINVAL (a part is not allowed) or SW_ELIMIT (out is full).
 */
SW_NODISCARD int sw_spiffe_format(const struct sw_spiffe *id, struct sw_buf *out,
                                  struct sw_err *err);

/* True when s may stand as a trust domain. */
bool sw_spiffe_trust_domain_ok(struct sw_slice s);

bool sw_spiffe_eq(const struct sw_spiffe *a, const struct sw_spiffe *b);
