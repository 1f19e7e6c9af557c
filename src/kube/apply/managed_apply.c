/* SPDX-License-Identifier: Apache-2.0 */
/* managedFields of objects: server-side apply. */
#include <stdlib.h>

#include "base/vec.h"
#include "kube/apply/managed_int.h"

#define LAST_APPLIED "kubectl.kubernetes.io/last-applied-configuration"

enum { ANNOTATIONS_MAX = 256 << 10 };

struct apply {
    const struct sw_smd *c;
    struct managed_owners o;    /* as they will be */
    struct managed_owner me;    /* with the new set */
    const struct sw_fset *last; /* what we applied before; NULL for the first time */
    const struct sw_json *live;
    struct sw_json *merged;
    struct sw_smd_diff d;
};

static struct sw_json *or_bare(const struct apply *x, struct sw_json *v)
{
    return v ? v : managed_bare(x->c, x->live);
}

/*
 * Removes what this manager applied before, does not apply now, and no other manager owns.
 * Containers go only when nothing inside them is owned.
 */
static void prune(struct apply *x)
{
    struct sw_arena *a = x->c->arena;
    struct sw_fset *managed = sw_fset_new(a);
    struct sw_fset *merged_set, *pruned_set, *last, *gone;
    struct sw_json *pruned;

    if (!x->last || sw_fset_empty(x->last))
        return;
    last = sw_smd_named(x->c, x->last);
    pruned = or_bare(x, sw_smd_remove(x->c, x->merged, last));
    for (size_t i = 0; i < x->o.n; i++)
        managed = sw_fset_union(a, managed, x->o.p[i].set);
    merged_set = sw_smd_named(x->c, sw_smd_fieldset(x->c, x->merged));
    pruned_set = sw_smd_named(x->c, sw_smd_fieldset(x->c, pruned));
    gone = sw_fset_minus(a, merged_set, sw_fset_union(a, pruned_set, sw_smd_named(x->c, managed)));
    pruned = or_bare(x, sw_smd_remove(x->c, x->merged, gone));
    pruned_set = sw_smd_named(x->c, sw_smd_fieldset(x->c, pruned));
    gone = sw_fset_intersect(a, sw_fset_minus(a, merged_set, pruned_set), last);
    x->merged = or_bare(x, sw_smd_remove(x->c, x->merged, gone));
}

/* ---- conflicts ---- */

struct conflict {
    const struct managed_owner *owner;
    const char *path;
};

struct conflicts {
    struct sw_arena *a;
    SW_VEC(struct conflict) v;
    const struct managed_owner *owner;
};

static void note_conflict(void *arg, const char *path)
{
    struct conflicts *c = arg;

    sw_vec_push(&c->v, (struct conflict){c->owner, path});
}

static const char *owner_text(struct sw_arena *a, const struct managed_owner *o)
{
    const char *text = sw_go_quote(a, o->manager);

    if (o->subresource.n)
        text = sw_arena_printf(a, "%s with subresource %s", text, sw_go_quote(a, o->subresource));
    if (!o->applied)
        text = sw_arena_printf(a, "%s using %.*s", text, SW_SLICE_ARG(o->api_version));
    return text;
}

static const char *conflict_message(const struct conflicts *c)
{
    const char *out;

    if (c->v.n == 1)
        return sw_arena_printf(c->a, "Apply failed with 1 conflict: conflict with %s: %s",
                               owner_text(c->a, c->v.p[0].owner), c->v.p[0].path);
    out = sw_arena_printf(c->a, "Apply failed with %zu conflicts: ", c->v.n);
    for (size_t i = 0; i < c->v.n; i++) {
        if (i == 0 || c->v.p[i].owner != c->v.p[i - 1].owner)
            out = sw_arena_printf(c->a, "%s%sconflicts with %s:", out, i ? "\n" : "",
                                  owner_text(c->a, c->v.p[i].owner));
        out = sw_arena_printf(c->a, "%s\n- %s", out, c->v.p[i].path);
    }
    return out;
}

static struct sw_json *conflict_causes(const struct conflicts *c)
{
    struct sw_json *list = sw_json_new_array(c->a);

    for (size_t i = 0; i < c->v.n; i++) {
        const char *msg =
            sw_arena_printf(c->a, "conflict with %s", owner_text(c->a, c->v.p[i].owner));

        sw_json_push(c->a, list,
                     SW_JSON_OF(c->a, {"reason", .str = "FieldManagerConflict"},
                                {"message", .str = msg}, {"field", .str = c->v.p[i].path}));
    }
    return list;
}

