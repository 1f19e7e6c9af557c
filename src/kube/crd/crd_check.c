/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes a CustomResourceDefinition valid, apart from its schemas, in the reference's words and
 * places. What all versions have in common is reported where the old form of a CRD had it:
 * spec.subresources instead of spec.versions[0].subresources.
 */
#include "kube/crd/crd_int.h"

#include "kube/names.h"
#include "kube/schema/meta.h"
#include "kube/text.h"

static struct sw_slice lower(struct sw_arena *a, struct sw_slice s)
{
    char *p = sw_arena_dup(a, s);

    for (size_t i = 0; i < s.n; i++)
        p[i] = sw_tx_lower(p[i]);
    return sw_slice(p, s.n);
}

/* ---- names ---- */

static void check_name(const struct sw_json *names, const char *key, bool mixed_case,
                       const struct sw_fpath *path, struct sw_field_errs *e)
{
    struct sw_fpath at = sw_fpath_str(path, key);
    struct sw_slice s = crd_text(names, key);
    struct sw_name_msgs m;

    if (!s.n)
        return;
    m = sw_name_dns1035_label(mixed_case ? lower(e->arena, s) : s);
    if (m.n)
        sw_ferr_invalid_str(e, &at, s,
                            sw_arena_printf(e->arena, "%s%s",
                                            mixed_case ? "may have mixed case, but should "
                                                         "otherwise match: "
                                                       : "",
                                            sw_name_join(e->arena, m, ",")));
}

static void check_name_list(const struct sw_json *names, const char *key,
                            const struct sw_fpath *path, struct sw_field_errs *e)
{
    const struct sw_json *list = sw_json_find(names, key);
    struct sw_fpath up = sw_fpath_str(path, key);

    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_slice s = sw_json_str(sw_json_at(list, i));
        struct sw_name_msgs m = sw_name_dns1035_label(s.p ? s : sw_slice("", 0));
        struct sw_fpath at = sw_fpath_index(&up, i);

        if (m.n)
            sw_ferr_invalid_str(e, &at, s, sw_name_join(e->arena, m, ","));
    }
}

static void check_names(const struct sw_json *names, const struct sw_fpath *at, bool required,
                        struct sw_field_errs *e)
{
    static const char *const keys[] = {"plural", "singular", "kind", "listKind"};
    struct sw_fpath at_list = sw_fpath_str(at, "listKind");

    for (size_t i = 0; required && i < SW_ARRAY_LEN(keys); i++) {
        struct sw_fpath at_key = sw_fpath_str(at, keys[i]);

        if (!crd_text(names, keys[i]).n)
            sw_ferr_required(e, &at_key, NULL);
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(keys); i++)
        check_name(names, keys[i], i >= 2, at, e);
    check_name_list(names, "shortNames", at, e);
    if (crd_text(names, "kind").n &&
        sw_slice_eq(crd_text(names, "kind"), crd_text(names, "listKind")))
        sw_ferr_invalid_str(e, &at_list, crd_text(names, "listKind"),
                            "kind and listKind may not be the same");
    check_name_list(names, "categories", at, e);
}

static void check_group_and_scope(const struct sw_json *spec, const struct sw_fpath *path,
                                  struct sw_field_errs *e)
{
    static const char *const scopes[] = {"Cluster", "Namespaced", NULL};
    struct sw_fpath at_group = sw_fpath_str(path, "group");
    struct sw_fpath at_scope = sw_fpath_str(path, "scope");
    struct sw_slice group = crd_text(spec, "group");
    struct sw_name_msgs m = sw_name_dns1123_subdomain(group);
    const struct sw_json *scope = sw_json_find(spec, "scope");

    if (!group.n)
        sw_ferr_required(e, &at_group, NULL);
    else if (m.n)
        sw_ferr_invalid_str(e, &at_group, group, sw_name_join(e->arena, m, ","));
    else if (sw_slice_find(group, '.') < 0)
        sw_ferr_invalid_str(e, &at_group, group, "should be a domain with at least one dot");
    if (!crd_text(spec, "scope").n)
        sw_ferr_required(e, &at_scope, NULL);
    else if (!sw_json_str_eq(scope, scopes[0]) && !sw_json_str_eq(scope, scopes[1]))
        sw_ferr_unsupported(e, &at_scope, scope, scopes);
}

