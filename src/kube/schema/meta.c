/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schema/meta.h"

#include "kube/text.h"

enum { ANNOTATIONS_MAX = 256 << 10 };

static struct sw_slice text_of(const struct sw_json *v, const char *key)
{
    struct sw_slice s = sw_json_str(sw_json_find(v, key));

    return s.p ? s : sw_slice("", 0);
}

void sw_labels_validate(const struct sw_json *labels, const struct sw_fpath *path,
                        struct sw_field_errs *e)
{
    for (size_t i = 0; sw_json_is(labels, SW_JSON_OBJECT) && i < sw_json_len(labels); i++) {
        const struct sw_json_member *m = sw_json_member_at(labels, i);
        struct sw_slice v = sw_json_str(m->value);

        sw_name_report(e, path, m->key, sw_name_label_key(m->key));
        if (v.p)
            sw_name_report(e, path, v, sw_name_label_value(v));
    }
}

static void check_annotations(const struct sw_json *ann, const struct sw_fpath *path,
                              struct sw_field_errs *e)
{
    size_t total = 0;

    for (size_t i = 0; sw_json_is(ann, SW_JSON_OBJECT) && i < sw_json_len(ann); i++) {
        const struct sw_json_member *m = sw_json_member_at(ann, i);
        char *lower = sw_arena_dup(e->arena, m->key);

        for (size_t j = 0; j < m->key.n; j++)
            lower[j] = sw_tx_lower(lower[j]);
        sw_name_report(e, path, m->key, sw_name_label_key(sw_slice(lower, m->key.n)));
        total += m->key.n + sw_json_str(m->value).n;
    }
    if (total > ANNOTATIONS_MAX)
        sw_ferr_too_long(e, path, ANNOTATIONS_MAX);
}

static void check_owner(const struct sw_json *o, const struct sw_fpath *path,
                        struct sw_field_errs *e)
{
    static const char *const keys[] = {"kind", "name", "uid"};
    struct sw_fpath at = sw_fpath_str(path, "apiVersion");
    struct sw_slice version = text_of(o, "apiVersion");
    struct sw_slice rest = version;

    (void)sw_slice_cut(&rest, '/');
    if (!version.n || (rest.p && sw_slice_find(rest, '/') >= 0))
        sw_ferr_invalid_str(e, &at, version, "version must not be empty");
    for (size_t i = 0; i < SW_ARRAY_LEN(keys); i++) {
        at = sw_fpath_str(path, keys[i]);
        if (!text_of(o, keys[i]).n)
            sw_ferr_invalid_str(e, &at, text_of(o, keys[i]), "must not be empty");
    }
    /* They come and go on their own. */
    if (sw_slice_eq_str(version, "v1") && sw_slice_eq_str(text_of(o, "kind"), "Event"))
        sw_ferr_invalid(e, path, o, "/v1, Kind=Event is disallowed from being an owner");
}

enum { CONTROLLERS_SHOWN = 4 }; /* errors, each of which shows the whole list */

static void check_owners(const struct sw_json *list, const struct sw_fpath *path,
                         struct sw_field_errs *e)
{
    struct sw_slice first = {0};
    unsigned shown = 0;

    if (sw_json_len(list) > SW_META_REFS_MAX) {
        sw_ferr_too_many(e, path, sw_json_len(list), SW_META_REFS_MAX);
        return;
    }
    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *o = sw_json_at(list, i);

        check_owner(o, path, e);
        if (!sw_json_true(sw_json_find(o, "controller")))
            continue;
        if (first.p && shown++ < CONTROLLERS_SHOWN)
            sw_ferr_invalid(
                e, path, list,
                sw_arena_printf(e->arena,
                                "Only one reference can have Controller set to true. Found "
                                "\"true\" in references for %.*s and %.*s",
                                SW_SLICE_ARG(first), SW_SLICE_ARG(text_of(o, "name"))));
        else if (!first.p)
            first = text_of(o, "name");
    }
}

static void check_finalizers(const struct sw_json *list, const struct sw_fpath *path,
                             struct sw_field_errs *e)
{
    bool orphan = false, foreground = false;

    if (sw_json_len(list) > SW_META_REFS_MAX) {
        sw_ferr_too_many(e, path, sw_json_len(list), SW_META_REFS_MAX);
        return;
    }
    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_slice f = sw_json_str(sw_json_at(list, i));

        if (!f.p)
            continue;
        sw_name_report(e, path, f, sw_name_label_key(f));
        orphan = orphan || sw_slice_eq_str(f, "orphan");
        foreground = foreground || sw_slice_eq_str(f, "foregroundDeletion");
    }
    if (orphan && foreground)
        sw_ferr_invalid(e, path, list,
                        "finalizer orphan and foregroundDeletion cannot be both set");
}

