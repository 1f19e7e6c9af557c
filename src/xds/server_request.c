/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for large types. A client that reconnects names everything it holds, which is too much
 * to unpack: the list is read in place.
 */
#include "base/time.h"
#include "proto/pb.h"
#include "xds/server_int.h"
#include "xds/table.h"

#include <proto/discovery.pb-c.h>

enum {
    FIELD_TYPE = 2,
    FIELD_INITIAL = 5,
    FIELD_KEY = 1,
    FIELD_VALUE = 2,
};

/* How long a client that reconnects has to subscribe to what is sent first. */
static const uint64_t patience_ns = 300 * SW_NS_PER_MS;

bool xds_request_is_large(struct sw_slice msg)
{
    struct sw_slice type = {0};
    struct sw_pb_field f;

    while (msg.n) {
        if (sw_pb_next(&msg, &f) != SW_OK)
            return false;
        if (f.number == FIELD_TYPE)
            type = f.bytes;
    }
    return xds_table_for(type);
}

int xds_request_strip(struct sw_slice msg, struct sw_buf *out)
{
    while (msg.n) {
        struct sw_slice at = msg;
        struct sw_pb_field f;
        int rc = sw_pb_next(&msg, &f);

        if (rc == SW_OK && f.number != FIELD_INITIAL)
            rc = sw_buf_append(out, at.p, at.n - msg.n);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

static int read_entry(struct sw_slice entry, struct sw_slice *key, struct sw_slice *value)
{
    *key = (struct sw_slice){0};
    *value = (struct sw_slice){0};
    while (entry.n) {
        struct sw_pb_field f;

        if (sw_pb_next(&entry, &f) != SW_OK)
            return SW_EPROTO;
        if (f.number == FIELD_KEY && f.bytes.p)
            *key = f.bytes;
        else if (f.number == FIELD_VALUE && f.bytes.p)
            *value = f.bytes;
    }
    return SW_OK;
}

/* *ret: how many there are. */
static int read_initial(struct xds_sub *u, struct sw_slice msg, size_t *ret)
{
    *ret = 0;
    while (msg.n) {
        struct sw_slice key;
        struct sw_slice value;
        struct sw_pb_field f;
        int rc = sw_pb_next(&msg, &f);

        if (rc != SW_OK)
            return rc;
        if (f.number != FIELD_INITIAL || !f.bytes.p)
            continue;
        rc = read_entry(f.bytes, &key, &value);
        if (rc == SW_OK)
            rc = xds_follow_holds(u, key, value);
        if (rc != SW_OK)
            return rc;
        ++*ret;
    }
    return SW_OK;
}

static bool has_star(const ProtobufCBinaryData *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (names[i].len == 1 && names[i].data[0] == '*')
            return true;
    }
    return false;
}

/* The first request decides between all and on demand. */
static int join(struct xds_sub *u, const Sw__DeltaDiscoveryRequest *req, struct sw_slice msg)
{
    bool star = req->n_resource_names_subscribe == 0 ||
                has_star(req->resource_names_subscribe, req->n_resource_names_subscribe);
    bool unstar = has_star(req->resource_names_unsubscribe, req->n_resource_names_unsubscribe);
    size_t n;
    int rc;

    xds_follow_join(u, star && !unstar);
    rc = read_initial(u, msg, &n);
    if (rc == SW_OK && n && !u->wildcard)
        rc = xds_follow_resume(u);
    if (rc == SW_OK && n && u->wildcard && !u->kind->removed_last)
        u->follow->patient_ns = sw_loop_now(u->stream->server->loop) + patience_ns;
    return rc;
}

/* Later ones may change it. "*" in both lists is on demand. */
static void rejoin(struct xds_sub *u, const Sw__DeltaDiscoveryRequest *req)
{
    bool star = has_star(req->resource_names_subscribe, req->n_resource_names_subscribe);
    bool unstar = has_star(req->resource_names_unsubscribe, req->n_resource_names_unsubscribe);

    if (unstar && u->wildcard)
        xds_follow_join(u, false);
    else if (star && !unstar && !u->wildcard)
        xds_follow_join(u, true);
}

static int subscribe(struct xds_sub *u, const Sw__DeltaDiscoveryRequest *req)
{
    for (size_t i = 0; i < req->n_resource_names_subscribe; i++) {
        struct sw_slice name = SW_PB_SLICE(req->resource_names_subscribe[i]);
        int rc = sw_slice_eq_str(name, "*") ? SW_OK : xds_follow_ask(u, name, false);

        if (rc != SW_OK)
            return rc;
    }
    for (size_t i = 0; i < req->n_resource_names_unsubscribe; i++)
        xds_sub_drop(u, SW_PB_SLICE(req->resource_names_unsubscribe[i]));
    return SW_OK;
}

int xds_request_follow(struct xds_sub *u, const Sw__DeltaDiscoveryRequest *req, struct sw_slice msg,
                       bool fresh)
{
    int rc = SW_OK;

    if (fresh)
        rc = join(u, req, msg);
    else
        rejoin(u, req);
    return rc == SW_OK ? subscribe(u, req) : rc;
}
