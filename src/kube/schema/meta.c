/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schema/meta.h"

#include "kube/fields.h"
#include "kube/text.h"

enum { ANNOTATIONS_MAX = 256 << 10 };

void sw_labels_validate(const struct sw_at *labels)
{
    const struct sw_fpath *path = &labels->path;

    SW_JSON_MEMBERS (m, labels->v) {
        struct sw_slice v = sw_json_str(m->value);

        sw_name_report(labels->e, path, m->key, sw_name_label_key(m->key));
        if (v.p)
            sw_name_report(labels->e, path, v, sw_name_label_value(v));
    }
}

static void check_annotations(const struct sw_at *ann)
{
    struct sw_field_errs *e = ann->e;
    size_t total = 0;

    SW_JSON_MEMBERS (m, ann->v) {
        sw_name_report(e, &ann->path, m->key, sw_name_label_key(sw_tx_lower_dup(e->arena, m->key)));
        total += m->key.n + sw_json_str(m->value).n;
    }
    if (total > ANNOTATIONS_MAX)
        sw_ferr_too_long(e, &ann->path, ANNOTATIONS_MAX);
}

/* Errors name the list, not the item. */
static void check_owner(const struct sw_at *o)
{
    static const char *const keys[] = {"kind", "name", "uid"};
    const struct sw_at *at = SW_IN(o, "apiVersion");
    struct sw_slice version = sw_at_text(at);
    struct sw_slice rest = version;

    (void)sw_slice_cut(&rest, '/');
    if (!version.n || (rest.p && sw_slice_find(rest, '/') >= 0))
        sw_at_invalid_text(at, "version must not be empty");
    for (size_t i = 0; i < SW_ARRAY_LEN(keys); i++) {
        if (!sw_at_text(SW_IN(o, keys[i])).n)
            sw_at_invalid_text(SW_IN(o, keys[i]), "must not be empty");
    }
    /* They come and go on their own. */
    if (sw_slice_eq_str(version, "v1") && sw_at_is(SW_IN(o, "kind"), "Event"))
        sw_at_invalid(o, "/v1, Kind=Event is disallowed from being an owner");
}

enum { CONTROLLERS_SHOWN = 4 }; /* errors, each of which shows the whole list */

static void check_owners(const struct sw_at *list)
{
    struct sw_slice first = {0};
    unsigned shown = 0;

    if (!sw_at_max(list, SW_META_REFS_MAX))
        return;
    SW_JSON_ITEMS (o, list->v) {
        struct sw_at at = sw_at_path(o, &list->path, list->e);
        struct sw_slice name = sw_field_text(o, "name");

        check_owner(&at);
        if (!sw_json_true(sw_json_find(o, "controller")))
            continue;
        if (first.p && shown++ < CONTROLLERS_SHOWN)
            sw_at_invalid(
                list, sw_arena_printf(list->e->arena,
                                      "Only one reference can have Controller set to true. Found "
                                      "\"true\" in references for %.*s and %.*s",
                                      SW_SLICE_ARG(first), SW_SLICE_ARG(name)));
        else if (!first.p)
            first = name;
    }
}

static void check_finalizers(const struct sw_at *list)
{
    if (!sw_at_max(list, SW_META_REFS_MAX))
        return;
    SW_JSON_ITEMS (item, list->v) {
        struct sw_slice f = sw_json_str(item);

        if (f.p)
            sw_name_report(list->e, &list->path, f, sw_name_label_key(f));
    }
    if (sw_field_list_has(list->v, SW_SLICE_LIT("orphan")) &&
        sw_field_list_has(list->v, SW_SLICE_LIT("foregroundDeletion")))
        sw_at_invalid(list, "finalizer orphan and foregroundDeletion cannot be both set");
}

static void check_names(const struct sw_at *meta, bool namespaced, sw_name_fn name_check)
{
    const struct sw_at *name = SW_IN(meta, "name");
    const struct sw_at *generate = SW_IN(meta, "generateName");
    const struct sw_at *ns = SW_IN(meta, "namespace");
    struct sw_slice gen = sw_at_text(generate);

    if (gen.n && name_check) {
        char *masked = sw_arena_dup(meta->e->arena, gen);

        /* What follows makes a trailing dash good. */
        if (gen.n > 1 && masked[gen.n - 1] == '-')
            masked[gen.n - 1] = 'a';
        sw_name_report(meta->e, &generate->path, gen, name_check(sw_slice(masked, gen.n)));
    }
    if (!sw_at_text(name).n)
        sw_at_required(name, "name or generateName is required");
    else if (name_check)
        sw_at_name(name, name_check);
    if (namespaced)
        sw_at_need_name(ns, sw_name_dns1123_label);
    else if (sw_at_text(ns).n)
        sw_at_forbidden(ns, "not allowed on this type");
}

void sw_meta_validate(const struct sw_json *obj, bool namespaced, sw_name_fn name_check,
                      struct sw_field_errs *e)
{
    const struct sw_at *meta = SW_IN(SW_WHOLE(obj, e), "metadata");

    check_names(meta, namespaced, name_check);
    sw_labels_validate(SW_IN(meta, "labels"));
    check_annotations(SW_IN(meta, "annotations"));
    check_owners(SW_IN(meta, "ownerReferences"));
    check_finalizers(SW_IN(meta, "finalizers"));
}

/* The finalizers that are not in the stored list, quoted, with commas; NULL when there are none. */
static const char *new_finalizers(const struct sw_at *list, const struct sw_json *was)
{
    const char *fresh = NULL;

    SW_AT_FOREACH (at, list) {
        bool known = !sw_json_is(at.v, SW_JSON_STRING);

        SW_JSON_ITEMS (item, was)
            known = known || sw_slice_eq(sw_json_str(item), sw_at_text(&at));
        if (!known)
            fresh = sw_arena_printf(at.e->arena, "%s%s%s", fresh ? fresh : "", fresh ? ", " : "",
                                    sw_go_quote(at.e->arena, sw_at_text(&at)));
    }
    return fresh;
}

void sw_meta_validate_update(const struct sw_json *obj, const struct sw_json *old,
                             struct sw_field_errs *e)
{
    static const char *const fixed[] = {"name", "namespace", "uid", "creationTimestamp"};
    const struct sw_at *meta = SW_IN(SW_WHOLE(obj, e), "metadata");
    const struct sw_at *finalizers = SW_IN(meta, "finalizers");
    const struct sw_json *was = sw_json_find(old, "metadata");
    const char *fresh = NULL;

    for (size_t i = 0; i < SW_ARRAY_LEN(fixed); i++) {
        const struct sw_at *at = SW_IN(meta, fixed[i]);

        if (!sw_slice_eq(sw_at_text(at), sw_field_text(was, fixed[i])))
            sw_at_invalid_text(at, "field is immutable");
    }
    if (sw_json_find(was, "deletionTimestamp"))
        fresh = new_finalizers(finalizers, sw_json_find(was, "finalizers"));
    if (fresh)
        sw_at_forbidden(finalizers,
                        sw_arena_printf(e->arena,
                                        "no new finalizers can be added if the object is being "
                                        "deleted, found new finalizers []string{%s}",
                                        fresh));
}
