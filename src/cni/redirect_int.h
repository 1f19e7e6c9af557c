/* SPDX-License-Identifier: Apache-2.0 */
/* Inside cni: the routing commands, shared by what prints them and what runs them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { SW_REDIRECT_ARGV = 12 };

/* A command of ip. */
struct sw_redirect_route {
    bool ipv6;
    const char *object; /* "rule" or "route" */
    const char *args[SW_REDIRECT_ARGV - 5];
};

extern const struct sw_redirect_route sw_redirect_routes[];
extern const size_t sw_redirect_n_routes;

/* The command with this verb, "add" or "del"; ends with NULL. */
void sw_redirect_command(const struct sw_redirect_route *r, const char *verb,
                         const char *ret[SW_REDIRECT_ARGV]);
