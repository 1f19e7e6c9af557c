/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UDP payloads between the gateway's capsules and a node's QUIC datagrams, where both sides agreed
 * on these. Without that a tunnel of capsules passes through as it is.
 */
#include "http/capsule.h"
#include "sidecar/sidecar_int.h"

/* As a capsule on the stream: too large for a datagram. False: no room. */
static bool send_capsule(struct sw_qcall *q, struct sw_slice payload)
{
    struct iovec room[2];
    int pieces = sw_qcall_reserve(q, room);
    size_t k = sw_capsule_udp_put(room, pieces, payload);

    if (pieces)
        sw_qcall_commit(q, k);
    return k > 0;
}

static bool send_datagram(struct sw_qcall *q, struct sw_slice payload)
{
    return sw_qcall_datagram(q, (const uint8_t *)payload.p, payload.n) == SW_OK;
}

static void pass(struct sw_qcall *q, struct sw_slice value, uint64_t *bytes)
{
    struct sw_slice payload = {0};
    bool large;

    if (sw_masque_udp_payload(value, &payload) != SW_OK)
        return;
    large = payload.n > sw_qcall_datagram_max(q);
    if (large ? send_capsule(q, payload) : send_datagram(q, payload))
        *bytes += payload.n; /* otherwise lost, as UDP may be */
}

int side_udp_up(struct sw_capsule_reader *r, struct sw_qcall *q, struct sw_slice in,
                uint64_t *bytes)
{
    struct sw_err err = {0};
    int rc = SW_OK;

    while (in.n && rc == SW_OK) {
        struct sw_slice value = {0};
        size_t used = 0;

        rc = sw_capsule_next(r, in, &used, &value, &err);
        in = sw_slice_from(in, used);
        if (rc == SW_OK)
            pass(q, value, bytes);
    }
    return rc == SW_EAGAIN ? SW_OK : rc;
}
