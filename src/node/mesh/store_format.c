/* SPDX-License-Identifier: Apache-2.0 */
/* The format of what is stored: snapshots to bytes and back. */
#include <stdio.h>

#include "node/mesh/mesh.h"
#include "node/mesh/store.h"
#include "node/state/state_int.h"
#include "policy/pack.h"
#include "proto/pb.h"
#include "proto/types.h"

#include <proto/discovery.pb-c.h>

#define MAGIC "spanwire mesh 1\n"

enum {
    FRAME_MAX = 64 << 20,
    FRAME_FULL = 256 << 10, /* a frame is closed when it has so many bytes */
    RESOURCE_FIELD = 2,     /* of a DeltaDiscoveryResponse */
    TYPE_FIELD = 4,
    NONCE_FIELD = 5,
};

/* ---- writing ---- */

struct writer {
    struct sw_buf *out;
    struct sw_buf frame;
    struct sw_arena a; /* for one resource */
    const char *type;  /* of the frame */
    uint64_t n;
    int rc;
};

static void close_frame(struct writer *w)
{
    uint32_t n = (uint32_t)sw_buf_len(&w->frame);
    const uint8_t head[4] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};

    if (w->rc == SW_OK && n)
        w->rc = sw_buf_append(w->out, head, sizeof(head));
    if (w->rc == SW_OK && n)
        w->rc = sw_buf_append_slice(w->out, sw_buf_slice(&w->frame));
    sw_buf_clear(&w->frame);
}

static void put_resource(struct writer *w, struct sw_slice name, struct sw_slice version,
                         struct sw_slice value)
{
    Sw__Resource *r = SW_PB_NEW(&w->a, Sw__Resource, sw__resource);

    r->name = SW_PB_BYTES(name);
    r->version = SW_PB_BYTES(version);
    r->resource = SW_PB_NEW(&w->a, Sw__Any, sw__any);
    r->resource->value = SW_PB_BYTES(value);
    if (sw_buf_len(&w->frame) == 0 && w->rc == SW_OK)
        w->rc = sw_pb_put_bytes(&w->frame, TYPE_FIELD, sw_slice_str(w->type));
    if (w->rc == SW_OK)
        w->rc = sw_pb_put_bytes(&w->frame, RESOURCE_FIELD, sw_pb_pack(&w->a, &r->base));
    w->n++;
    sw_arena_reset(&w->a, FRAME_FULL);
    if (sw_buf_len(&w->frame) > FRAME_FULL)
        close_frame(w);
}

static void put_all(struct writer *w, const struct sw_state_tables *t)
{
    w->type = SW_TYPE_AUTHORIZATION;
    SW_SMAP_EACH (const struct sw_shared_policy, p, &t->by_policy)
        put_resource(w, p->p->key, p->version, sw_policy_pack(&w->a, p->p));
    close_frame(w);
    w->type = SW_TYPE_ADDRESS;
    SW_SMAP_EACH (const struct sw_service, s, &t->by_service)
        put_resource(w, sw_slice(s->ns.p, s->ns.n + 1 + s->hostname.n), s->version,
                     sw_mesh_write_service(s, &w->a));
    SW_SMAP_EACH (const struct sw_workload, wl, &t->by_uid)
        put_resource(w, sw_workload_uid(wl, &w->a), sw_workload_version(wl, &w->a),
                     sw_mesh_write_workload(wl, &w->a));
    close_frame(w);
}

int sw_mesh_stored_write(const struct sw_state *state, struct sw_buf *out)
{
    struct writer w = {.out = out};
    char count[24];

    sw_buf_init(&w.frame, FRAME_MAX);
    w.rc = sw_buf_append_str(out, MAGIC);
    put_all(&w, &state->t);
    (void)snprintf(count, sizeof(count), "%llu", (unsigned long long)w.n);
    if (w.rc == SW_OK)
        w.rc = sw_pb_put_bytes(&w.frame, NONCE_FIELD, sw_slice_str(count));
    close_frame(&w);
    sw_buf_done(&w.frame);
    sw_arena_clear(&w.a);
    return w.rc;
}

/* ---- reading ---- */

static int take_frame(const Sw__DeltaDiscoveryResponse *r, struct sw_state_builder *b,
                      struct sw_err *err)
{
    bool policies = sw_slice_eq_str(SW_PB_SLICE(r->type_url), SW_TYPE_AUTHORIZATION);
    SW_ARENA_AUTO scratch = {0};
    int rc = SW_OK;

    if (!policies && !sw_slice_eq_str(SW_PB_SLICE(r->type_url), SW_TYPE_ADDRESS))
        return sw_err_set(err, SW_EPROTO, "resources of an unknown type");
    for (size_t i = 0; i < r->n_resources && rc == SW_OK; i++) {
        const Sw__Resource *from = r->resources[i];
        struct sw_mesh_item it = {.name = SW_PB_SLICE(from->name),
                                  .version = SW_PB_SLICE(from->version)};

        if (from->resource)
            it.value = SW_PB_SLICE(from->resource->value);
        rc = policies ? sw_mesh_put_policy(b, &it, &scratch, err)
                      : sw_mesh_put_address(b, &it, &scratch, err);
        sw_arena_reset(&scratch, FRAME_FULL);
    }
    return rc;
}

static bool is_count(const Sw__DeltaDiscoveryResponse *r, uint64_t n)
{
    uint64_t count;

    return r->n_resources == 0 && sw_slice_to_u64(SW_PB_SLICE(r->nonce), UINT64_MAX, &count) &&
           count == n;
}

static int read_frame(struct sw_slice *file, struct sw_slice *ret, struct sw_err *err)
{
    const uint8_t *p = (const uint8_t *)file->p;
    size_t n;

    if (file->n < 4)
        return sw_err_set(err, SW_EPROTO, "cut off");
    n = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
    if (n > FRAME_MAX || n > file->n - 4)
        return sw_err_set(err, SW_EPROTO, "cut off");
    *ret = sw_slice(p + 4, n);
    *file = sw_slice_from(*file, n + 4);
    return SW_OK;
}

int sw_mesh_stored_read(struct sw_slice file, struct sw_state_builder *b, struct sw_err *err)
{
    static const struct sw_pb_limits limits = {.bytes = FRAME_MAX, .memory = (size_t)8 * FRAME_MAX};
    uint64_t n = 0;

    if (!sw_slice_has_prefix(file, SW_SLICE_LIT(MAGIC)))
        return sw_err_set(err, SW_EPROTO, "not a stored state of this version");
    file = sw_slice_from(file, sizeof(MAGIC) - 1);
    for (;;) {
        SW_ARENA_AUTO a = {0};
        const Sw__DeltaDiscoveryResponse *r;
        struct sw_slice frame;
        int rc = read_frame(&file, &frame, err);

        if (rc != SW_OK)
            return rc;
        r = SW_PB_UNPACK(&a, Sw__DeltaDiscoveryResponse, sw__delta_discovery_response, frame,
                         &limits, err);
        if (!r)
            return err->rc;
        if (r->nonce.len)
            return is_count(r, n) && file.n == 0 ? SW_OK : sw_err_set(err, SW_EPROTO, "cut off");
        rc = take_frame(r, b, err);
        if (rc != SW_OK)
            return rc;
        n += r->n_resources;
    }
}