static void check_object_name(const struct sw_json *obj, struct sw_field_errs *e)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    struct sw_fpath path = sw_fpath_str(NULL, "metadata");
    struct sw_fpath at = sw_fpath_str(&path, "name");
    struct sw_slice name = crd_text(sw_json_find(obj, "metadata"), "name");
    const char *want = sw_arena_printf(
        e->arena, "%.*s.%.*s", SW_SLICE_ARG(crd_text(sw_json_find(spec, "names"), "plural")),
        SW_SLICE_ARG(crd_text(spec, "group")));

    sw_meta_validate(obj, false, sw_name_dns1123_subdomain, e);
    if (name.n && !sw_slice_eq_str(name, want))
        sw_ferr_invalid_str(e, &at, name, "must be spec.names.plural+\".\"+spec.group");
}

/* ---- versions ---- */

/* A member that all versions have in common is reported once, at the place of the old form. */
static bool common(const struct sw_json *versions, const char *key)
{
    const struct sw_json *first = sw_json_find(sw_json_at(versions, 0), key);

    for (size_t i = 1; i < sw_json_len(versions); i++) {
        const struct sw_json *x = sw_json_find(sw_json_at(versions, i), key);

        if (first ? !x || !sw_json_equal(first, x, SW_JSON_EQ_VALUE) : x != NULL)
            return false;
    }
    return true;
}

bool sw_crd_common_schema(const struct sw_json *versions)
{
    return common(versions, "schema");
}

static void check_parts(const struct sw_json *v, const struct sw_schema *schema,
                        const struct sw_json *versions, bool shared, const struct sw_fpath *path,
                        struct sw_field_errs *e)
{
    struct sw_fpath at_subs = sw_fpath_str(path, "subresources");
    struct sw_fpath at_cols = sw_fpath_str(path, "additionalPrinterColumns");
    struct sw_fpath at_sel = sw_fpath_str(path, "selectableFields");

    if (common(versions, "subresources") == shared)
        sw_crd_check_subresources(sw_json_find(v, "subresources"), &at_subs, e);
    if (common(versions, "additionalPrinterColumns") == shared)
        sw_crd_check_columns(sw_json_find(v, "additionalPrinterColumns"), &at_cols, e);
    if (common(versions, "selectableFields") == shared)
        sw_crd_check_selectable(sw_json_find(v, "selectableFields"), schema, &at_sel, e);
}

static void check_versions(const struct sw_json *spec, const struct sw_crd *c,
                           const struct sw_fpath *path, struct sw_field_errs *e)
{
    const struct sw_json *list = sw_json_find(spec, "versions");
    struct sw_fpath up = sw_fpath_str(path, "versions");
    size_t storage = 0;
    bool unique = true;

    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *v = sw_json_at(list, i);
        struct sw_fpath at = sw_fpath_index(&up, i);
        struct sw_fpath at_name = sw_fpath_str(&at, "name");
        struct sw_fpath at_first = sw_fpath_str(path, "version");
        struct sw_name_msgs m = sw_name_dns1035_label(crd_text(v, "name"));

        storage += sw_json_true(sw_json_find(v, "storage"));
        if (m.n)
            sw_ferr_invalid_str(e, &at_name, crd_text(v, "name"), sw_name_join(e->arena, m, ","));
        if (m.n && i == 0 && crd_text(v, "name").n)
            sw_ferr_invalid_str(e, &at_first, crd_text(v, "name"), sw_name_join(e->arena, m, ","));
        sw_crd_check_warning(v, &at, e);
        check_parts(v, c->versions[i].schema.root, list, false, &at, e);
        for (size_t j = 0; j < i; j++)
            unique =
                unique && !sw_slice_eq(crd_text(sw_json_at(list, j), "name"), crd_text(v, "name"));
    }
    if (!unique)
        sw_ferr_invalid(e, &up, list, "must contain unique version names");
    if (storage != 1)
        sw_ferr_invalid(e, &up, list ? list : sw_json_new_array(e->arena),
                        "must have exactly one version marked as storage version");
}

/* ---- conversion ---- */

