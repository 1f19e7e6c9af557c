/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/connfilter.h"

#include <assert.h>

#include "tls/tls.h"
#include "tls/tls_int.h"

static_assert((int)SW_FILTER_PLAIN_MAX >= (int)SW_TLS_PLAIN_MAX, "a record's content");
static_assert((int)SW_FILTER_RECORD_MAX >= (int)SW_TLS_RECORD_MAX, "a record");
static_assert(SW_FILTER_PLAIN_MAX + SW_FILTER_CTRL_ROOM >= SW_TLS_SEAL_ROOM(SW_TLS_PLAIN_MAX),
              "a sealed record");
static_assert((int)SW_FILTER_HANDSHAKE_MAX >= (int)SW_TLS_HANDSHAKE_OUT_MAX, "a flight");

struct sw_tls *sw_tls_of(struct sw_filter *f)
{
    return f ? SW_CONTAINER_OF(f, struct sw_tls, filter) : NULL;
}

static int handshake(struct sw_filter *f, struct sw_slice in, size_t *ret_used, struct sw_buf *out,
                     struct sw_err *err)
{
    return sw_tls_handshake(sw_tls_of(f), in, ret_used, out, err);
}

static int open_record(struct sw_filter *f, uint8_t *buf, size_t n, size_t *ret_used,
                       struct sw_slice *ret_plain, struct sw_err *err)
{
    return sw_tls_open(sw_tls_of(f), buf, n, ret_used, ret_plain, err);
}

static size_t seal(struct sw_filter *f, uint8_t *plain, size_t n, uint8_t *out)
{
    return sw_tls_seal(sw_tls_of(f), plain, n, out);
}

static size_t max_plain(struct sw_filter *f)
{
    return sw_tls_max_plain(sw_tls_of(f));
}

static size_t control(struct sw_filter *f, uint8_t *out)
{
    return sw_tls_flush(sw_tls_of(f), out, SW_FILTER_CTRL_ROOM);
}

static size_t close_notify(struct sw_filter *f, uint8_t *out)
{
    return sw_tls_close_notify(sw_tls_of(f), out, SW_FILTER_CTRL_ROOM);
}

static size_t alert(struct sw_filter *f, const struct sw_err *err, uint8_t *out)
{
    return sw_tls_alert_for_err(sw_tls_of(f), err, out, SW_FILTER_CTRL_ROOM);
}

static void free_tls(struct sw_filter *f)
{
    sw_tls_free(sw_tls_of(f));
}

struct sw_filter *sw_tls_filter(struct sw_tls *t)
{
    static const struct sw_filter_ops ops = {
        .handshake = handshake,
        .open = open_record,
        .seal = seal,
        .max_plain = max_plain,
        .control = control,
        .close_notify = close_notify,
        .alert = alert,
        .free = free_tls,
    };

    if (!t)
        return NULL;
    t->filter.ops = &ops;
    return &t->filter;
}
