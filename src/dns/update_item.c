/* SPDX-License-Identifier: Apache-2.0 */
/* The names an updater cares for: what is wanted at each, and what the server has. */
#include "base/mem.h"
#include "dns/update_int.h"

struct updater_item *updater_item_at(struct sw_dns_updater *u, const struct sw_dns_name *name)
{
    struct sw_dns_name key;
    struct updater_item *it = sw_dns_name_find(&u->items, name, &key);

    if (it)
        return it;
    it = SW_NEW(struct updater_item);
    it->key = key;
    it->set.name = *name;
    it->set.type = SW_DNS_TXT;
    sw_list_init(&it->link);
    (void)sw_map_put(&u->items, sw_dns_name_bytes(&it->key), it);
    return it;
}

void updater_free_item(struct sw_dns_updater *u, struct updater_item *it)
{
    if (u->current == it)
        u->current = NULL;
    (void)sw_map_del(&u->items, sw_dns_name_bytes(&it->key));
    sw_list_unlink(&it->link);
    sw_arena_clear(&it->arena);
    sw_free(it);
}

void updater_set_foreign(struct sw_dns_updater *u, struct updater_item *it, bool on)
{
    if (it->foreign != on)
        u->foreign = on ? u->foreign + 1 : u->foreign - 1;
    it->foreign = on;
}

void updater_file_item(struct sw_dns_updater *u, struct updater_item *it)
{
    sw_list_unlink(&it->link);
    it->tried = false;
    if (it->want != it->have && !it->foreign)
        sw_list_push_back(&u->queue, &it->link);
    else if (!it->want) {
        updater_set_foreign(u, it, false);
        updater_free_item(u, it);
    }
}

void updater_take_set(struct sw_dns_updater *u, const struct sw_dns_rrset *s)
{
    struct updater_item *it = updater_item_at(u, &s->name);
    uint64_t print = sw_dns_set_print(s);
    struct sw_slice *rdata;

    it->seen = true;
    if (it->want == print)
        return;
    sw_arena_clear(&it->arena);
    rdata = sw_arena_array(&it->arena, s->n + 1, sizeof(*rdata));
    for (size_t i = 0; i < s->n; i++)
        rdata[i] = sw_arena_slice(&it->arena, s->rdata[i]);
    it->set = (struct sw_dns_rrset){
        .name = s->name, .type = SW_DNS_TXT, .ttl = s->ttl, .rdata = rdata, .n = s->n};
    it->want = print;
}
