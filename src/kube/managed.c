/* SPDX-License-Identifier: Apache-2.0 */
/* managedFields of objects: ordinary writes and server-side apply. */
#include <stdlib.h>

#include "base/vec.h"
#include "kube/builtin.h"
#include "kube/smd.h"

#define LAST_APPLIED "kubectl.kubernetes.io/last-applied-configuration"

enum { UPDATE_MANAGERS_MAX = 10, ANNOTATIONS_MAX = 256 << 10 };

struct owner {
    struct sw_slice manager;
    struct sw_slice api_version;
    struct sw_slice subresource;
    struct sw_slice time; /* empty when unknown */
    bool applied;
    const struct sw_fset *set;
};

struct owners {
    struct sw_arena *a;
    struct owner *p;
    size_t n;
    size_t cap;
};

/* ---- reading and writing ---- */

static void add(struct owners *o, struct owner x)
{
    if (o->n == o->cap) {
        struct owner *p;

        o->cap = o->cap ? o->cap * 2 : 8;
        p = sw_arena_array(o->a, o->cap, sizeof(*p));
        if (o->n)
            memcpy(p, o->p, o->n * sizeof(*p));
        o->p = p;
    }
    o->p[o->n++] = x;
}

static struct sw_slice text_of(const struct sw_json *v, const char *key)
{
    struct sw_slice s = sw_json_str(sw_json_find(v, key));

    return s.p ? s : sw_slice("", 0);
}

static bool same_owner(const struct owner *x, const struct owner *y)
{
    return x->applied == y->applied && sw_slice_eq(x->manager, y->manager) &&
           sw_slice_eq(x->subresource, y->subresource) &&
           (x->applied || sw_slice_eq(x->api_version, y->api_version));
}

static struct owner *find(const struct owners *o, const struct owner *x)
{
    for (size_t i = 0; i < o->n; i++) {
        if (same_owner(&o->p[i], x))
            return &o->p[i];
    }
    return NULL;
}

static void decode_owners(struct sw_arena *a, const struct sw_json *list, struct owners *ret)
{
    *ret = (struct owners){.a = a};
    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *e = sw_json_at(list, i);
        struct owner x = {.manager = text_of(e, "manager"),
                          .api_version = text_of(e, "apiVersion"),
                          .subresource = text_of(e, "subresource"),
                          .time = text_of(e, "time"),
                          .applied = sw_json_str_eq(sw_json_find(e, "operation"), "Apply")};
        struct owner *old;

        if (!sw_json_is(sw_json_find(e, "fieldsV1"), SW_JSON_OBJECT))
            continue;
        x.set = sw_fset_decode(a, sw_json_find(e, "fieldsV1"));
        old = find(ret, &x);
        if (old)
            *old = x;
        else
            add(ret, x);
    }
}

static int cmp_owner(const void *x, const void *y)
{
    const struct owner *p = x;
    const struct owner *q = y;
    int c;

    if (p->applied != q->applied)
        return p->applied ? -1 : 1; /* "Apply" before "Update" */
    if ((c = sw_slice_cmp(p->time, q->time)))
        return c;
    if ((c = sw_slice_cmp(p->manager, q->manager)))
        return c;
    if ((c = sw_slice_cmp(p->api_version, q->api_version)))
        return c;
    return sw_slice_cmp(p->subresource, q->subresource);
}

static struct sw_json *encode_owners(struct owners *o)
{
    struct sw_json *list = sw_json_new_array(o->a);

    qsort(o->p, o->n, o->n ? sizeof(*o->p) : 1, cmp_owner);
    for (size_t i = 0; i < o->n; i++) {
        const struct owner *x = &o->p[i];
        struct sw_json *e = sw_json_new_object(o->a);

        sw_json_put_str(o->a, e, "manager", x->manager);
        sw_json_put(o->a, e, "operation", sw_json_new_str(o->a, x->applied ? "Apply" : "Update"));
        sw_json_put_str(o->a, e, "apiVersion", x->api_version);
        if (x->time.n)
            sw_json_put_str(o->a, e, "time", x->time);
        sw_json_put(o->a, e, "fieldsType", sw_json_new_str(o->a, "FieldsV1"));
        sw_json_put(o->a, e, "fieldsV1", sw_fset_encode(o->a, x->set));
        if (x->subresource.n)
            sw_json_put_str(o->a, e, "subresource", x->subresource);
        sw_json_push(o->a, list, e);
    }
    return list;
}

