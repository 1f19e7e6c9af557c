/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's certificate as data planes of ClusterLink pass it on. */
#pragma once

#include "base/arena.h"
#include "base/slice.h"
#include "control/link/auth/auth.h"

/*
 * Who asked, by source.principal and source.certificate of a CheckRequest: the certificate is PEM,
 * with URL escapes (Envoy) or without. It decides where it parses; the principal, a DNS name, is
 * what remains otherwise. Results are in the arena.
 */
struct sw_link_caller sw_link_caller_of(struct sw_arena *a, struct sw_slice principal,
                                        struct sw_slice certificate);
/* The first DNS name of a certificate (DER), in the arena; empty: it has none. */
struct sw_slice sw_link_first_dns(struct sw_arena *a, struct sw_slice der);