static void check_review_versions(const struct sw_json *list, const struct sw_fpath *up,
                                  struct sw_field_errs *e)
{
    bool known = false;

    if (!sw_json_len(list)) {
        sw_ferr_required(e, up, NULL);
        return;
    }
    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *v = sw_json_at(list, i);
        struct sw_fpath at = sw_fpath_index(up, i);
        struct sw_name_msgs m = sw_name_dns1035_label(sw_json_str(v));
        bool again = false;

        for (size_t k = 0; k < i; k++)
            again = again || sw_json_equal(sw_json_at(list, k), v, SW_JSON_EQ_VALUE);
        if (again) {
            sw_ferr_invalid(e, &at, v, "duplicate version");
            continue;
        }
        for (size_t k = 0; k < m.n; k++)
            sw_ferr_invalid(e, &at, v, m.p[k]);
        known = known || sw_json_str_eq(v, "v1") || sw_json_str_eq(v, "v1beta1");
    }
    if (!known)
        sw_ferr_invalid(e, up, list, "must include at least one of v1, v1beta1");
}

/* A version that objects may be stored in and that is not the storage version; or empty. */
static struct sw_slice other_stored(const struct sw_json *obj)
{
    const struct sw_json *versions = sw_json_walk(obj, "spec", "versions", NULL);
    const struct sw_json *stored = sw_json_walk(obj, "status", "storedVersions", NULL);
    struct sw_slice storage = sw_slice("", 0);

    for (size_t i = 0; i < sw_json_len(versions); i++) {
        if (sw_json_true(sw_json_find(sw_json_at(versions, i), "storage")))
            storage = crd_text(sw_json_at(versions, i), "name");
    }
    for (size_t i = 0; i < sw_json_len(stored); i++) {
        struct sw_slice s = sw_json_str(sw_json_at(stored, i));

        if (!sw_slice_eq(s, storage))
            return s;
    }
    return sw_slice("", 0);
}

/* Said once, when the CRD is written: reads and writes of these versions will fail. */
static void warn_unserved(const struct sw_json *obj, struct sw_field_errs *e)
{
    const struct sw_json *versions = sw_json_walk(obj, "spec", "versions", NULL);

    for (size_t i = 0; e->warnings && i < sw_json_len(versions); i++) {
        const struct sw_json *v = sw_json_at(versions, i);

        if (sw_json_true(sw_json_find(v, "served")) && !sw_json_true(sw_json_find(v, "storage")))
            sw_texts_add(e->warnings,
                         sw_arena_printf(e->arena,
                                         "spec.conversion.strategy: this server calls no "
                                         "conversion webhooks; requests for version %.*s, which is "
                                         "not the storage version, will fail",
                                         SW_SLICE_ARG(crd_text(v, "name"))));
    }
}

static void check_webhook(const struct sw_json *obj, const struct sw_json *hook,
                          const struct sw_fpath *path, struct sw_field_errs *e)
{
    const struct sw_json *cc = sw_json_find(hook, "clientConfig");
    struct sw_slice other = other_stored(obj);
    struct sw_fpath at_cc = sw_fpath_str(path, "webhookClientConfig");
    struct sw_fpath at_rv = sw_fpath_str(path, "conversionReviewVersions");
    struct sw_fpath at_st = sw_fpath_str(path, "strategy");
    size_t before = e->n;

    if (!cc)
        sw_ferr_required(e, &at_cc, "required when strategy is set to Webhook");
    else if (!sw_json_find(cc, "url") == !sw_json_find(cc, "service"))
        sw_ferr_required(e, &at_cc, "exactly one of url or service is required");
    check_review_versions(sw_json_find(hook, "conversionReviewVersions"), &at_rv, e);
    /* Requests for other versions are refused; what is stored must need no conversion either. */
    if (e->n == before && other.n)
        sw_ferr_forbidden(
            e, &at_st,
            sw_arena_printf(e->arena,
                            "this server calls no conversion webhooks, and objects stored as %.*s "
                            "would need one; use strategy None, or keep the storage version",
                            SW_SLICE_ARG(other)));
    else if (e->n == before)
        warn_unserved(obj, e);
}

