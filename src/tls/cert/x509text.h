/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates, revocation lists and keys explained to people. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/def.h"
#include "base/err.h"
#include "base/slice.h"

enum { SW_X509_EXPLAIN_MAX = 64 }; /* objects in one file */

/*
 * Appends a readable account of every certificate, CRL and private key (its public half only) in a
 * PEM text, or of one DER certificate. now_s decides what is expired and how much time remains.
 * Names from the file are printed escaped: control bytes cannot reach a terminal.
 *
 * Returns SW_OK, SW_EINVAL (nothing of the kind in there, or a broken one) or SW_ELIMIT.
 */
SW_NODISCARD int sw_x509_explain(struct sw_slice content, uint64_t now_s, struct sw_buf *out,
                                 struct sw_err *err);
