/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The admin token: a process that can read its file may request every page of the admin port. Roles
 * of one user share a file, which the first of them makes.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"

enum sw_admin_auth {
    SW_ADMIN_AUTH_TOKEN, /* pages that change or show something need the token */
    SW_ADMIN_AUTH_NONE,  /* every client that can connect may request every page */
};

/* The options; see opts/admin.h. */
struct sw_admin_access {
    int auth;               /* enum sw_admin_auth */
    const char *token_file; /* NULL: admin.token in the runtime directory */
};

struct sw_admin_token;

/*
 * Reads the file, or makes it (mode 0600) with a token of 256 random bits. A file that others can
 * read is refused, and so are tokens shorter than 16 or longer than 512 bytes: NULL with SW_EDENIED
 * or SW_EINVAL. When the file cannot be made in the default place, the token stays unknown to all
 * clients.
 */
SW_NODISCARD struct sw_admin_token *sw_admin_token_new(const char *file, struct sw_err *err);
void sw_admin_token_free(struct sw_admin_token *t);
/* Logs where it is, or why it is nowhere. */
void sw_admin_token_log(const struct sw_admin_token *t);
/* The token itself; lives as long as the object. */
struct sw_slice sw_admin_token_text(const struct sw_admin_token *t);
/* Is this "Bearer TOKEN"? Takes the same time wherever they differ. */
bool sw_admin_token_ok(const struct sw_admin_token *t, struct sw_slice authorization);
