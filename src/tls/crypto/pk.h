/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which arithmetic GnuTLS's handshakes use for P-256 and X25519: ours (p256.h, x25519.h) or
 * nettle's. Ours stands under nettle's own names in this program, so the dynamic linker gives it to
 * GnuTLS in place of libhogweed's; every other curve is passed on. SPANWIRE_PK=nettle in the
 * environment passes everything on.
 */
#pragma once

/*
 * "own", with the instructions it uses ("own-ifma-adx"), or "nettle": asked for, or this program
 * was linked so that its names do not come before the library's.
 */
const char *sw_pk_name(void);