static void store_owners(struct sw_arena *a, struct sw_json *obj, struct owners *o)
{
    struct sw_json *meta = sw_json_find(obj, "metadata");

    if (!sw_json_is(meta, SW_JSON_OBJECT)) {
        meta = sw_json_new_object(a);
        sw_json_put(a, obj, "metadata", meta);
    }
    (void)sw_json_remove(meta, SW_SLICE_LIT("managedFields"));
    if (o->n)
        sw_json_put(a, meta, "managedFields", encode_owners(o));
}

static void drop_empty(struct owners *o)
{
    size_t n = 0;

    for (size_t i = 0; i < o->n; i++) {
        if (!sw_fset_empty(o->p[i].set))
            o->p[n++] = o->p[i];
    }
    o->n = n;
}

/* A shallow copy whose metadata lacks managedFields. */
static struct sw_json *without_managed(struct sw_arena *a, const struct sw_json *v)
{
    struct sw_json *out = sw_json_new_object(a);

    for (size_t i = 0; i < sw_json_len(v); i++) {
        const struct sw_json_member *m = sw_json_member_at(v, i);
        struct sw_json *x = m->value;

        if (sw_slice_eq_str(m->key, "metadata") && x->type == SW_JSON_OBJECT) {
            x = sw_json_new_object(a);
            for (size_t j = 0; j < sw_json_len(m->value); j++) {
                const struct sw_json_member *k = sw_json_member_at(m->value, j);

                if (!sw_slice_eq_str(k->key, "managedFields"))
                    sw_json_set(a, x, k->key, k->value);
            }
        }
        sw_json_set(a, out, m->key, x);
    }
    return out;
}

/* ---- sets that are never owned ---- */

static struct sw_fset *path_set(struct sw_arena *a, const char *const *paths)
{
    struct sw_fset *s = sw_fset_new(a);

    for (; *paths; paths++) {
        struct sw_slice rest = sw_slice_str(*paths);
        struct sw_fset *at = s;

        for (;;) {
            struct sw_pe pe = {.kind = SW_PE_FIELD, .name = sw_slice_cut(&rest, '.')};
            struct sw_fset_node *n = sw_fset_at(a, at, &pe);

            if (!rest.p) {
                n->member = true;
                break;
            }
            if (!n->kids)
                n->kids = sw_fset_new(a);
            at = n->kids;
        }
    }
    return s;
}

static struct sw_fset *strip_set(struct sw_arena *a)
{
    static const char *const paths[] = {"apiVersion",
                                        "kind",
                                        "metadata",
                                        "metadata.name",
                                        "metadata.namespace",
                                        "metadata.creationTimestamp",
                                        "metadata.selfLink",
                                        "metadata.uid",
                                        "metadata.clusterName",
                                        "metadata.generation",
                                        "metadata.managedFields",
                                        "metadata.resourceVersion",
                                        NULL};

    return path_set(a, paths);
}

static const struct sw_fset *without_reset(const struct sw_smd *c, const struct sw_fset *s)
{
    return c->reset ? sw_fset_minus_deep(c->arena, s, path_set(c->arena, c->reset)) : s;
}

static struct sw_smd_diff diff(const struct sw_smd *c, const struct sw_json *old,
                               const struct sw_json *new)
{
    struct sw_smd_diff d = sw_smd_compare(c, old, new);

    if (c->reset) {
        struct sw_fset *r = path_set(c->arena, c->reset);

        d.added = sw_fset_minus_deep(c->arena, d.added, r);
        d.removed = sw_fset_minus_deep(c->arena, d.removed, r);
        d.modified = sw_fset_minus_deep(c->arena, d.modified, r);
    }
    return d;
}

