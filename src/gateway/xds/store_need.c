/* SPDX-License-Identifier: Apache-2.0 */
/* Which resource references which name: what to subscribe to, and what to compile again. */
#include "base/mem.h"
#include "gateway/config/build.h"
#include "gateway/xds/store_int.h"

static void need_add(struct sw_gw_store *s, enum sw_gw_type t, struct sw_slice name,
                     struct sw_gw_res *user)
{
    struct sw_gw_need *n = sw_map_get(&s->needs[t], name);

    if (!n) {
        n = SW_NEW(struct sw_gw_need);
        n->name = sw_slice_copy(name);
        (void)sw_map_put(&s->needs[t], n->name, n);
    }
    sw_vec_push(&n->users, user);
    if (n->users.n == 1 && s->o.on_wanted)
        s->o.on_wanted(t, n->name, true, s->wanted_arg);
}

static void need_drop(struct sw_gw_store *s, enum sw_gw_type t, struct sw_slice name,
                      const struct sw_gw_res *user)
{
    struct sw_gw_need *n = sw_map_get(&s->needs[t], name);

    for (size_t i = 0; n && i < n->users.n; i++) {
        if (n->users.p[i] != user)
            continue;
        (void)sw_vec_swap_remove(&n->users, i);
        break;
    }
    if (!n || n->users.n)
        return;
    (void)sw_map_del(&s->needs[t], n->name);
    if (s->o.on_wanted) {
        s->o.on_wanted(t, n->name, false, s->wanted_arg);
        sw_gw_store_unwant(s, t, n->name);
    }
    sw_vec_done(&n->users);
    sw_slice_free(&n->name);
    sw_free(n);
}

void sw_gw_drop_deps(struct sw_gw_store *s, struct sw_gw_res *r)
{
    for (size_t i = 0; i < r->deps.n; i++) {
        need_drop(s, r->deps.p[i].type, r->deps.p[i].name, r);
        sw_slice_free(&r->deps.p[i].name);
    }
    sw_vec_done(&r->deps);
}

/* The new list first, so that what stays wanted is never unsubscribed in between. */
void sw_gw_replace_deps(struct sw_gw_store *s, struct sw_gw_res *r, struct sw_gw_build *b)
{
    for (size_t i = 0; i < b->deps.n; i++)
        need_add(s, b->deps.p[i].type, b->deps.p[i].name, r);
    sw_gw_drop_deps(s, r);
    r->deps.p = b->deps.p;
    r->deps.n = b->deps.n;
    r->deps.cap = b->deps.cap;
    b->deps.p = NULL;
    b->deps.n = b->deps.cap = 0;
}

struct sw_gw_res *sw_gw_store_find(const struct sw_gw_store *s, enum sw_gw_type t,
                                   struct sw_slice name)
{
    return s ? sw_map_get(&s->res[t], name) : NULL;
}
