/* SPDX-License-Identifier: Apache-2.0 */
/* The objects by which the two sites of `spanwire up --demo` are linked. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "cmd/up/objects.h"
#include "io/addr.h"

/* The sites as each other's peers; the second is also the name of its objects. */
#define SW_UP_HOME   "home"
#define SW_UP_SECOND "second"

enum { SW_UP_SECOND_OBJECTS = 8 };

struct sw_up_second_facts {
    struct sw_addr here;  /* the first site's link */
    struct sw_addr there; /* the second's */
    struct sw_addr app;   /* what the second site exports */
    uint16_t import_port;
    const char *hostname;
    bool policies; /* or all but them */
};

struct sw_up_second_objects {
    struct sw_up_object here[SW_UP_SECOND_OBJECTS];
    size_t n_here;
    struct sw_up_object there[SW_UP_SECOND_OBJECTS];
    size_t n_there;
    const struct sw_json *policy; /* of the first site */
};

/* Everything is in the arena. SW_EINVAL: the hostname has characters that no hostname has. */
SW_NODISCARD int sw_up_second_objects(struct sw_arena *a, const struct sw_up_second_facts *f,
                                      struct sw_up_second_objects *ret, struct sw_err *err);
