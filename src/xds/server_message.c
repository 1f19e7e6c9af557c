/* SPDX-License-Identifier: Apache-2.0 */
/* A response, put together from resources that are encoded already. */
#include <stdio.h>

#include "base/log.h"
#include "proto/pb.h"
#include "xds/server_int.h"

/* Field numbers, the same in both responses; only the delta one has removals. */
enum {
    FIELD_VERSION = 1,
    FIELD_RESOURCES = 2,
    FIELD_TYPE = 4,
    FIELD_NONCE = 5,
    FIELD_REMOVED = 6,
};

void xds_msg_init(struct xds_msg *r, const char *version, size_t max)
{
    *r = (struct xds_msg){.version = version};
    sw_list_init(&r->names);
    sw_buf_init(&r->buf, max);
    sw_buf_init(&r->removed, max);
    if (sw_pb_put_bytes(&r->buf, FIELD_VERSION, sw_slice_str(version)) != SW_OK)
        r->full = true;
}

void xds_msg_done(struct xds_msg *r)
{
    sw_buf_done(&r->buf);
    sw_buf_done(&r->removed);
    sw_map_done(&r->answered);
    xds_names_done(&r->names);
}

void xds_msg_put(struct xds_msg *r, struct sw_slice resource)
{
    r->n++;
    if (sw_pb_put_bytes(&r->buf, FIELD_RESOURCES, resource) != SW_OK)
        r->full = true;
}

void xds_msg_remove(struct xds_msg *r, struct sw_slice name)
{
    r->n++;
    if (sw_pb_put_bytes(&r->removed, FIELD_REMOVED, name) != SW_OK)
        r->full = true;
}

size_t xds_msg_size(const struct xds_msg *r)
{
    return sw_buf_len(&r->buf) + sw_buf_len(&r->removed);
}

static void count_sent(const struct xds_sub *u, size_t bytes)
{
    struct sw_metrics_shard *m = u->stream->server->o.metrics;

    if (!m)
        return;
    sw_metric_add(sw_metric_get1(m, SW_METRIC_XDS_RESPONSES, xds_sub_label(u)), 1);
    sw_metric_add(sw_metric_get1(m, SW_METRIC_XDS_RESPONSE_BYTES, xds_sub_label(u)), bytes);
}

/* Version first, then type and nonce behind the resources: the order of the field numbers. */
bool xds_msg_send(struct xds_sub *u, struct xds_msg *r)
{
    struct xds_stream *st = u->stream;
    char nonce[24];
    int rc;

    (void)snprintf(nonce, sizeof(nonce), "%llu", (unsigned long long)++st->last_nonce);
    r->full = r->full || sw_pb_put_bytes(&r->buf, FIELD_TYPE, sw_slice_str(u->url)) != SW_OK ||
              sw_pb_put_bytes(&r->buf, FIELD_NONCE, sw_slice_str(nonce)) != SW_OK ||
              sw_buf_append_slice(&r->buf, sw_buf_slice(&r->removed)) != SW_OK;
    rc = r->full ? SW_ELIMIT : sw_grpc_send(st->call, sw_buf_slice(&r->buf));
    if (rc != SW_OK) {
        sw_log_limited(&st->server->clients, sw_loop_now(st->server->loop), SW_LOG_WARN, "xds",
                       "response for type %s is too large for client '%.*s'", u->url,
                       SW_SLICE_ARG(st->node_id));
        xds_count_refusal(st->server, SW_GRPC_RESOURCE_EXHAUSTED);
        sw_grpc_finish(st->call, SW_GRPC_RESOURCE_EXHAUSTED, "response is too large");
        return false;
    }
    count_sent(u, sw_buf_len(&r->buf));
    u->pending = true;
    u->answer = false;
    u->nonce = st->last_nonce;
    u->sent_ns = sw_loop_now(st->server->loop);
    (void)snprintf(u->sent, sizeof(u->sent), "%s", r->version);
    return true;
}