static void check_conversion(const struct sw_json *obj, const struct sw_fpath *up,
                             struct sw_field_errs *e)
{
    static const char *const strategies[] = {"None", "Webhook", NULL};
    const struct sw_json *c = sw_json_walk(obj, "spec", "conversion", NULL);
    const struct sw_json *hook = sw_json_find(c, "webhook");
    struct sw_fpath path = sw_fpath_str(up, "conversion");
    struct sw_fpath at = sw_fpath_str(&path, "strategy");
    struct sw_fpath at_cc = sw_fpath_str(&path, "webhookClientConfig");
    struct sw_fpath at_rv = sw_fpath_str(&path, "conversionReviewVersions");
    struct sw_slice strategy = crd_text(c, "strategy");

    if (!c)
        return;
    if (!strategy.n)
        sw_ferr_required(e, &at, NULL);
    else if (!crd_one_of(strategy, strategies))
        sw_ferr_unsupported(e, &at, sw_json_find(c, "strategy"), strategies);
    if (sw_slice_eq_str(strategy, "Webhook")) {
        check_webhook(obj, hook, &path, e);
        return;
    }
    if (sw_json_find(hook, "clientConfig"))
        sw_ferr_forbidden(e, &at_cc, "should not be set when strategy is not set to Webhook");
    if (sw_json_len(sw_json_find(hook, "conversionReviewVersions")))
        sw_ferr_forbidden(e, &at_rv, "should not be set when strategy is not set to Webhook");
}

/* ---- updates, status, the rest ---- */

static bool established(const struct sw_json *crd)
{
    const struct sw_json *list = sw_json_walk(crd, "status", "conditions", NULL);

    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *c = sw_json_at(list, i);

        if (sw_json_str_eq(sw_json_find(c, "type"), "Established"))
            return sw_json_str_eq(sw_json_find(c, "status"), "True");
    }
    return false;
}

static void check_fixed(const struct sw_json *obj, const struct sw_json *old,
                        struct sw_field_errs *e)
{
    static const char *const fixed[][2] = {
        {"scope", NULL}, {"names", "kind"}, {"group", NULL}, {"names", "plural"}};
    struct sw_fpath spec = sw_fpath_str(NULL, "spec");

    for (size_t i = established(old) ? 0 : 2; i < SW_ARRAY_LEN(fixed); i++) {
        struct sw_fpath at = sw_fpath_str(&spec, fixed[i][0]);
        struct sw_fpath at2 = sw_fpath_str(&at, fixed[i][1] ? fixed[i][1] : "");
        const struct sw_json *x = sw_json_walk(obj, "spec", fixed[i][0], fixed[i][1], NULL);
        const struct sw_json *y = sw_json_walk(old, "spec", fixed[i][0], fixed[i][1], NULL);

        if (!sw_json_equal(x, y, SW_JSON_EQ_VALUE))
            sw_ferr_invalid(e, fixed[i][1] ? &at2 : &at, x, "field is immutable");
    }
}

static void check_stored(const struct sw_json *obj, struct sw_field_errs *e)
{
    const struct sw_json *stored = sw_json_walk(obj, "status", "storedVersions", NULL);
    const struct sw_json *versions = sw_json_walk(obj, "spec", "versions", NULL);
    struct sw_fpath up = sw_fpath_str(NULL, "status.storedVersions");

    if (!sw_json_len(stored))
        sw_ferr_invalid(e, &up, sw_json_new_array(e->arena),
                        "must have at least one stored version");
    for (size_t i = 0; i < sw_json_len(stored); i++) {
        struct sw_slice name = sw_json_str(sw_json_at(stored, i));
        struct sw_fpath at = sw_fpath_index(&up, i);
        bool there = false;

        for (size_t k = 0; k < sw_json_len(versions); k++)
            there = there || sw_slice_eq(crd_text(sw_json_at(versions, k), "name"), name);
        if (!there)
            sw_ferr_invalid_str(
                e, &at, name,
                sw_arena_printf(e->arena,
                                "missing from spec.versions; %.*s was previously a storage "
                                "version, and must remain in spec.versions until a storage "
                                "migration ensures no data remains persisted in %.*s and removes "
                                "%.*s from status.storedVersions",
                                SW_SLICE_ARG(name), SW_SLICE_ARG(name), SW_SLICE_ARG(name)));
    }
}

