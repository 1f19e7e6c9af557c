/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/crypto/md5.h"

#include <nettle/md5.h>

/* Not by GnuTLS, which refuses it where the system is in FIPS mode. */
void sw_md5(struct sw_slice in, uint8_t ret[SW_MD5_LEN])
{
    struct md5_ctx c;

    md5_init(&c);
    md5_update(&c, in.n, (const uint8_t *)in.p);
    md5_digest(&c, SW_MD5_LEN, ret);
}
