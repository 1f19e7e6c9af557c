/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/told.h"

#include "quic/wire/relay_url.h"

bool sw_published_relay_ok(struct sw_slice url, struct sw_slice api, struct sw_err *err)
{
    ptrdiff_t colon = sw_slice_rfind(api, ':');
    struct sw_relay_url u;

    if (sw_relay_url_parse(url, &u, err) != SW_OK)
        return false;
    if (u.tls || sw_relay_url_loopback(&u) ||
        (colon > 0 && sw_slice_ieq(sw_slice_head(api, (size_t)colon), sw_slice_str(u.host))))
        return true;
    (void)sw_err_set(err, SW_EDENIED,
                     "not https, and neither on this machine nor on the API's (--relay names a "
                     "relay to use all the same)");
    return false;
}
