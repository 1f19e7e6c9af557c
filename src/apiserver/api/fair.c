/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fairness: requests under way are counted per client, and no client may have more than a share.
 * Watches count apart once they stream. Our own requests are not limited.
 */
#include "apiserver/api/fair.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/round.h"

struct client {
    struct sw_slice name; /* owned */
    uint32_t inflight;
    uint32_t watches;
    struct sw_round walking; /* watches that still send the initial state */
};

struct api_fair {
    struct sw_map clients;
    struct sw_list walkers; /* clients with such watches: they take turns */
    uint32_t max;
    uint32_t max_watches;
};

struct sw_slice api_tenant(const struct api_user *u)
{
    const struct sw_slice account = SW_SLICE_LIT("system:serviceaccount:");
    struct sw_slice rest, ns;

    if (!sw_slice_has_prefix(u->name, account))
        return u->name;
    rest = sw_slice_from(u->name, account.n);
    ns = sw_slice_cut(&rest, ':');
    if (sw_slice_eq_str(ns, API_SYSTEM_NS) || sw_slice_eq_str(ns, "kube-system"))
        return u->name;
    return sw_slice_head(u->name, account.n + ns.n);
}

bool api_first(const struct api_user *u)
{
    static const char *const ours[] = {"system:masters", ("system:serviceaccounts:" API_SYSTEM_NS),
                                       "system:serviceaccounts:kube-system"};

    for (size_t i = 0; i < SW_ARRAY_LEN(ours); i++) {
        if (api_in_groups(u, sw_slice_str(ours[i])))
            return true;
    }
    return false;
}

struct api_fair *api_fair_new(uint32_t max_inflight, uint32_t max_watches)
{
    struct api_fair *f = SW_NEW(struct api_fair);

    sw_list_init(&f->walkers);
    f->max = max_inflight ? max_inflight : 400;
    f->max_watches = max_watches ? max_watches : 4096;
    return f;
}

static void client_free(struct client *c)
{
    sw_list_unlink(&c->walking.turn);
    sw_free((void *)(uintptr_t)c->name.p);
    sw_free(c);
}

void api_fair_free(struct api_fair *f)
{
    if (!f)
        return;
    SW_MAP_DRAIN(&f->clients, client_free);
    sw_free(f);
}

static void client_maybe_free(struct api_fair *f, struct client *c)
{
    if (c->inflight || c->watches)
        return;
    (void)sw_map_del(&f->clients, c->name);
    client_free(c);
}

bool api_fair_enter(struct api_req *r)
{
    struct api_fair *f = r->api->fair;
    struct sw_slice name = api_tenant(&r->user);
    struct client *c = sw_map_get(&f->clients, name);

    if (c && c->inflight >= f->max)
        return false;
    if (!c) {
        c = SW_NEW(struct client);
        c->name = sw_slice(sw_slice_dup(name), name.n);
        sw_round_init(&c->walking);
        (void)sw_map_put(&f->clients, c->name, c);
    }
    c->inflight++;
    r->exec.counted = true;
    r->client_key = c->name;
    return true;
}

void api_fair_leave(struct api_req *r)
{
    struct client *c;

    if (!r->exec.counted)
        return;
    r->exec.counted = false;
    c = sw_map_get(&r->api->fair->clients, r->client_key);
    if (!c)
        return;
    c->inflight--;
    client_maybe_free(r->api->fair, c);
}

bool api_fair_watch(struct api_req *r)
{
    struct api_fair *f = r->api->fair;
    struct client *c = sw_map_get(&f->clients, r->client_key);

    if (!c || c->watches >= f->max_watches)
        return false;
    c->watches++;
    return true;
}

void api_fair_unwatch(struct api_req *r)
{
    struct client *c = sw_map_get(&r->api->fair->clients, r->client_key);

    if (!c)
        return;
    c->watches--;
    client_maybe_free(r->api->fair, c);
}

void api_fair_walk(struct api_req *r, struct sw_list *turn)
{
    struct api_fair *f = r->api->fair;
    struct client *c = sw_map_get(&f->clients, r->client_key);

    if (c)
        sw_round_add(&f->walkers, &c->walking, turn);
}

struct sw_list *api_fair_walk_next(struct api_fair *f)
{
    return sw_round_next(&f->walkers);
}

bool api_fair_walks(const struct api_fair *f)
{
    return !sw_list_empty(&f->walkers);
}