/* ---- ordinary writes ---- */

static int by_age(const void *x, const void *y)
{
    const struct owner *const *p = x;
    const struct owner *const *q = y;
    int c = sw_slice_cmp((*p)->time, (*q)->time);

    return c ? c : sw_slice_cmp((*p)->manager, (*q)->manager);
}

/* Folds the oldest Update entries of one version into "ancient-changes" while there are too many.
 */
static void cap_updates(struct owners *o)
{
    struct owner **old = sw_arena_array(o->a, o->n + 1, sizeof(struct owner *));
    struct owner *bucket = NULL;
    size_t n = 0;

    for (size_t i = 0; i < o->n; i++) {
        if (!o->p[i].applied)
            old[n++] = &o->p[i];
    }
    if (n <= UPDATE_MANAGERS_MAX)
        return;
    qsort(old, n, sizeof(struct owner *), by_age);
    for (size_t i = 0, left = n; i < n && left > UPDATE_MANAGERS_MAX; i++) {
        if (!bucket || !sw_slice_eq(bucket->api_version, old[i]->api_version)) {
            bucket = old[i];
            continue;
        }
        bucket->manager = SW_SLICE_LIT("ancient-changes");
        bucket->subresource = sw_slice("", 0);
        bucket->set = sw_fset_union(o->a, bucket->set, old[i]->set);
        bucket->time = old[i]->time;
        old[i]->set = sw_fset_new(o->a);
        left--;
    }
    drop_empty(o);
}

/* The change old -> new made by 'me': everybody else loses what changed. */
static void record(const struct sw_smd *c, struct owners *o, const struct owner *me,
                   const struct sw_json *old, const struct sw_json *new)
{
    struct sw_smd_diff d = diff(c, old, new);
    struct sw_fset *gained = sw_fset_union(c->arena, d.modified, d.added);
    struct sw_fset *lost = sw_fset_union(c->arena, gained, d.removed);
    struct owner *mine;

    for (size_t i = 0; i < o->n; i++)
        o->p[i].set = sw_fset_minus(c->arena, o->p[i].set, lost);
    gained = sw_fset_minus(c->arena, gained, strip_set(c->arena));
    if (!sw_fset_empty(gained)) {
        mine = find(o, me);
        if (!mine) {
            add(o, *me);
            mine = &o->p[o->n - 1];
            mine->set = sw_fset_new(c->arena);
        }
        mine->set = sw_fset_union(c->arena, mine->set, gained);
        mine->time = sw_slice_str(c->now);
    }
    drop_empty(o);
}

/* [] and [{}] in a request ask to forget all owners. */
static bool asks_reset(const struct sw_json *list)
{
    return sw_json_is(list, SW_JSON_ARRAY) &&
           (sw_json_len(list) == 0 ||
            (sw_json_len(list) == 1 && sw_json_is(sw_json_at(list, 0), SW_JSON_OBJECT) &&
             !sw_json_len(sw_json_at(list, 0))));
}

/* Entries that cannot be read are as good as none: the stored ones stay. */
static bool readable(const struct sw_json *list)
{
    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *e = sw_json_at(list, i);
        const struct sw_json *op = sw_json_find(e, "operation");

        if (!(sw_json_str_eq(op, "Apply") || sw_json_str_eq(op, "Update")) ||
            !text_of(e, "apiVersion").n ||
            !sw_json_str_eq(sw_json_find(e, "fieldsType"), "FieldsV1"))
            return false;
    }
    return true;
}

static struct sw_json *bare(const struct sw_smd *c, const struct sw_json *like)
{
    struct sw_json *v = sw_json_new_object(c->arena);
    struct sw_json *kind = sw_json_find(like, "kind");

    sw_json_put_str(c->arena, v, "apiVersion", c->api_version);
    if (kind)
        sw_json_put(c->arena, v, "kind", kind);
    return v;
}

