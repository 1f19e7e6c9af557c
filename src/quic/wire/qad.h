/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two things of address discovery that ngtcp2 0.12 does not know, as bytes: one transport
 * parameter, and one frame (OBSERVED_ADDRESS). ngtcp2 runs the connection and is shown a DATAGRAM
 * frame (RFC 9221) of the same length instead: sw_qad_to_wire changes it into OBSERVED_ADDRESS
 * just before a packet is sealed, sw_qad_from_wire changes it back just after one was opened.
 * DATAGRAM itself is never offered to a peer. A PING is made the same way: those that ngtcp2 sends
 * to keep a connection alive are not sent again when they get lost.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"

/*
 * Field of a relay's answer to the upgrade: "PORT", where it answers address discovery with the
 * certificate of its HTTPS, or "PORT DIGEST" (64 hexadecimal digits), with exactly this one.
 */
#define SW_QAD_FIELD "X-Spanwire-Qad"

/* Value of the transport parameter. */
enum sw_qad_role {
    SW_QAD_SENDS = 0,
    SW_QAD_RECEIVES = 1,
    SW_QAD_BOTH = 2,
    SW_QAD_NONE = 3, /* absent */
};

enum {
    SW_QAD_PIN = 32, /* bytes of a pin: SHA-256 of a certificate (DER) */
    SW_QAD_FIELD_MAX = 72,
    SW_QAD_PARAM = 10,           /* bytes of the parameter */
    SW_QAD_DATAGRAM_PARAM = 4,   /* bytes of what sw_qad_params_in adds */
    SW_QAD_REPORT_MAX = 26,      /* payload of the DATAGRAM that stands for a report */
    SW_QAD_DATAGRAM_FRAME = 512, /* max_datagram_frame_size, towards ngtcp2 only */
};

/* pin: SW_QAD_PIN bytes, or NULL. Returns out. */
char *sw_qad_put_field(char out[SW_QAD_FIELD_MAX], uint16_t port, const uint8_t *pin);
/* SW_EPROTO: not one of the two forms. *ret_pinned: ret_pin (SW_QAD_PIN bytes) was written. */
SW_NODISCARD int sw_qad_get_field(struct sw_slice text, uint16_t *ret_port, uint8_t *ret_pin,
                                  bool *ret_pinned, struct sw_err *err);

/* Appends the parameter to those ngtcp2 encoded. Writes SW_QAD_PARAM bytes. */
void sw_qad_put_param(uint8_t *out, enum sw_qad_role role);
/*
 * Copies a peer's transport parameters for ngtcp2: without max_datagram_frame_size, and with one
 * that allows our reports. out has room for in.n + SW_QAD_DATAGRAM_PARAM bytes. SW_EPROTO: they
 * are cut, repeat ours, or give it a value that does not exist.
 */
SW_NODISCARD int sw_qad_params_in(struct sw_slice in, uint8_t *out, size_t *ret_n,
                                  enum sw_qad_role *ret_role, struct sw_err *err);

/* The payload of the DATAGRAM that stands for a PING. */
extern const uint8_t sw_qad_ping[2];
/* The payload of the DATAGRAM that stands for a report; returns its length. seq < 2^30. */
size_t sw_qad_put_report(uint8_t out[SW_QAD_REPORT_MAX], const struct sw_addr *at, uint32_t seq);
/* False: not a payload sw_qad_from_wire made. IPv4-mapped addresses come out as IPv4. */
bool sw_qad_get_report(const uint8_t *p, size_t n, struct sw_addr *ret_at, uint64_t *ret_seq);

/*
 * Both change the frames of an opened 1-RTT packet in place. False: the packet must be dropped: a
 * report of ours has the wrong shape; a peer sent DATAGRAM, which we did not offer. Frames that do
 * not parse end the work; judging them is left to ngtcp2.
 */
bool sw_qad_to_wire(uint8_t *p, size_t n);
bool sw_qad_from_wire(uint8_t *p, size_t n);
