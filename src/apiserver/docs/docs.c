/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery in both forms, version, health, and the other paths that are no resources. */
#include "apiserver/docs/docs.h"
#include "apiserver/docs/docs_int.h"

#include <stdio.h>
#include <string.h>

#include "apiserver/api/api.h"
#include "base/base64.h"
#include "base/mem.h"
#include "base/time.h"
#include "tls/crypto/jws.h"

struct api_docs *api_docs_new(void)
{
    return SW_NEW(struct api_docs);
}

void api_docs_free(struct api_docs *d)
{
    if (!d)
        return;
    sw_arena_clear(&d->arena);
    sw_free(d);
}

void api_docs_refresh(struct sw_api *api)
{
    struct api_docs *d = api->docs;

    if (d->generation == api->reg.generation)
        return;
    sw_arena_clear(&d->arena);
    *d = (struct api_docs){.generation = api->reg.generation};
}

/* --- pieces ----------------------------------------------------------------------------- */

static struct sw_json *verbs_json(struct sw_arena *a, unsigned verbs)
{
    static const struct {
        unsigned bit;
        const char *name;
    } all[] = {{SW_VERB_CREATE, "create"},
               {SW_VERB_DELETE, "delete"},
               {SW_VERB_DELETECOLLECTION, "deletecollection"},
               {SW_VERB_GET, "get"},
               {SW_VERB_LIST, "list"},
               {SW_VERB_PATCH, "patch"},
               {SW_VERB_UPDATE, "update"},
               {SW_VERB_WATCH, "watch"}};
    struct sw_json *v = sw_json_new_array(a);

    for (size_t i = 0; i < SW_ARRAY_LEN(all); i++) {
        if (verbs & all[i].bit)
            sw_json_push(a, v, sw_json_new_str(a, all[i].name));
    }
    return v;
}

/* Words that commas separate; NULL: none. */
static struct sw_json *texts_json(struct sw_arena *a, const char *list)
{
    struct sw_slice rest = sw_slice_str(list);
    struct sw_json *l = sw_json_new_array(a);

    if (!list || !*list)
        return NULL;
    while (rest.p)
        sw_json_push(a, l, sw_json_new_string(a, sw_slice_cut(&rest, ',')));
    return l;
}

/* The subresources of a resource; the list ends without a name. */
static const struct sw_builtin_sub *subs_of(const struct api_res *res)
{
    enum { RW = SW_VERB_GET | SW_VERB_PATCH | SW_VERB_UPDATE };
    static const struct sw_builtin_sub none = {0};
    static const struct sw_builtin_sub custom[] = {
        {"status", NULL, NULL, NULL, RW},
        {"scale", "autoscaling", "v1", "Scale", RW},
        {0},
        {"status", NULL, NULL, NULL, RW},
        {0},
    };

    if (res->builtin)
        return res->builtin->subs ? res->builtin->subs : &none;
    if (res->has_status)
        return res->has_scale ? &custom[0] : &custom[3];
    return res->has_scale ? &custom[1] : &none;
}

/* --- aggregated ------------------------------------------------------------------------- */

struct aggregate {
    struct sw_arena *a;
    struct sw_json *items;
    struct sw_json *group;
    struct sw_json *version;
    const struct api_res *last; /* the one before */
    bool core;
};

static struct sw_json *kind_json(struct sw_arena *a, const char *group, const char *version,
                                 const char *kind)
{
    return SW_JSON_OF(a, {"group", .str = group}, {"version", .str = version},
                      {"kind", .str = kind});
}

