/* SPDX-License-Identifier: Apache-2.0 */
#include "node/errtext.h"

#include <stdio.h>

#include "http/grammar.h"

static const char *put(char out[SW_ERRTEXT], const char *prefix, const char *text)
{
    (void)snprintf(out, SW_ERRTEXT, "%s: %s", prefix, text);
    return out;
}

const char *sw_errtext_status(unsigned status, char out[SW_ERRTEXT])
{
    (void)snprintf(out, SW_ERRTEXT, "http status: %u %s", status, sw_http_reason((int)status));
    return out;
}

static const char *put_cause(char out[SW_ERRTEXT], const char *prefix, const struct sw_err *err)
{
    if (err->rc == SW_ETIME)
        return put(out, prefix, "deadline has elapsed");
    if (!err->sys_errno)
        return put(out, prefix, err->msg);
    (void)snprintf(out, SW_ERRTEXT, "%s: %s (os error %d)", prefix, sw_errno_text(err->sys_errno),
                   err->sys_errno);
    return out;
}

const char *sw_errtext_connect(const struct sw_err *err, char out[SW_ERRTEXT])
{
    return put_cause(out, "connection failed", err);
}

const char *sw_errtext_io(const struct sw_err *err, char out[SW_ERRTEXT])
{
    return put_cause(out, "io error", err);
}

const char *sw_errtext_hbone_timeout(char out[SW_ERRTEXT])
{
    return put(out, "connection timed out, maybe a NetworkPolicy is blocking HBONE port 15008",
               "deadline has elapsed");
}

const char *sw_errtext_denied(const char *why, char out[SW_ERRTEXT])
{
    return put(out, "connection closed due to policy rejection", why);
}

const char *sw_errtext_identity(const char *why, char out[SW_ERRTEXT])
{
    return put(out, "identity error", why);
}

const char *sw_errtext_unknown(const char *sa, const char *ns, const char *name,
                               char out[SW_ERRTEXT])
{
    (void)snprintf(out, SW_ERRTEXT, "failed to fetch information about local workload: %s.%s (%s)",
                   sa, ns, name);
    return out;
}
