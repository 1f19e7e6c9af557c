/* SPDX-License-Identifier: Apache-2.0 */
/* Results: one negative int for programs, one struct sw_err for people. */
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "base/def.h"

enum sw_rc {
    SW_OK = 0,
    SW_EAGAIN = -1,     /* nothing lost: call again when the loop reports readiness */
    SW_EOF = -2,        /* peer finished cleanly */
    SW_EPROTO = -3,     /* peer broke the protocol */
    SW_ELIMIT = -4,     /* a configured bound was reached */
    SW_EDENIED = -5,    /* refused by policy or identity */
    SW_EINVAL = -6,     /* caller or configuration is wrong */
    SW_ESYS = -7,       /* a system call failed: see err->sys_errno */
    SW_ENOENT = -8,     /* the thing named does not exist */
    SW_ETIME = -9,      /* a deadline passed */
    SW_ECLOSED = -10,   /* reset by either side, or closed before */
    SW_EPENDING = -11,  /* not known yet: a callback follows when it is */
    SW_EREFUSED = -12,  /* the peer refused before it looked: safe to try elsewhere */
    SW_ECANCELED = -13, /* its owner ended it before there was a result */
    SW_EUNAVAIL = -14   /* the service is not there, or cannot answer now */
};

struct sw_err {
    int rc;
    int sys_errno;
    size_t offset; /* into the input, for parsers */
    char msg[184];
};

/*
 * Fills *err (which may be NULL) and returns rc, so that callers write
 * 'return sw_err_set(err, SW_EINVAL, "...")'. The text is cut to fit.
 */
int sw_err_set(struct sw_err *err, int rc, const char *fmt, ...) SW_PRINTF(3, 4);

/* As sw_err_set with SW_ESYS; keeps errno_value and appends its text. */
int sw_err_sys(struct sw_err *err, int errno_value, const char *fmt, ...) SW_PRINTF(3, 4);

/* As sw_err_set and also records the input offset the message speaks of. */
int sw_err_at(struct sw_err *err, int rc, size_t offset, const char *fmt, ...) SW_PRINTF(4, 5);

/* Puts "prefix: " in front of the message already there; returns err->rc (SW_EINVAL when err is
 * NULL). */
int sw_err_prefix(struct sw_err *err, const char *fmt, ...) SW_PRINTF(2, 3);

/* Short lower-case name of a result code, never NULL. */
const char *sw_rc_name(int rc);

/* Thread-safe text for an errno value, never NULL. */
const char *sw_errno_text(int errno_value);
