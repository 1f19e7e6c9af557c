/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies in and out of the builder, and the lists that apply together: the global ones, those of
 * a namespace, and those that workloads list. Only lists that a change touches are made again.
 */
#include <string.h>

#include "base/mem.h"
#include "base/search.h"
#include "node/state/state_int.h"

/* ---- in and out ---- */

static void remember(struct sw_map *m, struct sw_slice text)
{
    char *own;

    if (sw_map_get(m, text))
        return;
    own = sw_slice_dup(text);
    (void)sw_map_put(m, sw_slice(own, text.n), own);
}

static void forget_all(struct sw_map *m)
{
    SW_MAP_DRAIN(m, sw_free);
}

static void note_change(struct sw_state_builder *b, const struct sw_policy *p)
{
    remember(&b->changed_keys, p->key);
    if (p->scope == SW_POLICY_GLOBAL)
        b->changed_global = true;
    else if (p->scope == SW_POLICY_NAMESPACE)
        remember(&b->changed_ns, p->ns);
    b->t.authz_version = sw_state_tick();
    b->changed = true;
}

static void relink(struct sw_state_builder *b, struct sw_slice key, struct sw_shared_policy *new)
{
    struct sw_shared_policy *old =
        (struct sw_shared_policy *)(uintptr_t)sw_state_find_policy(&b->t, key);
    uint64_t hash = sw_state_hash_text(key, sw_slice("", 0));

    if (old)
        note_change(b, old->p);
    if (new)
        note_change(b, new->p);
    sw_smap_set(&b->t.by_policy, &b->edit, hash, old, new);
    if (old)
        sw_state_junk_shared(b, &old->h);
}

int sw_state_add_policy(struct sw_state_builder *b, const struct sw_policy *p,
                        struct sw_slice version, struct sw_err *err)
{
    struct sw_shared_policy *new = SW_NEW(struct sw_shared_policy);
    int rc = sw_policy_copy(&new->h.arena, p, &new->p, err);

    if (rc != SW_OK) {
        sw_arena_clear(&new->h.arena);
        sw_free(new);
        return rc;
    }
    new->version = sw_arena_slice(&new->h.arena, version.n > UINT8_MAX ? sw_slice("", 0) : version);
    relink(b, new->p->key, new);
    return SW_OK;
}

bool sw_state_remove_policy(struct sw_state_builder *b, struct sw_slice key)
{
    if (!sw_state_find_policy(&b->t, key))
        return false;
    relink(b, key, NULL);
    return true;
}

bool sw_state_has_policy(const struct sw_state_builder *b, struct sw_slice ns, struct sw_slice name)
{
    SW_AUTO_FREE char *key = sw_asprintf("%.*s/%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(name));

    return sw_state_find_policy(&b->t, sw_slice_str(key)) != NULL;
}

/* ---- lists ---- */

/* The policies of that scope, and of that namespace if one is given; NULL: there are none. */
static struct sw_scope_list *make_list(const struct sw_state_builder *b, enum sw_policy_scope scope,
                                       struct sw_slice ns)
{
    SW_VEC(const struct sw_policy *) found = {0};
    struct sw_scope_list *l = NULL;

    SW_SMAP_EACH (const struct sw_shared_policy, p, &b->t.by_policy) {
        if (p->p->scope == scope && (scope == SW_POLICY_GLOBAL || sw_slice_eq(p->p->ns, ns)))
            sw_vec_push(&found, p->p);
    }
    if (found.n) {
        SW_SORT_POINTERS_BY2(found.p, found.n, ns, name);
        l = SW_NEW(struct sw_scope_list);
        l->ns = sw_arena_slice(&l->h.arena, ns);
        l->list = sw_policy_list_new(&l->h.arena, found.p, found.n);
    }
    sw_vec_done(&found);
    return l;
}

static void settle_ns(struct sw_state_builder *b, struct sw_slice ns)
{
    uint64_t hash = sw_state_hash_text(ns, sw_slice("", 0));
    struct sw_scope_list *old = (struct sw_scope_list *)(uintptr_t)sw_state_find_scope(&b->t, ns);

    sw_smap_set(&b->t.by_ns, &b->edit, hash, old, make_list(b, SW_POLICY_NAMESPACE, ns));
    if (old)
        sw_state_junk_shared(b, &old->h);
}

static void settle_global(struct sw_state_builder *b)
{
    struct sw_scope_list *old = (struct sw_scope_list *)(uintptr_t)b->t.global;

    b->t.global = make_list(b, SW_POLICY_GLOBAL, sw_slice("", 0));
    if (old)
        sw_state_junk_shared(b, &old->h);
}

static bool is_stale(const struct sw_state_builder *b, const struct sw_selector *s)
{
    if (!s->now)
        return true;
    for (size_t i = 0; b->changed_keys.n && i < s->n; i++) {
        if (sw_map_get(&b->changed_keys, s->keys[i]))
            return true;
    }
    return false;
}

static void resolve(struct sw_state_builder *b, struct sw_selector *s)
{
    struct sw_selected *new = SW_NEW(struct sw_selected);
    SW_VEC(const struct sw_policy *) found = {0};

    new->of = s;
    for (size_t i = 0; i < s->n; i++) {
        const struct sw_shared_policy *p = sw_state_find_policy(&b->t, s->keys[i]);

        if (p)
            sw_vec_push(&found, p->p);
        else if (new->missing.n == 0)
            new->missing = s->keys[i];
    }
    if (found.n)
        new->list = sw_policy_list_new(&new->h.arena, found.p, found.n);
    sw_vec_done(&found);
    sw_smap_set(&b->t.selected, &b->edit, s->hash, s->now, new);
    if (s->now)
        sw_state_junk_shared(b, &s->now->h);
    s->now = new;
}

void sw_state_settle_policies(struct sw_state_builder *b)
{
    if (b->changed_global)
        settle_global(b);
    SW_MAP_FOREACH (it, &b->changed_ns)
        settle_ns(b, it->key);
    if (b->changed_keys.n || b->fresh_selectors) {
        SW_SMAP_EACH (const struct sw_selector, s, &b->selectors) {
            if (is_stale(b, s))
                resolve(b, (struct sw_selector *)(uintptr_t)s); /* the builder's to write */
        }
    }
    forget_all(&b->changed_keys);
    forget_all(&b->changed_ns);
    b->changed_global = false;
    b->fresh_selectors = false;
}
