/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UDP payloads between the gateway's capsules and a node's QUIC datagrams, where both sides agreed
 * on these. Without that a tunnel of capsules passes through as it is.
 */
#include "http/capsule.h"
#include "sidecar/side_int.h"

/* As a capsule on the stream, all or nothing: too large for a datagram. */
static void send_capsule(struct sw_qcall *q, struct sw_slice payload)
{
    uint8_t head[SW_CAPSULE_UDP_HEAD];
    size_t k = sw_capsule_udp_head(head, payload.n);
    struct iovec room[2];
    int pieces = sw_qcall_reserve(q, room);
    size_t have = 0;

    for (int i = 0; i < pieces; i++)
        have += room[i].iov_len;
    if (pieces)
        sw_qcall_commit(q, 0);
    if (have < k + payload.n)
        return;
    (void)sw_qcall_write(q, head, k);
    (void)sw_qcall_write(q, payload.p, payload.n);
}

static void pass(struct sw_qcall *q, struct sw_slice value, uint64_t *bytes)
{
    struct sw_slice payload = {0};

    if (sw_masque_udp_payload(value, &payload) != SW_OK)
        return;
    if (payload.n > sw_qcall_datagram_max(q))
        send_capsule(q, payload);
    else if (sw_qcall_datagram(q, (const uint8_t *)payload.p, payload.n) != SW_OK)
        return; /* lost, as UDP may be */
    *bytes += payload.n;
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
