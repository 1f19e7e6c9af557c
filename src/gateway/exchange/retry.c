/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of retries. Pure functions. */
#include "gateway/exchange/retry.h"
#include "gateway/message/fields.h"

static bool code_listed(const struct sw_gw_retry *r, int status)
{
    for (size_t i = 0; i < r->n_codes; i++) {
        if (r->codes[i] == status)
            return true;
    }
    return false;
}

static bool status_wanted(const struct sw_gw_retry *r, int status,
                          const struct sw_gw_response *resp)
{
    if ((r->on & SW_GW_RETRY_5XX) && status >= 500)
        return true;
    if ((r->on & SW_GW_RETRY_GATEWAY_ERROR) && status >= 502 && status <= 504)
        return true;
    if ((r->on & SW_GW_RETRY_4XX) && status == 409)
        return true;
    if ((r->on & SW_GW_RETRY_STATUS_CODES) && code_listed(r, status))
        return true;
    if ((r->on & SW_GW_RETRY_GRPC) && resp) {
        const struct sw_slice *v = sw_gw_fields_get(&resp->fields, SW_GW_H_GRPC_STATUS);
        uint64_t code;

        return v && sw_slice_to_u64(*v, 31, &code) && (r->grpc_codes & (1u << code));
    }
    return false;
}

bool sw_gw_retry_wants(const struct sw_gw_retry *r, enum sw_gw_outcome how, int status,
                       const struct sw_gw_response *resp)
{
    bool any = (r->on & (SW_GW_RETRY_5XX | SW_GW_RETRY_GATEWAY_ERROR)) != 0;

    switch (how) {
    case SW_GW_STATUS:
        return status_wanted(r, status, resp);
    case SW_GW_CONNECT_FAILED:
    case SW_GW_TLS_FAILED:
        return any || (r->on & (SW_GW_RETRY_CONNECT_FAILURE | SW_GW_RETRY_RESET |
                                SW_GW_RETRY_RESET_BEFORE_REQUEST));
    case SW_GW_UNSENT:
    case SW_GW_STALE:
    case SW_GW_RESET_BEFORE:
    case SW_GW_BAD_RESPONSE:
        return any || (r->on & SW_GW_RETRY_RESET);
    case SW_GW_REFUSED_STREAM:
        return any || (r->on & (SW_GW_RETRY_REFUSED_STREAM | SW_GW_RETRY_RESET));
    case SW_GW_TIMEOUT: /* one attempt's; the whole request's ends everything */
        return any || (r->on & SW_GW_RETRY_RESET) ||
               ((r->on & SW_GW_RETRY_STATUS_CODES) && code_listed(r, 504));
    case SW_GW_OK:
    case SW_GW_RESET_AFTER:
    case SW_GW_OVERFLOW:
    case SW_GW_DOWNSTREAM_GONE:
        return false;
    }
    return false;
}

uint64_t sw_gw_retry_delay(const struct sw_gw_retry *r, unsigned n, uint64_t rnd)
{
    uint64_t top = r->base_ns;

    for (unsigned i = 1; i < n && top < r->max_ns; i++)
        top *= 2;
    if (top > r->max_ns)
        top = r->max_ns;
    return top ? rnd % top : 0;
}
