/* SPDX-License-Identifier: Apache-2.0 */
/* CustomResourceDefinitions: what makes one valid, what its status says, and serving it. */
#include <stdlib.h>
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/verbs/verbs.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/crd/crd.h"
#include "kube/fields.h"

/* --- from object to resources ----------------------------------------------------------- */

static const char *text(struct sw_arena *a, const struct sw_json *v, const char *key)
{
    return sw_arena_dup(a, api_str(v, key));
}

static const char *join(struct sw_arena *a, const struct sw_json *list)
{
    SW_BUF_AUTO b = {.max = 8192};

    for (size_t i = 0; i < sw_json_len(list); i++) {
        if (sw_buf_printf(&b, "%s%.*s", i ? "," : "",
                          SW_SLICE_ARG(sw_json_str(sw_json_at(list, i)))) != SW_OK)
            break;
    }
    return sw_arena_dup(a, sw_buf_slice(&b));
}

static bool condition_is(const struct sw_json *crd, const char *type)
{
    const struct sw_json *list = sw_json_walk(crd, "status", "conditions", NULL);
    const struct sw_json *c = sw_json_find_item(list, "type", sw_slice_str(type));

    return sw_json_str_eq(sw_json_find(c, "status"), "True");
}

/* metadata.name, metadata.namespace and the declared fields. */
static const char *const *make_selectors(struct sw_arena *a, const struct sw_json *ver,
                                         bool namespaced)
{
    const struct sw_json *fields = sw_json_find(ver, "selectableFields");
    const char **p = sw_arena_array(a, sw_json_len(fields) + 3, sizeof(*p));
    size_t n = 0;

    p[n++] = "metadata.name";
    if (namespaced)
        p[n++] = "metadata.namespace";
    SW_JSON_ITEMS (it, fields) {
        struct sw_slice path = api_str(it, "jsonPath");

        if (path.n && path.p[0] == '.')
            path = sw_slice_from(path, 1);
        p[n++] = sw_arena_dup(a, path);
    }
    return p;
}

static const char *deprecation(struct sw_arena *a, const struct sw_json *versions,
                               const struct sw_json *ver, const char *group, const char *kind)
{
    struct sw_slice own = api_str(ver, "deprecationWarning");
    struct sw_slice best = sw_slice("", 0);

    if (!sw_json_true(sw_json_find(ver, "deprecated")))
        return NULL;
    if (own.n)
        return sw_arena_dup(a, own);
    SW_JSON_ITEMS (v, versions) {
        struct sw_slice name = api_str(v, "name");

        if (sw_json_true(sw_json_find(v, "served")) &&
            !sw_json_true(sw_json_find(v, "deprecated")) &&
            (best.n == 0 || sw_version_cmp(name, best) < 0))
            best = name;
    }
    if (best.n && sw_version_cmp(best, api_str(ver, "name")) < 0)
        return sw_arena_printf(a, "%s/%.*s %s is deprecated; use %s/%.*s %s", group,
                               SW_SLICE_ARG(api_str(ver, "name")), kind, group, SW_SLICE_ARG(best),
                               kind);
    return sw_arena_printf(a, "%s/%.*s %s is deprecated", group, SW_SLICE_ARG(api_str(ver, "name")),
                           kind);
}

static void fill_version(struct api_crd *c, size_t i, const struct sw_json *crd,
                         const struct sw_json *ver)
{
    struct sw_arena *a = &c->arena;
    const struct sw_json *spec = sw_json_find(crd, "spec");
    const struct sw_json *names = sw_json_walk(crd, "status", "acceptedNames", NULL);
    const struct sw_json *subs = sw_json_find(ver, "subresources");
    const struct sw_json *scale = sw_json_find(subs, "scale");
    struct api_res *r = &c->vers[i];

    if (!api_str(names, "plural").n)
        names = sw_json_find(spec, "names");
    *r = (struct api_res){
        .group = c->group,
        .version = text(a, ver, "name"),
        .plural = c->plural,
        .singular = text(a, names, "singular"),
        .kind = text(a, names, "kind"),
        .list_kind = text(a, names, "listKind"),
        .short_names = join(a, sw_json_find(names, "shortNames")),
        .categories = join(a, sw_json_find(names, "categories")),
        .namespaced = sw_json_str_eq(sw_json_find(spec, "scope"), "Namespaced"),
        .verbs = SW_VERBS_ALL,
        .crd = c,
        .index = i,
        .has_status = sw_json_is(sw_json_find(subs, "status"), SW_JSON_OBJECT),
        .has_scale = sw_json_is(scale, SW_JSON_OBJECT),
        .columns = sw_json_find(ver, "additionalPrinterColumns"),
        .raw = sw_json_walk(ver, "schema", "openAPIV3Schema", NULL),
        .served = sw_json_true(sw_json_find(ver, "served")),
        .storage = sw_json_true(sw_json_find(ver, "storage")),
    };
    r->api_version = sw_arena_printf(a, "%s/%s", c->group, r->version);
    r->prefix = sw_arena_printf(a, "%s/%s/", c->group, c->plural);
    r->selectors = make_selectors(a, ver, r->namespaced);
    r->deprecated = deprecation(a, sw_json_find(spec, "versions"), ver, c->group, r->kind);
    if (r->has_scale) {
        r->scale_spec = text(a, scale, "specReplicasPath");
        r->scale_status = text(a, scale, "statusReplicasPath");
        r->scale_selector =
            api_str(scale, "labelSelectorPath").n ? text(a, scale, "labelSelectorPath") : NULL;
    }
}

