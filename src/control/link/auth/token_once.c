/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tokens were used. All live equally long, so the oldest is the first to be forgotten: a
 * queue and a map over it, both bounded.
 */
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "control/link/auth/token.h"

struct used {
    struct sw_list link;
    uint64_t exp_s;
    uint8_t jti[SW_LINK_JTI];
};

struct sw_link_once {
    struct sw_map map; /* jti -> struct used */
    struct sw_list queue;
    size_t max;
};

struct sw_link_once *sw_link_once_new(size_t max)
{
    struct sw_link_once *o = SW_NEW(struct sw_link_once);

    sw_list_init(&o->queue);
    o->max = max;
    return o;
}

static void forget(struct sw_link_once *o, struct used *u)
{
    (void)sw_map_del(&o->map, sw_slice(u->jti, sizeof(u->jti)));
    sw_list_unlink(&u->link);
    sw_free(u);
}

void sw_link_once_free(struct sw_link_once *o)
{
    if (!o)
        return;
    SW_LIST_FOREACH (it, &o->queue)
        forget(o, SW_CONTAINER_OF(it, struct used, link));
    sw_map_done(&o->map);
    sw_free(o);
}

int sw_link_once_use(struct sw_link_once *o, const uint8_t jti[SW_LINK_JTI], uint64_t exp_s,
                     uint64_t now_s)
{
    struct used *u;

    while (!sw_list_empty(&o->queue)) {
        u = SW_CONTAINER_OF(o->queue.next, struct used, link);
        if (u->exp_s > now_s)
            break;
        forget(o, u);
    }
    if (sw_map_get(&o->map, sw_slice(jti, SW_LINK_JTI)))
        return SW_EDENIED;
    if (o->map.n >= o->max)
        return SW_ELIMIT;
    u = SW_NEW(struct used);
    memcpy(u->jti, jti, sizeof(u->jti));
    u->exp_s = exp_s;
    sw_list_push_back(&o->queue, &u->link);
    (void)sw_map_put(&o->map, sw_slice(u->jti, sizeof(u->jti)), u);
    return SW_OK;
}
