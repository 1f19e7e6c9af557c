/* SPDX-License-Identifier: Apache-2.0 */
/* URLs of relays: what is accepted has bounds, names itself, and a host without the parts around.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "quic/wire/relay_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char again[SW_RELAY_AUTHORITY_MAX + 16];
    struct sw_relay_url u;
    struct sw_relay_url v;
    struct sw_err err = {0};

    if (sw_relay_url_parse(sw_slice(data, size), &u, &err) != SW_OK) {
        assert(err.rc == SW_EINVAL && err.msg[0]);
        return 0;
    }
    assert(u.port && u.host[0] && strlen(u.host) < sizeof(u.host));
    assert(!strpbrk(u.host, "@/?#[] \t\r\n") && !strpbrk(u.authority, "@/?# \t\r\n"));
    (void)snprintf(again, sizeof(again), "%s://%s/", u.tls ? "https" : "http", u.authority);
    assert(sw_relay_url_parse(sw_slice_str(again), &v, NULL) == SW_OK && sw_relay_url_same(&u, &v));
    (void)sw_relay_url_loopback(&u);
    return 0;
}