/* What kubectl applied client-side and no manager changed since: it may take that over. */
static const struct sw_fset *last_applied_set(const struct sw_smd *c, const struct sw_json *live)
{
    struct sw_slice text = sw_json_str(sw_json_get(
        sw_json_walk(live, "metadata", "annotations", NULL), SW_SLICE_LIT(LAST_APPLIED)));
    const struct sw_json_opts opts = {.max_nodes = 200000, .max_depth = 100};
    struct sw_json *v;
    struct sw_smd_diff d;
    struct sw_fset *s;

    if (!text.p || sw_json_parse(c->arena, text, &opts, &v, NULL) < 0 || v->type != SW_JSON_OBJECT)
        return sw_fset_new(c->arena);
    d = sw_smd_compare(c, live, v);
    s = sw_fset_minus(c->arena, sw_smd_fieldset(c, v), d.modified);
    s = sw_fset_minus(c->arena, s, d.added);
    return sw_fset_minus(c->arena, s, d.removed);
}

static int by_owner(const void *x, const void *y)
{
    const struct managed_owner *p = x;
    const struct managed_owner *q = y;
    int c = sw_slice_cmp(p->manager, q->manager);

    return c ? c : managed_cmp(x, y);
}

/* Finds conflicts; true when there are some that must be reported. */
static bool find_conflicts(struct apply *x, struct sw_smd_result *r)
{
    struct sw_arena *a = x->c->arena;
    struct sw_fset *hot = sw_fset_union(a, x->d.modified, x->d.added);
    bool kubectl = sw_slice_eq_str(x->c->manager, "kubectl");
    const struct sw_fset *allowed = kubectl ? last_applied_set(x->c, x->live) : NULL;
    struct conflicts c = {.a = a};
    bool any;

    qsort(x->o.p, x->o.n, x->o.n ? sizeof(*x->o.p) : 1, by_owner);
    for (size_t i = 0; i < x->o.n; i++) {
        struct sw_fset *both;

        if (managed_same(&x->o.p[i], &x->me))
            continue;
        both = sw_fset_intersect(a, x->o.p[i].set, hot);
        if (allowed)
            both = sw_fset_minus(a, both, allowed);
        c.owner = &x->o.p[i];
        sw_fset_each(a, both, "", note_conflict, &c);
    }
    any = c.v.n > 0;
    if (any) {
        r->status = SW_SMD_CONFLICT;
        r->message = conflict_message(&c);
        r->causes = conflict_causes(&c);
    }
    sw_vec_done(&c.v);
    return any;
}

/* ---- the last-applied annotation ---- */

static size_t annotation_bytes(const struct sw_json *ann)
{
    size_t n = 0;

    SW_JSON_MEMBERS (m, ann)
        n += m->key.n + sw_json_str(m->value).n;
    return n;
}

/* kubectl's server-side apply keeps the annotation of its client-side apply current. */
static void refresh_last_applied(const struct apply *x, const struct sw_json *config,
                                 struct sw_json *obj)
{
    static const struct sw_json_write_opts opts = {.flags = SW_JSON_SORT_KEYS | SW_JSON_GO_ESCAPE};
    struct sw_arena *a = x->c->arena;
    struct sw_json *ann = sw_json_walk(obj, "metadata", "annotations", NULL);
    struct sw_json *copy = sw_json_copy(a, config);
    struct sw_json *theirs = sw_json_walk(copy, "metadata", "annotations", NULL);
    struct sw_slice text;

    if (!sw_slice_eq_str(x->c->manager, "kubectl") || x->c->subresource.n ||
        !sw_json_get(ann, SW_SLICE_LIT(LAST_APPLIED)))
        return;
    if (sw_json_is(theirs, SW_JSON_OBJECT))
        (void)sw_json_remove(theirs, SW_SLICE_LIT(LAST_APPLIED));
    text = sw_json_text(a, copy, &opts);
    text = sw_slice_str(sw_arena_printf(a, "%.*s\n", SW_SLICE_ARG(text)));
    sw_json_set(a, ann, SW_SLICE_LIT(LAST_APPLIED), sw_json_new_string(a, text));
    if (annotation_bytes(ann) > ANNOTATIONS_MAX)
        (void)sw_json_remove(ann, SW_SLICE_LIT(LAST_APPLIED));
}

