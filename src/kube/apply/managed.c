/* SPDX-License-Identifier: Apache-2.0 */
/* managedFields of objects: ordinary writes. */
#include "kube/apply/managed_int.h"

#include "base/search.h"
#include "kube/builtin/builtin.h"

enum { UPDATE_MANAGERS_MAX = 10 };

/* Folds the oldest Update entries of one version into "ancient-changes" while there are too many.
 */
static void cap_updates(struct managed_owners *o)
{
    struct managed_owner **old = sw_arena_array(o->a, o->n + 1, sizeof(struct managed_owner *));
    struct managed_owner *bucket = NULL;
    size_t n = 0;

    for (size_t i = 0; i < o->n; i++) {
        if (!o->p[i].applied)
            old[n++] = &o->p[i];
    }
    if (n <= UPDATE_MANAGERS_MAX)
        return;
    SW_SORT_POINTERS_BY2(old, n, time, manager);
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
    managed_drop_empty(o);
}

void managed_record(const struct sw_smd *c, struct managed_owners *o,
                    const struct managed_owner *me, const struct sw_json *old,
                    const struct sw_json *new)
{
    struct sw_smd_diff d = managed_diff(c, old, new);
    struct sw_fset *gained = sw_fset_union(c->arena, d.modified, d.added);
    struct sw_fset *lost = sw_fset_union(c->arena, gained, d.removed);
    struct managed_owner *mine;

    for (size_t i = 0; i < o->n; i++)
        o->p[i].set = sw_fset_minus(c->arena, o->p[i].set, lost);
    gained = sw_fset_minus(c->arena, gained, managed_never_owned(c->arena));
    if (!sw_fset_empty(gained)) {
        mine = managed_find(o, me);
        if (!mine) {
            managed_add(o, *me);
            mine = &o->p[o->n - 1];
            mine->set = sw_fset_new(c->arena);
        }
        mine->set = sw_fset_union(c->arena, mine->set, gained);
        mine->time = sw_slice_str(c->now);
    }
    managed_drop_empty(o);
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
    SW_JSON_ITEMS (e, list) {
        const struct sw_json *op = sw_json_find(e, "operation");

        if (!(sw_json_str_eq(op, "Apply") || sw_json_str_eq(op, "Update")) ||
            !sw_field_text(e, "apiVersion").n ||
            !sw_json_str_eq(sw_json_find(e, "fieldsType"), "FieldsV1"))
            return false;
    }
    return true;
}

struct sw_json *managed_bare(const struct sw_smd *c, const struct sw_json *like)
{
    struct sw_json *v = sw_json_new_object(c->arena);
    struct sw_json *kind = sw_json_find(like, "kind");

    sw_json_put_str(c->arena, v, "apiVersion", c->api_version);
    if (kind)
        sw_json_put(c->arena, v, "kind", kind);
    return v;
}

/* Parts of a built-in type that exist before a manager sets anything have no owner. */
static void put_always(struct sw_arena *a, struct sw_json *v, const struct sw_pb_type *t)
{
    for (size_t i = 0; t && i < t->nfields; i++) {
        const struct sw_kube_pb_field *f = &t->fields[i];
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
    struct sw_json *v = managed_bare(c, like);

    if (c->schema && c->schema->ref.n)
        put_always(c->arena, v, sw_builtin_type(c->schema->ref));
    return v;
}

void sw_smd_update(const struct sw_smd *ctx, const struct sw_json *live, struct sw_json *obj)
{
    const struct sw_json *sent = sw_json_walk(obj, "metadata", "managedFields", NULL);
    const struct sw_json *kept = sw_json_walk(live, "metadata", "managedFields", NULL);
    struct managed_owner me = {
        .manager = ctx->manager, .api_version = ctx->api_version, .subresource = ctx->subresource};
    struct managed_owners o = {.a = ctx->arena};

    if (live && ctx->subresource.n) {
        managed_decode(ctx->arena, kept, &o);
    } else if (!asks_reset(sent)) {
        if (readable(sent))
            managed_decode(ctx->arena, sent, &o);
        if (!o.n)
            managed_decode(ctx->arena, kept, &o);
    }
    /* An object without managedFields stays so until the first server-side apply. */
    if (o.n || !live) {
        managed_record(ctx, &o, &me, live ? managed_strip(ctx->arena, live) : unborn(ctx, obj),
                       managed_strip(ctx->arena, obj));
        cap_updates(&o);
    }
    managed_store(ctx->arena, obj, &o);
}

static struct sw_json *without_times(struct sw_arena *a, const struct sw_json *v)
{
    struct sw_json *copy = sw_json_copy(a, v);
    struct sw_json *list = sw_json_walk(copy, "metadata", "managedFields", NULL);

    SW_JSON_ITEMS (item, list) {
        if (sw_json_is(item, SW_JSON_OBJECT))
            (void)sw_json_remove(item, SW_SLICE_LIT("time"));
    }
    return copy;
}

bool sw_smd_equal_but_times(struct sw_arena *a, const struct sw_json *x, const struct sw_json *y)
{
    return sw_json_equal(without_times(a, x), without_times(a, y), SW_JSON_EQ_VALUE);
}