static struct api_crd *crd_new(const struct sw_json *obj, uint64_t revision)
{
    struct api_crd *c = SW_NEW(struct api_crd);
    const struct sw_json *crd = sw_json_copy(&c->arena, obj);
    const struct sw_json *spec = sw_json_find(crd, "spec");
    const struct sw_json *versions = sw_json_find(spec, "versions");

    c->refs = 1;
    c->revision = revision;
    c->name = text(&c->arena, sw_json_find(crd, "metadata"), "name");
    c->uid = text(&c->arena, sw_json_find(crd, "metadata"), "uid");
    c->group = text(&c->arena, spec, "group");
    c->plural = text(&c->arena, sw_json_find(spec, "names"), "plural");
    c->established = condition_is(crd, "Established");
    c->terminating = sw_json_walk(crd, "metadata", "deletionTimestamp", NULL) != NULL;
    c->n = sw_json_len(versions);
    c->vers = sw_arena_array(&c->arena, c->n + 1, sizeof(*c->vers));
    c->sets = sw_arena_array(&c->arena, c->n + 1, sizeof(*c->sets));
    c->ready = sw_arena_array(&c->arena, c->n + 1, sizeof(*c->ready));
    c->same_schemas = true;
    c->by_webhook = sw_json_str_eq(sw_json_walk(spec, "conversion", "strategy", NULL), "Webhook");
    c->spec = spec;
    for (size_t i = 0; i < c->n; i++) {
        fill_version(c, i, crd, sw_json_at(versions, i));
        if (i && !sw_json_equal(c->vers[i].raw, c->vers[0].raw, SW_JSON_EQ_VALUE))
            c->same_schemas = false;
    }
    return c;
}

static const struct api_res *crd_res(struct sw_api *api)
{
    return api_registry_v1(&api->reg, "apiextensions.k8s.io", "customresourcedefinitions");
}

/* The names in use are those accepted, which are not always those of the spec. */
static bool same_names(const struct api_crd *a, const struct api_crd *b)
{
    return a->n == b->n && (!a->n || (strcmp(a->vers[0].kind, b->vers[0].kind) == 0 &&
                                      strcmp(a->vers[0].list_kind, b->vers[0].list_kind) == 0 &&
                                      strcmp(a->vers[0].singular, b->vers[0].singular) == 0 &&
                                      strcmp(a->vers[0].short_names, b->vers[0].short_names) == 0));
}

/* Only what is not part of the spec changed: objects and open watches stay as they are. */
static bool same_service(const struct api_crd *a, const struct api_crd *b)
{
    return sw_json_equal(a->spec, b->spec, SW_JSON_EQ_VALUE) && same_names(a, b);
}

static void on_retried(struct api_req *r, int code, const struct sw_json *answer)
{
}

/* Names of a group are free again: CRDs that waited for them are checked once more. */
static void retry_names(struct sw_api *api, const char *group)
{
    SW_ARENA_AUTO tmp = {0};

    SW_MAP_EACH (const struct api_crd, c, &api->reg.crds) {
        if (strcmp(c->group, group) == 0 && !c->established && !c->terminating)
            (void)api_internal(api,
                               &(struct api_internal_request){.verb = API_PATCH,
                                                              .res = crd_res(api),
                                                              .ns = sw_slice("", 0),
                                                              .name = sw_slice_str(c->name),
                                                              .body = sw_json_new_object(&tmp)},
                               on_retried, NULL);
    }
}