/* Parts of a built-in type that are there before anybody says anything belong to nobody. */
static void put_always(struct sw_arena *a, struct sw_json *v, const struct sw_pb_type *t)
{
    for (size_t i = 0; t && i < t->nfields; i++) {
        const struct sw_pb_field *f = &t->fields[i];
        struct sw_json *part;

        if (!f->always || f->kind != SW_PB_MESSAGE)
            continue;
        part = sw_json_new_object(a);
        put_always(a, part, f->type);
        sw_json_set(a, v, f->name, part);
    }
}

static struct sw_json *unborn(const struct sw_smd *c, const struct sw_json *like)
{
    struct sw_json *v = bare(c, like);

    if (c->schema && c->schema->ref.n)
        put_always(c->arena, v, sw_builtin_type(c->schema->ref));
    return v;
}

void sw_smd_update(const struct sw_smd *ctx, const struct sw_json *live, struct sw_json *obj)
{
    const struct sw_json *sent = sw_json_walk(obj, "metadata", "managedFields", NULL);
    const struct sw_json *kept = sw_json_walk(live, "metadata", "managedFields", NULL);
    struct owner me = {
        .manager = ctx->manager, .api_version = ctx->api_version, .subresource = ctx->subresource};
    struct owners o = {.a = ctx->arena};

    if (live && ctx->subresource.n) {
        decode_owners(ctx->arena, kept, &o);
    } else if (!asks_reset(sent)) {
        if (readable(sent))
            decode_owners(ctx->arena, sent, &o);
        if (!o.n)
            decode_owners(ctx->arena, kept, &o);
    }
    /* An object nobody has tracked so far stays that way until somebody applies. */
    if (o.n || !live) {
        record(ctx, &o, &me, live ? without_managed(ctx->arena, live) : unborn(ctx, obj),
               without_managed(ctx->arena, obj));
        cap_updates(&o);
    }
    store_owners(ctx->arena, obj, &o);
}

/* ---- apply ---- */

struct apply {
    const struct sw_smd *c;
    struct owners o;            /* as they will be */
    struct owner me;            /* with the new set */
    const struct sw_fset *last; /* what we applied before; NULL for the first time */
    const struct sw_json *live;
    struct sw_json *merged;
    struct sw_smd_diff d;
};

static struct sw_json *or_bare(const struct apply *x, struct sw_json *v)
{
    return v ? v : bare(x->c, x->live);
}

/*
 * Takes away what we applied before, do not apply now, and nobody else owns. Containers go only
 * when nothing inside them is owned.
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
    const struct owner *owner;
    const char *path;
};

struct conflicts {
    struct sw_arena *a;
    SW_VEC(struct conflict) v;
    const struct owner *owner;
};

static void note_conflict(void *arg, const char *path)
{
    struct conflicts *c = arg;

    sw_vec_push(&c->v, (struct conflict){c->owner, path});
}

static const char *owner_text(struct sw_arena *a, const struct owner *o)
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
        struct sw_json *e = sw_json_new_object(c->a);
        const char *msg =
            sw_arena_printf(c->a, "conflict with %s", owner_text(c->a, c->v.p[i].owner));

        sw_json_put(c->a, e, "reason", sw_json_new_str(c->a, "FieldManagerConflict"));
        sw_json_put(c->a, e, "message", sw_json_new_str(c->a, msg));
        sw_json_put(c->a, e, "field", sw_json_new_str(c->a, c->v.p[i].path));
        sw_json_push(c->a, list, e);
    }
    return list;
}

/* What kubectl applied the old way and nobody changed since: it may take that over. */
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
    const struct owner *p = x;
    const struct owner *q = y;
    int c = sw_slice_cmp(p->manager, q->manager);

    return c ? c : cmp_owner(x, y);
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

        if (same_owner(&x->o.p[i], &x->me))
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

    for (size_t i = 0; i < sw_json_len(ann); i++)
        n += sw_json_member_at(ann, i)->key.n + sw_json_str(sw_json_member_at(ann, i)->value).n;
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
    struct sw_slice ns = text_of(sw_json_find(config, "metadata"), "namespace");
    struct sw_slice name = text_of(sw_json_find(config, "metadata"), "name");
    struct sw_slice kind = text_of(config, "kind");
    bool core = sw_slice_find(c->api_version, '/') < 0;

    return sw_arena_printf(c->arena,
                           "failed to create typed patch object (%.*s/%.*s; %s%.*s, Kind=%.*s): %s",
                           SW_SLICE_ARG(ns), SW_SLICE_ARG(name), core ? "/" : "",
                           SW_SLICE_ARG(c->api_version), SW_SLICE_ARG(kind), why);
}

