/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of a pool, so that no user of it alone takes what all others need: one may have another
 * place as long as it has fewer than are left. One alone gets half of all, and n greedy ones leave
 * an (n+1)th its part.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/slice.h"

/* For a user with 'own' of the 'taken' places of 'most'. */
static inline bool sw_share_left(size_t own, size_t taken, size_t most)
{
    return taken < most && own < most - taken;
}

/* A pool and what each user has of it. Zeroed but for 'most': empty. */
struct sw_shares {
    size_t most;
    size_t taken;
    struct sw_map users; /* name (borrowed) -> number of places */
};

static inline size_t sw_shares_of(const struct sw_shares *s, struct sw_slice user)
{
    return (uintptr_t)sw_map_get(&s->users, user);
}

/* May the user have another one? */
static inline bool sw_shares_left(const struct sw_shares *s, struct sw_slice user)
{
    return sw_share_left(sw_shares_of(s, user), s->taken, s->most);
}

/* The user has another one, whether that is within its share or not. */
static inline void sw_shares_take(struct sw_shares *s, struct sw_slice user)
{
    uintptr_t n = sw_shares_of(s, user) + 1;

    s->taken++;
    (void)sw_map_put(&s->users, user, (void *)n); /* NOLINT(performance-no-int-to-ptr) */
}

static inline void sw_shares_done(struct sw_shares *s)
{
    sw_map_done(&s->users);
}
