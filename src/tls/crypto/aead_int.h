/* SPDX-License-Identifier: Apache-2.0 */
/* What aead.c expects of its back ends; no other file includes this. */
#pragma once

#include "tls/crypto/aead.h"

/* Always there. */
extern const struct sw_aead_ops sw_aead_gnutls_ops;

/*
 * Opens intel-ipsec-mb and picks the kernels for this CPU. NULL with SW_EINVAL in err when it is
 * not installed, was not known at build time or fails its own self-test. Call once.
 */
const struct sw_aead_ops *sw_aead_imb_load(struct sw_err *err);
