/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes a CustomResourceDefinition valid, apart from its schemas, in the reference's words and
 * places. What all versions have in common is reported where the old form of a CRD had it:
 * spec.subresources instead of spec.versions[0].subresources.
 */
#include "kube/crd/crd_int.h"

#include "kube/schema/meta.h"
#include "kube/text.h"

/* ---- names ---- */

/* All that is wrong with a name, in one error. */
static void check_label(const struct sw_at *at, sw_name_fn check)
{
    struct sw_name_msgs m = check(sw_at_text(at));

    if (m.n)
        sw_at_invalid_text(at, sw_name_join(at->e->arena, m, ","));
}

static void check_kind(const struct sw_at *at)
{
    struct sw_name_msgs m = sw_name_dns1035_label(sw_tx_lower_dup(at->e->arena, sw_at_text(at)));

    if (sw_at_text(at).n && m.n)
        sw_at_invalid(at, sw_arena_printf(at->e->arena,
                                          "may have mixed case, but should otherwise match: %s",
                                          sw_name_join(at->e->arena, m, ",")));
}

static void check_labels(const struct sw_at *list)
{
    SW_AT_FOREACH (at, list)
        check_label(&at, sw_name_dns1035_label);
}

static void check_names(const struct sw_at *names, bool required)
{
    static const char *const keys[] = {"plural", "singular", "kind", "listKind"};
    const struct sw_at *kind = SW_IN(names, "kind");
    const struct sw_at *list_kind = SW_IN(names, "listKind");

    for (size_t i = 0; required && i < SW_ARRAY_LEN(keys); i++)
        (void)sw_at_need(SW_IN(names, keys[i]), NULL);
    for (size_t i = 0; i < 2; i++) {
        if (sw_at_text(SW_IN(names, keys[i])).n)
            check_label(SW_IN(names, keys[i]), sw_name_dns1035_label);
    }
    check_kind(kind);
    check_kind(list_kind);
    check_labels(SW_IN(names, "shortNames"));
    if (sw_at_text(kind).n && sw_slice_eq(sw_at_text(kind), sw_at_text(list_kind)))
        sw_at_invalid(list_kind, "kind and listKind may not be the same");
    check_labels(SW_IN(names, "categories"));
}

static void check_group_and_scope(const struct sw_at *spec)
{
    const struct sw_at *group = SW_IN(spec, "group");
    const struct sw_at *scope = SW_IN(spec, "scope");

    if (sw_at_need(group, NULL)) {
        check_label(group, sw_name_dns1123_subdomain);
        if (!sw_name_dns1123_subdomain(sw_at_text(group)).n &&
            sw_slice_find(sw_at_text(group), '.') < 0)
            sw_at_invalid(group, "should be a domain with at least one dot");
    }
    if (sw_at_need(scope, NULL))
        sw_at_one_of(scope, "Cluster Namespaced");
}

