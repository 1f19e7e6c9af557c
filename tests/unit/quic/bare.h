/* SPDX-License-Identifier: Apache-2.0 */
/* A client that says no more than it must, and not even that. */
#pragma once

#include "io/addr.h"
#include "tls/cert/rawkey.h"

/*
 * Sends a first packet whose ClientHello is right but for its transport parameters: it has none.
 * key: shown as a raw key; NULL: X.509.
 */
void bare_hello(int fd, const struct sw_addr *to, const char *alpn, const struct sw_rawkey *key);
