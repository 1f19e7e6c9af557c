/* SPDX-License-Identifier: Apache-2.0 */
#include "zds/zds.h"

#include <proto/zds.pb-c.h>

#include "proto/pb.h"

enum { ERROR_MAX = 900 };

static const struct sw_pb_limits limits = {
    .bytes = SW_ZDS_PACKET_MAX, .memory = 64 << 10, .depth = 4};

static bool text_ok(struct sw_slice s, size_t max)
{
    if (s.n == 0 || s.n > max)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if ((unsigned char)s.p[i] <= 0x20 || (unsigned char)s.p[i] >= 0x7f)
            return false;
    }
    return true;
}

static int take_uid(struct sw_zds_request *r, struct sw_slice uid, struct sw_err *err)
{
    if (uid.n == 0)
        return sw_err_set(err, SW_EPROTO, "request without a uid");
    if (!text_ok(uid, SW_ZDS_UID_MAX))
        return sw_err_set(err, SW_EINVAL, "uid is longer than %d bytes or not plain text",
                          SW_ZDS_UID_MAX);
    r->uid = uid;
    return SW_OK;
}

static int take_add(struct sw_zds_request *r, const Sw__ZdsAddWorkload *add, struct sw_err *err)
{
    const Sw__ZdsWorkloadInfo *i = add->workload_info;

    if (!i)
        return sw_err_set(err, SW_EPROTO, "AddWorkload without workload_info");
    r->ns = SW_PB_SLICE(i->namespace_);
    r->name = SW_PB_SLICE(i->name);
    r->sa = SW_PB_SLICE(i->service_account);
    if (!text_ok(r->ns, SW_ZDS_NAME_MAX) || !text_ok(r->name, SW_ZDS_NAME_MAX) ||
        !text_ok(r->sa, SW_ZDS_NAME_MAX))
        return sw_err_set(err, SW_EINVAL,
                          "name, namespace or service account is empty, too long or not plain "
                          "text");
    return take_uid(r, SW_PB_SLICE(add->uid), err);
}

int sw_zds_request_decode(struct sw_arena *a, struct sw_slice in, struct sw_zds_request *ret,
                          struct sw_err *err)
{
    const Sw__ZdsWorkloadRequest *m =
        SW_PB_UNPACK(a, Sw__ZdsWorkloadRequest, sw__zds_workload_request, in, &limits, err);
    struct sw_zds_request r = {0};
    int rc = SW_OK;

    if (!m)
        return SW_EPROTO;
    switch ((int)m->payload_case) {
    case SW__ZDS_WORKLOAD_REQUEST__PAYLOAD_ADD:
        r.kind = SW_ZDS_ADD;
        rc = take_add(&r, m->add, err);
        break;
    case SW__ZDS_WORKLOAD_REQUEST__PAYLOAD_KEEP:
        r.kind = SW_ZDS_KEEP;
        rc = take_uid(&r, SW_PB_SLICE(m->keep->uid), err);
        break;
    case SW__ZDS_WORKLOAD_REQUEST__PAYLOAD_DEL:
        r.kind = SW_ZDS_DEL;
        rc = take_uid(&r, SW_PB_SLICE(m->del->uid), err);
        break;
    case SW__ZDS_WORKLOAD_REQUEST__PAYLOAD_SNAPSHOT_SENT:
        r.kind = SW_ZDS_SNAPSHOT;
        break;
    default:
        return sw_err_set(err, SW_EPROTO, "request of an unknown kind");
    }
    if (rc == SW_OK)
        *ret = r;
    return rc;
}

static struct ProtobufCMessage *request_message(struct sw_arena *a, const struct sw_zds_request *r)
{
    Sw__ZdsWorkloadRequest *m = SW_PB_NEW(a, Sw__ZdsWorkloadRequest, sw__zds_workload_request);

