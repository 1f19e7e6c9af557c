/* SPDX-License-Identifier: Apache-2.0 */
/* Formatting of struct sw_err. */
#include "base/err.h"

#include <stdio.h>
#include <string.h>

SW_PRINTF(3, 0)
static void fill(struct sw_err *err, int rc, const char *fmt, va_list ap)
{
    err->rc = rc;
    err->sys_errno = 0;
    err->offset = 0;
    (void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
}

int sw_err_set(struct sw_err *err, int rc, const char *fmt, ...)
{
    if (err) {
        va_list ap;

        va_start(ap, fmt);
        fill(err, rc, fmt, ap);
        va_end(ap);
    }
    return rc;
}

int sw_err_sys(struct sw_err *err, int errno_value, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        size_t used;

        va_start(ap, fmt);
        fill(err, SW_ESYS, fmt, ap);
        va_end(ap);
        err->sys_errno = errno_value;
        used = strlen(err->msg);
        (void)snprintf(err->msg + used, sizeof(err->msg) - used, ": %s",
                       sw_errno_text(errno_value));
    }
    return SW_ESYS;
}

int sw_err_at(struct sw_err *err, int rc, size_t offset, const char *fmt, ...)
{
    if (err) {
        va_list ap;

        va_start(ap, fmt);
        fill(err, rc, fmt, ap);
        va_end(ap);
        err->offset = offset;
    }
    return rc;
}

int sw_err_prefix(struct sw_err *err, const char *fmt, ...)
{
    char old[sizeof(err->msg)];
    va_list ap;
    size_t used;

    if (!err)
        return SW_EINVAL;
    memcpy(old, err->msg, sizeof(old));
    va_start(ap, fmt);
    (void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    used = strlen(err->msg);
    (void)snprintf(err->msg + used, sizeof(err->msg) - used, ": %.*s",
                   (int)(sizeof(err->msg) - used), old);
    return err->rc;
}

const char *sw_rc_name(int rc)
{
    static const char *const names[] = {
        [-SW_OK] = "ok",
        [-SW_EAGAIN] = "again",
        [-SW_EOF] = "eof",
        [-SW_EPROTO] = "protocol",
        [-SW_ELIMIT] = "limit",
        [-SW_EDENIED] = "denied",
        [-SW_EINVAL] = "invalid",
        [-SW_ESYS] = "system",
        [-SW_ENOENT] = "not-found",
        [-SW_ETIME] = "timeout",
        [-SW_ECLOSED] = "closed",
        [-SW_EPENDING] = "pending",
        [-SW_EREFUSED] = "refused",
        [-SW_ECANCELED] = "cancelled",
        [-SW_EUNAVAIL] = "unavailable",
    };

    return rc <= 0 && rc > -(int)SW_ARRAY_LEN(names) ? names[-rc] : "unknown";
}

const char *sw_errno_text(int errno_value)
{
    const char *s = strerrordesc_np(errno_value);

    return s ? s : "unknown error";
}