/* ---- putting it together ---- */

static struct sw_smd_result refuse(enum sw_smd_status status, const char *message)
{
    return (struct sw_smd_result){.status = status, .message = message};
}

static const char *typed_message(const struct sw_smd *c, const struct sw_json *config,
                                 const char *why)
{
    struct sw_slice ns = sw_field_text(sw_json_find(config, "metadata"), "namespace");
    struct sw_slice name = sw_field_text(sw_json_find(config, "metadata"), "name");
    struct sw_slice kind = sw_field_text(config, "kind");
    bool core = sw_slice_find(c->api_version, '/') < 0;

    return sw_arena_printf(c->arena,
                           "failed to create typed patch object (%.*s/%.*s; %s%.*s, Kind=%.*s): %s",
                           SW_SLICE_ARG(ns), SW_SLICE_ARG(name), core ? "/" : "",
                           SW_SLICE_ARG(c->api_version), SW_SLICE_ARG(kind), why);
}

static void prepare(struct apply *x, const struct sw_json *live, const struct sw_json *config)
{
    const struct sw_smd *c = x->c;
    struct managed_owner *mine;

    managed_decode(c->arena, sw_json_walk(live, "metadata", "managedFields", NULL), &x->o);
    x->live = live ? managed_strip(c->arena, live) : managed_bare(c, config);
    if (live && !x->o.n) {
        struct managed_owner before = {.manager = SW_SLICE_LIT("before-first-apply"),
                                       .api_version = c->api_version,
                                       .subresource = c->subresource};

        managed_record(c, &x->o, &before, managed_bare(c, config), x->live);
    }
    x->me = (struct managed_owner){.manager = c->manager,
                                   .api_version = c->api_version,
                                   .subresource = c->subresource,
                                   .applied = true};
    x->me.set = managed_without_reset(c, sw_smd_fieldset(c, config));
    mine = managed_find(&x->o, &x->me);
    x->last = mine ? mine->set : NULL;
    x->me.time = mine ? mine->time : sw_slice("", 0);
    if (mine)
        *mine = x->me;
    else
        managed_add(&x->o, x->me);
}

/* All other managers lose what this apply changed. */
static void settle(struct apply *x)
{
    struct sw_arena *a = x->c->arena;
    struct sw_fset *lost =
        sw_fset_union(a, sw_fset_union(a, x->d.modified, x->d.added), x->d.removed);

    for (size_t i = 0; i < x->o.n; i++) {
        if (managed_same(&x->o.p[i], &x->me))
            x->o.p[i].set = sw_fset_minus(a, x->o.p[i].set, managed_never_owned(a));
        else
            x->o.p[i].set = sw_fset_minus(a, x->o.p[i].set, lost);
    }
}

struct sw_smd_result sw_smd_apply(const struct sw_smd *ctx, const struct sw_json *live,
                                  const struct sw_json *config, bool force)
{
    struct apply x = {.c = ctx};
    struct sw_smd_result r = {.status = SW_SMD_OK};
    const char *why;
    struct managed_owner *mine;

    if (sw_json_walk(config, "metadata", "managedFields", NULL))
        return refuse(SW_SMD_BAD_REQUEST, "metadata.managedFields must be nil");
    why = sw_smd_typed_errors(ctx, config);
    if (why)
        return refuse(SW_SMD_TYPED, typed_message(ctx, config, why));
    prepare(&x, live, config);
    x.merged = sw_smd_merge(ctx, x.live, config);
    prune(&x);
    x.d = managed_diff(ctx, x.live, x.merged);
    if (!force && find_conflicts(&x, &r))
        return r;
    settle(&x);
    mine = managed_find(&x.o, &x.me);
    r.changed = !live || !sw_fset_empty(x.d.added) || !sw_fset_empty(x.d.modified) ||
                !sw_fset_empty(x.d.removed) || !x.last || !sw_fset_equal(x.last, mine->set) ||
                !sw_json_walk(live, "metadata", "managedFields", NULL);
    if (r.changed)
        mine->time = sw_slice_str(ctx->now);
    managed_drop_empty(&x.o);
    r.object = sw_json_copy(ctx->arena, x.merged);
    refresh_last_applied(&x, config, r.object);
    managed_store(ctx->arena, r.object, &x.o);
    return r;
}
