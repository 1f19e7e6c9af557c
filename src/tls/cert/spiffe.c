/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/cert/spiffe.h"

#define SCHEME SW_SLICE_LIT("spiffe://")

static size_t first_bad_byte(struct sw_slice s)
{
    size_t i = 0;

    while (i < s.n && s.p[i] > ' ' && s.p[i] < 0x7f)
        i++;
    return i;
}

static bool part_ok(struct sw_slice s, size_t max)
{
    return s.n > 0 && s.n <= max && first_bad_byte(s) == s.n && sw_slice_find(s, '/') < 0;
}

bool sw_spiffe_trust_domain_ok(struct sw_slice s)
{
    return part_ok(s, SW_SPIFFE_TRUST_DOMAIN_MAX);
}

/* The next part of *rest; '*at' follows as the offset into the whole for messages. */
static int take_part(struct sw_slice *rest, size_t *at, size_t max, const char *what,
                     struct sw_slice *ret, struct sw_err *err)
{
    struct sw_slice part;

    if (!rest->p)
        return sw_err_at(err, SW_EINVAL, *at, "identity ends before its %s", what);
    part = sw_slice_cut(rest, '/');
    if (part.n == 0)
        return sw_err_at(err, SW_EINVAL, *at, "identity has an empty %s", what);
    if (part.n > max)
        return sw_err_at(err, SW_EINVAL, *at, "%s of the identity is too long", what);
    *at += part.n + 1;
    *ret = part;
    return SW_OK;
}

static int take_word(struct sw_slice *rest, size_t *at, const char *word, struct sw_err *err)
{
    size_t start = *at;
    struct sw_slice part = {0};
    int rc = take_part(rest, at, SW_SPIFFE_PART_MAX, word, &part, err);

    if (rc != SW_OK)
        return rc;
    if (!sw_slice_eq_str(part, word))
        return sw_err_at(err, SW_EINVAL, start, "identity has no '/%s/' where it belongs", word);
    return SW_OK;
}

int sw_spiffe_parse(struct sw_slice uri, struct sw_spiffe *ret, struct sw_err *err)
{
    struct sw_spiffe id;
    size_t at = SCHEME.n;
    struct sw_slice rest;
    size_t bad;
    int rc;

    if (uri.n > SW_SPIFFE_MAX)
        return sw_err_at(err, SW_EINVAL, SW_SPIFFE_MAX, "identity is longer than %d bytes",
                         SW_SPIFFE_MAX);
    if (!sw_slice_has_prefix(uri, SCHEME))
        return sw_err_at(err, SW_EINVAL, 0, "identity does not begin with 'spiffe://'");
    bad = first_bad_byte(uri);
    if (bad < uri.n)
        return sw_err_at(err, SW_EINVAL, bad, "identity has a byte that is not printable ASCII");
    rest = sw_slice_from(uri, SCHEME.n);
    rc = take_part(&rest, &at, SW_SPIFFE_TRUST_DOMAIN_MAX, "trust domain", &id.trust_domain, err);
    if (rc == SW_OK)
        rc = take_word(&rest, &at, "ns", err);
    if (rc == SW_OK)
        rc = take_part(&rest, &at, SW_SPIFFE_PART_MAX, "namespace", &id.ns, err);
    if (rc == SW_OK)
        rc = take_word(&rest, &at, "sa", err);
    if (rc == SW_OK)
        rc = take_part(&rest, &at, SW_SPIFFE_PART_MAX, "service account", &id.sa, err);
    if (rc != SW_OK)
        return rc;
    if (rest.p)
        return sw_err_at(err, SW_EINVAL, at - 1, "identity has a part behind the service account");
    *ret = id;
    return SW_OK;
}

int sw_spiffe_format(const struct sw_spiffe *id, struct sw_buf *out, struct sw_err *err)
{
    if (!sw_spiffe_trust_domain_ok(id->trust_domain))
        return sw_err_set(err, SW_EINVAL, "trust domain is not allowed in an identity");
    if (!part_ok(id->ns, SW_SPIFFE_PART_MAX))
        return sw_err_set(err, SW_EINVAL, "namespace is not allowed in an identity");
    if (!part_ok(id->sa, SW_SPIFFE_PART_MAX))
        return sw_err_set(err, SW_EINVAL, "service account is not allowed in an identity");
    if (sw_buf_printf(out, "spiffe://%.*s/ns/%.*s/sa/%.*s", SW_SLICE_ARG(id->trust_domain),
                      SW_SLICE_ARG(id->ns), SW_SLICE_ARG(id->sa)) != SW_OK)
        return sw_err_set(err, SW_ELIMIT, "no room for the identity");
    return SW_OK;
}

bool sw_spiffe_eq(const struct sw_spiffe *a, const struct sw_spiffe *b)
{
    return sw_slice_eq(a->trust_domain, b->trust_domain) && sw_slice_eq(a->ns, b->ns) &&
           sw_slice_eq(a->sa, b->sa);
}