    switch (r->kind) {
    case SW_ZDS_ADD:
        m->payload_case = SW__ZDS_WORKLOAD_REQUEST__PAYLOAD_ADD;
        m->add = SW_PB_NEW(a, Sw__ZdsAddWorkload, sw__zds_add_workload);
        m->add->uid = SW_PB_BYTES(r->uid);
        m->add->workload_info = SW_PB_NEW(a, Sw__ZdsWorkloadInfo, sw__zds_workload_info);
        m->add->workload_info->namespace_ = SW_PB_BYTES(r->ns);
        m->add->workload_info->name = SW_PB_BYTES(r->name);
        m->add->workload_info->service_account = SW_PB_BYTES(r->sa);
        break;
    case SW_ZDS_KEEP:
        m->payload_case = SW__ZDS_WORKLOAD_REQUEST__PAYLOAD_KEEP;
        m->keep = SW_PB_NEW(a, Sw__ZdsKeepWorkload, sw__zds_keep_workload);
        m->keep->uid = SW_PB_BYTES(r->uid);
        break;
    case SW_ZDS_DEL:
        m->payload_case = SW__ZDS_WORKLOAD_REQUEST__PAYLOAD_DEL;
        m->del = SW_PB_NEW(a, Sw__ZdsDelWorkload, sw__zds_del_workload);
        m->del->uid = SW_PB_BYTES(r->uid);
        break;
    case SW_ZDS_SNAPSHOT:
        m->payload_case = SW__ZDS_WORKLOAD_REQUEST__PAYLOAD_SNAPSHOT_SENT;
        m->snapshot_sent = SW_PB_NEW(a, Sw__ZdsSnapshotSent, sw__zds_snapshot_sent);
        break;
    }
    return &m->base;
}

int sw_zds_request_encode(struct sw_arena *a, const struct sw_zds_request *r, struct sw_slice *ret,
                          struct sw_err *err)
{
    struct ProtobufCMessage *m = request_message(a, r);

    if (sw_pb_size(m) > SW_ZDS_PACKET_MAX)
        return sw_err_set(err, SW_ELIMIT, "request is longer than %d bytes", SW_ZDS_PACKET_MAX);
    *ret = sw_pb_pack(a, m);
    return SW_OK;
}

int sw_zds_response_decode(struct sw_arena *a, struct sw_slice in, struct sw_slice *ret_error,
                           struct sw_err *err)
{
    const Sw__ZdsWorkloadResponse *m =
        SW_PB_UNPACK(a, Sw__ZdsWorkloadResponse, sw__zds_workload_response, in, &limits, err);

    if (!m)
        return SW_EPROTO;
    if (m->payload_case != SW__ZDS_WORKLOAD_RESPONSE__PAYLOAD_ACK)
        return sw_err_set(err, SW_EPROTO, "response without an acknowledgement");
    *ret_error = SW_PB_SLICE(m->ack->error);
    return SW_OK;
}

struct sw_slice sw_zds_response_encode(struct sw_arena *a, struct sw_slice error)
{
    Sw__ZdsWorkloadResponse *m = SW_PB_NEW(a, Sw__ZdsWorkloadResponse, sw__zds_workload_response);

    m->payload_case = SW__ZDS_WORKLOAD_RESPONSE__PAYLOAD_ACK;
    m->ack = SW_PB_NEW(a, Sw__ZdsAck, sw__zds_ack);
    m->ack->error = SW_PB_BYTES(sw_slice_head(error, ERROR_MAX));
    return sw_pb_pack(a, &m->base);
}

int sw_zds_hello_decode(struct sw_arena *a, struct sw_slice in, struct sw_err *err)
{
    const Sw__ZdsHello *m = SW_PB_UNPACK(a, Sw__ZdsHello, sw__zds_hello, in, &limits, err);

    if (!m)
        return SW_EPROTO;
    if (m->version != SW__ZDS_HELLO__VERSION__V1)
        return sw_err_set(err, SW_EPROTO, "version %d is not supported", (int)m->version);
    return SW_OK;
}

struct sw_slice sw_zds_hello_encode(struct sw_arena *a)
{
    Sw__ZdsHello *m = SW_PB_NEW(a, Sw__ZdsHello, sw__zds_hello);

    m->version = SW__ZDS_HELLO__VERSION__V1;
    return sw_pb_pack(a, &m->base);
}