/* 0 missing, 1 invalid, 2 approved or bypassed; the reason for the first two. */
static int approval(struct sw_arena *a, const struct sw_json *crd, const char **ret_why)
{
    struct sw_slice v =
        crd_text(sw_json_walk(crd, "metadata", "annotations", NULL), "api-approved.kubernetes.io");
    size_t i = 0;

    if (!v.n) {
        *ret_why = "protected groups must have approval annotation "
                   "\"api-approved.kubernetes.io\", see "
                   "https://github.com/kubernetes/enhancements/pull/1111";
        return 0;
    }
    if (sw_slice_has_prefix(v, SW_SLICE_LIT("unapproved")))
        return 2;
    while (i < v.n && v.p[i] > 0x20 && v.p[i] != 0x7f)
        i++;
    if (i == v.n && (memmem(v.p, v.n, "://", 3) != NULL) && v.p[0] != ':' && v.p[v.n - 1] != '/')
        return 2;
    *ret_why = sw_arena_printf(a, "protected groups must have approval annotation "
                                  "\"api-approved.kubernetes.io\" with either a URL or a reason "
                                  "starting with \"unapproved\", see "
                                  "https://github.com/kubernetes/enhancements/pull/1111");
    return 1;
}

static void check_approval(const struct sw_json *obj, const struct sw_json *old,
                           struct sw_field_errs *e)
{
    struct sw_slice group = crd_text(sw_json_find(obj, "spec"), "group");
    struct sw_fpath meta = sw_fpath_str(NULL, "metadata");
    struct sw_fpath up = sw_fpath_str(&meta, "annotations");
    struct sw_fpath at = sw_fpath_key(&up, SW_SLICE_LIT("api-approved.kubernetes.io"));
    const char *why = "";
    const char *was;
    int state;

    if (!sw_slice_eq_str(group, "k8s.io") && !sw_slice_eq_str(group, "kubernetes.io") &&
        !sw_slice_has_suffix(group, SW_SLICE_LIT(".k8s.io")) &&
        !sw_slice_has_suffix(group, SW_SLICE_LIT(".kubernetes.io")))
        return;
    state = approval(e->arena, obj, &why);
    if (state == 2 || (old && approval(e->arena, old, &was) == state))
        return;
    if (state == 0)
        sw_ferr_required(e, &at, why);
    else
        sw_ferr_invalid(e, &at,
                        sw_json_find(sw_json_walk(obj, "metadata", "annotations", NULL),
                                     "api-approved.kubernetes.io"),
                        why);
}

void sw_crd_check(const struct sw_crd *c, const struct sw_json *old,
                  const struct sw_field_errs *own, const struct sw_field_errs *shared,
                  struct sw_field_errs *e)
{
    const struct sw_json *obj = c->object;
    const struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *versions = sw_json_find(spec, "versions");
    const struct sw_json *preserve = sw_json_find(spec, "preserveUnknownFields");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at_names = sw_fpath_str(&path, "names");
    struct sw_fpath at_preserve = sw_fpath_str(&path, "preserveUnknownFields");
    struct sw_fpath at_accepted = sw_fpath_str(NULL, "status.acceptedNames");

    if (!old)
        check_object_name(obj, e);
    check_group_and_scope(spec, &path, e);
    sw_crd_append(e, own);
    check_versions(spec, c, &path, e);
    check_names(sw_json_find(spec, "names"), &at_names, true, e);
    sw_crd_append(e, shared);
    if (c->nversions)
        check_parts(sw_json_at(versions, 0), c->versions[0].schema.root, versions, true, &path, e);
    check_conversion(obj, &path, e);
    if (old) {
        check_fixed(obj, old, e);
        check_names(sw_json_walk(obj, "status", "acceptedNames", NULL), &at_accepted, false, e);
    }
    check_stored(obj, e);
    check_approval(obj, old, e);
    if (sw_json_true(preserve) &&
        !sw_json_true(sw_json_walk(old, "spec", "preserveUnknownFields", NULL)))
        sw_ferr_invalid(e, &at_preserve, preserve,
                        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
                        "spec.versions[*].schema instead");
}