void api_crd_changed(struct sw_api *api, struct sw_slice name)
{
    SW_ARENA_AUTO tmp = {0};
    const struct api_res *res = crd_res(api);
    struct sw_store_obj *o = sw_store_get(api->store, api_key(&tmp, res, sw_slice("", 0), name));
    struct api_crd *old = sw_map_get(&api->reg.crds, name);
    struct api_crd *fresh = o ? crd_new(api_load(&tmp, res, o), o->revision) : NULL;

    if (o)
        sw_store_obj_unref(o);
    if (old && fresh && same_service(old, fresh)) {
        bool changed =
            old->established != fresh->established || old->terminating != fresh->terminating;

        old->established = fresh->established;
        old->terminating = fresh->terminating;
        api_crd_unref(fresh);
        if (changed)
            api->reg.generation++;
        return;
    }
    if (old)
        api_crd_ref(old);
    api_registry_set_crd(&api->reg, name, fresh);
    if (old) {
        api_watches_end(api, old);
        if (!fresh)
            retry_names(api, old->group);
        api_crd_unref(old);
    }
}

void api_crds_load(struct sw_api *api)
{
    SW_STORE_SNAP_AUTO snap = sw_store_snapshot(api->store);
    const struct api_res *res = crd_res(api);

    SW_STORE_EACH (o, snap, sw_slice_str(res->prefix)) {
        SW_ARENA_AUTO tmp = {0};
        struct sw_json *obj = api_load(&tmp, res, o);
        struct api_crd *c = obj ? crd_new(obj, o->revision) : NULL;

        if (c)
            api_registry_set_crd(&api->reg, sw_slice_str(c->name), c);
    }
}

/* --- status ----------------------------------------------------------------------------- */

/* A name that another CRD of the group has already; kinds and resources are apart. */
static bool in_use(struct api_req *r, const struct sw_json *crd, struct sw_slice name, bool kinds)
{
    struct sw_slice group = sw_json_str(sw_json_walk(crd, "spec", "group", NULL));
    struct sw_slice self = api_meta_str(crd, "name");

    SW_MAP_EACH (const struct api_crd, c, &r->api->reg.crds) {
        struct sw_slice rest;

        if (!sw_slice_eq_str(group, c->group) || sw_slice_eq_str(self, c->name) || c->n == 0 ||
            !c->established)
            continue;
        if (kinds &&
            (sw_slice_eq_str(name, c->vers[0].kind) || sw_slice_eq_str(name, c->vers[0].list_kind)))
            return true;
        if (kinds)
            continue;
        if (sw_slice_eq_str(name, c->plural) || sw_slice_eq_str(name, c->vers[0].singular))
            return true;
        for (rest = sw_slice_str(c->vers[0].short_names); rest.p && rest.n;) {
            if (sw_slice_eq(sw_slice_cut(&rest, ','), name))
                return true;
        }
    }
    return false;
}

static const char *used_text(struct api_req *r, struct sw_slice name)
{
    return sw_arena_printf(r->arena, "\"%.*s\" is already in use", SW_SLICE_ARG(name));
}

/* Short names are taken all or none. NULL, or what stands against them. */
static const char *short_conflict(struct api_req *r, const struct sw_json *crd,
                                  const struct sw_json *want, const struct sw_json *have)
{
    struct sw_texts taken = {.arena = r->arena};

    SW_JSON_ITEMS (it, want) {
        struct sw_slice name = sw_json_str(it);

        if (!sw_field_list_has(have, name) && in_use(r, crd, name, false))
            sw_texts_add(&taken, used_text(r, name));
    }
    if (taken.n > 1)
        return sw_arena_printf(r->arena, "[%s]", sw_texts_join(&taken));
    return taken.n ? taken.p[0] : NULL;
}

/*
 * Accepts every name that no other CRD has. NULL when that is all of them, else the message about
 * the last that is taken, and its reason.
 */
static const char *accept_names(struct api_req *r, const struct sw_json *crd,
                                struct sw_json *accepted, const char **ret_reason)
{
    static const struct {
        const char *key;
        const char *reason;
        bool kind;
    } keys[] = {{"plural", "PluralConflict", false},
                {"singular", "SingularConflict", false},
                {"shortNames", "ShortNamesConflict", false},
                {"kind", "KindConflict", true},
                {"listKind", "ListKindConflict", true}};
    const struct sw_json *names = sw_json_walk(crd, "spec", "names", NULL);
    const struct sw_json *categories = sw_json_find(names, "categories");
    const char *conflict = NULL;

