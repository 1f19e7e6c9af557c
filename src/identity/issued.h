/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record of certificates that were issued: one line of JSON each, in a file of bounded size; the
 * one before it is kept.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

struct sw_issued;

struct sw_issued_cert {
    struct sw_slice serial;
    struct sw_slice id;
    struct sw_slice requester;
    uint64_t not_after_s;
};

/* Appends to the file. max_bytes 0: 16 MiB. NULL with err when it cannot be opened. */
SW_NODISCARD struct sw_issued *sw_issued_open(const char *path, size_t max_bytes,
                                              struct sw_err *err);
/* NULL is fine. */
void sw_issued_close(struct sw_issued *s);
/* SW_ESYS: it is not on record, and must not be handed out. */
SW_NODISCARD int sw_issued_add(struct sw_issued *s, const struct sw_issued_cert *c,
                               struct sw_err *err);