static void prepare(struct apply *x, const struct sw_json *live, const struct sw_json *config)
{
    const struct sw_smd *c = x->c;
    struct owner *mine;

    decode_owners(c->arena, sw_json_walk(live, "metadata", "managedFields", NULL), &x->o);
    x->live = live ? without_managed(c->arena, live) : bare(c, config);
    if (live && !x->o.n) {
        struct owner before = {.manager = SW_SLICE_LIT("before-first-apply"),
                               .api_version = c->api_version,
                               .subresource = c->subresource};

        record(c, &x->o, &before, bare(c, config), x->live);
    }
    x->me = (struct owner){.manager = c->manager,
                           .api_version = c->api_version,
                           .subresource = c->subresource,
                           .applied = true};
    x->me.set = without_reset(c, sw_smd_fieldset(c, config));
    mine = find(&x->o, &x->me);
    x->last = mine ? mine->set : NULL;
    x->me.time = mine ? mine->time : sw_slice("", 0);
    if (mine)
        *mine = x->me;
    else
        add(&x->o, x->me);
}

/* Everybody else loses what this apply changed. */
static void settle(struct apply *x)
{
    struct sw_arena *a = x->c->arena;
    struct sw_fset *lost =
        sw_fset_union(a, sw_fset_union(a, x->d.modified, x->d.added), x->d.removed);

    for (size_t i = 0; i < x->o.n; i++) {
        if (same_owner(&x->o.p[i], &x->me))
            x->o.p[i].set = sw_fset_minus(a, x->o.p[i].set, strip_set(a));
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
    struct owner *mine;

    if (sw_json_walk(config, "metadata", "managedFields", NULL))
        return refuse(SW_SMD_BAD_REQUEST, "metadata.managedFields must be nil");
    why = sw_smd_typed_errors(ctx, config);
    if (why)
        return refuse(SW_SMD_TYPED, typed_message(ctx, config, why));
    prepare(&x, live, config);
    x.merged = sw_smd_merge(ctx, x.live, config);
    prune(&x);
    x.d = diff(ctx, x.live, x.merged);
    if (!force && find_conflicts(&x, &r))
        return r;
    settle(&x);
    mine = find(&x.o, &x.me);
    r.changed = !live || !sw_fset_empty(x.d.added) || !sw_fset_empty(x.d.modified) ||
                !sw_fset_empty(x.d.removed) || !x.last || !sw_fset_equal(x.last, mine->set) ||
                !sw_json_walk(live, "metadata", "managedFields", NULL);
    if (r.changed)
        mine->time = sw_slice_str(ctx->now);
    drop_empty(&x.o);
    r.object = sw_json_copy(ctx->arena, x.merged);
    refresh_last_applied(&x, config, r.object);
    store_owners(ctx->arena, r.object, &x.o);
    return r;
}

static struct sw_json *without_times(struct sw_arena *a, const struct sw_json *v)
{
    struct sw_json *copy = sw_json_copy(a, v);
    struct sw_json *list = sw_json_walk(copy, "metadata", "managedFields", NULL);

    for (size_t i = 0; i < sw_json_len(list); i++) {
        if (sw_json_is(sw_json_at(list, i), SW_JSON_OBJECT))
            (void)sw_json_remove(sw_json_at(list, i), SW_SLICE_LIT("time"));
    }
    return copy;
}

bool sw_smd_equal_but_times(struct sw_arena *a, const struct sw_json *x, const struct sw_json *y)
{
    return sw_json_equal(without_times(a, x), without_times(a, y), SW_JSON_EQ_VALUE);
}
