/* SPDX-License-Identifier: Apache-2.0 */
/* The ids of a worker, the connections of each, and the ids each sent to. */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "relay/relay_int.h"

enum {
    SENT_MAX = 1024,          /* ids remembered of one sender; EndpointGone is a courtesy */
    SENT_SLOTS_MAX = 1 << 20, /* and of all senders of a worker, 32 MiB */
};

unsigned relay_home(const struct sw_relay *r, const struct sw_nodeid *id)
{
    if (r->n_workers == 1)
        return 0;
    return (unsigned)(sw_siphash13(r->hash_key[0], r->hash_key[1], id->b, sizeof(id->b)) %
                      r->n_workers);
}

struct relay_id *relay_table_get(struct relay_worker *w, const struct sw_nodeid *id)
{
    return sw_map_get(&w->ids, sw_slice(id->b, sizeof(id->b)));
}

static struct relay_client *active_of(const struct relay_id *id)
{
    return SW_CONTAINER_OF(id->clients.next, struct relay_client, same);
}

static struct relay_owed *owed_of(struct relay_worker *w, const struct sw_nodeid *id)
{
    return &w->owed[sw_hash(id->b, sizeof(id->b)) % RELAY_OWED];
}

static void bucket_init(struct relay_worker *w, struct relay_id *e)
{
    const struct relay_owed *o = owed_of(w, &e->id);

    if (sw_nodeid_eq(&o->id, &e->id))
        e->bucket = o->bucket;
    else
        e->bucket = (struct relay_bucket){.tokens = w->relay->config->burst,
                                          .tokens_ns = sw_loop_now(w->loop)};
}

static void bucket_keep(struct relay_worker *w, const struct relay_id *e)
{
    if (w->relay->config->rate)
        *owed_of(w, &e->id) = (struct relay_owed){.id = e->id, .bucket = e->bucket};
}

void relay_table_add(struct relay_client *c, const struct sw_nodeid *id)
{
    struct relay_worker *w = c->worker;
    struct relay_id *e = relay_table_get(w, id);

    if (!e) {
        e = SW_NEW(struct relay_id);
        e->id = *id;
        sw_list_init(&e->clients);
        bucket_init(w, e);
        (void)sw_map_put(&w->ids, sw_slice(e->id.b, sizeof(e->id.b)), e);
        sw_metric_add(w->stats.unique_keys, 1);
    } else {
        relay_client_status(active_of(e), SW_RELAY_SAME_ID);
        sw_metric_add(w->stats.inactive_added, 1);
    }
    c->id = e;
    sw_list_push_front(&e->clients, &c->same);
}

static bool is_hole(const struct sw_nodeid *id)
{
    static const struct sw_nodeid zero;

    return sw_nodeid_eq(id, &zero);
}

static void id_free(struct relay_worker *w, struct relay_id *e)
{
    (void)sw_map_del(&w->ids, sw_slice(e->id.b, sizeof(e->id.b)));
    for (uint32_t i = 0; i < e->sent_cap; i++) {
        if (!is_hole(&e->sent[i]))
            relay_forward_gone(w, &e->sent[i], &e->id);
    }
    w->sent_slots -= e->sent_cap;
    bucket_keep(w, e);
    sw_free(e->sent);
    sw_free(e);
}

void relay_table_remove(struct relay_client *c)
{
    struct relay_id *e = c->id;
    bool was_active;

    if (!e)
        return;
    was_active = active_of(e) == c;
    sw_list_unlink(&c->same);
    c->id = NULL;
    if (sw_list_empty(&e->clients)) {
        id_free(c->worker, e);
        return;
    }
    sw_metric_add(c->worker->stats.inactive_removed, 1);
    if (was_active)
        relay_client_status(active_of(e), SW_RELAY_HEALTHY);
}

/* ---- ids it sent to ---- */

/* Where the id is, or would be. */
static struct sw_nodeid *sent_slot(const struct relay_id *e, const struct sw_nodeid *to)
{
    uint64_t at = sw_hash(to->b, sizeof(to->b));

    while (!is_hole(&e->sent[at & (e->sent_cap - 1)])) {
        if (sw_nodeid_eq(&e->sent[at & (e->sent_cap - 1)], to))
            break;
        at++;
    }
    return &e->sent[at & (e->sent_cap - 1)];
}

static bool sent_grow(struct relay_worker *w, struct relay_id *e)
{
    struct sw_nodeid *old = e->sent;
    uint32_t old_cap = e->sent_cap;
    uint32_t cap = old_cap ? old_cap * 2 : 2;

    if (cap > 2 * SENT_MAX || w->sent_slots + cap - old_cap > SENT_SLOTS_MAX)
        return false;
    e->sent = SW_NEW_ARRAY(struct sw_nodeid, cap);
    e->sent_cap = cap;
    w->sent_slots += cap - old_cap;
    for (uint32_t i = 0; i < old_cap; i++) {
        if (!is_hole(&old[i]))
            *sent_slot(e, &old[i]) = old[i];
    }
    sw_free(old);
    return true;
}

void relay_table_sent(struct relay_worker *w, struct relay_id *from, const struct sw_nodeid *to)
{
    struct sw_nodeid *slot;

    if (SW_LIKELY(sw_nodeid_eq(&from->last, to)) || is_hole(to))
        return;
    from->last = *to;
    if (2 * (from->sent_n + 1) > from->sent_cap && !sent_grow(w, from))
        return;
    slot = sent_slot(from, to);
    if (is_hole(slot)) {
        *slot = *to;
        from->sent_n++;
    }
}
