/* SPDX-License-Identifier: Apache-2.0 */
/* Life of snapshots and of their builder: references, the next snapshot, and who frees what. */
#include "base/mem.h"
#include "base/rand.h"
#include "node/state/state_int.h"

/* ---- junk ---- */

static void shared_free(struct sw_shared *s)
{
    sw_arena_clear(&s->arena);
    sw_free(s);
}

static void junk_free(struct sw_state_junk *j)
{
    SW_VEC_FOREACH (void *, it, &j->plain.old)
        sw_free(*it);
    SW_VEC_FOREACH (struct sw_shared *, it, &j->shared)
        shared_free(*it);
    sw_vec_done(&j->plain.old);
    sw_vec_done(&j->shared);
}

void sw_state_junk(struct sw_state_builder *b, const void *p)
{
    sw_vec_push(&b->junk.plain.old, (void *)(uintptr_t)p);
}

void sw_state_junk_shared(struct sw_state_builder *b, struct sw_shared *s)
{
    sw_vec_push(&b->junk.shared, s);
}

/* ---- the builder ---- */

uint64_t sw_state_tick(void)
{
    static atomic_uint_fast64_t ticks;

    return atomic_fetch_add(&ticks, 1) + 1;
}

struct sw_state_builder *sw_state_builder_new(struct sw_slice node, bool wire_defaults)
{
    struct sw_state_builder *b = SW_NEW(struct sw_state_builder);

    atomic_init(&b->refs, 1);
    b->node = sw_slice_dup(node);
    b->wire_defaults = wire_defaults;
    b->t.local_version = sw_state_tick();
    b->t.authz_version = sw_state_tick();
    b->t.places_version = sw_state_tick();
    b->edit = (struct sw_smap_edit){.number = 1, .bin = &b->junk.plain};
    b->own_edit = b->edit; /* its number stays, so nothing goes to the bin */
    b->changed = true;     /* the empty snapshot is one, too */
    b->draft.tight = true;
    sw_buf_init(&b->key, SIZE_MAX / 4); /* as large as what was accepted */
    sw_rand_bytes(b->digest_k, sizeof(b->digest_k));
    return b;
}

static void free_values(const struct sw_smap *m)
{
    SW_SMAP_EACH (const void, v, m)
        sw_free((void *)(uintptr_t)v);
}

static void free_shared_values(const struct sw_smap *m)
{
    SW_SMAP_EACH (const void, v, m)
        shared_free((struct sw_shared *)(uintptr_t)v);
}

static void free_tables(struct sw_state_builder *b)
{
    struct sw_state_tables *t = &b->t;
    struct sw_smap *maps[] = {&t->by_uid, &t->by_ip,   &t->by_hostname, &t->local,
                              &t->by_vip, &t->by_cidr, &t->by_service,  &t->by_policy,
                              &t->by_ns,  &t->staged,  &t->selected};

    free_values(&t->by_uid);
    free_values(&t->by_service);
    free_values(&t->staged);
    free_shared_values(&t->by_policy);
    free_shared_values(&t->by_ns);
    free_shared_values(&t->selected);
    if (t->global)
        shared_free((struct sw_shared *)(uintptr_t)&t->global->h);
    for (size_t i = 0; i < SW_ARRAY_LEN(maps); i++)
        sw_smap_free(maps[i]);
}

static void free_rosters(struct sw_state_builder *b)
{
    SW_SMAP_EACH (const struct sw_roster, r, &b->rosters) {
        sw_free(r->body);
        sw_free(r->p);
    }
    free_values(&b->rosters);
    sw_smap_free(&b->rosters);
}

/* There are no readers any more: what is left is what the tables of now hold, and the last junk. */
static void builder_unref(struct sw_state_builder *b)
{
    if (atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    junk_free(&b->junk);
    free_tables(b);
    free_rosters(b);
    free_values(&b->shared);
    sw_smap_free(&b->shared);
    free_values(&b->selectors);
    sw_smap_free(&b->selectors);
    SW_MAP_DRAIN(&b->changed_keys, sw_free);
    SW_MAP_DRAIN(&b->changed_ns, sw_free);
    sw_vec_done(&b->dirty);
    sw_vec_done(&b->joins);
    sw_vec_done(&b->leaves);
    sw_vec_done(&b->claims);
    sw_arena_clear(&b->claim_arena);
    sw_arena_clear(&b->draft);
    sw_buf_done(&b->key);
    sw_free(b->node);
    sw_free(b);
}

void sw_state_builder_free(struct sw_state_builder *b)
{
    if (!b)
        return;
    (void)sw_state_unref(b->head);
    b->head = NULL;
    builder_unref(b);
}

/* ---- snapshots ---- */

struct sw_state *sw_state_ref(const struct sw_state *s)
{
    struct sw_state *w = (struct sw_state *)(uintptr_t)s; /* only the count is ever written */

    if (w)
        (void)atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
    return w;
}

struct sw_state *sw_state_unref(const struct sw_state *s)
{
    struct sw_state *w = (struct sw_state *)(uintptr_t)s;

    /* One that goes lets its successor go, which may have waited for nothing else. */
    while (w && atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) == 1) {
        struct sw_state *next = w->next;

        junk_free(&w->junk);
        builder_unref(w->builder);
        sw_free(w);
        w = next;
    }
    return NULL;
}

struct sw_state *sw_state_commit(struct sw_state_builder *b)
{
    struct sw_state *old = b->head;
    struct sw_state *s;

    if (b->claims.n)
        sw_state_settle_claims(b);
    if (!b->changed)
        return sw_state_ref(old);
    sw_rosters_settle(b);
    sw_state_settle_policies(b);
    s = SW_NEW(struct sw_state);
    atomic_init(&s->refs, 2); /* the builder's and the caller's */
    s->version = sw_state_tick();
    s->t = b->t;
    s->builder = b;
    (void)atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    b->head = s;
    b->edit.number++;
    b->changed = false;
    if (old) {
        old->junk = b->junk;
        b->junk = (struct sw_state_junk){0};
        old->next = sw_state_ref(s);
        (void)sw_state_unref(old);
    } else {
        junk_free(&b->junk); /* never published */
    }
    return s;
}

struct sw_state *sw_state_finish(struct sw_state_builder *b)
{
    struct sw_state *s = sw_state_commit(b);

    sw_state_builder_free(b);
    return s;
}
