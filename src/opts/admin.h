/* SPDX-License-Identifier: Apache-2.0 */
/* The options of admin ports, the same for every role that has one. */
#pragma once

#include "opts/opts.h"
#include "telemetry/admin_token.h"

extern const char *const sw_admin_auths[];

/* Two rows of an option table whose destination has a struct sw_admin_access at 'at'. */
#define SW_OPT_ADMIN(at)                                                                           \
    {"admin-auth",                                                                                 \
     "SPANWIRE_ADMIN_AUTH",                                                                        \
     SW_OPT_ENUM,                                                                                  \
     .offset = (at) + offsetof(struct sw_admin_access, auth),                                      \
     .def = "token",                                                                               \
     .choices = sw_admin_auths,                                                                    \
     .help = "What admin pages that change something or show the configuration ask for: the "      \
             "token as 'Authorization: Bearer TOKEN', or nothing, which lets every client ask "    \
             "that can connect."},                                                                 \
    {                                                                                              \
        "admin-token-file", "SPANWIRE_ADMIN_TOKEN_FILE", SW_OPT_STR,                               \
            .offset = (at) + offsetof(struct sw_admin_access, token_file), .arg = "FILE",          \
            .help = "The token, made when missing [$RUNTIME_DIRECTORY/admin.token, "               \
                    "/run/spanwire/admin.token, $XDG_RUNTIME_DIR/spanwire/admin.token]."           \
    }
