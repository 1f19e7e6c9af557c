/* SPDX-License-Identifier: Apache-2.0 */
/* Connection IDs: how packets find their connection, whatever address they come from. */
#pragma once

#include "quic/conn.h"

struct sw_qcid {
    struct sw_list link;   /* conn->cids or conn->tokens */
    struct sw_qconn *conn; /* borrowed */
    uint8_t len;
    uint8_t b[QUIC_CID_MAX];
};

bool sw_qcid_add(struct sw_qconn *c, const uint8_t *p, size_t n);
/* A new one of n bytes, which leads to c. 'first': the one packets carry until a path changes. */
void sw_qcid_make(struct sw_qconn *c, uint8_t *p, size_t n, bool first);
void sw_qcid_remove(struct sw_qconn *c, const uint8_t *p, size_t n);
void sw_qcid_remove_all(struct sw_qconn *c);
struct sw_qconn *sw_qcid_find(struct sw_quic *q, const uint8_t *p, size_t n);
void sw_qcid_add_token(struct sw_qconn *c, const uint8_t token[QUIC_TOKEN]);
void sw_qcid_remove_token(struct sw_qconn *c, const uint8_t token[QUIC_TOKEN]);
struct sw_qconn *sw_qcid_find_token(const struct sw_quic *q, const uint8_t token[QUIC_TOKEN]);
