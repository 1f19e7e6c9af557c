/* SPDX-License-Identifier: Apache-2.0 */
/* Inside cni: the routing commands, shared by what prints them and what runs them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { SW_REDIRECT_ARGV = 12 };

struct sw_redirect_route {
    bool ipv6;
    const char *add[SW_REDIRECT_ARGV];
    const char *del[SW_REDIRECT_ARGV];
};

extern const struct sw_redirect_route sw_redirect_routes[];
extern const size_t sw_redirect_n_routes;
