/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the owner of a connection sends: heads, bodies, trailers, resets, credit, PING and GOAWAY.
 * All of it is queued in nghttp2 and leaves with the next flush (h2.c).
 */
#include "http/h2_int.h"

#include <string.h>

#include <nghttp2/nghttp2.h>

#include "base/mem.h"

enum { DEFAULT_PEER_STREAMS = 100 /* until the peer's SETTINGS arrive */ };

/* Usually few and short fields: on the stack in nghttp2's shape; longer lists on the heap. */
enum {
    SEND_FIELDS_MAX = 32,
    TRAILERS_MAX = 256, /* as many as are taken from a peer */
};

static nghttp2_nv *nv_room(nghttp2_nv *few, size_t n)
{
    return n <= SEND_FIELDS_MAX ? few : SW_NEW_ARRAY(nghttp2_nv, n);
}

static void nv_done(const nghttp2_nv *few, nghttp2_nv *used)
{
    if (used != few)
        sw_free(used);
}

static size_t to_ng(const struct sw_h2_header *fields, size_t n, nghttp2_nv *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = (nghttp2_nv){.namelen = fields[i].name.n, .valuelen = fields[i].value.n};
        memcpy(&out[i].name, &fields[i].name.p, sizeof(out[i].name));
        memcpy(&out[i].value, &fields[i].value.p, sizeof(out[i].value));
    }
    return n;
}

