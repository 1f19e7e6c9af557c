/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/observe/header_add.h"

#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>

#include "base/log.h"
#include "gateway/config/build.h"
#include "gateway/observe/accesslog.h"
#include "http/grammar.h"
#include "proto/pb.h"
#include "xds/limits.h"

static int build_header(struct sw_gw_build *b, const struct Sw__HeaderValueOption *h,
                        struct sw_gw_header_add *ret)
{
    struct sw_slice value;

    if (!h->header || h->header->key.len == 0)
        return SW_GW_BAD(b, "header without a name");
    if (h->header->key.len > SW_XDS_HEADER_MAX || h->header->value.len > SW_XDS_HEADER_MAX ||
        h->header->raw_value.len > SW_XDS_HEADER_MAX)
        return sw_err_set(b->err, SW_ELIMIT, "header of more than %d bytes", SW_XDS_HEADER_MAX);
    ret->name = sw_gw_lower(b, SW_PB_SLICE(h->header->key));
    if (!sw_http_token_valid(ret->name) || sw_slice_eq_str(ret->name, "host"))
        return SW_GW_BAD(b, "header '%.*s' may not be changed", SW_SLICE_ARG_MAX(ret->name, 60));
    value = h->header->raw_value.len ? SW_PB_SLICE(h->header->raw_value)
                                     : SW_PB_SLICE(h->header->value);
    if (value.n && !sw_http_value_valid(value))
        return SW_GW_BAD(b, "header '%.*s': bad value", SW_SLICE_ARG_MAX(ret->name, 60));
    ret->keep_empty = h->keep_empty_value;
    ret->action = (enum sw_gw_append)h->append_action;
    if (h->append && h->append_action == 0 && !h->append->value)
        ret->action = SW_GW_OVERWRITE_OR_ADD;
    if ((int)h->append_action < 0 || (int)h->append_action > SW_GW_OVERWRITE_IF_EXISTS)
        return SW_GW_BAD(b, "unknown append_action %d", (int)h->append_action);
    return sw_gw_format_parse(b->arena, value, &ret->value, b->err);
}

int sw_gw_build_headers(struct sw_gw_build *b, struct Sw__HeaderValueOption *const *in, size_t n,
                        const struct sw_gw_header_add **ret, size_t *ret_n)
{
    struct sw_gw_header_add *out = n ? sw_arena_array(b->arena, n, sizeof(*out)) : NULL;
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        int rc = build_header(b, in[i], &out[k]);

        if (rc < 0)
            return rc;
        /* Others take such a route, so it is no reason to refuse all that comes with it. */
        if (sw_http_is_framing(out[k].name))
            sw_log_warn("config", "header '%.*s' not modified: it frames the message",
                        SW_SLICE_ARG(out[k].name));
        else
            k++;
    }
    *ret = out;
    *ret_n = k;
    return SW_OK;
}