static void check_object_name(const struct sw_at *obj)
{
    const struct sw_at *name = SW_IN(obj, "metadata.name");
    const char *want = sw_arena_printf(obj->e->arena, "%.*s.%.*s",
                                       SW_SLICE_ARG(sw_at_text(SW_IN(obj, "spec.names.plural"))),
                                       SW_SLICE_ARG(sw_at_text(SW_IN(obj, "spec.group"))));

    sw_meta_validate(obj->v, false, sw_name_dns1123_subdomain, obj->e);
    if (sw_at_text(name).n && !sw_at_is(name, want))
        sw_at_invalid(name, "must be spec.names.plural+\".\"+spec.group");
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

/* Those parts of a version that are, or are not, the same in all of them. */
static void check_parts(const struct sw_at *at, const struct sw_schema *schema,
                        const struct sw_json *versions, bool shared)
{
    if (common(versions, "subresources") == shared)
        sw_crd_check_subresources(SW_IN(at, "subresources"));
    if (common(versions, "additionalPrinterColumns") == shared)
        sw_crd_check_columns(SW_IN(at, "additionalPrinterColumns"));
    if (common(versions, "selectableFields") == shared)
        sw_crd_check_selectable(SW_IN(at, "selectableFields"), schema);
}

static void check_versions(const struct sw_at *spec, const struct sw_crd *c)
{
    struct sw_at list = sw_at_field(spec, "versions");
    size_t storage = 0;
    bool unique = true;

    SW_AT_FOREACH (v, &list) {
        const struct sw_at *name = SW_IN(&v, "name");
        size_t i = v.path.index;

        storage += sw_json_true(sw_json_find(v.v, "storage"));
        check_label(name, sw_name_dns1035_label);
        if (i == 0 && sw_at_text(name).n) {
            struct sw_at first = sw_at_field(spec, "version");

            first.v = name->v;
            check_label(&first, sw_name_dns1035_label);
        }
        sw_crd_check_warning(&v);
        check_parts(&v, c->versions[i].schema.root, list.v, false);
        for (size_t j = 0; j < i; j++)
            unique = unique &&
                     !sw_slice_eq(sw_field_text(sw_json_at(list.v, j), "name"), sw_at_text(name));
    }
    if (!unique)
        sw_at_invalid(&list, "must contain unique version names");
    if (!list.v)
        list.v = sw_json_new_array(list.e->arena);
    if (storage != 1)
        sw_at_invalid(&list, "must have exactly one version marked as storage version");
}

/* ---- conversion ---- */

static void check_review_versions(const struct sw_at *list)
{
    if (!sw_at_need(list, NULL))
        return;
    SW_AT_FOREACH (v, list) {
        bool again = false;

        for (size_t k = 0; k < v.path.index; k++)
            again = again || sw_json_equal(sw_json_at(list->v, k), v.v, SW_JSON_EQ_VALUE);
        if (again)
            sw_at_invalid(&v, "duplicate version");
        else
            sw_at_set_name(&v, sw_name_dns1035_label);
    }
    if (!sw_field_list_has(list->v, SW_SLICE_LIT("v1")) &&
        !sw_field_list_has(list->v, SW_SLICE_LIT("v1beta1")))
        sw_at_invalid(list, "must include at least one of v1, v1beta1");
}

/* A version that objects may be stored in and that is not the storage version; or empty. */
static struct sw_slice other_stored(const struct sw_json *obj)
{
    const struct sw_json *versions = sw_json_walk(obj, "spec", "versions", NULL);
    const struct sw_json *stored = sw_json_walk(obj, "status", "storedVersions", NULL);
    struct sw_slice storage = sw_slice("", 0);

    SW_JSON_ITEMS (item, versions) {
        if (sw_json_true(sw_json_find(item, "storage")))
            storage = sw_field_text(item, "name");
    }
    SW_JSON_ITEMS (item, stored) {
        struct sw_slice s = sw_json_str(item);

        if (!sw_slice_eq(s, storage))
            return s;
    }
    return sw_slice("", 0);
}

/* A warning when the CRD is written: reads and writes of these versions will fail. */
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
                                         SW_SLICE_ARG(sw_field_text(v, "name"))));
    }
}

static void check_webhook(const struct sw_at *obj, const struct sw_at *conversion,
                          const struct sw_at *client, const struct sw_at *versions)
{
    struct sw_field_errs *e = obj->e;
    struct sw_slice other = other_stored(obj->v);
    size_t before = e->n;

    if (!client->v)
        sw_at_required(client, "required when strategy is set to Webhook");
    else if (!sw_json_find(client->v, "url") == !sw_json_find(client->v, "service"))
        sw_at_required(client, "exactly one of url or service is required");
    check_review_versions(versions);
    /* Requests for other versions are refused; what is stored must need no conversion either. */
    if (e->n == before && other.n)
        sw_at_forbidden(SW_IN(conversion, "strategy"),
                        sw_arena_printf(e->arena,
                                        "this server calls no conversion webhooks, and objects "
                                        "stored as %.*s would need one; use strategy None, or keep "
                                        "the storage version",
                                        SW_SLICE_ARG(other)));
    else if (e->n == before)
        warn_unserved(obj->v, e);
}

static void check_conversion(const struct sw_at *obj)
{
    static const char unset[] = "should not be set when strategy is not set to Webhook";
    const struct sw_at *c = SW_IN(obj, "spec.conversion");
    const struct sw_json *hook = sw_json_find(c->v, "webhook");
    const struct sw_at *strategy = SW_IN(c, "strategy");
    /* The old form of a CRD had these one level higher. */
    struct sw_at client = sw_at_field(c, "webhookClientConfig");
    struct sw_at versions = sw_at_field(c, "conversionReviewVersions");

    client.v = sw_json_find(hook, "clientConfig");
    versions.v = sw_json_find(hook, "conversionReviewVersions");
    if (!c->v)
        return;
    if (sw_at_need(strategy, NULL))
        sw_at_one_of(strategy, "None Webhook");
    if (sw_at_is(strategy, "Webhook")) {
        check_webhook(obj, c, &client, &versions);
        return;
    }
    if (client.v)
        sw_at_forbidden(&client, unset);
    if (sw_at_len(&versions))
        sw_at_forbidden(&versions, unset);
}

/* ---- updates, status, the rest ---- */