static void begin_version(struct aggregate *g, const struct api_res *res)
{
    struct sw_arena *a = g->a;

    if (!g->last || strcmp(g->last->group, res->group) != 0) {
        struct sw_json *m = SW_JSON_OF(a, {"name", .some = sw_slice_str(res->group)},
                                       {"creationTimestamp", .json = sw_json_new_null(a)});

        g->group =
            SW_JSON_OF(a, {"metadata", .json = m}, {"versions", .json = sw_json_new_array(a)});
        sw_json_push(a, g->items, g->group);
        g->version = NULL;
    }
    if (!g->version || strcmp(g->last->version, res->version) != 0) {
        g->version = SW_JSON_OF(a, {"version", .str = res->version},
                                {"resources", .json = sw_json_new_array(a)},
                                {"freshness", .str = "Current"});
        sw_json_push(a, sw_json_find(g->group, "versions"), g->version);
    }
    g->last = res;
}

static void add_aggregated(const struct api_res *res, void *arg)
{
    struct aggregate *g = arg;
    struct sw_arena *a = g->a;
    struct sw_json *subs = sw_json_new_array(a);

    if ((*res->group == 0) != g->core)
        return;
    begin_version(g, res);
    for (const struct sw_builtin_sub *s = subs_of(res); s->name; s++) {
        struct sw_json *kind =
            kind_json(a, s->group ? s->group : res->group, s->version ? s->version : res->version,
                      s->kind ? s->kind : res->kind);

        sw_json_push(a, subs,
                     SW_JSON_OF(a, {"subresource", .str = s->name}, {"responseKind", .json = kind},
                                {"verbs", .json = verbs_json(a, s->verbs)}));
    }
    sw_json_push(
        a, sw_json_find(g->version, "resources"),
        SW_JSON_OF(a, {"resource", .str = res->plural},
                   {"responseKind", .json = kind_json(a, res->group, res->version, res->kind)},
                   {"scope", .str = res->namespaced ? "Namespaced" : "Cluster"},
                   {"singularResource", .str = res->singular},
                   {"verbs", .json = verbs_json(a, res->verbs)},
                   {"shortNames", .json = texts_json(a, res->short_names)},
                   {"categories", .json = texts_json(a, res->categories)},
                   {"subresources", .json = sw_json_len(subs) ? subs : NULL}));
}

static void make_aggregated(struct sw_api *api, bool core)
{
    struct api_docs *d = api->docs;
    struct sw_arena *a = &d->arena;
    struct aggregate g = {.a = a, .items = sw_json_new_array(a), .core = core};
    struct api_doc *doc = core ? &d->agg_core : &d->agg_groups;

    if (doc->text.p)
        return;
    api_registry_each(&api->reg, add_aggregated, &g);
    doc->text = sw_json_text(a,
                             SW_JSON_OF(a, {"kind", .str = "APIGroupDiscoveryList"},
                                        {"apiVersion", .str = "apidiscovery.k8s.io/v2"},
                                        {"metadata", .json = sw_json_new_object(a)},
                                        {"items", .json = g.items}),
                             NULL);
    api_doc_tag(a, doc);
}

void api_doc_tag(struct sw_arena *a, struct api_doc *doc)
{
    uint8_t h[64];
    char *hex = sw_arena_alloc(a, 2 * sizeof(h) + 1);

    sw_digest_sha512(doc->text, h);
    for (size_t i = 0; i < sizeof(h); i++)
        (void)snprintf(hex + 2 * i, 3, "%02X", h[i]);
    doc->hash = sw_slice_str(hex);
}

void api_doc_reply(struct api_req *r, const struct api_doc *doc, const char *content_type)
{
    struct sw_slice have = sw_xchg_field(r->x, "if-none-match");
    const char *tag = sw_arena_printf(r->arena, "\"%.*s\"", SW_SLICE_ARG(doc->hash));
    struct sw_buf b = {.max = doc->text.n + 1};

    sw_xchg_set(r->x, "ETag", sw_slice_str(tag));
    if (sw_slice_eq_str(have, tag)) {
        api_reply_buf(r, 304, NULL, &b);
        return;
    }
    if (sw_buf_append_slice(&b, doc->text) != SW_OK)
        sw_buf_clear(&b);
    api_reply_buf(r, 200, content_type, &b);
}

