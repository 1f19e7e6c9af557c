/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A delta response read in place. It may have a hundred thousand resources: nothing of them is
 * copied, and the lists that point to them are counted first and allocated once.
 */
#include "proto/pb.h"
#include "xds/client_int.h"

/* Of envoy.service.discovery.v3. */
enum {
    RESPONSE_RESOURCES = 2,
    RESPONSE_TYPE_URL = 4,
    RESPONSE_NONCE = 5,
    RESPONSE_REMOVED = 6,
    RESOURCE_VERSION = 1,
    RESOURCE_ANY = 2,
    RESOURCE_NAME = 3,
    RESOURCE_ALIASES = 4,
    ANY_TYPE_URL = 1,
    ANY_VALUE = 2,
};

/* Fields that are read, a bit for each; all of them hold bytes. */
enum {
    OF_RESPONSE = 1 << RESPONSE_RESOURCES | 1 << RESPONSE_TYPE_URL | 1 << RESPONSE_NONCE |
                  1 << RESPONSE_REMOVED,
    OF_RESOURCE =
        1 << RESOURCE_VERSION | 1 << RESOURCE_ANY | 1 << RESOURCE_NAME | 1 << RESOURCE_ALIASES,
    OF_ANY = 1 << ANY_TYPE_URL | 1 << ANY_VALUE,
};

/* What the lists need, and then where the next entry goes. */
struct lists {
    struct sw_xds_item *items;
    struct sw_slice *aliases;
    struct sw_slice *removed;
    size_t n_items;
    size_t n_aliases;
    size_t n_removed;
};

static int malformed(struct sw_err *err, const char *what)
{
    return sw_err_set(err, SW_EPROTO, "malformed message '%s'", what);
}

/* The next field that is one of 'known'; *ret is 0 at the end. */
static int next(struct sw_slice *in, unsigned known, struct sw_slice *bytes, unsigned *ret)
{
    struct sw_pb_field f;

    *ret = 0;
    while (in->n) {
        if (sw_pb_next(in, &f) != SW_OK)
            return SW_EPROTO;
        if (f.number > RESPONSE_REMOVED || !(known >> f.number & 1))
            continue;
        if (!f.bytes.p)
            return SW_EPROTO;
        *ret = f.number;
        *bytes = f.bytes;
        return SW_OK;
    }
    return SW_OK;
}

static int read_any(struct sw_slice in, struct sw_xds_item *it, struct sw_err *err)
{
    struct sw_slice bytes;
    unsigned field;

    while (next(&in, OF_ANY, &bytes, &field) == SW_OK) {
        if (field == ANY_TYPE_URL)
            it->type = bytes;
        else if (field == ANY_VALUE)
            it->value = bytes;
        else
            return SW_OK;
    }
    return malformed(err, "Any");
}

/* Without an Any it is a sign of life of something we hold, and not an entry. */
static int read_resource(struct sw_slice in, struct lists *l, struct sw_err *err)
{
    struct sw_xds_item it = {.name = sw_slice("", 0), .version = sw_slice("", 0)};
    struct sw_slice bytes;
    unsigned field = 1;
    bool has_any = false;

    it.type = it.value = it.name;
    it.aliases = l->aliases + l->n_aliases;
    while (field) {
        if (next(&in, OF_RESOURCE, &bytes, &field) != SW_OK)
            return malformed(err, "Resource");
        if (field == RESOURCE_VERSION)
            it.version = bytes;
        if (field == RESOURCE_NAME)
            it.name = bytes;
        if (field == RESOURCE_ALIASES)
            l->aliases[l->n_aliases++] = bytes;
        if (field != RESOURCE_ANY)
            continue;
        has_any = true;
        if (read_any(bytes, &it, err) != SW_OK)
            return SW_EPROTO;
    }
    it.n_aliases = (size_t)(l->aliases + l->n_aliases - it.aliases);
    if (has_any)
        l->items[l->n_items++] = it;
    return SW_OK;
}

static int count_aliases(struct sw_slice in, struct lists *l, struct sw_err *err)
{
    struct sw_slice bytes;
    unsigned field = 1;

    while (field) {
        if (next(&in, OF_RESOURCE, &bytes, &field) != SW_OK)
            return malformed(err, "Resource");
        l->n_aliases += field == RESOURCE_ALIASES;
    }
    return SW_OK;
}

static int count(struct sw_slice in, struct xc_update *ret, struct lists *l, struct sw_err *err)
{
    struct sw_slice bytes;
    unsigned field = 1;
    int rc = SW_OK;

    while (field && rc == SW_OK) {
        if (next(&in, OF_RESPONSE, &bytes, &field) != SW_OK)
            return malformed(err, "DeltaDiscoveryResponse");
        if (field == RESPONSE_TYPE_URL)
            ret->u.type = bytes;
        if (field == RESPONSE_NONCE)
            ret->nonce = bytes;
        l->n_removed += field == RESPONSE_REMOVED;
        if (field != RESPONSE_RESOURCES)
            continue;
        l->n_items++;
        rc = count_aliases(bytes, l, err);
    }
    return rc;
}

static int fill(struct sw_slice in, struct lists *l, struct sw_err *err)
{
    struct sw_slice bytes;
    unsigned field = 1;
    int rc = SW_OK;

    while (field && rc == SW_OK) {
        rc = next(&in, OF_RESPONSE, &bytes, &field);
        if (field == RESPONSE_REMOVED)
            l->removed[l->n_removed++] = bytes;
        else if (field == RESPONSE_RESOURCES)
            rc = read_resource(bytes, l, err);
    }
    return rc;
}

int xc_update_read(struct sw_arena *a, struct sw_slice msg, size_t memory, struct xc_update *ret,
                   struct sw_err *err)
{
    struct lists l = {0};
    int rc;

    *ret = (struct xc_update){.u.type = sw_slice("", 0), .nonce = sw_slice("", 0)};
    rc = count(msg, ret, &l, err);
    if (rc != SW_OK)
        return rc;
    if (l.n_items * sizeof(*l.items) + (l.n_aliases + l.n_removed) * sizeof(struct sw_slice) >
        memory)
        return sw_err_set(err, SW_ELIMIT, "a response takes too much memory");
    l.items = sw_arena_array(a, l.n_items, sizeof(*l.items));
    l.aliases = sw_arena_array(a, l.n_aliases, sizeof(*l.aliases));
    l.removed = sw_arena_array(a, l.n_removed, sizeof(*l.removed));
    l.n_items = l.n_aliases = l.n_removed = 0;
    rc = fill(msg, &l, err);
    ret->u.added = l.items;
    ret->u.n_added = l.n_items;
    ret->u.removed = l.removed;
    ret->u.n_removed = l.n_removed;
    return rc;
}
