/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's rules by which the kubelet's probes pass: from its user, to the probe ports of
 * enrolled pods, the source address becomes the probe address that the pods' rules leave alone.
 * Text only.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "io/addr.h"

struct sw_probe_target {
    struct sw_ip ip;
    uint16_t port;
};

/* Script for nft that replaces the host's rules. SW_ELIMIT: out is too small. */
SW_NODISCARD int sw_probes_script(unsigned uid, const struct sw_probe_target *targets, size_t n,
                                  struct sw_buf *out);
/* Script that takes them out, whether they are there or not. */
struct sw_slice sw_probes_removal(void);
