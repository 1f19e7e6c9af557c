/* SPDX-License-Identifier: Apache-2.0 */
#include "xds/res.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/hex.h"
#include "base/mem.h"
#include "proto/pb.h"

/* Field numbers of Any and envoy.service.discovery.v3.Resource. */
enum {
    ANY_TYPE_URL = 1,
    ANY_VALUE = 2,
    RESOURCE_VERSION = 1,
    RESOURCE_RESOURCE = 2,
    RESOURCE_NAME = 3,
    RESOURCE_ALIASES = 4,
};

/* Versions outlive the process (clients send them when they reconnect), so the keys are fixed. */
static void hash_into(struct sw_slice a, uint64_t h[2])
{
    uint64_t h0 = sw_siphash13(h[0], h[1], a.p, a.n);

    h[1] = sw_siphash13(h[1] ^ UINT64_C(0x9e3779b97f4a7c15), h0, a.p, a.n);
    h[0] = h0;
}

void sw_xds_version_text(const uint64_t h[2], char out[SW_XDS_VERSION_LEN + 1])
{
    for (int i = 0; i < SW_XDS_VERSION_LEN; i++)
        out[i] = sw_hex_lower((unsigned)(h[i / 16] >> (60 - 4 * (i % 16)) & 15));
    out[SW_XDS_VERSION_LEN] = 0;
}

static size_t any_size(struct sw_slice type, struct sw_slice value)
{
    /* An empty message is an empty value, which proto3 leaves out. */
    return sw_pb_bytes_size(ANY_TYPE_URL, type.n) +
           (value.n ? sw_pb_bytes_size(ANY_VALUE, value.n) : 0);
}

static int put_any(struct sw_buf *b, struct sw_slice type, struct sw_slice value)
{
    if (sw_pb_put_bytes(b, ANY_TYPE_URL, type) != SW_OK)
        return SW_ELIMIT;
    return value.n ? sw_pb_put_bytes(b, ANY_VALUE, value) : SW_OK;
}

static size_t extra_size(const struct sw_xds_extra *x)
{
    size_t n = x->node.n;

    for (size_t i = 0; i < x->n_aliases; i++)
        n += sw_pb_bytes_size(RESOURCE_ALIASES, x->aliases[i].n);
    for (size_t i = 0; i < x->n_services; i++)
        n += x->services[i].n;
    return n;
}

/* The last n bytes written. */
static struct sw_slice last(const struct sw_buf *b, size_t n)
{
    return sw_slice(b->p + b->n - n, n);
}

static bool put_resource(struct sw_xds_res *r, struct sw_buf *b, struct sw_slice type,
                         struct sw_slice name, struct sw_slice value)
{
    size_t any = any_size(type, value);
    char version[SW_XDS_VERSION_LEN + 1];
    bool ok;

    hash_into(value, r->mix);
    sw_xds_version_text(r->mix, version);
    hash_into(name, r->mix);
    ok = sw_pb_put_bytes(b, RESOURCE_VERSION, sw_slice_str(version)) == SW_OK;
    r->version = last(b, SW_XDS_VERSION_LEN);
    ok = ok && sw_pb_put_head(b, RESOURCE_RESOURCE, any) == SW_OK;
    ok = ok && put_any(b, type, value) == SW_OK;
    r->any = last(b, any);
    r->value = last(b, value.n);
    ok = ok && sw_pb_put_bytes(b, RESOURCE_NAME, name) == SW_OK;
    r->name = last(b, name.n);
    r->resource = sw_slice(b->p, b->n);
    return ok;
}

static bool put_extra(struct sw_xds_res *r, struct sw_buf *b, const struct sw_xds_extra *x)
{
    bool ok = true;

    for (size_t i = 0; i < x->n_aliases; i++) {
        ok = ok && sw_pb_put_bytes(b, RESOURCE_ALIASES, x->aliases[i]) == SW_OK;
        r->extra[r->n_aliases++] = last(b, x->aliases[i].n);
    }
    r->aliased = sw_slice(b->p, b->n);
    for (size_t i = 0; i < x->n_services; i++) {
        ok = ok && sw_buf_append_slice(b, x->services[i]) == SW_OK;
        r->extra[r->n_aliases + r->n_services++] = last(b, x->services[i].n);
    }
    ok = ok && sw_buf_append_slice(b, x->node) == SW_OK;
    r->node = last(b, x->node.n);
    return ok;
}

/* One piece of memory: the struct, the list of slices, the bytes they point to. */
struct sw_xds_res *sw_xds_res_new(struct sw_slice type, struct sw_slice name, struct sw_slice value,
                                  const struct sw_xds_extra *x)
{
    const struct sw_xds_extra none = {0};
    const struct sw_xds_extra *e = x ? x : &none;
    size_t total = sw_pb_bytes_size(RESOURCE_VERSION, SW_XDS_VERSION_LEN) +
                   sw_pb_bytes_size(RESOURCE_RESOURCE, any_size(type, value)) +
                   sw_pb_bytes_size(RESOURCE_NAME, name.n) + extra_size(e);
    size_t list = (e->n_aliases + e->n_services) * sizeof(struct sw_slice);
    struct sw_xds_res *r = sw_malloc(sizeof(*r) + list + total);
    struct sw_buf b = {.p = (char *)(r + 1) + list, .cap = total, .max = total};

    memset(r, 0, sizeof(*r) + list);
    r->refs = 1;
    if (!put_resource(r, &b, type, name, value) || !put_extra(r, &b, e) || b.n != total)
        abort(); /* the sizes above are exact */
    return r;
}

struct sw_xds_res *sw_xds_res_ref(struct sw_xds_res *r)
{
    r->refs++;
    return r;
}

void sw_xds_res_unref(struct sw_xds_res *r)
{
    if (!r || --r->refs > 0)
        return;
    sw_free(r);
}