/* --- legacy ----------------------------------------------------------------------------- */

struct legacy {
    struct sw_arena *a;
    struct sw_json *groups; /* /apis */
    struct sw_json *group;
    const struct api_res *last; /* the one before */
    struct sw_slice want_group;
    struct sw_slice want_version;
    struct sw_json *resources; /* /apis/g/v */
};

static struct sw_json *gv_json(struct sw_arena *a, const struct api_res *res)
{
    return SW_JSON_OF(a, {"groupVersion", .str = res->api_version},
                      {"version", .str = res->version});
}

static void add_group(const struct api_res *res, void *arg)
{
    struct legacy *l = arg;
    struct sw_arena *a = l->a;

    if (!*res->group)
        return;
    if (!l->last || strcmp(l->last->group, res->group) != 0) {
        l->last = NULL;
        l->group =
            SW_JSON_OF(a, {"name", .str = res->group}, {"versions", .json = sw_json_new_array(a)},
                       {"preferredVersion", .json = gv_json(a, res)});
        sw_json_push(a, l->groups, l->group);
    }
    if (!l->last || strcmp(l->last->version, res->version) != 0)
        sw_json_push(a, sw_json_find(l->group, "versions"), gv_json(a, res));
    l->last = res;
}

static const char *storage_hash(struct sw_arena *a, const struct api_res *res)
{
    uint8_t h[32];
    SW_BUF_AUTO b = {.max = 64};

    sw_digest_sha256(
        sw_slice_str(sw_arena_printf(a, "%s/%s/%s", res->group, res->version, res->kind)), h);
    if (sw_base64_append(&b, sw_slice(h, 8)) != SW_OK)
        return "";
    return sw_arena_dup(a, sw_buf_slice(&b));
}

static void add_resource(const struct api_res *res, void *arg)
{
    struct legacy *l = arg;
    struct sw_arena *a = l->a;
    bool stored = !(res->flags & SW_B_NOT_STORED);

    if (!sw_slice_eq_str(l->want_group, res->group) ||
        !sw_slice_eq_str(l->want_version, res->version))
        return;
    sw_json_push(a, l->resources,
                 SW_JSON_OF(a, {"name", .str = res->plural}, {"singularName", .str = res->singular},
                            {"namespaced", .json = sw_json_new_bool(a, res->namespaced)},
                            {"kind", .str = res->kind},
                            {"verbs", .json = verbs_json(a, res->verbs)},
                            {"shortNames", .json = texts_json(a, res->short_names)},
                            {"categories", .json = texts_json(a, res->categories)},
                            {"storageVersionHash", .str = stored ? storage_hash(a, res) : NULL}));
    for (const struct sw_builtin_sub *s = subs_of(res); s->name; s++) {
        bool other = s->group && *s->group;

        sw_json_push(a, l->resources,
                     SW_JSON_OF(a,
                                {"name", .str = sw_arena_printf(a, "%s/%s", res->plural, s->name)},
                                {"singularName", .str = ""},
                                {"namespaced", .json = sw_json_new_bool(a, res->namespaced)},
                                {"group", .str = other ? s->group : NULL},
                                {"version", .str = other ? s->version : NULL},
                                {"kind", .str = s->kind ? s->kind : res->kind},
                                {"verbs", .json = verbs_json(a, s->verbs)}));
    }
}

static void legacy_core(struct api_req *r)
{
    struct sw_arena *a = r->arena;
    struct sw_json *address = SW_JSON_OF(a, {"clientCIDR", .str = "0.0.0.0/0"},
                                         {"serverAddress", .str = r->api->advertise});
    struct sw_json *versions = sw_json_new_list(a, sw_json_new_str(a, "v1"));

    api_reply(r, 200,
              SW_JSON_OF(a, {"kind", .str = "APIVersions"}, {"versions", .json = versions},
                         {"serverAddressByClientCIDRs", .json = sw_json_new_list(a, address)}));
}