/* True: the stream ends with these instead of its last DATA frame. */
static bool submit_trailers(struct sw_h2 *h, int32_t id)
{
    __attribute__((uninitialized)) struct sw_h2_header fields[TRAILERS_MAX]; /* 8 kB */
    __attribute__((uninitialized)) nghttp2_nv nv[TRAILERS_MAX];              /* 10 kB */
    size_t n = 0;

    if (h->ops->trailers)
        n = h->ops->trailers(h, id, nghttp2_session_get_stream_user_data(h->ng, id), fields,
                             TRAILERS_MAX);
    return n && nghttp2_submit_trailer(h->ng, id, nv, to_ng(fields, n, nv)) == 0;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is nghttp2's */
static ssize_t on_pull(nghttp2_session *ng, int32_t id, uint8_t *buf, size_t max,
                       uint32_t *data_flags, nghttp2_data_source *source, void *arg)
{
    struct sw_h2 *h = arg;
    bool end = false;
    ssize_t n = h->ops->pull(h, id, nghttp2_session_get_stream_user_data(ng, id), max, &end);

    if (n == SW_EAGAIN)
        return NGHTTP2_ERR_DEFERRED;
    if (n < 0)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    *data_flags = NGHTTP2_DATA_FLAG_NO_COPY;
    if (end)
        *data_flags |= NGHTTP2_DATA_FLAG_EOF;
    if (end && submit_trailers(h, id))
        *data_flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    return n;
}

int32_t sw_h2_request(struct sw_h2 *h, const struct sw_h2_header *fields, size_t n, bool end,
                      void *stream, struct sw_err *err)
{
    nghttp2_data_provider body = {.read_callback = on_pull};
    nghttp2_nv few[SEND_FIELDS_MAX];
    nghttp2_nv *nv = nv_room(few, n);
    int32_t id =
        nghttp2_submit_request(h->ng, NULL, nv, to_ng(fields, n, nv), end ? NULL : &body, stream);

    nv_done(few, nv);
    if (id >= 0)
        return id;
    return sw_err_set(err, id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE ? SW_ELIMIT : SW_ECLOSED,
                      "HTTP/2: %s", nghttp2_strerror(id));
}

int sw_h2_respond(struct sw_h2 *h, int32_t id, const struct sw_h2_header *fields, size_t n,
                  bool end, struct sw_err *err)
{
    nghttp2_data_provider body = {.read_callback = on_pull};
    nghttp2_nv few[SEND_FIELDS_MAX];
    nghttp2_nv *nv = nv_room(few, n);
    int rc = nghttp2_submit_response(h->ng, id, nv, to_ng(fields, n, nv), end ? NULL : &body);

    nv_done(few, nv);
    if (rc != 0)
        return sw_err_set(err, SW_ECLOSED, "HTTP/2: %s", nghttp2_strerror(rc));
    return SW_OK;
}

int sw_h2_inform(struct sw_h2 *h, int32_t id, const struct sw_h2_header *fields, size_t n,
                 struct sw_err *err)
{
    nghttp2_nv few[SEND_FIELDS_MAX];
    nghttp2_nv *nv = nv_room(few, n);
    int rc =
        nghttp2_submit_headers(h->ng, NGHTTP2_FLAG_NONE, id, NULL, nv, to_ng(fields, n, nv), NULL);

    nv_done(few, nv);
    if (rc < 0)
        return sw_err_set(err, SW_ECLOSED, "HTTP/2: %s", nghttp2_strerror(rc));
    return SW_OK;
}

void sw_h2_set_stream(struct sw_h2 *h, int32_t id, void *stream)
{
    (void)nghttp2_session_set_stream_user_data(h->ng, id, stream);
}

void sw_h2_resume(struct sw_h2 *h, int32_t id)
{
    (void)nghttp2_session_resume_data(h->ng, id);
}

void sw_h2_reset(struct sw_h2 *h, int32_t id, enum sw_h2_code code)
{
    (void)nghttp2_submit_rst_stream(h->ng, NGHTTP2_FLAG_NONE, id, (uint32_t)code);
}

void sw_h2_consume_stream(struct sw_h2 *h, int32_t id, size_t n)
{
    (void)nghttp2_session_consume_stream(h->ng, id, n);
}

/*
 * nghttp2 would return credit by halves of the whole window, which never come together again once
 * more than half of it is withheld. Here it is half of what the withheld bytes leave.
 */
void sw_h2_consume_connection(struct sw_h2 *h, size_t n)
{
    int32_t unacknowledged = nghttp2_session_get_effective_recv_data_length(h->ng);
    size_t credit;

    h->unpassed -= sw_min(n, h->unpassed);
    if (unacknowledged <= 0 || (size_t)unacknowledged <= h->unpassed)
        return;
    credit = (size_t)unacknowledged - h->unpassed;
    if (credit >= sw_h2_receive_window(h))
        (void)nghttp2_submit_window_update(h->ng, NGHTTP2_FLAG_NONE, 0, (int32_t)credit);
}

size_t sw_h2_receive_window(const struct sw_h2 *h)
{
    int32_t left = nghttp2_session_get_local_window_size(h->ng);

    return left > 0 ? (size_t)left : 0;
}

size_t sw_h2_connection_window(const struct sw_h2 *h)
{
    int32_t left = nghttp2_session_get_remote_window_size(h->ng);

    return left > 0 ? (size_t)left : 0;
}

size_t sw_h2_send_window(const struct sw_h2 *h, int32_t id)
{
    int32_t conn = nghttp2_session_get_remote_window_size(h->ng);
    int32_t stream = nghttp2_session_get_stream_remote_window_size(h->ng, id);

    return conn <= 0 || stream <= 0 ? 0 : sw_min((size_t)conn, (size_t)stream);
}

uint32_t sw_h2_peer_max_streams(const struct sw_h2 *h)
{
    if (!h->settings_seen)
        return DEFAULT_PEER_STREAMS;
    return nghttp2_session_get_remote_settings(h->ng, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

void sw_h2_ping(struct sw_h2 *h)
{
    (void)nghttp2_submit_ping(h->ng, NGHTTP2_FLAG_NONE, NULL);
}

void sw_h2_shutdown_notice(struct sw_h2 *h)
{
    if (h->config.server)
        (void)nghttp2_submit_shutdown_notice(h->ng);
}

void sw_h2_goaway(struct sw_h2 *h, enum sw_h2_code code)
{
    (void)nghttp2_submit_goaway(h->ng, NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(h->ng), (uint32_t)code,
                                NULL, 0);
}