static void check_names(const struct sw_json *meta, bool namespaced, sw_name_fn name_check,
                        const struct sw_fpath *path, struct sw_field_errs *e)
{
    struct sw_fpath at_name = sw_fpath_str(path, "name");
    struct sw_fpath at_gen = sw_fpath_str(path, "generateName");
    struct sw_fpath at_ns = sw_fpath_str(path, "namespace");
    struct sw_slice name = text_of(meta, "name");
    struct sw_slice gen = text_of(meta, "generateName");
    struct sw_slice ns = text_of(meta, "namespace");

    if (gen.n && name_check) {
        char *masked = sw_arena_dup(e->arena, gen);

        /* What follows makes a trailing dash good. */
        if (gen.n > 1 && masked[gen.n - 1] == '-')
            masked[gen.n - 1] = 'a';
        sw_name_report(e, &at_gen, gen, name_check(sw_slice(masked, gen.n)));
    }
    if (!name.n)
        sw_ferr_required(e, &at_name, "name or generateName is required");
    else if (name_check)
        sw_name_report(e, &at_name, name, name_check(name));
    if (namespaced && !ns.n)
        sw_ferr_required(e, &at_ns, NULL);
    else if (namespaced)
        sw_name_report(e, &at_ns, ns, sw_name_dns1123_label(ns));
    else if (ns.n)
        sw_ferr_forbidden(e, &at_ns, "not allowed on this type");
}

void sw_meta_validate(const struct sw_json *obj, bool namespaced, sw_name_fn name_check,
                      struct sw_field_errs *e)
{
    const struct sw_json *meta = sw_json_find(obj, "metadata");
    struct sw_fpath path = sw_fpath_str(NULL, "metadata");
    struct sw_fpath at_labels = sw_fpath_str(&path, "labels");
    struct sw_fpath at_ann = sw_fpath_str(&path, "annotations");
    struct sw_fpath at_owners = sw_fpath_str(&path, "ownerReferences");
    struct sw_fpath at_fin = sw_fpath_str(&path, "finalizers");

    check_names(meta, namespaced, name_check, &path, e);
    sw_labels_validate(sw_json_find(meta, "labels"), &at_labels, e);
    check_annotations(sw_json_find(meta, "annotations"), &at_ann, e);
    check_owners(sw_json_find(meta, "ownerReferences"), &at_owners, e);
    check_finalizers(sw_json_find(meta, "finalizers"), &at_fin, e);
}

static bool listed(const struct sw_json *list, struct sw_slice s)
{
    for (size_t i = 0; i < sw_json_len(list); i++) {
        if (sw_slice_eq(sw_json_str(sw_json_at(list, i)), s))
            return true;
    }
    return false;
}

void sw_meta_validate_update(const struct sw_json *obj, const struct sw_json *old,
                             struct sw_field_errs *e)
{
    static const char *const fixed[] = {"name", "namespace", "uid", "creationTimestamp"};
    const struct sw_json *meta = sw_json_find(obj, "metadata");
    const struct sw_json *was = sw_json_find(old, "metadata");
    const struct sw_json *fins = sw_json_find(meta, "finalizers");
    struct sw_fpath path = sw_fpath_str(NULL, "metadata");
    const char *fresh = NULL;

    for (size_t i = 0; i < SW_ARRAY_LEN(fixed); i++) {
        struct sw_fpath at = sw_fpath_str(&path, fixed[i]);

        if (!sw_slice_eq(text_of(meta, fixed[i]), text_of(was, fixed[i])))
            sw_ferr_invalid_str(e, &at, text_of(meta, fixed[i]), "field is immutable");
    }
    for (size_t i = 0; sw_json_find(was, "deletionTimestamp") && i < sw_json_len(fins); i++) {
        struct sw_slice f = sw_json_str(sw_json_at(fins, i));

        if (f.p && !listed(sw_json_find(was, "finalizers"), f))
            fresh = sw_arena_printf(e->arena, "%s%s%s", fresh ? fresh : "", fresh ? ", " : "",
                                    sw_go_quote(e->arena, f));
    }
    if (fresh) {
        struct sw_fpath at = sw_fpath_str(&path, "finalizers");

        sw_ferr_forbidden(e, &at,
                          sw_arena_printf(e->arena,
                                          "no new finalizers can be added if the object is being "
                                          "deleted, found new finalizers []string{%s}",
                                          fresh));
    }
}