    for (size_t i = 0; i < SW_ARRAY_LEN(keys); i++) {
        const struct sw_json *want = sw_json_find(names, keys[i].key);
        const struct sw_json *have = sw_json_find(accepted, keys[i].key);
        const char *why = NULL;

        if (i == 2)
            why = short_conflict(r, crd, want, have);
        else if (want && !sw_json_equal(want, have, SW_JSON_EQ_VALUE) &&
                 in_use(r, crd, sw_json_str(want), keys[i].kind))
            why = used_text(r, sw_json_str(want));
        if (why) {
            conflict = why;
            *ret_reason = keys[i].reason;
        } else if (want) {
            sw_json_put(r->arena, accepted, keys[i].key, sw_json_copy(r->arena, want));
        } else {
            (void)sw_json_remove(accepted, sw_slice_str(keys[i].key));
        }
    }
    if (categories)
        sw_json_put(r->arena, accepted, "categories", sw_json_copy(r->arena, categories));
    else
        (void)sw_json_remove(accepted, SW_SLICE_LIT("categories"));
    return conflict;
}

static void settle_stored(struct api_req *r, struct sw_json *crd, struct sw_json *status)
{
    struct sw_arena *a = r->arena;
    const struct sw_json *versions = sw_json_walk(crd, "spec", "versions", NULL);
    struct sw_json *stored = sw_json_need(a, status, "storedVersions", SW_JSON_ARRAY);

    SW_JSON_ITEMS (v, versions) {
        if (sw_json_true(sw_json_find(v, "storage")) &&
            !sw_field_list_has(stored, api_str(v, "name")))
            sw_json_push(a, stored, sw_json_new_string(a, api_str(v, "name")));
    }
}

/*
 * CRDs in groups of the Kubernetes community (*.k8s.io) carry the annotation of their approval; its
 * absence was refused before.
 */
static void settle_approval(struct api_req *r, const struct sw_json *crd, struct sw_json *status)
{
    struct sw_slice group = sw_json_str(sw_json_walk(crd, "spec", "group", NULL));
    struct sw_slice text = sw_json_str(
        sw_json_walk(crd, "metadata", "annotations", "api-approved.kubernetes.io", NULL));

    if (!text.n || (!sw_slice_has_suffix(group, SW_SLICE_LIT(".k8s.io")) &&
                    !sw_slice_has_suffix(group, SW_SLICE_LIT(".kubernetes.io")) &&
                    !sw_slice_eq_str(group, "k8s.io") && !sw_slice_eq_str(group, "kubernetes.io")))
        return;
    if (sw_slice_has_prefix(text, SW_SLICE_LIT("unapproved")))
        (void)api_set_condition(
            r->arena, status, "KubernetesAPIApprovalPolicyConformant", false,
            "UnapprovedAnnotation",
            sw_arena_printf(r->arena, "not approved: %s", sw_go_quote(r->arena, text)));
    else
        (void)api_set_condition(r->arena, status, "KubernetesAPIApprovalPolicyConformant", true,
                                "ApprovedAnnotation",
                                sw_arena_printf(r->arena, "approved in %.*s", SW_SLICE_ARG(text)));
}

void api_crd_settle(struct api_req *r, struct sw_json *crd, const struct sw_json *old)
{
    struct sw_arena *a = r->arena;
    struct sw_json *status = sw_json_find(crd, "status");
    struct sw_json *accepted;
    const char *reason = "";
    const char *conflict;
    bool was = old && condition_is(old, "Established");

    if (sw_slice_eq_str(r->sub, "status"))
        return;
    status = sw_json_is(status, SW_JSON_OBJECT) ? sw_json_copy(a, status) : sw_json_new_object(a);
    settle_stored(r, crd, status);
    settle_approval(r, crd, status);
    accepted = sw_json_find(status, "acceptedNames");
    if (!sw_json_is(accepted, SW_JSON_OBJECT)) {
        accepted = SW_JSON_OF(a, {"plural", .str = ""}, {"kind", .str = ""});
        sw_json_put(a, status, "acceptedNames", accepted);
    }
    conflict = accept_names(r, crd, accepted, &reason);
    if (conflict) {
        (void)api_set_condition(a, status, "NamesAccepted", false, reason, conflict);
        if (!was)
            (void)api_set_condition(a, status, "Established", false, "NotAccepted",
                                    "not all names are accepted");
    } else {
        (void)api_set_condition(a, status, "NamesAccepted", true, "NoConflicts",
                                "no conflicts found");
        if (!was)
            (void)api_set_condition(a, status, "Established", true, "InitialNamesAccepted",
                                    "the initial names have been accepted");
    }
    sw_json_put(a, crd, "status", status);
}

/* --- validity --------------------------------------------------------------------------- */

void api_crd_validate(struct api_req *r, const struct sw_json *crd, const struct sw_json *old,
                      struct sw_field_errs *e)
{
    if (!sw_slice_eq_str(r->sub, "status"))
        sw_crd_free(sw_crd_compile(crd, old, e));
}
