/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access control of the relay: allowed ids, denied ids, and bearer tokens. Immutable and counted,
 * so that workers read it without locks; a change makes another one.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"
#include "tls/cert/rawkey.h"

struct sw_relay_access;

/* Each may be NULL: no such rule. One id (hex or base32) or token per line; '#' begins a comment.
 */
struct sw_relay_access_files {
    const char *allow;
    const char *deny;
    const char *tokens;
};

/* NULL with SW_EINVAL (with file and line), SW_ESYS, SW_ENOENT or SW_ELIMIT. */
SW_NODISCARD struct sw_relay_access *sw_relay_access_load(const struct sw_relay_access_files *f,
                                                          struct sw_err *err);
struct sw_relay_access *sw_relay_access_ref(struct sw_relay_access *a);
/* Returns NULL. */
struct sw_relay_access *sw_relay_access_unref(struct sw_relay_access *a);

/* In a time that does not depend on how much of it is right. */
bool sw_relay_access_token_ok(const struct sw_relay_access *a, struct sw_slice token);
/* NULL: may come; else why not. */
const char *sw_relay_access_judge(const struct sw_relay_access *a, const struct sw_nodeid *id);
