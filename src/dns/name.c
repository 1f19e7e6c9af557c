/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/name.h"

#include <string.h>

enum { LABEL_MAX = 63 };

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
}

/* One byte of presentation form, which may be an escape: \DDD or \X. Advances *i. */
static int next_byte(struct sw_slice t, size_t *i, bool *ret_dot, uint8_t *ret)
{
    char c = t.p[(*i)++];
    uint64_t v;

    *ret_dot = false;
    if (c == '.') {
        *ret_dot = true;
        return SW_OK;
    }
    if (c != '\\') {
        *ret = (uint8_t)c;
        return SW_OK;
    }
    if (*i >= t.n)
        return SW_EINVAL;
    if (t.p[*i] < '0' || t.p[*i] > '9') {
        *ret = (uint8_t)t.p[(*i)++];
        return SW_OK;
    }
    if (t.n - *i < 3 || !sw_slice_to_u64(sw_slice(t.p + *i, 3), 255, &v))
        return SW_EINVAL;
    *i += 3;
    *ret = (uint8_t)v;
    return SW_OK;
}

/* Appends the labels of a text without looking at the root. */
static int put_labels(struct sw_slice t, struct sw_dns_name *out, struct sw_err *err)
{
    size_t len_at = 0;
    size_t n = 1; /* the length byte of the label being filled */
    size_t i = 0;

    while (i < t.n) {
        bool dot;
        uint8_t c = 0;

        if (next_byte(t, &i, &dot, &c) != SW_OK)
            return sw_err_at(err, SW_EINVAL, i, "bad escape in a DNS name");
        if (dot) {
            if (n == len_at + 1)
                return sw_err_at(err, SW_EINVAL, i, "empty label in a DNS name");
            out->b[len_at] = (uint8_t)(n - len_at - 1);
            if (i == t.n) {
                out->n = (uint8_t)n;
                return SW_OK;
            }
            len_at = n++;
        } else {
            if (n - len_at > LABEL_MAX)
                return sw_err_at(err, SW_EINVAL, i, "label of a DNS name above 63 bytes");
            out->b[n++] = c;
        }
        if (n >= SW_DNS_NAME_MAX)
            return sw_err_at(err, SW_EINVAL, i, "DNS name above 255 bytes");
    }
    out->b[len_at] = (uint8_t)(n - len_at - 1);
    out->n = (uint8_t)n;
    return SW_OK;
}

int sw_dns_name_join(struct sw_slice head, const struct sw_dns_name *tail, struct sw_dns_name *ret,
                     struct sw_err *err)
{
    struct sw_dns_name out = {0};
    int rc = head.n ? put_labels(head, &out, err) : SW_OK;

    if (rc != SW_OK)
        return rc;
    if (out.n + tail->n > SW_DNS_NAME_MAX)
        return sw_err_set(err, SW_EINVAL, "DNS name above 255 bytes");
    memcpy(out.b + out.n, tail->b, tail->n);
    out.n = (uint8_t)(out.n + tail->n);
    *ret = out;
    return SW_OK;
}

int sw_dns_name_parse(struct sw_slice text, struct sw_dns_name *ret, struct sw_err *err)
{
    static const struct sw_dns_name root = {.n = 1};

    if (!text.n)
        return sw_err_set(err, SW_EINVAL, "empty DNS name");
    if (sw_slice_eq_str(text, ".")) {
        *ret = root;
        return SW_OK;
    }
    return sw_dns_name_join(text, &root, ret, err);
}

char *sw_dns_name_text(const struct sw_dns_name *name, char out[SW_DNS_NAME_TEXT])
{
    size_t n = 0;

    for (size_t i = 0; i < name->n && name->b[i];) {
        size_t end = i + 1 + name->b[i];

        if (n)
            out[n++] = '.';
        for (i++; i < end && i < name->n; i++) {
            uint8_t c = name->b[i];

            if (c == '.' || c == '\\') {
                out[n++] = '\\';
                out[n++] = (char)c;
            } else if (c > ' ' && c < 127) {
                out[n++] = (char)c;
            } else {
                out[n++] = '\\';
                out[n++] = (char)('0' + c / 100);
                out[n++] = (char)('0' + c / 10 % 10);
                out[n++] = (char)('0' + c % 10);
            }
        }
    }
    if (!n)
        out[n++] = '.';
    out[n] = '\0';
    return out;
}

/* Length bytes are below 64, so lowering all bytes does not touch them. */
static bool same(const uint8_t *a, const uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i] && lower(a[i]) != lower(b[i]))
            return false;
    return true;
}

bool sw_dns_name_eq(const struct sw_dns_name *a, const struct sw_dns_name *b)
{
    return a->n == b->n && same(a->b, b->b, a->n);
}

bool sw_dns_name_under(const struct sw_dns_name *name, const struct sw_dns_name *zone)
{
    size_t at = 0;

    while (name->n - at > zone->n)
        at += 1u + name->b[at];
    return name->n - at == zone->n && same(name->b + at, zone->b, zone->n);
}

bool sw_dns_name_parent(const struct sw_dns_name *name, struct sw_dns_name *ret)
{
    size_t cut = 1u + name->b[0];
    struct sw_dns_name out = {0};

    if (name->n <= 1)
        return false;
    out.n = (uint8_t)(name->n - cut);
    memcpy(out.b, name->b + cut, out.n);
    *ret = out;
    return true;
}

void sw_dns_name_lower(struct sw_dns_name *name)
{
    for (size_t i = 0; i < name->n; i++)
        name->b[i] = lower(name->b[i]);
}

static int label_cmp(const uint8_t *a, const uint8_t *b)
{
    size_t n = sw_min(a[0], b[0]);

    for (size_t i = 1; i <= n; i++) {
        int d = lower(a[i]) - lower(b[i]);

        if (d)
            return d;
    }
    return a[0] - b[0];
}

/* Offsets of the labels, first to last; returns how many. */
static unsigned offsets(const struct sw_dns_name *name, uint8_t out[128])
{
    unsigned k = 0;

    for (size_t i = 0; name->b[i]; i += 1u + name->b[i])
        out[k++] = (uint8_t)i;
    return k;
}

int sw_dns_name_cmp(const struct sw_dns_name *a, const struct sw_dns_name *b)
{
    uint8_t ao[128];
    uint8_t bo[128];
    unsigned i = offsets(a, ao);
    unsigned j = offsets(b, bo);

    while (i && j) {
        int d = label_cmp(a->b + ao[--i], b->b + bo[--j]);

        if (d)
            return d;
    }
    return (int)i - (int)j;
}

void *sw_dns_name_find(const struct sw_map *table, const struct sw_dns_name *name,
                       struct sw_dns_name *ret_key)
{
    *ret_key = *name;
    sw_dns_name_lower(ret_key);
    return sw_map_get(table, sw_dns_name_bytes(ret_key));
}