static bool established(const struct sw_json *crd)
{
    const struct sw_json *list = sw_json_walk(crd, "status", "conditions", NULL);

    SW_JSON_ITEMS (c, list) {
        if (sw_json_str_eq(sw_json_find(c, "type"), "Established"))
            return sw_json_str_eq(sw_json_find(c, "status"), "True");
    }
    return false;
}

static void check_fixed(const struct sw_at *obj, const struct sw_json *old)
{
    static const char *const fixed[] = {"spec.scope", "spec.names.kind", "spec.group",
                                        "spec.names.plural"};

    for (size_t i = established(old) ? 0 : 2; i < SW_ARRAY_LEN(fixed); i++)
        sw_at_same(SW_IN(obj, fixed[i]), SW_IN(SW_WHOLE(old, obj->e), fixed[i])->v);
}

static void check_stored(const struct sw_at *obj)
{
    struct sw_at stored = sw_at_field(obj, "status.storedVersions");
    const struct sw_json *versions = sw_json_walk(obj->v, "spec", "versions", NULL);

    SW_AT_FOREACH (at, &stored) {
        struct sw_slice name = sw_at_text(&at);
        bool there = false;

        SW_JSON_ITEMS (item, versions)
            there = there || sw_slice_eq(sw_field_text(item, "name"), name);
        if (!there)
            sw_at_invalid_text(
                &at,
                sw_arena_printf(obj->e->arena,
                                "missing from spec.versions; %.*s was previously a storage "
                                "version, and must remain in spec.versions until a storage "
                                "migration ensures no data remains persisted in %.*s and removes "
                                "%.*s from status.storedVersions",
                                SW_SLICE_ARG(name), SW_SLICE_ARG(name), SW_SLICE_ARG(name)));
    }
    if (sw_at_len(&stored))
        return;
    stored.v = sw_json_new_array(obj->e->arena);
    sw_at_invalid(&stored, "must have at least one stored version");
}

/* 0 missing, 1 invalid, 2 approved or bypassed; the reason for the first two. */
static int approval(struct sw_arena *a, const struct sw_json *crd, const char **ret_why)
{
    struct sw_slice v = sw_field_text(sw_json_walk(crd, "metadata", "annotations", NULL),
                                      "api-approved.kubernetes.io");
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

static void check_approval(const struct sw_at *obj, const struct sw_json *old)
{
    struct sw_slice group = sw_at_text(SW_IN(obj, "spec.group"));
    const struct sw_at *at =
        SW_KEY(SW_IN(obj, "metadata.annotations"), SW_SLICE_LIT("api-approved.kubernetes.io"));
    const char *why = "";
    const char *was;
    int state;

    if (!sw_slice_eq_str(group, "k8s.io") && !sw_slice_eq_str(group, "kubernetes.io") &&
        !sw_slice_has_suffix(group, SW_SLICE_LIT(".k8s.io")) &&
        !sw_slice_has_suffix(group, SW_SLICE_LIT(".kubernetes.io")))
        return;
    state = approval(at->e->arena, obj->v, &why);
    if (state == 2 || (old && approval(at->e->arena, old, &was) == state))
        return;
    if (state == 0)
        sw_at_required(at, why);
    else
        sw_at_invalid(at, why);
}

void sw_crd_check(const struct sw_crd *c, const struct sw_json *old,
                  const struct sw_field_errs *own, const struct sw_field_errs *shared,
                  struct sw_field_errs *e)
{
    const struct sw_at *obj = SW_WHOLE(c->object, e);
    const struct sw_at *spec = SW_IN(obj, "spec");
    const struct sw_json *versions = sw_json_find(spec->v, "versions");
    const struct sw_at *preserve = SW_IN(spec, "preserveUnknownFields");

    if (!old)
        check_object_name(obj);
    check_group_and_scope(spec);
    sw_ferr_append(e, own);
    check_versions(spec, c);
    check_names(SW_IN(spec, "names"), true);
    sw_ferr_append(e, shared);
    if (c->nversions) {
        struct sw_at first = sw_at_path(sw_json_at(versions, 0), &spec->path, e);

        check_parts(&first, c->versions[0].schema.root, versions, true);
    }
    check_conversion(obj);
    if (old) {
        check_fixed(obj, old);
        check_names(SW_IN(obj, "status.acceptedNames"), false);
    }
    check_stored(obj);
    check_approval(obj, old);
    if (sw_json_true(preserve->v) &&
        !sw_json_true(sw_json_walk(old, "spec", "preserveUnknownFields", NULL)))
        sw_at_invalid(preserve,
                      "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
                      "spec.versions[*].schema instead");
}