static void legacy_groups(struct api_req *r, struct sw_slice only)
{
    struct sw_arena *a = r->arena;
    struct legacy l = {.a = a, .groups = sw_json_new_array(a)};

    api_registry_each(&r->api->reg, add_group, &l);
    if (only.p) {
        SW_JSON_ITEMS (g, l.groups) {
            if (!sw_slice_eq(api_str(g, "name"), only))
                continue;
            sw_json_insert(a, g, 0, SW_SLICE_LIT("kind"), sw_json_new_str(a, "APIGroup"));
            sw_json_insert(a, g, 1, SW_SLICE_LIT("apiVersion"), sw_json_new_str(a, "v1"));
            api_reply(r, 200, g);
            return;
        }
        api_no_such_resource(r);
        return;
    }
    api_reply(r, 200,
              SW_JSON_OF(a, {"kind", .str = "APIGroupList"}, {"apiVersion", .str = "v1"},
                         {"groups", .json = l.groups}));
}

static void legacy_resources(struct api_req *r, struct sw_slice group, struct sw_slice version)
{
    struct sw_arena *a = r->arena;
    struct legacy l = {
        .a = a, .want_group = group, .want_version = version, .resources = sw_json_new_array(a)};
    const char *name = sw_arena_printf(a, "%.*s%s%.*s", SW_SLICE_ARG(group), group.n ? "/" : "",
                                       SW_SLICE_ARG(version));

    if (!api_registry_has_group(&r->api->reg, group, version)) {
        api_no_such_resource(r);
        return;
    }
    api_registry_each(&r->api->reg, add_resource, &l);
    api_reply(r, 200,
              SW_JSON_OF(a, {"kind", .str = "APIResourceList"},
                         {"apiVersion", .str = group.n ? "v1" : NULL},
                         {"groupVersion", .str = name}, {"resources", .json = l.resources}));
}

static bool wants_aggregated(const struct api_req *r)
{
    struct sw_slice accept = sw_xchg_field(r->x, "accept");

    while (accept.p) {
        struct sw_slice c = sw_slice_cut(&accept, ',');
        bool as = memmem(c.p, c.n, "as=APIGroupDiscoveryList", 24) != NULL;
        bool v2 = memmem(c.p, c.n, "v=v2;", 5) ||
                  sw_slice_has_suffix(sw_slice_trim(c), SW_SLICE_LIT("v=v2"));

        if (as && v2 && memmem(c.p, c.n, "application/json", 16))
            return true;
        if (!as && (memmem(c.p, c.n, "application/json", 16) || memmem(c.p, c.n, "*/*", 3)))
            return false;
    }
    return false;
}

void api_discovery(struct api_req *r)
{
    bool core = sw_slice_eq_str(r->path_segments.rest[0], "api");

    if (r->path_segments.n == 1 && wants_aggregated(r)) {
        api_docs_refresh(r->api);
        make_aggregated(r->api, core);
        sw_xchg_set(r->x, "Vary", SW_SLICE_LIT("Accept"));
        sw_xchg_set(r->x, "Cache-Control", SW_SLICE_LIT("public"));
        api_doc_reply(r, core ? &r->api->docs->agg_core : &r->api->docs->agg_groups,
                      "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
        return;
    }
    if (r->path_segments.n == 1 && core)
        legacy_core(r);
    else if (r->path_segments.n == 1)
        legacy_groups(r, sw_slice(NULL, 0));
    else if (r->path_segments.n == 2 && core)
        legacy_resources(r, sw_slice("", 0), r->path_segments.rest[1]);
    else if (r->path_segments.n == 2)
        legacy_groups(r, r->path_segments.rest[1]);
    else if (r->path_segments.n == 3 && !core)
        legacy_resources(r, r->path_segments.rest[1], r->path_segments.rest[2]);
    else
        api_no_such_resource(r);
}
